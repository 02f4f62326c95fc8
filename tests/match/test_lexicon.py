"""Words, their keys, and the marks that text leaves."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.match import kernels, reference
from tocsin.match.kernels import FIELD_ANY, NONE, ONLY_SCOPED
from tocsin.match.lexicon import KeyCounter, Lexicon, Surfaces, Texts, WordTable, pack, split, surfaces_of
from tocsin.match.segments import Marks

COMPILED = kernels.COMPILED
VOLUME = 200 if COMPILED else 8

WORDS = st.sampled_from(
    b"a b9 peer grid exactly8 exactly_ exactlysixteen16 exactlysixteen16x internationalisation".split()
    + "internationalisatiom größe σ 0 2004".encode().split()
)
VALUES = st.lists(st.tuples(WORDS, st.sampled_from([b" ", b"-", b", ", b"\n", b"_", b"@[`{/:", b""])), max_size=30).map(
    lambda pieces: b"".join(part for piece in pieces for part in piece)
)
FIELDS = st.sampled_from([0, 1, 2, 1 | ONLY_SCOPED, 2 | ONLY_SCOPED])


def masks(marks: Marks) -> dict[int, int]:
    """The marks as the twins write them, without key 0."""
    return {key: int(marks.masks[key]) for key in marks.keys().tolist() if key}


# --- words -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.binary(max_size=30) | WORDS, max_size=40), max_size=4))
def test_words_are_numbered_in_order_of_arrival(batches: list[list[bytes]]) -> None:
    table, numbers = WordTable(), dict[bytes, int]()
    for batch in batches:
        assert table.insert(batch).tolist() == reference.insert_words(batch, numbers)
    assert len(table) == len(numbers)
    asked = [*numbers, b"never", b"", b"exactlysixteen16y"]
    found = [None if number == NONE else number for number in table.find(asked).tolist()]
    assert found == reference.find_values(asked, numbers)
    assert [table.word(number) for number in range(len(table))] == list(numbers)
    assert reference.rebuild_slots(list(numbers)) == numbers


def test_a_table_grows_and_finds_everything_again() -> None:
    size = 70_000 if COMPILED else 400
    words = [b"%d" % (number * number) + b"x" * (number % 23) for number in range(size)]
    table = WordTable(seed=7)
    assert table.insert(words).tolist() == list(range(size))
    assert table.insert(words[::-1]).tolist() == list(range(size - 1, -1, -1))
    assert table.find(words).tolist() == list(range(size))
    assert set(table.find([word + b"y" for word in words]).tolist()) == {NONE}
    assert [table.word(number) for number in range(0, size, 97)] == words[::97]
    if COMPILED:
        assert table.nbytes < 130 * size


def test_words_that_share_their_first_sixteen_bytes_differ() -> None:
    words = [b"0123456789abcdef" + bytes([97 + number]) * length for number in range(3) for length in (1, 8, 9, 300)]
    words += [b"0123456789abcdef", b"0123456789abcde", b"0123456789abcdef\0", b"\0", b"\0\0", b""]
    table = WordTable()
    assert table.insert(words).tolist() == list(range(len(words)))
    assert [table.word(number) for number in range(len(words))] == words


@pytest.mark.parametrize("size", [7, 8, 9, 16, 17, 62, 63, 64, 65, 127])
def test_words_of_the_same_beginning_differ_at_every_length(size: int) -> None:
    """A slot has the first eight bytes and lengths up to 62; the rest is in the record."""
    words = [b"x" * length for length in range(size - 2, size + 3)] + [b"x" * (size - 1) + b"y", b"x" * 6 + b"y" * size]
    lexicon, marks = Lexicon(), Marks()
    numbers = lexicon.insert(words)
    assert numbers.tolist() == list(range(len(words)))
    keys = lexicon.bare_keys(numbers).tolist()
    marks.begin(8, lexicon.keys.next)
    lexicon.mark(Texts.of([word.upper() for word in words], range(len(words)), [0] * len(words)), marks)
    assert masks(marks) == {key: 1 << doc for doc, key in enumerate(keys)}
    assert lexicon.find([b"x" * (size + 3), b"x" * size + b"z"]).tolist() == [NONE, NONE]


def test_zeros_at_the_end_of_a_word_count() -> None:
    words = [b"ab", b"ab\0", b"ab\0\0", b"", b"\0"]
    table = WordTable()
    assert table.insert(words).tolist() == [0, 1, 2, 3, 4]
    assert [table.word(number) for number in range(5)] == words


def test_word_numbers_are_checked() -> None:
    table = WordTable()
    table.insert([b"one"])
    with pytest.raises(IndexError, match="word 1 of 1"):
        table.word(1)


def test_saved_arrays_open_again_and_take_new_words() -> None:
    lexicon = Lexicon()
    numbers = lexicon.insert([b"peer", b"grid", b"internationalisation"])
    bare, scoped = lexicon.bare_keys(numbers[:2]), lexicon.field_keys(numbers, 4)
    arrays = lexicon.arrays()
    assert all(not array.flags.writeable and array.ndim == 1 for array in arrays.values())
    opened = Lexicon.from_arrays(arrays, KeyCounter(lexicon.keys.next))
    assert opened.find([b"internationalisation", b"peer", b"new"]).tolist() == [2, 0, NONE]
    texts = Texts.of([b"peer grid internationalisation new"], [0], [4])
    for step in range(2):
        marks = Marks()
        marks.begin(1, opened.keys.next)
        opened.mark(texts, marks)
        new = [opened.keys.next - 1] if step else []
        assert sorted(masks(marks)) == [*bare, *scoped, *new]
        if not step:
            assert opened.field_keys(opened.insert([b"new"]), 4).tolist() == [lexicon.keys.next]
    assert lexicon.find([b"new"]).tolist() == [NONE]


def test_arrays_kept_by_an_earlier_release_open() -> None:
    """Their slots and sieve are laid out in another way, and nothing says which; records are as they were."""
    lexicon = Lexicon()
    words = lexicon.insert([b"w%d" % number for number in range(300)] + [b"internationalisation"])
    lexicon.bare_keys(words[:200])
    lexicon.field_keys(words[100:], 1)
    kept = lexicon.arrays()
    old = kept | {"used": kept["used"][:3], "slots": np.zeros(1024, np.uint64), "sieve": np.zeros(64, np.uint64)}
    texts = Texts.of([b"W7 w150 w250 internationalisation", b"w299 w300"], [0, 1], [0, 1])
    found = []
    for arrays in (kept, old):
        opened, marks = Lexicon.from_arrays(arrays, KeyCounter(lexicon.keys.next)), Marks()
        marks.begin(2, lexicon.keys.next)
        opened.mark(texts, marks)
        found.append(masks(marks))
        assert opened.find([b"w299", b"w300"]).tolist() == [299, NONE]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_opened_arrays_take_keys_and_flags_without_new_words() -> None:
    lexicon = Lexicon()
    numbers = lexicon.insert([b"peer"])
    for change in ("bare_keys", "want_positions"):
        opened = Lexicon.from_arrays(lexicon.arrays())
        getattr(opened, change)(numbers)
        assert lexicon.bare.tolist() == [NONE]
    table = Surfaces.from_arrays(Surfaces().arrays())
    assert isinstance(table, Surfaces)
    table.learn([b"peers"], np.array([3], np.uint32))
    assert len(table) == 1


# --- keys and marks --------------------------------------------------------------------------------------------------


@dataclass
class Twin:
    """A lexicon as dictionaries."""

    numbers: dict[bytes, int] = field(default_factory=dict)
    own: reference.Own = field(default_factory=dict)
    further: reference.Further = field(default_factory=dict)


@st.composite
def lexicons(draw: st.DrawFn) -> tuple[Lexicon, Twin]:
    lexicon, twin = Lexicon(), Twin()
    words = draw(st.lists(WORDS, min_size=1, max_size=12))
    numbers = lexicon.insert(words)
    assert numbers.tolist() == reference.insert_words(words, twin.numbers)
    some = draw(st.lists(st.sampled_from(numbers.tolist()), max_size=8))
    keys = lexicon.bare_keys(np.array(some, np.uint32)).tolist()
    assert keys == reference.bind_bare(some, twin.own, 1)
    for at in draw(st.lists(st.sampled_from([1, 2, FIELD_ANY]), max_size=6)):
        word, key = draw(st.sampled_from(numbers.tolist())), draw(st.integers(1, 60))
        lexicon.add_keys(np.array([word], np.uint32), np.array([key], np.uint32), at)
        reference.insert_scopes([word], [at], [key], twin.further)
        lexicon.keys.next = max(lexicon.keys.next, key + 1)
    for at in draw(st.lists(st.sampled_from([1, 2, 3]), max_size=4)):
        some = draw(st.lists(st.sampled_from(numbers.tolist()), max_size=8))
        before = lexicon.keys.next
        keys = lexicon.field_keys(np.array(some, np.uint32), at).tolist()
        assert keys == reference.bind_scoped(some, at, twin.own, before)
    assert reference.rebuild_scopes(twin.own, twin.further) == (twin.own, twin.further)
    return lexicon, twin


def test_the_key_of_a_field_is_never_one_that_was_added() -> None:
    """Whatever the tables hold when they grow: an added key may hold elsewhere, too."""
    lexicon = Lexicon()
    words = lexicon.insert([b"w%d" % number for number in range(300)])
    added = np.arange(1, 301, dtype=np.uint32)
    lexicon.keys.next = 1_000
    lexicon.add_keys(words[:150], added[:150], 7)
    own = lexicon.field_keys(words, 7)
    lexicon.add_keys(words[150:], added[150:], 7)
    lexicon.field_keys(words, 8)
    lexicon.field_keys(words, 9)
    assert lexicon.field_keys(words, 7).tolist() == own.tolist() == list(range(1_000, 1_300))
    marks = Marks()
    marks.begin(1, lexicon.keys.next)
    lexicon.mark(Texts.of([b"w5"], [0], [7]), marks)
    assert sorted(masks(marks)) == [6, 1_005]


BATCHES = st.lists(st.tuples(VALUES | st.binary(max_size=100), st.integers(0, 63), FIELDS), max_size=12)


@given(lexicons(), BATCHES)
def test_text_marks_the_keys_of_its_words(both: tuple[Lexicon, Twin], batch: list[tuple[bytes, int, int]]) -> None:
    (lexicon, twin), values = both, [value for value, _, _ in batch]
    docs, fields = [doc for _, doc, _ in batch], [at for _, _, at in batch]
    for mixed in (values, [value.upper() if value.isascii() else value for value in values]):
        texts, marks = Texts.of(mixed, docs, fields), Marks()
        marks.begin(64, lexicon.keys.next)
        lexicon.mark(texts, marks)
        assert masks(marks) == reference.mark_words(mixed, docs, fields, twin.numbers, twin.own, twin.further)


@given(lexicons(), st.lists(st.tuples(WORDS, st.integers(0, 63), FIELDS), max_size=12))
def test_whole_values_mark_their_keys(both: tuple[Lexicon, Twin], batch: list[tuple[bytes, int, int]]) -> None:
    (lexicon, twin), values = both, [value for value, _, _ in batch]
    docs, fields = [doc for _, doc, _ in batch], [at for _, _, at in batch]
    texts, marks = Texts.of(values, docs, fields), Marks()
    marks.begin(64, lexicon.keys.next)
    lexicon.mark_values(texts, marks)
    assert masks(marks) == reference.mark_values(values, docs, fields, twin.numbers, twin.own, twin.further)


@given(lexicons(), BATCHES, st.sets(WORDS), st.integers(0, 2**64 - 1))
def test_surface_forms_mark_what_they_become(
    both: tuple[Lexicon, Twin], batch: list[tuple[bytes, int, int]], known: set[bytes], chosen: int
) -> None:
    """Surface forms become the word of their first letter, if there is one; those of digits vanish."""
    (lexicon, twin), values = both, [value for value, _, _ in batch]
    docs, fields = [doc for _, doc, _ in batch], [at for _, _, at in batch]
    texts, marks, surfaces = Texts.of(values, docs, fields), Marks(), Surfaces()
    letters = {chr(word[0]): number for word, number in twin.numbers.items()}
    table: dict[bytes, int | None] = {}

    def learn(forms: list[bytes]) -> None:
        words = [None if form[:1].isdigit() else letters.get(chr(form[0]), 0) for form in forms]
        table.update(zip(forms, words, strict=True))
        surfaces.learn(forms, np.array([NONE if word is None else word for word in words], np.uint32))

    learn([form for form in sorted(known) if b"_" not in form])
    marks.begin(64, lexicon.keys.next)
    unknown = surfaces.mark(texts, lexicon, marks)
    expected, missing = reference.mark_surfaces(values, docs, fields, table, twin.own, twin.further)
    assert masks(marks) == expected
    assert (unknown.ends - unknown.starts).tolist() == [end - start for _, start, end in missing]
    assert unknown.docs.tolist() == [docs[number] for number, _, _ in missing]
    forms = surfaces_of(unknown)
    assert forms == list(dict.fromkeys(values[number][start:end].lower() for number, start, end in missing))
    learn(forms)
    assert surfaces.mark(unknown, lexicon, marks).starts.size == 0
    expected, missing = reference.mark_surfaces(values, docs, fields, table, twin.own, twin.further)
    assert (masks(marks), missing) == (expected, [])
    rows = surfaces.occurrences(texts, lexicon, chosen, flagged=False)
    found = reference.find_occurrences(values, docs, chosen, table, lambda word: True)
    assert list(map(tuple, rows.tolist())) == reference.sort_occurrences(found)


@given(lexicons(), BATCHES, st.integers(0, 2**64 - 1), st.sets(st.integers(0, 11)))
def test_occurrences_are_sorted_by_word(
    both: tuple[Lexicon, Twin], batch: list[tuple[bytes, int, int]], chosen: int, wanted: set[int]
) -> None:
    (lexicon, twin), values = both, [value for value, _, _ in batch]
    docs = [doc for _, doc, _ in batch]
    texts = Texts.of(values, docs, [0] * len(docs))
    wanted &= set(range(len(lexicon)))
    lexicon.want_positions(np.array(sorted(wanted), np.uint32))
    for flagged in (True, False):
        rows = lexicon.occurrences(texts, chosen, flagged=flagged)
        found = reference.find_occurrences(
            values, docs, chosen, twin.numbers, wanted.__contains__ if flagged else lambda word: True
        )
        assert list(map(tuple, rows.tolist())) == reference.sort_occurrences(found)


def test_many_occurrences_of_many_words() -> None:
    """More than one chunk, more than the first room, and numbers above 2,048 and 4,194,304 (three digits of a sort)."""
    chance = random.Random(5)
    words = [b"w%d" % number for number in range(5_000 if COMPILED else 300)]
    values = [b" ".join(chance.choices(words, k=2_500 if COMPILED else 90)) for _ in range(3)]
    lexicon, numbers = Lexicon(), dict[bytes, int]()
    lexicon.insert(words)
    reference.insert_words(words, numbers)
    rows = lexicon.occurrences(Texts.of(values, [0, 1, 2], [0, 0, 0]), 0b101, flagged=False)
    found = reference.find_occurrences(values, [0, 1, 2], 0b101, numbers, lambda word: True)
    assert list(map(tuple, rows.tolist())) == reference.sort_occurrences(found)
    high = np.array([[number, 0, at] for at, number in enumerate([1 << 31, 5, 1 << 22, 1 << 11, 5, 0])], np.uint32)
    ordered = kernels.sort_occurrences(high.copy(), 1 << 32)
    assert list(map(tuple, ordered.tolist())) == reference.sort_occurrences(map(tuple, high.tolist()))


def test_many_unknown_surface_forms_all_come_back() -> None:
    size = 3_000 if COMPILED else 1_100
    texts, marks, surfaces, lexicon = Texts.of([b" ".join([b"x%d"] * size)], [0], [0]), Marks(), Surfaces(), Lexicon()
    marks.begin(1, lexicon.keys.next)
    assert surfaces.mark(texts, lexicon, marks).starts.size == 2 * size


@pytest.mark.parametrize("seed", range(2))
def test_volume_of_random_text(seed: int) -> None:
    """Seeded loops: words of all lengths, upper case, punctuation, several values for each document."""
    chance = random.Random(seed)
    letters = b"abcdefghijklmnopqrstuvwxyz0123456789"
    vocabulary = [bytes(chance.choices(letters, k=chance.randint(1, 40))) for _ in range(400)]
    vocabulary += ["".join(chance.choices("aéßωж", k=chance.randint(1, 12))).encode() for _ in range(40)]
    lexicon, numbers = Lexicon(seed=seed), dict[bytes, int]()
    own: reference.Own = {}
    queried = chance.sample(vocabulary, 200)
    words = lexicon.insert(queried)
    reference.insert_words(queried, numbers)
    lexicon.bare_keys(words)
    reference.bind_bare(words.tolist(), own, 1)
    marks = Marks()
    for _ in range(VOLUME):
        values = []
        for _ in range(chance.randint(1, 20)):
            words_here = chance.choices(vocabulary, k=chance.randint(0, 60))
            joined = chance.choice([b" ", b", ", b"--", b"\t"]).join(words_here)
            values.append(joined.upper() if chance.random() < 0.2 and joined.isascii() else joined)
        docs = sorted(chance.randrange(64) for _ in values)
        marks.begin(64, lexicon.keys.next)
        lexicon.mark(Texts.of(values, docs, [0] * len(values)), marks)
        assert masks(marks) == reference.mark_words(values, docs, [0] * len(values), numbers, own, {})


def test_a_key_newer_than_the_marks_is_passed_over() -> None:
    lexicon, marks = Lexicon(), Marks()
    words = lexicon.insert([b"w%d" % number for number in range(200)])
    lexicon.bare_keys(words)
    marks.begin(1, 64)
    lexicon.mark(Texts.of([b"w3 w190"], [0], [0]), marks)
    assert masks(marks) == {4: 1}


def test_a_run_of_ten_million_letters_is_one_word() -> None:
    lexicon, marks = Lexicon(), Marks()
    size = 10_000_000 if COMPILED else 3_000
    lexicon.bare_keys(lexicon.insert([b"x" * size, b"end"]))
    marks.begin(2, lexicon.keys.next)
    lexicon.mark(Texts.of([b"X" * size + b" End", b"x" * (size - 1)], [0, 1], [0, 0]), marks)
    assert masks(marks) == {1: 1, 2: 1}


def test_split_and_insert_read_plain_queries() -> None:
    queries = [b"peer grid", b"", b"information  dissemination, peer"]
    buffer, starts, ends = pack(queries)
    first, word_starts, word_ends = split(buffer, starts, ends)
    numbers = WordTable().insert_spans(buffer, word_starts, word_ends)
    assert (first.tolist(), numbers.tolist()) == ([0, 2, 2, 5], [0, 1, 2, 3, 0])
    narrow = [b" ".join([b"a"] * 500)]
    assert split(*pack(narrow))[0].tolist() == [0, 500]


def test_texts_are_checked() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Texts.of([b"a"], [0, 1], [0])
    bytes9, byte, field0 = np.zeros(9, np.uint8), np.zeros(1, np.uint8), np.zeros(1, np.uint32)
    with pytest.raises(ValueError, match="padding included"):
        Texts(bytes9, np.array([0]), np.array([9]), byte, field0)
    with pytest.raises(ValueError, match="ends before it begins"):
        Texts(np.zeros(99, np.uint8), np.array([9]), np.array([8]), byte, field0)
    texts = Texts.of([b"abc", "é".encode(), b""], [0, 0, 0], [0, 0, 0])
    assert texts.needs_folding().tolist() == [False, True, False]
