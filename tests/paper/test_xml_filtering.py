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


@pytest.mark.row_part("Y9")
def test_selection_postponed_equals_inline_and_looks_at_fewer_predicates_as_they_grow():
    """§5 (after YFilter): predicates are best checked when the path has been accepted.

    Shown as fewer checks of the plain twin, which alone has both; that it takes less time is not shown.
    """
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


# --- one meaning under two front ends --------------------------------------------------------------------------------

AUTHORS = ("John Smith", "Ann", "Zoe Kane", "smithy", "J. R. R. Tolkien", "O'Hara & Sons", "Ἀλέξανδρος")
TITLES = ("Grid", "", "Peers of the grid", "2004", "<x>")
WRITTEN_BOTH_WAYS = [
    ('author = "John Smith"', "/d[author = 'John Smith']"),
    ('author = "John Smith"', "/d/author[. = 'John Smith']"),
    ('author = "O\'Hara & Sons"', '//author[text() = "O\'Hara & Sons"]'),
    ('author = "Ἀλέξανδρος"', "//*['Ἀλέξανδρος' = author]"),
    ("year = 2004", "/d[year = 2004]"),
    ("title:*", "/d/title"),
    ("title:* AND year:*", "/d[title][year]"),
    ("NOT title:*", "/d[not(title)]"),
    ("year >= 2004", "/d[year >= 2004]"),
    ("year > 2004", "/d/year[2004 < .]"),
    ("year < 2004", "/d[2004 > year]"),
    ("year <= 2003.5", "//year[. <= '2003.5']"),
    ("year:[2004 TO 2010]", "/d/year[. >= 2004 and . <= 2010]"),
    ("year:{2004 TO 2010}", "//d[year[. > 2004][. < 2010]]"),
    ('author = "Ann" AND NOT title:*', "/d[author = 'Ann' and not(title)]"),
    ('author = "Ann" OR year < 2004', "/d[author = 'Ann' or year < 2004]"),
    ('author = "Ann" AND year >= 2004 AND title:*', "/d[author='Ann'][year>=2004]/title"),
    ("rank >= 3", "/d[@rank >= 3]"),
    ("rank = 3 AND year:*", "/d[@rank = 3]/year"),
    ("rank:*", "/*/@rank"),
]
"""Equality, existence, comparison. Not `!=`: of several values XPath wants one that differs, NOT wants none equal."""


def records(count, seed):
    """The same data as fields and as XML: several values are several elements, `rank` is an attribute."""
    chance = random.Random(seed)
    for number in range(count):
        fields: dict[str, tuple[str | int | float, ...]] = {}
        if chance.random() < 0.8:
            fields["author"] = tuple(chance.sample(AUTHORS, chance.randint(1, 3)))
        if chance.random() < 0.7:
            fields["year"] = tuple(chance.sample((1999, 2003, 2003.5, 2004, 2007, 2010, 2011), chance.randint(1, 2)))
        if chance.random() < 0.5:
            fields["title"] = (chance.choice(TITLES),)
        if chance.random() < 0.5:
            fields["rank"] = (chance.randint(1, 5),)
        rank = f' rank="{fields["rank"][0]}"' if "rank" in fields else ""
        inside = "".join(
            f"<{name}>{escape(str(value))}</{name}>" for name in fields if name != "rank" for value in fields[name]
        )
        yield Document(str(number), fields, xml=f"<d{rank}>{inside}</d>")


def test_queries_written_as_words_and_as_xpath_give_the_same_matches():
    """One meaning under two front ends, by the oracles of both and by the automaton (row X1, its XPath part)."""
    words = [parse(text) for text, _ in WRITTEN_BOTH_WAYS]
    paths = [parse_xpath(text) for _, text in WRITTEN_BOTH_WAYS]
    index = filled([text for _, text in WRITTEN_BOTH_WAYS])
    matches = [0] * len(words)
    for document in records(400, 1):
        assert document.xml is not None
        read = read_markup(document.xml)
        expected = [number for number, query in enumerate(words) if holds(query, document, Knowledge())]
        assert [number for number, path in enumerate(paths) if holds_xpath(path, read)] == expected
        assert list(index.match(read)) == expected
        for number in expected:
            matches[number] += 1
    assert all(0 < count < 400 for count in matches), matches
