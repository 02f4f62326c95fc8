"""Keys to numbers: which number each key of a query has, over all analyses.

Words live in a lexicon for each analysis; numbers and the presence of fields, of which there are few, in a
dictionary; similarities (`~`) with the index that finds them. All share one counter, so that one array of masks
serves them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tocsin.match.lexicon import KeyCounter, Lexicon, Surfaces, WordTable, pack, split
from tocsin.match.requirement import PREFIX, PRESENT
from tocsin.match.similarity_keys import SimilarKeys, number_in_place
from tocsin.query.normal import NUMBERS, Key
from tocsin.text import ANALYSES, STANDARD, Analysis

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]
SURFACES = "surfaces"
SIMILAR = "similar"
T = TypeVar("T")


class Interner:
    """Gives keys their numbers."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.counter = KeyCounter()
        self.lexicons = {name: Lexicon(self.counter) for name in ANALYSES}
        self.surfaces = Surfaces()
        self.fields: dict[str, int] = {}
        """Fields that some query names, from 1 on; other fields are number 0."""
        self.special: dict[Key, int] = {}
        """Numbers, and fields that are present."""
        self.prefixes: dict[str, dict[str, int]] = {}
        """For each field ("": any), the prefixes that some query asks for."""
        self.similar = SimilarKeys(analysis, self.counter)

    @property
    def keys_end(self) -> int:
        """All key numbers are below this."""
        return self.counter.next

    def numbers(self, keys: Sequence[Key]) -> tuple[int, ...]:
        """The numbers of these keys; new keys get new ones."""
        return tuple(self._key(key) for key in keys)

    def _key(self, key: Key) -> int:
        if key.analysis == PREFIX:
            return self._number(self.prefixes.setdefault(key.field, {}), key.word)
        if (similar := number_in_place(key)) is not None:
            return similar
        if key.analysis in (NUMBERS, PRESENT):
            return self._number(self.special, key)
        lexicon = self.lexicons[key.analysis]
        words = lexicon.insert([key.word.encode()])
        if not key.field:
            return int(lexicon.bare_keys(words)[0])
        return int(lexicon.field_keys(words, self.field(key.field))[0])

    def _number(self, known: dict[T, int], key: T) -> int:
        number = known.get(key)
        if number is None:
            number = known[key] = self.counter.next
            self.counter.next += 1
        return number

    def field(self, name: str) -> int:
        """The number of a field that queries name."""
        return self.fields.setdefault(name, len(self.fields) + 1)

    def plain(self, texts: Sequence[bytes]) -> tuple[I64, U32]:
        """Queries of plain ASCII words: where the keys of each begin, and the keys."""
        buffer, starts, ends = pack([text.lower() for text in texts])
        first, begins, finishes = split(buffer, starts, ends)
        lexicon = self.lexicons[STANDARD]
        return first, lexicon.bare_keys(lexicon.insert_spans(buffer, begins, finishes))

    # --- keeping -------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.surfaces.nbytes + sum(lexicon.nbytes for lexicon in self.lexicons.values())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The words of all analyses, and the texts that are compared."""
        tables: dict[str, WordTable] = {**self.lexicons, SURFACES: self.surfaces}
        found = {f"{name}.{part}": array for name, table in tables.items() for part, array in table.arrays().items()}
        return {**found, SIMILAR: self.similar.array()}

    def about(self) -> dict[str, Any]:
        """What is no array."""
        return {
            "analysis": dict(self.analysis.fields),
            "fields": self.fields,
            "special": [[key.field, key.analysis, key.word, number] for key, number in self.special.items()],
            "prefixes": self.prefixes,
            "next_key": self.counter.next,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> Interner:
        """Undo arrays() and about()."""

        def part(name: str) -> dict[str, npt.NDArray[Any]]:
            return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}

        self = cls(Analysis(about["analysis"]))
        self.counter.next = about["next_key"]
        self.lexicons = {name: Lexicon.from_arrays(part(name), self.counter) for name in ANALYSES}
        surfaces = Surfaces.from_arrays(part(SURFACES))
        assert isinstance(surfaces, Surfaces)
        self.surfaces = surfaces
        self.similar = SimilarKeys(self.analysis, self.counter, bytes(arrays[SIMILAR]))
        self.fields = dict(about["fields"])
        self.prefixes = {field: dict(prefixes) for field, prefixes in about["prefixes"].items()}
        self.special = {Key(field, name, word): number for field, name, word, number in about["special"]}
        return self
