"""What guarded queries ask of the elements of a document, as one graph (XML filtering paper §5).

A condition is a node: the elements of a name, those that hold a value that compares, those with a child in a set, and
so on (`path_conditions` has the list). Equal conditions are the same node, so a predicate, a branch or a prefix that
a thousand queries share is evaluated once per document.

Under *Selection Postponed* a clause is looked at only after its linear paths have occurred, and as a join at its last
guarded element: what that element must be, what must be below it, and how it must be reached. Under *Inline* there is
no such order: hop after hop, a set is entered only by the elements at which the hop's predicates hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import reduce
from math import isnan
from typing import Any, NamedTuple

import numpy.typing as npt

from tocsin.match import path_conditions as conditions
from tocsin.match.path_automaton import Labels
from tocsin.match.path_graph import Graph, Test
from tocsin.query.xpath.ast import (
    ANY,
    Axis,
    Compare,
    Every,
    Exists,
    Name,
    Never,
    Path,
    Position,
    Predicate,
    Some,
    Step,
    Text,
    is_positional,
    paths_in,
)
from tocsin.query.xpath.routes import Clause, Hop, Kind
from tocsin.query.xpath.semantics import number_of

AnyArray = npt.NDArray[Any]


class Shared(NamedTuple):
    """A clause as a member of a family: their condition, which values they compare, how, and this one with what."""

    test: Test
    what: int
    label: int
    how: int
    literal: float


_NUMBERS = {
    "=": conditions.EQUAL,
    "!=": conditions.UNEQUAL,
    "<": conditions.LESS,
    "<=": conditions.AT_MOST,
    ">": conditions.MORE,
    ">=": conditions.AT_LEAST,
}
_STRINGS = {"=": conditions.SAME, "!=": conditions.DIFFERENT}


class Selection(StrEnum):
    """When predicates are checked."""

    INLINE = "inline"
    POSTPONED = "postponed"


class Guards(Graph):
    """The graph of all conditions, and how those of a clause are written into it."""

    def __init__(self, labels: Labels, selection: Selection = Selection.POSTPONED) -> None:
        super().__init__()
        self.labels = labels
        self.selection = selection

    # --- clauses -----------------------------------------------------------------------------

    def take(self, clause: Clause, query: Path) -> Test:
        """The conditions of a clause, one of a query."""
        test = self._test(clause, query)
        self.keep(test)
        return test

    def compared(self, clause: Clause) -> tuple[Compare, int] | None:
        """The predicate that makes a clause one of a family, and a number that those of a family have in common.

        Its last guarded element is asked for one value only; None for other clauses.
        """
        if self.selection is Selection.INLINE or not clause.exact:
            return None
        hops, at = clause.hops, _last_guarded(clause)
        hop = hops[at]
        only = hop.predicates[0]
        if hop.kind is not Kind.ELEMENT or len(hop.predicates) > 1 or not isinstance(only, Compare):
            return None
        if self._place(only, hop.name) is None:
            return None
        return only, hash((hops[:at], hop.name, hop.deep, only.path, hops[at + 1 :]))

    def family_of(self, clause: Clause, only: Compare) -> Shared:
        """What the clause shares with its family. The string that it compares with is in use from now on."""
        hops, at = clause.hops, _last_guarded(clause)
        hop = hops[at]
        where = self._place(only, hop.name)
        assert where is not None
        what, label, owner = where
        if isinstance(only.literal, str) and only.op in _STRINGS:
            how, literal = _STRINGS[only.op], float(self._mention(only.literal))
        else:
            number = number_of(only.literal) if isinstance(only.literal, str) else only.literal
            how, literal = _NUMBERS[only.op], number
        exists = Exists(only.path)
        self.kinds.add(conditions.KIND_OF[what])
        first = self._named(hop.name) if what == conditions.CONTENT else self._held(what, label, exists, owner)
        test = first, self._below(hops[at + 1 :]), self._arrived(hops[:at], hop)
        return Shared(test, what, label, how, literal)

    def _place(self, predicate: Compare, name: Name) -> tuple[int, int, int] | None:
        """Which values of an element of this name are compared: of which kind, of which label, and the name's label."""
        if predicate.path.absolute:
            return None
        steps, owner = _moving(predicate.path), self.labels.number(name.clark)
        if not steps:
            return conditions.CONTENT, owner, conditions.WILDCARD
        step = steps[0]
        if len(steps) > 1 or step.deep or step.predicates or not isinstance(step.test, Name):
            return None
        if step.axis is Axis.ATTRIBUTE:
            return conditions.ATTRIBUTE, self.labels.number("@" + step.test.clark), owner
        if step.axis is Axis.CHILD:
            return conditions.CHILD, self.labels.number(step.test.clark), owner
        return None

    def _test(self, clause: Clause, query: Path) -> Test:
        if not clause.exact:
            return self._asked(query, conditions.WILDCARD), -1, -1
        hops = clause.hops
        if self.selection is Selection.INLINE:
            return self._reached(hops), -1, -1
        at = _last_guarded(clause)
        return self._filter(hops[at]), self._below(hops[at + 1 :]), self._arrived(hops[:at], hops[at])

    # --- nodes -------------------------------------------------------------------------------

    def _held(self, what: int, label: int, predicate: Exists | Compare, owner: int = conditions.WILDCARD) -> int:
        """The elements of a label with a value of another label that compares."""
        owner <<= 4
        self.kinds.add(conditions.KIND_OF[what])
        if isinstance(predicate, Exists):
            return self._new(what, label, conditions.EXISTS | owner)
        if isinstance(predicate.literal, str) and predicate.op in _STRINGS:
            string, before = self._mention(predicate.literal), len(self)
            found = self._new(what, label, _STRINGS[predicate.op] | owner, float(string))
            if len(self) == before:  # the node was there, and uses the string already
                self.strings.release(string)
            return found
        number = number_of(predicate.literal) if isinstance(predicate.literal, str) else predicate.literal
        if isnan(number):
            return self._new(conditions.NOTHING)  # see is_never
        return self._new(what, label, _NUMBERS[predicate.op] | owner, number)

    def _both(self, one: int, other: int) -> int:
        return self._new(conditions.BOTH, one, other)

    def _either(self, one: int, other: int) -> int:
        return self._new(conditions.EITHER, one, other)

    def _at_or_above(self, found: int) -> int:
        return self._either(found, self._new(conditions.ABOVE, found))

    def _named(self, name: Name) -> int:
        return self._new(conditions.NAMED, self.labels.number(name.clark))

    # --- hops --------------------------------------------------------------------------------

    def _reached(self, hops: tuple[Hop, ...]) -> int:
        """Where the hops lead, predicates included."""
        return self._both(self._arrived(hops[:-1], hops[-1]), self._filter(hops[-1]))

    def _arrived(self, before: tuple[Hop, ...], hop: Hop) -> int:
        """Where the last hop leads from the ones before, whatever it asks for."""
        around = self._reached(before) if before else self._new(conditions.START)
        if hop.kind is not Kind.ELEMENT:
            return self._either(around, self._new(conditions.BELOW, around)) if hop.deep else around
        return self._new(conditions.BELOW if hop.deep else conditions.CHILDREN, around)

    def _below(self, hops: tuple[Hop, ...]) -> int:
        """Where hops without predicates can start; -1 if there are none."""
        found = -1
        for hop in reversed(hops):
            if hop.kind is not Kind.ELEMENT:
                found = self._leaf(hop, Exists(Path((hop.step,), absolute=False)))
                found = self._at_or_above(found) if hop.deep else found
                continue
            if found < 0:
                found = self._named(hop.name)
            elif hop.name.uri is not None:
                found = self._both(found, self._named(hop.name))
            found = self._new(conditions.ABOVE if hop.deep else conditions.PARENTS, found)
        return found

    def _filter(self, hop: Hop) -> int:
        """What a hop asks of the element where it arrives, or of the one that holds the attribute or text."""
        if hop.kind is Kind.ELEMENT:
            return self._selected(hop.name, hop.predicates)
        exists = Exists(Path((hop.step,), absolute=False))
        if not hop.predicates:
            return self._leaf(hop, exists)
        only = hop.predicates[0]
        if len(hop.predicates) == 1 and isinstance(only, Compare) and all(map(_stays, only.path.steps)):
            return self._leaf(hop, only)
        return self._asked(exists, conditions.WILDCARD)

    def _leaf(self, hop: Hop, predicate: Exists | Compare) -> int:
        """The elements that hold such an attribute or text."""
        if hop.kind is Kind.TEXT:
            return self._held(conditions.TEXT, conditions.WILDCARD, predicate)
        return self._held(conditions.ATTRIBUTE, self.labels.number("@" + hop.name.clark), predicate)

    def _selected(self, name: Name, predicates: tuple[Predicate, ...]) -> int:
        """What a child step with predicates selects, from any parent; positions count among siblings."""
        found = -1
        for predicate in predicates:
            if found < 0 and (value := self._value(predicate, name)) >= 0:
                found = value
                continue
            found = found if found >= 0 else self._named(name)
            found = self._both(self._true(predicate, found, name), found)
        return found if found >= 0 else self._named(name)

    def _value(self, predicate: Predicate, name: Name) -> int:
        """Most predicates compare an attribute or a child: one node says that, and the name too. -1 for others."""
        where = self._place(predicate, name) if isinstance(predicate, Compare) else None
        if where is None:
            return -1
        assert isinstance(predicate, Compare)
        return self._held(where[0], where[1], predicate, where[2])

    # --- predicates --------------------------------------------------------------------------

    def _true(self, predicate: Predicate, among: int, name: Name) -> int:
        """Where a predicate holds; it is right for elements of `among`, which have this name."""
        match predicate:
            case Position(op, number):
                return self._new(conditions.PLACED, among, _NUMBERS[op], number)
            case Every(parts):
                return reduce(self._both, [self._true(part, among, name) for part in parts])
            case Some(parts):
                return reduce(self._either, [self._true(part, among, name) for part in parts])
            case Never(part):
                return self._new(conditions.WITHOUT, self._true(part, among, name))
            case Exists(path) | Compare(path) if _is_plain_path(path):
                found = self._along(path, predicate, name)
                return self._new(conditions.EVERYWHERE, found) if path.absolute else found
        return self._asked(predicate, self.labels.number(name.clark))

    def _along(self, path: Path, predicate: Exists | Compare, name: Name) -> int:
        """From where the steps lead to a value that compares: from the last step to the first."""
        found = -1
        steps = _moving(path)
        if not steps:
            return self._content(name, predicate)
        for step in reversed(steps):
            spelled = step.axis in (Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF)
            if found < 0 and (step.axis in (Axis.ATTRIBUTE, Axis.SELF) or isinstance(step.test, Text)):
                found = self._last(step, predicate)
                found = self._at_or_above(found) if step.deep or spelled else found
                continue
            if step.axis is not Axis.SELF:
                assert isinstance(step.test, Name)
                if found < 0:
                    found = self._last(step, predicate)
                    found = self._both(found, self._selected(step.test, step.predicates)) if step.predicates else found
                elif step.test.uri is not None or step.predicates or _may_stay(path, step):
                    found = self._both(found, self._selected(step.test, step.predicates))
            found = self._back(step, found)
        return found

    def _back(self, step: Step, found: int) -> int:
        """From where a step arrives to where it starts."""
        if step.axis in (Axis.DESCENDANT_OR_SELF, Axis.SELF):  # '.' is here only behind '//'
            return self._at_or_above(found)
        return self._new(conditions.ABOVE if step.deep or step.axis is Axis.DESCENDANT else conditions.PARENTS, found)

    def _last(self, step: Step, predicate: Exists | Compare) -> int:
        """The elements that a last step selects, or whose attributes and texts it selects, and that compare."""
        if step.axis is Axis.ATTRIBUTE:
            assert isinstance(step.test, Name)
            return self._held(conditions.ATTRIBUTE, self.labels.number("@" + step.test.clark), predicate)
        if isinstance(step.test, Text):
            return self._held(conditions.TEXT, conditions.WILDCARD, predicate)
        if step.axis is Axis.SELF:  # './/.' selects texts too
            return self._either(
                self._content(ANY, predicate), self._held(conditions.TEXT, conditions.WILDCARD, predicate)
            )
        assert isinstance(step.test, Name)
        return self._content(step.test, predicate)

    def _content(self, name: Name, predicate: Exists | Compare) -> int:
        if isinstance(predicate, Exists):
            return self._named(name)
        return self._held(conditions.CONTENT, self.labels.number(name.clark), predicate)

    # --- keeping -----------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """The graph as arrays and a note (JSON)."""
        arrays, about = super().to_arrays()
        return arrays, about | {"selection": str(self.selection)}

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray], about: Mapping[str, Any], labels: Labels) -> Guards:
        """The graph over (memory-mapped) arrays."""
        found = Guards(labels, Selection(about["selection"]))
        found.restore(arrays, about)
        return found


def _last_guarded(clause: Clause) -> int:
    return max(number for number, hop in enumerate(clause.hops) if hop.predicates)


def is_never(predicate: Compare) -> bool:
    """Order is one of numbers: what is compared with none of them never holds."""
    literal = predicate.literal
    if isinstance(literal, str):
        return predicate.op not in _STRINGS and isnan(number_of(literal))
    return isnan(literal)


def _may_stay(path: Path, step: Step) -> bool:
    """Could the step stay on the document itself, which is no element?"""
    return path.absolute and step.axis is Axis.DESCENDANT_OR_SELF


def _stays(step: Step) -> bool:
    return step.axis is Axis.SELF and not step.deep


def _moving(path: Path) -> tuple[Step, ...]:
    """The steps but those that stay where they are."""
    return tuple(step for step in path.steps if not _stays(step))


def _is_plain_path(path: Path) -> bool:
    """Can sets of elements be followed along this path, back to front? Attributes and texts only end it."""
    steps = _moving(path)
    ends = [step for step in steps[:-1] if step.axis is Axis.ATTRIBUTE or isinstance(step.test, Text)]
    return not ends and all(map(_is_plain, steps))


def _is_plain(step: Step) -> bool:
    """Can a set of elements be followed through this step, back to front?"""
    if any(is_positional(one) and step.axis is not Axis.CHILD for one in step.predicates):
        return False
    if step.predicates and (step.axis is Axis.ATTRIBUTE or isinstance(step.test, Text)):
        return False
    return all(_is_plain_path(path) for one in step.predicates for path in paths_in(one))
