"""Documents to marks: which keys occur in which documents of a batch.

String values go to the kernels as bytes, those that are not ASCII folded first (`text.spaced` is the only
definition of a word). English text is looked up by surface form: a form is analysed when it is first seen.

Documents that are still JSON lines are marked where they lie (`lines`): what is ASCII and has no escapes goes to the
kernels as it is, all lines of a scan prepared together. What has escapes or common letters of other alphabets is folded
by a kernel, character by character (`simple_forms`); the few values that are left take the way of documents.
"""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tocsin.match import line_kernels
from tocsin.match.intern import Interner
from tocsin.match.kernels import I64, NONE, ONLY_SCOPED, PADDING, U8, U32, find_values
from tocsin.match.lexicon import Texts, WordTable, surfaces_of
from tocsin.match.line_kernels import ESCAPED, NOT_ASCII, NUMBER
from tocsin.match.lines import Scan
from tocsin.match.requirement import PRESENT
from tocsin.match.segments import DOCUMENTS_MAX, Marks, frozen
from tocsin.model import Document
from tocsin.query.normal import NUMBERS, Key, number_word
from tocsin.query.score import Statistics
from tocsin.text import ANALYSES, ENGLISH, KEYWORD, STANDARD, UNSEEN_BY_BARE, fold, spaced, texts, values_of, words

Numbers = npt.NDArray[np.intp]
NOWHERE = len(ANALYSES)  # stands for the analysis of a value that no word of any query can be in
SIMPLE_MAX = 0x2C00  # Latin, Greek, Cyrillic and other letters of Europe, punctuation and symbols are below
_COMPOSING = range(0x0590, 0x1E00)  # of other scripts, some letters change with what is before them


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


class Names:
    """What fields mean to an index: the names that queries or the analysis know get numbers, all others the last."""

    def __init__(self, interner: Interner) -> None:
        known = [*UNSEEN_BY_BARE, *interner.fields, *interner.analysis.fields, *(key.field for key in interner.special)]
        self.names = list(dict.fromkeys(known))
        self._table = WordTable()
        self._table.insert([name.encode() for name in self.names])
        self.field = np.zeros(len(self.names) + 1, np.uint32)
        self.analysis = np.zeros(len(self.names) + 1, np.uint8)
        for at, name in enumerate(self.names):
            unseen = name in UNSEEN_BY_BARE
            self.field[at] = interner.fields.get(name, 0) | (ONLY_SCOPED if unseen else 0)
            is_read = not unseen or name in interner.fields
            self.analysis[at] = ANALYSES.index(interner.analysis.of(name)) if is_read else NOWHERE
        self.analysis[-1] = ANALYSES.index(STANDARD)
        self.present = {key.field: number for key, number in interner.special.items() if key.analysis == PRESENT}
        self.counted = {key.field for key in interner.special if key.analysis == NUMBERS}
        self.special = np.array([name in self.counted or name in self.present for name in [*self.names, ""]])

    @staticmethod
    def state(interner: Interner) -> tuple[int, int]:
        """Names made when this was the same are as good as new."""
        return len(interner.fields), len(interner.special)

    def of(self, scan: Scan) -> npt.NDArray[np.uint32]:
        """The number of the field of each value."""
        spans = scan.spans
        numbers = np.empty(spans.key_start.size, np.uint32)
        find_values(scan.buffer, spans.key_start, spans.key_end, self._table.view, numbers)
        return np.minimum(numbers, np.uint32(len(self.names)))[spans.key]


@dataclass(frozen=True, slots=True)
class Column:
    """Values in the order of their documents, to be taken in batches."""

    texts: Texts
    bounds: Numbers
    """The values of batch b are those from bounds[b] to bounds[b + 1]."""

    @classmethod
    def of(cls, texts: Texts, rank: npt.NDArray[np.int64], documents: int) -> Column:
        return cls(texts, _bounds(rank, documents))

    def batch(self, number: int) -> Texts | None:
        """The values of a batch, if there are any."""
        begin, end = int(self.bounds[number]), int(self.bounds[number + 1])
        return self.texts.cut(begin, end) if begin < end else None


class Marker:
    """Marks documents for an index."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._names, self._names_state = Names(interner), Names.state(interner)

    def names(self) -> Names:
        """What fields mean now."""
        if self._names_state != Names.state(self._interner):
            self._names, self._names_state = Names(self._interner), Names.state(self._interner)
        return self._names

    def mark(self, documents: Sequence[Document], marks: Marks, statistics: Statistics) -> None:
        """Marks every key that the documents hold, under these statistics."""
        values = {STANDARD: Values(), ENGLISH: Values(), KEYWORD: Values()}
        self._collect(enumerate(documents), values)
        self._mark_collected(values, marks)
        self._mark_special(enumerate(documents), marks)
        self._mark_prefixes(documents, marks)
        self._mark_similar(documents, marks, statistics)

    def prepare(self, scan: Scan) -> Prepared:
        """All lines of a scan, ready to be marked."""
        return Prepared.of(scan, self.names())

    def mark_lines(
        self, lines: Prepared, batch: int, documents: Sequence[Document], marks: Marks, statistics: Statistics
    ) -> None:
        """Marks every key that the documents of a batch of lines hold; they are the documents given."""
        values = {STANDARD: Values(), ENGLISH: Values(), KEYWORD: Values()}
        for value in lines.late(batch):
            text, doc, number = lines.text(value), lines.doc(value), int(lines.numbers[value])
            self._add(text, ANALYSES[lines.names.analysis[number]], int(lines.names.field[number]), doc, values)
        odd = lines.odd(batch)
        self._collect(odd, values)
        self._mark_collected(values, marks)
        for name, column in lines.columns:
            if (found := column.batch(batch)) is not None:
                self._mark_texts(name, found, marks)
        self._mark_special(odd, marks)
        self._mark_special_of_lines(lines, batch, marks)
        self._mark_prefixes(documents, marks)
        self._mark_similar(documents, marks, statistics)

    def _collect(self, documents: Iterable[tuple[int, Document]], values: dict[str, Values]) -> None:
        """The string values of documents, given with their numbers."""
        interner = self._interner
        named = [name for name in UNSEEN_BY_BARE if name in interner.fields]
        for doc, document in documents:
            for name, found in document.fields.items():
                self._values(found, name, interner.fields.get(name, 0), doc, values)
            for name in named:
                self._values(values_of(document, name), name, interner.fields[name] | ONLY_SCOPED, doc, values)

    def _mark_collected(self, values: dict[str, Values], marks: Marks) -> None:
        for name, found in values.items():
            if found.values:
                self._mark_texts(name, found.texts(), marks)

    def _mark_texts(self, analysis: str, texts: Texts, marks: Marks) -> None:
        if analysis == ENGLISH:
            self._mark_english(texts, marks)
        elif analysis == KEYWORD:
            self._interner.lexicons[KEYWORD].mark_values(texts, marks)
        else:
            self._interner.lexicons[STANDARD].mark(texts, marks)

    def _mark_prefixes(self, documents: Sequence[Document], marks: Marks) -> None:
        for field, prefixes in self._interner.prefixes.items():
            lengths = sorted({len(prefix) for prefix in prefixes})
            for doc, document in enumerate(documents):
                held = self._words(document, field or None)
                for number in _starts(held, prefixes, lengths):
                    _mark_key(marks, number, doc)

    def _mark_similar(self, documents: Sequence[Document], marks: Marks, statistics: Statistics) -> None:
        for doc, numbers in enumerate(self._interner.similar.match(documents, statistics)):
            for number in numbers:
                _mark_key(marks, number, doc)

    def _values(self, found: Sequence[object], name: str, field: int, doc: int, values: dict[str, Values]) -> None:
        analysis = self._interner.analysis.of(name)
        for value in found:
            if isinstance(value, str):
                self._add(value, analysis, field, doc, values)

    @staticmethod
    def _add(value: str, analysis: str, field: int, doc: int, values: dict[str, Values]) -> None:
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

    def _mark_special(self, documents: Iterable[tuple[int, Document]], marks: Marks) -> None:
        special = self._interner.special
        fields = {key.field for key in special}
        for doc, document in documents if special else ():
            for name in fields:
                found = values_of(document, name)
                keys = [Key(name, PRESENT, "")] if found else []
                keys += [Key(name, NUMBERS, number_word(value)) for value in found if not isinstance(value, str)]
                for key in keys:
                    if (number := special.get(key)) is not None:
                        _mark_key(marks, number, doc)

    def _mark_special_of_lines(self, lines: Prepared, batch: int, marks: Marks) -> None:
        names, special = lines.names, self._interner.special
        for value in lines.special(batch):
            name, doc = names.names[lines.numbers[value]], lines.doc(value)
            if (key := names.present.get(name)) is not None:
                _mark_key(marks, key, doc)
            if name in names.counted and lines.scan.spans.kind[value] == NUMBER:
                word = number_word(float(lines.scan.bytes_of(value)))
                if (key := special.get(Key(name, NUMBERS, word))) is not None:
                    _mark_key(marks, key, doc)

    def _words(self, document: Document, field: str | None) -> set[str]:
        return {word for value, _ in texts(document, field, self._interner.analysis) for word in value}


@dataclass(frozen=True, slots=True)
class Prepared:
    """The lines of a scan by what is to be done with their values; batch b has the documents 64 b to 64 b + 63."""

    scan: Scan
    names: Names
    numbers: npt.NDArray[np.uint32]
    """The field of each value, in names."""
    columns: tuple[tuple[str, Column], ...]
    """The values that kernels can read, by their analysis."""
    _late: Numbers
    _late_bounds: Numbers
    _special: Numbers
    _special_bounds: Numbers

    @classmethod
    def of(cls, scan: Scan, names: Names) -> Prepared:
        numbers, kind = names.of(scan), scan.spans.kind
        rank, documents = scan.rank[:-1][scan.spans.line], scan.documents
        analysis = names.analysis[numbers]
        docs = (rank & (DOCUMENTS_MAX - 1)).astype(np.uint8)
        fields, is_late = names.field[numbers], kind & (ESCAPED | NOT_ASCII) != 0

        def column(chosen: Numbers, buffer: U8, starts: I64, ends: I64) -> Column:
            return Column.of(Texts(buffer, starts, ends, docs[chosen], fields[chosen]), rank[chosen], documents)

        columns = []
        for name in ANALYSES:
            of_name = analysis == ANALYSES.index(name)
            chosen = np.flatnonzero(of_name & (kind == 0))
            spans = scan.buffer, scan.spans.start[chosen], scan.spans.end[chosen]
            columns.append((name, column(chosen, *(_lowered(*spans) if name == KEYWORD else spans))))
            chosen = np.flatnonzero(of_name & is_late)
            if name != KEYWORD and chosen.size:
                buffer, starts, ends, is_whole = _folded(scan.buffer, scan.spans.start[chosen], scan.spans.end[chosen])
                chosen = chosen[is_whole]
                columns.append((name, column(chosen, buffer, starts[is_whole], ends[is_whole])))
                is_late[chosen] = False
        late = np.flatnonzero(is_late & (analysis != NOWHERE))
        special = np.flatnonzero(names.special[numbers])
        bounds = _bounds(rank[late], documents), _bounds(rank[special], documents)
        return cls(scan, names, numbers, tuple(columns), late, bounds[0], special, bounds[1])

    def late(self, batch: int) -> list[int]:
        """The values of a batch that must be decoded or folded first."""
        return list(map(int, self._late[self._late_bounds[batch] : self._late_bounds[batch + 1]]))

    def special(self, batch: int) -> list[int]:
        """The values of a batch in fields of which a query asks for more than words."""
        return list(map(int, self._special[self._special_bounds[batch] : self._special_bounds[batch + 1]]))

    def odd(self, batch: int) -> list[tuple[int, Document]]:
        """The odd documents of a batch, with their numbers in it."""
        rank = self.scan.rank
        first = DOCUMENTS_MAX * batch
        ranked = ((int(rank[line]) - first, document) for line, document in self.scan.odd.items())
        return [(doc, document) for doc, document in ranked if 0 <= doc < DOCUMENTS_MAX]

    def doc(self, value: int) -> int:
        """The number in its batch of the document that has the value."""
        return int(self.scan.rank[self.scan.spans.line[value]]) % DOCUMENTS_MAX

    def text(self, value: int) -> str:
        """A string value."""
        raw = self.scan.bytes_of(value)
        if self.scan.spans.kind[value] & ESCAPED:
            return str(json.loads(b'"%b"' % raw))
        return raw.decode()


def _bounds(rank: npt.NDArray[np.int64], documents: int) -> Numbers:
    """Where the values of each batch of documents begin."""
    return np.searchsorted(rank, np.arange(0, documents + DOCUMENTS_MAX, DOCUMENTS_MAX))


@cache
def simple_forms() -> dict[str, str]:
    """Characters that are folded alike whatever is before and after them, with their forms (`text.spaced`).

    These are no marks, and their forms begin with none: so nothing joins with what is before it.
    """
    forms = {}
    for code in range(0x80, SIMPLE_MAX):
        character = chr(code)
        form = spaced(character)
        starts = [unicodedata.normalize("NFKD", one)[:1] for one in (character, fold(character))]
        joins = any(unicodedata.combining(one) or unicodedata.category(one)[0] == "M" for one in (character, *starts))
        if code not in _COMPOSING and form and not joins:
            forms[character] = form
    return forms


@cache
def _form_arrays() -> tuple[U32, U8, int]:
    """The same as kernels want it, and how many times longer a text can become."""
    forms = [simple_forms().get(chr(code), "").encode() for code in range(SIMPLE_MAX)]
    first = np.cumsum([0, *map(len, forms)]).astype(np.uint32)
    growth = max(-(-len(form) // len(chr(code).encode())) for code, form in enumerate(forms))
    return frozen(first), frozen(np.frombuffer(b"".join(forms), np.uint8)), growth


def _folded(buffer: U8, starts: I64, ends: I64) -> tuple[U8, I64, I64, npt.NDArray[np.bool_]]:
    """Strings unescaped and folded, in a buffer of their own; and which of them could be."""
    first, forms, growth = _form_arrays()
    folded = np.zeros(growth * int((ends - starts).sum()) + PADDING, np.uint8)
    bounds, is_whole = np.zeros(starts.size + 1, np.int64), np.empty(starts.size, np.uint8)
    line_kernels.fold_values(buffer, frozen(starts), frozen(ends), first, forms, folded, bounds, is_whole)
    return folded, bounds[:-1], bounds[1:], is_whole.view(np.bool_)


def _lowered(buffer: U8, starts: I64, ends: I64) -> tuple[U8, I64, I64]:
    """ASCII values, lower-cased in a buffer of their own."""
    lowered = np.zeros(int((ends - starts).sum()) + PADDING, np.uint8)
    bounds = np.zeros(starts.size + 1, np.int64)
    line_kernels.lower_values(buffer, frozen(starts), frozen(ends), lowered, bounds)
    return lowered, bounds[:-1], bounds[1:]


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
