"""The XPath subset: what is read, what is refused and where, and that it means what lxml says it means."""

from __future__ import annotations

import json
import re
import tarfile
from itertools import product
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tocsin.errors import QueryError, QuerySyntaxError, QueryTooDeep, QueryTooLong, QueryTooManyAtoms
from tocsin.markup import read_markup
from tocsin.query.xpath import (
    UnsupportedXPath,
    cost,
    evidence_xpath,
    holds_xpath,
    parse_xpath,
    select_xpath,
    show_xpath,
)
from tocsin.query.xpath.semantics import number_of
from tocsin.settings import QueryLimits
from tocsin.sim.markup import NAMESPACES, Tangle


def parsed(tangle, count):
    found: list = []
    while len(found) < count:
        text = tangle.query()
        try:
            found.append((text, parse_xpath(text, NAMESPACES)))
        except QueryError as error:
            if "the document itself" not in str(error) and "comparing '//.'" not in str(error):
                raise
    return found


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "/a", "//a", "/a/b//c", "/*", "//*", "/a/@b", "//@*", "//a/text()", "a/b", ".//a", ".", "/a/.", "//./a",
        "/child::a/descendant::b/descendant-or-self::c/attribute::d", "//a[b]", "//a[@b]", "//a[@b = 'x']", "//a[2]",
        "//a[position() <= 3]", "//a[b/c = 1.5]", "//a[.//b]", "//a[not(b) and (c or @d)]", "//a[text() = 'it']",
        "//a[. = \"it's\"]", "//a[-1 < b]", "//a[/r/b]", "//and[or and div]", "//a[b][1][c != 2]", "/ a [ b ] / c",
    ],
)  # fmt: skip
def test_the_subset_is_read_and_printed_so_that_it_reads_the_same(text):
    path = parse_xpath(text)
    assert parse_xpath(show_xpath(path)) == path
    etree.XPath(show_xpath(path))


@given(st.integers(0, 10**6))
def test_whatever_is_read_is_printed_so_that_it_reads_the_same(seed):
    for _, path in parsed(Tangle(seed), 5):
        assert parse_xpath(show_xpath(path), NAMESPACES) == path
        assert cost(path) >= len(path.steps)


def test_sides_and_spellings_of_a_comparison_do_not_matter():
    assert parse_xpath("//a[3 > b]") == parse_xpath("//a[b<3.0]")
    assert parse_xpath("//a[2]") == parse_xpath("//a[position()=2]") == parse_xpath("//a[(2)]")
    assert parse_xpath("//a[b <> 'x']") == parse_xpath("//a['x' != b]")
    assert parse_xpath("/child::a/attribute::b") == parse_xpath("/a/@b")


def test_the_short_way_through_the_parser_gives_the_same_tree():
    for text in ("/a/b", "//a/*//b-c.d", "//é", "/*"):
        assert parse_xpath(text) == parse_xpath(text.replace("/", " / ").replace(" /  / ", " // "))


@pytest.mark.parametrize(
    ("text", "named", "position"),
    [
        ("/a/parent::b", "axis 'parent'", 3),
        ("/a/..", "axis 'parent' ('..')", 3),
        ("//following-sibling::a", "axis 'following-sibling'", 2),
        ("/self::a", "axis 'self'", 1),
        ("//a[contains(., 'x')]", "function 'contains()'", 4),
        ("//a[last()]", "function 'last()'", 4),
        ("count(//a)", "function 'count()'", 0),
        ("//a[b = concat('a', 'b')]", "function 'concat()'", 8),
        ("//a/node()", "node test 'node()'", 4),
        ("//comment()", "node test 'comment()'", 2),
        ("//a | //b", "union", 4),
        ("//a[b | c]", "union", 6),
        ("//a[b + 1 = 2]", "arithmetic ('+')", 6),
        ("//a[b mod 2 = 1]", "arithmetic ('mod')", 6),
        ("/$a", "variable", 1),
        ("//a[.//. = 'x']", "comparing '//.'", 9),
    ],
)
def test_what_xpath_has_and_the_subset_lacks_is_refused_by_name(text, named, position):
    with pytest.raises(UnsupportedXPath, match=re.escape(named)) as caught:
        parse_xpath(text)
    assert caught.value.position == position
    assert "\n  " + " " * position + "^" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said", "position"),
    [
        ("", "the query is empty", 0),
        ("/", "selects the document itself", 0),
        ("/.", "selects the document itself", 0),
        ("//", "expected a name", 2),
        ("//a[", "expected a path", 4),
        ("//a[1", "'[' is never closed", 3),
        ("//a[]", "empty", 4),
        ("//a[b = 'x]", "never closed", 8),
        ("//a[(b]", "or ')' instead of ']'", 6),
        ("//a[(b", "'(' is never closed", 4),
        ("//a[not(b]", "or ')' instead of ']'", 9),
        ("//a b", "does not continue", 4),
        ("//a]", "does not continue", 3),
        ("//a/@b/c", "nothing is below it", 6),
        ("//text()/a", "nothing is below a text", 8),
        ("//a.[1][", "expected a path", 8),
        ("//.[1]", "no predicate after '.'", 3),
        ("'x'", "a query is a path", 0),
        ("//a['x']", "a string alone", 3),
        ("//a[b and 2]", "a number alone", 10),
        ("//a[position()]", "position() needs a comparison", 4),
        ("//a[position() = 'x']", "compared with a number", 17),
        ("//a[b = c]", "a string or a number", 8),
        ("//a[1 = 2]", "a path or position()", 6),
        ("//a[b = 1 = 2]", "do not chain", 10),
        ("//foo::a", "no axis 'foo'", 2),
        ("//p:a", "the prefix 'p' has no namespace", 2),
        ("//a = 1", "stands in a predicate", 4),
        ("//a and //b", "stands in a predicate", 4),
        ("//a#", "has no meaning", 3),
        ("//a[b = 9" + "9" * 400 + "]", "too large", 8),
    ],
)
def test_a_mistake_is_named_with_its_position(text, said, position):
    with pytest.raises(QuerySyntaxError, match=re.escape(said)) as caught:
        parse_xpath(text)
    assert caught.value.position == position


def test_limits_have_their_own_messages():
    limits = QueryLimits(query_characters_max=50, query_nesting_max=3, query_atoms_max=5)
    for text, kind in [
        ("/" + "a" * 60, QueryTooLong),
        ("//a[b[c[d[e]]]]", QueryTooDeep),
        ("//a[((((b))))]", QueryTooDeep),
        ("//a[not(not(not(not(b))))]", QueryTooDeep),
        ("/a/b/c/d/e/f", QueryTooManyAtoms),
        ("/a[b='1' or c='2' or d='3']", QueryTooManyAtoms),
    ]:
        with pytest.raises(kind):
            parse_xpath(text, limits=limits)
    with pytest.raises(QueryTooDeep):
        parse_xpath("//a" + "[a" * 6_000 + "]" * 6_000)


@given(st.text(alphabet="/ab@.*[]()='\"12<>!:p- \nandortext", max_size=40))
def test_no_text_breaks_the_parser(text):
    try:
        path = parse_xpath(text, NAMESPACES)
    except QueryError:
        return
    etree.XPath(show_xpath(path), namespaces=NAMESPACES)


def test_prefixes_resolve_by_the_given_namespaces():
    document = read_markup('<r xmlns:x="u"><x:a k="1" x:k="2"/><a xmlns="v"/></r>')
    namespaces = {"n": "u", "m": "v"}
    for text, expected in [
        ("//n:a", 1), ("//m:a", 1), ("//a", 0), ("//n:*", 1), ("//*", 3), ("//@n:k", 1), ("//@k", 1), ("//@n:*", 1),
    ]:  # fmt: skip
        assert len(select_xpath(parse_xpath(text, namespaces), document)) == expected, text
    with pytest.raises(QuerySyntaxError, match="no default namespace"):
        parse_xpath("/a", {"": "u"})


# --- meaning ---------------------------------------------------------------------------------------------------------


def _bytes(archive, member):
    return archive.extractfile(member).read()


def cases(data_dir):
    with tarfile.open(data_dir / "xpath" / "xpath_subset_cases.tar.gz") as archive:
        files = {member.name: _bytes(archive, member) for member in archive if member.isfile()}
    lines = files["xpath_subset/cases.jsonl"].decode().splitlines()
    return [(case, files["xpath_subset/" + case["doc"]]) for case in map(json.loads, lines)]


@pytest.mark.row("Y1")
def test_all_conformance_cases(data_dir):
    """183 cases of the W3C, jaxen and libxml2 suites; the one document with an internal DTD subset goes without it."""
    found = cases(data_dir)
    assert len(found) == 183
    for case, data in found:
        document = read_markup(re.sub(rb"<!DOCTYPE[^\[>]*\[.*?\]\s*>", b"", data, flags=re.DOTALL))
        path = parse_xpath(case["expr"])
        selected = select_xpath(path, document)
        assert bool(selected) == case["match"], case
        assert case["count"] is None or len(selected) == case["count"], case
        assert parse_xpath(show_xpath(path)) == path


@pytest.mark.row("Y1")
def test_numbers_are_what_lxml_reads():
    texts = ("".join(found) for size in range(1, 5) for found in product("12.eE+- ", repeat=size))
    element = etree.Element("k")
    for text in (*texts, "1e400", "-1e400", "1e-400", "1.5e3", "0x1", "1_000", "\u0661", "Infinity", "NaN"):
        element.text = text
        said, ours = element.xpath("number(.)"), number_of(text)
        assert said == ours or (isnan(said) and isnan(ours)), text


def test_the_prefix_xml_is_bound_by_itself():
    document = '<a xml:lang="en"><b/></a>'
    for text, holds in (("//@xml:lang", True), ('/a[@xml:lang = "en"]/b', True), ("//xml:b", False)):
        assert holds_xpath(parse_xpath(text), read_markup(document)) == holds
        assert bool(etree.fromstring(document).xpath(text)) == holds


@pytest.mark.row("Y1")
def test_tangled_queries_mean_what_lxml_says():
    """Also how many nodes they select, unless one of them may be the document or a comment (a last '.')."""
    matches = 0
    for seed in range(40):
        tangle = Tangle(seed)
        queries = parsed(tangle, 40)
        for _ in range(4):
            text = tangle.document()
            root, document = etree.fromstring(text), read_markup(text)
            for query, path in queries:
                expected = root.xpath(query.replace("<>", "!="), namespaces=NAMESPACES)
                found = select_xpath(path, document)
                assert bool(expected) == bool(found) == holds_xpath(path, document), (query, text)
                assert len(expected) == len(found) or query.endswith("."), (query, text)
                matches += bool(found)
    assert matches > 1_000


def test_evidence_is_the_path_and_text_of_the_first_node():
    document = read_markup("<r><a/><a k='v'>one <b>two</b>\n three</a></r>")
    for query, path, text in [
        ("//a[b]", "/r/a[2]", "one two three"),
        ("//@k", "/r/a[2]/@k", "v"),
        ("//a/text()", "/r/a[2]/text()[1]", "one"),
        ("//b/text()", "/r/a[2]/b/text()", "two"),
        ("/r", "/r", "one two three"),
    ]:
        assert evidence_xpath(parse_xpath(query), document) == (path, text)
    assert evidence_xpath(parse_xpath("//c"), document) is None
