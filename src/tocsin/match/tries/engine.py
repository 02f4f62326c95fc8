"""The engines of P2P-DIET §4: a document's words find word patterns, and counting finds the queries.

Each query is kept as conjunctions in AWP. A field directory (the paper's AD) leads to the word directory
of each field; the equality table ET, keyed by field and value, to the equalities; `total` says how many
atomic formulas a conjunction has, and a document satisfies it when it satisfies that many of them. What
AWP lacks is asked of the oracle where the rest holds; a query without any AWP part sees every document.

The engines differ in their store of word sets, and agree with the oracle on every query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np

from tocsin.errors import SettingError
from tocsin.match import awp_kernels as kernels
from tocsin.match.awp_kernels import Bytes, Counting, Ints, Longs, Occurrences, Shorts
from tocsin.match.engine import Counts
from tocsin.match.tries.arrange import arranged
from tocsin.match.tries.awp import Conjunction, Equality, Pattern, Place, conjunctions
from tocsin.match.tries.flat import START, Forest, Lists, Store, longer
from tocsin.match.tries.numbers import Numbers, ProximityArray, Vocabulary
from tocsin.match.tries.occurrence import VALUE_BITS, places, texts_at, values_at
from tocsin.model import Document
from tocsin.query.ast import Query
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import Analysis

WORDS, RAREST, COMMONEST = "words", "rarest", "commonest"
ORDERS = (WORDS, RAREST, COMMONEST)
"""How the words of a set are ordered: lexicographically as in the paper, or by how frequent they are."""


@dataclass(slots=True)
class Directory:
    """A word directory WD, with what the engine counts of it."""

    number: int
    formulas: int = 0
    chains: int = 0


@dataclass(slots=True)
class Kept:
    """A conjunction as it is kept: its formulas by number."""

    number: int
    patterns: tuple[tuple[Place, int], ...]
    equalities: tuple[tuple[Equality, int], ...]


class AwpEngine:
    """An index over queries; `store` makes what keeps the sets of words."""

    def __init__(
        self,
        store: Callable[[], Store],
        analysis: Analysis | None = None,
        order: str = WORDS,
        frequency: Mapping[str, int] | None = None,
        reorganise_after: int | None = None,
    ) -> None:
        """`frequency` says in how many documents a word occurs, for the orders by frequency.

        With `reorganise_after`, the index is re-organised by itself whenever so many queries came or went.
        """
        if order not in ORDERS:
            raise SettingError(f"unknown order of words {order!r}: one of {', '.join(ORDERS)}")
        self._new_store = store
        self._analysis = analysis or Analysis()
        self._order = order
        self._frequency = frequency or {}
        self._reorganise_after = reorganise_after
        self._changes = 0
        self._queries: dict[int, Query] = {}
        self.counts = Counts()
        self._clear()

    def _clear(self) -> None:
        self._store = self._new_store()
        self._vocabulary = Vocabulary()
        self._fields: dict[Place, Directory] = {}
        self._equalities: defaultdict[Equality, dict[int, None]] = defaultdict(dict)
        self._proximity = ProximityArray()
        self._kept: dict[int, list[Kept]] = {}
        self._every: dict[int, list[Query]] = {}
        self._rests: dict[int, Query] = {}
        self._formulas, self._conjunctions = Numbers(), Numbers()
        self._conjunction_of: Ints = np.zeros(START, np.int32)
        self._query_of: Longs = np.zeros(START, np.int64)
        self._total: Shorts = np.zeros(START, np.uint16)
        self._count: Shorts = np.zeros(START, np.uint16)
        self._has_rest: Bytes = np.zeros(START, np.uint8)
        self._is_split = False  # does a query have several conjunctions?
        self._present: Bytes = np.zeros(START, np.uint8)
        self._rows: Ints = np.zeros(START, np.int32)

    # --- queries in and out ------------------------------------------------------------------

    def add(self, number: int, query: Query) -> None:
        """Registers a query under a number that is not in use."""
        self._queries[number] = query
        self._index(number, query)
        self._changed()

    def remove(self, number: int) -> None:
        """Forgets the query of this number."""
        del self._queries[number]
        self._every.pop(number, None)
        for kept in self._kept.pop(number, ()):
            self._forget(kept)
        self._changed()

    def _changed(self) -> None:
        self._changes += 1
        if self._reorganise_after is not None and self._changes >= self._reorganise_after:
            self.reorganise()

    def _index(self, number: int, query: Query) -> None:
        found = conjunctions(query, self._analysis)
        self._is_split = self._is_split or len(found) > 1
        for conjunction in found:
            if conjunction.total:
                self._kept.setdefault(number, []).append(self._keep(number, conjunction))
            elif conjunction.rest is not None:
                self._every.setdefault(number, []).append(conjunction.rest)

    def _keep(self, number: int, conjunction: Conjunction) -> Kept:
        index = self._conjunctions.take()
        if index >= len(self._total):
            self._query_of, self._total = longer(self._query_of, index + 1), longer(self._total, index + 1)
            self._count, self._has_rest = longer(self._count, index + 1), longer(self._has_rest, index + 1)
        self._query_of[index] = number
        self._total[index] = conjunction.total
        self._has_rest[index] = conjunction.rest is not None
        if conjunction.rest is not None:
            self._rests[index] = conjunction.rest
        owner = ~index if conjunction.total == 1 and conjunction.rest is None else index
        patterns = tuple((place, self._put(owner, place, found)) for place, found in conjunction.patterns.items())
        equalities = tuple((key, self._formula(owner)) for key in conjunction.equalities)
        for key, formula in equalities:
            self._equalities[key][formula] = None
        return Kept(index, patterns, equalities)

    def _formula(self, conjunction: int) -> int:
        """A formula of the conjunction (~ its number where the formula is all of it)."""
        formula = self._formulas.take()
        self._conjunction_of = longer(self._conjunction_of, formula + 1)
        self._conjunction_of[formula] = conjunction
        return formula

    def _put(self, conjunction: int, place: Place, pattern: Pattern) -> int:
        """Stores a word pattern in the word directory of its field."""
        if place not in self._fields:
            self._fields[place] = Directory(self._store.open())
        directory = self._fields[place]
        formula = self._formula(conjunction)
        words = self._vocabulary.take(sorted(pattern.words, key=self._rank))
        self._store.insert(directory.number, words, formula)
        self._proximity.put(formula, pattern.chains, self._vocabulary.number_of)
        directory.formulas += 1
        directory.chains += bool(pattern.chains)
        return formula

    def _rank(self, word: str) -> tuple[int, str]:
        if self._order == WORDS:
            return 0, word
        frequency = self._frequency.get(word, 0)
        return frequency if self._order == RAREST else -frequency, word

    def _forget(self, kept: Kept) -> None:
        for place, formula in kept.patterns:
            directory = self._fields[place]
            _, words, _ = self._store.sets(np.array([formula], np.int32))
            self._store.remove(formula)
            self._vocabulary.give(words.tolist())
            directory.formulas -= 1
            directory.chains -= self._proximity.has(formula)
            self._proximity.remove(formula)
            self._formulas.give(formula)
            if not directory.formulas:
                self._store.close(directory.number)
                del self._fields[place]
        for key, formula in kept.equalities:
            del self._equalities[key][formula]
            if not self._equalities[key]:
                del self._equalities[key]
            self._formulas.give(formula)
        self._rests.pop(kept.number, None)
        self._conjunctions.give(kept.number)

    # --- documents ---------------------------------------------------------------------------

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> list[list[int]]:
        """For each document the numbers of the queries that hold, ascending."""
        if knowledge.analysis != self._analysis:
            self._analysis = knowledge.analysis
            self._clear()
            for number, query in self._queries.items():
                self._index(number, query)
        self._present = longer(self._present, self._vocabulary.end)
        self._rows = longer(self._rows, self._vocabulary.end)
        self.counts.documents += len(documents)
        return [self._match(document, knowledge) for document in documents]

    def _match(self, document: Document, knowledge: Knowledge) -> list[int]:
        queries, complete = self._count_up(self._satisfied(document))
        asked = self._has_rest[complete] != 0
        queries = np.concatenate((queries, self._query_of[complete[~asked]]))
        found: list[int] = (np.unique(queries) if self._is_split else np.sort(queries)).tolist()
        if not self._every and not asked.any():
            return found
        return sorted([*found, *self._ask(complete[asked].tolist(), frozenset(found), document, knowledge)])

    def _ask(
        self, conjunctions: list[int], found: frozenset[int], document: Document, knowledge: Knowledge
    ) -> set[int]:
        """Which other queries hold, by the rest of these conjunctions, or because they see every document."""
        more: set[int] = set()
        asked = [(int(self._query_of[conjunction]), self._rests[conjunction]) for conjunction in conjunctions]
        every = ((number, rest) for number, rests in self._every.items() for rest in rests)
        for number, rest in chain(asked, every):
            if number not in found and number not in more and self._holds(number, rest, document, knowledge):
                more.add(number)
        return more

    def _holds(self, number: int, rest: Query, document: Document, knowledge: Knowledge) -> bool:
        self.counts.candidates += 1
        self.counts.tried[number] += 1
        try:
            return holds(rest, document, knowledge)
        except Exception as error:  # one query's trouble must not cost the others their matches
            self.counts.errors[number] = f"{type(error).__name__}: {error}"
            return False

    def _satisfied(self, document: Document) -> list[Ints]:
        """The atomic formulas that the document satisfies: equalities and word patterns."""
        found = []
        if self._equalities:
            for key in set(values_at(document, self._analysis)):
                if key in self._equalities:
                    found.append(np.fromiter(self._equalities[key], np.int32))
        for place in places(document, self._analysis):
            if place in self._fields:
                found.append(self._patterns(self._fields[place], texts_at(document, place, self._analysis)))
        return found

    def _patterns(self, directory: Directory, values: Iterator[tuple[str, ...]]) -> Ints:
        """The word patterns that hold in a field with these values."""
        number_of = self._vocabulary.number_of.get
        texts = list(values)
        words = np.fromiter(map(number_of, chain.from_iterable(texts), repeat(0)), np.int32)
        distinct = np.empty(len(words), np.int32)
        distinct = distinct[: kernels.mark_words(words, self._present, distinct)]
        found = self._store.qualifying(directory.number, self._present, distinct)
        if directory.chains and len(found):
            at = [np.arange(len(text), dtype=np.int64) + (index << VALUE_BITS) for index, text in enumerate(texts)]
            found = self._near(found, words, np.concatenate(at), distinct)
        kernels.clear_words(distinct, self._present)
        return found.copy()

    def _near(self, found: Ints, words: Ints, at: Longs, distinct: Ints) -> Ints:
        """Those of the formulas found whose proximity formulas hold, too."""
        first, positions = np.zeros(len(distinct) + 1, np.int64), np.zeros(len(words), np.int64)
        kernels.sort_positions(words, at, distinct, self._rows, first, positions)
        reached = np.zeros(2 * len(words), np.int64)
        return self._proximity.keep_near(found, Occurrences(self._rows, first, positions, reached))

    def _count_up(self, found: list[Ints]) -> tuple[Longs, Ints]:
        """Queries that hold by one formula, and conjunctions all of whose formulas were found (Total and Count)."""
        formulas = np.concatenate([np.zeros(0, np.int32), *found])
        queries, complete = np.empty(len(formulas), np.int64), np.empty(len(formulas), np.int32)
        known = Counting(self._conjunction_of, self._query_of, self._total, self._count)
        alone, whole = kernels.count_formulas(formulas, known, queries, complete)
        return queries[:alone], complete[:whole]

    # --- re-organisation ---------------------------------------------------------------------

    def reorganise(self) -> None:
        """Builds the word directories anew from all sets at once; keeps the old ones if that needs more nodes.

        §4 names this as the only way beyond BestFitTrie and leaves it open. Sets come in the order of their
        commonest words, so that those that share words meet before they are spelled out apart.
        """
        self._changes = 0
        fresh = self._new_store()
        moved = {place: fresh.open() for place in self._fields}
        by_place: dict[Place, list[int]] = {place: [] for place in self._fields}
        for kept in (kept for every in self._kept.values() for kept in every):
            for place, formula in kept.patterns:
                by_place[place].append(formula)
        for place, formulas in by_place.items():
            numbers = np.array(formulas, np.int32)
            offsets, words, _ = self._store.sets(numbers)
            fresh.insert_many(moved[place], *arranged(offsets, words, numbers, self._ranks()))
        if fresh.nodes <= self._store.nodes:
            self._store = fresh
            for place, number in moved.items():
                self._fields[place].number = number

    def _ranks(self) -> Longs:
        """The place of each word in the order of words."""
        ranks = np.zeros(self._vocabulary.end, np.int64)
        for rank, word in enumerate(sorted(self._vocabulary.number_of, key=self._rank)):
            ranks[self._vocabulary.number_of[word]] = rank
        return ranks

    # --- measures ----------------------------------------------------------------------------

    @property
    def nodes(self) -> int:
        """Nodes of all tries."""
        return self._store.nodes

    @property
    def bytes(self) -> int:
        """Memory of the index: word sets, proximity array, and what is counted; the queries are not in it."""
        of_formulas = self._formulas.used * 2 * self._conjunction_of.itemsize  # its conjunction, its chains
        counted = (self._query_of, self._total, self._count, self._has_rest)
        of_conjunctions = self._conjunctions.used * sum(array.itemsize for array in counted)
        return self._store.bytes + self._proximity.bytes + of_formulas + of_conjunctions


class Sequential(AwpEngine):
    """BF: every word pattern is looked at."""

    def __init__(
        self, analysis: Analysis | None = None, order: str = WORDS, frequency: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(lambda: Lists(by_word=False), analysis, order, frequency)


class Swin(AwpEngine):
    """SWIN: a word pattern waits at one of its words, the first in order."""

    def __init__(
        self, analysis: Analysis | None = None, order: str = WORDS, frequency: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(lambda: Lists(by_word=True), analysis, order, frequency)


class PrefixTrie(AwpEngine):
    """PrefixTrie: word patterns as sequences, common prefixes stored once (SIFT's Tree)."""

    def __init__(
        self,
        analysis: Analysis | None = None,
        order: str = WORDS,
        frequency: Mapping[str, int] | None = None,
        reorganise_after: int | None = None,
    ) -> None:
        super().__init__(lambda: Forest(by_prefix=True), analysis, order, frequency, reorganise_after)


class BestFitTrie(AwpEngine):
    """BestFitTrie: word patterns as sets, stored where they share most."""

    def __init__(
        self,
        analysis: Analysis | None = None,
        order: str = WORDS,
        frequency: Mapping[str, int] | None = None,
        reorganise_after: int | None = None,
    ) -> None:
        super().__init__(lambda: Forest(by_prefix=False), analysis, order, frequency, reorganise_after)
