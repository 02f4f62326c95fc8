"""A query as linear paths: what the automaton can hold (XML filtering paper §2 and §3).

The paper splits a query with branches into linear paths. Splitting alone says too much: in `a[b]/c` one `a` may have
the `b` and another one the `c`. So the linear paths of a clause are what *must* occur somewhere in a document, and
the clause keeps its hops, on which the paths are joined again at the element they share.

`descendant-or-self::` looks at two places: such a step gives two clauses, of which one must hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from tocsin.errors import QueryTooCostly
from tocsin.query.xpath.ast import ANY, Axis, Compare, Every, Exists, Name, Path, Predicate, Step, Text, is_positional
from tocsin.query.xpath.show import show_xpath

EPSILON, WILDCARD, TEXT = "$", "*", "text()"
"""Labels of transitions that are no names; the paper writes ε as '$' in keys. Attributes start with '@'."""
CLAUSES_MAX = 64
BRANCHES_MAX = 32

Linear = tuple[str, ...]
"""Labels from the start of the automaton to an accepting state."""


class Kind(IntEnum):
    """What a hop arrives at."""

    ELEMENT = 0
    ATTRIBUTE = 1
    TEXT = 2


@dataclass(frozen=True, slots=True)
class Hop:
    """One transition of a linear path, after an ε with its loop if it is deep, and what must hold where it arrives."""

    deep: bool
    kind: Kind
    name: Name  # of a text: ANY
    predicates: tuple[Predicate, ...] = ()

    @property
    def label(self) -> str:
        """The label of its transition."""
        if self.kind is Kind.TEXT:
            return TEXT
        return "@" + self.name.clark if self.kind is Kind.ATTRIBUTE else self.name.clark

    @property
    def step(self) -> Step:
        """The same as a step from the parent: positions count among the parent's children or attributes."""
        axis = Axis.ATTRIBUTE if self.kind is Kind.ATTRIBUTE else Axis.CHILD
        return Step(axis, Text() if self.kind is Kind.TEXT else self.name, self.predicates)


@dataclass(frozen=True, slots=True)
class Clause:
    """Hops from the document; where they are not exact (positions below a context), the oracle decides."""

    hops: tuple[Hop, ...]
    exact: bool = True

    @property
    def guarded(self) -> bool:
        """Is there more to check than the linear path?"""
        return not self.exact or any(hop.predicates for hop in self.hops)


def clauses_of(query: Path) -> tuple[Clause, ...]:
    """The clauses of a query: it holds where one of them does. None: it never holds."""
    start = Clause(()) if query.absolute else Clause((Hop(False, Kind.ELEMENT, ANY),))
    return _extend(start, query)


def plain_path(query: Path) -> Linear | None:
    """The one linear path of a query that has only names, '*', '/' and '//'; None for all others."""
    labels: list[str] = []
    for step in query.steps:
        if step.axis is not Axis.CHILD or step.predicates or not isinstance(step.test, Name):
            return None
        if step.deep:
            labels.append(EPSILON)
        labels.append(step.test.clark)
    return tuple(labels) if query.absolute else None


def linear(hops: tuple[Hop, ...]) -> Linear:
    """The labels of the hops, ε before the deep ones."""
    labels: list[str] = []
    for hop in hops:
        if hop.deep:
            labels.append(EPSILON)
        labels.append(hop.label)
    return tuple(labels)


def linear_paths(clause: Clause) -> tuple[Linear, ...]:
    """The paths that must occur for the clause to hold: its spine first, then its branches."""
    found: dict[Linear, None] = {}
    for path in _required(clause.hops):
        found[path] = None
        if len(found) > BRANCHES_MAX:
            break
    return tuple(found)


def conjuncts(predicates: tuple[Predicate, ...]) -> Iterator[Predicate]:
    """The conditions that must all hold."""
    for predicate in predicates:
        if isinstance(predicate, Every):
            yield from conjuncts(predicate.parts)
        else:
            yield predicate


def _required(hops: tuple[Hop, ...]) -> Iterator[Linear]:
    yield linear(hops)
    for at, hop in enumerate(hops):
        for predicate in conjuncts(hop.predicates):
            if isinstance(predicate, Exists | Compare):
                context = Clause(() if predicate.path.absolute else (*hops[:at], replace(hop, predicates=())))
                options = _extend(context, predicate.path)
                if len(options) == 1:
                    yield from _required(options[0].hops)


def _extend(start: Clause, path: Path) -> tuple[Clause, ...]:
    """The clauses that go on from one along a path."""
    clauses, deep = [start], False
    for step in path.steps:
        deep = deep or step.deep
        if step.axis is Axis.SELF:
            continue
        clauses = [longer for clause in clauses for longer in _longer(clause, step, deep)]
        deep = False
        if len(clauses) > CLAUSES_MAX:
            reason = f"descendant-or-self:: gives more than {CLAUSES_MAX} alternatives: use // instead"
            raise QueryTooCostly(reason, show_xpath(path), 0)
    if deep:  # a//. is a; //. is any element
        clauses = [clause if clause.hops else Clause((Hop(True, Kind.ELEMENT, ANY),)) for clause in clauses]
    return tuple(clauses)


def _longer(clause: Clause, step: Step, deep: bool) -> Iterator[Clause]:
    if clause.hops and clause.hops[-1].kind is not Kind.ELEMENT:
        return  # nothing is below attributes and texts
    spelled = step.axis in (Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF)
    exact = clause.exact and not (spelled and any(is_positional(one) for one in step.predicates))
    kind = Kind.ATTRIBUTE if step.axis is Axis.ATTRIBUTE else Kind.ELEMENT
    if isinstance(step.test, Text):
        yield Clause((*clause.hops, Hop(deep or spelled, Kind.TEXT, ANY, step.predicates)), exact)
        return
    assert isinstance(step.test, Name)
    name = replace(step.test, prefix="")
    yield Clause((*clause.hops, Hop(deep or spelled, kind, name, step.predicates)), exact)
    if step.axis is Axis.DESCENDANT_OR_SELF and clause.hops:
        last = clause.hops[-1]
        both = _both(last.name, name)
        if both is not None:
            exact = exact and (both == last.name or not any(is_positional(one) for one in last.predicates))
            merged = replace(last, name=both, predicates=last.predicates + step.predicates)
            yield Clause((*clause.hops[:-1], merged), exact)


def _both(one: Name, other: Name) -> Name | None:
    """The test that a name passes if it passes both."""
    uri = other.uri if one.uri is None else one.uri
    local = other.local if one.local is None else one.local
    fits = (other.uri is None or other.uri == uri) and (other.local is None or other.local == local)
    return Name(local, uri) if fits else None
