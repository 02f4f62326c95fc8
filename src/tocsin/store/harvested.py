"""What a visit to a source brings: each item once, however often it is seen and whenever the process dies.

An item is known by its source's key and its own; what became of it is noted in the transaction that accepts its
document and moves the source on, so a process that is killed neither loses an item nor brings it twice.

Near-identical text is found by MinHash (Broder 1997): items that share a band of their sketches are compared, and
are twins if enough of their sketches agree. Sketches are kept for the window in which twins are looked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sqlalchemy import Connection, Table, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.model import Document
from tocsin.store import documents, journal
from tocsin.store.connect import Store, head
from tocsin.store.outbox import Letter, refuse
from tocsin.store.sources import GONE, TOLD, TWIN, Source, bands, harvested, is_same, set_in, sketches
from tocsin.store.sources import table as own

LOOKED_UP = 500  # keys in one question to the database
Key = TypeVar("Key")


class Sketch(NamedTuple):
    """What is kept of a text to find others like it."""

    values: bytes
    """Unsigned numbers of 32 bits; the share that two texts have in common estimates how alike they are."""
    bands: tuple[int, ...]
    """Two texts are compared if they share one of these."""


class Item(NamedTuple):
    """Something that a source has: a document, or the news that it was deleted."""

    key: bytes
    id: str
    document: Document | None
    mark: bytes = b""
    sketch: Sketch | None = None


@dataclass(frozen=True, slots=True)
class Near:
    """When two texts are the same: this share of their sketches agrees, and both came within the window."""

    share: float = 0.9
    window_seconds: float = 0.0


@dataclass
class Arrived:
    """What became of items."""

    new: int = 0
    updated: int = 0
    repeated: int = 0
    twins: int = 0
    deleted: int = 0
    refused: list[str] = field(default_factory=list)
    """Why, for each."""

    @property
    def told(self) -> int:
        """Documents that were accepted."""
        return self.new + self.updated

    def add(self, other: Arrived) -> None:
        """Counts the others in."""
        self.new += other.new
        self.updated += other.updated
        self.repeated += other.repeated
        self.twins += other.twins
        self.deleted += other.deleted
        self.refused += other.refused


def arrive(
    store: Store, source: Source, items: Sequence[Item], near: Near, progress: Mapping[str, Any] | None = None
) -> Arrived | None:
    """Accepts what is new of the items, and moves the source on, in one transaction.

    None if the source is gone, or has moved: then nothing is accepted.

    A known item with the same words is a repeat. With other words it is a new version of its document, unless they
    are nearly the same. A new item that is nearly the same as one within the window becomes no document.
    """
    now = time.time()
    with store.write() as transaction:
        head(transaction)  # nobody else may look the items up until these are noted
        if transaction.execute(select(own.c.number).where(is_same(source))).first() is None:
            return None
        visit = _Visit(transaction, source, near, now)
        visit.take(items)
        found = visit.write()
        values = {"documents": own.c.documents + found.told, "twins": own.c.twins + found.twins}
        transaction.execute(update(own).where(own.c.number == source.number).values(**values))
        told = {"brought": now} if found.told or found.deleted else {}
        if told or progress:
            set_in(transaction, source.number, {**told, **(progress or {})})
        return found


class _Known(NamedTuple):
    version: int
    mark: bytes
    state: int


class _Sketched(NamedTuple):
    source: str
    item: bytes
    values: bytes


class _Visit:
    """The items of one transaction: looked up together, decided one by one, written together."""

    def __init__(self, transaction: Connection, source: Source, near: Near, now: float) -> None:
        self._transaction, self._source, self._near, self._now = transaction, source, near, now
        self._found = Arrived()
        self._known: dict[bytes, _Known] = {}
        self._own: dict[bytes, bytes] = {}
        """The sketches of known items of this source."""
        self._alike: dict[int, list[_Sketched]] = {}
        """Sketches by band."""
        self._noted: dict[bytes, tuple[Item, _Known]] = {}
        self._documents: list[tuple[Item, Document, bool]] = []
        self._deleted: dict[str, None] = {}
        """Their ids, in order."""

    def take(self, items: Sequence[Item]) -> None:
        keys = sorted({item.key for item in items})
        for chunk in _chunks(keys):
            here = (harvested.c.source == self._source.key) & harvested.c.item.in_(chunk)
            for row in self._transaction.execute(select(harvested).where(here)):
                self._known[bytes(row.item)] = _Known(row.version, bytes(row.mark), row.state)
        # Only what is not a plain repeat is compared.
        fresh = [item for item in items if item.document is not None and not self._is_repeat(item)]
        if self._near.window_seconds > 0:
            self._look_up(fresh)
        for item in items:
            self._decide(item)

    def _is_repeat(self, item: Item) -> bool:
        known = self._known.get(item.key)
        return known is not None and known.mark == item.mark and known.state != GONE

    def _look_up(self, items: Sequence[Item]) -> None:
        since = self._now - self._near.window_seconds
        wanted = sorted({band for item in items if item.sketch for band in item.sketch.bands})
        joined = (sketches.c.source == bands.c.source) & (sketches.c.item == bands.c.item)
        asked = select(bands.c.band, sketches.c.source, sketches.c.item, sketches.c.sketch).join(sketches, joined)
        for chunk in _chunks(wanted):
            for row in self._transaction.execute(asked.where(bands.c.band.in_(chunk) & (bands.c.at >= since))):
                self._alike.setdefault(row.band, []).append(_Sketched(row.source, bytes(row.item), bytes(row.sketch)))
        for some in _chunks(sorted({item.key for item in items})):
            here = (sketches.c.source == self._source.key) & sketches.c.item.in_(some)
            for key, sketch in self._transaction.execute(select(sketches.c.item, sketches.c.sketch).where(here)):
                self._own[bytes(key)] = bytes(sketch)

    def _decide(self, item: Item) -> None:
        known = self._known.get(item.key)
        if item.document is None:
            if known is not None and known.state != GONE:
                self._deleted[item.id] = None
                self._note(item, _Known(known.version, known.mark, GONE))
                self._found.deleted += known.state == TOLD
            return
        if self._is_repeat(item):
            self._found.repeated += 1
            return
        if known is not None and known.state == TOLD:
            former = self._own.get(item.key)
            if (
                former is not None
                and item.sketch is not None
                and agreement(former, item.sketch.values) >= self._near.share
            ):
                self._found.repeated += 1
                return
            self._tell(item, known.version + 1, is_new=False)
        elif self._has_twin(item):
            self._found.twins += 1
            self._note(item, _Known(known.version if known else 0, item.mark, TWIN))
        else:
            self._tell(item, known.version + 1 if known else 1, is_new=known is None)

    def _has_twin(self, item: Item) -> bool:
        if item.sketch is None or self._near.window_seconds <= 0:
            return False
        others = {other for band in item.sketch.bands for other in self._alike.get(band, ())}
        return any(
            agreement(item.sketch.values, other.values) >= self._near.share
            for other in others
            if not self._is_gone(other)
        )

    def _is_gone(self, other: _Sketched) -> bool:
        """Was it deleted in this very visit? What was before has no sketch any more."""
        known = self._known.get(other.item) if other.source == self._source.key else None
        return known is not None and known.state == GONE

    def _tell(self, item: Item, version: int, is_new: bool) -> None:
        assert item.document is not None
        document = replace(item.document, version=version)
        self._documents.append((item, document, is_new))
        self._deleted.pop(item.id, None)  # it is back already
        self._note(item, _Known(version, item.mark, TOLD))
        if item.sketch is not None and self._near.window_seconds > 0:
            self._own[item.key] = item.sketch.values
            for band in item.sketch.bands:
                self._alike.setdefault(band, []).append(_Sketched(self._source.key, item.key, item.sketch.values))

    def _note(self, item: Item, known: _Known) -> None:
        self._known[item.key] = known
        self._noted[item.key] = (item, known)

    def write(self) -> Arrived:
        accepted = documents.accept_in(
            self._transaction, [document for _, document, _ in self._documents], self._source.account
        )
        letters = []
        for place, (item, document, is_new) in enumerate(self._documents):
            if place in accepted.refused:
                reason = accepted.refused[place].reason
                self._found.refused.append(reason)
                letters.append(Letter(f"{document.id} version {document.version}", reason))
                self._noted.pop(item.key, None)
            elif is_new:
                self._found.new += 1
            else:
                self._found.updated += 1
        refuse(self._transaction, f"harvest {self._source.key}", letters)
        for id in self._deleted:
            if documents.delete_in(self._transaction, id):  # the journal tells a ring to withdraw it
                journal.note_in(self._transaction, self._source.account, "delete document", id)
        self._write_items()
        return self._found

    def _write_items(self) -> None:
        if not self._noted:
            return
        key = self._source.key
        rows = [
            {
                "source": key,
                "item": item,
                "version": known.version,
                "mark": known.mark,
                "state": known.state,
                "at": self._now,
            }
            for item, (_, known) in self._noted.items()
        ]
        _put(self._transaction, harvested, rows, ("source", "item"))
        drawn = [
            (item, found.sketch)
            for item, (found, known) in self._noted.items()
            if found.sketch is not None and known.state == TOLD
        ]
        # What was deleted is nobody's twin, least of all its own when it comes back.
        gone = [item for item, (_, known) in self._noted.items() if known.state == GONE]
        for chunk in _chunks(gone):
            self._transaction.execute(delete(sketches).where((sketches.c.source == key) & sketches.c.item.in_(chunk)))
        for chunk in _chunks([*gone, *(item for item, _ in drawn)]):
            self._transaction.execute(delete(bands).where((bands.c.source == key) & bands.c.item.in_(chunk)))
        if not drawn or self._near.window_seconds <= 0:
            return
        kept = [{"source": key, "item": item, "sketch": sketch.values, "at": self._now} for item, sketch in drawn]
        _put(self._transaction, sketches, kept, ("source", "item"))
        cut = [
            {"band": band, "source": key, "item": item, "at": self._now}
            for item, sketch in drawn
            for band in dict.fromkeys(sketch.bands)
        ]
        self._transaction.execute(insert(bands), cut)


def agreement(one: bytes, other: bytes) -> float:
    """The share of two sketches that agrees: estimates the Jaccard coefficient of the texts."""
    if len(one) != len(other) or not one:
        return 0.0
    return float(np.mean(np.frombuffer(one, np.uint32) == np.frombuffer(other, np.uint32)))


def _put(transaction: Connection, into: Table, rows: list[dict[str, Any]], key: tuple[str, ...]) -> None:
    """Inserts rows, or replaces those of the same key."""
    insertion = postgresql.insert if transaction.dialect.name == "postgresql" else sqlite.insert
    new = insertion(into)
    values = {column.name: new.excluded[column.name] for column in into.c if column.name not in key}
    transaction.execute(new.on_conflict_do_update(index_elements=list(key), set_=values), rows)


def _chunks(keys: Sequence[Key]) -> Iterable[Sequence[Key]]:
    return (keys[first : first + LOOKED_UP] for first in range(0, len(keys), LOOKED_UP))


# --- files of a watched folder ---------------------------------------------------------------------------------------


def known_files(store: Store, source: Source, names: Mapping[str, bytes]) -> dict[str, bytes]:
    """What was noted of these files (by name, with their keys): a mark of their size and time."""
    found: dict[str, bytes] = {}
    by_key = {key: name for name, key in names.items()}
    with store.read() as transaction:
        for chunk in _chunks(sorted(by_key)):
            here = (harvested.c.source == source.key) & harvested.c.item.in_(chunk)
            for row in transaction.execute(select(harvested.c.item, harvested.c.mark).where(here)):
                found[by_key[bytes(row.item)]] = bytes(row.mark)
    return found


def arrive_from_file(
    store: Store,
    source: Source,
    located: Sequence[tuple[str, Document]],
    letters: Sequence[Letter],
    done: tuple[bytes, bytes] | None = None,
) -> Arrived | None:
    """Accepts (place, document) pairs with the ids and versions they have; `done` notes (key, mark) of a whole file."""
    now = time.time()
    with store.write() as transaction:
        head(transaction)
        if transaction.execute(select(own.c.number).where(is_same(source))).first() is None:
            return None
        accepted = documents.accept_in(transaction, [document for _, document in located], source.account)
        conflicts = [Letter(located[at][0], error.reason) for at, error in accepted.refused.items()]
        refuse(transaction, f"harvest {source.key}", [*letters, *conflicts])
        new = sum(position is not None for position in accepted.positions)
        found = Arrived(new=new, repeated=accepted.count - new, refused=[one.reason for one in (*letters, *conflicts)])
        if done is not None:
            row = {"source": source.key, "item": done[0], "version": 0, "mark": done[1], "state": TOLD, "at": now}
            _put(transaction, harvested, [row], ("source", "item"))
        if new:
            values: dict[str, Any] = {"documents": own.c.documents + new, "brought": now}
            transaction.execute(update(own).where(own.c.number == source.number).values(**values))
        return found


def forget_sketches(store: Store, before: float) -> int:
    """Drops the sketches that are older than the window; returns how many."""
    with store.write() as transaction:
        transaction.execute(delete(bands).where(bands.c.at < before))
        return int(transaction.execute(delete(sketches).where(sketches.c.at < before)).rowcount)
