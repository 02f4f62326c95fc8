"""The commands on files, as the contract says: output lines, order, exit status, messages."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.cli import main
from tocsin.match.engines import ENGINES

DOCUMENTS: list[dict[str, Any]] = [
    {"id": "d1", "title": "Information dissemination in P2P systems", "author": ["John Smith", "Bob"], "year": 2004},
    {"id": "d2", "title": "Peer networks", "author": ["Bob", "Carol"], "year": 2005},
    {"id": "d3", "title": "Grids, peers and the rest", "author": "Dan", "year": 1999},
]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(name: str, *entries: Any) -> str:
        lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[Any], str]]:
    """(exit status, output lines as objects, messages)."""

    def run(*arguments: str) -> tuple[int, list[Any], str]:
        try:
            status = main(arguments)
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        return status, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return run


def pairs(lines: list[Any]) -> list[tuple[str, str]]:
    return [(line["subscription"], line["document"]) for line in lines]


# --- match ---------------------------------------------------------------------------------------


def test_matches_come_in_document_order_then_by_subscription_id(write, run) -> None:
    documents = write("docs.jsonl", *DOCUMENTS)
    subscriptions = write(
        "subs.jsonl",
        {"id": "é", "query": "year > 2000"},
        {"id": "Z", "query": "author:Bob"},
        {"id": "a", "query": "p2p"},
    )
    status, lines, messages = run("match", "-s", subscriptions, "-d", documents)
    assert (status, messages) == (0, "")
    assert pairs(lines) == [("Z", "d1"), ("a", "d1"), ("é", "d1"), ("Z", "d2"), ("é", "d2")]
    assert all(list(line) == ["subscription", "document", "score"] and 0 <= line["score"] <= 1 for line in lines)


def test_a_nested_match_stands_at_the_document_that_caused_it(write, run) -> None:
    documents = write(
        "docs.jsonl",
        {"id": "old", "author": "Carol"},
        {"id": "joint", "author": ["Bob", "Carol"], "title": "networks"},
        {"id": "new", "title": "plain"},
    )
    subscriptions = write(
        "subs.jsonl",
        {"id": "nested", "query": "author:IN:(networks AND author:Bob)"},
        {"id": "all", "query": "NOT zzz"},
    )
    _, lines, _ = run("match", "-s", subscriptions, "-d", documents)
    assert pairs(lines) == [
        ("all", "old"),
        ("all", "joint"),
        ("nested", "old"),
        ("nested", "joint"),
        ("all", "new"),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_lines(write, run, engine: str) -> None:
    documents = write("docs.jsonl", *DOCUMENTS)
    queries = ["p2p", '"peer networks"', "year:[2000 TO 2004]", "NOT author:Bob", "title:pe*", "author = Dan OR p2p"]
    subscriptions = write("subs.jsonl", *({"id": query, "query": query} for query in queries))
    assert run("match", "-s", subscriptions, "-d", documents, "--engine", engine) == run(
        "match", "-s", subscriptions, "-d", documents, "--engine", "brute"
    )


def test_what_cannot_be_used_is_named_and_the_rest_runs(write, run) -> None:
    documents = write("docs.jsonl", *DOCUMENTS, "{broken", {"title": "no id"}, {"id": "d9", "title": "p2p", "x": True})
    subscriptions = write(
        "subs.jsonl", {"id": "bad", "query": "(p2p"}, {"id": "good", "query": "p2p"}, {"id": "good", "query": "x"}, {}
    )
    status, lines, messages = run("match", "-s", subscriptions, "-d", documents)
    assert status == 1
    assert pairs(lines) == [("good", "d1")]
    for part in ["'bad'", "^", "subs.jsonl:3", "subs.jsonl:4", "docs.jsonl:4", "docs.jsonl:5", "docs.jsonl:6"]:
        assert part in messages


def test_versions(write, run) -> None:
    """Identical again is ignored, different or lower is rejected, higher replaces."""
    subscriptions = write("subs.jsonl", {"id": "s", "query": "word"})
    same = write("a.jsonl", {"id": "a", "t": "word"}, {"t": "word", "id": "a"}, {"id": "a", "t": "word", "version": 2})
    status, lines, _ = run("match", "-s", subscriptions, "-d", same)
    assert (status, pairs(lines)) == (0, [("s", "a"), ("s", "a")])
    other = write("b.jsonl", {"id": "a", "t": "word"}, {"id": "a", "t": "other word"})
    status, lines, messages = run("match", "-s", subscriptions, "-d", other)
    assert (status, pairs(lines)) == (1, [("s", "a")])
    assert "b.jsonl:2" in messages
    lower = write("c.jsonl", {"id": "a", "t": "word", "version": 3}, {"id": "a", "t": "word", "version": 2})
    assert run("match", "-s", subscriptions, "-d", lower)[0] == 1


def test_scores_are_the_reference_cosine(write, run) -> None:
    from math import log, sqrt

    documents = write("docs.jsonl", {"id": "a", "t": "x x y"}, {"id": "b", "t": "y z"}, {"id": "c", "t": "w"})
    subscriptions = write("subs.jsonl", {"id": "s", "query": "x OR y OR missing"})
    _, lines, _ = run("match", "-s", subscriptions, "-d", documents)
    idf = {"x": log(1 + 3 / 1), "y": log(1 + 3 / 2), "z": log(1 + 3 / 1), "missing": log(1 + 3 / 1)}
    query = sqrt(idf["x"] ** 2 + idf["y"] ** 2 + idf["missing"] ** 2)
    a = {"x": (1 + log(2)) * idf["x"], "y": idf["y"]}
    b = {"y": idf["y"], "z": idf["z"]}
    expected = [
        sum(weight * idf[word] for word, weight in doc.items() if word in "xy")
        / (query * sqrt(sum(weight**2 for weight in doc.values())))
        for doc in (a, b)
    ]
    assert [line["score"] for line in lines] == pytest.approx(expected, abs=1e-9)


def test_statistics_count_all_documents_even_those_after_the_match(write, run) -> None:
    subscriptions = write("subs.jsonl", {"id": "s", "query": "x"})
    one = run("match", "-s", subscriptions, "-d", write("a.jsonl", {"id": "a", "t": "x y"}))[1][0]["score"]
    more = [{"id": f"m{number}", "t": "y"} for number in range(20)]
    two = run("match", "-s", subscriptions, "-d", write("b.jsonl", {"id": "a", "t": "x y"}, *more))[1][0]["score"]
    assert two > one


def test_output_file_is_replaced(write, run, tmp_path: Path) -> None:
    subscriptions = write("subs.jsonl", {"id": "s", "query": "p2p"})
    out = tmp_path / "out.jsonl"
    out.write_text("old\n" * 100)
    status, lines, _ = run("match", "-s", subscriptions, "-d", write("docs.jsonl", *DOCUMENTS), "-o", str(out))
    assert (status, lines) == (0, [])
    assert pairs([json.loads(line) for line in out.read_text().splitlines()]) == [("s", "d1")]


def test_explain_adds_evidence(write, run) -> None:
    subscriptions = write("subs.jsonl", {"id": "s", "query": "information NEAR/3 p2p"})
    _, lines, _ = run("match", "-s", subscriptions, "-d", write("docs.jsonl", *DOCUMENTS), "--explain")
    (atom,) = lines[0]["evidence"]["atoms"]
    assert (atom["field"], atom["positions"], atom["between"]) == ("title", [0, 3], [2])


def test_explain_tells_which_documents_put_the_values_into_the_sets(write, run) -> None:
    """Two levels: papers that cite a paper by a co-author of Bob's."""
    documents = write(
        "docs.jsonl",
        {"id": "old", "author": "Carol"},
        {"id": "survey", "refs": ["other", "old"]},
        {"id": "joint", "author": ["Bob", "Carol"], "title": "networks"},
    )
    subscriptions = write(
        "subs.jsonl",
        {"id": "citing", "query": "refs:IN:id(author:IN:(networks AND author:Bob))"},
        {"id": "plain", "query": "networks"},
    )
    _, lines, _ = run("match", "-s", subscriptions, "-d", documents, "--explain")
    assert pairs(lines) == [("citing", "survey"), ("plain", "joint")]
    because = [{"field": "author", "value": "carol", "document": "joint"}]
    assert lines[0]["evidence"]["nested"] == [{"field": "refs", "value": "old", "document": "old", "because": because}]
    assert "nested" not in lines[1]["evidence"]


def test_a_value_whose_document_was_replaced_comes_from_another(write, run) -> None:
    """What put the value into the set at the time of the match is told, not what did so first."""
    documents = write(
        "docs.jsonl",
        {"id": "first", "author": ["Bob", "Carol"], "title": "networks"},
        {"id": "second", "author": ["Bob", "Carol"], "title": "networks"},
        {"id": "first", "version": 2, "author": "Dan"},
        {"id": "late", "author": "Carol"},
    )
    subscriptions = write("subs.jsonl", {"id": "s", "query": "author:IN:(networks AND author:Bob) AND NOT author:Bob"})
    _, lines, _ = run("match", "-s", subscriptions, "-d", documents, "--explain")
    assert pairs(lines) == [("s", "late")]
    assert lines[0]["evidence"]["nested"] == [{"field": "author", "value": "carol", "document": "second"}]


def test_analysis_per_field(write, run) -> None:
    documents = write("docs.jsonl", {"id": "a", "title": "Running networks", "note": "network"})
    subscriptions = write("subs.jsonl", {"id": "s", "query": "title:network"}, {"id": "t", "query": "title:run"})
    assert run("match", "-s", subscriptions, "-d", documents)[1] == []
    found = run("match", "-s", subscriptions, "-d", documents, "--analysis", "title=english", "note=keyword")[1]
    assert pairs(found) == [("s", "a"), ("t", "a")]


def test_usage_errors_exit_with_2(write, run) -> None:
    documents, subscriptions = write("docs.jsonl", *DOCUMENTS), write("subs.jsonl", {"id": "s", "query": "p2p"})
    assert run("match", "-s", subscriptions)[0] == 2
    assert run("match", "-s", subscriptions, "-d", "absent.jsonl")[0] == 2
    assert run("match", "-s", "absent.jsonl", "-d", documents)[0] == 2
    assert run("match", "-s", subscriptions, "-d", documents, "--engine", "steam")[0] == 2
    assert run("match", "-s", subscriptions, "-d", documents, "--analysis", "title=german")[0] == 2
    assert run("search", "-d", documents)[0] == 2
    assert run("search", "-d", documents, "p2p", "-k", "0")[0] == 2


XML = "<news lang='en'><item><title>Peers</title><price>12</price></item><item><title>Grids</title></item></news>"


@pytest.mark.parametrize("engine", ENGINES)
def test_paths_alone_and_beside_words(write, run, engine: str) -> None:
    documents = write(
        "docs.jsonl",
        {"id": "x1", "title": "about peers", "xml": XML},
        {"id": "x2", "title": "about peers", "xml": "<news><item/></news>"},
        {"id": "x3", "title": "about peers"},
    )
    subscriptions = write(
        "subs.jsonl",
        {"id": "path", "xpath": "/news/item[price > 10]/title"},
        {"id": "both", "query": "peers", "xpath": "//item"},
        {"id": "neither", "query": "grids", "xpath": "//item"},
        {"id": "bad", "xpath": "//item/following::x"},
        {"id": "any", "xpath": "//*[@lang = 'en']"},
    )
    status, lines, messages = run("match", "-s", subscriptions, "-d", documents, "--engine", engine, "--explain")
    assert status == 1
    assert "following" in messages
    assert pairs(lines) == [("any", "x1"), ("both", "x1"), ("path", "x1"), ("both", "x2")]
    assert [line["score"] for line in lines if line["subscription"] == "path"] == [1.0]
    assert lines[2]["evidence"]["xpath"] == {"path": "/news/item[1]/title", "text": "Peers"}


def test_xml_that_is_refused_rejects_its_document_only(write, run) -> None:
    bomb = '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'
    documents = write("docs.jsonl", {"id": "a", "t": "word", "xml": bomb}, {"id": "b", "t": "word", "xml": "<a/>"})
    subscriptions = write("subs.jsonl", {"id": "s", "query": "word"}, {"id": "p", "xpath": "/a"})
    status, lines, messages = run("match", "-s", subscriptions, "-d", documents)
    assert (status, pairs(lines)) == (1, [("p", "b"), ("s", "b")])
    assert "docs.jsonl:1" in messages


# --- search --------------------------------------------------------------------------------------


def test_search_is_best_first_and_complete_unless_cut(write, run) -> None:
    documents = write("docs.jsonl", *DOCUMENTS, {"id": "d0", "title": "peer"})
    status, lines, _ = run("search", "-d", documents, "peer OR peers OR p2p")
    assert status == 0
    assert lines[0]["document"] == "d0"
    assert {line["document"] for line in lines} == {"d0", "d1", "d2", "d3"}
    assert [line["score"] for line in lines] == sorted((line["score"] for line in lines), reverse=True)
    assert run("search", "-d", documents, "peer OR peers OR p2p", "-k", "2")[1] == lines[:2]


def test_search_answers_from_the_documents_as_they_stand(write, run) -> None:
    documents = write("docs.jsonl", {"id": "a", "t": "word"}, {"id": "a", "t": "gone", "version": 2})
    assert run("search", "-d", documents, "word")[1] == []


def test_nested_search_looks_at_all_documents(write, run) -> None:
    documents = write("docs.jsonl", {"id": "x", "author": "Carol"}, *DOCUMENTS)
    _, lines, _ = run("search", "-d", documents, "author:IN:(networks AND author:Bob)")
    assert {line["document"] for line in lines} == {"x", "d1", "d2"}
    _, lines, _ = run("search", "-d", documents, "NOT author:IN:(networks AND author:Bob)")
    assert {line["document"] for line in lines} == {"d3"}


def test_a_query_may_follow_two_dashes(write, run) -> None:
    documents = write("docs.jsonl", *DOCUMENTS)
    assert [line["document"] for line in run("search", "-d", documents, "--", "-author:Bob")[1]] == ["d3"]


def test_an_invalid_query_is_named_and_exits_with_1(write, run) -> None:
    status, lines, messages = run("search", "-d", write("docs.jsonl", *DOCUMENTS), "(p2p")
    assert (status, lines) == (1, [])
    assert messages.splitlines()[-1].strip() == "^"


# --- explain -------------------------------------------------------------------------------------


def test_explain_tells_clauses_registration_and_cost(write, run) -> None:
    _, (about,), _ = run("explain", "--json", "title:peer AND (a OR b)")
    assert about["clauses"] == ["title:peer AND a", "title:peer AND b AND NOT a"]
    assert about["registered"] == ["title:peer"]
    assert about["cost"] == 3
    _, (about,), _ = run("explain", "--json", "NOT a AND year > 5")
    assert about["registered"] is None
    assert "every document" in about["note"]


def test_explain_with_documents_tells_why_or_what_fails(write, run) -> None:
    documents = write("docs.jsonl", *DOCUMENTS)
    _, (_, d1, d2, d3), _ = run("explain", "--json", "-d", documents, "author:bob AND (peer OR information NEAR/3 p2p)")
    assert [each["matches"] for each in (d1, d2, d3)] == [True, True, False]
    assert d1["clause"].endswith("NOT peer")
    assert d2["atoms"][1]["positions"] == [0]
    assert d3["failing"] == ["author:bob", "peer"]


def test_explain_registers_on_the_rarest_word_of_the_documents(write, run) -> None:
    documents = write("docs.jsonl", *({"id": f"{n}", "t": "common" + (" rare" if n == 3 else "")} for n in range(9)))
    _, (about, *_), _ = run("explain", "--json", "-d", documents, "common AND rare")
    assert about["registered"] == ["rare"]


def test_explain_tells_the_queries_inside_a_nested_one_and_what_they_cost(write, run) -> None:
    query = "refs:IN:id(author:IN:(networks AND author:Bob))"
    _, (about,), _ = run("explain", "--json", query)
    (citing,) = about["nested"]
    (authors,) = citing["nested"]
    assert (citing["field"], citing["source"]) == ("refs", "id")
    assert (authors["field"], authors["source"], authors["query"]) == ("author", "author", "networks AND author:Bob")
    assert authors["registered"] == ["networks"]
    assert about["cost"] > citing["cost"] > authors["cost"] == 2
    assert "values" not in citing  # nobody was asked
    documents = write(
        "docs.jsonl",
        {"id": "old", "author": "Carol"},
        {"id": "survey", "refs": ["other", "old"]},
        {"id": "joint", "author": ["Bob", "Carol", "Dan"], "title": "networks"},
        {"id": "another", "author": "Bob"},
    )
    _, (about, old, survey, *_), _ = run("explain", "--json", "-d", documents, query)
    (citing,) = about["nested"]
    assert (citing["values"], citing["nested"][0]["values"]) == (3, 3)  # old, joint, another; Bob, Carol, Dan
    assert citing["nested"][0]["registered"] == ["networks"]  # in one document; Bob is in two
    assert (old["matches"], survey["matches"]) == (False, True)
    because = [{"field": "author", "value": "carol", "document": "joint"}]
    assert survey["nested"] == [{"field": "refs", "value": "old", "document": "old", "because": because}]


def test_explain_as_text_shows_what_is_nested(write, capsys: pytest.CaptureFixture[str]) -> None:
    documents = write("docs.jsonl", {"id": "old", "author": "Carol"}, *DOCUMENTS)
    assert main(["explain", "-d", documents, "author:IN:(networks AND author:Bob)"]) == 0
    text = capsys.readouterr().out
    assert "nested      author is one of the values of author (2 values) where" in text
    assert "  query       networks AND author:Bob" in text
    assert "  nested          author carol is in the set by d2" in text


def test_explain_as_text_is_for_people(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-d", write("docs.jsonl", *DOCUMENTS), "author:bob peer"]) == 0
    text = capsys.readouterr().out
    assert "registered  on" in text
    assert "d2  matches, score" in text
    assert "d3  does not match" in text


# --- as a process --------------------------------------------------------------------------------


def test_a_pipe_gets_data_only_and_no_noise(write, tmp_path: Path) -> None:
    subscriptions = write("subs.jsonl", {"id": "s", "query": "p2p"})
    packed = gzip.compress("".join(json.dumps(document) + "\n" for document in DOCUMENTS).encode())
    command = [sys.executable, "-m", "tocsin", "match", "-s", subscriptions, "-d", "-"]
    done = subprocess.run(command, input=packed, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["document"] == "d1"


def test_a_reader_that_stops_early_is_no_error(write) -> None:
    documents = write("docs.jsonl", *({"id": f"{number}", "t": "x" * 200} for number in range(3000)))
    subscriptions = write("subs.jsonl", {"id": "s" * 200, "query": "NOT y"})
    shell = f"{sys.executable} -m tocsin match -s {subscriptions} -d {documents} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_output_that_cannot_be_written_is_told_in_a_line(write) -> None:
    documents, subscriptions = write("docs.jsonl", *DOCUMENTS), write("subs.jsonl", {"id": "s", "query": "p2p"})
    command = [sys.executable, "-m", "tocsin", "match", "-s", subscriptions, "-d", documents]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b"tocsin match: standard output cannot be written: No space left on device\n"


def test_a_node_refuses_an_analysis_that_is_none(tmp_path: Path, capsys) -> None:
    assert main(["node", "run", "--data", str(tmp_path / "node"), "--analysis", "title=french"]) == 2
    assert "french" in capsys.readouterr().err
    assert not (tmp_path / "node").exists()


def test_every_command_has_help() -> None:
    for command in ["match", "search", "explain", "tour"]:
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0


# --- lab -----------------------------------------------------------------------------------------


def test_an_experiment_that_measures_times_says_that_it_runs_without_spark(run) -> None:
    status, _, messages = run("lab", "run", "p2p-diet", "--spark")
    assert status == 2
    assert "p2p-diet runs without --spark: it measures times, or has one configuration" in messages
