"""The inputs that every side of the matching benchmarks reads: queries and documents as text.

Words are made from a vocabulary of 100,000 ranks: rank r occurs in documents with a share
proportional to 1/r (Zipf, exponent 1). A rank is always spelled the same way: 3 to 12 ASCII
letters, syllable by syllable, frequent words shorter. Three sets are made from it:

* user-like queries: exactly 2, 3 or 4 distinct words, Zipf over the ranks 500 to 50,000;
* match-dense queries: 5 +- 1.5 distinct words drawn like the words of documents;
* documents: words drawn until a given number of them are distinct (200 distinct words take about
  270 words, 2,000 about 3,900); a document repeats its own words more than Zipf's law alone says,
  so total_words lengthens it by repetitions (2,000 distinct words in 6,900, as a paper has them).
  Written as sentences with capitals, commas and full stops.

Query i of a seed and document i of a seed do not depend on how many are asked for: the first
100,000 of 1,000,000 queries are the set of 100,000. Only numpy is imported, nothing of tocsin.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]

VOCABULARY_RANKS = 100_000
USER_RANK_FIRST = 500
USER_RANK_LAST = 50_000
USER_WORDS_MIN = 2
USER_WORDS_MAX = 4
DENSE_WORDS_MEAN = 5.0
DENSE_WORDS_DEVIATION = 1.5
DENSE_WORDS_MAX = 12
WORD_LETTERS_MIN = 3
WORD_LETTERS_MAX = 12
SHORT_DISTINCT_WORDS = 200
LONG_DISTINCT_WORDS = 2_000
LONG_TOTAL_WORDS = 6_900
QUERIES_PER_BLOCK = 65_536
SENTENCE_WORDS_MIN = 8
SENTENCE_WORDS_MAX = 24

_SPELLING_SEED = 2004
_USER_STREAM, _DENSE_STREAM, _DOCUMENT_STREAM = 1, 2, 3
_CONSONANTS = np.frombuffer(b"bcdfghjklmnprstvz", dtype=np.uint8)
_VOWELS = np.frombuffer(b"aeiou", dtype=np.uint8)


@cache
def vocabulary() -> list[str]:
    """The spelling of every rank; entry 0 is empty because ranks count from 1."""
    rng = np.random.default_rng(_SPELLING_SEED)
    rank = np.arange(1, VOCABULARY_RANKS + 1)
    spelled = np.zeros(VOCABULARY_RANKS, dtype=f"S{WORD_LETTERS_MAX}")
    wanted = np.arange(VOCABULARY_RANKS)
    longer = 0.0
    while wanted.size:
        mean = 3.0 + 0.27 * np.log2(rank[wanted]) + longer
        letters = np.rint(rng.normal(mean, 1.6)).clip(WORD_LETTERS_MIN, WORD_LETTERS_MAX)
        spelled[wanted] = _spell(rng, letters.astype(np.int64))
        _, first = np.unique(spelled, return_index=True)
        taken_before = np.ones(VOCABULARY_RANKS, dtype=bool)
        taken_before[first] = False
        wanted = np.flatnonzero(taken_before)
        longer += 0.25  # short spellings run out: let the rest grow
    return ["", *(word.decode("ascii") for word in spelled.tolist())]


def _spell(rng: np.random.Generator, letters: npt.NDArray[np.int64]) -> npt.NDArray[np.bytes_]:
    width = WORD_LETTERS_MAX
    text = np.empty((letters.size, width), dtype=np.uint8)
    text[:, 0::2] = _CONSONANTS[rng.integers(0, _CONSONANTS.size, (letters.size, width // 2))]
    text[:, 1::2] = _VOWELS[rng.integers(0, _VOWELS.size, (letters.size, width // 2))]
    text[np.arange(width) >= letters[:, None]] = 0
    return text.view(f"S{width}").ravel()


@cache
def _zipf(rank_first: int, rank_last: int) -> FloatArray:
    """Cumulative shares of the ranks rank_first..rank_last, each proportional to 1/rank."""
    share: FloatArray = np.cumsum(1.0 / np.arange(rank_first, rank_last + 1))
    share /= share[-1]
    return share


def _draw(rng: np.random.Generator, size: int | tuple[int, ...], rank_first: int, rank_last: int) -> IntArray:
    shares = _zipf(rank_first, rank_last)
    return (np.searchsorted(shares, rng.random(size), side="right") + rank_first).astype(np.int32)


def _draw_distinct(rng: np.random.Generator, words: IntArray, rank_first: int, rank_last: int) -> IntArray:
    """One row per query; words[i] distinct ranks, then zeros. A word drawn twice is drawn again."""
    width = int(words.max())
    ranks = _draw(rng, (words.size, width), rank_first, rank_last)
    for column in range(1, width):
        again = np.arange(words.size)
        while again.size:
            repeated = (ranks[again, :column] == ranks[again, column, None]).any(axis=1)
            again = again[repeated & (words[again] > column)]
            ranks[again, column] = _draw(rng, again.size, rank_first, rank_last)
    ranks[np.arange(width) >= words[:, None]] = 0
    return ranks


def query_ranks(n: int, seed: int, *, dense: bool = False) -> Iterator[IntArray]:
    """Blocks of queries as ranks, one row per query, zeros after its last word."""
    for block, start in enumerate(range(0, n, QUERIES_PER_BLOCK)):
        stream = _DENSE_STREAM if dense else _USER_STREAM
        rng = np.random.default_rng([seed, stream, block])
        if dense:
            normal = rng.normal(DENSE_WORDS_MEAN, DENSE_WORDS_DEVIATION, QUERIES_PER_BLOCK)
            words = np.rint(normal).clip(1, DENSE_WORDS_MAX).astype(np.int32)
            ranks = _draw_distinct(rng, words, 1, VOCABULARY_RANKS)
        else:
            drawn = rng.integers(USER_WORDS_MIN, USER_WORDS_MAX + 1, QUERIES_PER_BLOCK)
            words = drawn.astype(np.int32)
            ranks = _draw_distinct(rng, words, USER_RANK_FIRST, USER_RANK_LAST)
        yield ranks[: n - start]


def _query_lines(n: int, seed: int, *, dense: bool) -> Iterator[str]:
    spelling = vocabulary()
    for block in query_ranks(n, seed, dense=dense):
        for row in block.tolist():
            yield " ".join([spelling[rank] for rank in row if rank])


def queries(n: int, seed: int) -> list[str]:
    """User-like queries: 2 to 4 distinct words, space separated, all of which must occur."""
    return list(_query_lines(n, seed, dense=False))


def dense_queries(n: int, seed: int) -> list[str]:
    """Match-dense queries: 5 +- 1.5 distinct words drawn like the words of documents."""
    return list(_query_lines(n, seed, dense=True))


@cache
def expected_words(distinct_words: int) -> int:
    """How many words a document has when its distinct_words-th distinct word is expected."""
    share = np.diff(_zipf(1, VOCABULARY_RANKS), prepend=0.0)
    low, high = distinct_words, 2 * distinct_words
    while _expected_distinct(share, high) < distinct_words:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if _expected_distinct(share, middle) < distinct_words:
            low = middle + 1
        else:
            high = middle
    return low


def _expected_distinct(share: FloatArray, words: int) -> float:
    return float((1.0 - (1.0 - share) ** words).sum())


def document_ranks(n: int, distinct_words: int, seed: int, *, total_words: int = 0) -> Iterator[IntArray]:
    """Documents as ranks in reading order, each with exactly distinct_words distinct ranks.

    Shorter ones are lengthened to total_words by repeating their own words at random.
    """
    if not 1 <= distinct_words <= VOCABULARY_RANKS // 2:
        raise ValueError(f"distinct_words must be 1 to {VOCABULARY_RANKS // 2}: {distinct_words}")
    piece = expected_words(distinct_words) * 5 // 4 + 8
    for number in range(n):
        rng = np.random.default_rng([seed, _DOCUMENT_STREAM, distinct_words, number])
        ranks = _draw(rng, piece, 1, VOCABULARY_RANKS)
        while True:
            first = np.sort(np.unique(ranks, return_index=True)[1])
            if first.size >= distinct_words:
                break
            ranks = np.concatenate([ranks, _draw(rng, piece, 1, VOCABULARY_RANKS)])
        ranks = ranks[: first[distinct_words - 1] + 1]
        if ranks.size < total_words:
            repeated = ranks[rng.integers(0, ranks.size, total_words - ranks.size)]
            ranks = rng.permutation(np.concatenate([ranks, repeated]))
        yield ranks


def document_lines(n: int, distinct_words: int, seed: int, *, total_words: int = 0) -> Iterator[str]:
    """Documents as text on one line each: sentences with capitals, commas and full stops."""
    spelling = vocabulary()
    for number, ranks in enumerate(document_ranks(n, distinct_words, seed, total_words=total_words)):
        rng = np.random.default_rng([seed, _DOCUMENT_STREAM, distinct_words, number, 1])
        words = [spelling[rank] for rank in ranks.tolist()]
        lengths = rng.integers(SENTENCE_WORDS_MIN, SENTENCE_WORDS_MAX + 1, len(words) // SENTENCE_WORDS_MIN + 1)
        start = 0
        for length in lengths.tolist():
            if start >= len(words):
                break
            last = min(start + length, len(words)) - 1
            words[start] = words[start].capitalize()
            if length > 12 and last > start + 6:
                words[start + 5] += ","
            words[last] += "."
            start = last + 1
        yield " ".join(words)


def documents(n: int, distinct_words: int, seed: int, *, total_words: int = 0) -> list[str]:
    """Documents with exactly distinct_words distinct words each, as text."""
    return list(document_lines(n, distinct_words, seed, total_words=total_words))


def long_documents(n: int, seed: int) -> list[str]:
    """Documents of 2,000 distinct words and 6,900 words."""
    return documents(n, LONG_DISTINCT_WORDS, seed, total_words=LONG_TOTAL_WORDS)


def write_queries(path: Path, n: int, seed: int, *, dense: bool = False) -> None:
    """One query per line, its words space separated, UTF-8."""
    _write_lines(path, _query_lines(n, seed, dense=dense))


def write_documents(path: Path, n: int, distinct_words: int, seed: int, *, total_words: int = 0) -> None:
    """One document per line, UTF-8."""
    _write_lines(path, document_lines(n, distinct_words, seed, total_words=total_words))


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)
    unfinished.replace(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Write queries.txt, dense_queries.txt and documents.txt of the benchmarks."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--dense-queries", type=int, default=0)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--distinct-words", type=int, default=SHORT_DISTINCT_WORDS)
    parser.add_argument("--total-words", type=int, default=0, help="lengthen by repetitions")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, Any] = {"folder": str(chosen.folder), "seed": chosen.seed}
    if chosen.queries:
        write_queries(chosen.folder / "queries.txt", chosen.queries, chosen.seed)
        written["queries"] = chosen.queries
    if chosen.dense_queries:
        write_queries(chosen.folder / "dense_queries.txt", chosen.dense_queries, chosen.seed, dense=True)
        written["dense_queries"] = chosen.dense_queries
    if chosen.documents:
        write_documents(
            chosen.folder / "documents.txt",
            chosen.documents,
            chosen.distinct_words,
            chosen.seed,
            total_words=chosen.total_words,
        )
        written["documents"] = chosen.documents
        written["distinct_words"] = chosen.distinct_words
    print(json.dumps(written))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
