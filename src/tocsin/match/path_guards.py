"""What guarded queries ask of the elements of a document, as one graph (XML filtering paper §5).

A condition is a node: the elements of a name, those that hold a value that compares, those with a child in a set, and
so on (`path_conditions` has the list). Equal conditions are the same node, so a predicate, a branch or a prefix that
a thousand queries share is evaluated once per document.

Under *Selection Postponed* a clause is looked at only after its linear paths have occurred, and as a join at its last
guarded element: what that element must be, what must be below it, and how it must be reached. Under *Inline* there is
no such order: hop after hop, a set is entered only by the elements at which the hop's predicates hold.

The graph is flat arrays; what is not an integer (strings, questions for the oracle) is kept beside it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import StrEnum
from functools import reduce
from math import isnan
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tocsin.match import path_conditions as conditions
from tocsin.match.path_automaton import Labels, grow, power
from tocsin.match.path_texts import TextTable
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
    namespaces_in,
    paths_in,
)
from tocsin.query.xpath.parse import parse_xpath
from tocsin.query.xpath.routes import Clause, Hop, Kind
from tocsin.query.xpath.semantics import number_of
from tocsin.query.xpath.show import show_xpath

AnyArray = npt.NDArray[Any]
Question = tuple[Path | Predicate, int]
"""What only the oracle can answer: a whole query, or a predicate at the elements of a label."""
Test = tuple[int, int, int]
"""Up to three conditions that must hold at one element; -1 for none."""


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
_VALUES = (conditions.ATTRIBUTE, conditions.CONTENT, conditions.CHILD, conditions.TEXT)
_STEPS = (conditions.PARENTS, conditions.ABOVE, conditions.CHILDREN, conditions.BELOW)
_ONE_CHILD = (*_STEPS, conditions.WITHOUT, conditions.PLACED, conditions.EVERYWHERE)
_CHILDREN = dict.fromkeys(_ONE_CHILD, 1) | {conditions.BOTH: 2, conditions.EITHER: 2}
K = TypeVar("K", bound=Hashable)


class Selection(StrEnum):
    """When predicates are checked."""

    INLINE = "inline"
    POSTPONED = "postponed"


class Interned(Generic[K]):
    """Numbers for keys; a number is given again after its last use."""

    def __init__(self) -> None:
        self.keys: list[K | None] = []
        self.numbers: dict[K, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, key: K) -> int:
        """The number of a key, with one more use."""
        number = self.numbers.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self.keys)
            if number == len(self.keys):
                self.keys.append(key)
                self._uses.append(0)
            self.keys[number] = key
            self.numbers[key] = number
        self._uses[number] += 1
        return number

    def use(self, number: int) -> None:
        """One more use of a number that is there."""
        self._uses[number] += 1

    def release(self, number: int) -> None:
        """One use less."""
        self._uses[number] -= 1
        if not self._uses[number]:
            key = self.keys[number]
            assert key is not None
            del self.numbers[key]
            self.keys[number] = None
            self._free.append(number)


class Guards:
    """The graph of all conditions; a clause's test is taken and released as a whole."""

    def __init__(self, labels: Labels, selection: Selection = Selection.POSTPONED) -> None:
        self.labels = labels
        self.selection = selection
        self.strings: Interned[str] = Interned()
        self.questions: Interned[Question] = Interned()
        self.table = TextTable()
        """The strings once more, as the kernels look them up."""
        self.kinds: set[int] = set()
        """Kinds of values that conditions ever asked for."""
        self._node = np.zeros((256, 3), np.int32)
        self._literal = np.zeros(256, np.float64)
        self._uses: list[int] = []
        self._numbers: dict[tuple[int, int, int, float], int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def size(self) -> int:
        """Nodes, those included that have been given up."""
        return len(self._uses)

    @property
    def graph(self) -> tuple[AnyArray, AnyArray]:
        """For each node what it says, left and right; and what it compares with."""
        return self._node, self._literal

    def nbytes(self) -> int:
        """Memory of the arrays, as far as they are in use."""
        return self.size * (3 * 4 + 8)

    # --- clauses -----------------------------------------------------------------------------

    def take(self, clause: Clause, query: Path) -> Test:
        """The conditions of a clause, one of a query."""
        test = self._test(clause, query)
        for node in test:
            if node >= 0:
                self._uses[node] += 1
        return test

    def keep(self, test: Test) -> None:
        """One more use of the conditions that a family shares."""
        for node in test:
            if node >= 0:
                self._uses[node] += 1

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

    def release(self, test: Test) -> None:
        """Gives up the conditions of a clause, and those that only they needed."""
        waiting = [node for node in test if node >= 0]
        while waiting:
            node = waiting.pop()
            self._uses[node] -= 1
            if self._uses[node]:
                continue
            what, left, right = self._node[node].tolist()
            literal = float(self._literal[node])
            del self._numbers[what, left, right, literal]
            self._free.append(node)
            waiting += (left, right)[: _CHILDREN.get(what, 0)]
            if what in _VALUES and right & 15 in _STRINGS.values():
                self.strings.release(int(literal))
            elif what == conditions.ASKED:
                self.questions.release(left)

    def _test(self, clause: Clause, query: Path) -> Test:
        if not clause.exact:
            return self._asked(query, conditions.WILDCARD), -1, -1
        hops = clause.hops
        if self.selection is Selection.INLINE:
            return self._reached(hops), -1, -1
        at = _last_guarded(clause)
        return self._filter(hops[at]), self._below(hops[at + 1 :]), self._arrived(hops[:at], hops[at])

    # --- nodes -------------------------------------------------------------------------------

    def _new(self, what: int, left: int = 0, right: int = 0, literal: float = 0.0) -> int:
        """The node that says this."""
        key = (what, left, right, literal)
        found = self._numbers.get(key)
        if found is not None:
            return found
        number = self._free.pop() if self._free else len(self._uses)
        if number == len(self._uses):
            self._uses.append(0)
            if number >= len(self._node):
                self._node, self._literal = grow(self._node, power(number + 1)), grow(self._literal, power(number + 1))
        self._numbers[key] = number
        self._node[number] = what, left, right
        self._literal[number] = literal
        for child in (left, right)[: _CHILDREN.get(what, 0)]:
            self._uses[child] += 1
        return number

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

    def _mention(self, text: str) -> int:
        """The number of a string, with one more use."""
        is_new = text not in self.strings.numbers
        number = self.strings.take(text)
        if is_new:
            self.table.put(text, number, self.strings.numbers)
        return number

    def _asked(self, asked: Path | Predicate, label: int) -> int:
        number, before = self.questions.take((asked, label)), len(self)
        found = self._new(conditions.ASKED, number)
        if len(self) == before:
            self.questions.release(number)
        return found

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
        size = self.size
        arrays: dict[str, AnyArray] = {
            "node": self._node[:size],
            "literal": self._literal[:size],
            "uses": np.array(self._uses, np.int32),
        }
        about: dict[str, Any] = {
            "strings": self.strings.keys,
            "questions": [None if one is None else _written(one) for one in self.questions.keys],
            "selection": str(self.selection),
        }
        return arrays, about

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray], about: Mapping[str, Any], labels: Labels) -> Guards:
        """The graph over (memory-mapped) arrays."""
        found = Guards(labels, Selection(about["selection"]))
        found._node, found._literal = np.array(arrays["node"]), np.array(arrays["literal"])
        found._uses = arrays["uses"].tolist()
        found._free = np.flatnonzero(arrays["uses"] == 0).tolist()
        node, literal = found._node.tolist(), found._literal.tolist()
        found._numbers = {
            (*node[at], literal[at]): at  # type: ignore[misc]
            for at, uses in enumerate(found._uses)
            if uses
        }
        keys = list(found._numbers)
        strings = (int(x) for what, _, how, x in keys if what in _VALUES and how & 15 in _STRINGS.values())
        _restore(found.strings, about["strings"], strings)
        for text, number in found.strings.numbers.items():
            found.table.put(text, number, found.strings.numbers)
        found.kinds = {conditions.KIND_OF[what] for what, _, _, _ in keys if what in _VALUES}
        asked = (left for what, left, _, _ in keys if what == conditions.ASKED)
        _restore(found.questions, [one and _read(one) for one in about["questions"]], asked)
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


def _restore(interned: Interned[Any], keys: list[Any], uses: Iterable[int]) -> None:
    interned.keys = keys
    interned.numbers = {key: number for number, key in enumerate(keys) if key is not None}
    interned._uses = np.bincount(np.fromiter(uses, np.int64), minlength=len(keys)).tolist()
    interned._free = [number for number, key in enumerate(keys) if key is None]


def _written(question: Question) -> list[Any]:
    """A question as JSON: a predicate is written as that of a step."""
    asked, label = question
    if isinstance(asked, Path):
        return ["query", show_xpath(asked), namespaces_in(asked), label]
    path = Path((Step(Axis.CHILD, ANY, (asked,)),), absolute=False)
    return ["predicate", show_xpath(path), namespaces_in(path), label]


def _read(written: list[Any]) -> Question:
    kind, text, namespaces, label = written
    path = parse_xpath(text, namespaces)
    return (path if kind == "query" else path.steps[0].predicates[0]), label


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
