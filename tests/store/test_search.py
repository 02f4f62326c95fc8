"""One-time queries over a store: always the oracle's answer, whatever of the log the index has seen."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import tantivy
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Analysis, Document, Knowledge, Statistics, holds, parse, score
from tocsin.cli import main
from tocsin.errors import QueryError, SettingError
from tocsin.intake import document_to_json
from tocsin.match import posting_kernels, posting_reference, similarity_kernels, similarity_reference
from tocsin.match.ids import Ids
from tocsin.query import Query
from tocsin.query.ast import And, Equals, Words
from tocsin.query.score import word_counts
from tocsin.sim.workload import random_documents, random_query
from tocsin.store import Store, documents
from tocsin.store.search import Library
from tocsin.store.search.phrases import may_hold, patterns_of
from tocsin.store.search.plain import plain_words
from tocsin.store.search.tokens import token, tokens_of
from tocsin.store.search.vectors import ROOM

MIXED = Analysis({"title": "english", "author": "keyword"})


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path)
    yield opened
    opened.close()


def expected(
    query: Query, current: list[Document], analysis: Analysis, statistics: Statistics
) -> list[tuple[str, float]]:
    """The oracle's answer, best first."""
    knowledge = Knowledge(analysis, statistics, current)
    found = [one for one in current if holds(query, one, knowledge)]
    scored = [(one.id, score(query, one, analysis, statistics)) for one in found]
    return sorted(scored, key=lambda one: (-one[1], one[0]))


def answer(
    library: Library, store: Store, query: Query | str, statistics: Statistics, page: int = 7
) -> list[tuple[str, float]]:
    """All pages together; every page says the same total."""
    found: list[tuple[str, float]] = []
    cursor, totals = None, set()
    while True:
        got = library.search(store, query, statistics, k=page, after=cursor)
        found += [(hit.id, hit.score) for hit in got.hits]
        totals.add(got.total)
        if got.next is None:
            break
        assert len(got.hits) == page
        cursor = got.next
    assert totals == {len(found)}
    assert library.count(store, parse(query) if isinstance(query, str) else query, statistics) == len(found)
    return found


def check(seed: int, folder: Path, queries: int) -> int:
    """A collection of which the index has seen a part, with versions and deletions; returns how much was found."""
    rng = np.random.default_rng([seed, 3])
    analysis = MIXED if seed % 2 else Analysis()
    every = random_documents(rng, 60)
    again = [Document(one.id, other.fields, version=2) for one, other in zip(every[:8], every[30:], strict=False)]
    parts = np.array_split(np.arange(60), 3)
    store, library = Store(folder / str(seed)), Library(folder / f"{seed}-search", analysis, writable=True)
    current: dict[str, Document] = {}
    for step, part in enumerate(parts):
        batch = [every[at] for at in part] + (again if step == 1 else [])
        documents.accept(store, batch)
        current |= {one.id: one for one in batch}
        if step < 2:
            library.update(store, chunk=int(rng.integers(1, 20)))
    for id in ("d3", "d20", "d55"):  # in the index as another version, in the index, and not yet
        documents.delete(store, id)
        del current[id]
    left = list(current.values())
    statistics = Statistics.of(left, analysis)
    found = 0
    reader = Library(folder / f"{seed}-search", analysis)
    for number in range(queries):
        query = random_query(rng, number % 4)
        wanted = expected(query, left, analysis, statistics)
        assert answer(library if number % 2 else reader, store, query, statistics) == wanted, query
        found += len(wanted)
    store.close()
    return found


@pytest.mark.row("S1")
@pytest.mark.parametrize("seed", range(4))
def test_every_form_of_the_language_is_answered_as_the_oracle_does(seed, tmp_path):
    assert check(seed, tmp_path, 60) > 100


@pytest.mark.slow
def test_ten_thousand_random_queries_are_answered_as_the_oracle_does(tmp_path):
    assert sum(check(100 + seed, tmp_path, 500) for seed in range(20)) > 10_000


NESTED = [
    "author:IN:(x)",
    "author:IN:(author:IN:(x)) AND NOT z",
    "citation:IN:(author = ann)",
    "NOT author:IN:(x OR y)",
    "id:IN:citation(citation:IN:(x))",
]


@pytest.mark.row("S15")
def test_nested_one_time_queries_of_any_depth(store, tmp_path):
    """SmartSeer §VI-B.1: subquery first, its values as one disjunction."""
    rng = np.random.default_rng(4)
    pick = lambda words, most: tuple(rng.choice(words.split(), rng.integers(0, most + 1)).tolist())  # noqa: E731
    papers = [
        Document(
            f"p{number}",
            {"author": pick("Ann Bob Cid Dan Eve", 2), "title": (" ".join(pick("x y z u v w", 3)),)}
            | ({"citation": (f"p{rng.integers(number)}",)} if number else {}),
        )
        for number in range(50)
    ]
    papers = [Document(one.id, {name: values for name, values in one.fields.items() if values}) for one in papers]
    documents.accept(store, papers)
    library = Library(tmp_path / "search", Analysis(), writable=True)
    statistics = Statistics.of(papers, Analysis())
    for update in (False, True):
        if update:
            library.update(store)
        for text in NESTED:
            wanted = expected(parse(text), papers, Analysis(), statistics)
            assert answer(library, store, parse(text), statistics) == wanted
            assert wanted


class Crash(Exception):
    """Power is gone before the commit."""


class Dying:
    """A writer that does not live to commit."""

    def __init__(self, writer: tantivy.IndexWriter) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)

    def commit(self) -> None:
        raise Crash


def test_updating_is_idempotent_and_survives_a_crash_before_the_commit(store, tmp_path):
    every = random_documents(np.random.default_rng(1), 30)
    documents.accept(store, every[:20])
    library = Library(tmp_path / "search", Analysis(), writable=True)
    assert library.update(store) == 20
    assert library.update(store) == 0
    documents.accept(store, every[20:])

    writer = library._open_writer()
    library._writer = Dying(writer)  # type: ignore[assignment]
    with pytest.raises(Crash):
        library.update(store)
    writer.rollback()
    library._writer = None
    del writer
    library.close()
    statistics = Statistics.of(every, Analysis())
    query = parse("NOT zzz")
    reader = Library(tmp_path / "search", Analysis())
    assert reader.last == 20
    assert answer(reader, store, query, statistics) == expected(query, every, Analysis(), statistics)
    again = Library(tmp_path / "search", Analysis(), writable=True)
    assert again.last == 20
    assert again.update(store) == 10
    assert answer(again, store, query, statistics) == expected(query, every, Analysis(), statistics)
    assert answer(reader, store, query, statistics) == expected(query, every, Analysis(), statistics)


def test_many_updates_leave_few_files(store, tmp_path):
    every = random_documents(np.random.default_rng(2), 120)
    library = Library(tmp_path / "search", Analysis(), writable=True)
    for first in range(0, 120, 6):
        documents.accept(store, every[first : first + 6])
        library.update(store)
    assert len(list((tmp_path / "search").glob("vectors-*"))) < 12
    statistics = Statistics.of(every, Analysis())
    found = library.statistics(store)
    assert (found.documents, dict(found.frequency), found.version) == (120, dict(statistics.frequency), 120)
    query = parse("peer OR network OR a")
    assert answer(library, store, query, statistics, 50) == expected(query, every, Analysis(), statistics)


def test_what_was_deleted_leaves_the_index(store, tmp_path):
    every = [Document(f"d{number}", {"title": ("peer",)}) for number in range(10)]
    documents.accept(store, every)
    library = Library(tmp_path / "search", Analysis(), writable=True)
    library.update(store)
    documents.delete(store, "d3")
    documents.delete(store, "d4")
    library.delete(["d3"])
    assert library.recheck(store) == 1
    assert library.recheck(store) == 0
    assert library.statistics(store).documents == 8


def test_an_index_of_another_analysis_is_not_used_and_built_anew(store, tmp_path):
    documents.accept(store, [Document("d", {"title": ("the networks",)})])
    library = Library(tmp_path / "search", Analysis(), writable=True)
    library.update(store)
    library.close()
    english = Analysis({"title": "english"})
    query = parse("title:network", english)
    reader = Library(tmp_path / "search", english)
    assert reader.last == 0
    assert [hit.id for hit in reader.search(store, query, Statistics()).hits] == ["d"]
    library = Library(tmp_path / "search", english, writable=True)
    assert (library.last, library.update(store), library.last) == (0, 1, 1)
    assert [hit.id for hit in reader.search(store, query, Statistics()).hits] == ["d"]


def conjunctions(rng: np.random.Generator, every: list[Document], count: int) -> list[str]:
    """Words of one document, mostly; some occur nowhere together, or not at all."""
    held = [sorted(word_counts(one, Analysis())) for one in every]
    found = []
    for number in range(count):
        words = held[rng.integers(len(held))] or ["peer"]
        chosen = rng.choice(words, min(len(words), int(rng.integers(1, 5)))).tolist()  # a word may come twice
        if number % 5 == 0:
            chosen += rng.choice(held[rng.integers(len(held))] or ["nowhere"], 1).tolist()
        found.append(" ".join(chosen))
    return found


def check_conjunctions(store: Store, folder: Path, every: list[Document], seed: int, count: int) -> int:
    """The library and the oracle agree as documents come, change and go; returns how many took the short way."""
    rng = np.random.default_rng(seed)
    library = Library(folder, Analysis(), writable=True)
    current: dict[str, Document] = {}
    short = 0
    for step, part in enumerate(np.array_split(np.arange(len(every)), 12)):
        batch = [every[at] for at in part]
        old = rng.choice(list(current), min(4, len(current)), replace=False).tolist() if current else []
        batch += [Document(id, every[part[0]].fields, version=current[id].version + 1) for id in old[:2]]
        documents.accept(store, batch)
        current |= {one.id: one for one in batch}
        if step != 7:  # once the index is behind
            library.update(store)
        for id in old[2:]:
            documents.delete(store, id)
            del current[id]
        left = list(current.values())
        statistics = Statistics.of(left, Analysis())
        if step % 2:
            library.prepare(statistics)
        for text in conjunctions(rng, left, count):
            wanted = expected(parse(text), left, Analysis(), statistics)
            assert answer(library, store, text, statistics) == wanted, text
            assert answer(library, store, parse(text), statistics, 1_000) == wanted, text
            short += library._at_once(store, text.split(), statistics, 10, None) is not None
    return short


def test_conjunctions_go_the_short_way_and_are_answered_as_the_oracle_does(store, tmp_path):
    every = random_documents(np.random.default_rng(11), 120)
    asked = 12 * 12
    assert check_conjunctions(store, tmp_path / "search", every, 12, 12) == asked - 12  # all but those behind


@pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=pytest.mark.slow)])
def test_conjunctions_over_real_papers_are_answered_as_the_oracle_does(store, tmp_path, data_dir, count):
    with gzip.open(data_dir / "scholarly" / "elife_papers.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, count)]
    texts = [{"title": (row["title"],), "abstract": (row["abstract"] or "",)} for row in rows]
    every = [Document(row["id"], one) for row, one in zip(rows, texts, strict=True)]
    check_conjunctions(store, tmp_path / "search", every, 13, 10)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("peer network", ["peer", "network"]),
        ("peer", ["peer"]),
        ("peer  network", None),
        ("Peer", None),
        ("peer AND network", None),
        ("title:peer", None),
        ("p*", None),
        ("", None),
        ("a" * 1_001, None),
        (parse("Peer AND 2004"), ["peer", "2004"]),
        (parse("peer OR network"), None),
        (parse('"peer network"'), None),
        (parse("title:peer network"), None),
        (parse("peer NOT network"), None),
    ],
)
def test_only_plain_conjunctions_go_the_short_way(query, words):
    assert plain_words(query) == words
    if isinstance(query, str) and words:
        assert plain_words(parse(query)) == words


def test_a_refused_text_is_refused_and_other_texts_are_parsed(store, tmp_path):
    documents.accept(store, [Document("d", {"title": ("Peer networks",)})])
    library = Library(tmp_path / "search", Analysis(), writable=True)
    library.update(store)
    with pytest.raises(QueryError):
        library.search(store, "peer AND", Statistics())
    for text in ("peer networks", "Peer", '"peer networks"', "title:peer NOT x"):
        assert [hit.id for hit in library.search(store, text, Statistics()).hits] == ["d"]


def test_many_matches_are_counted_by_the_search_library(store, tmp_path):
    every = [Document(f"d{number}", {"title": ("peer network",)}) for number in range(ROOM + 5)]
    documents.accept(store, every)
    library = Library(tmp_path / "search", Analysis(), writable=True)
    library.update(store)
    assert library._at_once(store, ["peer", "network"], Statistics(), 10, None) is None
    assert library.search(store, "peer network", Statistics(), 3).total == ROOM + 5


def test_a_failed_commit_in_the_same_process_repeats_nothing(store, tmp_path):
    every = [Document(f"d{number}", {"title": ("peer",)}) for number in range(6)]
    documents.accept(store, every)
    library = Library(tmp_path / "search", Analysis(), writable=True)
    writer = library._open_writer()
    library._writer = Dying(writer)  # type: ignore[assignment]
    with pytest.raises(Crash):
        library.update(store)
    writer.rollback()
    library._writer = writer
    assert library.update(store) == 6
    statistics = Statistics.of(every, Analysis())
    assert answer(library, store, "peer", statistics) == expected(parse("peer"), every, Analysis(), statistics)


def test_the_kernels_of_postings_equal_their_twins_to_the_last_bit():
    rng = np.random.default_rng(7)
    for most in (4, 30):
        files, names = [], [f"w{number:02}" for number in range(30)]
        documents_at: dict[int, list[tuple[int, int]]] = {}
        for file in range(3):
            bags = [np.sort(rng.choice(30, rng.integers(0, most), replace=False)) for _ in range(20)]
            starts = np.concatenate([[0], np.cumsum([bag.size for bag in bags])])
            words = np.concatenate(bags).astype(np.uint32)
            counts = rng.integers(1, 9, words.size).astype(np.uint16)
            first, posting = np.zeros(31, np.int64), np.zeros(words.size, np.uint32)
            posting_kernels.invert(starts, words, first, posting)
            inverted = posting_reference.invert([bag.tolist() for bag in bags], 30)
            assert [posting[a:b].tolist() for a, b in pairwise(first)] == inverted
            terms = np.empty(0, np.uint32)
            if file == 1:  # a file that holds few words
                terms = np.flatnonzero(np.diff(first)).astype(np.uint32)
                first = np.append(first[terms], words.size)
            positions = np.arange(100 * file, 100 * file + 20)
            files.append((positions, terms, first, posting, starts, words, counts))
            pairs = [list(zip(words[a:b].tolist(), counts[a:b].tolist(), strict=True)) for a, b in pairwise(starts)]
            documents_at |= dict(zip(positions.tolist(), pairs, strict=True))
        ids = Ids()
        ids.append(names)
        rarity, tf = rng.random(30) * 9, np.array([0.0, *(1 + np.log(np.arange(1, 9)))])
        listed = similarity_kernels.listed(files)
        where, scores, found = np.zeros(60, np.int64), np.zeros(60), 0
        for _ in range(200):
            asked = sorted(set(rng.integers(0, 30, rng.integers(1, 4)).tolist()))
            text = np.frombuffer(" ".join(names[word] for word in asked).encode(), np.uint8)
            arrays = ids.arrays()
            count = posting_kernels.find_all(
                text, arrays["blob"], arrays["ends"], arrays["slots"], listed, tf, rarity, where, scores
            )
            wanted = posting_reference.find_all(asked, documents_at, tf.tolist(), rarity.tolist())
            assert list(zip(where[:count].tolist(), scores[:count].tolist(), strict=True)) == wanted
            found += count
        assert found > 100
        text = np.frombuffer(b"w01 zz", np.uint8)
        assert not posting_kernels.find_all(
            text, arrays["blob"], arrays["ends"], arrays["slots"], listed, tf, rarity, where, scores
        )


@given(st.lists(st.integers(0, 40)), st.data())
def test_leaping_ahead_is_searching(values, data):
    posting = np.array(sorted(values), np.uint32)
    at = data.draw(st.integers(0, len(values)))
    for wanted in range(42):
        assert posting_kernels.leap(posting, at, posting.size, wanted) == posting_reference.leap(
            posting.tolist(), at, posting.size, wanted
        )


def test_a_reader_cannot_write_and_a_strange_cursor_is_refused(store, tmp_path):
    reader = Library(tmp_path / "search", Analysis())
    documents.accept(store, [Document("d", {"title": ("peer",)})])
    with pytest.raises(SettingError, match="opened for reading"):
        reader.update(store)
    with pytest.raises(SettingError, match="no cursor"):
        reader.search(store, parse("peer"), Statistics(), after="!?")


def test_tokens_hold_no_white_space_and_tell_everything_apart():
    strange = [
        "a b",
        "a%20;b",
        "a\u00a0b",
        "a\nb",
        "a\x1fb",
        "a\x85b",
        "x" * 300,
        "x" * 301,
        "x" * 100 + "y" * 200,
        "%",
    ]
    found = [token("f", "k", word) for word in strange]
    assert len(set(found)) == len(strange)
    assert not any(c.isspace() for one in found for c in one if c not in "\x1e\x1f")  # Rust's white space has neither
    document = Document("i d", {"k": tuple(strange), "n": (1, 1.0, -0.0)}, source="s s", time="2024-01-01")
    assert all(len(one.encode()) < 1_000 for one in tokens_of(document, Knowledge(Analysis({"k": "keyword"}))))


def test_strange_words_are_found(store, tmp_path):
    analysis = Analysis({"k": "keyword"})
    strange = ["a b", "a%20;b", "a\u00a0b", "a\x85b", "x" * 300, "x" * 301, "x" * 100 + "y" * 200, "%", "a"]
    every = [Document(f"d{number}", {"k": (word,)}) for number, word in enumerate(strange)]
    documents.accept(store, every)
    library = Library(tmp_path / "search", analysis, writable=True)
    library.update(store)
    statistics = Statistics.of(every, analysis)
    for text in [
        'k:"a b"',
        'k:"a%20;b"',
        "k = %",
        f"k:{'x' * 300}",
        f"k:{'x' * 150}*",
        f"k:{'x' * 50}*",
        "k:xx*",
        'k:IN:(k:"a b")',
    ]:
        query = parse(text, analysis)
        assert answer(library, store, query, statistics) == expected(query, every, analysis, statistics), text


def test_the_kernels_of_scores_equal_their_twins_to_the_last_bit():
    rng = np.random.default_rng(5)
    rarity = rng.random(40) * 9
    tf = np.array([0.0, *(1 + np.log(np.arange(1, 9)))])
    sizes = rng.integers(0, 20, 30)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    words = np.concatenate([rng.choice(40, size, replace=False) for size in sizes]).astype(np.uint32)
    counts = rng.integers(1, 9, words.size).astype(np.uint16)
    asked = np.where(rng.random(40) < 0.2, rng.random(40), 0.0)
    out = np.zeros(30)
    similarity_kernels.cosines(starts[:-1], starts[1:], words, counts, tf, rarity, asked, 1.7, out)
    each = [list(zip(words[a:b].tolist(), counts[a:b].tolist(), strict=True)) for a, b in pairwise(starts)]
    weights = {word: weight for word, weight in enumerate(asked.tolist()) if weight}
    assert out.tolist() == similarity_reference.cosines(each, tf.tolist(), rarity.tolist(), weights, 1.7)
    rarity[rng.random(40) < 0.4] = np.nan
    bags = [[word for word, _ in one] for one in each]
    wanted = similarity_reference.unweighed(bags, rarity.tolist())
    found = np.zeros(words.size, np.uint32)
    count = similarity_kernels.unweighed(starts[:-1], starts[1:], words, rarity, found)
    assert found[:count].tolist() == wanted
    assert not np.isnan(rarity[found[:count]]).any()
    held = np.zeros(40, np.int64)
    similarity_kernels.count_words(starts[:-1], starts[1:], words, held)
    assert {word: int(held[word]) for word in np.flatnonzero(held)} == similarity_reference.count_words(bags)


def test_the_command_searches_a_site_as_it_searches_files(store, tmp_path, capsys):
    every = random_documents(np.random.default_rng(8), 40)
    documents.accept(store, every)
    files = tmp_path / "documents.jsonl"
    files.write_text("".join(document_to_json(one) + "\n" for one in every), encoding="utf-8")
    for text in (
        "a OR peer OR network",
        "author:*",
        "NOT a",
        'title ~ "peer network a" >= 0.1',
        "author:IN:(a OR peer)",
    ):
        printed = []
        for where in (["-d", str(files)], ["--data", str(tmp_path)]):
            assert main(["search", *where, "-k", "9", "--", text]) == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]
        if text == "NOT a":
            library = Library(tmp_path / "search", Analysis(), writable=True)
            library.update(store)
            library.close()
    assert main(["search", "peer"]) == 2
    assert "-d DOCS or --data DIR" in capsys.readouterr().err


def test_a_field_after_in_that_no_document_has_is_a_warning_with_a_suggestion(store, tmp_path, capsys):
    every = [Document("a", {"author": ("Ann",)}), Document("b", {"author": ("Ann",), "title": ("x",)})]
    documents.accept(store, every)
    files = tmp_path / "documents.jsonl"
    files.write_text("".join(document_to_json(one) + "\n" for one in every), encoding="utf-8")
    library = Library(tmp_path / "search", Analysis(), writable=True)
    for indexed in (False, True):
        if indexed:
            library.update(store)
        assert library.fields(store) == {"author", "title", "id", "source", "time"}
        for where in (["-d", str(files)], ["--data", str(tmp_path)]):
            assert main(["search", *where, "autor:IN:(x)"]) == 0
            told = capsys.readouterr()
            assert told.out == ""
            assert "no document has the field 'autor'" in told.err
            assert "did you mean 'author'?" in told.err
            assert main(["search", *where, "author:IN:(x)"]) == 0
            assert capsys.readouterr().err == ""


def test_threads_may_ask_while_the_index_is_updated(store, tmp_path):
    every = random_documents(np.random.default_rng(6), 120)
    documents.accept(store, every)
    library = Library(tmp_path / "search", Analysis(), writable=True)
    statistics = Statistics.of(every, Analysis())
    queries = [parse(text) for text in ("peer OR network OR a", "author:IN:(a)", "NOT a")]
    wanted = [expected(query, every, Analysis(), statistics) for query in queries]
    with ThreadPoolExecutor(3) as threads:
        updating = threads.submit(library.update, store, 10)
        asked = 0
        while not updating.done() or asked < 6:
            found = threads.map(lambda query: library.search(store, query, statistics, None).hits, queries)
            for hits, answer_wanted in zip(found, wanted, strict=True):
                assert [(hit.id, hit.score) for hit in hits] == answer_wanted
            asked += 1
        assert updating.result() == 120
    assert library.last == 120


# --- phrases ---------------------------------------------------------------------------------------------------------

ODD = (
    "ﬁrst",
    "ßee",
    "naïve",
    "café",
    "İs",
    "Ω",
    "x_y",
    "a-b",
    "e\u0301t",
    "№5",
    "ǅ",
    "peer",
    "grid",
    "tab\tbed",
    'q"uote',
)


@pytest.mark.parametrize("seed", range(3))
def test_phrases_are_found_in_any_script_and_across_no_value(seed, store, tmp_path):
    """What is ruled out by a look at the stored JSON would not have matched, whatever the characters are."""
    rng = np.random.default_rng(seed)
    pick = lambda: " ".join(rng.choice(ODD, rng.integers(1, 5)).tolist())  # noqa: E731
    papers = [
        Document(f"d{number}", {"t": tuple(pick() for _ in range(3)), "peer.grid": (pick(),)}) for number in range(60)
    ]
    documents.accept(store, papers)
    for analysis in (Analysis(), Analysis({"t": "english"})):
        library = Library(tmp_path / f"search-{len(analysis.fields)}", analysis, writable=True)
        library.update(store)
        statistics = Statistics.of(papers, analysis)
        found = 0
        for _ in range(40):
            text = " ".join(rng.choice([one for one in ODD if '"' not in one], 2).tolist())
            forms = (Words(None, text, True), Words("t", text, True), Equals("t", text, True))
            query: Query = forms[int(rng.integers(3))]
            if rng.random() < 0.3:
                query = And((query, Words(None, "peer")))
            wanted = expected(query, papers, analysis, statistics)
            assert answer(library, store, query, statistics) == wanted, query
            found += len(wanted)
        assert found > 5
        library.close()


def test_a_look_at_the_json_rules_out_what_stands_apart_and_no_more():
    (pattern,) = patterns_of(parse('"information dissemination" AND grid'), Analysis())
    assert may_hold('{"id":"a","t":"Information — Dissemination"}', (pattern,))
    assert not may_hold('{"id":"a","t":"information about dissemination"}', (pattern,))
    assert may_hold('{"id":"a","t":"information\\nabout dissemination"}', (pattern,))  # escapes are not read here
    assert patterns_of(parse('"information dissemination" OR grid'), Analysis()) == ()
    assert patterns_of(parse('t:"information dissemination"'), Analysis({"t": "english"})) == ()
    assert patterns_of(parse("grid"), Analysis()) == ()
    assert patterns_of(parse("year:2010.0 AND year = 1.5"), Analysis()) == ()  # these are numbers, too
