"""Segments, deltas, snapshots and merging, against the plain definition."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.match import kernels, reference, segments
from tocsin.match.kernels import KEY_MAX
from tocsin.match.segments import Clauses, ClauseSet, Marks, Scratch, Segment, by_document, due, has_bits, merge, pairs

COMPILED = kernels.COMPILED
VOLUME = 60 if COMPILED else 4
NOBODY = np.zeros(1, np.uint64)
UNKNOWN = np.zeros(0, np.uint32)
CLAUSES = st.lists(st.lists(st.integers(0, 15), max_size=6), max_size=25)
MARKS = st.dictionaries(st.integers(1, 15), st.integers(1, 2**64 - 1), max_size=15)


def flat(clauses: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    first = np.cumsum([0, *map(len, clauses)]).astype(np.int64)
    return first, np.array([key for clause in clauses for key in clause], np.uint32)


def ids(start: int, count: int) -> np.ndarray:
    return np.arange(start, start + count, dtype=np.uint32)


def marked(occurring: dict[int, int], documents: int = 64, keys: int = 200) -> Marks:
    marks = Marks()
    marks.begin(documents, keys)
    masks, touched = marks.to_fill(1)
    for key, mask in occurring.items():
        if mask & (1 << documents) - 1:
            masks[key] = mask & (1 << documents) - 1
            touched[key >> 6] |= np.uint64(1 << (key & 63))
    return marks


def answer(found: tuple[np.ndarray, np.ndarray]) -> dict[int, int]:
    owners, masks = found
    answered = dict(zip(owners.tolist(), masks.tolist(), strict=True))
    assert len(answered) == owners.size, "an owner was reported twice"
    return answered


def match(segment: Segment, marks: Marks) -> dict[int, int]:
    return answer(segment.owners(*segment.match(marks, Scratch()), NOBODY))


@given(CLAUSES, MARKS, st.integers(1, 64), st.lists(st.integers(0, 9), max_size=16))
def test_a_segment_finds_exactly_the_clauses_that_hold(
    clauses: list[list[int]], occurring: dict[int, int], documents: int, frequency: list[int]
) -> None:
    segment = Segment.build(*flat(clauses), ids(0, len(clauses)), np.array(frequency, np.uint32))
    batch = (1 << documents) - 1
    occurring = {key: mask & batch for key, mask in occurring.items()}
    wanted = [sorted(set(clause) - {0}) for clause in clauses]
    assert match(segment, marked(occurring, documents)) == reference.match_masks(wanted, occurring, batch)
    assert segment.clauses == len(clauses)
    assert segment.entries == len(set(map(tuple, wanted)))


def test_the_empty_clause_holds_in_every_document() -> None:
    segment = Segment.build(*flat([[], [0], [3]]), ids(5, 3), UNKNOWN)
    assert match(segment, marked({}, 3)) == {5: 7, 6: 7}
    assert match(segment, marked({}, 1)) == {5: 1, 6: 1}


def test_a_segment_is_frozen_flat_arrays() -> None:
    segment = Segment.build(*flat([[1, 2, 3, 4, 5], [1]]), ids(0, 2), UNKNOWN)
    with pytest.raises(FrozenInstanceError):
        segment.first = UNKNOWN  # type: ignore[misc]
    for array in (getattr(segment, field.name) for field in fields(segment)):
        assert (array.ndim, array.dtype, array.flags.writeable) == (1, np.uint32, False)
    assert segment.nbytes == sum(getattr(segment, field.name).nbytes for field in fields(segment))
    again = Segment(*(getattr(segment, field.name).copy() for field in fields(segment)))
    assert match(again, marked({1: 1})) == {1: 1}


def test_a_segment_may_be_mapped_from_files(tmp_path: Path) -> None:
    segment = Segment.build(*flat([[1, 2, 3, 4, 5], [1], [1, 2, 3]]), ids(0, 3), UNKNOWN)
    arrays = []
    for field in fields(segment):
        np.save(tmp_path / field.name, getattr(segment, field.name))
        arrays.append(np.load(tmp_path / f"{field.name}.npy", mmap_mode="r"))
    opened = Segment(*arrays)
    assert type(opened.first) is np.ndarray
    assert match(opened, marked({1: 3, 2: 1, 3: 1})) == {1: 3, 2: 1}


def test_a_clause_waits_under_its_rarest_key() -> None:
    frequency = np.array([0, 50, 7, 90], np.uint32)
    segment = Segment.build(*flat([[1, 2, 3]]), ids(0, 1), frequency)
    assert (np.flatnonzero(np.diff(segment.first)).tolist(), segment.second.tolist(), segment.third.tolist()) == (
        [2],
        [1],
        [3],
    )


def test_three_words_take_at_most_25_bytes_without_their_ids() -> None:
    """And clauses with the same keys are stored once: another owner costs its id."""
    chance = np.random.default_rng(3)
    count = 50_000 if COMPILED else 500
    keys = np.sort(chance.integers(1, count // 10, (count, 3)) + np.array([0, count, 2 * count]), axis=1)
    first, unit = np.arange(0, 3 * count + 1, 3), ids(0, count)
    segment = Segment.build(first, keys.astype(np.uint32).ravel(), unit, UNKNOWN)
    assert segment.nbytes - 4 * count <= 25 * count
    once = Segment.build(*flat([[1, 2, 3]] * 100), ids(0, 100), UNKNOWN)
    assert (once.entries, once.clauses, once.shared.size) == (1, 100, 100)
    assert match(once, marked({1: 1, 2: 3, 3: 5})) == dict.fromkeys(range(100), 1)


def test_limits_are_named() -> None:
    with pytest.raises(ValueError, match=f"keys go up to {KEY_MAX}"):
        Segment.build(*flat([[KEY_MAX + 1]]), ids(0, 1), UNKNOWN)
    with pytest.raises(ValueError, match="owners up to"):
        Segment.build(*flat([[1]]), np.array([1 << 31], np.uint32), UNKNOWN)
    with pytest.raises(ValueError, match="1 to 64 fit"):
        Marks().begin(65, 10)
    with pytest.raises(ValueError, match="this batch has 2"):
        marked({}, documents=2).to_fill(3)
    segment = Segment.build(*flat([[500]]), ids(0, 1), UNKNOWN)
    with pytest.raises(ValueError, match="clauses name 501"):
        segment.match(marked({}, keys=64), Scratch())


def test_a_clause_of_4096_keys() -> None:
    keys = list(range(1, 4097)) if COMPILED else list(range(1, 300))
    chance = random.Random(1)
    chance.shuffle(keys)
    segment = Segment.build(*flat([keys, keys[::-1], keys[:-1]]), ids(0, 3), UNKNOWN)
    assert segment.entries == 2
    marks = marked(dict.fromkeys(keys, 9), keys=5_000)
    assert match(segment, marks) == {0: 9, 1: 9, 2: 9}
    assert match(segment, marked(dict.fromkeys(keys[:-1], 9), keys=5_000)) == {2: 9}
    assert match(segment, marked(dict.fromkeys(keys[1:], 9), keys=5_000)) == {}


# --- deltas and snapshots --------------------------------------------------------------------------------------------


def test_an_added_clause_is_seen_by_the_next_snapshot_only() -> None:
    clauses = Clauses()
    clauses.add(*flat([[1, 2]]), ids(0, 1), UNKNOWN)
    before = clauses.snapshot()
    clauses.add(*flat([[1], [2, 70, 3, 4], [1, 2]]), ids(1, 3), UNKNOWN)
    marks, scratch = marked({1: 3, 2: 1, 3: 1, 4: 1, 70: 1}), Scratch()
    assert answer(before.match(marks, scratch)) == {0: 1}
    assert answer(clauses.snapshot().match(marks, scratch)) == {0: 1, 1: 3, 2: 1, 3: 1}


def test_a_removed_clause_is_gone_from_the_next_snapshot_only() -> None:
    clauses = Clauses()
    clauses.add(*flat([[1], [1], [1, 2]]), ids(0, 3), UNKNOWN)
    marks, scratch = marked({1: 1, 2: 1}), Scratch()
    old = clauses.snapshot()
    clauses.remove(1)
    middle = clauses.snapshot()
    clauses.remove(100)
    clauses.remove(2)
    assert answer(old.match(marks, scratch)) == {0: 1, 1: 1, 2: 1}
    assert answer(middle.match(marks, scratch)) == {0: 1, 2: 1}
    assert answer(clauses.snapshot().match(marks, scratch)) == {0: 1}


def test_an_empty_set_of_clauses_matches_nothing() -> None:
    snapshot = Clauses().snapshot()
    assert answer(snapshot.match(marked({1: 1}), Scratch())) == {}
    assert snapshot.segments == ()


@given(st.lists(CLAUSES, min_size=1, max_size=4), MARKS, st.sets(st.integers(0, 60)))
def test_merging_forgets_the_dead_and_keeps_the_rest(
    parts: list[list[list[int]]], occurring: dict[int, int], removed: set[int]
) -> None:
    dead = np.zeros(1, np.uint64)
    for owner in removed:
        dead[0] |= np.uint64(1 << owner)
    built, start = [], 0
    for part in parts:
        built.append(Segment.build(*flat(part), ids(start, len(part)), UNKNOWN))
        start += len(part)
    merged = merge(built, dead, np.arange(16, dtype=np.uint32))
    wanted = [sorted(set(clause) - {0}) for part in parts for clause in part]
    expected = reference.match_masks(wanted, occurring, 2**64 - 1)
    living = {owner: mask for owner, mask in expected.items() if owner not in removed}
    assert match(merged, marked(occurring)) == living
    assert merged.clauses == len(set(range(len(wanted))) - removed)


@given(st.lists(st.integers(1, 5_000), max_size=12))
def test_due_leaves_sizes_that_fall_steeply(sizes: list[int]) -> None:
    begin = due(sizes)
    left = [*sizes[:begin], sum(sizes[begin:])] if sizes else []
    assert all(later * segments.MERGE_RATIO < earlier for earlier, later in pairwise(left))


def test_there_are_at_most_six_segments_of_five_million_clauses() -> None:
    sizes: list[int] = []
    moved = 0
    for _ in range(5_000_000 // segments.SEALED_AT):
        sizes.append(segments.SEALED_AT)
        begin = due(sizes)
        moved += sum(sizes[begin:])
        sizes[begin:] = [sum(sizes[begin:])]
        assert len(sizes) <= 6
    assert moved < 20 * 5_000_000, "a clause is moved so often in its life, on average"


@pytest.mark.parametrize("seed", range(2))
def test_a_life_of_adding_removing_and_tidying(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snapshot of a long random life finds what the list of its living clauses says."""
    monkeypatch.setattr(segments, "SEALED_AT", 40)
    chance = random.Random(seed)
    clauses, scratch = Clauses(), Scratch()
    living: dict[int, list[int]] = {}
    kept: list[tuple[ClauseSet, dict[int, list[int]]]] = []
    issued = 0
    for _ in range(VOLUME):
        many = chance.choice([1, 1, 1, 5, 60])
        new = [
            [chance.randint(0, 150) // chance.choice([1, 30]) for _ in range(chance.randint(0, 5))] for _ in range(many)
        ]
        frequency = np.array([chance.randrange(9) for _ in range(150)], np.uint32)
        clauses.add(*flat(new), ids(issued, many), frequency)
        living.update((issued + at, sorted(set(clause) - {0})) for at, clause in enumerate(new))
        issued += many
        for owner in chance.sample(sorted(living), k=min(len(living), chance.choice([0, 0, 2, 20]))):
            clauses.remove(owner)
            del living[owner]
        if chance.random() < 0.5:
            clauses.tidy(frequency)
            assert len(clauses.segments) <= 6
        kept = [*kept[-2:], (clauses.snapshot(), dict(living))]
        for snapshot, alive in kept:
            documents = chance.choice([1, 2, 64])
            batch = (1 << documents) - 1
            occurring = {key: mask for key in range(1, 151) if (mask := chance.getrandbits(64) & batch)}
            owners = sorted(alive)
            expected = reference.match_masks([alive[owner] for owner in owners], occurring, batch)
            found = answer(snapshot.match(marked(occurring, documents), scratch))
            assert found == {owners[number]: mask for number, mask in expected.items()}
    assert clauses.nbytes > 0
    assert clauses.snapshot().keys <= 151


def test_pairs_and_owners_by_document() -> None:
    owners, masks = np.array([9, 7, 9], np.uint32), np.array([1 << 63, 5, 4], np.uint64)
    pair_owner, pair_doc = pairs(owners, masks)
    assert list(zip(pair_owner.tolist(), pair_doc.tolist(), strict=True)) == [(9, 63), (7, 0), (7, 2), (9, 2)]
    found, bounds = by_document(owners, masks)
    assert found.tolist() == [7, 7, 9, 9]
    assert bounds.tolist() == [0, 1, 1, *[3] * 61, 4]
    assert owners.tolist() == [9, 7, 9]


def test_bit_sets_end_where_they_end() -> None:
    numbers = np.array([0, 1, 64, 99], np.uint32)
    assert has_bits(np.array([2], np.uint64), numbers).tolist() == [False, True, False, False]


def test_marks_forget_the_last_batch() -> None:
    marks = marked({3: 7, 150: 1}, documents=3)
    assert marks.keys().tolist() == [0, 3, 150]
    marks.begin(2, 10_000)
    assert marks.keys().tolist() == [0]
    assert marks.masks.nonzero()[0].tolist() == [0]
    assert int(marks.masks[0]) == 3
    masks, touched = marks.to_fill(1)
    masks[9_999], touched[9_999 >> 6] = 2, np.uint64(1 << (9_999 & 63))
    assert marks.keys().tolist() == [0, 9_999]
