"""Term dialogue: which words to ask about, so that few words decide many queries (SmartSeer §IV-A).

A query node asks whether the document holds some words; each answer eliminates queries, and with them words that need
not be asked any more. The word that alone keeps a query open is a *singleton*: no other answer can spare it, so it is
asked first, until every open query has two or more unresolved words. Then come words that are likely to eliminate most.

§IV-A leaves the best order open (it would cost exponential time). What holds for every fixed order: asking
singletons first never asks a word that the order alone would not have asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.match.rendezvous.registered import Registered
from tocsin.query.normal import Key

Rank = Callable[[Key, int], float]
"""Lower is asked earlier: of a word and in how many open queries it stands."""


def most_queries_first(key: Key, queries: int) -> float:
    """Without statistics: the word that stands in most open queries."""
    return -queries


def most_eliminated_first(share: Callable[[Key], float]) -> Rank:
    """The word whose absence is expected to eliminate most; `share` is the share of documents that hold a word."""
    return lambda key, queries: -queries * (1 - share(key))


@dataclass(frozen=True, slots=True)
class DialogueSettings:
    """How a query node asks."""

    words_per_round: int | None = None
    """At most so many words in a message; None: everything that is open in one message, so there is one round."""
    singletons_first: bool = True
    rank: Rank = most_queries_first


@dataclass(slots=True)
class _OpenClause:
    required: set[Key]
    forbidden: set[Key]
    exact: bool

    def unresolved(self) -> int:
        return len(self.required) + len(self.forbidden)


@dataclass(slots=True)
class _OpenQuery:
    registered: Registered
    clauses: list[_OpenClause]

    def unresolved(self) -> set[Key]:
        return set().union(*(clause.required | clause.forbidden for clause in self.clauses))


@dataclass(slots=True)
class Dialogue:
    """The query node's side: what is open, what is known, what to ask next."""

    queries: Sequence[Registered]
    settings: DialogueSettings = DialogueSettings()
    matched: list[Registered] = field(default_factory=list)
    """Words decided: these match."""
    undecided: list[Registered] = field(default_factory=list)
    """All that words can tell holds, but the query asks for more."""
    _open: dict[int, _OpenQuery] = field(default_factory=dict)
    _asking: dict[Key, set[int]] = field(default_factory=dict)
    _singletons: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        for number, registered in enumerate(self.queries):
            clauses = [_OpenClause(set(one.required), set(one.forbidden), one.exact) for one in registered.clauses]
            query = self._open[number] = _OpenQuery(registered, clauses)
            for key in query.unresolved():
                self._asking.setdefault(key, set()).add(number)
        for number in list(self._open):
            self._settle(number)

    @property
    def open_words(self) -> frozenset[Key]:
        """Words that may still have to be asked."""
        return frozenset(self._asking)

    @property
    def remaining(self) -> list[Registered]:
        """Queries that are neither matched nor eliminated, those that only the oracle can decide included."""
        return [query.registered for query in self._open.values()] + self.undecided

    def ask(self) -> tuple[Key, ...]:
        """The words of the next message; none when words can tell no more."""
        if not self._asking:
            return ()
        most = self.settings.words_per_round
        if most is None:
            return tuple(sorted(self._asking))
        if self.settings.singletons_first and self._singletons:
            return tuple(sorted(self._singletons)[:most])
        rank = self.settings.rank
        return tuple(sorted(self._asking, key=lambda key: (rank(key, len(self._asking[key])), key))[:most])

    def learn(self, answers: Mapping[Key, bool] | Iterable[tuple[Key, bool]]) -> None:
        """Takes answers; words that nobody asks about any more are ignored."""
        for key, present in dict(answers).items():
            self._singletons.discard(key)
            for number in self._asking.pop(key, ()):
                query = self._open[number]
                query.clauses = [clause for clause in query.clauses if _survives(clause, key, present)]
                self._settle(number)

    def _settle(self, number: int) -> None:
        """Closes a query that is decided, and notes a word that alone keeps it open."""
        query = self._open[number]
        done = [clause for clause in query.clauses if not clause.unresolved()]
        if done or not query.clauses:
            if any(clause.exact for clause in done):
                self.matched.append(query.registered)
            elif done:
                self.undecided.append(query.registered)
            del self._open[number]
            self._release(number, query.registered.keys)
            return
        wanted = query.unresolved()
        self._release(number, query.registered.keys - wanted)
        if len(query.clauses) == 1 and len(wanted) == 1:
            self._singletons |= wanted

    def _release(self, number: int, keys: Iterable[Key]) -> None:
        for key in keys:
            asking = self._asking.get(key)
            if asking is not None:
                asking.discard(number)
                if not asking:
                    del self._asking[key]


def _survives(clause: _OpenClause, key: Key, present: bool) -> bool:
    """Resolves the word in the clause; False if the clause can hold no more."""
    if key in clause.required:
        clause.required.discard(key)
        return present
    if key in clause.forbidden:
        clause.forbidden.discard(key)
        return not present
    return True
