"""Which queries of an access point are forwarded (P2P-DIET §3, "continuous query poset").

A query that a forwarded one covers is not forwarded: whatever matches it comes anyway. When a forwarded query leaves,
those that it covered and no other forwarded one covers are forwarded in its place. (The paper is silent there; without
it they would be deaf.)

The paper lets a super-peer hold back what *any* query that it has seen covers, wherever that came from. On a graph with
cycles this loses notices: the covering query draws documents along the shortest paths to *its* access point, which need
not pass where the other query waits (`tests/paper/test_superpeers.py` shows one). So queries are compared with those of
the same access point, to which all notices go by the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tocsin.query.ast import Query
from tocsin.query.covering import covers
from tocsin.text import Analysis

Covers = Callable[[Query, Query, Analysis], bool]


@dataclass(frozen=True, slots=True)
class Change:
    """What has to be told to others: first what is new, then what is gone."""

    forwarded: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Poset:
    """Queries by name; each is forwarded, or has a forwarded query that covers it."""

    def __init__(self, analysis: Analysis, is_used: bool = True) -> None:
        """Not used: every query is forwarded."""
        self._analysis, self._is_used = analysis, is_used
        self._queries: dict[str, Query] = {}
        self._cover: dict[str, str] = {}  # covered -> a forwarded one that covers it

    def __contains__(self, name: str) -> bool:
        return name in self._queries

    def __len__(self) -> int:
        return len(self._queries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def query(self, name: str) -> Query:
        """A query."""
        return self._queries[name]

    def forwarded(self) -> list[str]:
        """Those that others know."""
        return [name for name in self._queries if name not in self._cover]

    def cover(self, name: str) -> str:
        """The forwarded query that stands for one: another, or itself."""
        return self._cover.get(name, name)

    def add(self, name: str, query: Query, is_free: bool = True) -> Change:
        """A new query; not free: it is forwarded whatever covers it."""
        self._queries[name] = query
        cover = self._find(name) if is_free else None
        if cover is None:
            return Change(forwarded=(name,))
        self._cover[name] = cover
        return Change()

    def remove(self, name: str) -> Change:
        """A query leaves."""
        del self._queries[name]
        if self._cover.pop(name, None) is not None:
            return Change()
        orphans = [one for one, cover in self._cover.items() if cover == name]
        for one in orphans:
            del self._cover[one]
        found = []
        waiting = set(orphans)
        for one in orphans:  # those that come later may be covered by those before
            waiting.discard(one)
            cover = self._find(one, waiting)
            if cover is None:
                found.append(one)
            else:
                self._cover[one] = cover
        return Change(tuple(found), (name,))

    def _find(self, name: str, waiting: set[str] | None = None) -> str | None:
        if not self._is_used:
            return None
        query = self._queries[name]
        return next(
            (
                one
                for one, other in self._queries.items()
                if one != name
                and one not in self._cover
                and one not in (waiting or ())
                and covers(other, query, self._analysis)
            ),
            None,
        )
