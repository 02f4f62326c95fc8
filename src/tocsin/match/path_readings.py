"""A document read element by element: how `path_reference.TreeFilter` checks predicates.

The elements that a prefix of hops reaches, with its predicates, are found once per document however many queries share
the prefix, and so is the answer of each predicate at each element. No arrays and no kernels: `path_masks` does the same
for many clauses at once, and is tested against this.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from weakref import WeakValueDictionary

from tocsin.markup import Markup, Tree
from tocsin.query.xpath.ast import Axis, Compare, Every, Exists, Name, Never, Predicate, Some, Step, is_positional
from tocsin.query.xpath.routes import Hop, Kind
from tocsin.query.xpath.semantics import compares, is_true, take_step

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
