"""Nested subscriptions on the ring (SmartSeer §VI-B): registered subqueries, and delta queries over history.

`author:IN:(networks AND author:Bob)` is two queries: the subquery, and what it means now, with its values written out:
`author = "bob" OR author = "carol"`. Both are registered at their homes as any query. When a document matches the
subquery and brings a new value, the *delta*, what the new value alone adds (`author = "carol"`), is registered too, and
when it stands it is asked once over history: old documents of Carol are news now. Any depth works alike, from the
inside out. Sets only grow: what was told stays true.

Homes see plain queries that hold at least where the nested one does. The subscriber, who alone knows the sets, asks the
publisher for each document that it hears of and decides with `query.semantics.holds`, which is the one-process meaning.
A subscription begins with the sets of all history; what matches by then is not told, what comes to match later is.

What was found is on disk with the registrations. After a crash every registered query is asked over history again: what
was heard and not yet decided comes back, and the outbox takes nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import msgpack

from tocsin.errors import SettingError
from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.model import Document
from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Token, Wake
from tocsin.overlay.placement.cover import ALWAYS
from tocsin.overlay.placement.ground import Ground
from tocsin.overlay.placement.library import Answer, Library
from tocsin.overlay.placement.messages import AskDocument, GivenDocument
from tocsin.overlay.placement.subscriber import Ended, Standing, Subscriber
from tocsin.query.ast import And, Equals, Exists, In, Not, Or, Query, atoms, conjunction, disjunction, nested
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription
from tocsin.text import KEYWORD, Analysis, has_words, value_key, values_of

Disk: TypeAlias = MutableMapping[bytes, bytes]
Value: TypeAlias = str | float
AGAIN_SECONDS = 10.0
SETTLE_SECONDS = 20.0
"""History is asked a second time after this: a publication may have been on its way when a delta was registered."""


@dataclass(slots=True)
class _Set:
    """The values that a subquery has brought."""

    part: In  # whichever field it is compared with
    values: set[Value] = field(default_factory=set)


@dataclass(slots=True)
class _Record:
    text: str
    query: Query
    sets: list[_Set]  # innermost first
    registered: dict[str, str] = field(default_factory=dict)  # name of a registration: its query
    old: set[tuple[str, int]] = field(default_factory=set)  # what matched before it stood
    serial: int = 0
    open: int = 0  # questions that must be answered before it stands
    is_standing: bool = False
    is_ending: bool = False

    def packed(self) -> bytes:
        sets = [sorted(one.values, key=repr) for one in self.sets]
        data: bytes = msgpack.packb(
            [self.text, sets, self.registered, sorted(self.old), self.serial, self.is_standing, self.is_ending]
        )
        return data


def _record_of(text: str, analysis: Analysis) -> _Record:
    query = parse_subscription(text, analysis)
    distinct = {(one.query, one.source): _Set(one) for one in nested(query)}
    return _Record(text, query, list(distinct.values()))


class Nested:
    """A node's nested subscriptions."""

    name = "nested"

    def __init__(self, ground: Ground, subscriber: Subscriber, library: Library, disk: Disk | None = None) -> None:
        self.me, self.asking, self.delivery = ground.chord.me, ground.asking, ground.delivery
        self.knowledge = ground.knowledge
        self.subscriber, self.library = subscriber, library
        self._disk: Disk = {} if disk is None else disk
        self._searches = 0
        self._records = {key.decode(): self._unpacked(data) for key, data in sorted(self._disk.items())}
        plain = ground.delivery.accept
        ground.delivery.accept = lambda notice: self._is_wanted(notice.subscription) or plain(notice)
        ground.delivery.divert = self._divert
        ground.chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """It takes answers and notices only."""
        return {}

    def start(self, now: Seconds) -> list[Effect]:
        """Goes on: what was registered stands or will; what was heard and not decided is asked for again."""
        effects: list[Effect] = []
        for id, record in self._records.items():
            if record.is_ending:
                effects += self._remove(id, now)
                continue
            record.open = len(record.registered)
            for name in list(record.registered):
                effects.append(Wake(now + AGAIN_SECONDS, (self.name, id, name, True)))
        return effects

    def _unpacked(self, data: bytes) -> _Record:
        text, sets, registered, old, serial, is_standing, is_ending = msgpack.unpackb(data)
        record = _record_of(text, self.knowledge.analysis)
        for one, values in zip(record.sets, sets, strict=True):
            one.values = set(values)
        record.registered, record.old = registered, {(id, version) for id, version in old}
        record.serial, record.is_standing, record.is_ending = serial, is_standing, is_ending
        return record

    def _save(self, id: str) -> None:
        self._disk[id.encode()] = self._records[id].packed()

    def _is_wanted(self, id: str) -> bool:
        return id in self._records and not self._records[id].is_ending

    # --- for the layer above -----------------------------------------------------------------------------------------

    def subscribe(self, id: str, text: str, now: Seconds) -> list[Effect]:
        """Registers a nested query; `Standing` is delivered when its sets are those of all history."""
        if id in self._records or "/" in id or " " in id or not id:
            raise SettingError(f"{id!r} is no name of a nested subscription: taken, empty, or with a space or slash")
        record = self._records[id] = _record_of(text, self.knowledge.analysis)
        effects: list[Effect] = []
        record.open = 1  # until everything is counted
        for query in dict.fromkeys([*(one.part.query for one in record.sets), record.query]):
            effects += self._register(id, self._written(record, query), now)
        self._save(id)
        return [*effects, *self._one_less(id)]

    def search(self, text: str, now: Seconds) -> list[Effect]:
        """Asks a nested one-time query; `Answer` is delivered (§VI-B.1: subqueries first, then their values)."""
        self._searches += 1
        number, record = self._searches, _record_of(text, self.knowledge.analysis)
        queries = [*(one.part.query for one in record.sets), record.query]
        found: dict[tuple[str, int], None] = {}
        is_whole = True

        def next_one(place: int, now: Seconds) -> list[Effect]:
            if place == len(queries):
                return [Deliver(Answer(number, tuple(sorted(found)), is_whole))]
            written = self._written(record, queries[place])
            if written is False:
                return next_one(place + 1, now)
            plain = show(ALWAYS if isinstance(written, bool) else written)
            return self.library.find(plain, now, partial(listed, place))

        def listed(
            place: int, documents: list[tuple[str, int, Address]], is_complete: bool, now: Seconds
        ) -> list[Effect]:
            nonlocal is_whole
            is_whole &= is_complete
            left = len(documents)
            if not left:
                return next_one(place + 1, now)

            def given(answer: GivenDocument | None, now: Seconds) -> list[Effect]:
                nonlocal left, is_whole
                left -= 1
                is_whole &= answer is not None
                if answer is not None and answer.document:
                    look_at(place, PackedDocument(answer.document).unpacked())
                return [] if left else next_one(place + 1, now)

            effects: list[Effect] = []
            for id, version, publisher in documents:
                effects += self.asking.ask(
                    publisher, lambda request, id=id, version=version: AskDocument(request, self.me, id, version), now,  # type: ignore[misc]
                    given,
                )  # fmt: skip
            return effects

        def look_at(place: int, document: Document) -> None:
            if not holds(queries[place], document, self._knows(record)):
                return
            if place == len(queries) - 1:
                found[document.id, document.version] = None
            else:
                one = record.sets[place]
                one.values |= {value_key(value) for value in values_of(document, one.part.source)}

        return next_one(0, now)

    def unsubscribe(self, id: str, now: Seconds) -> list[Effect]:
        """Removes every copy of every part; `Ended` is delivered when the last is gone."""
        self._records[id].is_ending = True
        self._save(id)
        return self._remove(id, now)

    def _remove(self, id: str, now: Seconds) -> list[Effect]:
        record = self._records[id]
        names = [name for name, _ in self.subscriber.standing() if name in record.registered]
        left = len(names)

        def gone(now: Seconds) -> list[Effect]:
            nonlocal left
            left -= 1
            return [] if left else self._forget(id)

        effects = [effect for name in names for effect in self.subscriber.unsubscribe(name, now, gone)]
        return effects if names else self._forget(id)

    def _forget(self, id: str) -> list[Effect]:
        del self._records[id], self._disk[id.encode()]
        return [Deliver(Ended(id))]

    def standing(self) -> Iterator[tuple[str, str]]:
        """Nested subscriptions of this node: id and text."""
        return ((id, record.text) for id, record in self._records.items() if not record.is_ending)

    # --- plain queries -----------------------------------------------------------------------------------------------

    def _written(
        self, record: _Record, query: Query, grown: _Set | None = None, new: set[Value] | None = None
    ) -> Query | bool:
        """The query with its values written out; for one set, if it has grown, only the new ones."""
        match query:
            case In(name, source, inner):
                one = next(one for one in record.sets if (one.part.query, one.part.source) == (inner, source))
                values = new if one is grown and new is not None else one.values
                written = [_equals(name, value, self.knowledge.analysis) for value in sorted(values, key=repr)]
                return disjunction(list(dict.fromkeys(written))) if written else False
            case And(parts) | Or(parts):
                decides = isinstance(query, Or)  # one true part decides an OR, one false part an AND
                found = [self._written(record, part, grown, new) for part in parts]
                if any(part is decides for part in found):
                    return decides
                some = [part for part in found if not isinstance(part, bool)]
                return (disjunction(some) if decides else conjunction(some)) if some else not decides
            case Not():
                return query  # a nested part stands under no NOT
        return query

    def _register(self, id: str, query: Query | bool, now: Seconds) -> list[Effect]:
        """Registers a plain query, and asks it over history when it stands."""
        record = self._records[id]
        if query is False:
            return []
        text = show(ALWAYS if isinstance(query, bool) else query)
        if text in record.registered.values():
            return []
        record.serial += 1
        name = f"{id}/{record.serial}"
        record.registered[name] = text
        record.open += 1
        return self.subscriber.subscribe(name, text, now, partial(self._look_back, id, name, True))

    # --- history -----------------------------------------------------------------------------------------------------

    def _look_back(self, id: str, name: str, is_first: bool, now: Seconds) -> list[Effect]:
        record = self._records.get(id)
        if record is None or record.is_ending:
            return []

        def found(documents: list[tuple[str, int, Address]], is_complete: bool, now: Seconds) -> list[Effect]:
            if not self._is_wanted(id):
                return []
            is_old, effects = not record.is_standing, list[Effect]()
            for document, version, publisher in documents:
                record.open += is_first
                effects += self._ask(id, Notice(name, document, version, publisher), now, is_first, is_old)
            if not is_complete:
                return [*effects, Wake(now + AGAIN_SECONDS, (self.name, id, name, is_first))]
            if is_first:
                effects += [Wake(now + SETTLE_SECONDS, (self.name, id, name, False)), *self._one_less(id)]
            return effects

        return self.library.look(record.registered[name], self.subscriber.keys(name), now, found)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Asks history again, or a publisher that did not answer."""
        _, id, name, more = token
        record = self._records.get(id)
        if record is None or record.is_ending or name not in record.registered:
            return []
        if isinstance(more, Notice):
            return self._ask(id, more, now, False, False)
        if name not in dict(self.subscriber.standing()):  # its homes are being asked for, or it was never written down
            again = partial(self._look_back, id, name, more)
            return self.subscriber.subscribe(name, record.registered[name], now, again)
        return self._look_back(id, name, more, now)

    def _one_less(self, id: str) -> list[Effect]:
        record = self._records[id]
        record.open -= 1
        if record.open or record.is_standing:
            return []
        record.is_standing = True
        self._save(id)
        return [Deliver(Standing(id, 1))]

    # --- documents ---------------------------------------------------------------------------------------------------

    def _divert(self, notice: Notice, now: Seconds) -> list[Effect] | None:
        """A notice of a registered part is for this component."""
        id = notice.subscription.partition("/")[0]
        record = self._records.get(id)
        if record is None or notice.subscription not in record.registered:
            return None
        return [] if record.is_ending else self._ask(id, notice, now, False, False)

    def _ask(self, id: str, notice: Notice, now: Seconds, is_counted: bool, is_old: bool) -> list[Effect]:
        """Asks the publisher what the document says, and decides."""

        def answered(answer: GivenDocument | None, now: Seconds) -> list[Effect]:
            if id not in self._records or self._records[id].is_ending:
                return []
            effects: list[Effect] = []
            if answer is None:
                effects.append(Wake(now + AGAIN_SECONDS, (self.name, id, notice.subscription, notice)))
            elif answer.document:
                try:
                    effects += self._decide(id, PackedDocument(answer.document).unpacked(), notice.link, is_old, now)
                except ValueError:
                    effects = []  # nonsense of another node
            return [*effects, *(self._one_less(id) if is_counted else [])]

        return self.asking.ask(
            notice.link, lambda request: AskDocument(request, self.me, notice.document, notice.version), now, answered
        )

    def _decide(self, id: str, document: Document, link: Address, is_old: bool, now: Seconds) -> list[Effect]:
        record = self._records[id]
        effects: list[Effect] = []
        for one in record.sets:
            if not holds(one.part.query, document, self._knows(record)):
                continue
            brought = {value_key(value) for value in values_of(document, one.part.source)}
            if new := brought - one.values:
                one.values |= new
                effects += self._grow(id, one, new, now)
        if holds(record.query, document, self._knows(record)):
            if is_old:
                record.old.add((document.id, document.version))
                self._save(id)
            elif (document.id, document.version) not in record.old:
                effects += self.delivery.take(Notice(id, document.id, document.version, link), now)
        return effects

    def _knows(self, record: _Record) -> Knowledge:
        sets = {(one.part.query, one.part.source): one.values for one in record.sets}
        return Knowledge(self.knowledge.analysis, self.knowledge.statistics, sets=dict(sets))

    def _grow(self, id: str, grown: _Set, new: set[Value], now: Seconds) -> list[Effect]:
        """A set has new values: every query that reads it gets a delta."""
        record = self._records[id]
        effects: list[Effect] = []
        for query in dict.fromkeys([*(one.part.query for one in record.sets), record.query]):
            reads = [one for one in atoms(query) if isinstance(one, In)]
            if any((one.query, one.source) == (grown.part.query, grown.part.source) for one in reads):
                effects += self._register(id, self._written(record, query, grown, new), now)
        self._save(id)
        return effects


def _equals(name: str, value: Value, analysis: Analysis) -> Query:
    """A plain query that holds wherever some value of the field is this one; homes may find more, never less."""
    if not isinstance(value, str):
        text = repr(value)
        return Equals(name, text) if Equals(name, text).number is not None else Exists(name)
    is_keyword = analysis.of(name) == KEYWORD
    if not has_words(value, analysis.of(name)) or (is_keyword and " " in value):
        return Exists(name)  # no word to wait at, or white space that a keyword keeps and a value does not
    return Equals(name, value, quoted=True)
