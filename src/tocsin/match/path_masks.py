"""Selection Postponed for many clauses at once: sets of elements as bit masks.

`path_guards.Reading` asks about one element at a time; here every filter and every prefix of hops is answered for all
elements of a document together, with a few operations on arrays, however many queries share it. Predicates are looked
at from their ends: the elements (attributes, texts) that a path ends in and whose value compares are found first, and
then who has them as child or below. What has no such form is asked element by element.

A mask has a place for each element and, behind them, one for the document: the root's parent is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tocsin.markup import Markup
from tocsin.match.path_guards import Filter, Prefix
from tocsin.query.xpath.ast import (
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
from tocsin.query.xpath.routes import Kind
from tocsin.query.xpath.semantics import COMPARISONS, is_true, number_of, take_step

Mask = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one kind in a document: at which elements they are, as strings and as numbers."""

    elements: IntArray
    strings: list[str]
    numbers: npt.NDArray[np.float64]

    def where(self, predicate: Exists | Compare) -> IntArray:
        """The elements at which the comparison holds."""
        if isinstance(predicate, Exists):
            return self.elements
        literal, op = predicate.literal, predicate.op
        if isinstance(literal, str) and op in ("=", "!="):
            equal = op == "="
            chosen = [at for at, value in enumerate(self.strings) if (value == literal) == equal]
            return self.elements[chosen]
        number = number_of(literal) if isinstance(literal, str) else literal
        holds: Mask = np.asarray(COMPARISONS[op](self.numbers, number))
        return self.elements[holds]


class Masks:
    """One document while guarded clauses are checked: which elements satisfy what."""

    def __init__(self, document: Markup) -> None:
        self.tree = tree = document.tree
        self._size = size = len(tree.names)
        self._parent = np.array([*tree.parents, size], np.int64)  # the document's parent: itself, never marked
        self._last = np.array(tree.last, np.int64)
        codes: dict[str, int] = {}
        self._names = np.array([codes.setdefault(name, len(codes)) for name in tree.names], np.int64)
        self._codes = codes
        self._named: dict[Name, Mask] = {}
        self._values: dict[tuple[str, object], Values] = {}
        self._truth: dict[Predicate, Mask] = {}
        self._filters: dict[Filter, Mask] = {}
        self._reached: dict[Prefix, Mask] = {}

    # --- prefixes ----------------------------------------------------------------------------

    def reaches(self, prefix: Prefix) -> bool:
        """Does some node satisfy all hops?"""
        if prefix.hop.kind is Kind.ELEMENT:
            return bool(self.elements(prefix).any())
        around = self._start() if prefix.parent is None else self.elements(prefix.parent)
        if prefix.hop.deep:
            around = around | self._below(around)
        around[-1] = False  # the document has no attributes and texts
        holders = around & self._holders(prefix.step, Exists(Path((prefix.step,), absolute=False)))
        if not prefix.hop.predicates:
            return bool(holders.any())
        return any(take_step(prefix.step, self.tree, ("element", one, 0)) for one in np.flatnonzero(holders).tolist())

    def elements(self, prefix: Prefix) -> Mask:
        """The elements that the hops reach."""
        found = self._reached.get(prefix)
        if found is None:
            around = self._start() if prefix.parent is None else self.elements(prefix.parent)
            arrived = self._below(around) if prefix.hop.deep else around[self._parent]
            found = self._reached[prefix] = arrived & self._filter(prefix) if arrived.any() else arrived
        return found

    def _filter(self, prefix: Prefix) -> Mask:
        """The elements that pass the test and the predicates of the last hop."""
        found = self._filters.get(prefix.filter)
        if found is None:
            found = self._selected(prefix.hop.name, prefix.hop.predicates)
            self._filters[prefix.filter] = found
        return found

    def _selected(self, name: Name, predicates: Sequence[Predicate]) -> Mask:
        """What a child step with predicates selects, from any parent; positions count among siblings."""
        found = self._accepted(name)
        for predicate in predicates:
            if is_positional(predicate):
                found = self._counted(found, predicate)
            else:
                found = found & self._true(predicate, found)
        return found

    def _counted(self, among: Mask, predicate: Predicate) -> Mask:
        elements = np.flatnonzero(among)
        parents = self._parent[elements]
        order = np.argsort(parents, kind="stable")
        ordered = parents[order]
        fresh = np.flatnonzero(np.diff(ordered, prepend=-2))
        lengths = np.diff(np.append(fresh, len(ordered)))
        positions = np.empty(len(elements), np.int64)
        positions[order] = np.arange(len(ordered)) - np.repeat(fresh, lengths) + 1
        found = self._none()
        found[elements[self._at_positions(predicate, elements, positions, among)]] = True
        return found

    def _at_positions(self, predicate: Predicate, elements: IntArray, positions: IntArray, among: Mask) -> Mask:
        match predicate:
            case Position(op, number):
                holds: Mask = np.asarray(COMPARISONS[op](positions, number))
                return holds
            case Every(parts):
                return _all([self._at_positions(one, elements, positions, among) for one in parts])
            case Some(parts):
                return _any([self._at_positions(one, elements, positions, among) for one in parts])
            case Never(part):
                return ~self._at_positions(part, elements, positions, among)
        return self._true(predicate, among)[elements]

    # --- predicates --------------------------------------------------------------------------

    def _true(self, predicate: Predicate, among: Mask) -> Mask:
        """The elements at which a predicate holds; it is right for those of `among`."""
        found = self._truth.get(predicate)
        if found is not None:
            return found
        match predicate:
            case Every(parts):
                return _all([self._true(part, among) for part in parts])
            case Some(parts):
                return _any([self._true(part, among) for part in parts])
            case Never(part):
                return ~self._true(part, among)
            case Exists(path) | Compare(path) if not path.absolute and all(map(_is_plain, path.steps)):
                found = self._truth[predicate] = self._along(path.steps, predicate)
                return found
        found = self._none()
        elements = np.flatnonzero(among[:-1]).tolist()
        found[[one for one in elements if is_true(predicate, self.tree, ("element", one, 0), 0)]] = True
        return found

    def _along(self, steps: tuple[Step, ...], predicate: Exists | Compare) -> Mask:
        """The elements from which the steps lead to a value that compares: from the last step to the first."""
        found: Mask | None = None
        for at in range(len(steps) - 1, -1, -1):
            step = steps[at]
            if found is None:
                found = self._holders(step, predicate)
                if step.axis is Axis.ATTRIBUTE or isinstance(step.test, Text) or step.axis is Axis.SELF:
                    deep = step.deep or step.axis in (Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF)
                    found = found | self._above(found) if deep else found
                    continue
            elif step.axis is not Axis.SELF:
                found = found & self._selected_plain(step)
            found = self._back(step, found)
        assert found is not None
        return found

    def _selected_plain(self, step: Step) -> Mask:
        assert isinstance(step.test, Name)
        return self._selected(step.test, step.predicates)

    def _back(self, step: Step, found: Mask) -> Mask:
        """From where a step arrives to where it starts."""
        if step.axis is Axis.SELF or step.axis is Axis.DESCENDANT_OR_SELF:
            return found | self._above(found) if step.deep or step.axis is Axis.DESCENDANT_OR_SELF else found
        if step.deep or step.axis is Axis.DESCENDANT:
            return self._above(found)
        parents = self._none()
        parents[self._parent[:-1][found[:-1]]] = True
        return parents

    def _holders(self, step: Step, predicate: Exists | Compare) -> Mask:
        """For a last step: the elements that it selects, or whose attributes and texts it selects, and that compare."""
        found = self._none()
        if step.axis is Axis.ATTRIBUTE:
            assert isinstance(step.test, Name)
            found[self._attributes(step.test).where(predicate)] = True
        elif isinstance(step.test, Text):
            found[self._texts().where(predicate)] = True
        elif step.axis is Axis.SELF:
            found[self._contents(None).where(predicate)] = True
        else:
            assert isinstance(step.test, Name)
            found[self._contents(step.test).where(predicate)] = True
            if step.predicates:
                found &= self._selected_plain(step)
        return found

    # --- values ------------------------------------------------------------------------------

    def _attributes(self, name: Name) -> Values:
        key = ("@", name)
        if key not in self._values:
            rows = [
                (element, value)
                for element, attributes in enumerate(self.tree.attributes)
                for attribute, value in attributes.items()
                if name.accepts(attribute)
            ]
            self._values[key] = _values(rows)
        return self._values[key]

    def _texts(self) -> Values:
        key = ("text", None)
        if key not in self._values:
            self._values[key] = _values([(at, text) for at, texts in enumerate(self.tree.texts) for text in texts])
        return self._values[key]

    def _contents(self, name: Name | None) -> Values:
        key = ("", name)
        if key not in self._values:
            elements = range(self._size) if name is None else np.flatnonzero(self._accepted(name)).tolist()
            self._values[key] = _values([(element, self.tree.value(element)) for element in elements])
        return self._values[key]

    # --- sets --------------------------------------------------------------------------------

    def _none(self) -> Mask:
        return np.zeros(self._size + 1, np.bool_)

    def _start(self) -> Mask:
        found = self._none()
        found[-1] = True
        return found

    def _accepted(self, name: Name) -> Mask:
        found = self._named.get(name)
        if found is None:
            accepted = [code for one, code in self._codes.items() if name.accepts(one)]
            found = np.append(np.isin(self._names, accepted), False)
            self._named[name] = found
        return found

    def _below(self, around: Mask) -> Mask:
        """The elements below those of a set."""
        found = self._none()
        if around[-1]:
            found[:-1] = True
            return found
        tops = np.flatnonzero(around)
        change = np.bincount(tops + 1, minlength=self._size + 1) - np.bincount(
            self._last[tops], minlength=self._size + 1
        )
        found[:-1] = np.cumsum(change)[:-1] > 0
        return found

    def _above(self, found: Mask) -> Mask:
        """The elements (and the document) that have one of a set below them."""
        before = np.append(0, np.cumsum(found[:-1]))
        above = self._none()
        above[:-1] = before[self._last] > before[1:]
        above[-1] = before[-1] > 0
        return above


def _all(masks: list[Mask]) -> Mask:
    found: Mask = np.logical_and.reduce(masks)
    return found


def _any(masks: list[Mask]) -> Mask:
    found: Mask = np.logical_or.reduce(masks)
    return found


def _values(rows: list[tuple[int, str]]) -> Values:
    strings = [value for _, value in rows]
    numbers = np.array([number_of(value) for value in strings], np.float64)
    return Values(np.array([element for element, _ in rows], np.int64), strings, numbers)


def _is_plain(step: Step) -> bool:
    """Can a set of elements be followed through this step, back to front?"""
    if any(is_positional(one) and step.axis is not Axis.CHILD for one in step.predicates):
        return False
    if step.predicates and (step.axis is Axis.ATTRIBUTE or isinstance(step.test, Text)):
        return False
    return all(
        not path.absolute and all(map(_is_plain, path.steps)) for one in step.predicates for path in paths_in(one)
    )
