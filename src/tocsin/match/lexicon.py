"""Words to numbers, numbers to keys: how text becomes the marks that clauses are tested against.

A *word* gets a number when a query names it, in order of arrival. What a clause tests is a *key*: the word wherever it
occurs (its bare key) or the word in one field. Keys are numbered over all lexicons together, so that one array of masks
serves them all and stays as small as what queries name. Key 0 is the key that every document has.

There is one lexicon for each analysis. `standard` text is split and looked up by one kernel. For `english` text,
`Surfaces` remembers which word each surface form becomes, so that a form is analysed once and not at each occurrence;
all analysed words get numbers there, also those that no query names, so that a later query finds them. `keyword` values
are words as they are.

A word of one analysis may have several bare keys: where `run` and `runs` are bare words of queries, English text marks
the keys of both, as each is one key over the fields of all analyses (`Lexicon.add_keys`).

All of it is flat arrays that only grow. Words and keys are published last, by one store, and full arrays are replaced:
other threads may go on marking while one inserts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match import kernels
from tocsin.match.kernels import FIELD_ANY, HAS_MORE_BARE, HAS_POSITIONS, HAS_SCOPED, I64, PADDING, U8, U32, U64
from tocsin.match.segments import Marks, frozen

_SEED = 0x746F6373696E  # any number; a server that takes queries from strangers passes a secret one
_WORDS_MIN = 48  # three quarters of a power of two, as the slots of words may be filled
_SLOTS_MIN = 64
_LONG_BYTES_MIN = 1024
_SIEVE_BITS_PER_WORD = 16  # or half as many: the sieve is a power of two
_UNKNOWN_MIN = 1024
_LAYOUT = 2  # of slots and sieve, in what is kept


@dataclass(frozen=True, slots=True)
class Texts:
    """The values of a batch: value v is buffer[starts[v]:ends[v]], of document docs[v] (from 0) and field fields[v].

    The words of a value whose field number carries ONLY_SCOPED are not bare words (`id`, `source`). A value that is not
    ASCII must have been folded by the caller, with a space for every character that is no part of a word
    (`needs_folding` tells which). 64 readable bytes follow the last value.
    """

    buffer: U8
    starts: I64
    ends: I64
    docs: U8
    fields: U32
    documents: int = field(init=False)  # all document numbers are below this

    def __post_init__(self) -> None:
        for name in ("buffer", "starts", "ends", "docs", "fields"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(self, "documents", int(self.docs.max(initial=0)) + 1)
        sizes = {self.starts.size, self.ends.size, self.docs.size, self.fields.size}
        if len(sizes) > 1:
            raise ValueError(f"starts, ends, docs and fields differ in length: {sorted(sizes)}")
        if self.starts.size and (int(self.starts.min()) < 0 or int((self.ends - self.starts).min()) < 0):
            raise ValueError("a value begins before the buffer or ends before it begins")
        last = int(self.ends.max(initial=0)) + PADDING
        if not last <= self.buffer.size < 1 << 32:
            raise ValueError(f"a buffer of {self.buffer.size} bytes: it must have {last}, padding included, and < 2^32")

    @classmethod
    def of(cls, values: Sequence[bytes], docs: npt.ArrayLike, fields: npt.ArrayLike) -> Texts:
        """Copy values into one buffer."""
        buffer, starts, ends = pack(values)
        return cls(buffer, starts, ends, _array(docs, np.uint8), _array(fields, np.uint32))

    def cut(self, begin: int, end: int) -> Texts:
        """The values from one number to another; these need no checks."""
        part = object.__new__(Texts)
        object.__setattr__(part, "buffer", self.buffer)
        for name in ("starts", "ends", "docs", "fields"):
            object.__setattr__(part, name, getattr(self, name)[begin:end])
        object.__setattr__(part, "documents", int(part.docs.max(initial=0)) + 1)
        return part

    def needs_folding(self) -> npt.NDArray[np.bool_]:
        """Which values are not ASCII."""
        answer = np.empty(self.starts.size, np.uint8)
        kernels.has_non_ascii(self.buffer, self.starts, self.ends, answer)
        return answer.view(np.bool_)


def pack(values: Sequence[bytes]) -> tuple[U8, I64, I64]:
    """Values as one buffer with padding; the start and the end of each."""
    bounds = np.fromiter(accumulate(map(len, values), initial=0), np.int64, len(values) + 1)
    bounds.flags.writeable = False
    buffer = np.frombuffer(b"".join([*values, bytes(PADDING)]), np.uint8)
    return buffer, bounds[:-1], bounds[1:]


class KeyCounter:
    """Numbers keys from 1 on, for all lexicons of an index."""

    __slots__ = ("next",)

    def __init__(self, next_key: int = 1) -> None:
        self.next = next_key


class WordTable:
    """Words by their bytes, numbered in order of arrival, each with 32 bits of payload and some flags."""

    def __init__(self, seed: int = _SEED) -> None:
        self._used = np.zeros(2, np.uint64)
        self._table = kernels.Table(
            np.zeros(2 * _SLOTS_MIN, np.uint64),
            np.zeros(4 * _WORDS_MIN, np.uint64),
            np.zeros(_LONG_BYTES_MIN, np.uint8),
            np.zeros(_SLOTS_MIN, np.uint64),
            np.uint64(seed),
        )
        self._view = _frozen_table(self._table)

    def __len__(self) -> int:
        return int(self._used[0])

    @property
    def view(self) -> kernels.Table:
        """The arrays as they are now, read only; later words appear in them until they are full."""
        return self._view

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(array.nbytes for array in self._table[:4])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All there is to keep, as flat arrays without slack."""
        records, long = 4 * len(self), int(self._used[1]) + 8
        view = self._view
        return {
            "slots": view.slots,
            "records": view.records[:records],
            "long": view.long[:long],
            "sieve": view.sieve,
            "used": frozen(np.array([*self._used, view.seed, _LAYOUT], np.uint64)),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> WordTable:
        """Undo arrays(); they may be memory-mapped: they are copied only when a new word comes."""
        self = cls.__new__(cls)
        words, long, seed, *layout = arrays["used"]
        self._used = np.array([words, long], np.uint64)
        kept = (arrays[name] for name in ("slots", "records", "long", "sieve"))
        self._table = kernels.Table(*kept, np.uint64(seed))  # type: ignore[call-arg, arg-type]
        self._view = _frozen_table(self._table)
        if layout != [_LAYOUT]:  # kept by an earlier release: the records tell all
            self._grow(0)
        return self

    def find(self, words: Sequence[bytes]) -> U32:
        """The number of each folded word, or NONE."""
        buffer, starts, ends = pack(words)
        numbers = np.empty(starts.size, np.uint32)
        kernels.find_values(buffer, starts, ends, self._view, numbers)
        return numbers

    def insert(self, words: Sequence[bytes]) -> U32:
        """The number of each folded word; new words get the next ones."""
        _check_size(max(map(len, words), default=0))
        return self._insert(*pack(words))

    def insert_spans(self, buffer: U8, starts: I64, ends: I64) -> U32:
        """insert() for words that lie in a buffer."""
        _check_size(int((ends - starts).max(initial=0)))
        return self._insert(frozen(buffer), frozen(starts), frozen(ends))

    def _insert(self, buffer: U8, starts: I64, ends: I64) -> U32:
        numbers = np.empty(starts.size, np.uint32)
        begin = 0
        while begin < starts.size:
            if not self._table.records.flags.writeable:
                self._grow(0)
            begin = kernels.insert_words(buffer, starts, ends, begin, self._table, self._used, numbers)
            if begin < starts.size:
                self._grow(int(ends[begin] - starts[begin]))
        return numbers

    def word(self, number: int) -> bytes:
        """The bytes of a word."""
        if not 0 <= number < len(self):
            raise IndexError(f"word {number} of {len(self)}")
        first, second, length = (int(part) for part in self._view.records[4 * number : 4 * number + 3])
        size, place = length >> 40, length & (1 << 40) - 1
        if size <= 16:
            return (first | second << 64).to_bytes(16, "little")[:size]
        return self._view.long[place : place + size].tobytes()

    def _grow(self, size: int) -> None:
        """Make room for one word of this size, and for half as many as there are."""
        old, words, long = self._table, len(self), int(self._used[1])
        capacity = max(old.records.size // 4, _WORDS_MIN)
        while words >= capacity:
            capacity += capacity // 2
        places = max(old.long.size, _LONG_BYTES_MIN)
        while long + size + 8 > places:
            places *= 2
        blocks = 1 << max(_SLOTS_MIN, capacity * _SIEVE_BITS_PER_WORD // 64).bit_length() - 1
        new = kernels.Table(
            np.zeros(2 << ((4 * capacity + 2) // 3 - 1).bit_length(), np.uint64),
            np.zeros(4 * capacity, np.uint64),
            np.zeros(places, np.uint8),
            np.zeros(blocks, np.uint64),
            old.seed,
        )
        new.records[: 4 * words] = old.records[: 4 * words]
        new.long[:long] = old.long[:long]
        kernels.rebuild_slots(new, words)
        self._table, self._view = new, _frozen_table(new)


class Lexicon(WordTable):
    """The words of one analysis and their keys."""

    def __init__(self, keys: KeyCounter | None = None, seed: int = _SEED) -> None:
        super().__init__(seed)
        self.keys = keys or KeyCounter()
        self._pairs = 0
        self._scopes = kernels.Scopes(np.zeros(_SLOTS_MIN, np.uint64), np.zeros(_SLOTS_MIN, np.uint32))
        self._scope_view = _frozen_scopes(self._scopes)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return super().nbytes + self._scopes.slots.nbytes + self._scopes.keys.nbytes

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All there is to keep, as flat arrays without slack (the key counter is the caller's)."""
        scopes = self._scope_view
        pairs = frozen(np.array([self._pairs], np.uint64))
        return super().arrays() | {"scope_slots": scopes.slots, "scope_keys": scopes.keys, "pairs": pairs}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], keys: KeyCounter | None = None) -> Lexicon:
        """Undo arrays()."""
        self = super().from_arrays(arrays)
        assert isinstance(self, Lexicon)
        self.keys = keys or KeyCounter()
        self._pairs = int(arrays["pairs"][0])
        self._scopes = kernels.Scopes(arrays["scope_slots"], arrays["scope_keys"])
        self._scope_view = _frozen_scopes(self._scopes)
        return self

    # --- keys -------------------------------------------------------------------------------------------------------

    @property
    def scopes(self) -> kernels.Scopes:
        """The further keys of words as they are now, read only."""
        return self._scope_view

    @property
    def bare(self) -> U32:
        """The bare key of each word, or NONE."""
        payload: U64 = self._view.records[3 : 4 * len(self) : 4]
        return payload.astype(np.uint32)

    def bare_keys(self, words: U32) -> U32:
        """The bare key of each word; words without one get new keys."""
        self._make_writeable()
        keys = np.empty(words.size, np.uint32)
        self.keys.next = kernels.bind_bare(frozen(words), self._table, self.keys.next, keys)
        return keys

    def field_keys(self, words: U32, field: int) -> U32:
        """The key of each word in one field; pairs without one get new keys."""
        self._reserve_pairs(words.size)
        keys, before = np.empty(words.size, np.uint32), self.keys.next
        after = kernels.bind_scoped(frozen(words), field, self._table, self._scopes, before, keys)
        self._pairs += after - before
        self.keys.next = after
        return keys

    def add_keys(self, words: U32, keys: U32, field: int = FIELD_ANY) -> None:
        """Give words further keys, in one field or (FIELD_ANY) in all fields of this analysis."""
        self._reserve_pairs(words.size)
        flag = HAS_MORE_BARE if field == FIELD_ANY else HAS_SCOPED
        fields = np.full(words.size, field, np.uint32)
        self._pairs += kernels.insert_scopes(
            frozen(words), frozen(fields), frozen(keys), flag, self._table, self._scopes
        )

    def want_positions(self, words: U32) -> None:
        """Some phrase or proximity reads the positions of these words."""
        self._make_writeable()
        self._table.records[4 * words.astype(np.int64) + 3] |= np.uint64(HAS_POSITIONS << 32)

    # --- marks ------------------------------------------------------------------------------------------------------

    def mark(self, texts: Texts, marks: Marks) -> None:
        """Mark the words of texts."""
        kernels.mark_words(*_parts(texts), self._view, self._scope_view, *marks.to_fill(texts.documents))

    def mark_values(self, texts: Texts, marks: Marks) -> None:
        """Mark each value as one word; all must have been folded (keyword analysis)."""
        kernels.mark_values(*_parts(texts), self._view, self._scope_view, *marks.to_fill(texts.documents))

    def occurrences(self, texts: Texts, chosen: int, *, flagged: bool = True) -> U32:
        """Rows (word, value, position) in the chosen documents (a mask), by word, then in reading order.

        Only of words whose positions are wanted, unless flagged is False.
        """
        view, words = self._view, len(self)
        return _occurrences(texts, chosen, view, view.records, analysed=False, flagged=flagged, words=words)

    def _make_writeable(self) -> None:
        if not self._table.records.flags.writeable:
            self._grow(0)

    def _reserve_pairs(self, more: int) -> None:
        self._make_writeable()
        size = self._scopes.slots.size
        while 2 * (self._pairs + more) > size:
            size *= 2
        if size > self._scopes.slots.size or not self._scopes.slots.flags.writeable:
            new = kernels.Scopes(np.zeros(size, np.uint64), np.zeros(size, np.uint32))
            kernels.rebuild_scopes(self._scope_view, new)
            self._scopes, self._scope_view = new, _frozen_scopes(new)


class Surfaces(WordTable):
    """Which word of a lexicon each surface form becomes under its analysis; NONE for those that vanish."""

    def learn(self, surfaces: Sequence[bytes], words: U32) -> None:
        """surfaces[i], folded, becomes words[i]."""
        numbers = self.insert(surfaces)
        self._table.records[4 * numbers.astype(np.int64) + 3] = words

    def mark(self, texts: Texts, lexicon: Lexicon, marks: Marks) -> Texts:
        """Mark the words of texts; the occurrences of unknown surface forms come back, as values of one word each.

        learn() what `surfaces_of` says of them, then mark them.
        """
        unknown = np.empty((3, _UNKNOWN_MIN), np.int64)
        while True:
            missing = kernels.mark_surfaces(
                *_parts(texts),
                self._view,
                lexicon.view.records,
                lexicon.scopes,
                *marks.to_fill(texts.documents),
                unknown,
            )
            if missing <= unknown.shape[1]:
                break
            unknown = np.empty((3, missing), np.int64)  # marking again changes nothing
        of, starts, ends = unknown[:, :missing]
        return Texts(texts.buffer, starts, ends, texts.docs[of], texts.fields[of])

    def occurrences(self, texts: Texts, lexicon: Lexicon, chosen: int, *, flagged: bool = True) -> U32:
        """Like Lexicon.occurrences; positions count words that vanish, too."""
        records, words = lexicon.view.records, len(lexicon)
        return _occurrences(texts, chosen, self._view, records, analysed=True, flagged=flagged, words=words)


def surfaces_of(texts: Texts) -> list[bytes]:
    """The distinct values, lower-cased: for what Surfaces.mark did not know."""
    buffer, spans = texts.buffer, zip(texts.starts.tolist(), texts.ends.tolist(), strict=True)
    return list(dict.fromkeys(buffer[start:end].tobytes().lower() for start, end in spans))


def split(buffer: U8, starts: I64, ends: I64) -> tuple[I64, I64, I64]:
    """All words of all values: those of value v are buffer[start[i]:end[i]] for i from first[v] to first[v + 1].

    With `WordTable.insert_spans`, the quick way in for queries that are plain words, lower-cased.
    """
    first = np.empty(starts.size + 1, np.int64)
    spans = np.empty((2, max(64, int((ends - starts).sum()) // 4)), np.int64)
    words = kernels.split_words(buffer, starts, ends, first, spans)
    if words > spans.shape[1]:
        spans = np.empty((2, words), np.int64)
        kernels.split_words(buffer, starts, ends, first, spans)
    return first, frozen(spans[0, :words]), frozen(spans[1, :words])


def _occurrences(
    texts: Texts, chosen: int, surfaces: kernels.Table, records: U64, *, analysed: bool, flagged: bool, words: int
) -> U32:
    buffer, starts, ends, docs, _ = _parts(texts)
    flag = HAS_POSITIONS if flagged else 0
    rows = np.empty((1024, 3), np.uint32)
    while True:
        found = kernels.find_occurrences(
            buffer, starts, ends, docs, np.uint64(chosen), surfaces, records, analysed, flag, rows
        )
        if found <= rows.shape[0]:
            return kernels.sort_occurrences(rows[:found], words)
        rows = np.empty((found, 3), np.uint32)


def _check_size(size: int) -> None:
    if size > kernels.WORD_BYTES_MAX:
        raise ValueError(f"a word of {size} bytes; at most {kernels.WORD_BYTES_MAX} are kept")


def _array(values: npt.ArrayLike, dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(np.asarray(values, dtype))


def _parts(texts: Texts) -> tuple[U8, I64, I64, U8, U32]:
    return texts.buffer, texts.starts, texts.ends, texts.docs, texts.fields


def _frozen_table(table: kernels.Table) -> kernels.Table:
    slots, records, long, sieve, seed = table
    return kernels.Table(frozen(slots), frozen(records), frozen(long), frozen(sieve), seed)


def _frozen_scopes(scopes: kernels.Scopes) -> kernels.Scopes:
    return kernels.Scopes(frozen(scopes.slots), frozen(scopes.keys))
