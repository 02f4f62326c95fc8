"""Nested subscriptions over a log of documents: each step a document, each match told once.

`author:IN:(networks AND author:Bob)` waits for two things: documents that match the inner query, whose values
enlarge a set, and documents that hold a value of the set. Inner queries are registered with the engine like any
other (`translate`); sets with the same inner query and field are kept once. When a set gains a value, the
documents that hold it are asked anew (SmartSeer's delta query for Carol), innermost sets first: nesting has no
cycles, so one pass over the depths reaches the fixpoint. Documents take effect one after the other, so what is
told does not depend on how the log is cut into batches.

A subscription is told of a document at the step at which the document begins to match, if that step is within
the subscription's span; a document that matched before the subscription was made is no news. Values of replaced
and deleted documents leave the sets; what was told stays told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from tocsin.match.engine import Engine
from tocsin.match.index import IndexEngine
from tocsin.match.nested.tables import InMemory, Tables, holdings_of
from tocsin.match.nested.translate import Contains, Node, Value, build, keys_of
from tocsin.model import Document
from tocsin.query.ast import In, Query, atoms
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge
from tocsin.query.show import show
from tocsin.text import Analysis

KEYS_MAX = 4_096  # fields of documents whose values are remembered
HITS_MAX = 65_536  # documents of which it is remembered what the engine found
BATCH = 256  # documents given to the engine at a time when a set is filled from what is stored
Pending = dict[int, dict[Node, dict[int, None]]]
"""By depth: which documents a node must be asked about."""
Before = dict[tuple[int, Value], bool]
"""For the (set, value) pairs that a step has changed: was the value in the set before?"""


class _Step(NamedTuple):
    """A document arrives, for which these nodes are known to hold and the engine found these numbers."""

    position: int
    document: Document
    alone: Collection[Node]
    hits: Collection[int | None]
    before: Before


class Told(NamedTuple):
    """The subscription of this number is told of the document at this position, because of the step `cause`."""

    number: int
    position: int
    cause: int


class Reason(NamedTuple):
    """A nested part holds: the field has this value, which this document put into the set, for these reasons."""

    field: str
    value: Value
    document: str
    version: int
    reasons: tuple[Reason, ...]


class NestedSubscriptions:
    """The subscriptions with nested queries, and the sets between them. Engine numbers from `first` on are ours."""

    def __init__(
        self,
        analysis: Analysis,
        statistics: Statistics | None = None,
        tables: Tables | None = None,
        engine: Engine | None = None,
        first: int = 0,
    ) -> None:
        self.tables: Tables = InMemory() if tables is None else tables
        self.knowledge = Knowledge(analysis, statistics or Statistics())
        self._engine = IndexEngine(analysis) if engine is None else engine
        self._nodes: dict[Query, Node] = {}
        self._plain: dict[Query, int] = {}  # what is registered with the engine, each once
        self._waiting: dict[int, dict[Node, None]] = {}  # engine number -> nodes that need to know
        self._alone: dict[int, dict[Node, None]] = {}  # engine number -> nodes that hold where it does
        self._next_number = first
        self._next_node = 0
        self._of: dict[int, Node] = {}  # subscription -> its node
        self._collects: dict[int, Node] = {}  # set -> the node whose documents' values it collects
        self._readers: dict[int, dict[str, dict[Node, None]]] = {}  # set -> field -> nodes that look into it
        self._keys: dict[tuple[int, str], list[Value]] = {}  # of the documents that were last asked about
        self._hits: dict[int, tuple[int, AbstractSet[int]]] = {}
        """Of the last documents: the engine's numbers below this one were asked for, and these of them found."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._of)

    def __contains__(self, number: object) -> bool:
        """Is there a subscription of this number?"""
        return number in self._of

    def owner(self, engine_number: int) -> int | None:
        """A subscription for which the query of this engine number was registered."""
        node = next(iter(self._waiting.get(engine_number, ())), None)
        while node is not None and not node.subscribers:
            fields = [self._readers[number] for number in node.sets.values()]
            readers = (reader for one in fields for nodes in one.values() for reader in nodes)
            node = next(readers, None)
        return None if node is None else next(iter(node.subscribers))

    # --- subscriptions -------------------------------------------------------------------------

    def add(self, number: int, query: Query, since: int = 0, until: int | None = None) -> None:
        """Registers a subscription for the steps in (since, until]; its sets start from what is stored now."""
        self.add_all([(number, query, since, until)])

    def add_all(self, subscriptions: Iterable[tuple[int, Query, int, int | None]]) -> None:
        """Registers (number, query, since, until) many times; what is stored is read once at most."""
        fresh: dict[Node, None] = {}
        for number, query, since, until in subscriptions:
            node = self._node(query, fresh)
            node.subscribers[number] = (since, until)
            self._of[number] = node
        self._fill([node for node in fresh if node.sets])

    def forget_unused(self) -> None:
        """Drops the sets of an earlier run that no subscription of today needs; to be called once all are added."""
        for number in set(self.tables.sets()).difference(self._collects):
            self.tables.drop_set(number)

    def use(self, statistics: Statistics) -> None:
        """Documents that arrive from now on are weighed by these."""
        self.knowledge = replace(self.knowledge, statistics=statistics)

    def end(self, number: int, until: int) -> None:
        """The subscription is told of nothing that happens after this position."""
        node = self._of[number]
        node.subscribers[number] = (node.subscribers[number][0], until)

    def remove(self, number: int) -> None:
        """Forgets a subscription, and the sets that only it needed."""
        node = self._of.pop(number)
        del node.subscribers[number]
        self.tables.forget(number)
        self._drop_unused(node)

    def _node(self, query: Query, fresh: dict[Node, None]) -> Node:
        """The node of a query, made if need be; nodes that have a new set are added to `fresh`, innermost first."""
        known = self._nodes.get(query)
        if known is not None:
            return known
        numbers: dict[In, int] = {}
        depth = 0
        for atom in dict.fromkeys(atom for atom in atoms(query) if isinstance(atom, In)):
            inner = self._node(atom.query, fresh)
            depth = max(depth, inner.depth + 1)
            numbers[atom] = self._set(inner, atom.source, fresh)
        node = build(self._next_node, query, depth, numbers)
        self._next_node += 1
        self._nodes[query] = node
        for member in node.members:
            self._readers[member.set].setdefault(member.field, {})[node] = None
            if member.field not in self.tables.fields():
                self._watch(member.field)
        if not isinstance(node.alone, bool):
            node.alone_number = self._await(node.alone, node)
            self._alone.setdefault(node.alone_number, {})[node] = None
        if node.members and not isinstance(node.at_most, bool):
            node.at_most_number = self._await(node.at_most, node)
        return node

    def _await(self, plain: Query, node: Node) -> int:
        """Registers a plain query with the engine, unless it is there; returns its number."""
        number = self._plain.get(plain)
        if number is None:
            number = self._plain[plain] = self._next_number
            self._next_number += 1
            self._engine.add(number, plain)
        self._waiting.setdefault(number, {})[node] = None
        return number

    def _await_no_more(self, plain: Query | bool, number: int | None, node: Node) -> None:
        if number is None or isinstance(plain, bool):
            return
        self._alone.get(number, {}).pop(node, None)
        waiting = self._waiting[number]
        waiting.pop(node, None)
        if not waiting:
            self._alone.pop(number, None)
            del self._waiting[number], self._plain[plain]
            self._engine.remove(number)

    def _set(self, node: Node, source: str, fresh: dict[Node, None]) -> int:
        if source not in node.sets:
            number, is_new = self.tables.set_of(show(node.query), source)
            node.sets[source] = number
            self._collects[number] = node
            self._readers[number] = {}
            self.knowledge.sets[node.query, source] = _Values(self.tables, number)
            if is_new:
                fresh[node] = None
        return node.sets[source]

    def _drop_unused(self, node: Node) -> None:
        if node.subscribers or node.sets:
            return
        del self._nodes[node.query]
        self._await_no_more(node.alone, node.alone_number, node)
        self._await_no_more(node.at_most, node.at_most_number, node)
        for member in node.members:
            readers = self._readers[member.set]
            readers[member.field].pop(node, None)
            if not readers[member.field]:
                del readers[member.field]
            if not readers:
                self._drop_set(member.set)

    def _drop_set(self, number: int) -> None:
        node = self._collects.pop(number)
        source = next(source for source, one in node.sets.items() if one == number)
        del node.sets[source], self._readers[number], self.knowledge.sets[node.query, source]
        self.tables.drop_set(number)
        self._drop_unused(node)

    # --- starting from what is stored ----------------------------------------------------------

    def _watch(self, field: str) -> None:
        self.tables.watch(field)
        for position, document in self.tables.documents():
            self.tables.hold(position, holdings_of(document, [field]))

    def _fill(self, nodes: list[Node]) -> None:
        """Puts the values of the stored documents into the new sets, innermost first."""
        stored = self.tables.documents()
        if not nodes or (first := next(stored, None)) is None:
            return
        hits: dict[int, list[int]] = {}
        engine = IndexEngine(self.knowledge.analysis)
        needed = {number for node in nodes for number in (node.alone_number, node.at_most_number)}
        for plain, number in self._plain.items():
            if number in needed:
                engine.add(number, plain)
        batch = [first, *islice(stored, BATCH - 1)]
        while batch:
            matched = engine.match([document for _, document in batch], self.knowledge)
            for (position, _), numbers in zip(batch, matched, strict=True):
                for number in numbers:
                    hits.setdefault(number, []).append(position)
            batch = list(islice(stored, BATCH))
        for node in sorted(nodes, key=lambda node: node.depth):
            alone = [] if node.alone_number is None else hits.get(node.alone_number, [])
            at_most = [] if node.at_most_number is None else hits.get(node.at_most_number, [])
            self._fill_from(node, alone, at_most)

    def _fill_from(self, node: Node, alone: list[int], at_most: list[int]) -> None:
        tables = self.tables
        found = dict.fromkeys(alone)
        candidates = (
            set()
            if node.at_most is False
            else {
                position
                for member in node.members
                for value in tables.values(member.set)
                for position in tables.holders(member.field, value)
            }
        )
        if not isinstance(node.at_most, bool):
            candidates &= set(at_most)
        for position in sorted(candidates.difference(found)):
            if node.holds_if_at_most(tables.document(position), self.knowledge, tables.contains):
                found[position] = None
        for position in found:
            document = tables.document(position)
            for source, number in node.sets.items():
                for value in keys_of(document, source):
                    tables.support(number, value, position)

    # --- steps ---------------------------------------------------------------------------------

    def match(self, documents: Sequence[tuple[int, Document]]) -> list[Told]:
        """What is told when these documents arrive one after the other, with their positions in the log."""
        self.tables.expect(documents)
        matched = self._engine.match([document for _, document in documents], self.knowledge)
        steps = zip(documents, matched, strict=True)
        return [told for (position, document), hits in steps for told in self.arrive(position, document, hits)]

    def arrive(self, position: int, document: Document, hits: Iterable[int]) -> list[Told]:
        """One document arrives, for which the engine found these numbers; older documents are told first.

        A position that was seen before is a replay, and changes nothing.
        """
        tables = self.tables
        if position <= tables.last:
            return []
        before: Before = {}
        old = tables.current(document.id)
        if old is not None:
            self._take_out(old, before)
        tables.arrive(position, document)
        keys = {field: keys_of(document, field) for field in tables.fields()}
        holdings = list(dict.fromkeys((field, value) for field, values in keys.items() for value in values))
        tables.hold(position, holdings)
        numbers = set(hits)
        self._remember(position, keys, numbers)
        alone = {node for hit in numbers for node in self._alone.get(hit, ())}
        asked = dict.fromkeys(sorted(alone, key=lambda node: node.number))
        readers, sets_with = self._readers, tables.sets_with
        for field, value in holdings:
            for number in sets_with(value):
                nodes = readers[number].get(field)
                if nodes:
                    asked.update(nodes)
        pending: Pending = {}
        for node in asked:
            if node in alone or node.at_most is True or node.at_most_number in numbers:
                pending.setdefault(node.depth, {})[node] = {position: None}
        return self._spread(pending, _Step(position, document, alone, numbers, before))

    def _remember(self, position: int, keys: dict[str, list[Value]], hits: AbstractSet[int]) -> None:
        """What is known of a document that arrives: it is asked for soon, and often."""
        if len(self._keys) >= KEYS_MAX:
            self._keys.clear()
        self._keys.update({(position, field): values for field, values in keys.items()})
        if len(self._hits) >= HITS_MAX:
            del self._hits[next(iter(self._hits))]
        self._hits[position] = (self._next_number, hits)

    def leave(self, id: str) -> None:
        """The document was deleted: its values leave the sets."""
        position = self.tables.current(id)
        if position is not None:
            self._take_out(position, {})
            self.tables.leave(id)

    def _spread(self, pending: Pending, step: _Step) -> list[Told]:
        """Asks the nodes, innermost first; what they put into their sets is asked of the nodes that read them.

        A node is asked about a document that it holds alone of, or that holds a value of one of its sets; sets only
        grow here, so the only member test of a node need not be repeated.
        """
        tables, knowledge, contains = self.tables, self.knowledge, self.tables.contains
        found: list[Told] = []
        while pending:
            for node, candidates in pending.pop(min(pending)).items():
                for candidate in candidates:
                    if candidate == step.position:
                        holds = node in step.alone or (
                            (node.at_most is True or node.at_most_number in step.hits)
                            and (node.has_one_member or node.holds_if_at_most(step.document, knowledge, contains))
                        )
                    elif node.has_one_member:
                        holds = node.at_most is True or self._holds_at_member(node, candidate)
                    else:
                        holds = node.holds(tables.document(candidate), knowledge, contains)
                    if holds:
                        for source, number in node.sets.items():
                            for value in self._keys_at(candidate, source, step):
                                if tables.support(number, value, candidate):
                                    step.before.setdefault((number, value), False)
                                    self._ask_holders(pending, number, value)
                        if node.subscribers:
                            self._tell(node, candidate, step, found)
        found.sort(key=lambda told: told.position)
        return found

    def _holds_at_member(self, node: Node, position: int) -> bool:
        """Does the node hold for a document that holds a value of its only set? Mostly the engine has said so."""
        number, known = node.at_most_number, self._hits.get(position)
        if number is not None and known is not None and number < known[0] and node.is_lasting:
            return number in known[1]
        return node.holds_at_member(self.tables.document(position), self.knowledge)

    def _keys_at(self, position: int, source: str, step: _Step) -> list[Value]:
        """The values of a document's field; many nodes ask for the same."""
        known = self._keys.get((position, source))
        if known is None:
            if len(self._keys) >= KEYS_MAX:
                self._keys.clear()
            document = step.document if position == step.position else self.tables.document(position)
            known = self._keys[position, source] = keys_of(document, source)
        return known

    def _ask_holders(self, pending: Pending, number: int, value: Value) -> None:
        for field, nodes in self._readers[number].items():
            holders = self.tables.holders(field, value)
            if holders:
                for node in nodes:
                    at_depth = pending.setdefault(node.depth, {})
                    asked = at_depth.get(node)
                    if asked is None:
                        at_depth[node] = dict.fromkeys(holders)
                    else:
                        for holder in holders:
                            asked[holder] = None

    def _tell(self, node: Node, candidate: int, step: _Step, found: list[Told]) -> None:
        """To whom the document is news."""
        cause = step.position
        held_before: bool | None = None
        for number, (since, until) in node.subscribers.items():
            if since >= cause or (until is not None and cause > until):
                continue
            if candidate <= since:  # older than the subscription: told only if it did not match until now
                if held_before is None:
                    document = step.document if candidate == cause else self.tables.document(candidate)
                    held_before = node.holds(document, self.knowledge, self._contained(step.before))
                if held_before:
                    continue
            if self.tables.tell(number, candidate):
                found.append(Told(number, candidate, cause))

    def _contained(self, before: Before) -> Contains:
        """The sets as they were before this step."""

        def contains(number: int, value: Value) -> bool:
            known = before.get((number, value))
            return self.tables.contains(number, value) if known is None else known

        return contains

    def _take_out(self, position: int, before: Before) -> None:
        """The document's values leave the sets, and so do those of documents that matched only through them."""
        tables = self.tables
        tables.release(position)
        pending: Pending = {}
        self._withdraw(position, tables.supported(position), pending, before)
        while pending:
            for node, candidates in pending.pop(min(pending)).items():
                own = set(node.sets.values())
                for candidate in candidates:
                    supported = [pair for pair in tables.supported(candidate) if pair[0] in own]
                    if supported and not node.holds(tables.document(candidate), self.knowledge, tables.contains):
                        self._withdraw(candidate, supported, pending, before)

    def _withdraw(self, position: int, supported: list[tuple[int, Value]], pending: Pending, before: Before) -> None:
        for number, value in supported:
            if self.tables.withdraw(number, value, position):
                before.setdefault((number, value), True)
                for field, nodes in self._readers[number].items():
                    inner = [node for node in nodes if node.sets]
                    if inner:
                        for holder in self.tables.holders(field, value):
                            for node in inner:
                                _ask(pending, node, holder)

    # --- evidence ------------------------------------------------------------------------------

    def reasons(self, number: int, position: int) -> tuple[Reason, ...]:
        """Why the nested parts of a subscription hold for a document: which documents put its values into the sets."""
        return self._reasons(self._of[number], self.tables.document(position))

    def _reasons(self, node: Node, document: Document) -> tuple[Reason, ...]:
        found = []
        for member in node.members:
            for value in keys_of(document, member.field):
                supporter = self.tables.supporter(member.set, value)
                if supporter is not None:
                    by = self.tables.document(supporter)
                    inner = self._reasons(self._collects[member.set], by)
                    found.append(Reason(member.field, value, by.id, by.version, inner))
                    break
        return tuple(found)


def _ask(pending: Pending, node: Node, position: int) -> None:
    pending.setdefault(node.depth, {}).setdefault(node, {})[position] = None


class _Values(AbstractSet[Value]):
    """A set of the tables, as the oracle reads it."""

    def __init__(self, tables: Tables, number: int) -> None:
        self._tables = tables
        self._number = number

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str | float) and self._tables.contains(self._number, value)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._tables.values(self._number))

    def __len__(self) -> int:
        return self._tables.size(self._number)
