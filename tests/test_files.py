"""Files and standard input to documents and subscriptions; results back to files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.errors import InputError
from tocsin.files import Input, Rejection, find_inputs, read_documents, read_subscriptions, replacing, rereadable
from tocsin.files import lines as lines_module
from tocsin.files.lines import lines
from tocsin.files.rows import rows
from tocsin.files.unpacked import Damaged, unpack
from tocsin.files.values import values
from tocsin.intake import Admission
from tocsin.model import Document, Value
from tocsin.settings import DEFAULTS, DocumentLimits

SMALL = DocumentLimits(document_bytes_max=1_000)
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: bytes | str, name: str = "docs.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def outcome(*paths, limits=DEFAULTS.document, **options):
    """(id, line) of each document, (line, reason) of each rejection."""
    rejections: list = []
    found = [(each.document.id, each.line) for each in read_documents(paths, limits, rejections.append, **options)]
    return found, [(each.line, each.reason) for each in rejections]


def outline(*paths, **options):
    """Ids in order and the lines that were rejected."""
    found, rejections = outcome(*paths, **options)
    return "".join(id for id, _ in found), [line for line, _ in rejections]


def unexpected(rejection: Rejection) -> None:
    pytest.fail(str(rejection))


def doc(id: str, **fields: object) -> str:
    return json.dumps({"id": id, **fields})


# --- JSON lines ------------------------------------------------------------------------------------------------------


def test_each_document_carries_its_file_and_line(write):
    path = write(f"{doc('a', f=1)}\n{doc('b')}\n")
    first, second = read_documents([path], DEFAULTS.document, unexpected)
    assert first == (Document("a", {"f": (1,)}), str(path), 1)
    assert (second.document.id, second.file, second.line) == ("b", str(path), 2)


def test_bad_lines_are_rejected_one_by_one_and_the_others_go_through(write):
    path = write(b'{"id": "a"}\nnonsense\n{"id": "caf\xe9"}\n{"f": 1}\n{"id": "b"}\n')
    found, rejections = outcome(path)
    assert found == [("a", 1), ("b", 5)]
    assert [line for line, _ in rejections] == [2, 3, 4]
    assert "invalid JSON at column 1" in rejections[0][1]
    assert "invalid UTF-8 at byte 11" in rejections[1][1]
    assert 'no "id"' in rejections[2][1]


def test_a_rejection_reads_as_file_line_reason(write):
    path = write("nonsense\n")
    rejections: list[Rejection] = []
    assert list(read_documents([path], DEFAULTS.document, rejections.append)) == []
    assert str(rejections[0]).startswith(f"{path}:1: invalid JSON at column 1")


@pytest.mark.parametrize(
    "content",
    [
        '{"id": "a"}\n{"id": "b"}',
        '\ufeff{"id": "a"}\n{"id": "b"}\n',
        '{"id": "a"}\r\n{"id": "b"}\r\n',
        '\n \t\n{"id": "a"}\n\n\r\n{"id": "b"}\n\n',
    ],
    ids=["no last line break", "byte order mark", "CRLF", "blank lines"],
)
@pytest.mark.parametrize("name", ["docs.jsonl", "docs.json", "docs"])
def test_line_breaks_blank_lines_and_byte_order_marks(write, content, name):
    assert outline(write(content, name)) == ("ab", [])


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "[]", " [ ] \n"])
@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.csv", "x"])
def test_nothing_in_nothing_out(write, content, name):
    if not (name == "x.csv" and "[" in content):
        assert outline(write(content, name)) == ("", [])


def test_a_line_is_rejected_by_its_size_and_reading_goes_on(write):
    fits, over = doc("a", f="x" * 980), doc("b", f="x" * 981)
    assert (len(fits), len(over)) == (1_000, 1_001)
    found, rejections = outcome(write(f"{fits}\n{over}\n{doc('c')}"), limits=SMALL)
    assert found == [("a", 1), ("c", 3)]
    assert rejections == [(2, "more than 1,000 bytes (document_bytes_max)")]


def split(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The data in chunks of these sizes, over and over."""
    at = 0
    while at < len(data):
        for size in sizes:
            yield data[at : at + size]
            at += size


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=3)


@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=8), SIZES, st.booleans())
def test_lines_are_those_of_split_however_the_bytes_arrive(given_lines, sizes, last_break):
    data = b"\n".join(given_lines) + (b"\n" if last_break else b"")
    expected = data.split(b"\n")[: None if data and not data.endswith(b"\n") else -1]
    wanted = [(at, line if len(line) <= 8 else None) for at, line in enumerate(expected, start=1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "FRAGMENT_BYTES", 3)
        assert list(lines(split(data, sizes), 8)) == wanted


# --- arrays and objects over several lines ---------------------------------------------------------------------------

DOCS = [{"id": "a", "f": ['x, ]} "quoted" \\', 1]}, {"id": "b", "f": "}{"}, {"id": "c", "f": []}]


@pytest.mark.parametrize("indent", [None, 0, 1, 2, "\t"])
@pytest.mark.parametrize("name", ["docs.json", "docs.jsonl", "docs"])
def test_arrays_and_pretty_printed_objects(write, indent, name):
    one_by_one = "\n".join(json.dumps(each, indent=indent) for each in DOCS)
    assert outline(write(json.dumps(DOCS, indent=indent), name)) == ("abc", [])
    assert outline(write(one_by_one, name)) == ("abc", [])
    assert outline(write(one_by_one.replace("\n", "\r\n"), name)) == ("abc", [])
    assert outline(write("[\n" + ",\n".join(json.dumps(each) for each in DOCS) + "\n]\n", name)) == ("abc", [])


def test_lines_are_counted_inside_arrays_and_objects(write):
    array = '[\n  {"id": "a"}, {"id":\n "b"},\n\n  {"id": "c",\n "f": [1,\n 2]}\n]\n{\n"id": "d"}\n'
    assert outcome(write(array, "docs.json")) == ([("a", 2), ("b", 2), ("c", 5), ("d", 9)], [])


BROKEN = {  # one line each: what stands between the good elements a and c
    "wrong word": '{"id": "b", "f": tru}',
    "no id": '{"f": 1}',
    "number": "17",
    "word": "null",
    "string": '"b, ]} x"',
    "list": '[{"id": "b"}]',
    "nested object": '{"id": "b", "f": {"id": "x"}}',
    "list of objects": '{"id": "b", "f": [{"id": "x"}, {"id": "y"}]}',
    "open list": '{"id": "b", "f": [1, 2}',
    "stray bracket": '{"id": "b", "f": 1]}',
    "bad escape": r'{"id": "b", "f": "\x"}',
    "not UTF-8": b'{"id": "b", "f": "\xff"}',
    "deep": '{"id": "b", "f": ' + "[" * 3_000 + "]" * 3_000 + "}",
}


@pytest.mark.parametrize("bad", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("joint", [b",", b",\n", b"\n,\n   "], ids=["one line", "lines", "commas first"])
def test_one_bad_element_does_not_lose_the_next(write, bad, joint):
    middle = bad if isinstance(bad, bytes) else bad.encode()
    elements = (b'{"id": "a"}', middle, b'{"id": "c", "f": [1]}', b'{"id": "d"}')
    path = write(b"[\n" + joint.join(elements) + b"\n]", "docs.json")
    line = 2 + joint.count(b"\n")
    assert outline(path) == ("acd", [line])


def test_an_open_string_ends_with_its_line(write):
    for joint in (",\n", "\n,\n   "):
        path = write("[\n" + joint.join((doc("a"), '{"id": "b", "f": "x}', doc("c"), doc("d"))) + "\n]", "docs.json")
        assert outline(path) == ("acd", [2 + joint.count("\n")])


def test_after_wrong_brackets_the_next_elements_are_found_again(write):
    ids, lines = outline(write('[\n{"id": "a"},\n{"id": "b", "f": [1}]},\n{"id": "c"},\n{"id": "d"}\n]', "docs.json"))
    assert ids == "acd"
    assert lines[0] == 3


@pytest.mark.parametrize("bad", ['{"id": "b", "f": 1', '{"id": "b", "f": {"x": 1', '{"id": "b", "f": 1,', '{"id": "b"'])
@pytest.mark.parametrize("joint", [",", ",\n"])
def test_an_object_that_was_never_closed_ends_where_the_next_one_starts(write, bad, joint):
    path = write("[\n" + joint.join((doc("a"), bad, doc("c"), doc("d"))) + "\n]", "docs.json")
    ids, bad_lines = outline(path)
    assert (ids, bad_lines) == ("acd", [2 + joint.count("\n")])


def test_an_unclosed_element_of_a_pretty_printed_file_costs_only_itself(write):
    text = json.dumps([{"id": id, "f": [1, 2]} for id in "abcd"], indent=2)
    for missing in ("\n  },", "\n    ]\n  },"):
        ids, rejections = outcome(write(text.replace(missing, "", 1), "docs.json"))
        assert "".join(id for id, _ in ids) == "bcd"
        assert rejections == [(2, "invalid JSON: this object is not closed before the next one starts")]


def test_json_lines_in_a_file_named_json_are_still_lines(write):
    path = write('{"id": "a"\n{"id": "b", "f": [\n{"id": "c\n{"id": "d"}\n{"id": "e"}\n', "docs.json")
    assert outline(path) == ("de", [1, 2, 3])


def test_wrong_commas_are_told_but_cost_no_document(write):
    found, rejections = outcome(write('[,{"id": "a"}\n{"id": "b"},,\n{"id": "c"},\n]', "docs.json"))
    assert found == [("a", 1), ("b", 2), ("c", 3)]
    assert rejections == [
        (1, "invalid JSON: a comma without a document before it"),
        (2, "invalid JSON: a comma is missing before this document, which was read all the same"),
        (2, "invalid JSON: a comma without a document before it"),
        (4, "invalid JSON: a comma without a document after it"),
    ]


def test_a_file_that_is_cut_off(write):
    assert outcome(write('[{"id": "a"},\n{"id": "b", "f', "docs.json")) == (
        [("a", 1)],
        [(2, "invalid JSON: this object is not closed: the file may be cut off")],
    )
    assert outcome(write('\n[{"id": "a"}', "docs.json")) == (
        [("a", 2)],
        [(2, "invalid JSON: this list is not closed: the file may be cut off")],
    )


def test_text_after_an_array_is_rejected(write):
    assert outline(write('[{"id": "a"}] x\n[{"id": "b"}]\n', "docs.json")) == ("ab", [1])


def test_an_element_is_rejected_by_its_size_and_reading_goes_on(write):
    fits, over = doc("a", f="x" * 980), doc("b", f="x" * 981)
    path = write(f"[{fits},\n{over},\n{doc('c')}]", "docs.json")
    assert outcome(path, limits=SMALL) == ([("a", 1), ("c", 3)], [(2, "more than 1,000 bytes (document_bytes_max)")])


TEXTS = st.text(alphabet='ab"\\{}[],:\n\té ', max_size=6)
ELEMENTS = st.lists(
    st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(TEXTS, max_size=3), max_size=3), min_size=0, max_size=5
)


@given(ELEMENTS, SIZES, st.sampled_from([None, 0, 1, 3]), st.booleans(), st.booleans())
def test_the_splitter_finds_the_elements_however_the_bytes_arrive(elements, sizes, indent, as_array, raw):
    if as_array:
        text = json.dumps(elements, indent=indent, ensure_ascii=raw)
    else:
        text = "\n".join(json.dumps(each, indent=indent, ensure_ascii=raw) for each in elements)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "FRAGMENT_BYTES", 4)
        found = list(values(split(text.encode(), sizes), 10_000))
    assert [json.loads(content) for _, content in found if isinstance(content, bytes)] == elements
    assert len(found) == len(elements)


@given(st.binary() | st.text(alphabet='{}[]",\\ \n1x').map(str.encode), SIZES)
def test_how_the_bytes_arrive_never_matters(data, sizes):
    def simple(found):
        return [(line, content if isinstance(content, bytes | dict) else str(content)) for line, content in found]

    for reader in (lambda chunks: values(chunks, 20), lambda chunks: rows(chunks, 20, lambda column: "")):
        assert simple(reader(split(data, sizes))) == simple(reader([data] if data else []))


# --- CSV -------------------------------------------------------------------------------------------------------------


def table(write: Write, content: bytes | str, **options):
    rejections: list = []
    found = list(
        read_documents([write(content, "docs.csv")], options.get("limits", DEFAULTS.document), rejections.append)
    )
    return [each.document for each in found], [(each.line, each.reason) for each in rejections]


def test_csv_cells_that_are_json_numbers_become_numbers_except_in_text_columns(write):
    header = "id,source,time,version,xml,title,year,score,other"
    documents, rejections = table(write, f"{header}\n7,8,2004-05-31,2,9,10,2004,-1.5e3,007\n")
    fields: dict[str, tuple[Value, ...]] = {"title": (10,), "year": (2004,), "score": (-1500.0,), "other": ("007",)}
    assert documents == [Document("7", fields, source="8", time="2004-05-31", version=2, xml="9")]
    assert [type(value) for (value,) in documents[0].fields.values()] == [int, int, float, str]
    assert rejections == []


@pytest.mark.parametrize(
    "cell", ["1.", ".5", "+1", " 1", "1e", "0x10", "NaN", "Infinity", "1e999", "-", "٣", "9" * 400]
)
def test_csv_cells_that_are_no_json_numbers_stay_text(write, cell):
    assert table(write, f"id,f\na,{cell}\n")[0] == [Document("a", {"f": (cell,)})]


def test_csv_quoting(write):
    content = 'id,f,g\r\na,"x, ""y""\r\nz",5" disk\r\n"b","",""""\r\nc,"1",\r\n'
    documents, rejections = table(write, content)
    assert documents == [
        Document("a", {"f": ('x, "y"\r\nz',), "g": ('5" disk',)}),
        Document("b", {"g": ('"',)}),
        Document("c", {"f": (1,)}),
    ]
    assert rejections == []


def test_csv_lines_are_counted_over_line_breaks_in_cells(write):
    path = write('id,f\n\na,"1\n2\n3"\nb,4\n', "docs.csv")
    assert outcome(path) == ([("a", 3), ("b", 6)], [])


def test_csv_rows_are_rejected_one_by_one(write):
    content = b'id,f\na,1\nb\nc,1,2\n,1\nd,caf\xe9\ne,"x"y\nf,1\n"g,1\nh,1\n'
    documents, rejections = table(write, content)
    assert [document.id for document in documents] == ["a", "f", "h"]
    assert rejections == [
        (3, "1 cell, but the header names 2 columns: quote cells that hold a comma"),
        (4, "3 cells, but the header names 2 columns: quote cells that hold a comma"),
        (5, 'there is no "id": every document needs one, a string'),
        (6, 'column "f": invalid UTF-8 at byte 3 (0xe9): save the text as UTF-8'),
        (7, 'text follows the closing quotation mark of cell 2: inside a quoted cell, " is written ""'),
        (9, "a quoted cell opens in this row and is never closed"),
    ]


def test_an_open_quote_costs_its_row_and_not_the_next_quoted_one(write):
    documents, rejections = table(write, 'id,f\na,"x\nb,"y, z"\nc,1\n')
    assert [document.id for document in documents] == ["b", "c"]
    assert [line for line, _ in rejections] == [2]


HEADERS = {
    "id,dc:title": 'in the header, the field name "dc:title" holds ":"',
    "id,f,f": 'the header names "f" twice',
    "id,,f": "the header has no name for column 2",
    "title,year": 'the header has no column "id"',
    'id,"f': "a quoted cell opens in this row and is never closed",
    b"id,f\xe9": "invalid UTF-8 at byte 1",
}


@pytest.mark.parametrize("header", HEADERS, ids=repr)
def test_a_bad_header_rejects_the_file_at_line_one(write, header):
    content = (header.encode() if isinstance(header, str) else header) + b"\na,1\nb,2\n"
    documents, ((line, reason),) = table(write, content)
    assert (documents, line) == ([], 1)
    assert reason.startswith(HEADERS[header])


def test_csv_with_byte_order_mark_and_spaces_in_the_header(write):
    assert table(write, '\ufeff"id", f \na,1\n') == ([Document("a", {"f": (1,)})], [])


def test_a_cell_may_be_as_large_as_a_document(write):
    assert csv.field_size_limit() == 131_072
    large = "x" * 1_000_000
    assert table(write, f'id,f\na,{large}\nb,"{large}"\n')[0] == [Document(id, {"f": (large,)}) for id in "ab"]
    assert csv.field_size_limit() == 131_072, "a setting of the whole process"


def test_a_row_is_rejected_by_its_size_and_reading_goes_on(write):
    over, broken = "x" * 1_000, '"' + "\n".join("x" * 99 for _ in range(11))
    documents, rejections = table(write, f"id,f\na,{over}\nb,1\nc,{broken}\nd,1", limits=SMALL)
    assert [document.id for document in documents] == ["b", "d"]
    assert rejections[:2] == [
        (2, "more than 1,000 bytes (document_bytes_max)"),
        (4, "more than 1,000 bytes (document_bytes_max): is a quotation mark missing?"),
    ]
    assert [line for line, _ in rejections[2:]] == list(range(5, 15))  # its other lines, one by one


def test_csv_from_standard_input_is_told_by_its_header(write):
    assert outline(write("title,id\nx,a\n", "pipe")) == ("a", [])
    assert outline(write('nonsense\n{"id": "a"}\n', "pipe")) == ("a", [1])


CELLS = st.text(alphabet='a",\n\r 1', max_size=5)


@given(st.lists(st.tuples(st.text(alphabet='a"', min_size=1, max_size=3), CELLS, CELLS), max_size=5), SIZES)
def test_what_csv_writes_is_read_back(table_rows, sizes):
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "f", "g"), *table_rows])
    found = [row for _, row in rows(split(file.getvalue().encode(), sizes), 10_000, lambda column: "")]
    assert found == [
        {column: cell for column, cell in zip(("id", "f", "g"), row, strict=True) if cell} for row in table_rows
    ]


# --- packed files ----------------------------------------------------------------------------------------------------


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
@pytest.mark.parametrize("name", ["docs.jsonl", "docs.jsonl.gz", "docs.jsonl.zst", "docs"])
def test_packed_files_are_told_by_their_bytes_and_may_have_several_parts(write, pack, name):
    packed = pack(doc("a").encode()) + pack(b"\n") + pack(b"") + pack((doc("b") + "\n").encode())
    assert outline(write(packed, name)) == ("ab", [])
    assert outline(write(pack(b'[{"id": "a"},\n{"id": "b"}]'), name)) == ("ab", [])
    assert outline(write(pack(b"id,f\na,1\nb,1"), "docs.csv.gz")) == ("ab", [])


MANY = "".join(doc(str(number), f=number * 7919 % 1000) + "\n" for number in range(5_000)).encode()


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_of_a_truncated_file_the_good_lines_go_through_and_then_it_is_rejected_once(write, pack):
    packed = pack(MANY[:50_000].rpartition(b"\n")[0] + b"\n") + pack(MANY)[:-9]
    found, rejections = outcome(write(packed))
    assert len(found) > 1_000
    assert [line for _, line in found] == list(range(1, len(found) + 1))
    ((line, reason),) = rejections
    assert line == 0
    assert "data ends too early, as if cut off; what came before was read" in reason


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_damaged_packed_files_are_rejected_once(write, pack):
    first = pack(b'{"id": "a"}\n')
    assert outline(write(first + b"\0" * 600)) == ("a", [])  # padding
    found, ((line, reason),) = outcome(write(first + b"trailing nonsense"))
    assert (found, line) == ([("a", 1)], 0)
    assert "followed by something else" in reason
    wrong = bytearray(pack(MANY))
    wrong[len(wrong) // 2] ^= 0xFF
    assert outcome(write(bytes(wrong)))[1][-1][0] == 0


def test_a_file_after_a_damaged_one_is_read(write):
    assert outline(write(gzip.compress(MANY)[:20], "1.gz"), write(doc("b"), "2.jsonl")) == ("b", [0])


@given(st.binary(max_size=200), SIZES, st.sampled_from([gzip.compress, zstd]), st.integers(0, 40))
def test_packed_data_comes_back_or_is_damaged(data, sizes, pack, cut):
    packed = pack(data) + pack(data[::-1])
    assert b"".join(unpack(split(packed, sizes))) == data + data[::-1]
    got, damaged = bytearray(), False
    try:
        for chunk in unpack(split(packed[: max(5, len(packed) - 1 - cut)], sizes)):
            got += chunk
    except Damaged:
        damaged = True
    assert (data + data[::-1]).startswith(got)
    assert damaged or got == data  # cut exactly between the parts


def test_foreign_formats_are_named(write):
    for head, word in {
        b"PK\x03\x04": "zip",
        b"\xfd7zXZ\0": "xz",
        b"BZh91AY&SY": "bzip2",
        b"\xff\xfea\0": "UTF-16",
    }.items():
        found, ((line, reason),) = outcome(write(head + b"\nabc\n"))
        assert (found, line) == ([], 0)
        assert word in reason


# --- which files -----------------------------------------------------------------------------------------------------


def test_a_missing_path_is_told_before_anything_is_read(write, tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.jsonl cannot be read: no such file"):
        read_documents([write(doc("a")), tmp_path / "nowhere.jsonl"], DEFAULTS.document, unexpected)
    with pytest.raises(InputError, match="nowhere"):
        read_subscriptions(tmp_path / "nowhere", DEFAULTS.document, unexpected)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_path_without_permission_is_told_before_anything_is_read(write):
    path = write(doc("a"))
    path.chmod(0)
    with pytest.raises(InputError, match="no permission"):
        find_inputs([path])


def test_a_folder_is_read_by_name_at_any_depth(write, tmp_path):
    write(doc("d"), "in/z.ndjson")
    write(gzip.compress(doc("b").encode()), "in/b/1.jsonl.gz")
    write("id\nc", "in/b/2.csv")
    write(f"[{doc('a')}]", "in/a.JSON")
    for hidden in ("in/.x.jsonl", "in/.git/x.jsonl"):
        write(doc("hidden"), hidden)
    for other in ("in/README.md", "in/b/x.txt"):
        write("hello", other)
    notes: list[str] = []
    assert outline(tmp_path / "in", note=notes.append) == ("abcd", [])
    assert len(notes) == 1
    assert "2 left out (README.md, b/x.txt): only .jsonl, .ndjson, .json, .csv" in notes[0]


def test_a_folder_without_documents_is_told(tmp_path):
    notes: list[str] = []
    assert outline(tmp_path, note=notes.append) == ("", [])
    assert "no files to read" in notes[0]


def test_several_paths_are_read_in_their_order(write):
    assert outline(write(doc("b"), "2.jsonl"), write(doc("a"), "1.jsonl")) == ("ba", [])


@pytest.fixture
def stdin(monkeypatch):
    def stdin(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    return stdin


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
def test_a_dash_is_standard_input(stdin, pack):
    stdin(pack(f"{doc('a')}\nx\n".encode()))
    rejections: list = []
    (found,) = read_documents(["-"], DEFAULTS.document, rejections.append)
    assert (found.document.id, found.file, found.line) == ("a", "standard input", 1)
    assert str(rejections[0]).startswith("standard input:2: ")


def test_standard_input_can_be_named_once_and_must_be_open(stdin, monkeypatch):
    stdin(b"")
    with pytest.raises(InputError, match="named twice"):
        find_inputs(["-", "-"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="closed"):
        find_inputs(["-"])


def test_standard_input_and_pipes_can_be_read_twice(stdin, write, tmp_path):
    stdin(gzip.compress(doc("a").encode()))
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", f"printf 'id\\nc\\n' > '{tmp_path}/pipe'"]) as writer:
        with rereadable(["-", write(doc("b")), tmp_path / "pipe"]) as inputs:
            assert [outline(*inputs), outline(*inputs)] == [("abc", [])] * 2
            assert [each.name for each in inputs][::2] == ["standard input", str(tmp_path / "pipe")]
            copies = [each.path for each in inputs][::2]
            assert all(copy and copy.exists() for copy in copies)
        writer.wait()
    assert not any(copy and copy.exists() for copy in copies)


def test_lines_come_as_soon_as_they_are_there(tmp_path):
    """A pipe that stays open does not hold back what it already gave."""
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(
        ["sh", "-c", f"exec 3> '{tmp_path}/pipe'; echo '{doc('a')}' >&3; read line; echo '{doc('b')}' >&3"],
        stdin=subprocess.PIPE,
    ) as writer:
        documents = read_documents([tmp_path / "pipe"], DEFAULTS.document, unexpected)
        assert next(documents).document.id == "a"
        writer.communicate(b"go on\n")
        assert next(documents).document.id == "b"
        assert next(documents, None) is None


# --- versions --------------------------------------------------------------------------------------------------------


def test_with_an_admission_repeats_are_left_out_and_conflicts_are_rejected(write):
    path = write("\n".join([doc("a"), doc("a"), doc("a", f=1), doc("a", version=2), doc("a", version=1), doc("b")]))
    admission = Admission()
    found, rejections = outcome(path, admission=admission)
    assert found == [("a", 1), ("a", 4), ("b", 6)]
    assert [line for line, _ in rejections] == [3, 5]
    assert admission.replaced
    assert admission.is_current("a", 2)
    assert outline(path) == ("aaaaab", [])


# --- subscriptions ---------------------------------------------------------------------------------------------------


def subscriptions(path, limits=DEFAULTS.document):
    rejections: list = []
    found = list(read_subscriptions(path, limits, rejections.append))
    return found, [(each.line, each.reason) for each in rejections]


def test_subscriptions_are_handed_on_as_they_were_written(write):
    path = write(
        '{"id": "1", "query": "peer AND grid"}\n'
        '{"id": "2", "xpath": "//p:a", "namespaces": {"p": "urn:x"}, "owner": {"any": [true]}}\n'
        '{"id": "3", "query": "", "xpath": null}\n'
        '{"id": "4", "query": "x", "xpath": "/y"}\n'
    )
    file = str(path)
    assert subscriptions(path) == (
        [
            ("1", "peer AND grid", None, {}, file, 1),
            ("2", None, "//p:a", {"p": "urn:x"}, file, 2),
            ("3", "", None, {}, file, 3),
            ("4", "x", "/y", {}, file, 4),
        ],
        [],
    )


REFUSED = {
    "nonsense": "invalid JSON at column 1",
    "[1]": "this is a list: an object is expected",
    '{"query": "x"}': 'there is no "id": every subscription needs one',
    '{"id": null, "query": "x"}': 'there is no "id"',
    '{"id": "", "query": "x"}': '"id" is empty',
    '{"id": 7, "query": "x"}': '"id" must be a string',
    '{"id": "a"}': 'there is neither "query" nor "xpath"',
    '{"id": "a", "query": null}': 'there is neither "query" nor "xpath"',
    '{"id": "a", "query": 7}': '"query" must be a string',
    '{"id": "a", "xpath": ["/a"]}': '"xpath" must be a string',
    '{"id": "a", "query": "x", "query": "y"}': 'the key "query" occurs twice',
    '{"id": "a", "query": "x", "n": NaN}': "NaN is no number in JSON",
    r'{"id": "a\ud800", "query": "x"}': '"id" holds a lone surrogate',
    r'{"id": "a", "query": "\udc00"}': '"query" holds a lone surrogate',
    '{"id": "a", "xpath": "//a", "namespaces": []}': '"namespaces" must be an object',
    '{"id": "a", "xpath": "//a", "namespaces": {"p": 1}}': 'the namespace of "p" must be a string',
    '{"id": "a", "xpath": "//a", "namespaces": {"p": null}}': 'the namespace of "p" must be a string',
    '{"id": "good", "query": "y"}': 'the "id" "good" was used before, at ',
    '{"id": "a", "query": "x", "n": ' + "[" * 100_000: "the brackets are nested too deeply",
}


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: ascii(bad[:50]))
def test_bad_subscriptions_are_rejected_one_by_one(write, bad):
    found, ((line, reason),) = subscriptions(
        write('{"id": "good", "query": "x"}\n' + bad + '\n{"id": "last", "query": "x"}\n')
    )
    assert ([entry.id for entry in found], line) == (["good", "last"], 2)
    assert reason.startswith(REFUSED[bad])


def test_a_rejected_subscription_does_not_take_its_id(write):
    found, rejections = subscriptions(write('{"id": "a"}\n{"id": "a", "query": "x"}\n'))
    assert ([entry.line for entry in found], [line for line, _ in rejections]) == ([2], [1])


def test_subscriptions_from_other_formats(write):
    entries = [{"id": "1", "query": "peer"}, {"id": "2", "xpath": "/a"}]
    for content in (json.dumps(entries), json.dumps(entries, indent=1), "id,query,xpath,my notes\n1,peer,,x\n2,,/a,"):
        name = "subs.csv" if content.startswith("id") else "subs.json"
        for packed in (content.encode(), gzip.compress(content.encode()), zstd(content.encode())):
            found, rejections = subscriptions(write(packed, name))
            assert [entry[:3] for entry in found] == [("1", "peer", None), ("2", None, "/a")]
            assert rejections == []
    assert [entry.query for entry in subscriptions(write("id,query\n1,2004", "subs.csv"))[0]] == ["2004"]


# --- anything at all -------------------------------------------------------------------------------------------------

FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *(b'{"id": "a"}', b'{"id": "b", "f": [1, "x"]}', b"id,query\n", b"id,f\n", b"a,1\n", b"\n", b"\r\n"),
            *(
                b"[",
                b"]",
                b"{",
                b"}",
                b",",
                b'"',
                b"\\",
                b" ",
                b"\xff",
                b"\x1f\x8b",
                b"\x28\xb5\x2f\xfd",
                b"\xef\xbb\xbf",
            ),
        ]
    )
    | st.binary(max_size=4),
    max_size=12,
).map(b"".join)


@given(FRAGMENTS, st.sampled_from([".jsonl", ".json", ".csv", ""]), st.sampled_from([bytes, gzip.compress, zstd]))
@example(b"\xff\xfe", "", bytes)
def test_any_bytes_give_documents_or_rejections(tmp_path_factory, content, ending, pack):
    path = tmp_path_factory.getbasetemp() / f"any{ending}"
    path.write_bytes(pack(content))
    for found, rejections in (outcome(path, limits=SMALL), subscriptions(path, limits=SMALL)):
        numbers = range(content.count(b"\n") + 2)
        assert all(each[-1] in numbers for each in found)
        assert all(line in numbers and reason for line, reason in rejections)


# --- memory and speed ------------------------------------------------------------------------------------------------

MEASURE = """
import sys
from tocsin.files import read_documents
from tocsin.settings import DEFAULTS
rejections = []
count = sum(1 for _ in read_documents(sys.argv[1:], DEFAULTS.document, rejections.append))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(count, len(rejections), int(peak.split()[1]) // 1024)
"""
NEEDS_PROC = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is read from /proc")


def measured(path: Path) -> tuple[int, int, int]:
    """Documents, rejections and the highest memory in MB, of a process that reads the file."""
    command = [sys.executable, "-c", MEASURE, str(path)]
    result = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"PYTHONPATH": SRC}
    )
    count, rejections, megabytes = result.stdout.split()
    return int(count), int(rejections), int(megabytes)


SRC = str(Path(__file__).resolve().parent.parent / "src")


def large(opening: str, each: str, joint: str, closing: str, *, megabytes: int) -> bytes:
    """A gzip file of so many MB: the packed middle is repeated, so that it is made in no time."""
    middle = (each + joint) * (1_000_000 // len(each + joint))
    return (
        gzip.compress(opening.encode()) + gzip.compress(middle.encode()) * megabytes + gzip.compress(closing.encode())
    )


@NEEDS_PROC
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("x.jsonl", ("", doc("a", f="x" * 20_000), "\n", "")),
        ("x.json", ("[", doc("a", f="x" * 20_000), ",", doc("b") + "]")),  # all on one line
        ("x.csv", ("id,f\n", f'a,"{"x" * 20_000}"', "\n", "")),
    ],
    ids=["lines", "array", "csv"],
)
def test_a_large_file_needs_no_more_memory_than_a_small_one(write, name, parts):
    few, no_rejections, little = measured(write(large(*parts, megabytes=1), name))
    many, none_either, much = measured(write(large(*parts, megabytes=100), name))
    assert (no_rejections, none_either) == (0, 0)
    assert many > 75 * few
    assert much < little + 16


@NEEDS_PROC
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("x.jsonl", doc("a") + '\n{"id": "', '"}\n' + doc("b")),
        ("x.json", "[" + doc("a") + ',{"id": "', '"},' + doc("b") + "]"),
        ("x.json", "[" + doc("a") + ',{"id": [', "]}," + doc("b") + "]"),
        ("x.csv", 'id,f\na,1\nc,"', '"\nb,1'),
    ],
    ids=["line", "string", "list", "cell"],
)
@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_200_mb_in_one_document_are_rejected_in_little_memory(write, name, before, after, pack):
    huge = pack(b"x" * 1_000_000) * 200 if pack is gzip.compress else pack(b"x" * 200_000_000)
    documents, rejections, megabytes = measured(write(pack(before.encode()) + huge + pack(after.encode()), name))
    assert (documents, rejections) == (2, 1)
    assert megabytes < 100


@NEEDS_PROC
def test_an_open_cell_and_two_million_empty_lines(write):
    packed = gzip.compress(b'id,f\na,"\n') + gzip.compress(b"\n" * 1_000_000) * 2 + gzip.compress(b"b,1")
    documents, rejections, megabytes = measured(write(packed, "x.csv"))
    assert (documents, rejections) == (1, 1)
    assert megabytes < 100


def test_the_acl_papers_are_read_whole(data_dir):
    path = data_dir / "scholarly" / "acl_papers.jsonl.gz"
    assert len({each.document.id for each in read_documents([path], DEFAULTS.document, unexpected)}) == 36_836


# --- output ----------------------------------------------------------------------------------------------------------


def test_the_file_is_replaced_when_all_went_well(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("old")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write("né\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "né\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    with replacing(tmp_path / "new"):
        assert not (tmp_path / "new").exists()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_on_an_error_the_old_file_stays_and_nothing_else(tmp_path, error):
    path = tmp_path / "out"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as file:
            file.write("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "link"
    link.symlink_to("far/out")
    for text in ("one", "two"):  # first it points to nothing yet
        with replacing(link) as file:
            file.write(text)
        assert link.is_symlink()
        assert (tmp_path / "far" / "out").read_text() == text


def test_what_is_no_ordinary_file_is_written_directly(tmp_path):
    with replacing("/dev/null") as file:
        file.write("x")
    assert not Path("/dev/null").is_file()
    code = "from tocsin.files import replacing\nwith replacing('/dev/stdout') as file: file.write('x')"
    result = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, env=os.environ | {"PYTHONPATH": SRC}
    )
    assert result.stdout == b"x"


def test_what_cannot_be_written_is_told_at_once(tmp_path):
    for path, word in {tmp_path: "it is a folder", tmp_path / "no" / "x": "no such file or directory"}.items():
        with pytest.raises(InputError, match=f"cannot be written: {word}"), replacing(path):
            pytest.fail("nothing may be written")
    assert list(tmp_path.iterdir()) == []


def test_input_knows_its_format():
    names = ["a.jsonl", "a.NDJSON.GZ", "b/a.json.zst", "a.csv.zstd", "a.txt", "a.gz", "csv"]
    assert [Input(name).format for name in names] == [".jsonl", ".ndjson", ".json", ".csv", "", "", ""]
