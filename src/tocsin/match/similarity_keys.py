"""`~` as a key: an index asks once per document which texts are near, and queries wait for the answer as for a word.

Each distinct atom is one key for as long as some query asks for it. The texts are compared together (`similarity`), so
a hundred thousand of them cost a document little more than the few that it comes near to; what stands beside `~` in
a query then costs what words cost. Texts are analysed when the first document comes, so that a saved index opens at
once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import SettingError
from tocsin.match.lexicon import KeyCounter
from tocsin.match.requirement import PRESENT
from tocsin.match.similarity import SimilarityIndex
from tocsin.model import Document
from tocsin.query.ast import And, Exists, Not, Or, Query, Similar
from tocsin.query.normal import Key
from tocsin.query.score import Statistics
from tocsin.query.vector import factors
from tocsin.text import Analysis

STAND_IN = "~"  # begins the name of a field that no query can name (`text.is_field_name`)


class SimilarKeys:
    """The numbers of similarity atoms, and the index that says which of them hold."""

    def __init__(self, analysis: Analysis, counter: KeyCounter, saved: bytes = b"") -> None:
        self._analysis = analysis
        self._counter = counter
        self._numbers: dict[Similar, int] = {}
        self._atoms: dict[int, Similar] = {}
        self._uses: Counter[int] = Counter()
        self._index = SimilarityIndex(analysis)
        self._unread: dict[int, Similar] = {}
        """Atoms that are not in the index yet."""
        self._saved = saved

    def __len__(self) -> int:
        """How many atoms some query asks for."""
        self._restore()
        return len(self._numbers)

    def take(self, atom: Similar) -> int:
        """The number of an atom that one more query asks for."""
        self._restore()
        number = self._numbers.get(atom)
        if number is None:
            if not 0 <= atom.threshold <= 1:
                raise SettingError(f"a threshold is between 0 and 1, not {atom.threshold}")
            number = self._counter.next
            self._counter.next += 1
            self._put(atom, number)
        self._uses[number] += 1
        return number

    def number(self, atom: Similar) -> int:
        """The number of an atom that some query asks for."""
        self._restore()
        return self._numbers[atom]

    def release(self, number: int) -> None:
        """One query less asks for the atom of this number; after the last, the number stands for nothing any more."""
        self._restore()
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number], self._numbers[self._atoms.pop(number)]
            if self._unread.pop(number, None) is None:
                self._index.remove(number)

    def match(self, documents: Sequence[Document], statistics: Statistics) -> list[list[int]]:
        """For each document the numbers of the atoms that hold."""
        self._restore()
        for number, atom in self._unread.items():
            self._index.add_factors(number, atom.field, factors(atom, self._analysis), atom.threshold)
        self._unread.clear()
        return self._index.match(documents, statistics) if self._numbers else []

    def _put(self, atom: Similar, number: int) -> None:
        self._numbers[atom] = number
        self._atoms[number] = self._unread[number] = atom

    # --- keeping -------------------------------------------------------------------------------

    def array(self) -> npt.NDArray[np.uint8]:
        """All there is to keep."""
        if self._saved:
            return np.frombuffer(self._saved, np.uint8)
        rows = [
            (atom.field, atom.text, atom.threshold, number, self._uses[number], atom.moved)
            for atom, number in self._numbers.items()
        ]
        return np.frombuffer(json.dumps(rows).encode() if rows else b"", np.uint8)

    def _restore(self) -> None:
        """Undo array(), when first needed."""
        if self._saved:
            rows, self._saved = json.loads(self._saved), b""
            for field, text, threshold, number, uses, *moved in rows:
                self._put(Similar(field, text, threshold, _pairs(moved)), number)
                self._uses[number] = uses


def _pairs(saved: list[list[list[Any]]]) -> tuple[tuple[str, float], ...]:
    """The words of a moved text as JSON has them; an index of before there was feedback has none."""
    return tuple((word, factor) for moved in saved for word, factor in moved)


def standing_in(query: Query, keys: SimilarKeys) -> Query:
    """The query with an atom that asks for one key in place of every `~`; `number_in_place` knows the key again."""
    match query:
        case And(parts):
            return And(tuple(standing_in(part, keys) for part in parts))
        case Or(parts):
            return Or(tuple(standing_in(part, keys) for part in parts))
        case Not(part):
            return Not(standing_in(part, keys))
        case Similar():
            return Exists(f"{STAND_IN}{keys.number(query)}")
    return query


def number_in_place(key: Key) -> int | None:
    """The number of the `~` that this key stands for, if it stands for one."""
    is_one = key.analysis == PRESENT and key.field.startswith(STAND_IN)
    return int(key.field.removeprefix(STAND_IN)) if is_one else None
