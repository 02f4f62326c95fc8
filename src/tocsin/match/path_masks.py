"""Selection for many clauses at once: which of them hold, once their linear paths have occurred.

The conditions of clauses (`path_guards`) are answered by a kernel for all elements of a document together. It asks for
what it needs: the values of an attribute or of the elements of a name, as numbers of strings that conditions mention
and as numbers; and, for the rare condition that sets of elements cannot express, the oracle's answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.markup import Layout, Markup
from tocsin.match import path_mask_kernels as kernels
from tocsin.match.path_guards import Guards, Place
from tocsin.match.path_mask_kernels import Answers, Elements, Held
from tocsin.match.path_runs import Tape, power_of
from tocsin.query.xpath.ast import Path
from tocsin.query.xpath.semantics import holds_xpath, is_true, number_of

IntArray = npt.NDArray[np.int32]
AnyArray = npt.NDArray[Any]

POOL_BYTES = 1 << 26
"""Memory for sets of elements; beyond it they are found again when needed."""
ROWS_MIN = 8_192
"""Sets that there is room for in any case; more than the conditions of one query."""
MISSING_MAX = 1_024
_NUMERIC = frozenset("-.0123456789 \t\r\n")
_BLANK = " \t\r\n"


class Selector:
    """Answers conditions; its memory is used again from document to document."""

    def __init__(self) -> None:
        self._memo = np.zeros(0, np.int64)
        self._pool = np.zeros((0, 1), np.uint32)
        self._counts = np.zeros(3, np.int64)
        self._stack = np.zeros(0, np.int32)

    def select(  # noqa: PLR0917 — the candidates and where they are registered
        self,
        guards: Guards,
        document: Markup,
        tape: Tape,
        tests: IntArray,
        slots: IntArray,
        candidates: IntArray,
        flags: npt.NDArray[np.uint8],
    ) -> None:
        """Marks the slots of the candidates that hold."""
        reading = _Reading(guards, document, tape)
        answers = self._open(guards.size, reading.size)
        missing = np.zeros((MISSING_MAX, 2), np.int64)
        while len(candidates):
            waiting = np.zeros(len(candidates) + 1, np.int32)
            missing[0] = 0
            run: Any = kernels.select
            looked = run(
                guards.graph, reading.elements, reading.held, answers, tests, candidates, slots, flags, waiting, missing
            )
            left = candidates[looked:]
            while self._counts[kernels.ROWS] + missing[0, 0] >= len(self._pool):
                answers = self._make_room(answers, reading, must_grow=looked == 0)
            reading.fetch(missing[1 : missing[0, 0] + 1].tolist(), answers)
            candidates = np.concatenate([waiting[1 : waiting[0] + 1], left])

    def _open(self, nodes: int, elements: int) -> Answers:
        """Room for the answers about a document; none is known."""
        if nodes > len(self._memo):
            self._memo = np.zeros(power_of(nodes), np.int64)
            self._stack = np.zeros(power_of(nodes) + 2, np.int32)
        words = (elements + 32) // 32
        rows = max(64, 2 * len(self._pool)) if len(self._pool) < 64 else len(self._pool)
        if words != self._pool.shape[1] or rows != len(self._pool):
            flat = self._pool.reshape(-1)
            rows = max(64, len(flat) // words)
            if len(flat) < rows * words:
                flat = np.zeros(rows * words, np.uint32)
            self._pool = flat[: rows * words].reshape(rows, words)
        self._counts[kernels.RUN] += 1
        self._counts[kernels.ROWS] = 0
        seen, count = np.zeros(elements + 1, np.int64), np.zeros(elements + 1, np.int64)
        self._counts[kernels.STAMP] = 0
        return Answers(self._memo, self._pool, self._counts, self._stack, seen, count)

    def _make_room(self, answers: Answers, reading: _Reading, must_grow: bool) -> Answers:
        """A larger pool, or the same one emptied."""
        rows, words = self._pool.shape
        if must_grow or rows < ROWS_MIN or 4 * rows * words < POOL_BYTES:
            larger = np.zeros((2 * rows, words), np.uint32)
            larger[:rows] = self._pool
            self._pool = larger
            return answers._replace(pool=larger)
        self._counts[kernels.RUN] += 1
        self._counts[kernels.ROWS] = 0
        reading.held.asked[:] = -2
        return answers


class _Reading:
    """One document as the kernel sees it."""

    def __init__(self, guards: Guards, document: Markup, tape: Tape) -> None:
        self._guards, self._document, self._tape = guards, document, tape
        self._layout = layout = document.layout
        self.size = len(layout.parent)
        labels = tape.event[tape.event > 0]
        self.elements = _elements(layout, labels, guards.labels.arrays()[0])
        self._answers: dict[int, list[int]] = {}
        places = len(guards.places.keys)
        self.held = Held(
            first=np.full(places, -1, np.int64),
            end=np.zeros(places, np.int64),
            element=np.zeros(0, np.int32),
            text=np.zeros(0, np.int32),
            number=np.zeros(0, np.float64),
            asked=np.full(len(guards.questions.keys), -2, np.int64),
        )

    def fetch(self, missing: list[list[int]], answers: Answers) -> None:
        """Gets the values of places, and the answers of the oracle."""
        elements: list[AnyArray] = [self.held.element]
        texts: list[int] = []
        numbers: list[float] = []
        size = first = len(self.held.element)
        for kind, what in missing:
            if kind:
                self._ask(what, answers)
                continue
            place = self._guards.places.keys[what]
            assert place is not None
            owners, values = self._values(place)
            elements.append(owners)
            known = self._guards.strings.numbers
            texts += [known.get(value, -1) if value is not None else -1 for value in values]
            numbers += map(_number, values)
            self.held.first[what], self.held.end[what] = size, size + len(owners)
            size += len(owners)
        if size > first:
            self.held = self.held._replace(
                element=np.concatenate(elements).astype(np.int32),
                text=np.concatenate([self.held.text, np.array(texts, np.int32)]),
                number=np.concatenate([self.held.number, np.array(numbers, np.float64)]),
            )

    # --- values ------------------------------------------------------------------------------

    def _values(self, place: Place) -> tuple[AnyArray, Iterable[str | None]]:
        """Elements and values; None for a value that is too long for any string, and no number."""
        kind, label = place
        if kind == "@":
            rows = self._where(self._tape.attribute, label, kernels.ANY_ATTRIBUTE)
            values = self._document.values
            return self._layout.element_of(self._tape.owner[rows]), [values[row] for row in rows.tolist()]
        if kind == "text":
            return self._layout.text[:, 0], self._inside(self._layout.text[:, 1], self._layout.text[:, 2])
        chosen = self._where(self.elements.label, label, kernels.WILDCARD)
        return chosen, self._inside(self._layout.first[chosen], self._layout.end[chosen])

    def _where(self, labels: AnyArray, label: int, wildcard: int) -> AnyArray:
        if label == wildcard:
            return np.arange(len(labels))
        group = self.elements.group
        return np.flatnonzero((labels == label) | (group[labels] == label if group[label] == label else False))

    def _inside(self, first: AnyArray, end: AnyArray) -> list[str | None]:
        """The text of ranges of pieces; a range that is longer than all strings is looked at only as a number."""
        pieces, before = self._document.pieces, self._layout.characters(self._document)
        longest = self._guards.longest
        found: list[str | None] = []
        for one, stop, size in zip(first.tolist(), end.tolist(), (before[end] - before[first]).tolist(), strict=True):
            if size <= longest or _may_be_number(pieces, one, stop):
                found.append(pieces[one] if stop == one + 1 else "".join(pieces[one:stop]))
            else:
                found.append(None)
        return found

    # --- questions ---------------------------------------------------------------------------

    def _ask(self, question: int, answers: Answers) -> None:
        """The oracle's answer."""
        if question not in self._answers:
            self._answers[question] = self._answer(question)
        elements = np.array(self._answers[question], np.int64)
        row = -1
        if len(elements):
            row = int(answers.counts[kernels.ROWS])
            answers.counts[kernels.ROWS] += 1
            answers.pool[row] = 0
            np.bitwise_or.at(answers.pool[row], elements >> 5, (1 << (elements & 31)).astype(np.uint32))
        self.held.asked[question] = row

    def _answer(self, number: int) -> list[int]:
        question = self._guards.questions.keys[number]
        assert question is not None
        asked, label = question
        if isinstance(asked, Path):
            return [0] if holds_xpath(asked, self._document) else []
        chosen = self._where(self.elements.label, label, kernels.WILDCARD).tolist()
        tree = self._document.tree
        return [one for one in chosen if is_true(asked, tree, ("element", one, 0), 0)]


def _number(value: str | None) -> float:
    return number_of(value) if value and value[0] in _NUMERIC else nan


def _may_be_number(pieces: list[str], first: int, end: int) -> bool:
    """Does the text start like a number?"""
    for piece in pieces[first:end]:
        text = piece.lstrip(_BLANK)
        if text:
            return text[0] in _NUMERIC
    return False


def _elements(layout: Layout, labels: AnyArray, group: IntArray) -> Elements:
    """With the elements of each label in a chain."""
    head, following = np.full(len(group), -1, np.int32), np.full(len(labels), -1, np.int32)
    kernels.chain(labels, head, following)
    return Elements(layout.parent, layout.last, layout.child, layout.sibling, labels, head, following, group)
