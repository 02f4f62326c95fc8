"""The experiment on the shared automaton, at a tiny scale: it runs, notes what it says, and judges only what it may."""

from __future__ import annotations

import csv
import json

import pytest

from tocsin.lab import EXPERIMENTS, xml_automaton
from tocsin.lab.result import write
from tocsin.markup import read_markup
from tocsin.match import path_reference as reference
from tocsin.match.path_guards import Selection
from tocsin.match.paths import PathIndex
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.routes import plain_path
from tocsin.sim.markup import NEWS_DTD, QueryShape, documents, queries, read_dtd

TINY = xml_automaton.Scale((100, 200, 400), 3, 60, (1, 3))


@pytest.fixture
def result(monkeypatch):
    monkeypatch.setitem(xml_automaton.SCALES, "small", TINY)
    monkeypatch.setattr(xml_automaton, "types", lambda: {"news": read_dtd(NEWS_DTD)})
    return EXPERIMENTS["xml-automaton"].run("small", 1)


def values(result, experiment, variant, metric):
    asked = (experiment, variant, metric)
    return {row.x: row.value for row in result.data if (row.experiment, row.variant, row.metric) == asked}


def test_states_are_the_distinct_prefixes_of_the_queries(result):
    news = read_dtd(NEWS_DTD)
    for variant, distinct in (("news, random", False), ("news, distinct", True)):
        texts = list(queries(news, 400, 1, QueryShape(8, distinct=distinct)))
        found = values(result, "queries", variant, "states")
        assert list(found) == [100, 200, 400]
        for count, states in found.items():
            paths = [plain_path(parse_xpath(text)) for text in texts[: int(count)]]
            assert states == len(reference.prefixes(path for path in paths if path))
        steps = values(result, "queries", variant, "steps")[400]
        assert steps == sum(len(plain_path(parse_xpath(text)) or ()) for text in texts)


def test_both_ways_with_predicates_are_timed(result):
    for selection in Selection:
        times = values(result, "predicates", str(selection), "filtering_ms")
        assert list(times) == [1, 3]
        assert all(time > 0 for time in times.values())
        assert all(values(result, "predicates", str(selection), "checks").values())


def test_what_needs_the_papers_scale_is_not_judged(result):
    judged = {claim.claim: claim.holds for claim in result.claims}
    assert len(judged) == 5
    assert judged["A million queries of the Auction DTD give 592,199 states (§6)"] is None
    assert judged["Common prefixes of paths are represented once (§2, §3)"] is True
    assert sum(holds is None for holds in judged.values()) == 4


def test_claims_are_false_where_numbers_say_so():
    notes = xml_automaton.Notes(1)
    for name in ("news, random", "Auction, random"):
        notes.add("queries", name, 1_000_000, states=2_000_000, steps=2_000_000)
    for selection, times in (("inline", (1.0, 2.0)), ("postponed", (2.0, 1.0))):
        for x, one in zip((1, 4), times, strict=True):
            notes.add("predicates", selection, x, filtering_ms=one, checks=one)
    assert [claim.holds for claim in xml_automaton.claims(notes, is_paper_scale=True)] == [False] * 5


def test_files_are_written(result, tmp_path):
    paths = write(result, tmp_path)
    assert [path.name for path in paths] == ["result.json", "data.csv", "plot.png"]
    assert len(json.loads(paths[0].read_text())["claims"]) == 5
    with paths[1].open() as file:
        assert len(list(csv.DictReader(file))) == len(result.data)
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def test_documents_for_times_are_read_once():
    """The times are of filtering alone."""
    news = read_dtd(NEWS_DTD)
    index = PathIndex()
    for number, text in enumerate(queries(news, 50, 1)):
        index.add(number, parse_xpath(text))
    found = xml_automaton.timed(index, [read_markup(text) for text in documents(news, 2, 1)])
    assert set(found) == {"first_filtering_ms", "filtering_ms"}
