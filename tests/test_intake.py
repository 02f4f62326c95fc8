"""What a stranger sends becomes a document, or a DocumentError that says why not."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.errors import DocumentError
from tocsin.intake import (
    VERSION_MAX,
    Admission,
    document_from_json,
    document_from_object,
    document_to_json,
    field_name_problem,
    fingerprint,
)
from tocsin.model import Document, Value
from tocsin.settings import DocumentLimits
from tocsin.text import is_field_name


def refusal(raw: bytes | str, **limits: int) -> str:
    with pytest.raises(DocumentError) as caught:
        document_from_json(raw, DocumentLimits(**limits))
    return caught.value.reason


# --- what is accepted ------------------------------------------------------------------------------------------------


def test_a_document_with_everything():
    raw = """{"id": "W04-1", "source": "acl", "time": "2004-05-31T18:30:00Z", "version": 3, "xml": "<a/>",
              "title": "Peer to peer", "year": 2004, "score": 0.5, "author": ["Ann", "Bob"], "mixed": ["x", 1, 2.5]}"""
    fields: dict[str, tuple[Value, ...]] = {
        "title": ("Peer to peer",),
        "year": (2004,),
        "score": (0.5,),
        "author": ("Ann", "Bob"),
        "mixed": ("x", 1, 2.5),
    }
    expected = Document("W04-1", fields, source="acl", time="2004-05-31T18:30:00Z", version=3, xml="<a/>")
    assert document_from_json(raw) == expected
    assert document_from_json(raw.encode()) == expected
    assert document_from_json(b"\xef\xbb\xbf" + raw.encode()) == expected
    assert document_from_object(json.loads(raw)) == expected


@pytest.mark.parametrize("key", ["title", "source", "time", "version", "xml"])
@pytest.mark.parametrize("absent", ["null", "[]"])
def test_null_and_the_empty_list_mean_absent(key, absent):
    assert document_from_json(f'{{"id": "a", "{key}": {absent}}}') == Document("a")


def test_the_empty_string_is_present():
    raw = '{"id": "a", "title": "", "source": "", "xml": ""}'
    assert document_from_json(raw) == Document("a", {"title": ("",)}, source="", xml="")


def test_a_value_and_a_list_of_it_are_the_same_document():
    assert document_from_json('{"id": "a", "f": ["x"]}') == document_from_json('{"id": "a", "f": "x"}')


@pytest.mark.parametrize("version", [0, 1, 7, VERSION_MAX])
def test_a_version_is_a_whole_number_from_zero(version):
    assert document_from_json(f'{{"id": "a", "version": {version}}}').version == version


@pytest.mark.parametrize("time", ["2004-05-31", "2004-05-31T18:30:00Z", "2004-05-31T18:30:00.25+02:00"])
def test_a_time_is_a_day_or_rfc_3339(time):
    assert document_from_json(f'{{"id": "a", "time": "{time}"}}').time == time


@pytest.mark.parametrize("name", ["a", "dc.title", "x-y_z.9", "größe", "题目", "Z9"])
def test_good_field_names(name):
    assert field_name_problem(name) == ""
    assert document_from_object({"id": "a", name: 1}).fields == {name: (1,)}


@given(st.text(max_size=5) | st.text(alphabet="aZ9_-. é٣²:", max_size=5))
def test_a_name_is_refused_with_a_reason_exactly_when_a_query_cannot_write_it(name):
    assert (field_name_problem(name) == "") == is_field_name(name)


@pytest.mark.parametrize("number", ["1e308", "-1e308", "1e-999", "9007199254740993", "1" + "0" * 308, "-0.0"])
def test_numbers_that_float64_can_hold(number):
    assert document_from_json(f'{{"id": "a", "f": {number}}}').fields["f"] == (json.loads(number),)


def test_a_surrogate_pair_is_one_character():
    assert document_from_json(r'{"id": "a", "f": "\ud83d\udd14"}').fields == {"f": ("🔔",)}


# --- what is refused, each with its own sentence ---------------------------------------------------------------------

REFUSED = {
    "": "this is empty",
    " \n ": "this is empty",
    "[]": "this is a list: an object is expected",
    "17": "this is a number: an object is expected",
    "null": "this is null: an object is expected",
    '"id"': "this is a string: an object is expected",
    "{}": 'there is no "id"',
    '{"id": null}': 'there is no "id"',
    '{"id": []}': 'there is no "id"',
    '{"id": ""}': '"id" is empty',
    '{"id": 7}': '"id" is a number: write it as a string',
    '{"id": true}': '"id" is true: it must be a string',
    '{"id": ["a"]}': '"id" is a list: it must be a string',
    '{"id": {}}': '"id" is an object: it must be a string',
    '{"id": "a", "source": 7}': '"source" is a number: it must be a string',
    '{"id": "a", "source": ["acl"]}': '"source" is a list: it must be a string',
    '{"id": "a", "xml": 7}': '"xml" is a number: it must be a string',
    '{"id": "a", "xml": {}}': '"xml" is an object: it must be a string',
    '{"id": "a", "time": 1085961600}': '"time" is a number: it must be a string',
    '{"id": "a", "time": ""}': '"time" is "", which is no date: write it as 2004-05-31',
    '{"id": "a", "time": "yesterday"}': '"time" is "yesterday", which is no date',
    '{"id": "a", "time": "2004-02-30"}': '"time" is "2004-02-30", which is no date',
    '{"id": "a", "version": 1.0}': '"version" is 1.0: it must be a whole number, from 0 to',
    '{"id": "a", "version": "2"}': '"version" is a string: it must be a whole number',
    '{"id": "a", "version": true}': '"version" is true: it must be a whole number',
    '{"id": "a", "version": [2]}': '"version" is a list: it must be a whole number',
    '{"id": "a", "version": -1}': '"version" is out of range: it must be a whole number',
    '{"id": "a", "version": 9223372036854775808}': '"version" is out of range: it must be a whole number',
    f'{{"id": "a", "version": {"9" * 5_000}}}': '"version" is out of range: it must be a whole number',
    '{"id": "a", "f": true}': 'field "f" holds true: write "true" as a string, or 1 or 0',
    '{"id": "a", "f": [1, false]}': 'field "f" holds false',
    '{"id": "a", "f": {"x": 1}}': 'field "f" holds an object: only strings, numbers and lists of these can',
    '{"id": "a", "f": [{}]}': 'field "f" holds an object',
    '{"id": "a", "f": ["x", null]}': 'the list of field "f" holds null: leave it out of the list',
    '{"id": "a", "f": [["x"]]}': 'the list of field "f" holds another list: write one flat list',
    '{"id": "a", "f": NaN}': "NaN is no number in JSON: write null, or leave the field out",
    '{"id": "a", "f": Infinity}': "Infinity is no number in JSON",
    '{"id": "a", "f": [-Infinity]}': "-Infinity is no number in JSON",
    '{"id": "a", "f": 1e999}': 'field "f" holds a number too large for float64: write it as a string',
    '{"id": "a", "f": [-1e999]}': 'field "f" holds a number too large for float64',
    f'{{"id": "a", "f": {"9" * 309}}}': 'field "f" holds a number too large for float64',
    f'{{"id": "a", "f": -{"9" * 5_000}}}': 'field "f" holds a number too large for float64',
    '{"id": "a", "id": "b"}': 'the key "id" occurs twice: write several values as a list',
    '{"id": "a", "f": 1, "f": 1}': 'the key "f" occurs twice',
    r'{"id": "a", "f": 1, "\u0066": null}': 'the key "f" occurs twice',
    '{"id": "a", "dc:title": "x"}': 'the field name "dc:title" holds ":": only letters, digits',
    '{"id": "a", "dc:title": null}': 'the field name "dc:title" holds ":"',
    '{"id": "a", "my title": 1}': 'the field name "my title" holds a space',
    '{"id": "a", "1st": 1}': 'the field name "1st" starts with "1": it must start with a letter',
    '{"id": "a", "_x": 1}': 'the field name "_x" starts with "_"',
    '{"id": "a", "": 1}': "a field name is empty",
    r'{"id": "a", "x\n": 1}': r'the field name "x\n" holds "\n"',
    r'{"id": "a", "f": "x\ud800y"}': r'"f" holds a lone surrogate (\ud800), which is no character',
    r'{"id": "a", "f": ["ok", "\udc00"]}': r'"f" holds a lone surrogate (\udc00)',
    r'{"id": "a\udfff"}': r'"id" holds a lone surrogate (\udfff)',
    r'{"id": "a", "source": "\ud800"}': r'"source" holds a lone surrogate (\ud800)',
    r'{"id": "a", "xml": "\ud800"}': r'"xml" holds a lone surrogate (\ud800)',
    r'{"id": "a", "f\ud800": 1}': r'the field name "f\ud800" holds a lone surrogate',
    '{"id": "a", "f": "\ud800"}': r"a lone surrogate (\ud800), which is no character: write both halves, or leave it",
    '{"id": "a",}': "invalid JSON at column",
    '{"id": "a" "f": 1}': 'invalid JSON at column 12: a "," or the closing bracket is expected here',
    '{"id" "a"}': 'invalid JSON at column 7: a ":" is expected after the key',
    '{id: "a"}': "invalid JSON at column 2: a key in double quotes is expected here",
    '{"id": "a", "f": }': "invalid JSON at column 18: a value is expected here",
    '{"id": "a", "f": True}': "invalid JSON at column 18: a value is expected here",
    '{"id": "a", "f": 01}': "invalid JSON at column 19",
    '{"id": "a': "invalid JSON at column 8: the string that starts here is not closed",
    '{"id": "a\tb"}': "invalid JSON at column 10: a line break, tab or other control character",
    '{"id": "a"} {"id": "b"}': "invalid JSON at column 13: the object ends before this, but more text follows",
    '{"id": "a",\n "f": x}': "invalid JSON at line 2 of the object, column 7",
    '{"id": "a", "f": ' + "[" * 100_000: "the brackets are nested too deeply",
    "[" * 100_000: "the brackets are nested too deeply",
    '{"f":' * 100_000: "the brackets are nested too deeply",
}


@pytest.mark.parametrize("raw", REFUSED, ids=lambda raw: ascii(raw[:40]))
def test_each_problem_has_its_own_sentence(raw):
    assert REFUSED[raw] in refusal(raw)


def test_invalid_utf8_is_named_by_its_byte():
    assert refusal(b'{"id": "caf\xe9"}') == "invalid UTF-8 at byte 11 (0xe9): save the text as UTF-8"
    assert "invalid UTF-8 at byte 8 (0xed)" in refusal(b'{"id": "\xed\xa0\x80"}')  # a surrogate, as bytes
    assert "this looks like UTF-16" in refusal('{"id": "a"}'.encode("utf-16"))


def test_size_is_counted_in_bytes():
    assert document_from_json('{"id": "é"}', DocumentLimits(document_bytes_max=12)).id == "é"
    assert refusal('{"id": "é"}', document_bytes_max=11) == "more than 11 bytes (document_bytes_max)"
    assert refusal('{"id": "é"}'.encode(), document_bytes_max=11) == "more than 11 bytes (document_bytes_max)"


def test_fields_and_values_are_bounded():
    raw = '{"id": "a", "f": [1, 2], "g": "x", "h": null}'
    assert len(document_from_json(raw, DocumentLimits(document_fields_max=2, document_values_max=3)).fields) == 2
    assert refusal(raw, document_fields_max=1) == "more than 1 fields (document_fields_max)"
    assert refusal(raw, document_values_max=2) == "more than 2 values (document_values_max)"


def test_a_message_stays_short_and_printable():
    reason = refusal(json.dumps({"id": "a", "\x1b[31m" + "x" * 1_000_000: 1}))
    assert len(reason) < 200
    assert reason.isprintable()


def test_decoded_objects_are_checked_too():
    for value in (float("nan"), float("inf"), 10**400, object(), b"x", {1}):
        with pytest.raises(DocumentError, match="field"):
            document_from_object({"id": "a", "f": value})
    with pytest.raises(DocumentError, match="out of range"):
        document_from_object({"id": "a", "version": 10**5_000})
    with pytest.raises(DocumentError, match="a field name is a number"):
        document_from_object({"id": "a", 7: "x"})  # type: ignore[dict-item]


SURROGATES = st.text(st.characters(exclude_categories=[]), max_size=8)
KEYS = st.sampled_from(["id", "source", "time", "version", "xml", "f", "title", "a:b"]) | SURROGATES
NUMBERS = st.integers() | st.floats() | st.integers(10**300, 10**320)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | SURROGATES | st.just("2004-05-31"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)
ALMOST = st.fixed_dictionaries({"id": st.just("a")}, optional=dict.fromkeys(["source", "time", "version", "f"], JSON))


def is_document_or_refusal(raw: bytes | str) -> None:
    try:
        shown = document_to_json(document_from_json(raw))
    except DocumentError as error:
        shown = error.reason
    assert shown.encode()  # whole characters
    assert "\n" not in shown


@given(JSON | ALMOST, st.booleans())
def test_any_json_is_a_document_or_a_refusal(value, ascii_only):
    is_document_or_refusal(json.dumps(value, ensure_ascii=ascii_only))


@given(st.text() | st.text(alphabet='{}[]",:\\ud8009e-.trlnaNIid '))
@example('{"id":"\\ud800')
def test_any_text_is_a_document_or_a_refusal(raw):
    is_document_or_refusal(raw)


@given(st.binary() | st.binary().map(lambda junk: b'{"id": "a", "f": "' + junk + b'"}'))
def test_any_bytes_are_a_document_or_a_refusal(raw):
    is_document_or_refusal(raw)


# --- back to JSON ----------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=10)
NAMES = st.text(alphabet="abYZé09_-.", min_size=1, max_size=4).filter(
    lambda name: is_field_name(name) and name not in ("id", "source", "time", "version", "xml")
)
VALUES = TEXTS | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
DOCUMENTS = st.builds(
    Document,
    id=st.text(min_size=1, max_size=5),
    fields=st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=3).map(tuple), max_size=4),
    source=st.none() | TEXTS,
    time=st.none() | st.just("2004-05-31"),
    version=st.integers(0, VERSION_MAX),
    xml=st.none() | TEXTS,
)


@given(DOCUMENTS)
def test_a_document_comes_back_from_json_as_it_was(document):
    line = document_to_json(document)
    assert document_from_json(line) == document
    assert "\n" not in line


def test_json_of_a_document_is_as_a_person_would_write_it():
    document = Document("a", {"title": ("Über",), "author": ("Ann", "Bob")}, version=2)
    assert document_to_json(document) == '{"id":"a","version":2,"title":"Über","author":["Ann","Bob"]}'


# --- fingerprints ----------------------------------------------------------------------------------------------------

SMALL = st.sampled_from(["a", "b", "", 0, 1, 1.0, -0.0, 2**53, 2**53 + 1, float(2**53)])
SIMILAR = st.builds(
    Document,
    id=st.sampled_from("ab"),
    fields=st.dictionaries(st.sampled_from("fg"), st.lists(SMALL, min_size=1, max_size=2).map(tuple), max_size=2),
    source=st.sampled_from([None, "", "a"]),
    version=st.integers(0, 2),
    xml=st.sampled_from([None, "", "a"]),
)


@given(SIMILAR, SIMILAR)
def test_fingerprints_agree_exactly_when_documents_are_equal(one, other):
    assert len(fingerprint(one)) == 16
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


def test_the_order_of_keys_does_not_count_but_that_of_values_does():
    first = fingerprint(document_from_json('{"id": "a", "f": [1, 2], "g": "x"}'))
    assert fingerprint(document_from_json('{"g": ["x"], "f": [1.0, 2], "id": "a", "h": null}')) == first
    assert fingerprint(document_from_json('{"id": "a", "f": [2, 1], "g": "x"}')) != first
    assert fingerprint(document_from_json('{"id": "a", "f": ["1", 2], "g": "x"}')) != first


def test_a_fingerprint_is_the_same_tomorrow():
    """It may be stored, so it depends on neither the process nor the version of Python."""
    document = Document("a", {"f": ("é\u2028🔔", 1.0, 0.1)}, source="s", time="2004-05-31", version=2)
    assert fingerprint(document).hex() == "918d7d2fe1ab42fb9cb91c76f159c08c"


# --- versions --------------------------------------------------------------------------------------------------------


def test_identical_content_is_ignored():
    admission = Admission()
    assert admission.admit(Document("a", {"f": (1,)}))
    assert not admission.admit(Document("a", {"f": (1.0,)}))
    assert not admission.replaced
    assert len(admission) == 1


def test_the_same_version_with_other_content_is_refused():
    admission = Admission()
    admission.admit(Document("a", {"f": (1,)}, version=4))
    with pytest.raises(DocumentError, match='"a" came before with version 4 and other content'):
        admission.admit(Document("a", {"f": (2,)}, version=4))
    assert not admission.admit(Document("a", {"f": (1,)}, version=4))


def test_a_lower_version_is_refused_even_if_it_was_seen():
    admission = Admission()
    admission.admit(Document("a", version=2))
    admission.admit(Document("a", version=5))
    with pytest.raises(DocumentError, match='"a" has version 2, but version 5 came before'):
        admission.admit(Document("a", version=2))


def test_a_higher_version_replaces():
    admission = Admission()
    assert admission.admit(Document("a"))
    assert admission.is_current("a", 1)
    assert admission.admit(Document("a", version=2))
    assert admission.replaced
    assert admission.is_current("a", 2)
    assert not admission.is_current("a", 1)
    assert not admission.is_current("b", 1)


def plain_admit(known: dict[str, Document], document: Document) -> bool | None:
    """The rule of the contract, in the obvious way; None is a refusal."""
    before = known.get(document.id)
    if before == document:
        return False
    if before is not None and before.version >= document.version:
        return None
    known[document.id] = document
    return True


@given(st.lists(SIMILAR, max_size=12))
def test_admission_is_the_rule_of_the_contract(documents):
    admission, known = Admission(), dict[str, Document]()
    for document in documents:
        expected = plain_admit(known, document)
        if expected is None:
            with pytest.raises(DocumentError):
                admission.admit(document)
        else:
            assert admission.admit(document) == expected
    assert all(admission.is_current(document.id, document.version) for document in known.values())
    assert len(admission) == len(known)


def test_many_ids_take_little_memory():
    admission, count = Admission(), 20_000
    for number in range(count):
        assert admission.admit(Document(f"id-{number}", version=number))
    assert not admission.replaced
    assert all(admission.is_current(f"id-{number}", number) for number in range(count))
    assert not any(admission.is_current(f"id-{number}", number + 1) for number in range(count))
    assert sys.getsizeof(admission._known._block) / count < 110
