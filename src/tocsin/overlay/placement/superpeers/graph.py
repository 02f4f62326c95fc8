"""An arbitrary undirected graph of super-peers, and the shortest paths in it (P2P-DIET §3; Dalal and Metcalfe).

Every super-peer knows the whole graph from link states. A link is there when both of its ends find it alive. Paths
have the fewest links; where several are equally short, the smaller address decides, alike everywhere: so the shortest
paths to one super-peer are a tree, cycles or not, and a broadcast down that tree meets each super-peer once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from tocsin.overlay.message import Address


class Graph:
    """Links between super-peers; made anew when one changes."""

    def __init__(self, links: Mapping[Address, Iterable[Address]]) -> None:
        """`links`: whom each super-peer finds alive."""
        said = {one: set(others) for one, others in links.items()}
        self._links = {
            one: tuple(sorted(other for other in others if other != one and one in said.get(other, ())))
            for one, others in said.items()
        }
        self._trees: dict[Address, dict[Address, tuple[int, Address]]] = {}

    def neighbours(self, one: Address) -> tuple[Address, ...]:
        """The ends of its links."""
        return self._links.get(one, ())

    def tree(self, root: Address) -> dict[Address, tuple[int, Address]]:
        """Of every super-peer that reaches the root: how many links away it is, and its next one on the way."""
        found = self._trees.get(root)
        if found is None:
            found = {root: (0, root)}
            queue = deque([root])
            while queue:  # level by level, so a parent is met before its children; smaller addresses first in a level
                one = queue.popleft()
                for other in self.neighbours(one):
                    if other not in found:
                        found[other] = found[one][0] + 1, one
                        queue.append(other)
                    elif found[other][0] == found[one][0] + 1 and one < found[other][1]:
                        found[other] = found[other][0], one
            self._trees[root] = found
        return found

    def distance(self, start: Address, end: Address) -> int | None:
        """Links between two super-peers; None if there is no way."""
        found = self.tree(end).get(start)
        return None if found is None else found[0]

    def next_hop(self, start: Address, end: Address) -> Address | None:
        """Where to go first on the shortest path."""
        found = self.tree(end).get(start)
        return None if found is None else found[1]

    def children(self, one: Address, root: Address) -> tuple[Address, ...]:
        """Those whose way to the root goes first to this one."""
        tree = self.tree(root)
        return tuple(other for other in self.neighbours(one) if other != root and tree.get(other, (0, ""))[1] == one)

    def below(self, one: Address, root: Address) -> frozenset[Address]:
        """Those whose way to the root goes through this one, itself included."""
        found = {one}
        queue = deque([one])
        while queue:
            new = [child for child in self.children(queue.popleft(), root) if child not in found]
            found.update(new)
            queue.extend(new)
        return frozenset(found)

    def reachable(self, start: Address) -> AbstractSet[Address]:
        """Everybody there is a way to, itself included."""
        return self.tree(start).keys()
