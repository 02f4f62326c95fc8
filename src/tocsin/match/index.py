"""The index over queries: millions of them against batches of documents, exactly as the oracle says.

A query is registered as conjunctions of keys (`requirement`) under an *owner*, a number that is never used
twice. Documents are turned into marks, 64 at a time: which keys occur in which of them (`lexicon`), and which texts
they are similar to, for `~` is a key too (`similarity_keys`). The clauses whose keys all occur are found by kernels
(`segments`); where keys are all that a query asks for, these are matches, otherwise candidates, which a plan checks
(`verify`). Queries that can wait at no key are planned on every document (SmartSeer §VI-A).

Clauses wait under their rarest key by the document frequencies seen so far (SmartSeer §III, S3); when these
drift so far that matching does twice the work it did, the index is organised anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match import kernels
from tocsin.match.engine import Counts
from tocsin.match.intern import Interner
from tocsin.match.lines import Finding, Found, LateBatch, LateDocuments, Lines, Room, Scan
from tocsin.match.marking import Marker
from tocsin.match.requirement import exact_keys, requirements
from tocsin.match.segments import DOCUMENTS_MAX, Clauses, ClauseSet, Marks, Scratch, Segment, by_document, frozen, merge
from tocsin.match.similarity_keys import standing_in
from tocsin.match.verify import Batch, Plan, Planner
from tocsin.model import Document
from tocsin.query.ast import Atom, Query, Similar, atoms
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge
from tocsin.query.show import show
from tocsin.query.vector import attached, detached, from_text, to_text
from tocsin.settings import DEFAULTS, DocumentLimits, QueryLimits
from tocsin.text import Analysis

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the query was accepted before
DRIFT = 2.0  # so many times the work per document that a fresh order would need is too much
DOCUMENTS_BEFORE_DRIFT = 1_000  # frequencies of fewer documents say little (SmartSeer bootstraps with 100)


@cache
def _merger() -> ThreadPoolExecutor:
    """One thread that merges for all indexes of the process; kernels let the others run meanwhile."""
    return ThreadPoolExecutor(1, "tocsin-merge")


class QueryIndex:
    """Queries by owner. One thread changes and matches; segments are merged by another."""

    def __init__(self, analysis: Analysis, interner: Interner | None = None, clauses: Clauses | None = None) -> None:
        self.analysis = analysis
        self.interner = interner or Interner(analysis)
        self.clauses = clauses or Clauses()
        self.counts = Counts()
        self.next_owner = 0
        self._checked: dict[int, Query | str] = {}
        self._moved: dict[int, str] = {}
        """For owners whose query is checked: words of texts that feedback has moved, which its text does not tell."""
        self._everywhere: dict[int, None] = {}
        self._similar: dict[int, tuple[int, ...]] = {}
        """For owners whose query asks for `~`: the keys of these atoms, which nobody may need after them."""
        self._plans: dict[int, Plan] = {}
        self._planner = Planner(analysis, self._exact)
        self._frequency = np.zeros(1024, np.uint32)
        self._work_when_organised = 0.0
        self._merging: tuple[tuple[Segment, ...], Future[Segment]] | None = None
        self._marks, self._scratch = Marks(), Scratch()
        self._marker = Marker(self.interner)
        self._room: Room | None = None

    def __len__(self) -> int:
        """Owners that are not removed are not counted one by one: this is how many were ever added."""
        return self.next_owner

    # --- changing ------------------------------------------------------------------------------

    def add(self, query: Query, text: str | None = None) -> int:
        """Registers a query and returns its owner; with its text, the tree need not be kept."""
        asked = dict.fromkeys(atom for atom in atoms(query) if isinstance(atom, Similar))
        similar = tuple(map(self.interner.similar.take, asked))
        owner = self.next_owner
        self.next_owner += 1
        if similar:
            self._similar[owner] = similar
        required = requirements(standing_in(query, self.interner.similar) if similar else query, self.analysis)
        if not all(one.exact for one in required):
            self._checked[owner] = query if text is None else text
            if (moved := to_text(detached(query))) is not None:
                self._moved[owner] = moved
            for atom in atoms(query):  # a plan may read these keys, so documents must be marked with them
                self._exact(atom)
        if not all(one.keys for one in required):
            self._everywhere[owner] = None
            return owner
        keys = [np.array(self.interner.numbers(sorted(one.keys)), np.uint32) for one in required]
        if keys:  # without any, the query never holds
            self._add_clauses(keys, owner)
        return owner

    def add_conjunctions(self, first: I64, keys: U32) -> range:
        """Registers many queries that ask for nothing but keys; owner i has keys[first[i]:first[i + 1]]."""
        owners = range(self.next_owner, self.next_owner + first.size - 1)
        self.next_owner = owners.stop
        self.clauses.add(first, keys, np.arange(owners.start, owners.stop, dtype=np.uint32), self.frequency())
        self._tidy()
        return owners

    def add_plain(self, texts: Sequence[bytes]) -> range:
        """Registers many queries of plain words (`is_plain`), straight from their text."""
        return self.add_conjunctions(*self.interner.plain(texts))

    def remove(self, owner: int) -> None:
        """The owner's query holds nowhere any more."""
        self.clauses.remove(owner)
        self._checked.pop(owner, None)
        self._moved.pop(owner, None)
        self._plans.pop(owner, None)
        self._everywhere.pop(owner, None)
        for number in self._similar.pop(owner, ()):
            self.interner.similar.release(number)

    def is_removed(self, owner: int) -> bool:
        """Was this owner removed?"""
        dead = self.clauses.snapshot().dead
        return owner >> 6 < dead.size and bool(int(dead[owner >> 6]) >> (owner & 63) & 1)

    def _add_clauses(self, keys: list[U32], owner: int) -> None:
        first = np.zeros(len(keys) + 1, np.int64)
        np.cumsum([one.size for one in keys], out=first[1:])
        owners = np.full(len(keys), owner, np.uint32)
        self.clauses.add(first, np.concatenate(keys), owners, self.frequency())
        if self.clauses.delta.count >= 32_768:
            self._tidy()

    def _tidy(self) -> None:
        """Seals a full delta; segments that should be one are merged by another thread, and swapped in when done."""
        self.clauses.seal(self.frequency())
        self._swap_in_merged()
        crowded = self.clauses.crowded()
        if crowded and self._merging is None:
            dead, frequency = self.clauses.snapshot().dead, self.frequency().copy()
            self._merging = crowded, _merger().submit(merge, crowded, dead, frequency)

    def _swap_in_merged(self) -> None:
        if self._merging is not None and self._merging[1].done():
            merged, task = self._merging
            self._merging = None
            if self.clauses.replace(merged, task.result()):
                self._work_when_organised = self.work()

    def settle(self) -> None:
        """Waits until nothing is left to merge."""
        self._tidy()
        while self._merging is not None:
            self._merging[1].result()
            self._tidy()

    # --- keeping -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that is small: words, frequencies, removed owners, and the text of queries that are checked."""
        texts = [(query if isinstance(query, str) else show(query)).encode() for query in self._checked.values()]
        return {
            **self.interner.arrays(),
            "frequency": self._frequency,
            "dead": self.clauses.snapshot().dead,
            "checked_owners": np.fromiter(self._checked, np.uint32, len(self._checked)),
            "checked_ends": np.cumsum([len(text) for text in texts], dtype=np.int64),
            "checked_texts": np.frombuffer(b"".join(texts), np.uint8),
            "moved": np.frombuffer(json.dumps(list(self._moved.items())).encode(), np.uint8),
            "everywhere": np.fromiter(self._everywhere, np.uint32, len(self._everywhere)),
            "similar_owners": np.repeat(
                np.fromiter(self._similar, np.uint32, len(self._similar)), list(map(len, self._similar.values()))
            ),
            "similar_keys": np.array([key for keys in self._similar.values() for key in keys], np.uint32),
        }

    def segments(self) -> tuple[Segment, ...]:
        """The clauses, all of them sealed."""
        if self.clauses.delta.count:
            dead = self.clauses.snapshot().dead
            sealed = self.clauses.delta.seal(dead, self.frequency())
            self.clauses = Clauses([*self.clauses.segments, sealed], dead)
        self.settle()
        return self.clauses.segments

    def about(self) -> dict[str, Any]:
        """What is no array."""
        return {"next_owner": self.next_owner, "work": self._work_when_organised, **self.interner.about()}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any], segments: Sequence[Segment]
    ) -> QueryIndex:
        """Undo arrays(), about() and segments(); arrays may be memory-mapped."""
        interner = Interner.from_arrays(arrays, about)
        self = cls(interner.analysis, interner, Clauses(segments, arrays["dead"]))
        self.next_owner, self._work_when_organised = about["next_owner"], about["work"]
        self._frequency = arrays["frequency"].copy()
        texts, ends = bytes(arrays["checked_texts"]), arrays["checked_ends"].tolist()
        spans = zip([0, *ends], ends, strict=False)
        owners = arrays["checked_owners"].tolist()
        self._checked = {owner: texts[start:end].decode() for owner, (start, end) in zip(owners, spans, strict=True)}
        if "moved" in arrays:
            self._moved = dict(json.loads(bytes(arrays["moved"])))
        self._everywhere = dict.fromkeys(arrays["everywhere"].tolist())
        for owner, key in zip(arrays["similar_owners"].tolist(), arrays["similar_keys"].tolist(), strict=True):
            self._similar[owner] = (*self._similar.get(owner, ()), key)
        return self

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without the texts of queries."""
        return self.clauses.nbytes + self.interner.nbytes + self._frequency.nbytes

    # --- document frequencies ------------------------------------------------------------------

    def frequency(self) -> U32:
        """In how many documents each key was seen; key 0 counts all documents."""
        keys = self.interner.keys_end
        if keys > self._frequency.size:
            longer = np.zeros(max(keys, 2 * self._frequency.size), np.uint32)
            longer[: self._frequency.size] = self._frequency
            self._frequency = longer
        return self._frequency

    def work(self) -> float:
        """Clauses that a document visits on average, by the frequencies seen so far."""
        seen = int(self._frequency[0])
        if not seen:
            return 0.0
        visited = 0.0
        for segment in self.clauses.segments:
            waiting = (segment.first[1:] - segment.first[:-1]).astype(np.float64)
            visited += float(waiting @ self.frequency()[: waiting.size])
        return visited / seen

    def reorganise(self) -> None:
        """Registers every clause anew on its rarest key of today, and forgets removed ones (P2P-DIET §4.1)."""
        dead = self.clauses.snapshot().dead
        living = [*self.clauses.segments, self.clauses.delta.seal(dead, self.frequency())]
        self.clauses = Clauses([merge(living, dead, self.frequency())], dead)
        self._merging = None
        self._work_when_organised = self.work()

    def reorganise_if_drifted(self) -> bool:
        """Reorganises if a document costs twice the work it did when the index was last in order."""
        if int(self._frequency[0]) < DOCUMENTS_BEFORE_DRIFT or not self.clauses.segments:
            return False
        if self._work_when_organised and self.work() <= DRIFT * self._work_when_organised:
            return False
        self.reorganise()
        return True

    # --- matching ------------------------------------------------------------------------------

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> tuple[U32, npt.NDArray[np.int64]]:
        """(owner, index of the document) for every match, by document, then by owner."""
        owners: list[U32] = []
        places: list[npt.NDArray[np.int64]] = []
        self._swap_in_merged()
        snapshot = self.clauses.snapshot()
        for start in range(0, len(documents), DOCUMENTS_MAX):
            batch = documents[start : start + DOCUMENTS_MAX]
            found, bounds = by_document(*self._match_batch(batch, knowledge, snapshot))
            owners.append(found)
            places.append(np.repeat(np.arange(start, start + bounds.size - 1), np.diff(bounds)))
        if not owners:
            return np.empty(0, np.uint32), np.empty(0, np.int64)
        return np.concatenate(owners), np.concatenate(places)

    def match_lines(self, lines: Lines, knowledge: Knowledge, limits: DocumentLimits = DEFAULTS.document) -> Found:
        """match() of the documents in JSON lines, and what is wrong with lines that are no documents."""
        self._swap_in_merged()
        snapshot, finding = self.clauses.snapshot(), Finding(lines)
        self._room = self._room or Room()
        begin = 0
        while begin < len(lines):
            scan = Scan.of(lines, begin, limits, self._room)
            finding.add_scan(scan)
            prepared = self._marker.prepare(scan)
            line_of = np.delete(np.arange(len(scan)), list(scan.refused))
            for batch, start in enumerate(range(0, scan.documents, DOCUMENTS_MAX)):
                here = line_of[start : start + DOCUMENTS_MAX]
                documents = LateDocuments(scan, here.tolist(), limits)
                self._begin(len(documents), snapshot)
                self._marker.mark_lines(prepared, batch, documents, self._marks, knowledge.statistics)
                found, bounds = by_document(*self._match_marks(documents, knowledge, snapshot, LateBatch))
                finding.add_matches(found, np.repeat(begin + here, np.diff(bounds[: here.size + 1])))
            begin += len(scan)
        return finding.found()

    def _match_batch(self, documents: Sequence[Document], knowledge: Knowledge, snapshot: ClauseSet) -> tuple[U32, U64]:
        self._begin(len(documents), snapshot)
        self._marker.mark(documents, self._marks, knowledge.statistics)
        return self._match_marks(documents, knowledge, snapshot, Batch)

    def _begin(self, documents: int, snapshot: ClauseSet) -> None:
        self._marks.begin(documents, max(self.interner.keys_end, snapshot.keys))

    def _match_marks(
        self, documents: Sequence[Document], knowledge: Knowledge, snapshot: ClauseSet, kind: type[Batch]
    ) -> tuple[U32, U64]:
        """The owners whose queries hold in documents that are marked."""
        owners, masks = snapshot.match(self._marks, self._scratch)
        self._count(self._marks)
        if self._checked:
            batch = kind(documents, knowledge, lambda key: int(self._marks.masks[key]))
            owners, masks = self._check(owners, masks, batch)
        self.counts.documents += len(documents)
        return owners, masks

    def _check(self, owners: U32, masks: U64, batch: Batch) -> tuple[U32, U64]:
        """Keeps the exact owners, and the others where their plan holds."""
        checked = self._checked
        candidates: dict[int, int] = dict.fromkeys(self._everywhere, (1 << len(batch.documents)) - 1)
        keep = np.ones(owners.size, bool)
        for at, (owner, mask) in enumerate(zip(owners.tolist(), masks.tolist(), strict=True)):
            if owner in checked:
                keep[at] = False
                candidates[owner] = candidates.get(owner, 0) | mask
        found: dict[int, int] = {}
        for owner, mask in candidates.items():
            self.counts.tried[owner] += mask.bit_count()
            self.counts.candidates += mask.bit_count()
            try:
                held = self._plan(owner)(batch, mask)
            except Exception as error:  # one query's trouble must not cost the others their matches
                self.counts.errors[owner] = f"{type(error).__name__}: {error}"
                continue
            if held:
                found[owner] = held
        self.counts.checks += batch.checks
        more = np.fromiter(found.keys(), np.uint32, len(found))
        held_masks = np.fromiter(found.values(), np.uint64, len(found))
        return np.concatenate([owners[keep], more]), np.concatenate([masks[keep], held_masks])

    def _plan(self, owner: int) -> Plan:
        plan = self._plans.get(owner)
        if plan is None:
            query = self._checked[owner]
            tree = parse(query, self.analysis, ANY_SIZE) if isinstance(query, str) else query
            tree = attached(tree, from_text(self._moved.get(owner)))
            plan = self._plans[owner] = self._planner.plan(tree)
        return plan

    def _exact(self, atom: Atom) -> tuple[int, ...] | None:
        """The key numbers of an atom that asks for nothing but a key."""
        if isinstance(atom, Similar):
            return (self.interner.similar.number(atom),)
        keys = exact_keys(atom, self.analysis)
        return None if keys is None else self.interner.numbers(keys)

    def _count(self, marks: Marks) -> None:
        """Document frequencies are counted as documents come by (D8)."""
        kernels.count_marks(marks.keys(), frozen(marks.masks), self.frequency())


def is_plain(text: str) -> bool:
    """Is the query nothing but ASCII words side by side?"""
    return text.isascii() and text.replace(" ", "").isalnum() and not _OPERATORS.intersection(text.split())


_OPERATORS = frozenset({"AND", "OR", "NOT", "NEAR"})


class IndexEngine:
    """The index as an engine: numbers chosen by the caller, in and out."""

    def __init__(self, analysis: Analysis) -> None:
        self.index = QueryIndex(analysis)
        self._owner: dict[int, int] = {}
        self._number = np.zeros(1024, np.int64)

    @property
    def counts(self) -> Counts:
        """The index's counts, by number."""
        counts, number = self.index.counts, self._number
        tried = Counter({int(number[owner]): count for owner, count in counts.tried.items()})
        errors = {int(number[owner]): reason for owner, reason in counts.errors.items()}
        return Counts(counts.documents, counts.candidates, counts.checks, tried, errors)

    def add(self, number: int, query: Query) -> None:
        """Registers a query."""
        owner = self.index.add(query)
        if owner >= self._number.size:
            self._number = np.concatenate([self._number, np.zeros(self._number.size, np.int64)])
        self._owner[number], self._number[owner] = owner, number

    def remove(self, number: int) -> None:
        """Forgets a query."""
        self.index.remove(self._owner.pop(number))

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> list[list[int]]:
        """For each document the numbers of the queries that hold, ascending."""
        owners, places = self.index.match(documents, knowledge)
        self.index.reorganise_if_drifted()
        numbers = self._number[owners]
        bounds = np.searchsorted(places, np.arange(len(documents) + 1))
        return [sorted(numbers[start:end].tolist()) for start, end in _ranges(bounds)]


def _ranges(bounds: npt.NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    return zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
