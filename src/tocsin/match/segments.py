"""Clauses in segments: which of millions of conjunctions hold in a batch of documents.

A *segment* is immutable: flat arrays sorted so that matching reads them from front to back (`kernels`). Clauses with
the same keys are stored once, as an *entry* with several owners. New clauses go into a *delta*, chained by their rarest
key, visible at once; when it is full it is sealed into a segment, and segments of similar size are merged, so that
there are few (`due`). P2P-DIET §4 re-organises its tries periodically for the same reason: merging sees all clauses at
once, forgets removed ones, and chooses the rarest key of each by the document frequencies of that day.

An owner id is the caller's, below 2^31 and never used twice: a clause that must be registered anew gets a new id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tocsin.match import kernels
from tocsin.match.kernels import I64, KEY_MAX, U8, U32, U64

DOCUMENTS_MAX = 64  # in one batch
SEALED_AT = 32_768  # clauses of a delta
MERGE_RATIO = 3  # a segment is merged with those before it that are at most so many times as large
OWNER_MAX = (1 << 31) - 1

_NOTHING: U32 = np.empty(0, np.uint32)
_NOTHING.flags.writeable = False
_A = TypeVar("_A", bound=npt.NDArray[Any])


def frozen(array: _A) -> _A:
    """The same memory, read only: a plain array, also where it is mapped from a file."""
    if not array.flags.writeable:
        return np.asarray(array)  # type: ignore[return-value]
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view  # type: ignore[return-value]


class Marks:
    """Which keys occur in which of up to 64 documents: one mask for each key. One thread fills and reads it."""

    __slots__ = ("_collected", "_keys", "documents", "masks", "touched")

    def __init__(self) -> None:
        self.documents = 0
        self.masks: U64 = np.zeros(64, np.uint64)
        self.touched: U64 = np.zeros(1, np.uint64)  # one bit for each key whose mask may not be 0
        self._keys: U32 = np.empty(64, np.uint32)
        self._collected = 0

    def begin(self, documents: int, keys: int) -> None:
        """Forget the last batch; key numbers below keys may come, later ones will be passed over."""
        if not 1 <= documents <= DOCUMENTS_MAX:
            raise ValueError(f"{documents} documents in a batch: 1 to {DOCUMENTS_MAX} fit")
        kernels.clear_marks(self.keys(), self.masks, self.touched)
        if keys > self.masks.size:
            blocks = max(keys // 64 + 1, self.touched.size * 5 // 4)
            self.masks = np.zeros(64 * blocks, np.uint64)
            self.touched = np.zeros(blocks, np.uint64)
            self._keys = np.empty(64 * blocks, np.uint32)
        self.documents = documents
        self.masks[0] = (1 << documents) - 1
        self.touched[0] = 1
        self._collected = 0

    def to_fill(self, documents: int) -> tuple[U64, U64]:
        """masks and touched, for a kernel that marks so many documents."""
        if documents > self.documents:
            raise ValueError(f"{documents} documents to mark, but this batch has {self.documents}")
        self._collected = 0
        return self.masks, self.touched

    def keys(self) -> U32:
        """The keys that occur, in order."""
        if not self._collected:
            self._collected = kernels.collect_touched(self.touched, self._keys)
        return frozen(self._keys[: self._collected])


class Scratch:
    """Room that matching uses again and again: fresh memory would cost more than the work. For one thread at a time."""

    __slots__ = ("_entries", "_found", "_masks", "_owners")

    def __init__(self) -> None:
        self._entries: U32 = np.empty(1024, np.uint32)
        self._found: U64 = np.empty(1024, np.uint64)
        self._owners: U32 = np.empty(1024, np.uint32)
        self._masks: U64 = np.empty(1024, np.uint64)

    def entries(self, count: int) -> tuple[U32, U64]:
        """Room for so many entries and their masks."""
        if self._entries.size < count:
            self._entries = np.empty(count, np.uint32)
            self._found = np.empty(count, np.uint64)
        return self._entries, self._found

    def owners(self, count: int) -> tuple[U32, U64]:
        """The owners and masks that were found so far."""
        return self._owners[:count], self._masks[:count]

    def add_owners(self, count: int, found: tuple[U32, U64], owner: U32, shared: U32, dead: U64) -> int:
        """Append the living owners of the entries found after the first so many; returns how many there are then."""
        entries, masks = frozen(found[0]), frozen(found[1])
        while True:
            total = kernels.expand_owners(entries, masks, owner, shared, dead, count, self._owners, self._masks)
            if total <= self._owners.size:
                return total
            self._owners, self._masks = _longer(self._owners, total), _longer(self._masks, total)


@dataclass(frozen=True, slots=True)
class Segment:
    """Distinct clauses (entries) under their rarest keys. All arrays are flat and read only: see kernels.Postings."""

    first: U32
    second: U32
    third: U32
    rest: U32
    owner: U32  # of each entry: its owner, or MORE and a place in shared
    shared: U32  # owners of entries that have several, MORE on all but the last

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, frozen(getattr(self, field.name)))

    @classmethod
    def build(cls, first: I64, keys: U32, ids: U32, frequency: U32) -> Segment:
        """Clause i has the keys keys[first[i]:first[i + 1]] and the owner ids[i]; frequency tells rare keys."""
        clauses = _Sorted.of(first, keys, frequency)
        count, size = ids.size, int(keys.max(initial=0)) + 1
        if size - 1 > KEY_MAX or int(ids.max(initial=0)) > OWNER_MAX:
            raise ValueError(f"keys go up to {KEY_MAX} and owners up to {OWNER_MAX}")
        bounds = np.zeros(size + 1, np.int64)
        order, rank, repeats = np.empty(count, np.uint32), np.empty(count, np.uint64), np.empty(count, np.uint8)
        kernels.place_clauses(*clauses.arrays, bounds, order, rank)
        kernels.sort_postings(bounds, order, rank, *clauses.arrays)
        entries, rest, shared = kernels.find_repeats(bounds, order, rank, *clauses.arrays, repeats)
        postings = kernels.Postings(*(np.empty(size, np.uint32) for size in (size + 1, entries, entries, rest)))
        owner, several = np.empty(entries, np.uint32), np.empty(shared, np.uint32)
        kernels.write_postings(bounds, order, repeats, *clauses.arrays, frozen(ids), postings, owner, several)
        return cls(*postings, owner, several)

    @property
    def entries(self) -> int:
        """How many distinct clauses there are."""
        return self.second.size

    @property
    def clauses(self) -> int:
        """How many clauses there are, removed ones included."""
        several = int(np.count_nonzero(self.owner >> 31))
        return self.entries - several + self.shared.size

    @property
    def keys(self) -> int:
        """All key numbers are below this."""
        return self.first.size - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    @property
    def postings(self) -> kernels.Postings:
        """What the kernels read."""
        return kernels.Postings(self.first, self.second, self.third, self.rest)

    def match(self, marks: Marks, scratch: Scratch) -> tuple[U32, U64]:
        """The entries that hold in some document, with the mask of those. Valid until scratch is used again."""
        _require(marks, self.keys)
        entries, found = scratch.entries(self.entries + 1)
        if marks.documents == 1:
            count = kernels.match_one(marks.keys(), frozen(marks.touched), self.postings, entries)
            found[:count] = 1
        else:
            count = kernels.match_masks(marks.keys(), frozen(marks.masks), self.postings, entries, found)
        return entries[:count], found[:count]

    def owners(self, entries: U32, found: U64, dead: U64) -> tuple[U32, U64]:
        """The owners of entries, with their masks, but for those in the bit set dead."""
        room = entries.size
        while True:
            owners, masks = np.empty(room, np.uint32), np.empty(room, np.uint64)
            count = kernels.expand_owners(
                frozen(entries), frozen(found), self.owner, self.shared, frozen(dead), 0, owners, masks
            )
            if count <= room:
                return owners[:count], masks[:count]
            room = count

    def read(self, dead: U64) -> tuple[I64, U32, U32]:
        """The clauses of living owners again, as build() takes them."""
        first, keys, ids = np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32)
        while True:
            clauses, size = kernels.read_postings(
                self.postings, self.owner, self.shared, frozen(dead), first, keys, ids
            )
            if clauses < first.size:
                return first, keys, ids
            first, keys, ids = np.empty(clauses + 1, np.int64), np.empty(size, np.uint32), np.empty(clauses, np.uint32)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Clauses with the rarest key of each first."""

    first: I64
    keys: U32
    lengths: U32

    @classmethod
    def of(cls, first: I64, keys: U32, frequency: U32) -> _Sorted:
        ordered, lengths = np.empty(keys.size, np.uint32), np.empty(first.size - 1, np.uint32)
        kernels.rarest_first(frozen(first), frozen(keys), frozen(frequency), ordered, lengths)
        return cls(frozen(first), frozen(ordered), frozen(lengths))

    @property
    def arrays(self) -> tuple[I64, U32, U32]:
        return self.first, self.keys, self.lengths


class Delta:
    """New clauses, chained by their rarest keys. One thread adds; others match what `count` was when they looked."""

    def __init__(self, keys: int = 0) -> None:
        self.count = 0
        self.keys = 1  # all key numbers are below this
        self._rest_used = 0
        self._chains = kernels.Chains(*(np.zeros(size, np.uint32) for size in (max(64, keys), 64, 64, 64, 64)))
        self._key_of = np.zeros(64, np.uint32)
        self._owner = np.zeros(64, np.uint32)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(array.nbytes for array in (*self._chains, self._key_of, self._owner))

    def add(self, first: I64, keys: U32, ids: U32, frequency: U32) -> None:
        """Add clauses, given as to Segment.build."""
        clauses = _Sorted.of(first, keys, frequency)
        self.keys = max(self.keys, int(keys.max(initial=0)) + 1)
        self._reserve(ids.size, keys.size)
        self._owner[self.count : self.count + ids.size] = ids
        self._rest_used = kernels.add_chains(*clauses.arrays, self.count, self._chains, self._key_of, self._rest_used)
        self.count += ids.size

    def view(self) -> DeltaView:
        """What there is now; later clauses do not appear in it."""
        return DeltaView(kernels.Chains(*map(frozen, self._chains)), frozen(self._owner), self.count, self.keys)

    def read(self, dead: U64) -> tuple[I64, U32, U32]:
        """The clauses of living owners, as Segment.build takes them."""
        first, keys, ids = np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint32)
        view = self.view()
        while True:
            clauses, size = kernels.read_chains(
                view.chains, frozen(self._key_of), view.owner, view.count, frozen(dead), first, keys, ids
            )
            if clauses < first.size:
                return first, keys, ids
            first, keys, ids = np.empty(clauses + 1, np.int64), np.empty(size, np.uint32), np.empty(clauses, np.uint32)

    def seal(self, dead: U64, frequency: U32) -> Segment:
        """All living clauses as a segment."""
        return Segment.build(*self.read(dead), frequency)

    def _reserve(self, clauses: int, rest: int) -> None:
        head, following, second, third, further = self._chains
        if self.keys > head.size:
            head = _longer(head, self.keys)
        if self.count + clauses > following.size:
            following, second, third = (_longer(old, self.count + clauses) for old in (following, second, third))
            self._key_of = _longer(self._key_of, self.count + clauses)
            self._owner = _longer(self._owner, self.count + clauses)
        if self._rest_used + rest > further.size:
            further = _longer(further, self._rest_used + rest)
        self._chains = kernels.Chains(head, following, second, third, further)


@dataclass(frozen=True, slots=True)
class DeltaView:
    """The first clauses of a delta."""

    chains: kernels.Chains
    owner: U32
    count: int
    keys: int

    def match(self, marks: Marks, scratch: Scratch) -> tuple[U32, U64]:
        """The clauses that hold in some document, with the mask of those. Valid until scratch is used again."""
        _require(marks, self.keys)
        entries, found = scratch.entries(self.count + 1)
        keys, masks = marks.keys(), frozen(marks.masks)
        count = kernels.match_chains(keys, masks, self.chains, self.count, entries, found)
        return entries[:count], found[:count]


@dataclass(frozen=True, slots=True)
class ClauseSet:
    """One version of all clauses, for readers: matching needs no lock and changes nothing."""

    segments: tuple[Segment, ...]
    delta: DeltaView
    dead: U64

    @property
    def keys(self) -> int:
        """All key numbers are below this: what Marks.begin must be told, at least."""
        return max([self.delta.keys, *(segment.keys for segment in self.segments)])

    def match(self, marks: Marks, scratch: Scratch) -> tuple[U32, U64]:
        """The owners whose clauses hold in some document, with the mask of those, once for each of their clauses.

        Valid until scratch is used again.
        """
        count = 0
        for segment in self.segments:
            found = segment.match(marks, scratch)
            count = scratch.add_owners(count, found, segment.owner, segment.shared, self.dead)
        if self.delta.count:
            found = self.delta.match(marks, scratch)
            count = scratch.add_owners(count, found, self.delta.owner, _NOTHING, self.dead)
        return scratch.owners(count)


class Clauses:
    """All clauses of an index, for its one writer. `snapshot()` is what readers get; it costs microseconds."""

    def __init__(self, segments: Sequence[Segment] = (), dead: U64 | None = None) -> None:
        self.segments = tuple(segments)
        self.delta = Delta()
        self._dead = np.zeros(1, np.uint64) if dead is None else dead
        self._dead_is_shared = True

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(segment.nbytes for segment in self.segments) + self.delta.nbytes + self._dead.nbytes

    def add(self, first: I64, keys: U32, ids: U32, frequency: U32) -> None:
        """Add clauses, given as to Segment.build: many at once become a segment, few go into the delta."""
        if ids.size >= SEALED_AT:
            self.segments = (*self.segments, Segment.build(first, keys, ids, frequency))
        else:
            self.delta.add(first, keys, ids, frequency)

    def remove(self, owner: int) -> None:
        """The owner's clauses hold nowhere any more."""
        block = owner >> 6
        if block >= self._dead.size:
            self._dead = _longer(self._dead, block + 1)
        elif self._dead_is_shared:
            self._dead = self._dead.copy()
        self._dead_is_shared = False
        self._dead[block] |= np.uint64(1 << (owner & 63))

    def snapshot(self) -> ClauseSet:
        """This version, which later changes leave alone."""
        self._dead_is_shared = True
        return ClauseSet(self.segments, self.delta.view(), frozen(self._dead))

    def tidy(self, frequency: U32) -> bool:
        """Seal a full delta and merge what is due; did anything change? Takes up to a second per three million."""
        changed = self.seal(frequency)
        if crowded := self.crowded():
            self.replace(crowded, merge(crowded, self._dead, frequency))
        return changed or bool(crowded)

    def seal(self, frequency: U32) -> bool:
        """Make a segment of a full delta, in milliseconds; was it full?"""
        if self.delta.count < SEALED_AT:
            return False
        self.segments = (*self.segments, self.delta.seal(self._dead, frequency))
        self.delta = Delta(self.delta.keys)
        return True

    def crowded(self) -> tuple[Segment, ...]:
        """The segments that should be merged into one, if there are any."""
        begin = due([segment.clauses for segment in self.segments])
        return self.segments[begin:] if begin < len(self.segments) - 1 else ()

    def replace(self, merged: tuple[Segment, ...], by: Segment) -> bool:
        """Put a segment into the place of those it was merged from; False if they are no longer here."""
        for begin in range(len(self.segments) - len(merged) + 1):
            if all(a is b for a, b in zip(self.segments[begin:], merged, strict=False)):
                self.segments = (*self.segments[:begin], by, *self.segments[begin + len(merged) :])
                return True
        return False


def merge(segments: Sequence[Segment], dead: U64, frequency: U32) -> Segment:
    """One segment of the living clauses of several, by the frequencies of today."""
    parts = [segment.read(dead) for segment in segments]
    starts = np.cumsum([0, *(keys.size for _, keys, _ in parts)])
    first = [part[0][:-1] + start for part, start in zip(parts, starts, strict=False)]
    return Segment.build(
        np.concatenate([*first, starts[-1:]]).astype(np.int64),
        np.concatenate([keys for _, keys, _ in parts]),
        np.concatenate([ids for _, _, ids in parts]),
        frequency,
    )


def due(sizes: Sequence[int]) -> int:
    """Merge the segments from this one on: each but the first is at least a third of what is before it.

    Sizes so fall by more than MERGE_RATIO from one segment to the next: six segments hold eight million clauses if the
    last has 32,768.
    """
    begin = len(sizes) - 1
    total = sizes[begin] if sizes else 0
    for at in range(len(sizes) - 2, -1, -1):
        if sizes[at] <= MERGE_RATIO * total:
            begin = at
        total += sizes[at]
    return max(begin, 0)


def pairs(owners: U32, masks: U64) -> tuple[U32, U8]:
    """(owner, document number) for each bit of each mask, in the order of owners."""
    count = int(np.bitwise_count(masks).sum())
    pair_owner, pair_doc = np.empty(count, np.uint32), np.empty(count, np.uint8)
    kernels.expand_pairs(frozen(owners), frozen(masks), pair_owner, pair_doc)
    return pair_owner, pair_doc


def by_document(owners: U32, masks: U64) -> tuple[U32, I64]:
    """The owners of document d are found[bounds[d]:bounds[d + 1]], ascending and each once: (found, bounds)."""
    owners, masks = owners.copy(), masks.copy()
    count = kernels.order_owners(owners, masks, np.empty_like(owners), np.empty_like(masks))
    owners, masks = frozen(owners[:count]), frozen(masks[:count])
    bounds, found = np.zeros(DOCUMENTS_MAX + 1, np.int64), np.empty(int(np.bitwise_count(masks).sum()), np.uint32)
    kernels.expand_documents(owners, masks, bounds, found)
    return found, bounds


def has_bits(bits: U64, numbers: U32) -> npt.NDArray[np.bool_]:
    """Which numbers are in the bit set."""
    block = numbers >> 6
    inside: npt.NDArray[np.bool_] = block < bits.size
    bit = (bits[np.where(inside, block, 0)] >> (numbers & 63).astype(np.uint64)) & np.uint64(1)
    return inside & bit.astype(np.bool_)


def _longer(array: _A, size: int) -> _A:
    """A copy with room for so many, and for as many again as there are."""
    longer = np.zeros(max(size, 2 * array.size), array.dtype)
    longer[: array.size] = array
    return longer  # type: ignore[return-value]


def _require(marks: Marks, keys: int) -> None:
    if marks.masks.size < keys:
        raise ValueError(f"marks for {marks.masks.size} keys, but clauses name {keys}: say so to Marks.begin")
