"""A query set in parts, and which parts a document must visit (SmartSeer §III-A: partition by id, by keyword).

By id, queries are dealt out evenly and a document visits every part. By word, queries with the same anchor live
together, and a document visits only parts that hold an anchor among its words: one look into bit-sliced Bloom filters
(`bloom.PartFilters`) per word tells which, with no false negatives. A query lives in one part, also if it waits at
several words (a disjunction): the part's filter knows them all. What can wait at no word lives in a part that sees
every document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tocsin.intake import document_from_json
from tocsin.match.bloom_kernels import route_words
from tocsin.match.index import is_plain
from tocsin.match.lexicon import pack, split
from tocsin.match.lines import Lines
from tocsin.match.rendezvous.bloom import PartFilters, filter_word
from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.normal import NUMBERS, Frequency, Key, anchors, number_word
from tocsin.query.parse import parse
from tocsin.settings import DocumentLimits, QueryLimits
from tocsin.text import STANDARD, UNSEEN_BY_BARE, Analysis, spaced, values_of, words

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

ANY_DOCUMENT = DocumentLimits(1 << 62, 1 << 62, 1 << 62)
"""The document was accepted before."""
_ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)


# --- dealing queries out ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deal:
    """Which part each query lives in, and the anchors of each part as filters know them."""

    parts: list[int]
    words: list[list[bytes]]
    everywhere: int | None
    """The part that sees every document, if there is one."""

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self.words)


def deal_by_id(queries: int, parts: int) -> Deal:
    """In turn, so that parts are equally large."""
    return Deal([number % parts for number in range(queries)], [[] for _ in range(parts)], None)


def deal_by_word(texts: Iterable[str | Query | None], parts: int, analysis: Analysis, frequency: Frequency) -> Deal:
    """Queries of one anchor together, in parts of about as many queries (None: a query without words).

    Anchors are dealt in the order of their frequency: what common words bring to one part they would bring to any, and
    the parts of rare words are left alone by most documents.
    """
    waits = [_anchors(text, analysis, frequency) for text in texts]
    lists = Counter(keys[0] for keys in waits if keys)
    owner: dict[Key, int] = {}
    dealt, total = 0, lists.total()
    for key, count in sorted(lists.items(), key=lambda item: (-frequency(item[0]), item[0])):
        owner[key] = min(parts - 1, parts * (dealt + count // 2) // total)
        dealt += count
    everywhere = parts if any(not keys for keys in waits) else None
    chosen = [owner[keys[0]] if keys else parts for keys in waits]
    known: list[dict[bytes, None]] = [{} for _ in range(parts + (everywhere is not None))]
    for part, keys in zip(chosen, waits, strict=True):
        for key in keys:
            known[part][filter_word(key)] = None
    return Deal(chosen, [list(each) for each in known], everywhere)


def _anchors(text: str | Query | None, analysis: Analysis, frequency: Frequency) -> tuple[Key, ...]:
    """Where the query waits; the rarest word of a plain conjunction is found without a parser."""
    if text is None:
        return ()
    if not isinstance(text, str):
        return tuple(sorted(anchors(text, analysis, frequency) or ()))
    if is_plain(text) and analysis.names(None) == (STANDARD,):
        keys = (Key("", STANDARD, word) for word in text.lower().split())
        return (min(keys, key=lambda key: (frequency(key), key.word)),)
    return tuple(sorted(anchors(parse(text, analysis, _ANY_SIZE), analysis, frequency) or ()))


# --- routing documents -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Router:
    """Tells which parts a document must visit."""

    filters: PartFilters
    analysis: Analysis
    everywhere: int | None = None
    plain: bool = False
    """All anchors are words of standard text: then the bytes of a JSON line tell enough."""

    @classmethod
    def of(cls, deal: Deal, analysis: Analysis) -> Router:
        """The router of a deal by word."""
        plain = not any(b"\0" in word for known in deal.words for word in known)
        return cls(PartFilters.of(deal.words), analysis, deal.everywhere, plain)

    def route(self, documents: Sequence[Document]) -> U64:
        """For each document a mask of parts."""
        masks = self._masks(len(documents))
        texts, places, others, other_places = self._values(documents)
        self._mark_texts(texts, np.array(places, np.int64), masks)
        self._mark(*pack(others), np.array(other_places, np.int64), masks)
        return masks

    def route_lines(self, lines: Lines, limits: DocumentLimits = ANY_DOCUMENT) -> U64:
        """route() of the documents in JSON lines; where the router is plain, most of them are not parsed for it.

        All words of an ASCII line without escapes are looked up, names of fields too: a few more visits, none too few.
        """
        odd = _odd(lines) if self.plain else np.ones(len(lines), np.bool_)
        masks = self._masks(len(lines))
        plain = np.flatnonzero(~odd)
        self._mark_texts([lines[line].lower() for line in plain.tolist()], plain, masks)
        slow = np.flatnonzero(odd)
        if slow.size:
            masks[slow] = self.route([document_from_json(lines[line], limits) for line in slow.tolist()])
        return masks

    def _masks(self, documents: int) -> U64:
        everywhere = 0 if self.everywhere is None else 1 << self.everywhere
        return np.full(documents, everywhere, np.uint64)

    def _mark_texts(self, texts: Sequence[bytes], places: I64, masks: U64) -> None:
        buffer, starts, ends = pack(texts)
        first, begins, finishes = split(buffer, starts, ends)
        self._mark(buffer, begins, finishes, np.repeat(places, np.diff(first)), masks)

    def _mark(self, buffer: U8, begins: I64, finishes: I64, places: I64, masks: U64) -> None:
        route_words(buffer, begins, finishes, places, self.filters.rows, self.filters.hashes, masks)

    def _values(self, documents: Sequence[Document]) -> tuple[list[bytes], list[int], list[bytes], list[int]]:
        """Standard text, to be split by a kernel; and the words of everything else."""
        texts: list[bytes] = []
        places: list[int] = []
        others: list[bytes] = []
        other_places: list[int] = []
        for place, document in enumerate(documents):
            for name in (*document.fields, *UNSEEN_BY_BARE):
                how = self.analysis.of(name)
                for value in values_of(document, name):
                    if isinstance(value, str) and how == STANDARD:
                        texts.append((value.lower() if value.isascii() else spaced(value)).encode())
                        places.append(place)
                        continue
                    found = _other_words(name, how, value)
                    others += found
                    other_places += [place] * len(found)
        return texts, places, others, other_places


def _other_words(name: str, how: str, value: str | int | float) -> list[bytes]:
    if not isinstance(value, str):
        return [filter_word(Key(name, NUMBERS, number_word(value)))]
    return [filter_word(Key(name, how, word)) for word in words(value, how) if word]


def _odd(lines: Lines) -> npt.NDArray[np.bool_]:
    """Which lines have escapes, or characters beyond ASCII."""
    begin, end = int(lines.offsets[0]), int(lines.offsets[-1])
    piece = lines.buffer[begin:end]
    places = np.flatnonzero((piece == ord("\\")) | (piece >= 128)) + begin
    odd = np.zeros(len(lines), np.bool_)
    odd[np.searchsorted(lines.offsets, places, "right") - 1] = True
    return odd
