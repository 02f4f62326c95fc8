"""Contract, "Documents": what the words of a string are, under each analysis."""

from __future__ import annotations

import sys
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import SettingError
from tocsin.model import Document
from tocsin.query.ast import Words
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import (
    ANALYSES,
    ENGLISH,
    KEYWORD,
    STANDARD,
    Analysis,
    fold,
    has_words,
    is_field_name,
    texts,
    value_key,
    values_of,
    words,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
REAL_TEXT = st.text()
MARKED_TEXT = st.text(st.sampled_from("aAßſΣςİıιᾳΐ각ﬁ²Ⅷ５\u0301\u0308\u0345\u0323\u200d\u00ad '-_٣ก็ि"), max_size=8)

LUCENE_STOP_WORDS = """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
    to was will with
""".split()


def reference_words(text: str) -> tuple[str, ...]:
    """The contract's sentence, letter by letter."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    found, current = [], ""
    for character in folded + " ":
        if unicodedata.category(character)[0] in "LMN":
            current += character
        elif current:
            found.append(current)
            current = ""
    return tuple(found)


# --- standard --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("state-of-the-art", ("state", "of", "the", "art")),
        ("P2P", ("p2p",)),
        ("", ()),
        ("!!! … — ?", ()),
        ("Straße", ("strasse",)),
        ("STRASSE", ("strasse",)),
        ("ﬁnance", ("finance",)),
        ("ＷＩＤＥ ２００４", ("wide", "2004")),
        ("x²", ("x2",)),
        ("Ⅷ", ("viii",)),
        ("½", ("1", "2")),  # NFKC writes 1⁄2, and the fraction slash is no letter
        ("cafe\u0301 CAFÉ", ("café", "café")),
        ("ΟΔΥΣΣΕΥΣ", ("οδυσσευσ",)),
        ("हिन्दी", ("हिन्दी",)),  # marks belong to the word
        ("٣٤", ("٣٤",)),  # any script's numbers
        ("don't", ("don", "t")),
        ("snake_case", ("snake", "case")),
        ("3.14", ("3", "14")),
        ("co\u00adoperate", ("co", "operate")),  # a soft hyphen is a format character
        ("a\u200db", ("a", "b")),
        ("a\x00b\x1fc\u2028d\u3000e", ("a", "b", "c", "d", "e")),
        ("peer😀grid", ("peer", "grid")),
        ("日本語 テキスト", ("日本語", "テキスト")),
        ("a\ud800b", ("a", "b")),
    ],
)
def test_words_are_the_folded_runs_of_letters_marks_and_numbers(text, expected):
    assert words(text) == expected


def test_every_code_point_is_in_a_word_or_breaks_one_as_its_category_says():
    for start in range(0, sys.maxunicode + 1, 0x400):
        text = "".join(f"x{chr(code)}y " for code in range(start, start + 0x400))
        assert words(text) == reference_words(text), hex(start)


@given(ANY_TEXT | MARKED_TEXT)
def test_words_are_as_the_contract_spells_them_out(text):
    assert words(text) == reference_words(text)


@given(ANY_TEXT | MARKED_TEXT, st.sampled_from(ANALYSES))
def test_any_unicode_goes_in_and_comes_out_as_a_tuple_of_words(text, analysis):
    found = words(text, analysis)
    assert all(isinstance(word, str) for word in found)
    assert analysis == ENGLISH or all(found)


@given(ANY_TEXT | MARKED_TEXT)
def test_analysing_words_again_changes_nothing(text):
    once = words(text)
    assert words(" ".join(once)) == once
    assert words(words(text, KEYWORD)[0] if text else "", KEYWORD) == words(text, KEYWORD)


@given(REAL_TEXT | MARKED_TEXT, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]), st.sampled_from(ANALYSES))
def test_how_unicode_was_composed_makes_no_difference(text, form, analysis):
    assert words(unicodedata.normalize(form, text), analysis) == words(text, analysis)


@given(st.lists(st.text(st.sampled_from("abcXYZ09éß"), min_size=1), max_size=8), st.text(st.sampled_from(" -.,;:!/\n")))
def test_the_position_of_a_word_is_its_index_in_the_value(parts, between):
    between = between or " "
    assert words(between.join(parts)) == tuple(fold(part) for part in parts)


# --- english ---------------------------------------------------------------------------------------------------------


@pytest.mark.row("S2")
def test_english_drops_lucenes_33_stop_words_and_only_these():
    assert len(LUCENE_STOP_WORDS) == 33
    assert all(words(word, ENGLISH) == ("",) for word in LUCENE_STOP_WORDS)
    kept = ["its", "he", "we", "from", "do", "were", "has", "i", "you", "than", "those", "them"]
    assert all(words(word, ENGLISH)[0] for word in kept)


@pytest.mark.row("S2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the state of the art", ("", "state", "", "", "art")),
        ("Information Retrieval Systems", ("inform", "retriev", "system")),
        ("running runs ran", ("run", "run", "ran")),
        ("generously general generations", ("generous", "general", "generat")),
        ("THE", ("",)),
        ("its", ("it",)),  # stop words go before stemming: a stem that looks like one stays
        ("", ()),
    ],
)
def test_english_is_standard_then_stop_words_as_empty_positions_then_snowball_stems(text, expected):
    assert words(text, ENGLISH) == expected


@given(ANY_TEXT)
def test_english_keeps_every_position_of_standard(text):
    standard, english = words(text), words(text, ENGLISH)
    assert len(english) == len(standard)
    assert [not word for word in english] == [word in LUCENE_STOP_WORDS for word in standard]


# --- keyword ---------------------------------------------------------------------------------------------------------


def test_keyword_makes_the_whole_folded_value_one_word():
    assert words("John  SMITH, Jr.", KEYWORD) == ("john  smith, jr.",)
    assert words("Straße ﬁ", KEYWORD) == ("strasse fi",)
    assert words("!!!", KEYWORD) == ("!!!",)
    assert has_words("!!!", KEYWORD)
    assert not has_words("!!!", STANDARD)


# --- the same analysis on both sides ---------------------------------------------------------------------------------


@pytest.mark.row("S2")
@given(REAL_TEXT | MARKED_TEXT, st.sampled_from(ANALYSES), st.sampled_from([None, "title"]), REAL_TEXT)
def test_what_is_written_the_same_is_found_the_same(text, analysis, field, other):
    fields = Analysis({"title": analysis})
    if any(has_words(text, name) for name in fields.names(field)):
        found = holds(Words(field, text, True), Document("d", {"title": (other, text)}), Knowledge(fields))
        assert found == has_words(text, analysis)


@pytest.mark.row("S2")
@given(st.lists(st.sampled_from(["Peers", "peering", "THE", "of", "grid", "Grids", "x1"]), min_size=1, max_size=4))
def test_a_query_is_stemmed_and_stopped_like_the_field_it_asks(parts):
    """SmartSeer §III-B: tokens become terms via stop-word filtering and stemming."""
    text = " ".join(parts)
    stems = [{"peers": "peer", "peering": "peer", "grids": "grid"}.get(p.lower(), p.lower()) for p in parts]
    document = Document("d", {"title": ("the peer of a grid",)})
    value = [None, "peer", None, None, "grid"]
    wanted = [(i, stem) for i, stem in enumerate(stems) if stem not in ("the", "of")]
    expected = any(
        all(0 <= s + i < len(value) and value[s + i] == stem for i, stem in wanted) for s in range(-len(parts), 6)
    )
    assert holds(Words("title", text, True), document, Knowledge(Analysis({"title": ENGLISH}))) == (
        bool(wanted) and expected
    )


def test_a_bare_word_is_read_under_each_fields_own_analysis():
    knowledge = Knowledge(Analysis({"title": ENGLISH, "author": KEYWORD}))
    query = Words(None, "running peers")
    assert holds(query, Document("d", {"title": ("run the race, run peer",)}), knowledge)
    assert not holds(query, Document("d", {"note": ("run peer",)}), knowledge)
    assert holds(query, Document("d", {"note": ("are running peers",)}), knowledge)
    assert holds(query, Document("d", {"author": ("Running Peers",)}), knowledge)
    assert not holds(query, Document("d", {"author": ("The Running Peers",)}), knowledge)


# --- which analysis a field has --------------------------------------------------------------------------------------


def test_a_field_is_standard_unless_named_and_id_and_source_are_keyword():
    analysis = Analysis({"title": ENGLISH})
    assert [analysis.of(name) for name in ("title", "abstract", "id", "source", "time")] == [
        ENGLISH, STANDARD, KEYWORD, KEYWORD, STANDARD,
    ]  # fmt: skip


def test_analyses_are_given_as_field_equals_name():
    assert Analysis.parse(["title=english", "author=keyword"]).fields == {"title": "english", "author": "keyword"}


@pytest.mark.parametrize(
    ("pair", "named"),
    [("title", "FIELD=NAME"), ("=english", "FIELD=NAME"), ("title=klingon", "klingon"), ("title=", "english"),
     ("id=english", "always keyword"), ("1st=english", "1st"), ("a b=english", "a b")],
)  # fmt: skip
def test_an_analysis_that_cannot_work_is_refused_by_name(pair, named):
    with pytest.raises(SettingError, match=named):
        Analysis.parse([pair])


def test_naming_the_analysis_of_id_does_not_change_how_bare_words_are_read():
    assert set(Analysis({"id": KEYWORD}).names(None)) == set(Analysis().names(None))


@pytest.mark.parametrize("name", ["title", "T", "dc.title", "dc-title", "a_1", "título", "заголовок", "a.b-c_9"])
def test_a_field_name_is_a_letter_then_letters_digits_underscores_hyphens_and_dots(name):
    assert is_field_name(name)


@pytest.mark.parametrize("name", ["", "1a", "_a", "-a", ".a", "a b", "a:b", "a/b", "a²", "a\n", "a\ud800", "😀", "a*"])
def test_anything_else_is_no_field_name(name):
    assert not is_field_name(name)


# --- values ----------------------------------------------------------------------------------------------------------

DOCUMENT = Document("D1", {"title": ("One", "Two"), "year": (2004, "2004")}, source="ACL", time="2004-05-31")


def test_id_source_and_time_can_be_named_like_fields():
    assert [values_of(DOCUMENT, name) for name in ("id", "source", "time")] == [("D1",), ("ACL",), ("2004-05-31",)]
    assert [values_of(Document("x"), name) for name in ("source", "time", "title")] == [(), (), ()]


def test_bare_words_look_into_the_string_values_of_fields_and_nowhere_else():
    assert [value for value, _ in texts(DOCUMENT, None, Analysis())] == [("one",), ("two",), ("2004",)]


def test_values_are_compared_whole_numbers_as_numbers_and_strings_folded():
    """Contract, nested queries."""
    assert value_key("  John\u00a0\tSMITH ") == value_key("john smith")
    assert value_key("Straße") == value_key("STRASSE")
    assert value_key(5) == value_key(5.0)
    assert value_key(5) != value_key("5")
    assert value_key(2**53) == value_key(2**53 + 1)  # float64
    assert value_key("a-b") != value_key("a b")


# --- memory ----------------------------------------------------------------------------------------------------------


def test_long_texts_are_not_kept_in_memory():
    """Issue 2: a 10 GB file needs no more memory than a 10 KB one."""
    words("warm")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(40):
            words(f"text{number} " * 10_000)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 5_000_000, f"{kept:,} bytes kept after 40 texts of 70 kB"
