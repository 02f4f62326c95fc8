"""Bloom filters: a set of words in few bits that never denies a word it was given (SmartSeer §IV-A).

A filter may say yes to a word that is not there, with a rate that follows from its size (`false_rate`); the join
afterwards finds that out. §V takes 10 Kbit for papers of about 2,000 different words and 1 Kbit for news of about 200.

`PartFilters` turns the matter round: one filter for each of up to 64 sets, laid out so that one look tells in which of
the sets a word may be. The pipeline routes documents with it to the parts of a query set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
import numpy.typing as npt

from tocsin.match.bloom_kernels import hash_words
from tocsin.match.lexicon import pack
from tocsin.match.requirement import PRESENT
from tocsin.query.normal import Key
from tocsin.text import STANDARD

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

CITESEER_BITS, TREC_BITS = 10_000, 1_000
HASHES_MAX = 16
PARTS_MAX = 64
PART_BITS_MIN = 1_024
_LOW = np.uint64(0xFFFFFFFF)
_HALF, _1 = np.uint64(32), np.uint64(1)


def filter_word(key: Key) -> bytes:
    """A key as filters know it: the word under its analysis, wherever it stands.

    Fields are left out: a filter of words and of words in fields would hold twice as many, and say yes to far more.
    """
    if key.analysis == STANDARD:
        return key.word.encode()
    return f"{key.analysis}\0{key.field if key.analysis == PRESENT else key.word}".encode()


def hashes_of(words: Sequence[bytes]) -> U64:
    """The hash of each word."""
    found = np.empty(len(words), np.uint64)
    hash_words(*pack(words), found)
    return found


def positions(hashes: U64, bits: int, count: int) -> U64:
    """The places of each word in a filter, one row for each of `count` probes: two hashes make them all."""
    step = hashes >> _HALF | _1
    probes = np.arange(count, dtype=np.uint64)[:, None]
    return ((hashes & _LOW) + probes * step) % np.uint64(bits)


def best_hashes(bits: int, words: int) -> int:
    """How many probes make the fewest mistakes."""
    return min(HASHES_MAX, max(1, round(bits / max(1, words) * log(2))))


def false_rate(bits: int, words: int, hashes: int | None = None) -> float:
    """How often a filter says yes to a word that it was not given."""
    probes = best_hashes(bits, words) if hashes is None else hashes
    return (1 - exp(-probes * words / bits)) ** probes


def bits_for(words: int, rate: float) -> int:
    """f(d) of §IV-B: the size at which `words` words make mistakes at this rate."""
    return max(8, round(-max(1, words) * log(rate) / log(2) ** 2))


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A set of words; `data` has one bit per place."""

    data: bytes
    bits: int
    hashes: int

    @classmethod
    def of(cls, words: Iterable[bytes], bits: int, hashes: int | None = None) -> BloomFilter:
        """A filter that holds these words."""
        known = list(dict.fromkeys(words))
        probes = best_hashes(bits, len(known)) if hashes is None else hashes
        flags = np.zeros(bits, np.uint8)
        flags[positions(hashes_of(known), bits, probes)] = 1
        return cls(np.packbits(flags).tobytes(), bits, probes)

    def may_hold(self, words: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """For each word: False means that it is not in the set."""
        flags = np.unpackbits(np.frombuffer(self.data, np.uint8), count=self.bits).view(np.bool_)
        found: npt.NDArray[np.bool_] = np.logical_and.reduce(
            flags[positions(hashes_of(words), self.bits, self.hashes)], axis=0
        )
        return found


@dataclass(frozen=True, slots=True)
class PartFilters:
    """One filter per part, bit-sliced: rows[place] says which parts have that place set."""

    rows: U64
    hashes: int

    @classmethod
    def of(cls, parts: Sequence[Sequence[bytes]], rate: float = 0.001) -> PartFilters:
        """Filters of these sets of words, of one size: the largest set errs at the rate, the others less."""
        if len(parts) > PARTS_MAX:
            raise ValueError(f"{len(parts)} parts: one look tells {PARTS_MAX} at most")
        largest = max((len(words) for words in parts), default=1)
        bits = max(PART_BITS_MIN, bits_for(largest, rate)) | 1  # odd: a step that divides it would come back too soon
        probes = min(best_hashes(bits, largest), best_hashes(bits_for(largest, rate), largest))
        rows = np.zeros(bits, np.uint64)
        for part, words in enumerate(parts):
            if words:
                rows[positions(hashes_of(words), bits, probes).ravel()] |= _1 << np.uint64(part)
        return cls(rows, probes)

    def parts_of(self, hashes: U64) -> U64:
        """For each hashed word a mask of the parts that may hold it."""
        if not hashes.size:
            return hashes
        found: U64 = np.bitwise_and.reduce(self.rows[positions(hashes, self.rows.size, self.hashes)], axis=0)
        return found
