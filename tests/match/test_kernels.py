"""Every kernel against its twin in plain Python, which is the definition."""

from __future__ import annotations

import inspect
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.match import kernels, line_kernels, reference
from tocsin.match.lexicon import pack
from tocsin.match.segments import frozen

COMPILED = kernels.COMPILED
VOLUME = 300 if COMPILED else 15

KEYS = st.integers(1, 90)
CLAUSES = st.lists(st.lists(st.integers(0, 20), max_size=7), max_size=30)
MARKS = st.dictionaries(KEYS, st.integers(1, 2**64 - 1), max_size=40)
FREQUENCIES = st.lists(st.integers(0, 5), max_size=25)
INSTRUCTIONS = ["word_bits", "load8", "lowest_bit", "count_bits", "fetch", "stop_bits", "high_bits"]


def public(module: object) -> set[str]:
    """The functions that a module defines for others."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and inspect.isroutine(getattr(value, "py_func", value))
        and getattr(value, "__module__", None) == module.__name__  # type: ignore[attr-defined]
    }


def test_every_kernel_has_a_twin_and_every_twin_a_kernel() -> None:
    modules = (kernels, line_kernels)
    compiled = {name: value for module in modules for name, value in vars(module).items() if hasattr(value, "py_func")}
    made = {name for name in compiled if not name.startswith("_")}
    if not COMPILED:
        made = (public(kernels) | public(line_kernels)) - {"kernel", "part", *INSTRUCTIONS}
    assert made | set(INSTRUCTIONS) == public(reference)


# --- helpers: lists to arrays and back -------------------------------------------------------------------------------


def u32(values: object) -> np.ndarray:
    return frozen(np.array(values, np.uint32).reshape(-1))


def flat(clauses: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    first = np.cumsum([0, *map(len, clauses)]).astype(np.int64)
    return frozen(first), u32([key for clause in clauses for key in clause])


def sorted_flat(clauses: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, keys = flat(clauses)
    return first, keys, u32([len(clause) for clause in clauses])


def masks_of(marks: dict[int, int], documents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    masks, touched = np.zeros(128, np.uint64), np.zeros(2, np.uint64)
    masks[0], touched[0] = documents, 1
    for key, mask in marks.items():
        masks[key] = mask & documents
        touched[key >> 6] |= np.uint64(1 << (key & 63))
    keys = np.empty(128, np.uint32)
    return frozen(keys[: kernels.collect_touched(touched, keys)]), frozen(masks), touched


def bit_set(numbers: set[int]) -> np.ndarray:
    bits = np.zeros(2, np.uint64)
    for number in numbers:
        bits[number >> 6] |= np.uint64(1 << (number & 63))
    return frozen(bits)


Written = tuple[kernels.Postings, np.ndarray, np.ndarray]


def written(clauses: list[list[int]], ids: list[int], keys: int = 128) -> Written:
    """The arrays of a segment, by the kernels."""
    arrays = sorted_flat(clauses)
    bounds, count = np.zeros(keys + 1, np.int64), len(clauses)
    order, rank, repeats = np.empty(count, np.uint32), np.empty(count, np.uint64), np.empty(count, np.uint8)
    kernels.place_clauses(*arrays, bounds, order, rank)
    kernels.sort_postings(bounds, order, rank, *arrays)
    entries, rest, shared = kernels.find_repeats(bounds, order, rank, *arrays, repeats)
    postings = kernels.Postings(*(np.empty(size, np.uint32) for size in (keys + 1, entries, entries, rest)))
    owner, several = np.empty(entries, np.uint32), np.empty(shared, np.uint32)
    kernels.write_postings(bounds, order, repeats, *arrays, u32(ids), postings, owner, several)
    return kernels.Postings(*map(frozen, postings)), frozen(owner), frozen(several)


def chained(clauses: list[list[int]]) -> tuple[kernels.Chains, np.ndarray]:
    first, keys, lengths = sorted_flat(clauses)
    room = len(clauses) + 1
    chains = kernels.Chains(*(np.zeros(size, np.uint32) for size in (128, room, room, room, keys.size + 1)))
    key_of = np.zeros(room, np.uint32)
    used = kernels.add_chains(first, keys, lengths, 0, chains, key_of, 0)
    assert used == sum(len(clause) - 2 for clause in clauses if len(clause) > 3)
    return kernels.Chains(*map(frozen, chains)), frozen(key_of)


def distinct(clauses: list[list[int]]) -> list[list[int]]:
    return reference.rarest_first(clauses, [])


# --- single instructions ---------------------------------------------------------------------------------------------


@kernels.kernel
def instructions(buffer, at, bits):
    return kernels.word_bits(buffer, at), kernels.load8(buffer, at), kernels.lowest_bit(bits), kernels.count_bits(bits)


@given(st.binary(min_size=70, max_size=90), st.integers(0, 6), st.integers(0, 2**64 - 1))
def test_instructions_are_what_their_twins_say(data: bytes, at: int, bits: int) -> None:
    buffer = np.frombuffer(data, np.uint8)
    found = instructions(buffer, np.uint64(at), np.uint64(bits))
    words, eight = reference.word_bits(buffer, at), reference.load8(buffer, at)
    twins = (words, eight, reference.lowest_bit(bits), reference.count_bits(bits))
    assert tuple(map(int, found)) == tuple(map(int, twins))


# --- words -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40) | st.text("ab Z,-9", max_size=200).map(str.encode), max_size=8))
def test_split_words_and_non_ascii(values: list[bytes]) -> None:
    buffer, starts, ends = pack(values)
    first, spans = np.empty(len(values) + 1, np.int64), np.empty((2, 2000), np.int64)
    total = kernels.split_words(buffer, starts, ends, first, spans)
    assert total == first[-1]
    for number, value in enumerate(values):
        found = spans[:, first[number] : first[number + 1]] - starts[number]
        assert list(map(tuple, found.T.tolist())) == reference.split_words(value)
    answer = np.empty(len(values), np.uint8)
    kernels.has_non_ascii(buffer, starts, ends, answer)
    assert answer.astype(bool).tolist() == reference.has_non_ascii(values)


def test_words_at_every_distance_from_the_edge_of_a_block() -> None:
    for lead in range(60, 68):
        for size in (*range(1, 6), 63, 64, 65, 130):
            value = b" " * lead + b"x" * size + b".y"
            buffer, starts, ends = pack([value, value])
            first, spans = np.empty(3, np.int64), np.empty((2, 9), np.int64)
            assert kernels.split_words(buffer, starts, ends, first, spans) == 4
            assert (spans[:, :4] - starts.repeat(2)).T.tolist() == [list(s) for s in reference.split_words(value)] * 2


def test_a_value_of_more_words_than_one_chunk_loses_none() -> None:
    for size in (kernels.CHUNK_WORDS - 65, kernels.CHUNK_WORDS, 3 * kernels.CHUNK_WORDS + 1):
        for separator in (b" ", b", and then a pause - "):
            value = separator.join([b"%d" % number for number in range(size)])
            buffer, starts, ends = pack([value])
            first, spans = np.empty(2, np.int64), np.empty((2, 6 * size), np.int64)
            total = kernels.split_words(buffer, starts, ends, first, spans)
            assert spans[:, :total].T.tolist() == list(map(list, reference.split_words(value)))


# --- marks to clauses ------------------------------------------------------------------------------------------------


@given(MARKS)
def test_touched_keys_are_collected_in_order_and_cleared(marks: dict[int, int]) -> None:
    keys, masks, touched = masks_of(marks, 2**64 - 1)
    assert keys.tolist() == [0, *reference.collect_touched(marks)]
    frequency, counted = np.full(128, 7, np.uint32), dict.fromkeys(range(128), 7)
    kernels.count_marks(keys, masks, frequency)
    reference.count_marks({0: 2**64 - 1, **marks}, counted)
    assert frequency.tolist() == list(counted.values())
    masks = masks.copy()
    kernels.clear_marks(keys, masks, touched)
    reference.clear_marks(marks)
    assert marks == {}
    assert not masks.any()
    assert not touched.any()


@given(CLAUSES, MARKS, st.integers(1, 64))
def test_match_masks_finds_the_clauses_whose_keys_all_occur(
    clauses: list[list[int]], marks: dict[int, int], documents: int
) -> None:
    clauses, batch = distinct(clauses), (1 << documents) - 1
    postings, owner, shared = written(clauses, list(range(len(clauses))))
    keys, masks, _ = masks_of(marks, batch)
    entries, found = np.empty(owner.size + 1, np.uint32), np.empty(owner.size + 1, np.uint64)
    count = kernels.match_masks(keys, masks, postings, entries, found)
    owners, owner_masks = np.empty(len(clauses), np.uint32), np.empty(len(clauses), np.uint64)
    total = kernels.expand_owners(
        frozen(entries[:count]), frozen(found[:count]), owner, shared, bit_set(set()), 0, owners, owner_masks
    )
    answer = dict(zip(owners[:total].tolist(), owner_masks[:total].tolist(), strict=True))
    assert total == len(answer)
    assert answer == reference.match_masks(clauses, marks, batch)


@given(CLAUSES, st.sets(KEYS))
def test_match_one_finds_the_clauses_of_one_document(clauses: list[list[int]], present: set[int]) -> None:
    clauses = distinct(clauses)
    postings, owner, shared = written(clauses, list(range(len(clauses))))
    keys, _, touched = masks_of(dict.fromkeys(present, 1), 1)
    entries = np.empty(owner.size + 1, np.uint32)
    count = kernels.match_one(keys, frozen(touched), postings, entries)
    owners, masks = np.empty(len(clauses), np.uint32), np.empty(len(clauses), np.uint64)
    ones = frozen(np.ones(count, np.uint64))
    total = kernels.expand_owners(frozen(entries[:count]), ones, owner, shared, bit_set(set()), 0, owners, masks)
    assert sorted(owners[:total].tolist()) == reference.match_one(clauses, present)


@given(CLAUSES, MARKS, st.data())
def test_match_chains_sees_only_the_clauses_of_its_snapshot(
    clauses: list[list[int]], marks: dict[int, int], data: st.DataObject
) -> None:
    clauses, batch = distinct(clauses), (1 << 64) - 1
    seen = data.draw(st.integers(0, len(clauses)))
    chains, _ = chained(clauses)
    keys, masks, _ = masks_of(marks, batch)
    entries, found = np.empty(len(clauses) + 1, np.uint32), np.empty(len(clauses) + 1, np.uint64)
    count = kernels.match_chains(keys, masks, chains, seen, entries, found)
    answer = dict(zip(entries[:count].tolist(), found[:count].tolist(), strict=True))
    assert answer == reference.match_chains(clauses, marks, batch, seen)


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1) | st.integers(0, 9), st.integers(0, 2**64 - 1)), max_size=20))
def test_owners_are_ordered_and_pairs_name_each_bit(found: list[tuple[int, int]]) -> None:
    owners, masks = u32([owner for owner, _ in found]), np.array([mask for _, mask in found], np.uint64)
    room = sum(mask.bit_count() for _, mask in found)
    pair_owner, pair_doc = np.empty(room, np.uint32), np.empty(room, np.uint8)
    assert kernels.expand_pairs(owners, frozen(masks), pair_owner, pair_doc) == room
    assert list(zip(pair_owner.tolist(), pair_doc.tolist(), strict=True)) == reference.expand_pairs(found)
    grouped, bounds = np.empty(room, np.uint32), np.zeros(65, np.int64)
    kernels.expand_documents(owners, frozen(masks), bounds, grouped)
    of = [grouped[bounds[doc] : bounds[doc + 1]].tolist() for doc in range(64)]
    assert of == reference.expand_documents(found)
    owners = owners.copy()
    count = kernels.order_owners(owners, masks, np.empty_like(owners), np.empty_like(masks))
    ordered = list(zip(owners[:count].tolist(), masks[:count].tolist(), strict=True))
    assert ordered == reference.order_owners(found)


def test_postings_longer_than_a_chunk_are_matched_in_pieces() -> None:
    """All clauses wait under key 1, and every one survives its second key."""
    size = 2 * kernels.CHUNK_CLAUSES + 77 if COMPILED else kernels.CHUNK_CLAUSES + 7
    clauses = [[1, 2, 3 + number % 90, 4 + number] for number in range(size)]
    clauses += [[1, 2, 3 + number] for number in range(60)] + [[1, 2]]
    postings, owner, _ = written(clauses, list(range(len(clauses))), keys=size + 99)
    masks = np.zeros(size + 128, np.uint64)
    masks[[0, 1, 2, 5]] = 3
    masks[4:] |= np.uint64(2)
    entries, found = np.empty(owner.size + 1, np.uint32), np.empty(owner.size + 1, np.uint64)
    keys = u32([0, 1, 2, *range(4, size + 4)])
    count = kernels.match_masks(keys, frozen(masks), postings, entries, found)
    answer = dict(zip(owner[entries[:count]].tolist(), found[:count].tolist(), strict=True))
    marks = {key: int(mask) for key, mask in enumerate(masks) if mask and key}
    assert answer == reference.match_masks(clauses, marks, 3)


@pytest.mark.parametrize("seed", range(4))
def test_dense_and_sparse_stretches_are_matched_alike(seed: int) -> None:
    """Where many clauses survive their second key, each is looked at; where few do, four together."""
    chance = random.Random(seed)
    keys_end, size = (1_500, 40_000) if COMPILED else (150, 1_500)
    clauses = [
        sorted({chance.randrange(1, keys_end) for _ in range(chance.choice([1, 2, 2, 3, 4]))}, reverse=True)
        for _ in range(size)
    ]
    postings, owner, shared = written(clauses, list(range(size)), keys=keys_end)
    marks = {}
    for key in range(1, keys_end):
        busy = key * 5 // keys_end % 2 == seed % 2  # stretches of keys that are in many documents, or in one
        marks[key] = chance.getrandbits(64) | 1 if busy else 1 << chance.randrange(64)
    masks = frozen(np.array([2**64 - 1, *marks.values()], np.uint64))
    entries, found = np.empty(owner.size + 1, np.uint32), np.empty(owner.size + 1, np.uint64)
    count = kernels.match_masks(u32(range(keys_end)), masks, postings, entries, found)
    owners, owner_masks = np.empty(size, np.uint32), np.empty(size, np.uint64)
    total = kernels.expand_owners(
        frozen(entries[:count]), frozen(found[:count]), owner, shared, bit_set(set()), 0, owners, owner_masks
    )
    answer = dict(zip(owners[:total].tolist(), owner_masks[:total].tolist(), strict=True))
    assert answer == reference.match_masks(clauses, marks, 2**64 - 1)


# --- building --------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 30), max_size=60), max_size=12), FREQUENCIES)
def test_rarest_first_orders_and_drops_repeats(clauses: list[list[int]], frequency: list[int]) -> None:
    first, keys = flat(clauses)
    ordered, lengths = np.empty(keys.size, np.uint32), np.empty(len(clauses), np.uint32)
    kernels.rarest_first(first, keys, u32(frequency), ordered, lengths)
    found = [ordered[first[number] : first[number] + lengths[number]].tolist() for number in range(len(clauses))]
    assert found == reference.rarest_first(clauses, frequency)


@given(CLAUSES)
def test_postings_are_sorted_and_repeats_found(clauses: list[list[int]]) -> None:
    clauses = distinct(clauses)
    arrays = sorted_flat(clauses)
    bounds, count = np.zeros(129, np.int64), len(clauses)
    order, rank, repeats = np.empty(count, np.uint32), np.empty(count, np.uint64), np.empty(count, np.uint8)
    kernels.place_clauses(*arrays, bounds, order, rank)
    assert order.tolist() == reference.place_clauses(clauses)
    kernels.sort_postings(bounds, order, rank, *arrays)
    assert order.tolist() == reference.sort_postings(clauses)
    entries, _, shared = kernels.find_repeats(bounds, order, rank, *arrays, repeats)
    assert repeats.astype(bool).tolist() == reference.find_repeats(clauses, order.tolist())
    assert entries == len({tuple(clause) for clause in clauses})
    assert (shared == 0) == (entries == count)


@given(CLAUSES, st.sets(st.integers(0, 29)))
def test_written_postings_read_back(clauses: list[list[int]], dead: set[int]) -> None:
    clauses = distinct(clauses)
    ids = list(range(len(clauses)))
    random.Random(len(clauses)).shuffle(ids)
    postings, owner, shared = written(clauses, ids)
    entries = reference.write_postings(clauses, ids)
    assert owner.size == len(entries)
    found = [(number, 1) for number in range(len(entries))]
    owners, masks = np.empty(len(ids), np.uint32), np.empty(len(ids), np.uint64)
    ones = frozen(np.ones(len(entries), np.uint64))
    numbers = u32(range(len(entries)))
    total = kernels.expand_owners(numbers, ones, owner, shared, bit_set(dead), 0, owners, masks)
    expected = reference.expand_owners(found, [owned for _, owned in entries], dead)
    assert owners[:total].tolist() == [one for one, _ in expected]
    first, keys, read_ids = np.empty(99, np.int64), np.empty(999, np.uint32), np.empty(99, np.uint32)
    count, size = kernels.read_postings(postings, owner, shared, bit_set(dead), first, keys, read_ids)
    read = [(keys[first[i] : first[i + 1]].tolist(), int(read_ids[i])) for i in range(count)]
    assert read == reference.read_postings(entries, dead)
    assert size == sum(len(clause) for clause, _ in read)


@given(CLAUSES, st.sets(st.integers(0, 29)))
def test_chains_read_back(clauses: list[list[int]], dead: set[int]) -> None:
    clauses = distinct(clauses)
    chains, key_of = chained(clauses)
    held: dict[int, list[int]] = {}
    for key in np.flatnonzero(chains.head).tolist():
        link = int(chains.head[key])
        while link:
            held.setdefault(key, []).append(link - 1)
            link = int(chains.next[link - 1])
    assert held == reference.add_chains(clauses)
    ids = u32(range(len(clauses)))
    first, keys, read_ids = np.empty(99, np.int64), np.empty(999, np.uint32), np.empty(99, np.uint32)
    count, _ = kernels.read_chains(chains, key_of, ids, len(clauses), bit_set(dead), first, keys, read_ids)
    read = [(keys[first[i] : first[i + 1]].tolist(), int(read_ids[i])) for i in range(count)]
    assert read == reference.read_chains(clauses, ids.tolist(), dead)


@pytest.mark.parametrize("seed", range(3))
def test_volume_of_random_clauses_and_documents(seed: int) -> None:
    """Seeded loops for volume: skewed keys, repeated clauses, clauses of up to 18 keys."""
    chance = random.Random(seed)
    for _ in range(VOLUME):
        few = chance.choice([4, 12, 60])
        raw = [
            [min(int(chance.paretovariate(0.7)), few) for _ in range(chance.choice([0, 1, 2, 2, 3, 3, 4, 5, 18]))]
            for _ in range(chance.choice([0, 1, 10, 80]))
        ]
        frequency = [chance.randrange(3) for _ in range(chance.randrange(few + 1))]
        clauses = reference.rarest_first(raw, frequency)
        ids = list(range(len(clauses)))
        postings, owner, shared = written(clauses, ids)
        documents = chance.randint(1, 64)
        batch = (1 << documents) - 1
        bits = [0, 1, 3, batch, chance.getrandbits(documents)]
        marks = {key: mask for key in range(1, few + 1) if (mask := chance.choice(bits) & batch)}
        keys, masks, touched = masks_of(marks, batch)
        entries, found = np.empty(owner.size + 1, np.uint32), np.empty(owner.size + 1, np.uint64)
        count = kernels.match_masks(keys, masks, postings, entries, found)
        owners, masks_found = np.empty(len(ids), np.uint32), np.empty(len(ids), np.uint64)
        total = kernels.expand_owners(
            frozen(entries[:count]), frozen(found[:count]), owner, shared, bit_set(set()), 0, owners, masks_found
        )
        expected = reference.match_masks(clauses, marks, batch)
        assert dict(zip(owners[:total].tolist(), masks_found[:total].tolist(), strict=True)) == expected
        chains, _ = chained(clauses)
        room = len(ids) + 1
        entries, found = np.empty(room, np.uint32), np.empty(room, np.uint64)
        count = kernels.match_chains(keys, masks, chains, len(ids), entries, found)
        assert dict(zip(entries[:count].tolist(), found[:count].tolist(), strict=True)) == expected
        if documents == 1:
            entries = np.empty(owner.size + 1, np.uint32)
            assert kernels.match_one(keys, frozen(touched), postings, entries) == len(
                {tuple(clauses[number]) for number in expected}
            )
