"""One-time queries: broadcast by reverse path forwarding, pruned by advertisements (P2P-DIET §3, "One-Time Queries").

The access point sends the query down the tree of shortest paths to itself. A super-peer passes it on to those below
which somebody's clients may have an answer, by their advertisements; the other links are pruned. Each super-peer that
may have answers sends what it has straight to the client, who was told by its access point whom to expect: so the
client knows when the answer is whole, and asks again for those that it has not heard.
"""

from __future__ import annotations

from collections import OrderedDict

import msgpack

from tocsin.errors import QueryError
from tocsin.overlay.message import Address
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token
from tocsin.overlay.placement.superpeers.advertisements import Advertisement, advertisement
from tocsin.overlay.placement.superpeers.desk import Desk, Record
from tocsin.overlay.placement.superpeers.filtering import Filtering
from tocsin.overlay.placement.superpeers.messages import Answers, Asked, Found, Line, Question, Search
from tocsin.overlay.placement.superpeers.sheet import Sheets
from tocsin.query.ast import Query
from tocsin.query.parse import parse

QUESTIONS_KEPT = 10_000
_Parsed = dict[bytes, tuple[int, Advertisement]]


class OneTime:
    """A super-peer's part in one-time queries."""

    name = "one-time"

    def __init__(self, desk: Desk, sheets: Sheets, filtering: Filtering) -> None:
        self.desk, self.sheets, self.filtering = desk, sheets, filtering
        self.me, self.routes, self.knowledge = desk.me, desk.routes, filtering.knowledge
        self.pruned = self.passed = 0
        """Links that a query was kept from, and that it crossed."""
        self._seen: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self._parsed: _Parsed = {}
        self.routes.node.add(self)
        self.routes.inner[Question] = self._on_asked_again

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Search: self.desk.request(self._on_search), Question: self._on_question}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Nothing is waited for here."""
        return []

    # --- who may have answers ----------------------------------------------------------------------------------------

    def location(self, client: str) -> Address | None:
        """The access point of a client: where it connected last."""
        found = [
            (self._line(line)[0], origin)
            for origin, lines in self.sheets.sheets().items()
            if (line := lines.get(f"c {client}")) is not None
        ]
        return max(found)[1] if found else None

    def _line(self, line: Line) -> tuple[int, Advertisement]:
        """A client's epoch and advertisement; nonsense of another super-peer advertises nothing."""
        assert line.value is not None
        found = self._parsed.get(line.value)
        if found is None:
            try:
                epoch, packed = msgpack.unpackb(line.value)
                found = int(epoch), advertisement(packed)
            except (ValueError, TypeError):
                found = 0, Advertisement()
            if len(self._parsed) > QUESTIONS_KEPT:
                self._parsed.clear()
            self._parsed[line.value] = found
        return found

    def promising(self, query: Query) -> set[Address]:
        """Super-peers whose clients' advertisements do not block the query."""
        if not self.routes.settings.prunes:
            return set(self.routes.members)
        return {
            origin
            for origin, lines in self.sheets.sheets().items()
            if any(
                name.startswith("c ") and self._line(line)[1].allows(query, self.knowledge)
                for name, line in lines.items()
            )
        }

    # --- asking ------------------------------------------------------------------------------------------------------

    def _on_search(self, record: Record, message: Search, now: Seconds) -> list[Effect]:
        try:
            query = parse(message.text, self.knowledge.analysis)
        except QueryError as error:
            return self.desk.refuse(record, message.number, "query", str(error))
        question = Question(self.me.address, message.sender, message.number, message.attempt, message.text)
        promising = self.promising(query)
        asked: list[Effect] = [Send(record.address, Asked(self.me, message.number, tuple(sorted(promising))))]
        if not message.missing:
            return [*asked, *self._on_question(question, now)]
        return asked + [effect for one in message.missing for effect in self.routes.relay(one, question, now)]

    def _on_question(self, message: Question, now: Seconds) -> list[Effect]:
        """On its way down the tree."""
        name = message.client.address, message.number, message.attempt
        if name in self._seen:
            return []
        self._seen[name] = None
        if len(self._seen) > QUESTIONS_KEPT:
            self._seen.popitem(last=False)
        try:
            query = parse(message.text, self.knowledge.analysis)
        except QueryError as error:
            return self.routes.refuse("query", message.access, str(error))
        graph, promising = self.routes.graph, self.promising(query)
        effects = self._answer(message, query, promising)
        for child in graph.children(self.me.address, message.access):
            if promising.isdisjoint(graph.below(child, message.access)):
                self.pruned += 1
            else:
                self.passed += 1
                effects.append(Send(child, message))
        return effects

    def _on_asked_again(self, message: Question, origin: Address, hops: int, now: Seconds) -> list[Effect]:
        """Relayed to this super-peer, as its answer was not heard."""
        try:
            return self._answer(message, parse(message.text, self.knowledge.analysis), {self.me.address})
        except QueryError as error:
            return self.routes.refuse("query", origin, str(error))

    def _answer(self, message: Question, query: Query, promising: set[Address]) -> list[Effect]:
        if self.me.address not in promising:
            return []
        found = []
        for name, document in sorted(self.filtering.files.search(query).items()):
            record = self.desk.records[name.partition("\n")[0]]
            found.append(Found(document.id, document.version, record.address))
        return [Send(message.client.address, Answers(self.me, message.number, tuple(found)))]
