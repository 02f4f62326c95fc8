"""Keys to numbers: which number each key of a query has, over all analyses.

Words live in a lexicon for each analysis; numbers and the presence of fields, of which there are few, in a
dictionary. All share one counter, so that one array of masks serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tocsin.match.lexicon import KeyCounter, Lexicon, Surfaces, pack, split
from tocsin.match.requirement import PRESENT
from tocsin.query.normal import NUMBERS, Key
from tocsin.text import ANALYSES, STANDARD, Analysis

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]


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

    @property
    def keys_end(self) -> int:
        """All key numbers are below this."""
        return self.counter.next

    def numbers(self, keys: Sequence[Key]) -> tuple[int, ...]:
        """The numbers of these keys; new keys get new ones."""
        return tuple(self._key(key) for key in keys)

    def _key(self, key: Key) -> int:
        if key.analysis in (NUMBERS, PRESENT):
            number = self.special.get(key)
            if number is None:
                number = self.special[key] = self.counter.next
                self.counter.next += 1
            return number
        lexicon = self.lexicons[key.analysis]
        words = lexicon.insert([key.word.encode()])
        if not key.field:
            return int(lexicon.bare_keys(words)[0])
        return int(lexicon.field_keys(words, self.field(key.field))[0])

    def field(self, name: str) -> int:
        """The number of a field that queries name."""
        return self.fields.setdefault(name, len(self.fields) + 1)

    def plain(self, texts: Sequence[bytes]) -> tuple[I64, U32]:
        """Queries of plain ASCII words: where the keys of each begin, and the keys."""
        buffer, starts, ends = pack([text.lower() for text in texts])
        first, begins, finishes = split(buffer, starts, ends)
        lexicon = self.lexicons[STANDARD]
        return first, lexicon.bare_keys(lexicon.insert_spans(buffer, begins, finishes))
