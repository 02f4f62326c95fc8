"""SmartSeer §VI-B, nested queries: the paper's examples, and its three sample queries on real papers against SQL."""

from __future__ import annotations

import gzip
import json
import sqlite3
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin import Analysis, Document, Knowledge, Statistics, Subscription, holds, parse, parse_subscription
from tocsin.match.index import IndexEngine
from tocsin.match.matcher import Matcher
from tocsin.match.nested import NestedSubscriptions, Reason

BOB = "year:2004 AND author:IN:(networks AND author:Bob)"


def paper(id: str, year: int, *authors: str, title: str = "") -> Document:
    return Document(id, {"author": authors, "year": (year,), "title": (title,)})


BOBS = [
    paper("X1", 2003, "Bob", "AuthorX", "AuthorY", title="networks"),
    paper("X2", 2004, "Bob", "AuthorZ", title="more networks"),
    paper("other", 2004, "Bob", "Stranger", title="gardens"),
    paper("z2004", 2004, "AuthorZ", title="trees"),
    paper("z2005", 2005, "AuthorZ", title="trees"),
    paper("stranger", 2004, "Stranger", title="trees"),
    paper("carol2004", 2004, "Carol", title="bees"),
    paper("carol2003", 2003, "Carol", title="bees"),
]


@pytest.mark.row("S15")
def test_a_nested_instantaneous_query_is_answered_subquery_first():
    """§VI-B.1: papers of 2004 by authors who wrote with Bob about networks; Bob is among his own co-authors."""
    knowledge = Knowledge(documents=BOBS)
    assert [one.id for one in BOBS if holds(parse(BOB), one, knowledge)] == ["X2", "other", "z2004"]
    assert knowledge.values(parse("networks AND author:Bob"), "author") == {"bob", "authorx", "authory", "authorz"}
    translated = parse("year:2004 AND (author:AuthorX OR author:AuthorY OR author:AuthorZ OR author:Bob)")
    assert [one.id for one in BOBS if holds(translated, one, knowledge)] == ["X2", "other", "z2004"]


@pytest.mark.row("S16")
def test_carols_papers_of_2004_are_told_when_she_first_writes_with_bob():
    """§VI-B.2: the rewritten query runs over history, and only what is new is told."""
    matcher = Matcher([Subscription("bob", parse_subscription(BOB))], IndexEngine(Analysis()), Analysis(), Statistics())
    joint = paper("joint", 2004, "Bob", "Carol", title="networks of bees")
    later = [paper("carol-later", 2004, "Carol"), paper("z-later", 2004, "AuthorZ"), paper("x1999", 1999, "Carol")]
    hits = list(matcher.match([*BOBS, joint, *later]))
    assert matcher.reasons(hits[3]) == (Reason("author", "carol", "joint", 1, ()),)  # why an old paper is news
    told = [(hit.document.id, hit.cause.id) for hit in hits]
    assert told == [
        ("X2", "X2"),
        ("other", "other"),
        ("z2004", "z2004"),
        ("carol2004", "joint"),
        ("joint", "joint"),
        ("carol-later", "carol-later"),
        ("z-later", "z-later"),
    ]


# --- the sample queries on eLife -------------------------------------------------------------------------------------


def folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@pytest.fixture(scope="module")
def papers(data_dir: Path) -> list[Document]:
    found = data_dir / "scholarly" / "elife_papers.jsonl.gz"
    if not found.is_file():
        pytest.skip(f"the eLife papers are absent: there is no {found}")
    with gzip.open(found, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Document(row["id"], {"author": tuple(row["authors"]), "citation": tuple(row["cites"])}, time=row["date"])
        for row in rows
    ]


@pytest.fixture(scope="module")
def database(papers: list[Document]) -> Iterator[sqlite3.Connection]:
    """The same relations as tables: who wrote what, and what cites what."""
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE wrote (paper, name); CREATE TABLE cites (citing, cited);")
    for one in papers:
        written = [(one.id, folded(str(name))) for name in one.fields["author"]]
        connection.executemany("INSERT INTO wrote VALUES (?, ?)", written)
        connection.executemany("INSERT INTO cites VALUES (?, ?)", [(one.id, id) for id in one.fields["citation"]])
    connection.executescript(
        "CREATE INDEX a ON wrote (name); CREATE INDEX b ON wrote (paper);"
        "CREATE INDEX c ON cites (cited); CREATE INDEX d ON cites (citing);"
    )
    yield connection
    connection.close()


CITATIONS = "SELECT DISTINCT citing FROM cites JOIN wrote ON wrote.paper = cited WHERE name = ?"
CO_AUTHORS = """SELECT DISTINCT theirs.paper FROM wrote mine JOIN wrote beside ON beside.paper = mine.paper
    JOIN wrote theirs ON theirs.name = beside.name WHERE mine.name = ?"""
CITED_TOGETHER = """SELECT DISTINCT beside.cited FROM cites this JOIN cites beside ON beside.citing = this.citing
    WHERE this.cited = ?"""


@pytest.fixture(scope="module")
def samples(database: sqlite3.Connection) -> dict[str, set[str]]:
    """Queries with the ids that SQL finds: for the authors and papers that are cited most."""
    most_cited = "SELECT cited FROM cites GROUP BY cited ORDER BY count(*) DESC, cited LIMIT 20"
    ids = [id for (id,) in database.execute(most_cited)]
    marks = ",".join("?" * len(ids))
    known = f"SELECT DISTINCT name FROM wrote WHERE paper IN ({marks}) ORDER BY name"
    names = [name for (name,) in database.execute(known, ids) if name.replace(" ", "").isalpha()][:40]
    found = {}
    for name in names:
        found[f'citation:IN:(author = "{name}")'] = {id for (id,) in database.execute(CITATIONS, [name])}
        found[f'author:IN:(author = "{name}")'] = {id for (id,) in database.execute(CO_AUTHORS, [name])}
    for id in ids:
        found[f'id:IN:citation(citation = "{id}")'] = {one for (one,) in database.execute(CITED_TOGETHER, [id])}
    return found


@pytest.mark.row("S15")
def test_the_three_sample_queries_answer_as_sql_does(papers, samples):
    """§VI-B: citations of my papers, papers of my co-authors, papers cited together with one."""
    knowledge = Knowledge(documents=papers)
    for form in ("citation:IN:(", "author:IN:(", "id:IN:citation("):
        texts = [text for text in samples if text.startswith(form)]
        for text in (texts[0], texts[-1]):
            query = parse(text)
            assert {one.id for one in papers if holds(query, one, knowledge)} == samples[text] != set(), text


@pytest.mark.row("S16")
def test_the_three_sample_queries_as_subscriptions_tell_what_sql_finds_at_the_end(papers, samples):
    """§VI-B.2, over the papers in the order of their dates; 209 of them cite a later one."""
    nested = NestedSubscriptions(Analysis())
    texts = list(samples)
    nested.add_all((number, parse_subscription(text), 0, None) for number, text in enumerate(texts))
    told: dict[str, list[str]] = {text: [] for text in texts}
    late = 0
    for start in range(0, len(papers), 500):
        batch = list(enumerate(papers[start : start + 500], start + 1))
        for one in nested.match(batch):
            told[texts[one.number]].append(papers[one.position - 1].id)
            late += one.position != one.cause
    assert {text: sorted(ids) for text, ids in told.items()} == {text: sorted(ids) for text, ids in samples.items()}
    assert late > 100
