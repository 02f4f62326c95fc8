"""Where queries live: pull against push, mirroring, partition by id, partition by word (SmartSeer §III-A).

Each architecture is a placement: the homes of a query, and the nodes that a document visits. What a document finds at
the nodes it visits is exactly what it matches; they differ in how many nodes that takes, how many bytes, and how often
a query is stored. Pull has no homes: queries are asked again and again, whether there is anything new or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from tocsin.match.rendezvous.bloom import hashes_of
from tocsin.match.rendezvous.conversation import HEADER_BYTES, DocumentSide
from tocsin.match.rendezvous.notification import LOOKUP_BYTES, Notification, Owner, Ring, plan
from tocsin.match.rendezvous.payload import Join, Notice, encode
from tocsin.match.rendezvous.registered import Registered, decide
from tocsin.query.normal import Frequency, Key, anchors
from tocsin.query.semantics import Knowledge
from tocsin.text import Analysis

ID_BYTES = 8
"""A document's id in a list that is passed on."""


class Architecture(Protocol):
    """A push architecture."""

    def homes(self, registered: Registered) -> AbstractSet[int]:
        """The nodes that keep the query."""

    def visit(self, side: DocumentSide) -> AbstractSet[int]:
        """The nodes that a document is sent to."""

    def lookups(self, visited: Collection[int]) -> int:
        """How many lookups it takes to know them."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """Every node has everything; a document goes to one of them."""

    nodes: int

    def homes(self, registered: Registered) -> AbstractSet[int]:
        """All nodes."""
        return frozenset(range(self.nodes))

    def visit(self, side: DocumentSide) -> AbstractSet[int]:
        """Any node: its id decides, which is as good as chance."""
        return frozenset({_spread(side.document.id, self.nodes)})

    def lookups(self, visited: Collection[int]) -> int:
        """None: all nodes are known."""
        return 0


@dataclass(frozen=True, slots=True)
class ById:
    """Queries are dealt out; a document goes to all nodes."""

    nodes: int

    def homes(self, registered: Registered) -> AbstractSet[int]:
        """One node, by the query's id."""
        return frozenset({_spread(registered.id, self.nodes)})

    def visit(self, side: DocumentSide) -> AbstractSet[int]:
        """All nodes."""
        return frozenset(range(self.nodes))

    def lookups(self, visited: Collection[int]) -> int:
        """None: all nodes are known."""
        return 0


@dataclass(frozen=True)
class ByWord:
    """A query lives with its most selective word; a document goes to the owners of its words.

    A disjunction waits at one word of each part; what can wait at no word lives on a dedicated node that sees every
    document (§VI-A).
    """

    ring: Ring
    analysis: Analysis
    frequency: Frequency
    dedicated: int | None = None

    def homes(self, registered: Registered) -> AbstractSet[int]:
        """The owners of its anchors."""
        found = anchors(registered.query, self.analysis, self.frequency)
        if found is None:
            return frozenset({self._dedicated})
        return frozenset(map(self.ring.owner, found))

    def visit(self, side: DocumentSide) -> AbstractSet[int]:
        """The owners of its words, and the dedicated node if there is one."""
        found = set(map(self.ring.owner, side.held))
        return frozenset(found if self.dedicated is None else found | {self.dedicated})

    def lookups(self, visited: Collection[int]) -> int:
        """One for each node."""
        return len(visited)

    @property
    def _dedicated(self) -> int:
        if self.dedicated is None:
            raise ValueError("this query can wait at no word: name a dedicated node")
        return self.dedicated


def _spread(id: str, nodes: int) -> int:
    return int(hashes_of([id.encode()])[0]) % nodes


@dataclass(slots=True)
class Traffic:
    """What documents and queries cost an architecture."""

    documents: int = 0
    queries: int = 0
    copies: int = 0
    """Queries stored over all nodes."""
    nodes_contacted: int = 0
    bytes: int = 0
    matches: set[tuple[str, str]] = field(default_factory=set)
    """(document, query)."""
    load: Counter[int] = field(default_factory=Counter)
    """Queries that each node has compared with documents."""

    @property
    def nodes_per_document(self) -> float:
        """Nodes that hear of a document."""
        return self.nodes_contacted / max(1, self.documents)

    @property
    def bytes_per_document(self) -> float:
        """Bytes on the network for a document."""
        return self.bytes / max(1, self.documents)


def push(
    architecture: Architecture, queries: Sequence[Registered], sides: Sequence[DocumentSide], knowledge: Knowledge
) -> Traffic:
    """Documents are sent whole (every architecture can do that) to the nodes they must visit."""
    traffic = Traffic(len(sides), len(queries))
    kept: dict[int, list[Registered]] = {}
    for registered in queries:
        homes = architecture.homes(registered)
        traffic.copies += len(homes)
        for node in homes:
            kept.setdefault(node, []).append(registered)
    for side in sides:
        visited = architecture.visit(side)
        size = len(encode(side.open(Join.SEND_DOCUMENT))) + HEADER_BYTES
        traffic.nodes_contacted += len(visited)
        traffic.bytes += len(visited) * size + architecture.lookups(visited) * (LOOKUP_BYTES + 2 * HEADER_BYTES)
        for node in visited:
            traffic.load[node] += len(kept.get(node, ()))
            for registered in kept.get(node, ()):
                if decide(registered, side.held, side.document, knowledge):
                    traffic.matches.add((side.document.id, registered.id))
    return traffic


def pull(
    owner: Owner,
    nodes: Sequence[int],
    queries: Sequence[Registered],
    sides: Sequence[DocumentSide],
    knowledge: Knowledge,
    *,
    frequency: Frequency,
    documents_between_polls: int,
) -> Traffic:
    """Documents are indexed by word; every so often, each query is run on what is new.

    A query goes to the owner of each anchor (all nodes, if it has none), which knows the new documents listed there. A
    conjunction of words passes their ids on from owner to owner, and keeps what every list has; for any other query
    they are fetched whole. This favours pull: only lists since the last poll, and nothing is sent on when none is left.
    """
    traffic = Traffic(len(sides), len(queries))
    waits = {each.id: anchors(each.query, knowledge.analysis, frequency) for each in queries}
    for start in range(0, len(sides), documents_between_polls):
        new = sides[start : start + documents_between_polls]
        lists: dict[Key, list[DocumentSide]] = {}
        for side in new:
            told = plan(Notification.CLUSTERED, Join.DIALOGUE, side.held, owner, nodes)
            traffic.bytes += told.bytes(side, Join.DIALOGUE)
            traffic.nodes_contacted += len(told.visits)
            for key in side.held:
                lists.setdefault(key, []).append(side)
        for registered in queries:
            found = waits[registered.id]
            asked = frozenset(nodes) if found is None else frozenset(map(owner, found))
            listed = new if found is None else [side for key in sorted(found) for side in lists.get(key, [])]
            candidates = {side.document.id: side for side in listed}
            traffic.nodes_contacted += len(asked)
            traffic.bytes += len(asked) * (2 * HEADER_BYTES + len(registered.text.encode()))
            hops, size = _refine(registered, found, candidates, lists)
            traffic.nodes_contacted += hops
            traffic.bytes += size
            for id, side in candidates.items():
                if decide(registered, side.held, side.document, knowledge):
                    traffic.matches.add((id, registered.id))
    return traffic


def _refine(
    registered: Registered,
    anchored: AbstractSet[Key] | None,
    candidates: dict[str, DocumentSide],
    lists: dict[Key, list[DocumentSide]],
) -> tuple[int, int]:
    """Nodes and bytes until a query knows its new documents; a conjunction thins out the candidates on the way."""
    clauses = registered.clauses
    if len(clauses) != 1 or not clauses[0].exact or clauses[0].forbidden:
        sizes = (len(encode(Notice(Join.SEND_DOCUMENT, id, 1, (), each.packed))) for id, each in candidates.items())
        return len(candidates), sum(HEADER_BYTES + size for size in sizes)
    hops = size = 0
    for key in sorted(clauses[0].required - (anchored or frozenset())):
        if not candidates:
            break
        hops, size = hops + 1, size + HEADER_BYTES + ID_BYTES * len(candidates)
        listed = {side.document.id for side in lists.get(key, [])}
        for id in [id for id in candidates if id not in listed]:
            del candidates[id]
    return hops, size
