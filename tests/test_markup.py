"""Reading XML: what a document becomes, what is refused and how fast, and records of large files."""

from __future__ import annotations

import gzip
import io
import tarfile
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tocsin.errors import DocumentError
from tocsin.markup import CHUNK_BYTES, LIMITS, Record, read_markup, reading, split_records
from tocsin.markup.encodings import to_utf8
from tocsin.settings import MarkupLimits
from tocsin.sim.markup import Tangle


def both_ways(data):
    """The trees by scan (the kernel) and by events (its twin)."""
    raw = to_utf8(data, LIMITS)
    scanned = reading._scanned(raw, LIMITS)
    assert scanned is not None
    return scanned.tree, reading._by_events(raw, LIMITS).tree


def assert_same(data, name=""):
    scanned, taken = both_ways(data)
    for part in ("names", "parents", "last", "children", "attributes", "texts"):
        assert getattr(scanned, part) == getattr(taken, part), (name, part)
    assert [scanned.value(one) for one in range(0, len(scanned.names), 5)] == [
        taken.value(one) for one in range(0, len(taken.names), 5)
    ]


# --- what a document becomes -----------------------------------------------------------------------------------------


def test_a_document_becomes_a_tree():
    tree = read_markup('<a xmlns="u" k="1">x<b p:k="2" xmlns:p="v"/>y<!-- -->z<?p i?><![CDATA[<]]>&amp;</a>').tree
    assert tree.names == ["{u}a", "{u}b"]
    assert tree.parents == [-1, 0]
    assert tree.children == [[1], []]
    assert tree.attributes == [{"k": "1"}, {"{v}k": "2"}]
    assert tree.texts == [["x", "y", "z", "<&"], []]
    assert tree.value(0) == "xyz<&"
    assert tree.path(1) == "/a/b"


@pytest.mark.parametrize(
    "text",
    [
        "<a/>", "<a></a>", "<a b='1' c = \"2\"\n d='&lt;>'/>", "<a>\r\n\r\t</a>", "<a b='x\r\ny\tz&#10;'/>",
        "<a><![CDATA[]]></a>", "<a>x<![CDATA[ ]]]]>y</a>", "<a>&#x1F600;&#65;&quot;&apos;</a>", "<é ü='ß'>λ</é>",
        "<?xml version='1.0'?><!-- > --><?p <a>?><!DOCTYPE a SYSTEM 'x>y'><a/><!-- x --><?q?>\n",
        "<a xmlns='u'><b xmlns=''><c xmlns='v' k='1'/></b></a>", "<p:a xmlns:p='u&amp;v'><p:b/></p:a>",
        "<a xml:lang='en' xmlns:xml='http://www.w3.org/XML/1998/namespace'/>", "<a xmlnsx='1' xmln='2'/>",
        "<a><b/><b>x</b ><c\n></c\n></a >", "<a><!----><!-- - -- --></a>".replace(" -- ", " "),
        "<a><!---->x<!--->--></a>".replace("<!--->-->", "<!-- > -->"), "<a>]]</a>", "<a b='>' c='/'>/</a>",
    ],
)  # fmt: skip
def test_scan_and_events_agree(text):
    assert_same(text)


@given(st.integers(0, 10**6))
def test_scan_and_events_agree_on_tangled_documents(seed):
    assert_same(Tangle(seed).document())


def test_scan_and_events_agree_on_real_documents(data_dir):
    folder = data_dir / "xml"
    for path in sorted((folder / "acl_originals").iterdir())[:1]:
        assert_same(gzip.decompress(path.read_bytes()), path.name)
    for name, every in (("elife_jats_xml_350.tar.gz", 12), ("feeds_rss_atom.tar.gz", 8)):
        with tarfile.open(folder / name) as archive:
            for number, member in enumerate(one for one in archive if one.isfile()):
                if number % every or member.name.endswith((".txt", "LICENSE", "COPYING")):
                    continue
                file = archive.extractfile(member)
                assert file
                data = file.read()
                try:
                    read_markup(data)
                except DocumentError:
                    continue
                assert_same(data, member.name)


def test_a_document_with_too_many_names_for_the_scan_is_read_by_events():
    text = "<r>" + "".join(f"<n{number} a{number}='x'/>" for number in range(5_000)) + "</r>"
    assert reading._scanned(text.encode(), LIMITS) is None
    assert len(read_markup(text).tree.names) == 5_001
    nested = "".join(f"<n xmlns:p{n}='u{n}'>" for n in range(400)) * 1
    scopes = "<r>" + (nested + "</n>" * 400) * 3 + "</r>"
    assert reading._scanned(scopes.encode(), LIMITS) is None
    assert len(read_markup(scopes).tree.names) == 1_201


# --- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "codec"),
    [("utf-8", "utf-8"), ("UTF-8", "utf-8-sig"), ("utf-16", "utf-16"), ("iso-8859-1", "latin-1"), ("koi8-r", "koi8-r"),
     ("Windows-1252", "cp1252"), ("UTF-16LE", "utf-16-le"), ("utf-32", "utf-32"), ("Shift_JIS", "shift_jis")],
)  # fmt: skip
def test_bytes_are_in_the_encoding_that_they_declare(declared, codec):
    word = {"koi8-r": "мир", "Shift_JIS": "日本"}.get(declared, "né")
    data = f"<?xml version='1.0' encoding='{declared}'?>\n<a b='{word}'>{word}</a>".encode(codec)
    tree = read_markup(data).tree
    assert tree.value(0) == tree.attributes[0]["b"] == word


def test_the_declaration_inside_a_string_is_ignored():
    for declared in ("utf-16", "latin-1", "nonsense-8"):
        assert read_markup(f"\ufeff<?xml version='1.0' encoding='{declared}'?><a>é</a>").tree.value(0) == "é"


# --- what is refused -------------------------------------------------------------------------------------------------

LAUGHS = "<!DOCTYPE l [\n<!ENTITY a 'ha'>\n" + "".join(
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>\n" for n in range(10)
) + "]>\n<l>&k;</l>"  # fmt: skip

BAD: dict[str, tuple[bytes | str, str]] = {
    "billion laughs": (LAUGHS, "line 2: the DOCTYPE declares an entity"),
    "external entity": (
        "<!DOCTYPE a [\n<!ELEMENT a ANY>\n<!ENTITY x SYSTEM 'file:///etc/passwd'>]>\n<a>&x;</a>",
        "line 3: the DOCTYPE declares an entity",
    ),
    "parameter entity": (
        "<!DOCTYPE a [<!ENTITY % x SYSTEM 'http://localhost/x'> %x;]><a/>",
        "line 1: the DOCTYPE declares an entity",
    ),
    "internal subset": ("<!-- c -->\n<!DOCTYPE a [ ]>\n<a/>", "line 2: the DOCTYPE has an internal subset"),
    "internal subset after quotes": (
        "<!DOCTYPE a PUBLIC '>[' \"]>\" [<!ATTLIST a b CDATA 'x'>]><a/>",
        "line 1: the DOCTYPE has an internal subset",
    ),
    "undeclared entity": ("<a>\n&nbsp;</a>", "line 2: the XML is not well-formed: Entity 'nbsp' not defined"),
    "entity of an external DTD": ("<!DOCTYPE a SYSTEM 'x.dtd'>\n<a>&nbsp;</a>", "line 2: Entity 'nbsp' not defined"),
    "in an attribute": ("<!DOCTYPE a SYSTEM 'x.dtd'>\n<a b='&nbsp;'/>", "line 2: Entity 'nbsp' not defined"),
    "deep nesting": ("<a>\n" * 10**5 + "</a>" * 10**5, "line 513: elements are nested deeper than 512 levels"),
    "a little too deep": ("<a>\n" * 513 + "</a>" * 513, "line 513: elements are nested deeper than 512 levels"),
    "large attribute": (f"<a>\n<b c='{'x' * 2**20}'/></a>", "line 2: the attribute 'c' has 1,048,576 characters"),
    "many attributes": (
        "<a\n" + "".join(f" b{n}=''" for n in range(1_025)) + "/>",
        ": more than 1,024 attributes on one element",
    ),
    "unclosed tags": ("<a>\n<b>\n</a>", "line 3: the XML is not well-formed: Opening and ending tag mismatch"),
    "cut short": ("<a>\n<b>", "line 2: the XML is not well-formed: "),
    "unclosed attribute": ("<a>\n<b c='</a>", "line 2: the XML is not well-formed: "),
    "two roots": ("<a/>\n<b/>", "line 2: the XML is not well-formed: Extra content"),
    "empty": ("", "line 1: the XML is not well-formed: Document is empty"),
    "no markup": ("hello", "line 1: the XML is not well-formed: Start tag expected"),
    "NUL": ("<a>\n\0</a>", "line 2: the XML is not well-formed: "),
    "NUL reference": ("<a>\n&#0;</a>", "line 2: the XML is not well-formed: "),
    "surrogate": ("<a>\n\ud800</a>", "line 2: a lone surrogate"),
    "undeclared prefix": ("<a>\n<p:b/></a>", "line 2: the XML is not well-formed: Namespace prefix p"),
    "same attribute twice": ("<a>\n<b c='' c=''/></a>", "line 2: the XML is not well-formed: Attribute c redefined"),
    "same attribute by namespace": (
        "<a xmlns:x='u' xmlns:y='u'>\n<b x:c='' y:c=''/></a>",
        "line 2: the XML is not well-formed: Namespaced Attribute c",
    ),
    "not UTF-8": (b"<a>\n\xe9</a>", "line 2: the XML is not well-formed: "),
    "declared UTF-16, is not": (
        b"<?xml version='1.0' encoding='UTF-16'?><a/>",
        "line 1: the encoding UTF-16 is declared",
    ),
    "declared Shift_JIS, is not": (
        b"<?xml version='1.0' encoding='Shift_JIS'?>\n<a>\n\xff\xff</a>",
        "line 3: the bytes are not in the encoding Shift_JIS",
    ),
    "declared ASCII, is not": (
        "<?xml version='1.0' encoding='US-ASCII'?>\n<a>\né</a>".encode(),
        "line 3: the bytes are not in the encoding US-ASCII",
    ),
    "unknown encoding": (b"<?xml version='1.0' encoding='rot13'?><a/>", "line 1: the encoding 'rot13' is not known"),
    "mark against declaration": (
        "\ufeff<?xml version='1.0' encoding='latin-1'?><a/>".encode(),
        "line 1: the encoding latin-1 is declared, but the byte order mark says UTF-8",
    ),
    "odd UTF-16": ("<a/>".encode("utf-16") + b"\0", "line 1: the bytes are not in the encoding utf-16"),
    "too large": ("<a>" + "x" * 10_485_760 + "</a>", "the XML has 10,485,767 bytes, at most 10,485,760 are allowed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_documents_are_refused_with_line_and_reason_within_a_second(name):
    read_markup("<a/>")
    source, reason = BAD[name]
    started = time.process_time()
    with pytest.raises(DocumentError) as caught:
        read_markup(source)
    assert time.process_time() - started < 1
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name, (source, _) in BAD.items() if len(source) < 1_000])
def test_a_bad_document_changes_nothing_for_the_next_one(name):
    """Parsers are used again."""
    source, reason = BAD[name]
    for _ in range(3):
        assert read_markup("<a><b c='1'>x</b></a>").tree.names == ["a", "b"]
        with pytest.raises(DocumentError) as caught:
            read_markup(source)
        assert reason in str(caught.value)


def test_names_are_resolved_where_prefixes_are_declared_and_where_not():
    """Names without declarations are remembered from document to document."""
    for _ in range(2):
        assert read_markup("<b xml:lang='x' c='y'/>").tree.attributes == [
            {"{http://www.w3.org/XML/1998/namespace}lang": "x", "c": "y"}
        ]
        assert read_markup("<b xmlns='u' c='y'/>").tree.names == ["{u}b"]
        assert read_markup("<b c='y'/>").tree.names == ["b"]
        long = "n" * 1_000
        assert read_markup(f"<{long}/>").tree.names == [long]


def test_many_references_in_one_text_take_linear_time():
    text = "<a>" + "&amp;" * 1_000_000 + "</a>"
    started = time.process_time()
    assert len(read_markup(text).tree.value(0)) == 1_000_000
    assert time.process_time() - started < 5


def test_an_external_dtd_is_named_and_not_read(tmp_path):
    dtd = tmp_path / "a.dtd"
    dtd.write_text("<!ATTLIST a b CDATA 'from the DTD'>")
    document = read_markup(f"<!DOCTYPE a SYSTEM '{dtd.as_uri()}'><a/>")
    assert document.tree.attributes == [{}]


def test_limits_are_settings():
    limits = MarkupLimits(markup_bytes_max=60, markup_depth_max=2, markup_attribute_characters_max=3)
    read_markup("<a><b c='123'/></a>", limits)
    for text in ("<a><b><c/></b></a>", "<a b='1234'/>", "<a>" + "x" * 60 + "</a>"):
        with pytest.raises(DocumentError):
            read_markup(text, limits)
    read_markup("<a>" * 512 + "</a>" * 512)


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"<a>{text}</a>".encode("utf-8", "replace")))
def test_what_we_accept_lxml_accepts(data):
    try:
        document = read_markup(data)
    except DocumentError:
        return
    assert document.tree.names[0] == etree.fromstring(data).tag


# --- records ---------------------------------------------------------------------------------------------------------


def test_records_of_a_collection():
    data = b"<?xml version='1.0'?>\n<c xmlns:p='u'>\n<x>skip</x>\n<v><r k='1'>a</r>\n<r><p:q/></r></v><v><r/></v></c>"
    assert list(split_records(io.BytesIO(data), "/c/v/r")) == [
        Record(1, 4, '<r xmlns:p="u" k="1">a</r>'),
        Record(2, 5, '<r xmlns:p="u"><p:q/></r>'),
        Record(3, 5, '<r xmlns:p="u"/>'),
    ]
    assert [record.line for record in split_records(io.BytesIO(data), "//r")] == [4, 5, 5]
    assert [record.xml[:2] for record in split_records(io.BytesIO(data), "/c/*")] == ["<x", "<v", "<v"]
    nested = b"<a><r><r/></r><r/></a>"
    assert [record.xml for record in split_records(io.BytesIO(nested), "//r")] == ["<r><r/></r>", "<r/>"]


def test_records_before_a_mistake_go_through():
    data = b"<c>" + b"<r>x</r>" * 20_000 + b"\n<r></c>"
    records = split_records(io.BytesIO(data), "/c/r")
    assert [next(records).number for _ in range(20_000)][-1] == 20_000
    with pytest.raises(DocumentError, match="line 2: the XML is not well-formed"):
        next(records)


def test_a_record_path_that_takes_the_whole_file_is_stopped():
    data = b"<c>" + b"<r>xxxxxxxxxx</r>" * 20_000 + b"</c>"
    with pytest.raises(DocumentError, match="record 1 is larger than 100,000 bytes"):
        list(split_records(io.BytesIO(data), "/c", MarkupLimits(markup_bytes_max=100_000)))
    with pytest.raises(DocumentError, match="line 1: the DOCTYPE declares an entity"):
        list(split_records(io.BytesIO(LAUGHS.replace("\n", "").encode()), "/l"))
    with pytest.raises(ValueError, match="a record path is"):
        list(split_records(io.BytesIO(data), "c/r"))


def test_dblp_is_split_without_reading_it_whole(data_dir):
    class Watched(io.RawIOBase):
        def __init__(self, file):
            self.file, self.given = file, 0

        def read(self, size=-1):
            chunk = self.file.read(size)
            self.given += len(chunk)
            return chunk

    with gzip.open(data_dir / "xml" / "dblp_dbvenues.xml.gz") as file:
        watched = Watched(file)
        records = split_records(watched, "/dblp/*")
        first = next(records)
        assert watched.given <= 2 * CHUNK_BYTES
        count = 1 + sum(1 for _ in records)
    assert count == 30_527
    assert read_markup(first.xml).tree.names[0] in ("article", "inproceedings", "proceedings")
