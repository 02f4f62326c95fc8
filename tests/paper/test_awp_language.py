"""The models AWP (P2P-DIET §2) and AWPS (DHTrie, "Content-Based Multicasting"): one test per sentence."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.steps import steps
from tocsin.errors import DocumentError
from tocsin.intake import document_from_json
from tocsin.model import Document
from tocsin.query import Knowledge, Statistics, covers, holds, parse, show
from tocsin.query.ast import And, Equals, Near, Words
from tocsin.text import Analysis

PUBLICATION = document_from_json(
    b"""{"id": "1", "author": "John Smith", "title": "Information dissemination in P2P systems",
         "abstract": "In this paper we show that ..."}"""
)
PAPERS_QUERY = 'author = "John Smith" AND title:p2p AND title:(information NEAR[0,0] dissemination)'


def with_title(title: str, author: str = "John Smith") -> Document:
    return Document("1", {"author": (author,), "title": (title,)})


def matches(text: str, document: Document) -> bool:
    return holds(parse(text), document, Knowledge())


# --- P2P-DIET §2: publications ---------------------------------------------------------------------------------------


@pytest.mark.row("P1")
def test_a_publication_is_a_set_of_attributes_with_text_values():
    """§2: "A publication n is a set of attribute-value pairs (A, s)"."""
    assert PUBLICATION.fields["author"] == ("John Smith",)
    assert set(PUBLICATION.fields) == {"author", "title", "abstract"}


@pytest.mark.row("P1")
def test_all_attributes_are_distinct():
    """§2: "and all attributes are distinct"."""
    with pytest.raises(DocumentError, match=r"title.*twice"):
        document_from_json(b'{"id": "1", "title": "a", "title": "b"}')


@pytest.mark.row("P1")
def test_attributes_come_from_namespaces_such_as_dublin_core():
    """§2: "In practice attributes will come from namespaces", written with a dot here."""
    document = document_from_json(b'{"id": "1", "dc.title": "Information", "dc.creator": ["John Smith", "Tom Fox"]}')
    assert matches('dc.creator = "Tom Fox" AND dc.title:information', document)


# --- P2P-DIET §2: queries --------------------------------------------------------------------------------------------


@pytest.mark.row("P2")
def test_the_papers_query_finds_the_papers_publication():
    """§2: AUTHOR = "John Smith" ∧ TITLE ⊒ p2p ∧ (information ≺[0,0] dissemination)."""
    assert matches(PAPERS_QUERY, PUBLICATION)
    assert parse(PAPERS_QUERY) == And(
        (
            Equals("author", "John Smith", True),
            Words("title", "p2p"),
            Near("title", ("information", "dissemination"), ((0, 0),)),
        )
    )


@pytest.mark.row("P2")
@pytest.mark.parametrize(
    "document",
    [
        with_title("Information dissemination in P2P systems", author="John B. Smith"),
        with_title("Information dissemination in P2P systems", author="Smith John"),
        with_title("Information dissemination in systems"),
        with_title("P2P dissemination of information"),
        with_title("Information and dissemination in P2P"),
        with_title("Dissemination information in P2P"),
        Document("1", {"author": ("John Smith",), "abstract": ("Information dissemination in P2P systems",)}),
        Document("1", {"title": ("Information dissemination in P2P systems",)}),
    ],
    ids=lambda document: str(dict(document.fields)),
)
def test_each_part_of_the_papers_query_is_needed(document):
    """§2: the author is John Smith, the title contains p2p, information is immediately followed by dissemination."""
    assert not matches(PAPERS_QUERY, document)


@pytest.mark.row("P2")
def test_a_word_pattern_is_a_conjunction_of_words_and_proximity_formulas():
    """§2: "wp is a word pattern containing conjunctions of words and proximity formulas with only words"."""
    pattern = "title:(p2p AND systems AND information NEAR[0,0] dissemination AND dissemination NEAR[1,2] systems)"
    assert matches(pattern, PUBLICATION)
    assert not matches(pattern.replace("[1,2]", "[0,1]"), PUBLICATION)


@pytest.mark.row("X1", "P2")
def test_keyword_and_awp_front_ends_give_one_tree_or_at_least_the_same_matches():
    """The example by AWP's operators, by Lucene's phrase, by groups, by juxtaposition, and by hand as a tree."""
    ways = [
        parse(PAPERS_QUERY),
        parse('author = "john smith" title:p2p title:"information dissemination"'),
        parse('title:(p2p information-dissemination) author = "JOHN SMITH"'),
        parse('NOT (NOT author = "John Smith" OR -title:p2p OR !title:(information NEAR[0,0] dissemination))'),
        parse(show(parse(PAPERS_QUERY))),
        And(
            (
                Words("title", "p2p"),
                Near("title", ("information", "dissemination"), ((0, 0),)),
                Equals("author", "John Smith"),
            )
        ),
    ]
    chance = random.Random(2)
    words = ["Information", "dissemination", "P2P", "in", "systems"]
    met = 0
    for _ in range(500):
        title = " ".join(chance.choices(words, k=chance.randint(1, 6)))
        document = with_title(title, chance.choice(["John Smith", "John Smith", "Tom Fox"]))
        answers = {holds(way, document, Knowledge()) for way in ways}
        assert len(answers) == 1, title
        met += answers == {True}
    assert met > 5


@pytest.mark.row("P2")
@pytest.mark.parametrize("seed", range(4))
def test_proximity_formulas_with_any_bounds_and_any_length_hold_where_some_choice_of_positions_does(seed):
    """w1 ≺[l1,u1] w2 … ≺[lk,uk] wk+1: each next word later, with at least l and at most u words between."""
    chance = random.Random(seed)
    for _ in range(150):
        value = chance.choices("ab", k=chance.randint(1, 9))
        chain = chance.choices("ab", k=chance.randint(2, 4))
        gaps = [tuple(sorted((chance.randint(0, 3), chance.randint(0, 3)))) for _ in chain[1:]]
        pieces = "".join(f" NEAR[{low},{high}] {word}" for (low, high), word in zip(gaps, chain[1:], strict=True))
        expected = any(
            all(value[place] == word for place, word in zip(places, chain, strict=True))
            and all(
                low <= j - i - 1 <= high for (i, j), (low, high) in zip(itertools.pairwise(places), gaps, strict=True)
            )
            for places in itertools.combinations(range(len(value)), len(chain))
        )
        assert matches(f"title:({chain[0]}{pieces})", with_title(" ".join(value))) == expected


@pytest.mark.row("P2")
def test_filtering_a_proximity_formula_takes_polynomial_time():
    """20 equal words in a chain over a value of one repeated word: the choices of positions are beyond counting."""

    def work(length: int) -> int:
        chain = " NEAR[1,4] ".join(["w"] * 20)
        return steps(lambda: matches(f"title:({chain})", with_title("w " * length)))

    assert work(400) <= 5 * work(200)


@pytest.mark.row("P8")
def test_a_less_general_query_is_told_from_a_more_general_one():
    """§3: "no continuous query that is less general than one that has already been processed is actually forwarded"."""
    query = parse(PAPERS_QUERY)
    for general in [
        "title:p2p", 'author = "john smith"', "title:(information NEAR[0,3] dissemination)", "title:information",
        "author:smith", "title:p2p OR title:grid", "title:*", "information",
    ]:  # fmt: skip
        assert covers(parse(general), query), general
        assert not covers(query, parse(general)), general


# --- AWPS: DHTrie, "Content-Based Multicasting" ----------------------------------------------------------------------

OPERATORS = {
    "equality": ('title = "peer grid"', "peer grid", "peer grids"),
    "containment": ("title:peer", "a peer", "a grid"),
    "conjunction": ("title:(peer AND grid)", "grid of peer", "peer"),
    "disjunction": ("title:(peer OR grid)", "grid", "x"),
    "word negation": ("title:(peer AND NOT grid)", "peer", "peer grid"),
    "distance": ("title:(peer NEAR[1,2] grid)", "peer x grid", "peer grid"),
    "similarity": ('title ~ "peer grid" >= 0.9', "grid peer", "peer x y z"),
}


@pytest.mark.row("D1")
@pytest.mark.parametrize(("text", "yes", "no"), OPERATORS.values(), ids=OPERATORS)
def test_awps_allows_equality_containment_and_similarity(text, yes, no):
    """AWPS has "equality, containment, and similarity operators on attribute values. The containment operator offers
    conjunction, disjunction, word negation, and distance between words."
    """
    made = [with_title(yes), with_title(no)]
    knowledge = Knowledge(statistics=Statistics.of(made, Analysis()))
    assert [holds(parse(text), one, knowledge) for one in made] == [True, False]


@pytest.mark.row("D1")
@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(OPERATORS, 2)))
def test_awps_operators_combine_in_every_pair(first, second):
    """Both hold where each holds alone; either holds where one does."""
    titles = sorted({title for _, yes, no in OPERATORS.values() for title in (yes, no)})
    made = [with_title(title) for title in titles]
    knowledge = Knowledge(statistics=Statistics.of(made, Analysis()))

    def answer(text: str) -> list[bool]:
        return [holds(parse(text), one, knowledge) for one in made]

    one, other = OPERATORS[first][0], OPERATORS[second][0]
    pairs = list(zip(answer(one), answer(other), strict=True))
    assert answer(f"{one} AND {other}") == [a and b for a, b in pairs]
    assert answer(f"({one}) OR NOT ({other})") == [a or not b for a, b in pairs]
