"""The graph of conditions as flat arrays: equal conditions are the same node, and a node lives as long as it is used.

What is not an integer, the strings that values are compared with and the questions for the oracle, is kept beside it.
`path_guards` says which conditions a query has.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tocsin.match import path_conditions as conditions
from tocsin.match.path_automaton import grow, power
from tocsin.match.path_texts import TextTable
from tocsin.query.xpath.ast import ANY, Axis, Path, Predicate, Step, namespaces_in
from tocsin.query.xpath.parse import parse_xpath
from tocsin.query.xpath.show import show_xpath

AnyArray = npt.NDArray[Any]
Question = tuple[Path | Predicate, int]
"""What only the oracle can answer: a whole query, or a predicate at the elements of a label."""
Test = tuple[int, int, int]
"""Up to three conditions that must hold at one element; -1 for none."""

_OF_STRINGS = (conditions.SAME, conditions.DIFFERENT)
_VALUES = (conditions.ATTRIBUTE, conditions.CONTENT, conditions.CHILD, conditions.TEXT)
_STEPS = (conditions.PARENTS, conditions.ABOVE, conditions.CHILDREN, conditions.BELOW)
_ONE_CHILD = (*_STEPS, conditions.WITHOUT, conditions.PLACED, conditions.EVERYWHERE)
_CHILDREN = dict.fromkeys(_ONE_CHILD, 1) | {conditions.BOTH: 2, conditions.EITHER: 2}
K = TypeVar("K", bound=Hashable)


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


class Graph:
    """Nodes with their uses; the conditions of a clause are taken and released as a whole."""

    def __init__(self) -> None:
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

    def keep(self, test: Test) -> None:
        """One more use of these conditions."""
        for node in test:
            if node >= 0:
                self._uses[node] += 1

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
            if what in _VALUES and right & 15 in _OF_STRINGS:
                self.strings.release(int(literal))
            elif what == conditions.ASKED:
                self.questions.release(left)

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
        }
        return arrays, about

    def restore(self, arrays: Mapping[str, AnyArray], about: Mapping[str, Any]) -> None:
        """Takes over what `to_arrays` gave; the arrays may be memory-mapped."""
        self._node, self._literal = np.array(arrays["node"]), np.array(arrays["literal"])
        self._uses = arrays["uses"].tolist()
        self._free = np.flatnonzero(arrays["uses"] == 0).tolist()
        node, literal = self._node.tolist(), self._literal.tolist()
        self._numbers = {
            (*node[at], literal[at]): at  # type: ignore[misc]
            for at, uses in enumerate(self._uses)
            if uses
        }
        keys = list(self._numbers)
        strings = (int(x) for what, _, how, x in keys if what in _VALUES and how & 15 in _OF_STRINGS)
        _restore(self.strings, about["strings"], strings)
        for text, number in self.strings.numbers.items():
            self.table.put(text, number, self.strings.numbers)
        self.kinds = {conditions.KIND_OF[what] for what, _, _, _ in keys if what in _VALUES}
        asked = (left for what, left, _, _ in keys if what == conditions.ASKED)
        _restore(self.questions, [one and _read(one) for one in about["questions"]], asked)


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
