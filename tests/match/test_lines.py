"""JSON lines straight into the index: whatever the lines are, the result is that of intake and of documents."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Analysis, Document, Knowledge, Statistics
from tocsin.errors import DocumentError
from tocsin.intake import document_from_json
from tocsin.match import line_kernels, lines, reference
from tocsin.match.index import QueryIndex
from tocsin.match.kernels import COMPILED, PADDING
from tocsin.match.lines import Found, Lines, Room, Scan
from tocsin.match.marking import _folded, simple_forms
from tocsin.match.segments import frozen
from tocsin.query import parse_subscription
from tocsin.query.semantics import holds
from tocsin.settings import DEFAULTS, DocumentLimits
from tocsin.text import _BREAKS, spaced, words

VOLUME = 20_000 if COMPILED else 300
LIMITS = DEFAULTS.document
MIXED = Analysis({"abstract": "english", "venue": "keyword", "time": "keyword"})
QUERIES = [
    "tree", "run", "naïve", "title:tree", "abstract:running", 'venue:"p2p conf"', "id:d1", 'source:"acl"',
    "time:[2001-01-01 TO 2005-01-01]", 'time:"2004-02-29"', "year:2004", "year:[2000 TO 2004]", "title:*", "year:*",
    '"red tree"', "red NEAR/3 tree", "tree AND NOT red", "NOT tree", "straße", "a", "n", "u00e9", "title:naïve",
    'abstract:"running fox"', 'title:"red tree"', "year:1000", "year:-0.5", "time:*", "café OR fox",
]  # fmt: skip
PREFIXES = ["tre*", "title:na*"]

# --- lines to try ----------------------------------------------------------------------------------------------------

_PLAIN = rb"""{"id":"a"}
{ "id" : "a" , "title" : "red tree" }
{"id":"a","year":2004,"list":["x",1,-2.5e3],"none":null,"empty":[ ],"source":null,"time":[],"version":null,"xml":null}
{"id":"d1","source":"acl","time":"2004-02-29","version":0}
{"id":"na\xc3\xafve","title":"caf\xc3\xa9 \xf0\x9f\x8c\xb3 tree"}
{"id":"a","title":"red\ntree \"fox\" \\ \/ \u0041 \u00e9 \b\f\r\t"}
{"id":"a","time":"2004-05-31T18:30:00Z","version":999999999999999999}
{"id":"a","time":"2004-05-31 18:30:60.123456789123+01:30"}
{"id":"a","time":"2004-05-31t18:30:00-23:59","n":0,"m":-0,"o":0.0,"p":1E5,"q":1e+99,"r":1e-99}
{"id":"a","a.b-c_d":"x","Title":"y","title":"","venue":["P2P Conf","x@[Y]"]}
{"id":"\x7f","title":"\x7f\x7f"}"""

_ODD = rb"""

{}
[]
"a"
nul
{"id":"a"
{"id":"a"}}
{"id":"a"} x
{"id":"a",}
{"id":"a" "b":"c"}
{"id":"a","title":"x"{
{"id":"a","id":"b"}
{"id":"a","title":"x","title":"y"}
{"id":"a","abcdefghijklmnopqrst":"x","abcdefghijklmnopqrst":null}
{"id":""}
{"id":1}
{"id":null}
{"id":[]}
{"id":["a"]}
{"title":"a"}
{"id":"\u0061"}
{"\u0069d":"a"}
{"id":"a","":"x"}
{"id":"a","_x":"x"}
{"id":"a","9x":"x"}
{"id":"a","x y":"x"}
{"id":"a","\xc3\xa9":"x"}
{"id":"a","x":true}
{"id":"a","x":{"y":1}}
{"id":"a","x":[[1]]}
{"id":"a","x":[null]}
{"id":"a","x":[1,]}
{"id":"a","x":[,1]}
{"id":"a","x":[1 2]}
{"id":"a","x":[1}
{"id":"a","x":NaN}
{"id":"a","x":-Infinity}
{"id":"a","x":01}
{"id":"a","x":-}
{"id":"a","x":1.}
{"id":"a","x":.5}
{"id":"a","x":1e}
{"id":"a","x":1e999}
{"id":"a","x":1e100}
{"id":"a","x":+1}
{"id":"a","x":123456789012345678901234567890123}
{"id":"a","x":nulL}
{"id":"a","x":"\q"}
{"id":"a","x":"\u12"}
{"id":"a","x":"\u12G4"}
{"id":"a","x":"\ud83c\udf33"}
{"id":"a","x":"\ud83c"}
{"id":"a","x":"\udf33"}
{"id":"a","x":"\xff"}
{"id":"a","x":"\xc3"}
{"id":"a","x":"\xc0\xaf"}
{"id":"a","x":"\xed\xa0\x80"}
{"id":"a","x":"\xf4\x90\x80\x80"}
{"id":"a","x":"\xe0\x80\x80"}
{"id":"a\xff"}
{"id":"a","x":"	"}
{"id":"a","x":"\x00"}
{"id":"a","version":1.0}
{"id":"a","version":-1}
{"id":"a","version":-0}
{"id":"a","version":01}
{"id":"a","version":"1"}
{"id":"a","version":9223372036854775807}
{"id":"a","version":9223372036854775808}
{"id":"a","version":[1]}
{"id":"a","version":true}
{"id":"a","source":1}
{"id":"a","source":["x"]}
{"id":"a","source":"\n"}
{"id":"d1","source":"acl","time":"2004-02-29","version":0,"xml":"<a b=\"1\">\u00e9\n</a>"}
{"id":"a","xml":1}
{"id":"a","xml":"\ud800"}
{"id":"a","time":"2004"}
{"id":"a","time":"2005-02-29"}
{"id":"a","time":"1900-02-29"}
{"id":"a","time":"0000-01-01"}
{"id":"a","time":"2004-13-01"}
{"id":"a","time":"2004-04-31"}
{"id":"a","time":"2004-04-00"}
{"id":"a","time":"2004-04-01T24:00:00"}
{"id":"a","time":"2004-04-01T23:60:00"}
{"id":"a","time":"2004-04-01T23:00:61"}
{"id":"a","time":"2004-04-01T23:00"}
{"id":"a","time":"2004-04-01T23:00:00."}
{"id":"a","time":"2004-04-01T23:00:00+24:00"}
{"id":"a","time":"2004-04-01T23:00:00+01:60"}
{"id":"a","time":"2004-04-01T23:00:00+0100"}
{"id":"a","time":"2004-04-01X23:00:00"}
{"id":"a","time":"2004/04/01"}
{"id":"a","time":""}
\xef\xbb\xbf{"id":"a"}
\xff\xfe{"id":"a"}
{"id":"a"}\x00
{'id':'a'}"""


def _read(block: bytes) -> list[bytes]:
    """One line each; \\xNN stands for that byte."""
    return [re.sub(rb"\\x(..)", lambda found: bytes([int(found[1], 16)]), line) for line in block.split(b"\n")]


PLAIN, ODD = _read(_PLAIN), _read(_ODD)
WORDS = [
    "tree",
    "Red",
    "running",
    "fox",
    "runs",
    "the",
    "café",
    "naïve",
    "STRASSE",
    "ﬁ",
    "é",
    "🌳",
    "“naïve”",
    "cafe\u0301",
    "½",
    "Ωmega",
    "ΑΣ",
    "東京",
    "n",
    "x@[Y]",
    "",
]
NAMES = ["id", "title", "abstract", "venue", "year", "source", "time", "version", "xml", "x", "a.b", "éa", "_", "id"]


def nasty_value(rng: random.Random) -> object:
    """Anything that JSON can say, and some that it cannot."""
    text = " ".join(rng.choices(WORDS, k=rng.choice([0, 1, 2, 30])))
    if rng.random() < 0.1:
        nasty: list[object] = [True, [None], {}, [[text]], float("nan"), text + "\ud800", 10 ** rng.randrange(400)]
        return rng.choice(nasty)
    texts = [text, text, text, text + '\\"\n', "P2P Conf", "acl", "d1", "2004-02-29", "2004-02-29T10:00:00Z"]
    return rng.choice([*texts, 2004, -0.5, 1e3, 0, None, [], [text, 2004, "red tree"]])


def nasty_line(rng: random.Random) -> bytes:
    """Mostly a document; sometimes a byte of it is another."""
    members: list[tuple[str, object]] = [("id", rng.choice(["d1", "d2", "é", "a/b"]))] if rng.random() < 0.9 else []
    names = rng.choices(NAMES, k=4) if rng.random() < 0.3 else rng.sample(NAMES[1:5], rng.randrange(5))
    members += [(name, nasty_value(rng)) for name in names]
    rng.shuffle(members)
    ascii_only = rng.random() < 0.4
    gap = rng.choice(["", "", " ", "\t", "\r\n"])
    shown = [
        f"{json.dumps(name, ensure_ascii=ascii_only)}{gap}:{json.dumps(value, ensure_ascii=ascii_only)}"
        for name, value in members
    ]
    line = f"{gap}{{{(gap + ',').join(shown)}{gap}}}{gap}".encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        at = rng.randrange(len(line))
        new = bytes([rng.choice([*b'"\\{}[],: 019.-+eEnu\t', rng.randrange(256)])])
        line = line[:at] + rng.choice([b"", new]) + line[at + rng.choice([0, 1]) :]
    return line


NASTY = st.builds(nasty_line, st.randoms(use_true_random=False))
SOUP = st.lists(
    st.sampled_from(
        [
            b"{",
            b"}",
            b'"id"',
            b":",
            b'"a"',
            b",",
            b'"title"',
            b"[",
            b"]",
            b"1",
            b"null",
            b" ",
            b'"',
            b"\\",
            b"\\u00e9",
            b"\xc3",
            b"-",
        ]
    ),
    max_size=14,
).map(b"".join)
LINE = st.one_of(
    st.sampled_from(PLAIN), st.sampled_from(ODD), NASTY, SOUP, SOUP.map(lambda s: b'{"id":"a",' + s + b"}")
)

# --- the scanner ------------------------------------------------------------------------------------------------------


def scan(found: list[bytes], limits: DocumentLimits = LIMITS) -> list[reference.PlainLine | None]:
    """What the kernel says, as its twin says it."""
    answer: list[reference.PlainLine | None] = []
    packed, room = Lines.of(found), Room()
    while len(answer) < len(found):
        some = Scan.of(packed, len(answer), limits, room)
        spans = some.spans
        keys = [some.buffer[a:b].tobytes().decode() for a, b in zip(spans.key_start, spans.key_end, strict=True)]
        values: list[list[tuple[str, bytes]]] = [[] for _ in range(len(some))]
        for value, (line, key) in enumerate(zip(spans.line, spans.key, strict=True)):
            values[line].append((keys[key], some.bytes_of(value)))
        for line, odd in enumerate(some.heads.odd):
            id = some.buffer[some.heads.id_start[line] : some.heads.id_end[line]].tobytes()
            answer.append(
                None if odd else reference.PlainLine(id.decode(), int(some.heads.version[line]), values[line])
            )
    return answer


def twin(found: list[bytes], limits: DocumentLimits = LIMITS) -> list[reference.PlainLine | None]:
    return reference.scan_lines(
        found, limits.document_bytes_max, limits.document_fields_max, limits.document_values_max
    )


def intake(line: bytes, limits: DocumentLimits = LIMITS) -> Document | str:
    try:
        return document_from_json(line, limits)
    except DocumentError as error:
        return str(error)


def check_plain(line: bytes, plain: reference.PlainLine | None, limits: DocumentLimits = LIMITS) -> None:
    """A plain line is a document, with just these values."""
    if plain is None:
        return
    document = intake(line, limits)
    assert isinstance(document, Document), (line, document)
    assert (plain.id, plain.version) == (document.id, document.version)
    named = {"id": (document.id,), "source": (document.source,), "time": (document.time,)}
    wanted = {name: values for name, values in {**named, **document.fields}.items() if values != (None,)}
    held: dict[str, tuple[object, ...]] = {}
    for name, raw in plain.values:
        texts = [one for one in wanted.get(name, ()) if isinstance(one, str)]
        text = json.loads(b'"%b"' % raw)
        value = text if text in texts else json.loads(raw)
        held[name] = (*held.get(name, ()), value)
    assert held == wanted


@pytest.mark.parametrize("line", PLAIN)
def test_plain_lines_are_plain(line: bytes) -> None:
    [plain] = scan([line])
    assert plain is not None
    check_plain(line, plain)


@pytest.mark.parametrize("line", ODD)
def test_odd_lines_are_odd(line: bytes) -> None:
    assert scan([line]) == [None]


@given(st.lists(LINE, max_size=6))
def test_the_scanner_is_its_twin(found: list[bytes]) -> None:
    answer = scan(found)
    assert answer == twin(found)
    for line, plain in zip(found, answer, strict=True):
        check_plain(line, plain)


def test_the_scanner_is_its_twin_on_many_lines() -> None:
    rng = random.Random(5)
    found = [nasty_line(rng) for _ in range(VOLUME)]
    answer = scan(found)
    assert answer == twin(found)
    for line, plain in zip(found, answer, strict=True):
        check_plain(line, plain)
    assert sum(plain is not None for plain in answer) > VOLUME / 3


@pytest.mark.parametrize("line", [line for line in PLAIN if len(line) < 60])
def test_a_line_cut_anywhere_is_not_mended_by_the_next(line: bytes) -> None:
    """Bytes behind a line belong to another one, even where they would complete it."""
    found = [part for at in range(len(line) + 1) for part in (line[:at], line[at:])]
    assert scan(found) == twin(found)


@given(st.lists(LINE, min_size=1, max_size=4), st.integers(0, 80), st.integers(0, 4), st.integers(0, 5))
def test_limits_make_lines_odd(found: list[bytes], size: int, fields: int, values: int) -> None:
    limits = DocumentLimits(size, fields, values)
    answer = scan(found, limits)
    assert answer == twin(found, limits)
    for line, plain in zip(found, answer, strict=True):
        check_plain(line, plain, limits)


def test_lines_with_many_keys_or_values_end_a_scan_or_are_odd() -> None:
    many_keys = json.dumps({"id": "a"} | {f"k{n}": n for n in range(64)}).encode()
    few_keys = json.dumps({"id": "a"} | {f"k{n}": n for n in range(63)}).encode()
    long_name = json.dumps({"id": "a", "n" * 63: 1}).encode()
    longer_name = json.dumps({"id": "a", "n" * 64: 1}).encode()
    assert [plain is not None for plain in scan([many_keys, few_keys, long_name, longer_name])] == [
        False,
        True,
        True,
        False,
    ]
    values = json.dumps({"id": "a", "x": list(range(60))}).encode()
    room = Room(100)
    packed = Lines.of([values, values, few_keys])
    assert [len(Scan.of(packed, at, LIMITS, room)) for at in (0, 1, 2)] == [1, 1, 1]
    too_many = json.dumps({"id": "a", "x": list(range(200))}).encode()
    some = Scan.of(Lines.of([too_many, values]), 0, LIMITS, room)
    assert some.heads.odd.tolist() == [1, 0]
    assert some.odd[0] == document_from_json(too_many)


@given(st.lists(st.text(st.characters(max_codepoint=127)), max_size=5))
def test_lower_values_is_its_twin(values: list[str]) -> None:
    raw = [value.encode() for value in values]
    packed, bounds = Lines.of(raw), np.zeros(len(raw) + 1, np.int64)
    offsets = frozen(np.asarray(packed.offsets, np.int64))
    lowered = np.zeros(packed.buffer.size, np.uint8)
    line_kernels.lower_values(packed.buffer, offsets[:-1], offsets[1:], lowered, bounds)
    held = [lowered[a:b].tobytes() for a, b in pairwise(bounds)]
    assert held == reference.lower_values(raw)


FOLDED = st.text(st.sampled_from([*map(chr, range(0x80)), *simple_forms()]), max_size=12)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(FOLDED)
def test_simple_characters_are_folded_alike_wherever_they_are(text: str) -> None:
    assert "".join(simple_forms().get(one, one.lower()) for one in text).translate(_BREAKS) == spaced(text)


def test_simple_characters_are_folded_alike_beside_each_other() -> None:
    """Each before and after letters and forty of the others."""
    forms, chance = simple_forms(), random.Random(8)
    assert len(forms) > 3_000
    some = list(forms) if COMPILED else chance.sample(list(forms), 200)
    for one in some:
        others = [*"aeioAEIO ", *chance.sample(list(forms), 40)]
        text = "".join(f"{one}{other}{one}" for other in others)
        assert "".join(forms.get(c, c.lower()) for c in text) == spaced(text)


@given(st.lists(FOLDED | ANY, max_size=6), st.booleans())
def test_fold_values_is_its_twin(texts: list[str], ascii_only: bool) -> None:
    raw = [
        json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode() for text in texts if not has_pairs(text, ascii_only)
    ]
    packed = Lines.of(raw)
    offsets = frozen(np.asarray(packed.offsets, np.int64))
    buffer, starts, ends, is_whole = _folded(packed.buffer, offsets[:-1], offsets[1:])
    spans = zip(starts, ends, is_whole, strict=True)
    held = [buffer[a:b].tobytes() if whole else None for a, b, whole in spans]
    assert held == reference.fold_values(raw, simple_forms())
    for text, value in zip([text for text in texts if not has_pairs(text, ascii_only)], held, strict=True):
        assert value is None or words(value.decode()) == words(text)


def has_pairs(text: str, ascii_only: bool) -> bool:
    """Would JSON write it with surrogates? Such lines are odd."""
    return ascii_only and any(one > "\uffff" for one in text)


@pytest.mark.skipif(not COMPILED, reason="uncompiled, the twins are used themselves")
@given(st.binary(min_size=64, max_size=64))
def test_single_instructions_are_their_twins(raw: bytes) -> None:
    buffer = frozen(np.frombuffer(raw, np.uint8))
    assert bits_of(buffer) == (reference.stop_bits(buffer, 0), reference.high_bits(buffer, 0))


@numba.njit
def bits_of(buffer):
    return line_kernels.stop_bits(buffer, np.uint64(0)), line_kernels.high_bits(buffer, np.uint64(0))


# --- the index --------------------------------------------------------------------------------------------------------


def index_of(texts: list[str], analysis: Analysis) -> QueryIndex:
    index = QueryIndex(analysis)
    for text in texts:
        index.add(parse_subscription(text, analysis))
    return index


def by_documents(found: list[bytes], texts: list[str], analysis: Analysis, knowledge: Knowledge) -> tuple[list, dict]:
    """Every line through intake, every document through match(): (owner, line) pairs and refusals."""
    taken = [intake(line) for line in found]
    places = [line for line, one in enumerate(taken) if isinstance(one, Document)]
    documents = [one for one in taken if isinstance(one, Document)]
    index = index_of(texts, analysis)
    owners, at = index.match(documents, knowledge)
    pairs = [(owner, places[place]) for owner, place in zip(owners.tolist(), at.tolist(), strict=True)]
    index.counts.tried.clear()
    return pairs, {line: one for line, one in enumerate(taken) if isinstance(one, str)}


def check_lines(found: list[bytes], texts: list[str], analysis: Analysis, *, oracle: bool = True) -> Found:
    taken = {line: one for line, raw in enumerate(found) if isinstance(one := intake(raw), Document)}
    knowledge = Knowledge(analysis, Statistics.of(list(taken.values()), analysis))
    index = index_of(texts, analysis)
    answer = index.match_lines(Lines.of(found), knowledge)
    pairs, refused = by_documents(found, texts, analysis, knowledge)
    assert list(zip(answer.owners.tolist(), answer.places.tolist(), strict=True)) == pairs
    assert answer.refused == refused
    assert index.counts.documents == len(taken)
    for line in range(len(found)):
        if line in taken:
            assert (answer.id(line), answer.version[line]) == (taken[line].id, taken[line].version)
            assert answer.document(line) == taken[line]
        else:
            assert (answer.version[line], answer.id_start[line]) == (0, -1)
            with pytest.raises(KeyError):
                answer.id(line)
    if oracle:
        queries = [parse_subscription(text, analysis) for text in texts]
        assert pairs == [
            (owner, line)
            for line, document in taken.items()
            for owner, query in enumerate(queries)
            if holds(query, document, knowledge)
        ]
    return answer


@pytest.mark.parametrize("analysis", [Analysis(), MIXED], ids=["standard", "mixed"])
@pytest.mark.parametrize("texts", [QUERIES, QUERIES + PREFIXES], ids=["", "prefixes"])
def test_all_kinds_of_lines_match_as_their_documents_do(analysis: Analysis, texts: list[str]) -> None:
    answer = check_lines(PLAIN + ODD, texts, analysis)
    assert answer.owners.size > 20


@given(st.lists(LINE, max_size=5), st.sampled_from([Analysis(), MIXED]))
def test_lines_match_as_their_documents_do(found: list[bytes], analysis: Analysis) -> None:
    check_lines(found, QUERIES, analysis)


@pytest.mark.parametrize("analysis", [Analysis(), MIXED], ids=["standard", "mixed"])
def test_many_lines_match_as_their_documents_do(analysis: Analysis) -> None:
    rng = random.Random(6)
    found = [nasty_line(rng) for _ in range(VOLUME // 4)]
    answer = check_lines(found, QUERIES, analysis, oracle=COMPILED)
    assert answer.owners.size > len(found)
    assert len(answer.refused) > len(found) / 10


def test_scans_of_any_length_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    found = [nasty_line(rng) for _ in range(300 if COMPILED else 60)]
    monkeypatch.setattr(lines, "LINES_MAX", 7)
    check_lines(found, QUERIES, MIXED)
    monkeypatch.setattr(lines, "LINES_MAX", 70)
    monkeypatch.setattr(lines, "_BUFFER_MAX", 100)
    check_lines(found, QUERIES, MIXED)


def test_queries_and_fields_added_between_calls_are_seen() -> None:
    index, analysis = QueryIndex(MIXED), MIXED
    packed, knowledge = Lines.of([b'{"id":"d1","title":"red tree","year":3}']), Knowledge(analysis)
    assert index.match_lines(packed, knowledge).owners.tolist() == []
    for owner, text in enumerate(["tree", "title:red", "year:3", "year:*", "id:d1", "tre*"]):
        assert index.add(parse_subscription(text, analysis)) == owner
        assert index.match_lines(packed, knowledge).owners.tolist() == list(range(owner + 1))


def test_plain_lines_become_documents_only_when_words_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(raw: bytes, limits: DocumentLimits) -> Document:
        made.append(raw)
        return document_from_json(raw, limits)

    monkeypatch.setattr(lines, "document_from_json", counted)
    found = [b'{"id":"a","title":"red tree"}', b'{"id":"b","title":"tree red"}', b'{"id":"c","title":"fox"}']
    index = index_of(["tree", "title:red AND NOT fox", "year:3", "title:*", '"red tree"'], Analysis())
    answer = index.match_lines(Lines.of(found), Knowledge())
    pairs = list(zip(answer.owners.tolist(), answer.places.tolist(), strict=True))
    assert pairs == [(0, 0), (1, 0), (3, 0), (4, 0), (0, 1), (1, 1), (3, 1), (3, 2)]
    assert made == found[:2]


def test_an_arrow_column_is_lines_as_it_is() -> None:
    """Its offsets may begin anywhere, and nothing need follow its last byte."""
    whole = [b'{"id":"x","t":"fox"}', b'{"id":"a","t":"tree"}', b"oops", b'{"id":"b","t":"tree"}']
    buffer = np.frombuffer(b"".join(whole), np.uint8)
    offsets = np.cumsum([0, *map(len, whole)]).astype(np.int32)
    answer = index_of(["tree"], Analysis()).match_lines(Lines(buffer, offsets[1:]), Knowledge())
    assert answer.places.tolist() == [0, 2]
    assert [answer.id(0), answer.id(2)] == ["a", "b"]
    assert list(answer.refused) == [1]


def test_no_lines_give_nothing() -> None:
    answer = QueryIndex(Analysis()).match_lines(Lines.of([]), Knowledge())
    assert (answer.owners.size, answer.version.size, answer.refused) == (0, 0, {})


@pytest.mark.parametrize(
    ("buffer", "offsets"),
    [(b"ab", [0, 3]), (b"ab", [-1, 2]), (b"ab", [1, 0]), (b"ab", [])],
)
def test_offsets_outside_the_buffer_are_refused(buffer: bytes, offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offset"):
        Lines(np.frombuffer(buffer, np.uint8), np.array(offsets, np.int64))


def test_padding_is_made_where_there_is_none() -> None:
    packed = Lines(np.frombuffer(b'{"id":"a"}', np.uint8), np.array([0, 10]))
    buffer, offsets = packed.cut(0)
    assert (buffer.size, offsets.tolist()) == (10 + PADDING, [0, 10])
