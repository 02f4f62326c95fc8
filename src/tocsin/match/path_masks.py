"""Selection for many clauses at once: which of them hold, once their linear paths have occurred.

The conditions of clauses (`path_guards`) are answered by a kernel for all elements of a document together. It asks for
what it needs: the values of attributes, elements or texts, as numbers of the strings that conditions mention and as
numbers; and, for the rare condition that sets of elements cannot express, the oracle's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.markup import Markup
from tocsin.markup.document import Raw
from tocsin.markup.value_kernels import find_values
from tocsin.match import path_conditions as conditions
from tocsin.match import path_mask_kernels as kernels
from tocsin.match.path_conditions import Answers, Document
from tocsin.match.path_families import Families
from tocsin.match.path_guards import Guards
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
MANY = 64
"""Candidates that are likely to need every kind of values: they are fetched at once."""
_NUMERIC = frozenset("-.0123456789 \t\r\n")
Values = tuple[IntArray, npt.NDArray[np.float64]]
"""Numbers of strings (-1: no condition mentions it), and numbers (NaN: it is none)."""


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
        families: Families,
        candidates: IntArray,
        flags: npt.NDArray[np.uint8],
    ) -> None:
        """Marks the slots of the candidates that hold."""
        reading = Reading(guards, document, tape)
        answers = self._open(guards.size, reading.size)
        if len(candidates) >= MANY:
            reading.fetch([~kind for kind in sorted(guards.kinds)], answers)
        missing = np.zeros(MISSING_MAX, np.int64)
        while len(candidates):
            waiting = np.zeros(len(candidates) + 1, np.int32)
            missing[0] = 0
            run: Any = kernels.select
            arrays = (*guards.graph, *reading.document, *answers)
            shared = (families.head, families.member, families.literal)
            looked = run(*arrays, tests, candidates, slots, *shared, flags, waiting, missing)
            left = candidates[looked:]
            while self._counts[conditions.ROWS] + missing[0] >= len(self._pool):
                answers = self._make_room(answers, reading, must_grow=looked == 0)
            reading.fetch(missing[1 : missing[0] + 1].tolist(), answers)
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
        self._counts[conditions.RUN] += 1
        self._counts[conditions.ROWS] = 0
        self._counts[conditions.STAMP] = 0
        return Answers(self._memo, self._pool, self._counts, self._stack, np.zeros((elements + 1, 2), np.int64))

    def _make_room(self, answers: Answers, reading: Reading, must_grow: bool) -> Answers:
        """A larger pool, or the same one emptied."""
        rows, words = self._pool.shape
        if must_grow or rows < ROWS_MIN or 4 * rows * words < POOL_BYTES:
            larger = np.zeros((2 * rows, words), np.uint32)
            larger[:rows] = self._pool
            self._pool = larger
            return answers._replace(pool=larger)
        self._counts[conditions.RUN] += 1
        self._counts[conditions.ROWS] = 0
        reading.document.asked[:] = -2
        return answers


class Reading:
    """One document as the kernel sees it; values are fetched when it asks for them."""

    def __init__(self, guards: Guards, document: Markup, tape: Tape) -> None:
        self._guards, self._markup, self._tape = guards, document, tape
        self._layout = layout = document.layout
        self.size = size = len(layout.parent)
        labels, strings = len(guards.labels.names), len(guards.strings.keys)
        tree, by_label = np.full((size + 1, 6), -1, np.int32), np.full((labels, 2), -1, np.int32)
        self._labels = tape.event[tape.event > 0]
        columns = (layout.parent, layout.last, layout.child, layout.sibling, self._labels)
        for at, column in enumerate(columns):
            tree[:size, at] = column
        by_label[:, 1] = guards.labels.arrays()[0]
        kernels.chain_elements(tree, by_label)
        self._answers: dict[int, list[int]] = {}
        self.document = Document(
            tree=tree,
            by_label=by_label,
            rows=np.zeros((0, 6), np.int32),
            number=np.zeros(0, np.float64),
            by_kind=np.full((3, labels, 2), -1, np.int32),
            by_string=np.full((3, strings), -1, np.int32),
            range=np.full((3, 2), -1, np.int64),
            asked=np.full(len(guards.questions.keys), -2, np.int64),
        )

    def fetch(self, missing: list[int], answers: Answers) -> None:
        """Gets values, and the answers of the oracle."""
        layout = self._layout
        for what in missing:
            match ~what:
                case conditions.ATTRIBUTES:
                    labels = self._tape.attribute
                    self._add(~what, layout.element_of(self._tape.owner), labels, *self._attributes())
                case conditions.CONTENTS:
                    values = self._inside(layout.first, layout.end)
                    self._add(~what, np.arange(self.size), self._labels, *values)
                case conditions.TEXTS:
                    text = layout.text
                    labels = np.full(len(text), conditions.WILDCARD, np.int32)
                    self._add(~what, text[:, 0], labels, *self._inside(text[:, 1], text[:, 2]))
                case _:
                    self._ask(what, answers)

    # --- values ------------------------------------------------------------------------------

    def _add(self, kind: int, elements: AnyArray, labels: AnyArray, strings: AnyArray, numbers: AnyArray) -> None:
        """Adds the values of a kind."""
        document = self.document
        first = len(document.rows)
        rows = np.full((first + len(labels), 6), -1, np.int32)
        rows[:first] = document.rows
        rows[first:, conditions.OWNER] = elements
        rows[first:, conditions.VALUE_LABEL] = labels
        rows[first:, conditions.STRING] = strings
        number = np.concatenate([document.number, numbers])
        document.range[kind] = first, len(rows)
        kernels.chain_values(rows, number, first, document.by_kind[kind], document.by_string[kind])
        self.document = document._replace(rows=rows, number=number)

    def _attributes(self) -> Values:
        """The values of the attributes."""
        raw = self._markup.raw
        if raw is None:
            return self._known(self._markup.values)
        each = np.arange(len(raw.value) + 1)
        return self._found(raw, raw.value, each[:-1], each[1:], raw.value_text)

    def _inside(self, first: AnyArray, end: AnyArray) -> Values:
        """The text of ranges of pieces."""
        raw = self._markup.raw
        if raw is None:
            pieces = self._markup.pieces
            return self._known(["".join(pieces[one:stop]) for one, stop in zip(first, end, strict=True)])
        return self._found(raw, raw.piece, first, end, lambda at: raw.text(int(first[at]), int(end[at])))

    def _known(self, values: Sequence[str]) -> Values:
        """Values one by one: the definition of what `_found` gives."""
        known = self._guards.strings.numbers
        strings = np.array([known.get(value, -1) for value in values], np.int32)
        return strings, np.array([_number(value) for value in values], np.float64)

    def _found(self, raw: Raw, piece: AnyArray, first: AnyArray, end: AnyArray, text: Callable[[int], str]) -> Values:
        """From the bytes: only what differs from them is decoded."""
        known, size = self._guards.strings.numbers, len(first)
        strings, numbers, asked = np.full(size, -1, np.int32), np.full(size, nan), np.empty(size, np.int32)
        run: Any = find_values
        texts = self._guards.table.texts
        count = run(raw.data, piece, piece is raw.value, first, end, texts, numbers, strings, asked)
        for at in asked[:count].tolist():
            value = text(at)
            strings[at] = known.get(value, -1)
            if isnan(numbers[at]):
                numbers[at] = _number(value)
        return strings, numbers

    # --- questions ---------------------------------------------------------------------------

    def _ask(self, question: int, answers: Answers) -> None:
        """The oracle's answer."""
        if question not in self._answers:
            self._answers[question] = self._answer(question)
        elements = np.array(self._answers[question], np.int64)
        row = -1
        if len(elements):
            row = int(answers.counts[conditions.ROWS])
            answers.counts[conditions.ROWS] += 1
            answers.pool[row] = 0
            np.bitwise_or.at(answers.pool[row], elements >> 5, (1 << (elements & 31)).astype(np.uint32))
        self.document.asked[question] = row

    def _answer(self, number: int) -> list[int]:
        question = self._guards.questions.keys[number]
        assert question is not None
        asked, label = question
        if isinstance(asked, Path):
            return [0] if holds_xpath(asked, self._markup) else []
        group = self._guards.labels.group
        labels = enumerate(self._labels.tolist())
        chosen = [one for one, known in labels if label in (conditions.WILDCARD, known, group[known])]
        tree = self._markup.tree
        return [one for one in chosen if is_true(asked, tree, ("element", one, 0), 0)]


def _number(value: str) -> float:
    return number_of(value) if value and value[0] in _NUMERIC else nan
