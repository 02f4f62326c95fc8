"""P8, P2P-DIET §3: the subsumption of queries. `covers` may miss a pair, but must never claim a false one."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.strategies import documents, meanings, trees
from tests.steps import steps
from tocsin.errors import QueryError
from tocsin.model import Document
from tocsin.query.ast import And, In, Not, Or, Query
from tocsin.query.covering import covers
from tocsin.query.parse import parse
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.show import show
from tocsin.text import ENGLISH, KEYWORD, Analysis

pytestmark = pytest.mark.row("P8")

ANALYSES = {
    "standard": Analysis(),
    "english": Analysis({"title": ENGLISH}),
    "keyword": Analysis({"title": KEYWORD}),
    "mixed": Analysis({"title": ENGLISH, "note": KEYWORD, "time": KEYWORD}),
    "english everywhere": Analysis({"title": ENGLISH, "note": ENGLISH, "n": ENGLISH}),
}

TERMS = [
    "peer", "peers", "grid", "the", "of", '"peer grid"', '"peer the grid"', '"the peer"', '"peer of"',
    '"peer grid peer"', "peer-grid", '"grid peer"', '"peers grids"', "2004", '"2004"', '"peer peer"', '"5"',
]  # fmt: skip
CHAINS = [
    "peer NEAR[0,0] grid", "peer NEAR[0,1] grid", "peer NEAR[1,1] grid", "peer NEAR[0,2] grid", "peer NEAR[1,3] grid",
    "grid NEAR[0,1] peer", "peer NEAR/0 grid", "peer NEAR/1 grid", "grid NEAR/1 peer", "peers NEAR/2 grid",
    "peer NEAR[0,1] the", "the NEAR/1 peer", "peer NEAR[0,0] grid NEAR[0,1] peer", "peer NEAR/1 grid NEAR/1 peer",
    "peer NEAR[0,1] peer", "peer NEAR/1 peer", "peers NEAR[0,0] grids",
]  # fmt: skip
PREFIXES = ["pe*", "peer*", "peers*", "gr*", "20*", "th*"]
RANGES = [
    "[2003 TO 2004]", "{2003 TO 2004}", "[2003 TO 2004}", "{2003 TO 2004]", "[2003 TO *]", "{2003 TO *]",
    "[* TO 2004]", "[* TO 2004}", "[2004 TO 2004]", "{2004 TO 2004}", "[-5 TO 5]", "[2003.5 TO 2004]", "{* TO -5}",
]  # fmt: skip
DAYS = ["[2004-05-31 TO 2004-05-31]", "{2004-05-30 TO 2004-06-01}", "[2004-05-31 TO *]", "{2004-05-31 TO *]",
        "[2004-05-31T00:00:00Z TO *]", "{2004-05-31T00:00:00Z TO *]", "[* TO 2004-05-31]", "[* TO 2004-05-31}",
        "[* TO 2004-05-31T23:59:59Z]", "[2004-05-31T12:00:00+02:00 TO *]"]  # fmt: skip
SPECIAL = [
    "id:peer",
    "source:peer",
    "time:2004",
    "id:*",
    "source:*",
    "time:*",
    "id:pe*",
    'id:"peer grid"',
    'source = "peer grid"',
]


def library(analysis: Analysis) -> list[Query]:
    """Atoms of every kind, chosen so that many of them nearly imply each other."""
    texts = [*TERMS, *CHAINS, *PREFIXES, *SPECIAL]
    for field in ("title", "note"):
        texts += [f"{field}:{term}" for term in TERMS + PREFIXES + RANGES[:3]]
        texts += [f"{field}:({chain})" for chain in CHAINS]
        texts += [f"{field} = {term}" for term in TERMS]
        texts += [f"{field}:*"]
    texts += [
        f"n:{term}" for term in ["2004", '"2004"', "2004.0", "-5", "5", '"5"', "-0", "0", "2.004e3", *RANGES, *DAYS]
    ]
    texts += [f"n = {term}" for term in ["2004", '"2004"', "2004.0", "-5", "5", "-0", "0"]] + ["n:*"]
    texts += [f"time:{day}" for day in DAYS[:4]]
    for text in ("peer", "peer grid", "grid peer", "peers"):
        texts += [f'title ~ "{text}" >= {threshold}' for threshold in (0, 0.3, 0.7, 1)]
    for inner in ("peer", "title:peer", '"peer grid"', "n > 5", "NOT grid"):
        texts += [f"title:IN:({inner})", f"title:IN:note({inner})"]
    found = []
    for text in texts:
        with suppress(QueryError):  # a term that this analysis empties
            found.append(parse(text, analysis))
    return list(dict.fromkeys(found))


def corpus(size: int, seed: int) -> list[Document]:
    """Documents made of the atoms' own words, so that near misses are frequent."""
    seeded = random.Random(seed)
    vocabulary = ["peer", "peer", "peers", "Grid", "grid", "grids", "the", "of", "x", "2004", "5"]
    numbers = [2003, 2004, 2004.0, 2003.5, 2005, -5, 5, 0, -0.0, "2004", "5", "-5", "2004.0", "peer"]
    days = [
        "2004-05-30T23:59:59Z",
        "2004-05-31",
        "2004-05-31T00:00:00Z",
        "2004-05-31T10:00:00",
        "2004-05-31T23:59:59.5Z",
        "2004-06-01",
    ]

    def text() -> str:
        return " ".join(seeded.choices(vocabulary, k=seeded.randint(0, 5)))

    made = []
    for number in range(size):
        fields: dict[str, tuple] = {}
        for name in ("title", "note"):
            if seeded.random() < 0.75:
                fields[name] = tuple(text() for _ in range(seeded.randint(1, 2)))
        if seeded.random() < 0.7:
            fields["n"] = tuple(seeded.choice(numbers + days) for _ in range(seeded.randint(1, 2)))
        made.append(
            Document(
                seeded.choice(["peer", "Peer Grid", f"d{number}"]),
                fields,
                seeded.choice([None, "peer", "peer grid", "2004"]),
                seeded.choice([None, *days]),
            )
        )
    return made


class Answers:
    """Where each atom holds, as a bit per document; combinations are computed on the bits, not by the oracle."""

    def __init__(self, name: str, size: int = 700) -> None:
        self.analysis = ANALYSES[name]
        self.documents = corpus(size, seed=len(name))
        knowledge = Knowledge(self.analysis, Statistics.of(self.documents, self.analysis), self.documents)
        self.all = (1 << size) - 1
        self.bits = {
            atom: sum(1 << place for place, one in enumerate(self.documents) if holds(atom, one, knowledge))
            for atom in library(self.analysis)
        }

    def of(self, query: Query) -> int:
        match query:
            case And(parts):
                return reduce(lambda one, other: one & other, map(self.of, parts))
            case Or(parts):
                return reduce(lambda one, other: one | other, map(self.of, parts))
            case Not(part):
                return self.all & ~self.of(part)
        return self.bits[query]

    def refute(self, general: Query, special: Query) -> Document | None:
        """A document that matches `special` but not `general`."""
        extra = self.of(special) & ~self.of(general)
        return self.documents[(extra & -extra).bit_length() - 1] if extra else None


@pytest.fixture(scope="module", params=ANALYSES)
def answers(request):
    return Answers(request.param)


def test_no_atom_is_said_to_cover_another_that_some_document_tells_apart(answers):
    true = 0
    for general in answers.bits:
        for special in answers.bits:
            if covers(general, special, answers.analysis):
                true += general != special
                witness = answers.refute(general, special)
                assert witness is None, f"{show(general)} does not cover {show(special)}: {witness}"
    assert true > 300  # the library is not so bland that nothing is claimed


def test_no_combination_is_said_to_cover_another_that_some_document_tells_apart(answers):
    seeded = random.Random(11)
    atoms: list[Query] = list(answers.bits)

    def grow(depth: int) -> Query:
        kind = seeded.random()
        if depth == 0 or kind < 0.35:
            return seeded.choice(atoms)
        if kind < 0.5:
            return Not(grow(depth - 1))
        parts = tuple(grow(depth - 1) for _ in range(seeded.randint(2, 3)))
        return And(parts) if kind < 0.75 else Or(parts)

    def relax(query: Query) -> Query:
        """Something that could cover the query: parts left out of an AND, put into an OR, atoms exchanged."""
        match query:
            case And(parts):
                kept = [relax(part) for part in parts if seeded.random() < 0.7]
                return And(tuple(kept)) if len(kept) > 1 else kept[0] if kept else seeded.choice(atoms)
            case Or(parts):
                return Or((*map(relax, parts), grow(1)))
            case Not(part):
                return Not(part if seeded.random() < 0.7 else grow(1))
        return query if seeded.random() < 0.6 else seeded.choice(near[query])

    def first_words(query: Query) -> str:
        return show(query)[:7]

    near = {atom: [other for other in atoms if first_words(other) == first_words(atom)] for atom in atoms}
    true = 0
    for _ in range(2_500):
        special = grow(2)
        general = relax(special)
        if covers(general, special, answers.analysis):
            true += general != special
            witness = answers.refute(general, special)
            assert witness is None, f"{show(general)} does not cover {show(special)}: {witness}"
    assert true > 100


@settings(max_examples=200)
@given(
    meanings(most=5),
    meanings(most=5),
    st.lists(documents(), min_size=1, max_size=10),
    st.sampled_from(list(ANALYSES.values())),
)
def test_covering_is_sound_on_any_pair(general, special, made, analysis):
    for one, other in ((general, special), (Or((general, special)), special), (general, And((general, special)))):
        if covers(one, other, analysis):
            knowledge = Knowledge(analysis, Statistics.of(made, analysis), made)
            assert all(holds(one, d, knowledge) for d in made if holds(other, d, knowledge))


@given(trees(most=6), trees(most=6), st.sampled_from(list(ANALYSES.values())))
def test_every_query_covers_itself_and_its_conjunctions_and_is_covered_by_its_disjunctions(query, other, analysis):
    assert covers(query, query, analysis)
    assert covers(query, And((query, other)), analysis)
    assert covers(query, And((other, query)), analysis)
    assert covers(Or((other, query)), query, analysis)
    assert covers(Not(Not(query)), query, analysis)


COVERED = [
    ("peer", "title:peer"),
    ("peer", "peer grid"),
    ("peer OR grid", "peer"),
    ("peer OR grid OR x", "grid OR peer"),
    ("peer", '"peer grid"'),
    ('"peer grid"', '"the peer grid"'),
    ("title:peer", 'title:"peer grid"'),
    ("title:peer", "title = peer"),
    ("title:peer", "title:(peer NEAR/5 grid)"),
    ("title:(peer NEAR[0,5] grid)", "title:(peer NEAR[1,3] grid)"),
    ("title:(peer NEAR/5 grid)", "title:(peer NEAR[0,5] grid)"),
    ("title:(peer NEAR[0,0] grid)", 'title:"peer grid"'),
    ("title:peer*", "title:peers"),
    ("title:pe*", "title:peer*"),
    ("title:*", "title:peer"),
    ("year:*", "year > 5"),
    ("year:[2000 TO 2010]", "year:[2004 TO 2005]"),
    ("year:[2000 TO 2010]", "year:{2000 TO 2010}"),
    ("year > 5", "year >= 6"),
    ("time >= 2004-05-31", "time > 2004-05-31"),
    ("NOT peer", "NOT (peer OR grid)"),
    ("NOT title:peer", "NOT title:peer*"),
    ("NOT (peer grid)", "NOT peer"),
    ("author:IN:(peer OR grid)", "author:IN:(peer)"),
    ('f ~ "a b" >= 0.3', 'f ~ "a b" >= 0.5'),
    ("(a OR b) AND (c OR d)", "a AND c"),
    ("a OR (b c)", "b c d"),
    ("PEER", "peer"),
    ("title:(peer grid)", 'title:"grid x peer"'),
]


@pytest.mark.parametrize(("general", "special"), COVERED)
def test_plain_cases_of_covering_are_found(general, special):
    assert covers(parse(general), parse(special))


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("title:peer", "peer"), ("peer", "id:peer"), ("peer", "source:peer"), ("peer", "time:peer"),
        ("peer", "peer OR grid"), ('"peer grid"', "peer grid"), ("title = peer", "title:peer"),
        ("title:peer", "title:peers"), ("year > 6", "year >= 6"), ("peer", "year:2004"), ('year:"2004"', "year:2004"),
        ("2004", "year:2004"), ("time > 2004-05-31", "time >= 2004-05-31"),
        ("title:(a NEAR[0,5] b)", "title:(a NEAR/5 b)"), ("year:[1 TO 5]", "year:*"), ("title:peers*", "title:peer*"),
        ("author:IN:(a)", "author:IN:id(a)"), ("a", "f:IN:(a)"), ("NOT peer", "grid"), ("f:*", 'f ~ "a" >= 0'),
    ],
)  # fmt: skip
def test_what_only_looks_like_covering_is_not_claimed(general, special):
    assert not covers(parse(general), parse(special))


def test_words_are_compared_under_the_fields_analyses():
    english = ANALYSES["english"]
    assert covers(parse("title:run", english), parse("title:running", english), english)
    assert not covers(parse("title:run"), parse("title:running"))
    assert not covers(parse("run", english), parse("running", english), english)  # other fields are not stemmed
    keyword = ANALYSES["keyword"]
    assert not covers(parse("title:peer", keyword), parse('title:"peer grid"', keyword), keyword)
    assert not covers(parse("peer", keyword), parse('"peer grid"', keyword), keyword)


@pytest.mark.parametrize(
    "pair",
    [
        (" OR ".join(f"v{n}" for n in range(1_500)), " ".join(f"w{n}" for n in range(1_500))),
        (
            "f:IN:(" + " OR ".join(f"v{n}" for n in range(1_500)) + ")",
            "f:IN:(" + " ".join(f"w{n}" for n in range(1_500)) + ")",
        ),
        ("(a OR " * 60 + "b" + ")" * 60, "(a AND " * 60 + "c" + ")" * 60),
        ("(a AND (b OR " * 30 + "b" + "))" * 30, "(b AND (a OR " * 30 + "a" + "))" * 30),
        ("f:(" + " NEAR/9 ".join(["a"] * 500) + ")", 'f:"' + "a " * 1_000 + '"'),
    ],
    ids=["wide", "wide and nested", "deep", "deep and mixed", "long"],
)
def test_no_pair_of_queries_takes_long_to_compare(pair):
    general, special = map(parse, pair)
    assert steps(lambda: covers(general, special), budget=3_000_000) > 0


def test_nested_queries_cover_by_their_inner_queries_at_any_depth():
    general, special = parse("peer OR grid"), parse('"peer grid"')
    for _ in range(30):
        general, special = In("author", "author", general), In("author", "author", special)
        assert covers(general, special)
        assert not covers(special, general)
