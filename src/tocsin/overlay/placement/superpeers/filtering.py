"""Continuous queries and publications at an access point (P2P-DIET §3, "Continuous Queries").

A query is forwarded to all super-peers unless another query of this access point covers it; it stands when all of them
have what stands for it. A publication is matched where it is published, against what others have forwarded; each access
point with a match is sent the metadata once, along the shortest path, and finds there which of its clients' queries
match, covered or not. The publication is done when every one of them says that its clients have heard or their disks
keep it, and when the client's advertisement is known everywhere.

Until then a publication is open, and is also matched with queries that are learnt meanwhile. So a client that moves
loses nothing: as long as its former access point has not settled a publication, its new one is told of it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial

import msgpack

from tocsin.errors import QueryError
from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.model import Document
from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Address
from tocsin.overlay.node import Effect, Handler, Seconds, Token
from tocsin.overlay.placement.superpeers.advertisements import advertisement
from tocsin.overlay.placement.superpeers.desk import Desk, KeptDocument, KeptQuery, Record
from tocsin.overlay.placement.superpeers.fields import FieldFiles
from tocsin.overlay.placement.superpeers.messages import (
    Advertise,
    Line,
    News,
    PublishAt,
    Subscribe,
    Tell,
    WithdrawAt,
)
from tocsin.overlay.placement.superpeers.poset import Change, Poset
from tocsin.overlay.placement.superpeers.sheet import Sheets
from tocsin.overlay.placement.superpeers.streams import Streams, Then
from tocsin.overlay.placement.superpeers.table import Arrived, QueryTable
from tocsin.query.ast import Query, nested
from tocsin.query.semantics import Knowledge
from tocsin.query.standing import parse_subscription
from tocsin.text import Analysis

CLOSED_MAX = 10_000
"""Publications that are remembered as done, for clients that did not hear it."""


@dataclass(slots=True)
class _Open:
    """A publication that is not done."""

    arrived: Arrived
    news: News
    number: int
    advertised: int
    """The line of the sheet that all super-peers must have."""
    targets: Counter[Address] = field(default_factory=Counter)
    """Access points that have not settled it, and how often they were told."""


def query_line(id: str) -> str:
    """The name of a query's line."""
    return f"q {id}"


def client_line(client: str) -> str:
    """The name of a client's line."""
    return f"c {client}"


def document_name(client: str, id: str) -> str:
    """What a document is called among those of all clients."""
    return f"{client}\n{id}"


class Filtering:
    """An access point's part in continuous queries."""

    name = "filtering"

    def __init__(self, desk: Desk, sheets: Sheets, streams: Streams, knowledge: Knowledge) -> None:
        self.desk, self.sheets, self.streams, self.knowledge = desk, sheets, streams, knowledge
        self.me, self.routes = desk.me, desk.routes
        self.poset = Poset(knowledge.analysis, desk.settings.covers)
        self.files = FieldFiles(knowledge)
        self._local: QueryTable[tuple[str, str]] = QueryTable(knowledge)  # client and query
        self._far: QueryTable[tuple[Address, str]] = QueryTable(knowledge)  # super-peer and line
        self._waiting: dict[tuple[str, str], tuple[int, int]] = {}  # a query's request and version
        self._open: dict[tuple[str, str, int], _Open] = {}
        self._closed: dict[tuple[str, str, int], None] = {}
        self.covered = 0
        """Queries that were not forwarded, as another one covered them."""
        self._restore()
        self.routes.node.add(self)
        sheets.on_learn, sheets.on_progress = self._on_learn, self._on_progress
        desk.on_connect, desk.on_release = self._on_connect, self._on_release
        desk.on_settled = self._on_settled
        streams.take[News] = self._on_news

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        request = self.desk.request
        return {
            Advertise: request(self._on_advertise), Subscribe: request(self._on_subscribe),
            PublishAt: request(self._on_publish), WithdrawAt: request(self._on_withdraw),
        }  # fmt: skip

    def start(self, now: Seconds) -> list[Effect]:
        """Forwards what was covered in a former life, and is not any more: settings may have changed."""
        known = self.sheets.sheets()[self.me.address]
        missing = tuple(id for id in self.poset.forwarded() if query_line(id) not in known)
        return self.sheets.change(self._values(Change(missing)), now)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Nothing is waited for here."""
        return []

    def _restore(self) -> None:
        """What the disk has: first the queries that others know, as they are forwarded whatever covers them."""
        known = self.sheets.sheets()
        kept = [(record, id, one) for record in self.desk.records.values() for id, one in record.queries.items()]
        for record, id, one in sorted(kept, key=lambda found: query_line(found[1]) not in known[self.me.address]):
            if one.text:
                query = standing_query(one.text, self.knowledge)
                self._local.set((record.client, id), query)
                self.poset.add(id, query, is_free=query_line(id) not in known[self.me.address])
        for record in self.desk.records.values():
            for id, kept_one in record.documents.items():
                if kept_one.data:
                    self.files.add(document_name(record.client, id), PackedDocument(kept_one.data).unpacked())
        for origin, lines in known.items():
            if origin != self.me.address:
                for line in lines.values():
                    self._set_far(origin, line)

    # --- advertisements ----------------------------------------------------------------------------------------------

    def _on_connect(self, record: Record, now: Seconds) -> list[Effect]:
        return self._advertise(record, now)

    def _advertise(self, record: Record, now: Seconds) -> list[Effect]:
        value = msgpack.packb((record.epoch, record.advertisement.packed()))
        return self.sheets.change({client_line(record.client): value}, now)

    def _on_advertise(self, record: Record, message: Advertise, now: Seconds) -> list[Effect]:
        if message.number <= record.advertised:
            return [self.desk.done(record, message.number)]
        try:
            said = advertisement(message.advertisement)
            most = self.desk.settings.values_max
            if any(values is not None and len(values) > most for values in said.fields.values()):
                raise ValueError(f"it lists more than {most} values for a field: leave them out")
        except ValueError as error:
            return self.desk.refuse(record, message.number, "malformed", f"this is no advertisement: {error}")
        record.advertisement, record.advertised = said, message.number
        self.desk.keep(record)
        return [*self._advertise(record, now), self.desk.done(record, message.number)]

    # --- queries of clients ------------------------------------------------------------------------------------------

    def _on_subscribe(self, record: Record, message: Subscribe, now: Seconds) -> list[Effect]:
        id, desk = message.id, self.desk
        if not id.startswith(f"{record.client} "):
            return desk.refuse(record, message.number, "impostor", f"{id} is not the id of a query of {record.client}")
        before = record.queries.get(id)
        if before is not None and before.version >= message.version:
            if before.base != record.base:
                desk.keep_query(record, id, KeptQuery(before.version, before.text, record.base))
            if before.version == message.version and before.text:
                self._waiting[record.client, id] = message.number, message.version
                return self._on_progress(now)
            return [desk.done(record, message.number)]
        query = None
        if message.text:
            try:
                query = standing_query(message.text, self.knowledge)
            except QueryError as error:
                return desk.refuse(record, message.number, "query", str(error))
        desk.keep_query(record, id, KeptQuery(message.version, message.text, record.base))
        values: dict[str, bytes | None] = {}
        if before is not None and before.text:
            values = self._values(self.poset.remove(id))
            self._local.remove((record.client, id))
        self._waiting.pop((record.client, id), None)
        if query is None:
            return [*self.sheets.change(values, now), desk.done(record, message.number)]
        # What comes with a client from elsewhere is forwarded in any case: others match it with what is still open.
        change = self.poset.add(id, query, is_free=not record.formers)
        self.covered += not change.forwarded
        values |= self._values(change)
        self._local.set((record.client, id), query)
        self._waiting[record.client, id] = message.number, message.version
        effects = self.sheets.change(values, now)
        if record.formers:
            effects += self._match_again(self.me.address, partial(self._local.matches, (record.client, id)), now)
        return [*effects, *self._on_progress(now)]

    def _values(self, change: Change) -> dict[str, bytes | None]:
        """First what is new, then what is gone."""
        new: dict[str, bytes | None] = {}
        for id in change.forwarded:
            record = self.desk.records[id.partition(" ")[0]]
            new[query_line(id)] = record.queries[id].text.encode()
        return new | {query_line(id): None for id in change.removed}

    def _on_progress(self, now: Seconds) -> list[Effect]:
        """Others have learnt something: queries may stand now, and publications be done."""
        effects: list[Effect] = []
        for (client, id), (number, _) in list(self._waiting.items()):
            if self.sheets.is_known(self.sheets.number(query_line(self.poset.cover(id)))):
                del self._waiting[client, id]
                effects.append(self.desk.done(self.desk.records[client], number))
        for name in list(self._open):
            effects += self._close(name)
        return effects

    def _on_settled(self, record: Record, now: Seconds) -> list[Effect]:
        """A client that was elsewhere has told everything: the rest is out of date."""
        values: dict[str, bytes | None] = {}
        live = {id for id, one in record.queries.items() if one.text}
        queries, documents = self.desk.drop_old(record)
        for id in queries:
            self._waiting.pop((record.client, id), None)
            if id in live:
                self._local.remove((record.client, id))
                self._drop(id, values)
        for id in documents:
            self.files.remove(document_name(record.client, id))
        return self.sheets.change(values, now)

    def _drop(self, id: str, values: dict[str, bytes | None]) -> None:
        """A query leaves, together with others: those that it covered may leave next."""
        change = self.poset.remove(id)
        for orphan in change.forwarded:
            query = self.desk.records[orphan.partition(" ")[0]].queries.get(orphan)
            if query is not None:
                values[query_line(orphan)] = query.text.encode()
        values |= {query_line(one): None for one in change.removed}

    def _on_release(self, record: Record, now: Seconds) -> list[Effect]:
        """A client has another access point."""
        values: dict[str, bytes | None] = {}
        for id, one in record.queries.items():
            self._waiting.pop((record.client, id), None)
            if one.text:
                self._local.remove((record.client, id))
                values |= self._values(self.poset.remove(id))
        for id in record.documents:
            self.files.remove(document_name(record.client, id))
        for name in [name for name in self._open if name[0] == record.client]:
            del self._open[name]  # it publishes again, where it is now
        for name in [name for name in self._closed if name[0] == record.client]:
            del self._closed[name]  # when it comes back, its documents have to be listed again
        return self.sheets.change(values | {client_line(record.client): None}, now)

    # --- queries of others -------------------------------------------------------------------------------------------

    def _set_far(self, origin: Address, line: Line) -> bool:
        """Whether the line is a query that can be matched."""
        if not line.name.startswith("q "):
            return False
        query = _query(line.value, self.knowledge) if line.value is not None else None
        if query is None:
            self._far.remove((origin, line.name))
            return False
        self._far.set((origin, line.name), query)
        return True

    def _on_learn(self, origin: Address, lines: Iterable[Line], now: Seconds) -> list[Effect]:
        effects: list[Effect] = []
        for line in lines:
            if self._set_far(origin, line):
                effects += self._match_again(origin, partial(self._far.matches, (origin, line.name)), now)
            elif line.value is not None and line.name.startswith("q "):
                effects += self.routes.refuse("query", origin, f"it forwarded {line.name}, which is no query")
        return effects

    def _match_again(self, target: Address, matches: Callable[[Arrived], bool], now: Seconds) -> list[Effect]:
        """A query came while publications are open."""
        effects: list[Effect] = []
        for name, open in list(self._open.items()):
            if open.targets and matches(open.arrived):
                effects += self._send(name, open, target, now)
        return effects

    # --- publications ------------------------------------------------------------------------------------------------

    def _on_publish(self, record: Record, message: PublishAt, now: Seconds) -> list[Effect]:
        desk = self.desk
        try:
            document = PackedDocument(message.document).unpacked()
        except ValueError as error:
            return desk.refuse(record, message.number, "malformed", str(error))
        if not record.advertisement.is_satisfied(document):
            why = f"{document.id} is not what {record.client} has advertised: advertise it first"
            return desk.refuse(record, message.number, "unadvertised", why)
        name = record.client, document.id, document.version
        before = record.documents.get(document.id)
        if before is not None and before.base != record.base:
            desk.keep_document(record, document.id, KeptDocument(before.version, before.data, record.base))
        if name in self._open:
            self._open[name].number = message.number
            return []
        if name in self._closed:
            return [desk.done(record, message.number)]
        if before is None or before.version < document.version:
            desk.keep_document(record, document.id, KeptDocument(document.version, message.document, record.base))
            self.files.add(document_name(record.client, document.id), document)
        advertised = self.sheets.number(client_line(record.client))
        arrived, news = Arrived(document, self.knowledge), News(record.address, message.document)
        open = self._open[name] = _Open(arrived, news, message.number, advertised)
        return self._close(name) if message.is_old else self._route(name, open, arrived, now)

    def _route(self, name: tuple[str, str, int], open: _Open, arrived: Arrived, now: Seconds) -> list[Effect]:
        targets = {origin for origin, _ in self._far.matching(arrived)}
        if any(True for _ in self._local.matching(arrived)):
            targets.add(self.me.address)
        open.targets.update(targets)  # all of them before any is told: one that settles at once must not be the last
        effects = [effect for target in sorted(targets) for effect in self._tell(name, open, target, now)]
        return [*effects, *self._close(name)]

    def _send(self, name: tuple[str, str, int], open: _Open, target: Address, now: Seconds) -> list[Effect]:
        open.targets[target] += 1
        return self._tell(name, open, target, now)

    def _tell(self, name: tuple[str, str, int], open: _Open, target: Address, now: Seconds) -> list[Effect]:
        def settled(now: Seconds) -> list[Effect]:
            open.targets -= Counter([target])
            return self._close(name) if self._open.get(name) is open else []

        return self.streams.send(target, open.news, now, settled)

    def _close(self, name: tuple[str, str, int]) -> list[Effect]:
        open = self._open.get(name)
        if open is None or open.targets or not self.sheets.is_known(open.advertised):
            return []
        del self._open[name]
        self._closed[name] = None
        if len(self._closed) > CLOSED_MAX:
            del self._closed[next(iter(self._closed))]
        return [self.desk.done(self.desk.records[name[0]], open.number)]

    def _on_withdraw(self, record: Record, message: WithdrawAt, now: Seconds) -> list[Effect]:
        before = record.documents.get(message.id)
        if before is None or before.version <= message.version:
            self.desk.keep_document(record, message.id, KeptDocument(message.version, b"", record.base))
            self.files.remove(document_name(record.client, message.id))
        return [self.desk.done(record, message.number)]

    # --- notices -----------------------------------------------------------------------------------------------------

    def _on_news(self, message: News, origin: Address, hops: int, then: Then, now: Seconds) -> list[Effect]:
        """A document for clients of this access point."""
        document = _document(message.document)
        if document is None:
            return [*self.routes.refuse("malformed", origin, "news that hold no document"), *then(now)]
        found = sorted(self._local.matching(Arrived(document, self.knowledge)))
        if not found:
            return then(now)
        left = len(found)

        def heard(now: Seconds) -> list[Effect]:
            nonlocal left
            left -= 1
            return [] if left else then(now)

        effects: list[Effect] = []
        for client, id in found:
            record = self.desk.records[client]
            notice = Notice(id, document.id, document.version, message.link)
            effects += self.desk.put(record, Tell(notice, record.queries[id].version, hops), now, heard)
        return effects


class _Same:
    """An analysis as a key of a cache: the same object."""

    __slots__ = ("analysis",)

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.analysis is self.analysis

    def __hash__(self) -> int:
        return id(self.analysis)


def standing_query(text: str, knowledge: Knowledge) -> Query:
    """A continuous query; nested ones ask for what other documents say, which no single access point knows."""
    return _standing_query(text, _Same(knowledge.analysis))


@lru_cache(maxsize=100_000)
def _standing_query(text: str, analysis: _Same) -> Query:
    query = parse_subscription(text, analysis.analysis)
    if next(nested(query), None) is not None:
        why = "super-peers take no nested queries: their sets would have to be gathered from all of them"
        raise QueryError(why, text)
    return query


def _query(value: bytes, knowledge: Knowledge) -> Query | None:
    try:
        return standing_query(value.decode(), knowledge)
    except (QueryError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=256)
def _document(data: bytes) -> Document | None:
    try:
        return PackedDocument(data).unpacked()
    except ValueError:
        return None
