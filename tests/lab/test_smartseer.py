"""SmartSeer's experiments at a tiny scale: they run, note what they say, and judge only what they may."""

from __future__ import annotations

from importlib import import_module

import pytest

from tocsin.lab import (
    EXPERIMENTS,
    smartseer_architectures,
    smartseer_join,
    smartseer_notification,
    smartseer_scaling,
    smartseer_scene,
    smartseer_selectivity,
    smartseer_skew,
    smartseer_throughput,
)
from tocsin.lab.result import write
from tocsin.match.rendezvous.conversation import QuerySide, converse
from tocsin.match.rendezvous.payload import Join
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.sim.workload import WorkloadSettings

TINY = {
    "smartseer-architectures": smartseer_architectures.Scale(200, 3, (4, 16), (1, 3)),
    "smartseer-join": smartseer_join.Scale(2_000, 2, (1, 5, 20), 3),
    "smartseer-lists": 1_000,
    "smartseer-notification": smartseer_notification.Scale(300, 1, (4, 16, 64)),
    "smartseer-scaling": smartseer_scaling.Scale((500, 1_000), 3),
    "smartseer-selectivity": smartseer_selectivity.Scale(2_000, 1, 2, (2, 8)),
    "smartseer-skew": smartseer_skew.Scale(1_000, 1, 5),
    "smartseer-throughput": smartseer_throughput.Scale(500, 2),
}


@pytest.fixture(autouse=True)
def short_documents(monkeypatch):
    """Documents of 60 words for the news and 150 for the papers, over 5,000 words."""
    news = WorkloadSettings(vocabulary_words=5_000, document_unique_words=60, document_words=90)
    papers = WorkloadSettings(vocabulary_words=5_000, document_unique_words=150, document_words=300)
    monkeypatch.setattr(smartseer_scene, "TREC", news)
    monkeypatch.setattr(smartseer_scene, "CITESEER", papers)
    monkeypatch.setattr(smartseer_scene, "TRAINING", 50)


@pytest.mark.parametrize("name", TINY)
def test_an_experiment_runs_and_writes_what_it_found(name, monkeypatch, tmp_path):
    module = import_module(f"tocsin.lab.{EXPERIMENTS[name].module}")
    monkeypatch.setitem(module.SCALES, "small", TINY[name])
    result = EXPERIMENTS[name].run("small", 1)
    assert result.claims
    assert result.data
    assert all(claim.paper and claim.ours for claim in result.claims)
    assert all(path.stat().st_size > 100 for path in write(result, tmp_path))


def test_the_joins_that_are_compared_find_the_same(monkeypatch):
    scene = smartseer_scene.news(1, 2, queries=500)
    texts = {f"q{number}": text for number, text in enumerate(scene.texts)}
    pairs = list(scene.by_word())[:20]
    for pair in pairs:
        expected = sorted(
            each.id for each in pair.queries if holds(parse(texts[each.id]), pair.side.document, Knowledge())
        )
        for join in Join:
            side = QuerySide(pair.queries, Knowledge())
            assert list(converse(pair.side, side, join, pair.words).matches) == expected


def test_lists_of_a_size_have_that_size():
    scene = smartseer_scene.news(1, 2, queries=2_000)
    assert {len(pair.queries) for pair in scene.of_size(7)} == {7}


def test_a_query_is_registered_on_its_rarest_word():
    scene = smartseer_scene.news(1, 1, queries=300)
    for word, listed in scene.lists.items():
        for _, text in listed:
            counts = {other: scene.frequency[scene.ranks[other]] for other in text.split()}
            assert counts[word] == min(counts.values())


def test_the_example_is_reported_as_one_and_as_ten_megabytes(monkeypatch):
    """S8's trap: the stated inputs multiply to 1 MB; an honest false."""
    monkeypatch.setitem(smartseer_scaling.SCALES, "small", TINY["smartseer-scaling"])
    example = smartseer_scaling.run("small", 1).claims[-1]
    assert example.holds is False
    assert "1 MB with β = 1, 10 MB with β = 10" in example.ours


def test_what_depends_on_the_size_is_not_judged_in_small(monkeypatch):
    monkeypatch.setitem(smartseer_throughput.SCALES, "small", TINY["smartseer-throughput"])
    assert [claim.holds for claim in smartseer_throughput.run("small", 1).claims][:2] == [None, None]
