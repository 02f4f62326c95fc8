"""Selection Postponed: is a query whose linear paths have all occurred a match? (XML filtering paper §5)

The join is done set at a time: the elements that a prefix of hops reaches, with its predicates, are found once per
document however many queries share the prefix, and so is the answer of each predicate at each element. Before that,
each guarded clause names one value predicate that must hold somewhere in the document, if it has one; these *atoms*
are looked up from the document's values, so that most clauses are dismissed without being touched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import isnan
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tocsin.markup import Markup, Tree
from tocsin.query.xpath.ast import Axis, Compare, Every, Exists, Name, Never, Predicate, Some, Step, is_positional
from tocsin.query.xpath.routes import Clause, Hop, Kind, conjuncts
from tocsin.query.xpath.semantics import compares, is_true, number_of, take_step

Check = Callable[[Tree, int], bool]
"""Does a predicate hold at an element?"""


# --- prefixes and guards, each once ----------------------------------------------------------------------------------


class Guard:
    """A predicate that does not count positions; equal ones are the same object."""

    def __init__(self, predicate: Predicate) -> None:
        self.check = compile_check(predicate)


class Filter:
    """All that the last hop of a prefix asks of an element; equal ones are the same object."""

    def __init__(self, hop: Hop, guards: tuple[Guard, ...]) -> None:
        self.guards = guards
        self.step = hop.step
        self.counts = any(is_positional(predicate) for predicate in hop.predicates)


class Prefix:
    """The first hops of a clause with their predicates; equal ones are the same object."""

    def __init__(self, parent: Prefix | None, hop: Hop, filter_: Filter) -> None:
        self.parent = parent
        self.hop = hop
        self.filter = filter_
        self.step = hop.step


class Shared:
    """Gives out prefixes, filters and guards; what no clause uses any more disappears by itself."""

    def __init__(self) -> None:
        self._prefixes: WeakValueDictionary[tuple[Prefix | None, Hop], Prefix] = WeakValueDictionary()
        self._filters: WeakValueDictionary[Hop, Filter] = WeakValueDictionary()
        self._guards: WeakValueDictionary[Predicate, Guard] = WeakValueDictionary()

    def prefix(self, hops: tuple[Hop, ...]) -> Prefix:
        """The shared object of these hops."""
        parent: Prefix | None = None
        for hop in hops:
            found = self._prefixes.get((parent, hop))
            if found is None:
                found = Prefix(parent, hop, self.filter(hop))
                self._prefixes[parent, hop] = found
            parent = found
        assert parent is not None
        return parent

    def filter(self, hop: Hop) -> Filter:
        """The shared object of what a hop asks for, however it is reached."""
        key = replace(hop, deep=False)
        found = self._filters.get(key)
        if found is None:
            found = Filter(hop, tuple(self.guard(one) for one in hop.predicates if not is_positional(one)))
            self._filters[key] = found
        return found

    def guard(self, predicate: Predicate) -> Guard:
        """The shared object of this predicate."""
        found = self._guards.get(predicate)
        if found is None:
            found = self._guards[predicate] = Guard(predicate)
        return found


def compile_check(predicate: Predicate) -> Check:
    """The quickest way to ask about one element; the oracle where there is no quicker."""
    match predicate:
        case Every(parts):
            checks = [compile_check(part) for part in parts]
            return lambda tree, element: all(check(tree, element) for check in checks)
        case Some(parts):
            checks = [compile_check(part) for part in parts]
            return lambda tree, element: any(check(tree, element) for check in checks)
        case Never(part):
            inner = compile_check(part)
            return lambda tree, element: not inner(tree, element)
        case Exists(path) | Compare(path) if not path.absolute and all(_is_simple(step) for step in path.steps):
            return _along(path.steps, predicate)
    return lambda tree, element: is_true(predicate, tree, ("element", element, 0), 0)


def _is_simple(step: Step) -> bool:
    """Is this a child or attribute of a full name, or '.'?"""
    named = isinstance(step.test, Name) and step.test.local is not None and step.axis in (Axis.CHILD, Axis.ATTRIBUTE)
    return not step.predicates and not step.deep and (named or step.axis is Axis.SELF)


def _along(steps: tuple[Step, ...], predicate: Exists | Compare) -> Check:
    """Follows simple steps and looks at the value in the end."""

    def test(value: str) -> bool:
        return isinstance(predicate, Exists) or compares(value, predicate.op, predicate.literal)

    steps = tuple(step for step in steps if step.axis is not Axis.SELF)
    if not steps:
        return lambda tree, element: test(tree.value(element))
    step = steps[0]
    assert isinstance(step.test, Name)
    name = step.test.clark
    if step.axis is Axis.ATTRIBUTE:
        return lambda tree, element: name in tree.attributes[element] and test(tree.attributes[element][name])
    if len(steps) == 1 and isinstance(predicate, Exists):
        return lambda tree, element: any(tree.names[child] == name for child in tree.children[element])
    rest = _along(steps[1:], predicate)
    return lambda tree, element: any(
        tree.names[child] == name and rest(tree, child) for child in tree.children[element]
    )


# --- one document ----------------------------------------------------------------------------------------------------


class Reading:
    """One document while guarded clauses are checked: what is known of it so far."""

    def __init__(self, document: Markup) -> None:
        self.document = document
        self.tree = document.tree
        self.checks = 0
        self._elements: dict[Prefix, list[int]] = {}
        self._known: defaultdict[Guard, dict[int, bool]] = defaultdict(dict)
        self._passed: defaultdict[Filter, dict[int, bool]] = defaultdict(dict)
        self._selected: dict[tuple[Filter, int], frozenset[int]] = {}
        self._named: defaultdict[str, list[int]] = defaultdict(list)
        for number, name in enumerate(self.tree.names):
            self._named[name].append(number)

    def reaches(self, prefix: Prefix) -> bool:
        """Does some node satisfy all hops?"""
        if prefix.hop.kind is Kind.ELEMENT:
            return bool(self.elements(prefix))
        if prefix.parent is None and not prefix.hop.deep:
            return False  # the document has no attributes and texts
        for first, end in self._ranges(prefix.parent, prefix.hop.deep, own=True):
            for element in range(first, end) if prefix.hop.deep else (first,):
                if take_step(prefix.step, self.tree, ("element", element, 0)):
                    return True
        return False

    def elements(self, prefix: Prefix) -> list[int]:
        """The elements that the hops reach, in document order."""
        found = self._elements.get(prefix)
        if found is None:
            found = self._next(prefix)
            if prefix.hop.predicates:
                known = self._passed[prefix.filter]
                found = [one for one in found if known.get(one) or (one not in known and self.passes(prefix, one))]
            self._elements[prefix] = found
        return found

    def _next(self, prefix: Prefix) -> list[int]:
        """The elements that the last hop arrives at, before its predicates."""
        name = prefix.hop.name
        if not prefix.hop.deep:
            return sorted(self._accepted(name, self._children(prefix.parent)))
        ranges = self._ranges(prefix.parent, True, own=False)
        if name.local is None:
            return [one for first, end in ranges for one in self._accepted(name, range(first, end))]
        found = []
        named = self._named.get(name.clark, [])
        for first, end in ranges:
            found += named[bisect_left(named, first) : bisect_left(named, end)]
        return found

    def _accepted(self, name: Name, elements: Iterable[int]) -> Iterable[int]:
        names = self.tree.names
        if name.local is not None:
            clark = name.clark
            return [one for one in elements if names[one] == clark]
        return elements if name.uri is None else [one for one in elements if name.accepts(names[one])]

    def _children(self, parent: Prefix | None) -> list[int]:
        if parent is None:
            return [0]
        return [child for element in self.elements(parent) for child in self.tree.children[element]]

    def _ranges(self, parent: Prefix | None, deep: bool, own: bool) -> Iterator[tuple[int, int]]:
        """The elements below (with `own`: at and below) those of a prefix, as ranges that do not overlap if deep."""
        if parent is None:
            yield 0, len(self.tree.names)
            return
        done = 0
        for element in self.elements(parent):
            if not deep or element >= done:
                done = self.tree.last[element]
                yield (element if own else element + 1), done

    def passes(self, prefix: Prefix, element: int) -> bool:
        """Do the predicates of the last hop hold at an element?"""
        known = self._passed[prefix.filter]
        found = known.get(element)
        if found is None:
            found = known[element] = self._check(prefix.filter, element)
        return found

    def _check(self, asked: Filter, element: int) -> bool:
        if asked.counts:
            return element in self._counted(asked, self.tree.parents[element])
        return all(self.holds(guard, element) for guard in asked.guards)

    def _counted(self, asked: Filter, parent: int) -> frozenset[int]:
        """Positions count among the children of one parent."""
        key = (asked, parent)
        if key not in self._selected:
            context = ("element", parent, 0) if parent >= 0 else ("document", -1, 0)
            self._selected[key] = frozenset(node[1] for node in take_step(asked.step, self.tree, context))
        return self._selected[key]

    def holds(self, guard: Guard, element: int) -> bool:
        """Does a predicate hold at an element? Each pair is looked at once."""
        known = self._known[guard]
        found = known.get(element)
        if found is None:
            self.checks += 1
            found = known[element] = guard.check(self.tree, element)
        return found


# --- atoms -----------------------------------------------------------------------------------------------------------

Place = tuple[str, str]
"""What is compared: ("@", name) an attribute, ("", name) an element's string-value."""
AtomKey = tuple[Place, str, str | float]
BoolArray = npt.NDArray[np.bool_]


def atom_of(clause: Clause) -> AtomKey | None:
    """A value predicate that must hold somewhere for the clause to hold; equalities tell most."""
    found = [key for hop in clause.hops for predicate in conjuncts(hop.predicates) if (key := _atom(hop, predicate))]
    found.sort(key=lambda key: (key[1] != "=", isinstance(key[2], float)))
    return found[0] if found else None


def _atom(hop: Hop, predicate: Predicate) -> AtomKey | None:
    if not isinstance(predicate, Compare) or predicate.op == "!=":
        return None
    steps = [step for step in predicate.path.steps if step.axis is not Axis.SELF]
    test: object = steps[-1].test if steps else hop.name
    is_attribute = steps[-1].axis is Axis.ATTRIBUTE if steps else hop.kind is Kind.ATTRIBUTE
    if not isinstance(test, Name) or test.local is None or test.uri is None or (not steps and hop.kind is Kind.TEXT):
        return None
    literal = predicate.literal
    if predicate.op != "=" and isinstance(literal, str):
        literal = number_of(literal)  # order is always one of numbers
    if isinstance(literal, float) and isnan(literal):
        return None
    return ("@" if is_attribute else "", test.clark), predicate.op, literal


@dataclass(slots=True)
class _Ordered:
    """The atoms that compare one place in one direction: literals and numbers of atoms."""

    atoms: dict[float, int] = field(default_factory=dict)
    arrays: tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]] | None = None

    def literals(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        if self.arrays is None:
            self.arrays = np.array(list(self.atoms), np.float64), np.array(list(self.atoms.values()), np.int64)
        return self.arrays


class Atoms:
    """Value predicates shared by all clauses, numbered; each is evaluated once per document."""

    def __init__(self) -> None:
        self._numbers: dict[AtomKey, int] = {}
        self._keys: dict[int, AtomKey] = {}
        self._uses: dict[int, int] = {}
        self._free: list[int] = []
        self._strings: defaultdict[Place, dict[str, int]] = defaultdict(dict)
        self._equal: defaultdict[Place, dict[float, int]] = defaultdict(dict)
        self._ordered: defaultdict[tuple[Place, str], _Ordered] = defaultdict(_Ordered)
        self._places: defaultdict[Place, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, key: AtomKey) -> int:
        """The number of an atom."""
        number = self._numbers.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self._numbers)
            self._numbers[key], self._keys[number], self._uses[number] = number, key, 0
            self._table(key)[key[2]] = number
            self._places[key[0]] += 1
        self._uses[number] += 1
        return number

    def remove(self, number: int) -> None:
        """One clause less uses it."""
        self._uses[number] -= 1
        if self._uses[number]:
            return
        key = self._keys.pop(number)
        del self._numbers[key], self._uses[number]
        del self._table(key)[key[2]]
        self._places[key[0]] -= 1
        if not self._places[key[0]]:
            del self._places[key[0]]
        self._free.append(number)

    def _table(self, key: AtomKey) -> dict[str | float, int]:
        place, op, literal = key
        table: dict[str, int] | dict[float, int]
        if op == "=":
            table = self._strings[place] if isinstance(literal, str) else self._equal[place]
        else:
            self._ordered[place, op].arrays = None
            table = self._ordered[place, op].atoms
        return table  # type: ignore[return-value]

    def true_in(self, document: Markup) -> BoolArray:
        """For each number: is there a value in the document for which the atom is true?"""
        size = max(self._keys, default=-1) + 1
        truth = np.zeros(size, np.bool_)
        for place, values in self._values(document).items():
            strings, equal = self._strings.get(place, {}), self._equal.get(place, {})
            truth[[strings[value] for value in values if value in strings]] = True
            numbers = [number for number in map(number_of, values) if not isnan(number)]
            truth[[equal[number] for number in numbers if number in equal]] = True
            if numbers:
                self._compare(place, min(numbers), max(numbers), truth)
        return truth

    def _compare(self, place: Place, least: float, most: float, truth: BoolArray) -> None:
        for op in ("<", "<=", ">", ">="):
            table = self._ordered.get((place, op))
            if table is None or not table.atoms:
                continue
            literals, numbers = table.literals()
            match op:
                case "<":
                    holds = least < literals
                case "<=":
                    holds = least <= literals
                case ">":
                    holds = most > literals
                case _:
                    holds = most >= literals
            truth[numbers[holds]] = True

    def _values(self, document: Markup) -> dict[Place, set[str]]:
        """The values of the document that some atom looks at."""
        values: defaultdict[Place, set[str]] = defaultdict(set)
        watched = {number for number, name in enumerate(document.attribute_names) if ("@", name) in self._places}
        if watched:
            for number, value in zip(document.attribute.tolist(), document.values, strict=True):
                if number in watched:
                    values["@", document.attribute_names[number]].add(value)
        wanted = {name for kind, name in self._places if not kind}
        if wanted:
            tree = document.tree
            for element, name in enumerate(tree.names):
                if name in wanted:
                    values["", name].add(tree.value(element))
        return values
