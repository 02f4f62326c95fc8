"""An index over the continuous queries that a super-peer knows, by a word that each must see (P2P-DIET §3)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from tocsin.match.rendezvous.registered import Registered, decide, held_keys, register
from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.normal import Key, anchors
from tocsin.query.semantics import Knowledge

N = TypeVar("N", bound=Hashable)


class Arrived:
    """A document with its words, found once."""

    __slots__ = ("document", "held")

    def __init__(self, document: Document, knowledge: Knowledge) -> None:
        self.document, self.held = document, held_keys(document, knowledge.analysis)


class QueryTable(Generic[N]):
    """Queries by name."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._queries: dict[N, tuple[Registered, frozenset[Key] | None]] = {}
        self._waiting: dict[Key, dict[N, None]] = {}
        self._everywhere: dict[N, None] = {}  # queries that wait at no word

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, name: N) -> bool:
        return name in self._queries

    def set(self, name: N, query: Query) -> None:
        """Adds a query, or puts it in the place of another."""
        self.remove(name)
        keys = anchors(query, self._knowledge.analysis)
        self._queries[name] = register("", query, self._knowledge.analysis), keys
        if keys is None:
            self._everywhere[name] = None
        for key in keys or ():
            self._waiting.setdefault(key, {})[name] = None

    def remove(self, name: N) -> None:
        """Forgets a query, if it is there."""
        if name not in self._queries:
            return
        _, keys = self._queries.pop(name)
        if keys is None:
            del self._everywhere[name]
        for key in keys or ():
            del self._waiting[key][name]
            if not self._waiting[key]:
                del self._waiting[key]

    def matches(self, name: N, arrived: Arrived) -> bool:
        """Whether a document matches one query."""
        return decide(self._queries[name][0], arrived.held, arrived.document, self._knowledge)

    def matching(self, arrived: Arrived) -> Iterator[N]:
        """Names of all queries that a document matches."""
        tried: dict[N, None] = dict(self._everywhere)
        for key in arrived.held & self._waiting.keys():
            tried |= self._waiting[key]
        return (name for name in tried if self.matches(name, arrived))
