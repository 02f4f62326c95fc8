"""The strings that conditions mention, laid out so that a kernel finds them in the bytes of a document.

Strings come and go with queries. What is gone stays in the table, where it no longer counts, until there is more of it
than of what is in use; then the table is written anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.markup.value_kernels import Texts, fingerprint, put_text
from tocsin.match.path_automaton import grow, power

OLD_MAX = 1_024
"""Rows that may be old in any case."""


class TextTable:
    """Numbers of strings by their bytes."""

    def __init__(self) -> None:
        self.texts = _empty()
        self._rows: dict[str, int] = {}
        self._bytes = 0

    def put(self, text: str, number: int, used: Mapping[str, int]) -> None:
        """The number of a text from now on; `used` are the numbers of all texts in use."""
        row = self._rows.get(text)
        if row is None:
            if len(self._rows) >= 2 * len(used) + OLD_MAX:
                self.texts, self._rows, self._bytes = _empty(), {}, 0
                for other in used.keys() - {text}:
                    self._name(self._add(other), used[other])
            row = self._add(text)
        self._name(row, number)

    def _name(self, row: int, number: int) -> None:
        texts = self.texts
        if number >= len(texts.current):
            size = len(texts.current)
            self.texts = texts = texts._replace(current=grow(texts.current, power(number + 1)))
            texts.current[size:] = -1
        texts.number[row] = number
        texts.current[number] = row

    def _add(self, text: str) -> int:
        data = np.frombuffer(text.encode(), np.uint8)
        row, start = len(self._rows), self._bytes
        self._rows[text] = row
        self._bytes += len(data)
        self._make_room(len(data))
        texts = self.texts
        texts.pool[start : self._bytes] = data
        texts.place[row] = start, self._bytes
        texts.lengths[len(data)] = 1
        put_text(texts.table, row, fingerprint(texts.pool, start, self._bytes, 0))
        return row

    def _make_room(self, length: int) -> None:
        texts, rows = self.texts, len(self._rows)
        if self._bytes > len(texts.pool):
            texts = texts._replace(pool=grow(texts.pool, power(self._bytes)))
        if length >= len(texts.lengths):
            texts = texts._replace(lengths=grow(texts.lengths, length + 1))
        if rows > len(texts.number):
            texts = texts._replace(place=grow(texts.place, power(rows)), number=grow(texts.number, power(rows)))
        if 2 * rows > len(texts.table):
            texts = texts._replace(table=np.full(2 * len(texts.table), -1, np.int32))
            for row in range(rows - 1):
                start, end = texts.place[row].tolist()
                put_text(texts.table, row, fingerprint(texts.pool, start, end, 0))
        self.texts = texts


def _empty() -> Texts:
    return Texts(
        table=np.full(2_048, -1, np.int32),
        place=np.zeros((1_024, 2), np.int64),
        number=np.zeros(1_024, np.int32),
        current=np.full(1_024, -1, np.int32),
        pool=np.zeros(1_024, np.uint8),
        lengths=np.zeros(1, np.uint8),
    )
