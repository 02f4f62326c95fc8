"""Documents and queries to try things on. The same seed gives the same output on every machine.

Two families live here:

* **Zipf workloads** after SmartSeer §V. Word number r ("rank" r, from 1) has a share proportional to 1/r^s of all
  words in documents. The words of a query are drawn without replacement from that distribution after a change of its
  skew: *same*, *more* (frequent words even more frequent), *uniform*, or *inverse*. Their number is normal with
  mean ν and deviation 0.3 ν. Beside them stand *user-like* queries: 2 to 4 words, neither stop words nor
  never seen. All come as ranks in arrays (a million queries in about a second) and as text or trees.
* **Random documents and queries** over every operator of the query language and a tiny vocabulary, so that matches
  are frequent: food for comparing engines with the oracle.

Item i of a seed does not depend on how many are asked for. Later knobs (topics that shift, queries that come and go)
have their place in `frequency`: whoever gives another distribution of words gets queries after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import islice, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from tocsin import dates
from tocsin.errors import SettingError
from tocsin.model import Document, Value
from tocsin.query.ast import (
    Bound,
    Equals,
    Exists,
    In,
    Near,
    Not,
    Prefix,
    Query,
    Range,
    Similar,
    Words,
    conjunction,
    disjunction,
)
from tocsin.text import fold, words

RankArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]
T = TypeVar("T")

QUERY_WORDS_DEVIATION = 0.3
"""Standard deviation of the number of words in a query, as a share of the mean (SmartSeer §V)."""
QUERIES_PER_BLOCK = 65_536
INFERRED_DOCUMENTS = 500
"""SmartSeer §V: the first 500 documents are used to infer the distribution of words."""
TITLE_WORDS, SENTENCE_WORDS = 9, 16

_DOCUMENT_STREAM, _QUERY_STREAM, _USER_STREAM = 1, 2, 3


# --- settings --------------------------------------------------------------------------------------------------------


class Skew(StrEnum):
    """How the words of queries are spread, compared with the words of documents (SmartSeer §V)."""

    SAME = "same"
    MORE = "more"
    UNIFORM = "uniform"
    INVERSE = "inverse"


SKEW_POWER = {Skew.SAME: 1.0, Skew.MORE: 1.5, Skew.UNIFORM: 0.0, Skew.INVERSE: -1.0}
"""A word's share in queries is its share in documents to this power. SmartSeer gives no formula; with the power −1 the
lists of queries under a word stay short, as its Figure 3(b) shows, while mirrored ranks would make some very long."""


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """Knobs of a Zipf workload; the defaults are SmartSeer's Table I with documents like those of TREC."""

    vocabulary_words: int = 100_000
    """Different words that exist."""
    zipf_exponent: float = 1.0
    """Rank r has a share proportional to 1/r^exponent; at most 1.5."""
    document_unique_words: int = 200
    """Different words in a document, on average."""
    document_words: int = 300
    """Words in a document, on average; a document repeats its own words to reach this."""
    document_spread: float = 0.25
    """Standard deviation of a document's size, as a share of the mean; 0 makes all alike."""
    documents: int = 1_000
    query_words_mean: float = 5.0
    """Words per query, on average; 1 to twice this."""
    query_skew: Skew = Skew.SAME
    queries: int = 50_000
    user_rank_first: int = 500
    """User-like queries have no word more frequent than this,"""
    user_rank_last: int = 50_000
    """and none less frequent than this."""
    user_words_min: int = 2
    user_words_max: int = 4

    def __post_init__(self) -> None:
        """Refuses what could not be drawn in reasonable time."""
        wanted = 4 * max(self.document_unique_words, self.query_words_mean)
        if self.vocabulary_words < wanted:
            raise SettingError(f"vocabulary_words is {self.vocabulary_words}, these documents or queries need {wanted}")
        if not 0 <= self.zipf_exponent <= 1.5:
            raise SettingError(f"zipf_exponent is {self.zipf_exponent}, choose 0 to 1.5")
        if min(self.document_unique_words, self.query_words_mean, self.user_words_min) < 1:
            raise SettingError("documents and queries have at least one word")
        if not 0 <= self.document_spread <= 0.3:
            raise SettingError(f"document_spread is {self.document_spread}, choose 0 to 0.3")


TREC = WorkloadSettings()
"""News: about 200 different words in a document (SmartSeer §V)."""
CITESEER = WorkloadSettings(document_unique_words=2_000, document_words=6_900)
"""Papers in full: about 2,000 different words in a document (SmartSeer §V)."""


# --- words from ranks ------------------------------------------------------------------------------------------------

_ONSETS = (
    "b",
    "d",
    "f",
    "g",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "z",
    "br",
    "dr",
    "gl",
    "kl",
    "pl",
    "st",
    "tr",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "au", "ia")
_CODAS = ("n", "r", "l", "m", "t", "k", "x")
_SCATTER = 1_000_003  # a prime that divides no number of spellings: neighbours in rank look unlike


def word(rank: int) -> str:
    """The word of this rank (from 1): pronounceable, its own, and frequent words are shorter.

    Syllables are consonants and vowels in turn, so two different spellings never give the same word.
    """
    left, syllables, codas = rank - 1, 2, 1
    while left >= (size := (len(_ONSETS) * len(_VOWELS)) ** syllables * codas):
        left -= size
        syllables, codas = (syllables, len(_CODAS)) if codas == 1 else (syllables + 1, 1)
    left = (left * _SCATTER + _SCATTER // 2) % size
    left, coda = divmod(left, codas)
    spelled = _CODAS[coda] if codas > 1 else ""
    for _ in range(syllables):
        left, onset = divmod(left, len(_ONSETS))
        left, vowel = divmod(left, len(_VOWELS))
        spelled = _ONSETS[onset] + _VOWELS[vowel] + spelled
    return spelled


@lru_cache(maxsize=2)
def vocabulary(count: int) -> tuple[str, ...]:
    """The words of the ranks 1 to count, each at its rank; place 0 is empty."""
    return ("", *map(word, range(1, count + 1)))


# --- Zipf workloads --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankTable:
    """Many rows of ranks: row i is ranks[first[i]:first[i + 1]]."""

    first: npt.NDArray[np.int64]
    ranks: RankArray

    def __len__(self) -> int:
        return len(self.first) - 1

    def row(self, index: int) -> RankArray:
        """The ranks of one row."""
        return self.ranks[self.first[index] : self.first[index + 1]]

    def texts(self) -> Iterator[str]:
        """Each row as a query: its words with spaces between, which means AND."""
        spelled = vocabulary(int(self.ranks.max(initial=0)))
        every = list(map(spelled.__getitem__, self.ranks.tolist()))
        bounds = self.first.tolist()
        for start, end in pairwise(bounds):
            yield " ".join(every[start:end])

    def trees(self) -> Iterator[Query]:
        """Each row as a tree: what its text parses to."""
        for text in self.texts():
            yield conjunction([Words(None, each) for each in text.split()])


def document_shares(settings: WorkloadSettings) -> FloatArray:
    """The share of each rank among the words of documents; place 0 is rank 1."""
    weights: FloatArray = np.arange(1, settings.vocabulary_words + 1, dtype=np.float64) ** -settings.zipf_exponent
    weights /= weights.sum()
    return weights


def query_shares(frequency: FloatArray, skew: Skew) -> FloatArray:
    """The share of each rank among the words of queries; a word that no document has stays out."""
    seen = frequency > 0
    weights = np.where(seen, np.where(seen, frequency, 1.0) ** SKEW_POWER[skew], 0.0)
    shares: FloatArray = weights / weights.sum()
    return shares


def infer_frequency(settings: WorkloadSettings, seed: int, documents: int = INFERRED_DOCUMENTS) -> FloatArray:
    """How often each rank occurs in the first documents, as SmartSeer §V learns it from its corpus."""
    counts = np.zeros(settings.vocabulary_words + 1, dtype=np.float64)
    for ranks in islice(_endless_documents(settings, seed), documents):
        counts += np.bincount(ranks, minlength=len(counts))
    return counts[1:]


def document_ranks(settings: WorkloadSettings, seed: int) -> Iterator[RankArray]:
    """Each document as the ranks of its words in reading order."""
    return islice(_endless_documents(settings, seed), settings.documents)


def document_table(settings: WorkloadSettings, seed: int) -> RankTable:
    """All documents in two arrays."""
    return _table(list(document_ranks(settings, seed)))


def documents(settings: WorkloadSettings, seed: int) -> Iterator[Document]:
    """Each document with its first words as `title` and the others as sentences of `text`."""
    spelled = vocabulary(settings.vocabulary_words)
    for number, ranks in enumerate(document_ranks(settings, seed)):
        found = [spelled[rank] for rank in ranks.tolist()]
        title = " ".join(found[:TITLE_WORDS]).capitalize()
        body = found[TITLE_WORDS:]
        starts = range(0, len(body), SENTENCE_WORDS)
        text = " ".join(" ".join(body[start : start + SENTENCE_WORDS]).capitalize() + "." for start in starts)
        yield Document(f"d{number:07}", {"title": (title,), "text": (text,)})


def query_ranks(settings: WorkloadSettings, seed: int, frequency: FloatArray | None = None) -> RankTable:
    """Queries after SmartSeer §V: normal length, words without replacement, the skew of the settings.

    `frequency` is the distribution of words in documents, for instance inferred; by default the true one.
    """
    known = document_shares(settings) if frequency is None else frequency
    mean = settings.query_words_mean
    if np.count_nonzero(known) < 4 * mean:
        raise SettingError(f"only {np.count_nonzero(known)} words occur, queries of {mean} words need {4 * mean}")
    cumulative = _cumulative(query_shares(known, settings.query_skew))

    def block(rng: Generator) -> tuple[RankArray, npt.NDArray[np.bool_]]:
        lengths = np.rint(rng.normal(mean, QUERY_WORDS_DEVIATION * mean, QUERIES_PER_BLOCK)).clip(1, int(2 * mean))
        return _distinct(rng, lengths.astype(np.int32), cumulative, 1)

    return _queries(settings.queries, [seed, _QUERY_STREAM], block)


def user_query_ranks(settings: WorkloadSettings, seed: int) -> RankTable:
    """Queries as people write them: 2 to 4 different words that are neither too frequent nor too rare."""
    first, last = settings.user_rank_first, min(settings.user_rank_last, settings.vocabulary_words)
    if last - first < 4 * settings.user_words_max:
        raise SettingError(f"the ranks {first} to {last} are too few for user-like queries: lower user_rank_first")
    cumulative = _cumulative(document_shares(settings)[first - 1 : last])

    def block(rng: Generator) -> tuple[RankArray, npt.NDArray[np.bool_]]:
        lengths = rng.integers(settings.user_words_min, settings.user_words_max + 1, QUERIES_PER_BLOCK, dtype=np.int32)
        return _distinct(rng, lengths, cumulative, first)

    return _queries(settings.queries, [seed, _USER_STREAM], block)


def _cumulative(shares: FloatArray) -> FloatArray:
    total: FloatArray = np.cumsum(shares)
    total /= total[-1]
    return total


def _draw(rng: Generator, size: int | tuple[int, int], cumulative: FloatArray, rank_first: int) -> RankArray:
    return (np.searchsorted(cumulative, rng.random(size), side="right") + rank_first).astype(np.int32)


def _endless_documents(settings: WorkloadSettings, seed: int) -> Iterator[RankArray]:
    cumulative = _cumulative(document_shares(settings))
    number = 0
    while True:
        yield _document(np.random.default_rng([seed, _DOCUMENT_STREAM, number]), settings, cumulative)
        number += 1


def _document(rng: Generator, settings: WorkloadSettings, cumulative: FloatArray) -> RankArray:
    """Words are drawn until enough of them differ; then the document repeats some of its own."""
    mean = settings.document_unique_words
    unique = max(1, min(round(rng.normal(mean, settings.document_spread * mean)), 2 * mean))
    ranks = _draw(rng, 2 * unique, cumulative, 1)
    while len(first := np.sort(np.unique(ranks, return_index=True)[1])) < unique:
        ranks = np.concatenate([ranks, _draw(rng, len(ranks), cumulative, 1)])
    ranks = ranks[: first[unique - 1] + 1]
    missing = round(unique * settings.document_words / mean) - len(ranks)
    if missing > 0:
        ranks = rng.permutation(np.concatenate([ranks, ranks[rng.integers(0, len(ranks), missing)]]))
    return ranks


def _distinct(
    rng: Generator, lengths: npt.NDArray[np.int32], cumulative: FloatArray, rank_first: int
) -> tuple[RankArray, npt.NDArray[np.bool_]]:
    """A row of different ranks for each length, and which places of the rows are used. What repeats is drawn again."""
    width = int(lengths.max())
    ranks = _draw(rng, (len(lengths), width), cumulative, rank_first)
    for column in range(1, width):
        again = np.flatnonzero(lengths > column)
        while len(again):
            again = again[(ranks[again, :column] == ranks[again, column, None]).any(axis=1)]
            ranks[again, column] = _draw(rng, len(again), cumulative, rank_first)
    return ranks, np.arange(width) < lengths[:, None]


def _queries(
    count: int, stream: list[int], block: Callable[[Generator], tuple[RankArray, npt.NDArray[np.bool_]]]
) -> RankTable:
    """Whole blocks, each with its own seed, cut to the count: the first n do not depend on the count."""
    lengths, ranks = [], []
    for number, start in enumerate(range(0, count, QUERIES_PER_BLOCK)):
        drawn, used = block(np.random.default_rng([*stream, number]))
        drawn, used = drawn[: count - start], used[: count - start]
        lengths.append(used.sum(axis=1))
        ranks.append(drawn[used])
    if not ranks:
        return _table([])
    return RankTable(np.concatenate([[0], np.cumsum(np.concatenate(lengths))]), np.concatenate(ranks))


def _table(rows: list[RankArray]) -> RankTable:
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return RankTable(first, np.concatenate([*rows, np.empty(0, dtype=np.int32)]))


# --- random documents and queries ------------------------------------------------------------------------------------

SMALL_VOCABULARY = tuple(
    "peer grid data query network café straße naïve ﬁlter 日本語 the of P2P 2004 42 peers inform informed".split()
)
"""Few words, so that matches are frequent: stop words, words that are numbers, and some that Unicode makes hard."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of random documents by what they hold."""

    texts: tuple[str, ...] = ("title", "text")
    names: tuple[str, ...] = ("author", "keyword")
    """Lists of short values that documents share: what nested queries compare."""
    numbers: tuple[str, ...] = ("year", "score")
    dates: tuple[str, ...] = ("date",)
    links: tuple[str, ...] = ("citation",)
    """Lists of ids of other documents."""

    @property
    def all(self) -> tuple[str, ...]:
        """Every name that a query may use."""
        return (*self.texts, *self.names, *self.numbers, *self.dates, *self.links, "id", "source", "time")


FIELDS = Fields()
SOURCES = ("archive", "Nordic Press", "journal-x")
NUMBERS = (2004, 2005, 2010, 42, 3, 0, -2, 0.5, 3.5, -0.0, 1e20)
NUMBER_TEXTS = ("2004", "2005", "2010.0", "42", "3", "0", "-2", "0.5", "3.5", "1e20")
DATE_TEXTS = (
    "2004-05-31",
    "2004-06-01",
    "2004-05-31T12:00:00Z",
    "2004-05-31T23:30:00-02:00",
    "2004-06-01T01:30:00.5Z",
    "2004-06-30 06:00:00",
)
TIME_TEXTS = tuple(text for text in DATE_TEXTS if "T" in text)
_JOINTS = (" ", " ", " ", " ", ", ", "-", ". ", " \\ ", ' "')


@dataclass(frozen=True, slots=True)
class _Dice:
    """Chance, and what it chooses from."""

    rng: Generator
    vocabulary: Sequence[str]
    fields: Fields

    def roll(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def upto(self, most: int, least: int = 0) -> int:
        return int(self.rng.integers(least, most + 1))

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def sentence(self, most: int, least: int = 0) -> str:
        text = ""
        for number in range(self.upto(most, least)):
            text += (self.pick(_JOINTS) if number else "") + self.pick(self.vocabulary)
        return text

    def name(self) -> str:
        """A short value of the first half of the vocabulary, so that documents have it in common."""
        half = self.vocabulary[: max(1, len(self.vocabulary) // 2)]
        return self.pick(half) if self.roll(0.7) else f"{self.pick(half)} {self.pick(half[:3])}"


def random_documents(
    rng: Generator, count: int, vocabulary: Sequence[str] = SMALL_VOCABULARY, fields: Fields = FIELDS
) -> list[Document]:
    """Documents d0, d1, …: several fields, lists, numbers, dates, empty strings, absent fields, links back."""
    return [random_document(rng, number, vocabulary, fields) for number in range(count)]


def random_document(
    rng: Generator, number: int, vocabulary: Sequence[str] = SMALL_VOCABULARY, fields: Fields = FIELDS
) -> Document:
    """Document d{number}."""
    dice = _Dice(rng, vocabulary, fields)
    values: dict[str, tuple[Value, ...]] = {}
    makers: tuple[tuple[tuple[str, ...], Callable[[], Value]], ...] = (
        (fields.texts, lambda: dice.pick(NUMBERS) if dice.roll(0.05) else dice.sentence(12)),
        (fields.names, dice.name),
        (fields.numbers, lambda: dice.pick(NUMBER_TEXTS) if dice.roll(0.1) else dice.pick(NUMBERS)),
        (fields.dates, lambda: dice.sentence(2) if dice.roll(0.1) else dice.pick(DATE_TEXTS)),
        (fields.links, lambda: f"d{dice.upto(number - 1)}"),
    )
    for names, make in makers:
        for name in names:
            if dice.roll(0.8) and (number or names is not fields.links):
                most = 3 if names in (fields.names, fields.links) or dice.roll(0.2) else 1
                values[name] = tuple(make() for _ in range(dice.upto(most, 1)))
    source = dice.pick(SOURCES) if dice.roll(0.8) else None
    return Document(f"d{number}", values, source, dice.pick(TIME_TEXTS) if dice.roll(0.8) else None)


def random_query(
    rng: Generator,
    depth: int,
    vocabulary: Sequence[str] = SMALL_VOCABULARY,
    fields: Fields = FIELDS,
    *,
    nested: bool = True,
    subscription: bool = False,
) -> Query:
    """A tree of at most this depth over every operator; `parse(show(query)) == query`.

    The vocabulary holds single words; `nested` allows IN, `subscription` allows it only where no NOT stands above it.
    """
    return _query(_Dice(rng, vocabulary, fields), depth, nested, subscription)


def _query(dice: _Dice, depth: int, nested: bool, subscription: bool) -> Query:
    kind = dice.upto(9) if depth > 0 else 9
    if kind < 2:
        return Not(_query(dice, depth - 1, nested and not subscription, subscription))
    if kind < 7:
        parts = [_query(dice, depth - 1, nested, subscription) for _ in range(3 if dice.roll(0.2) else 2)]
        return conjunction(parts) if kind < 4 else disjunction(parts)
    if kind == 7 and nested:
        return _nested(dice, _query(dice, depth - 1, nested, subscription))
    return dice.pick(_ATOMS)(dice)


def _nested(dice: _Dice, inner: Query) -> In:
    if dice.roll(0.6):
        name = dice.pick(dice.fields.names)
        return In(name, name, inner)
    if dice.roll(0.6):
        return In(dice.pick(dice.fields.links), "id", inner)
    return In(dice.pick(dice.fields.all), dice.pick(dice.fields.all), inner)


def _field(dice: _Dice, suited: tuple[str, ...]) -> str:
    return dice.pick(suited if dice.roll(0.9) else dice.fields.all)


def _text_field(dice: _Dice) -> str | None:
    return _field(dice, dice.fields.texts + dice.fields.names) if dice.roll(0.6) else None


def _is_plain(text: str) -> bool:
    return all(each.isalnum() for each in text) and text not in ("AND", "OR", "NOT", "NEAR", "TO", "IN")


def _word(dice: _Dice) -> Words:
    text = dice.pick(dice.vocabulary)
    return Words(_text_field(dice), text, dice.roll(0.2) or not _is_plain(text))


def _hyphened(dice: _Dice) -> Words:
    left, right = dice.pick(dice.vocabulary), dice.pick(dice.vocabulary)
    return Words(_text_field(dice), f"{left}-{right}", not _is_plain(left + right))


def _phrase(dice: _Dice) -> Words:
    return Words(_text_field(dice), dice.sentence(2, 1) if dice.roll(0.8) else dice.sentence(4, 3), True)


def _number(dice: _Dice) -> Words:
    return Words(_field(dice, dice.fields.numbers), dice.pick(NUMBER_TEXTS), dice.roll(0.3))


def _chain(dice: _Dice) -> Near:
    operands = tuple(dice.pick(dice.vocabulary) for _ in range(2 if dice.roll(0.6) else dice.upto(4, 3)))
    ordered = dice.roll(0.5)
    gaps = [(dice.upto(1), dice.upto(7, 1)) if ordered else (0, dice.upto(6)) for _ in operands[1:]]
    return Near(_text_field(dice), operands, tuple(gaps), ordered)


def _equality(dice: _Dice) -> Equals:
    if dice.roll(0.3):
        return Equals(_field(dice, dice.fields.numbers), dice.pick(NUMBER_TEXTS), dice.roll(0.3))
    if dice.roll(0.2):
        return Equals("source", dice.pick(SOURCES), True)
    text = dice.name()
    return Equals(_field(dice, dice.fields.names), text, dice.roll(0.5) or not _is_plain(text))


def _prefix(dice: _Dice) -> Query:
    text = dice.pick(dice.vocabulary)[: dice.upto(4, 2)]
    if len(fold(text)) < 2 or words(text) != (fold(text),):
        return _word(dice)
    return Prefix(_text_field(dice), text)


def _presence(dice: _Dice) -> Exists:
    return Exists(dice.pick(dice.fields.all))


def _range(dice: _Dice) -> Range:
    choices, suited = (
        (DATE_TEXTS, (*dice.fields.dates, "time")) if dice.roll(0.4) else (NUMBER_TEXTS, dice.fields.numbers)
    )
    low, high = sorted((_bound(dice, choices), _bound(dice, choices)), key=lambda bound: (bound.first, bound.last))
    shape = dice.upto(3)
    return Range(_field(dice, suited), None if shape == 0 else low, None if shape == 1 else high)


def _bound(dice: _Dice, choices: Sequence[str]) -> Bound:
    text = dice.pick(choices)
    moments = dates.span(text)
    if moments is None:
        return Bound(text, float(text), float(text), False, dice.roll(0.5))
    return Bound(text, *moments, True, dice.roll(0.5))


def _similarity(dice: _Dice) -> Similar:
    return Similar(_field(dice, dice.fields.texts), dice.sentence(5, 1), dice.pick((0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0)))


_ATOMS: tuple[Callable[[_Dice], Query], ...] = (
    *(_word, _word, _word, _hyphened, _phrase, _phrase, _number, _chain, _chain, _equality, _equality),
    *(_prefix, _presence, _range, _range, _similarity),
)
