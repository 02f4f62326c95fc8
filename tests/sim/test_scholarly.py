"""The generated literature looks like one: heavy tails, communities, citations that go back in time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import combinations, islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from tocsin import dates
from tocsin.intake import document_from_json, document_to_json
from tocsin.query.parse import parse
from tocsin.query.score import Statistics
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.standing import parse_subscription
from tocsin.sim.prose import CULTURES, TOPICS
from tocsin.sim.scholarly import URN_AUTHORS, paper_id, papers
from tocsin.text import Analysis, words

COUNT = 4_000


@pytest.fixture(scope="module")
def literature():
    return list(papers(7, COUNT))


# --- papers ----------------------------------------------------------------------------------------------------------


def test_a_paper_has_all_its_fields(literature):
    for document in literature:
        assert set(document.fields) - {"citation"} == {"title", "abstract", "author", "year", "venue", "keyword"}
        assert document.source
        assert isinstance(document.fields["year"][0], int)
        assert 3 <= len(document.fields["keyword"]) <= 5
        assert len(document.fields["author"]) == len(set(document.fields["author"])) <= 10
    assert [document.id for document in literature] == [paper_id(number) for number in range(COUNT)]
    assert literature[123].id == "p000123"


def test_papers_are_documents_that_a_stranger_could_send(literature):
    assert all(document_from_json(document_to_json(document)) == document for document in literature[:500])


def test_times_increase_and_agree_with_years(literature):
    times = [dates.moment(document.time) for document in literature]
    assert all(earlier is not None and later is not None and earlier <= later for earlier, later in pairwise(times))
    assert all(document.time.startswith(str(document.fields["year"][0])) for document in literature)
    assert literature[0].fields["year"] == (2004,)
    assert literature[500].fields["year"] == (2008,)


def test_prose_is_clean(literature):
    for document in literature:
        title, abstract = document.fields["title"][0], document.fields["abstract"][0]
        assert title[0].isupper()
        assert not re.search(r"[{}]|\s\s|\.\.", f"{title} {abstract}")
        sentences = abstract.split(". ")
        assert 5 <= len(sentences) <= 8
        assert len(set(sentences)) == len(sentences)
        assert all(sentence[0].isupper() for sentence in sentences)
        assert 40 < len(words(abstract)) < 180


def test_keywords_are_what_the_paper_speaks_of(literature):
    spoken = [
        keyword.lower() in f"{document.fields['title'][0]} {document.fields['abstract'][0]}".lower()
        for document in literature
        for keyword in document.fields["keyword"][1:3]
    ]
    assert np.mean(spoken) > 0.8


def test_titles_rarely_repeat_and_texts_never(literature):
    assert len({document.fields["abstract"] for document in literature}) == COUNT
    assert len({document.fields["title"] for document in literature}) > 0.8 * COUNT


def test_names_come_from_many_cultures(literature):
    names = {name for document in literature for name in document.fields["author"]}
    assert 0.3 < np.mean([name.isascii() for name in names]) < 0.8
    for culture in CULTURES:
        assert any(name.split()[0] in culture.given and name.split()[-1] in culture.family for name in names)


def test_all_topics_occur_and_the_first_is_the_most_popular(literature):
    topics = Counter(document.fields["keyword"][0] for document in literature)
    assert set(topics) == {topic.name for topic in TOPICS}
    assert topics.most_common(1)[0][0] == TOPICS[0].name


# --- the graph of citations ------------------------------------------------------------------------------------------


def cited_by(literature):
    return Counter(cited for document in literature for cited in document.fields.get("citation", ()))


def test_citations_point_back_and_none_dangles(literature):
    for number, document in enumerate(literature):
        cited = document.fields.get("citation", ())
        assert len(set(cited)) == len(cited) <= 40
        assert all(re.fullmatch(r"p\d{6}", one) and int(one[1:]) < number for one in cited)
    later = [len(document.fields.get("citation", ())) for document in literature[500:]]
    assert 5 < np.mean(later) < 9


def test_citations_have_a_heavy_tail(literature):
    counts = np.zeros(COUNT)
    for cited, count in cited_by(literature).items():
        counts[int(cited[1:])] = count
    assert is_heavy_tailed(counts)
    assert np.mean(counts == 0) > 0.1


def test_most_citations_stay_in_the_topic(literature):
    topic = {document.id: document.fields["keyword"][0] for document in literature}
    inside = [
        topic[cited] == topic[document.id] for document in literature for cited in document.fields.get("citation", ())
    ]
    assert 0.6 < np.mean(inside) < 0.95


def is_heavy_tailed(counts):
    """The top is far above the mean, one per cent of the items has far more than its share, and no Poisson
    distribution of this mean would reach the top."""
    counts = np.sort(np.asarray(counts, dtype=float))[::-1]
    mean = counts.mean()
    top_share = counts[: max(1, len(counts) // 100)].sum() / counts.sum()
    return counts[0] > 8 * mean and top_share > 0.06 and counts[0] > mean + 12 * mean**0.5


# --- the graph of co-authors -----------------------------------------------------------------------------------------


def pairs_of(teams):
    return Counter(pair for team in teams for pair in combinations(sorted(team), 2))


def repeated(teams):
    """The share of pairs of co-authors who wrote more than one paper together."""
    pairs = pairs_of(teams)
    return sum(1 for count in pairs.values() if count > 1) / len(pairs)


def transitivity(teams):
    """How often two partners of an author are partners too."""
    partners = defaultdict(set)
    for left, right in pairs_of(teams):
        partners[left].add(right)
        partners[right].add(left)
    closed = total = 0
    for known in partners.values():
        for left, right in combinations(sorted(known), 2):
            total += 1
            closed += right in partners[left]
    return closed / total


@pytest.fixture(scope="module")
def teams(literature):
    return [document.fields["author"] for document in literature]


@pytest.fixture(scope="module")
def shuffled(teams):
    """The same authors as often, in papers of the same sizes, but thrown together by chance."""
    names = [name for team in teams for name in team]
    order = iter(np.random.default_rng(1).permutation(len(names)).tolist())
    return [sorted({names[next(order)] for _ in team}) for team in teams]


def test_authors_and_their_partners_have_heavy_tails(teams):
    assert is_heavy_tailed(list(Counter(name for team in teams for name in team).values()))
    partners = Counter(name for pair in pairs_of(teams) for name in pair)
    assert is_heavy_tailed(list(partners.values()))
    assert np.median(list(partners.values())) < np.mean(list(partners.values()))


def test_co_authors_write_together_again(teams, shuffled):
    assert repeated(teams) > 0.15
    assert repeated(teams) > 6 * repeated(shuffled)


def test_partners_of_an_author_know_each_other(teams, shuffled):
    assert transitivity(teams) > 0.2
    assert transitivity(teams) > 2 * transitivity(shuffled)


def test_communities_hold_together(literature):
    """Most authors publish mostly in one topic."""
    topics: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for document in literature:
        for name in document.fields["author"]:
            topics[name][document.fields["keyword"][0]] += 1
    busy = [counts.most_common(1)[0][1] / counts.total() for counts in topics.values() if counts.total() >= 5]
    assert np.mean(busy) > 0.75


def test_nested_queries_find_co_authors_and_citing_papers(literature):
    first = literature[:800]
    known = Knowledge(documents=first)
    busiest = Counter(name for document in first for name in document.fields["author"]).most_common(1)[0][0]
    most_cited = cited_by(first).most_common(1)[0][0]
    partners = parse(f'author:IN:(author = "{busiest}")')
    citing = parse(f'citation:IN:(id = "{most_cited}")')
    alone = parse(f'author = "{busiest}"')
    found = {query: sum(holds(query, document, known) for document in first) for query in (partners, citing, alone)}
    assert found[partners] > 1.5 * found[alone]
    assert found[citing] >= 10


# --- a stream, the same for everyone ---------------------------------------------------------------------------------


def test_the_stream_goes_on_where_a_count_stops(literature):
    assert list(islice(papers(7), 50)) == literature[:50] == list(papers(7, 50))
    assert list(papers(8, 50)) != literature[:50]


DIGEST = """
import hashlib
from tocsin.sim.scholarly import papers
print(hashlib.sha256(repr(list(papers(7, 1_000))).encode()).hexdigest())
"""


@pytest.mark.row("X3")
def test_the_same_seed_gives_the_same_papers_under_any_hash_seed():
    told = set()
    for hash_seed in ("0", "1", "42"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", DIGEST]
        told.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(told) == 1


def test_there_are_more_names_than_active_authors_can_need():
    spelled = sum(len(culture.given) * len(culture.family) for culture in CULTURES)
    assert len(TOPICS) * 4 * URN_AUTHORS < 20 * spelled  # 23 initials and none


@pytest.mark.slow
def test_a_long_stream_needs_no_more_memory():
    """Between the 150,000th and the 300,000th paper, memory does not grow: authors retire and papers fade."""
    program = """
import resource
from tocsin.sim.scholarly import papers
for number, _ in enumerate(papers(3, 300_000)):
    if number % 150_000 == 149_999:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    half, whole = map(int, told.split())
    assert whole < 1.1 * half


# --- the tour --------------------------------------------------------------------------------------------------------

TOUR = Path(__file__).resolve().parents[2] / "examples" / "tour_subscriptions.jsonl"


@pytest.mark.parametrize("line", TOUR.read_text(encoding="utf-8").splitlines(), ids=lambda line: json.loads(line)["id"])
def test_every_subscription_of_the_tour_finds_something(literature, line):
    first = literature[:500]
    query = parse_subscription(json.loads(line)["query"])
    known = Knowledge(Analysis(), Statistics.of(first, Analysis()), first)
    assert 1 <= sum(holds(query, document, known) for document in first) <= 100
