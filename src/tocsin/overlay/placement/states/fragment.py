"""What the owner of a state keeps: a fragment of the automaton, made of items (XML filtering paper §4).

An item says either that a subscriber has queries on which these labels follow the state, or that a query is accepted
after these labels. Both are the subscriber's own: it removes them when its last query that needs them ends, without
asking what other subscribers need. A fragment is the tree of all the labels. As items have owners, copies and
versions of their own (`overlay.items`), so have fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgpack

from tocsin.overlay.message import Address, Item
from tocsin.overlay.placement.states.key import STATE_KIND, is_loop, prefixes, tail, weight
from tocsin.overlay.placement.states.outline import DOCUMENT, Outline, labels_of
from tocsin.query.xpath.ast import Path, namespaces_in
from tocsin.query.xpath.routes import EPSILON, Linear, clauses_of, linear_paths
from tocsin.query.xpath.show import show_xpath

ONWARD, ACCEPTS, COPIED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A linear path of a query, as its accepting state keeps it."""

    subscription: str
    subscriber: Address
    text: str = ""
    """A query with predicates, branches or alternatives, which the publisher checks; "": reaching this is enough."""
    namespaces: tuple[tuple[str, str], ...] = ()
    clause: int = 0
    path: int = 0
    paths: int = 1
    """The clause may hold when all of its paths have been reached."""

    def packed(self) -> bytes:
        """As bytes."""
        data: bytes = msgpack.packb([
            self.subscription, self.subscriber, self.text, self.namespaces, self.clause, self.path, self.paths
        ])  # fmt: skip
        return data

    @classmethod
    def unpacked(cls, data: bytes) -> Entry | None:
        """None if it is nonsense of another node."""
        try:
            subscription, subscriber, text, namespaces, *numbers = msgpack.unpackb(data, use_list=False)
            strings = (subscription, subscriber, text, *(part for pair in namespaces for part in pair))
            if not all(isinstance(one, str) for one in strings):
                return None
            clause, path, paths = map(int, numbers)
            return cls(subscription, subscriber, text, namespaces, clause, path, paths)
        except (ValueError, TypeError, msgpack.UnpackException):
            return None


@dataclass(slots=True)
class Node:
    """A state inside a fragment."""

    onward: dict[str, Node] = field(default_factory=dict)
    accepts: list[Entry] = field(default_factory=list)

    def at(self, labels: Linear) -> Node:
        """The state that labels lead to, new if need be."""
        node = self
        for label in labels:
            node = node.onward.setdefault(label, Node())
        return node


# --- a query as items ------------------------------------------------------------------------------------------------

Place = tuple[Linear, bytes]
"""A state, and the name of an item there."""


def paths_of(query: Path) -> list[tuple[int, int, int, Linear]]:
    """The linear paths of a query: clause, number in the clause, how many the clause has, labels."""
    found = []
    for number, clause in enumerate(clauses_of(query)):
        paths = linear_paths(clause) if clause.guarded else linear_paths(clause)[:1]
        found += [(number, at, len(paths), path) for at, path in enumerate(paths)]
    return found


def states_of(query: Path) -> frozenset[Linear]:
    """The states of a query's automaton."""
    return frozenset(state for *_, path in paths_of(query) for state in prefixes(path))


def places_of(query: Path, subscription: str, subscriber: Address, length: int) -> dict[Place, bytes]:
    """What the owners of a query's states keep of it."""
    clauses = clauses_of(query)
    is_plain = len(clauses) == 1 and not clauses[0].guarded
    text = "" if is_plain else show_xpath(query)
    namespaces = () if is_plain else tuple(sorted(namespaces_in(query).items()))
    found: dict[Place, bytes] = {}
    for clause, number, paths, path in paths_of(query):
        entry = Entry(subscription, subscriber, text, namespaces, clause, number, paths).packed()
        for depth, state in enumerate(prefixes(path)):
            if onward := tail(path, depth, length):
                found[state, msgpack.packb((ONWARD, subscriber, onward))] = b""
            if weight(path[depth:]) <= length:
                name = msgpack.packb((ACCEPTS, subscription, clause, number, path[depth:]))
                found[state, name] = entry
    return found


def fragment_of(items: Iterable[Item]) -> Node:
    """The fragment that items of one state make; what is nonsense in them is passed over."""
    root = Node()
    for item in items:
        if item.kind != STATE_KIND or item.value is None:
            continue
        try:
            what, *rest = msgpack.unpackb(item.name, use_list=False)
            labels = rest[-1] if what in (ONWARD, ACCEPTS) else None
        except (ValueError, TypeError, IndexError, msgpack.UnpackException):
            continue
        if not isinstance(labels, tuple) or not all(isinstance(label, str) for label in labels):
            continue
        if what == ONWARD:
            root.at(labels)
        elif (entry := Entry.unpacked(item.value)) is not None:
            root.at(labels).accepts.append(entry)
    return root


def kept_states(state: Linear, fragment: Node, length: int) -> frozenset[Linear]:
    """The states that an owner keeps for one of its own (Figure 2): those within `length` labels."""
    found: set[Linear] = set()
    waiting = [(state, fragment, 0)]
    while waiting:
        labels, node, taken = waiting.pop()
        found.add(labels)
        for label, target in node.onward.items():
            more = taken + (label != EPSILON)
            if more <= length:
                waiting.append(((*labels, label), target, more))
    return frozenset(found)


# --- the transition function -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Run:
    """What an owner finds for a state that was reached: what is accepted here, and who goes on."""

    accepted: list[Entry] = field(default_factory=list)
    onward: list[tuple[Linear, int, str]] = field(default_factory=list)
    """States of other owners; the element where each has been reached; its attribute or text, if it was that."""


def run(fragment: Node, state: Linear, outline: Outline, length: int) -> Run:
    """Follows everything that begins at a state, as far as the fragment reaches (§5: δ, and its closure for l > 0).

    Siblings and targets fork: each goes on by itself. A state with a loop is its own target one level deeper; for its
    owner, that is as if it had been reached there by a message.
    """
    found = Run()
    if state and not outline.is_ghost(0):
        found.accepted += fragment.accepts
    roots = [DOCUMENT if not state else 0]
    for root in roots:
        if is_loop(state):
            roots += outline.below(root)
        _run_from((fragment, state, root), outline, length, found)
    return found


def _run_from(start: tuple[Node, Linear, int], outline: Outline, length: int, found: Run) -> None:
    """The paths that begin at a state at one element."""
    fragment, state, root = start
    waiting = [(fragment, state, root, 0)]
    seen: set[tuple[int, int, bool]] = set()

    def arrive(node: Node, labels: Linear, index: int, taken: int, leaf: str = "") -> None:
        if (id(node), index, leaf != "") in seen:  # along another way: loops may take the same elements
            return
        seen.add((id(node), index, leaf != ""))
        if taken > length:
            found.onward.append((labels, index, leaf))
            return
        if leaf or not outline.is_ghost(index):
            found.accepted += node.accepts
        if not leaf:
            waiting.append((node, labels, index, taken))

    while waiting:
        node, labels, index, taken = waiting.pop()
        if (target := node.onward.get(EPSILON)) is not None:
            waiting.append((target, (*labels, EPSILON), index, taken))
        for child in outline.below(index):
            for label in labels_of(outline.name(child)):
                if (target := node.onward.get(label)) is not None:
                    arrive(target, (*labels, label), child, taken + 1)
            if is_loop(labels) and node is not fragment:
                arrive(node, labels, child, taken + 1)
        for leaf in outline.leaves(index):
            for label in labels_of(leaf):
                if (target := node.onward.get(label)) is not None:
                    arrive(target, (*labels, label), index, taken + 1, leaf)


def step(fragment: Node, state: Linear, names: Iterable[str]) -> Iterator[Linear]:
    """One step of the iterative execution: the labels that names lead along, and the loop if one stays active."""
    loop = fragment.onward.get(EPSILON)
    if is_loop(state):
        yield ()
    elif loop is not None:
        yield (EPSILON,)
    for label in dict.fromkeys(label for name in names for label in labels_of(name)):
        if label in fragment.onward:
            yield (label,)
        if loop is not None and label in loop.onward:
            yield (EPSILON, label)
