"""Documents to marks: which keys occur in which documents of a batch.

String values go to the kernels as bytes, those that are not ASCII folded first (`text.spaced` is the only
definition of a word). English text is looked up by surface form: a form is analysed when it is first seen.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from tocsin.match.intern import Interner
from tocsin.match.kernels import NONE, ONLY_SCOPED
from tocsin.match.lexicon import Texts, surfaces_of
from tocsin.match.requirement import PRESENT
from tocsin.match.segments import Marks
from tocsin.model import Document
from tocsin.query.normal import NUMBERS, Key, number_word
from tocsin.text import ENGLISH, KEYWORD, STANDARD, UNSEEN_BY_BARE, fold, spaced, texts, values_of, words


class Values:
    """The string values of a batch that have one analysis."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.docs: list[int] = []
        self.fields: list[int] = []

    def add(self, value: bytes, doc: int, field: int) -> None:
        """One value."""
        self.values.append(value)
        self.docs.append(doc)
        self.fields.append(field)

    def texts(self) -> Texts:
        """As the kernels want them."""
        return Texts.of(self.values, self.docs, self.fields)


class Marker:
    """Marks documents for an index."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner

    def mark(self, documents: Sequence[Document], marks: Marks) -> None:
        """Marks every key that the documents hold."""
        interner = self._interner
        values = {STANDARD: Values(), ENGLISH: Values(), KEYWORD: Values()}
        named = [name for name in UNSEEN_BY_BARE if name in interner.fields]
        for doc, document in enumerate(documents):
            for name, found in document.fields.items():
                self._values(found, name, interner.fields.get(name, 0), doc, values)
            for name in named:
                self._values(values_of(document, name), name, interner.fields[name] | ONLY_SCOPED, doc, values)
        if values[STANDARD].values:
            interner.lexicons[STANDARD].mark(values[STANDARD].texts(), marks)
        if values[KEYWORD].values:
            interner.lexicons[KEYWORD].mark_values(values[KEYWORD].texts(), marks)
        if values[ENGLISH].values:
            self._mark_english(values[ENGLISH].texts(), marks)
        if interner.special:
            self._mark_special(documents, marks)
        for field, prefixes in interner.prefixes.items():
            lengths = sorted({len(prefix) for prefix in prefixes})
            for doc, document in enumerate(documents):
                held = self._words(document, field or None)
                for number in _starts(held, prefixes, lengths):
                    _mark_key(marks, number, doc)

    def _values(self, found: Sequence[object], name: str, field: int, doc: int, values: dict[str, Values]) -> None:
        analysis = self._interner.analysis.of(name)
        for value in found:
            if isinstance(value, str):
                if analysis == KEYWORD:
                    values[KEYWORD].add(fold(value).encode(), doc, field)
                else:
                    text = value if value.isascii() else spaced(value)
                    values[analysis].add(text.encode(), doc, field)

    def _mark_english(self, texts: Texts, marks: Marks) -> None:
        """Forms that are new are analysed and remembered, then marked."""
        interner = self._interner
        lexicon = interner.lexicons[ENGLISH]
        unknown = interner.surfaces.mark(texts, lexicon, marks)
        if not unknown.starts.size:
            return
        surfaces = surfaces_of(unknown)
        stems = [words(surface.decode(), ENGLISH) for surface in surfaces]
        analysed = [stem[0].encode() if stem else b"" for stem in stems]
        numbers = np.full(len(surfaces), NONE, np.uint32)
        kept = np.array([bool(word) for word in analysed])
        if kept.any():
            numbers[kept] = lexicon.insert([word for word in analysed if word])
        interner.surfaces.learn(surfaces, numbers)
        interner.surfaces.mark(unknown, lexicon, marks)

    def _mark_special(self, documents: Sequence[Document], marks: Marks) -> None:
        special = self._interner.special
        fields = {key.field for key in special}
        for doc, document in enumerate(documents):
            for name in fields:
                found = values_of(document, name)
                keys = [Key(name, PRESENT, "")] if found else []
                keys += [Key(name, NUMBERS, number_word(value)) for value in found if not isinstance(value, str)]
                for key in keys:
                    if (number := special.get(key)) is not None:
                        _mark_key(marks, number, doc)

    def _words(self, document: Document, field: str | None) -> set[str]:
        return {word for value, _ in texts(document, field, self._interner.analysis) for word in value}


def _mark_key(marks: Marks, number: int, doc: int) -> None:
    marks.masks[number] |= np.uint64(1 << doc)
    marks.touched[number >> 6] |= np.uint64(1 << (number & 63))


def _starts(held: set[str], prefixes: dict[str, int], lengths: list[int]) -> set[int]:
    """The prefixes that some word starts with: each is looked for in the words, or each start of a word in them."""
    if len(prefixes) > len(held) * len(lengths):
        found = (prefixes.get(word[:length]) for word in held for length in lengths)
        return {number for number in found if number is not None}
    ordered = sorted(held)
    places = ((bisect_left(ordered, prefix), prefix, number) for prefix, number in prefixes.items())
    return {number for at, prefix, number in places if at < len(ordered) and ordered[at].startswith(prefix)}
