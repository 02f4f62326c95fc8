"""Claims of the XML filtering paper (XML on a DHT) about queries, the automaton and its execution; §2, §3, §5, §6."""

from __future__ import annotations

import random
from xml.sax.saxutils import escape

import pytest

from tocsin.markup import read_markup
from tocsin.match import path_reference as reference
from tocsin.match.path_reference import TreeFilter
from tocsin.match.paths import PathIndex, Selection
from tocsin.model import Document
from tocsin.query import Knowledge, holds, parse
from tocsin.query.xpath import holds_xpath, parse_xpath
from tocsin.query.xpath.routes import plain_path
from tocsin.sim.markup import NEWS_DTD, QueryShape, documents, queries, read_dtd

FIGURE_1 = [
    "/dblp/phdthesis/year",
    "/dblp/www/title",
    "/dblp/proceedings/school",
    "/dblp/proceedings/title",
    "/dblp/*/author",
    "//*/cite",
]
DBLP = """<dblp>
  <phdthesis>
    <author name="John Smith">John Smith</author><year>2007</year><school>University of Athens</school>
  </phdthesis>
  <proceedings><title>T</title><year>2006</year><editor><cite>x</cite></editor></proceedings>
  <www><author>A</author></www>
</dblp>"""


def filled(texts, kind=PathIndex, *arguments):
    index = kind(*arguments)
    for number, text in enumerate(texts):
        index.add(number, parse_xpath(text))
    return index


@pytest.mark.row("Y3")
def test_figure_1():
    """§2, Figure 1: the six queries give these fourteen states; 3, 5, 7, 8, 10 and 13 accept."""
    index = filled(FIGURE_1)
    assert index.states == 14
    assert index.automaton.states() == {
        "start": False,
        "start + dblp": False,
        "start + dblp + phdthesis": False,
        "start + dblp + phdthesis + year": True,
        "start + dblp + www": False,
        "start + dblp + www + title": True,
        "start + dblp + proceedings": False,
        "start + dblp + proceedings + school": True,
        "start + dblp + proceedings + title": True,
        "start + dblp + *": False,
        "start + dblp + * + author": True,
        "start + $": False,
        "start + $ + *": False,
        "start + $ + * + cite": True,
    }


def test_keys_of_states():
    """§3: the key of state 2 is 'start + dblp + phdthesis', of the state after ε 'start + $'."""
    index = filled(FIGURE_1)
    assert index.states == 14
    keys = index.automaton.states()
    assert {"start", "start + dblp + phdthesis", "start + $"} <= set(keys)


@pytest.mark.row("Y3")
def test_the_order_in_which_queries_are_inserted_does_not_matter():
    """§3: inserting follows what is there and adds what is missing."""
    expected = filled(FIGURE_1)
    for seed in range(10):
        texts = FIGURE_1 * 2
        random.Random(seed).shuffle(texts)
        index = filled(texts)
        assert index.states == expected.states
        assert index.automaton.states() == expected.automaton.states()


@pytest.mark.row("Y3")
def test_deleting_takes_away_what_inserting_added():
    """The paper is silent on deletion: the automaton is what it would be without the query."""
    index, others = filled(FIGURE_1), filled([*FIGURE_1[:3], *FIGURE_1[4:]])
    index.remove(3)
    assert index.states == others.states == 13
    assert index.automaton.states() == others.automaton.states()
    index.add(3, parse_xpath(FIGURE_1[3]))
    assert index.states == 14


@pytest.mark.row("Y1")
def test_the_queries_of_section_2():
    """§2: its three queries, written as XPath has them (the paper puts a '/' before the predicate)."""
    document = read_markup(DBLP)
    for text, expected in [
        ("/dblp/phdthesis[year=2007]", True),
        ("/dblp/*/author[@name='John Smith']", True),
        ("//*[school='University of Athens']", True),
        ("/dblp/phdthesis[year>2007]", False),
        ("/dblp/phdthesis[year<>2007]", False),
        ("/dblp/*[position()=2]/title", True),
        ("/dblp/*[position()>=3]/title", False),
    ]:
        assert holds_xpath(parse_xpath(text), document) == expected
        assert list(filled([text]).match(document)) == ([0] if expected else [])


def test_the_run_time_stack_goes_back_at_the_end_of_an_element():
    """§5: when an element ends, execution backtracks to the states it was in when the element started."""
    index = filled(["/a/b/c", "/a/c", "//b//c", "/a/b/b"])
    assert list(index.match(read_markup("<a><b></b><c/></a>"))) == [1]
    assert list(index.match(read_markup("<a><b><c/></b></a>"))) == [0, 2]
    assert list(index.match(read_markup("<a><b/><b/></a>"))) == []


def test_a_state_after_epsilon_loops():
    """§5: active states with a self-loop stay active at any depth below."""
    index = filled(["//*/cite", "/a//cite"])
    for depth in (1, 2, 5, 50):
        document = read_markup("<a>" + "<x>" * (depth - 1) + "<cite/>" + "</x>" * (depth - 1) + "</a>")
        assert list(index.match(document)) == [0, 1]
    assert list(index.match(read_markup("<cite/>"))) == []


@pytest.mark.row("Y3")
def test_states_are_shared_prefixes():
    """§3 and §6: the size of the automaton is the number of distinct prefixes; fewer new ones come as it grows."""
    news = read_dtd(NEWS_DTD)
    texts = list(queries(news, 8_000, 1, QueryShape(distinct=False)))
    sizes = [filled(texts[:count]).states for count in (2_000, 4_000, 8_000)]
    for count, size in zip((2_000, 4_000, 8_000), sizes, strict=True):
        paths = [path for text in texts[:count] if (path := plain_path(parse_xpath(text)))]
        assert size == len(reference.prefixes(paths))
    assert sizes[2] - sizes[1] < 2 * (sizes[1] - sizes[0])


@pytest.mark.row("Y9")
def test_selection_postponed_equals_inline_and_looks_at_fewer_predicates_as_they_grow():
    """§5 (after YFilter): predicates are best checked when the path has been accepted."""
    news = read_dtd(NEWS_DTD)
    read = [read_markup(text) for text in documents(news, 8, 1)]
    gains = []
    for predicates in (1, 2, 4):
        texts = list(queries(news, 600, 1, QueryShape(predicates=predicates, distinct=False)))
        inline, postponed = (filled(texts, TreeFilter, selection) for selection in Selection)
        index = filled(texts)
        checks = [0, 0]
        for document in read:
            found = inline.match(document)
            assert found == postponed.match(document) == list(index.match(document))
            checks = [checks[0] + inline.work.checks, checks[1] + postponed.work.checks]
        gains.append(checks[0] / checks[1])
    assert gains[0] > 1
    assert gains[2] > gains[0]


RECORDS: list[dict[str, str | int | float]] = [
    {"author": "John Smith", "year": 2004, "title": "Grid"},
    {"author": "Ann", "year": 2010},
    {"author": "john", "title": ""},
    {"year": 2003.5, "title": "Peers"},
]


@pytest.mark.parametrize(
    ("query", "xpath"),
    [
        ('author = "John Smith"', "/d[author = 'John Smith']"),
        ("title:*", "/d/title"),
        ("year >= 2004", "/d[year >= 2004]"),
        ("year < 2004", "/d[2004 > year]"),
        ('author = "Ann" AND NOT title:*', "/d[author = 'Ann' and not(title)]"),
    ],
)
def test_a_query_written_as_words_and_as_xpath_gives_the_same_matches(query, xpath):
    """One meaning under two front ends, where both can say it: equality, existence, comparison."""
    for fields in RECORDS:
        xml = "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in fields.items())
        document = Document("1", {name: (value,) for name, value in fields.items()}, xml=f"<d>{xml}</d>")
        assert document.xml is not None
        assert holds(parse(query), document, Knowledge()) == holds_xpath(parse_xpath(xpath), read_markup(document.xml))
