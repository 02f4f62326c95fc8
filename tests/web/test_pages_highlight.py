"""Highlights stand on the words that were found, by the definition of `text.words`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.text import ANALYSES, ENGLISH, KEYWORD, STANDARD, fold, spaced, words
from tocsin.web.pages.highlight import SHOWN_MAX, Part, marked, shortened, spans

TEXTS = st.text(st.sampled_from("aZß ﬁ½é́İЖ中ऴ-_.’1²Ⅷ\u00a0\u0301\t한ᄒ"), max_size=30) | st.text(max_size=30)


@given(text=TEXTS)
def test_a_span_holds_its_word_and_no_other(text):
    found = spans(text, STANDARD)
    if found is None:
        return
    expected = words(text)
    assert len(found) == len(expected)
    for (start, end), word in zip(found, expected, strict=True):
        assert word in spaced(text[start:end]).split()  # one letter may hold two words, such as ½


@given(text=st.text(st.sampled_from("abc XYZ-,.\n"), max_size=60))
def test_plain_text_always_has_spans(text):
    found = spans(text, STANDARD)
    assert found is not None
    assert [fold(text[start:end]) for start, end in found] == list(words(text))


@given(text=TEXTS, positions=st.sets(st.integers(-1, 12)), analysis=st.sampled_from(ANALYSES))
def test_marking_keeps_every_character(text, positions, analysis):
    assert "".join(part.text for part in marked(text, analysis, positions)) == text


@pytest.mark.parametrize(
    ("text", "analysis", "positions", "hits"),
    [
        ("The alarm, the bell.", STANDARD, {1, 3}, ["alarm", "bell"]),
        ("alarm bells ring", STANDARD, {0, 1}, ["alarm bells"]),
        ("Running runs", ENGLISH, {0}, ["Running"]),
        ("Straße und Café", STANDARD, {0, 2}, ["Straße", "Café"]),
        ("An Exact Value", KEYWORD, {0}, ["An Exact Value"]),
        ("short", STANDARD, {7}, []),
        ("", STANDARD, {0}, []),
    ],
)
def test_the_words_at_these_positions_are_hits(text, analysis, positions, hits):
    assert [part.text for part in marked(text, analysis, positions) if part.is_hit] == hits


@given(before=st.integers(0, 600), middle=st.integers(0, 600), after=st.integers(0, 600))
def test_a_long_text_is_cut_around_its_hits(before, middle, after):
    parts = [Part("a " * before, False), Part("HIT", True), Part(" b" * middle + " ", False), Part("HIT", True),
             Part(" c" * after, False)]  # fmt: skip
    found = shortened([part for part in parts if part.text])
    assert [part.text for part in found if part.is_hit] == ["HIT", "HIT"]
    assert sum(len(part.text) for part in found) <= SHOWN_MAX + 20


def test_a_long_text_without_hits_shows_its_start():
    (only,) = shortened([Part("word " * 1_000, False)])
    assert only.text.startswith("word word")
    assert only.text.endswith("…")
    assert len(only.text) <= SHOWN_MAX + 2
