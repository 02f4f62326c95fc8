"""The log of documents: accepted means stored, in an order that never changes.

The rule of versions is the contract's: the same again is ignored, a higher version replaces, anything else is
refused. A deleted document leaves its id, version and fingerprint behind, so that a late repeat is not news;
a higher version brings it back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from tocsin.dates import SECOND, moment
from tocsin.errors import DocumentError
from tocsin.intake import document_from_json, document_to_json, fingerprint, shown
from tocsin.model import Document
from tocsin.store import schema, sets
from tocsin.store.connect import Store, advance, head

MATCHING = "match"  # the job that matches the log against the subscriptions
LOOKED_UP = 500  # ids in one question to the database
table = schema.documents
COLUMNS = (table.c.position, table.c.id, table.c.version, table.c.moment, table.c.body)


class Stored(NamedTuple):
    """A document of the log."""

    position: int
    id: str
    version: int
    moment: float
    body: str

    def document(self) -> Document:
        """What was published."""
        return document_from_json(self.body)


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of the documents that were offered."""

    positions: list[int | None]
    """For each: its place in the log, or None if it is an identical repeat or was refused."""
    refused: dict[int, DocumentError]
    """By place among those that were offered."""

    @property
    def count(self) -> int:
        """How many are stored now: the new ones, and those that were before."""
        return len(self.positions) - len(self.refused)


def accept(store: Store, documents: Sequence[Document], account: str | None = None) -> Accepted:
    """Appends the documents to the log, in one transaction."""
    with store.write() as transaction:
        return accept_in(transaction, documents, account)


def accept_in(transaction: Connection, documents: Sequence[Document], account: str | None = None) -> Accepted:
    """The same, as a part of a transaction."""
    head(transaction)  # nobody else may append between looking the versions up and writing
    known = _known(transaction, {document.id for document in documents})
    now = time.time()
    refused: dict[int, DocumentError] = {}
    fresh: list[tuple[int, Document, bytes]] = []
    replaced: set[str] = set()
    for place, document in enumerate(documents):
        mark = fingerprint(document)
        try:
            is_new = _is_new(document, mark, known.get(document.id))
        except DocumentError as error:
            refused[place] = error
            continue
        if is_new:
            if document.id in known:
                replaced.add(document.id)
            known[document.id] = (document.version, mark, False)
            fresh.append((place, document, mark))
    positions: list[int | None] = [None] * len(documents)
    if not fresh:
        return Accepted(positions, refused)
    last, _ = advance(transaction, positions=len(fresh))
    ids = sorted(replaced)
    for first in range(0, len(ids), LOOKED_UP):
        old = table.c.id.in_(ids[first : first + LOOKED_UP]) & (table.c.state == schema.CURRENT)
        transaction.execute(update(table).where(old).values(state=schema.REPLACED))
    rows = []
    for position, (place, document, mark) in enumerate(fresh, last + 1):
        positions[place] = position
        is_last = known[document.id] == (document.version, mark, False)
        row = _row(position, document, mark) | {"accepted": now, "account": account}
        row["state"] = schema.CURRENT if is_last else schema.REPLACED
        row["moment"] = now if row["moment"] is None else row["moment"]
        rows.append(row)
    transaction.execute(insert(table), rows)
    return Accepted(positions, refused)


def _known(transaction: Connection, ids: set[str]) -> dict[str, tuple[int, bytes, bool]]:
    """For each id: its highest version, that version's fingerprint, and whether it was deleted."""
    ordered = sorted(ids)
    found: dict[str, tuple[int, bytes, bool]] = {}
    columns = (table.c.id, table.c.version, table.c.fingerprint, table.c.state)
    for first in range(0, len(ordered), LOOKED_UP):
        asked = select(*columns).where(table.c.id.in_(ordered[first : first + LOOKED_UP])).order_by(table.c.version)
        for id, version, mark, state in transaction.execute(asked):
            found[id] = (version, bytes(mark), state == schema.DELETED)
    return found


def _is_new(document: Document, mark: bytes, known: tuple[int, bytes, bool] | None) -> bool:
    if known is None:
        return True
    version, known_mark, is_deleted = known
    if document.version > version:
        return True
    if document.version == version and mark == known_mark and not is_deleted:
        return False
    if is_deleted:
        what = f"was deleted as version {version}"
    elif document.version < version:
        what = f"has version {document.version}, but version {version} came before"
    else:
        what = f"came before with version {version} and other content"
    raise DocumentError(f"{shown(document.id)} {what}: a new version needs a higher number")


def _row(position: int, document: Document, mark: bytes) -> dict[str, object]:
    said = None if document.time is None else moment(document.time)
    return {
        "position": position,
        "id": document.id,
        "version": document.version,
        "source": document.source,
        "moment": None if said is None else said / SECOND,
        "fingerprint": mark,
        "body": document_to_json(document),
    }


def delete(store: Store, id: str) -> bool:
    """Deletes a document, all versions; False if there is none of this id.

    What was accepted is matched all the same: the content stays until the pipeline has seen it.
    """
    with store.write() as transaction:
        head(transaction)
        return delete_in(transaction, id)


def delete_in(transaction: Connection, id: str) -> bool:
    """The same, as a part of a transaction that holds the log."""
    living = (table.c.id == id) & (table.c.state != schema.DELETED)
    gone = transaction.execute(update(table).where(living).values(state=schema.DELETED))
    sets.depart(transaction, id)
    erase(transaction, upto=matched(transaction), id=id)
    return bool(gone.rowcount)


def erase(transaction: Connection, upto: int, after: int = 0, id: str | None = None) -> None:
    """Takes out the content of deleted documents that were matched."""
    within = (table.c.position > after) & (table.c.position <= upto) & (table.c.state == schema.DELETED)
    which = within if id is None else within & (table.c.id == id)
    transaction.execute(update(table).where(which).values(body=None))


def matched(transaction: Connection) -> int:
    """The position up to which every document was matched and its matches are in the outbox."""
    done = (schema.batches.c.job == MATCHING) & (schema.batches.c.done.is_not(None))
    return int(transaction.execute(select(func.max(schema.batches.c.last)).where(done)).scalar() or 0)


# --- reading ---------------------------------------------------------------------------------------------------------


def last_position(store: Store) -> int:
    """Of the last accepted document."""
    with store.read() as transaction:
        return int(transaction.execute(select(schema.clock.c.position)).scalar_one())


def read(
    store: Store, after: int, upto: int, chunk: int = 1_000, *, since: float | None = None, until: float | None = None
) -> Iterator[list[Stored]]:
    """The documents of a range of positions, in order, without those whose content was taken out.

    With `since` and `until`: those whose moment is in [since, until).
    """
    while after < upto:
        within = (table.c.position > after) & (table.c.position <= upto)
        if since is not None:
            within &= table.c.moment >= since
        if until is not None:
            within &= table.c.moment < until
        asked = select(*COLUMNS).where(within).order_by(table.c.position).limit(chunk)
        with store.read() as transaction:
            rows = transaction.execute(asked).all()
        if not rows:
            return
        after = rows[-1].position
        if kept := [Stored(*row) for row in rows if row.body is not None]:
            yield kept


def read_in(transaction: Connection, after: int, upto: int, chunk: int = 1_000) -> Iterator[list[Stored]]:
    """The same of all time, as a part of a transaction."""
    while True:
        within = (table.c.position > after) & (table.c.position <= upto)
        rows = transaction.execute(select(*COLUMNS).where(within).order_by(table.c.position).limit(chunk)).all()
        if not rows:
            return
        after = rows[-1].position
        if kept := [Stored(*row) for row in rows if row.body is not None]:
            yield kept


def find(store: Store, id: str, version: int | None = None) -> Stored | None:
    """A document by its id: the version that is asked for, or the current one."""
    which = table.c.state == schema.CURRENT if version is None else table.c.version == version
    columns = (table.c.position, table.c.id, table.c.version, table.c.moment, table.c.body)
    with store.read() as transaction:
        row = transaction.execute(select(*columns).where((table.c.id == id) & which)).first()
    return None if row is None or row.body is None else Stored(*row)


def at_positions(store: Store, positions: Sequence[int]) -> dict[int, Stored]:
    """The documents at these positions, without those whose content was taken out."""
    columns = (table.c.position, table.c.id, table.c.version, table.c.moment, table.c.body)
    found: dict[int, Stored] = {}
    with store.read() as transaction:
        for first in range(0, len(positions), LOOKED_UP):
            asked = select(*columns).where(table.c.position.in_(positions[first : first + LOOKED_UP]))
            found.update((row.position, Stored(*row)) for row in transaction.execute(asked) if row.body is not None)
    return found


def moments(store: Store, positions: Sequence[int]) -> dict[int, float]:
    """When the documents at these positions were published, or accepted if they do not say."""
    found: dict[int, float] = {}
    with store.read() as transaction:
        for first in range(0, len(positions), LOOKED_UP):
            within = table.c.position.in_(positions[first : first + LOOKED_UP])
            for position, moment in transaction.execute(select(table.c.position, table.c.moment).where(within)):
                found[position] = moment
    return found


def moments_between(store: Store, after: int, upto: int) -> list[tuple[int, float]]:
    """(position, moment) of the documents of a range of the log."""
    within = (table.c.position > after) & (table.c.position <= upto)
    with store.read() as transaction:
        return [(row[0], row[1]) for row in transaction.execute(select(table.c.position, table.c.moment).where(within))]


def count(store: Store) -> int:
    """How many documents are current."""
    with store.read() as transaction:
        asked = select(func.count()).select_from(table).where(table.c.state == schema.CURRENT)
        return int(transaction.execute(asked).scalar_one())


def accepted_by(store: Store, moment: float) -> int:
    """The position of the last document that was accepted by then: positions and times grow together."""
    with store.read() as transaction:
        low, high = 0, int(transaction.execute(select(schema.clock.c.position)).scalar_one())
        while low < high:
            middle = (low + high + 1) // 2
            asked = select(table.c.accepted).where(table.c.position == middle)
            accepted = transaction.execute(asked).scalar()
            low, high = (middle, high) if accepted is not None and accepted <= moment else (low, middle - 1)
    return low


def sample(store: Store, after: int, upto: int, most: int) -> list[Stored]:
    """So many current documents of a range of positions, evenly spread."""
    count = min(most, upto - after)
    places = sorted({after + 1 + (upto - after) * number // count for number in range(count)}) if count > 0 else []
    columns = (table.c.position, table.c.id, table.c.version, table.c.moment, table.c.body)
    found: list[Stored] = []
    with store.read() as transaction:
        for first in range(0, len(places), LOOKED_UP):
            among = table.c.position.in_(places[first : first + LOOKED_UP]) & (table.c.state == schema.CURRENT)
            found += [
                Stored(*row) for row in transaction.execute(select(*columns).where(among)) if row.body is not None
            ]
    return found


def first_accepted(store: Store) -> float | None:
    """When the first document of the log was accepted."""
    with store.read() as transaction:
        asked = select(table.c.accepted).order_by(table.c.position).limit(1)
        return transaction.execute(asked).scalar()
