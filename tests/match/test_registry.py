"""Subscriptions by id: adding, replacing, removing, saving, opening; versions survive whatever happens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tocsin import Analysis, Document, Knowledge, QueryError, Statistics, holds, parse, show
from tocsin.errors import SnapshotError
from tocsin.intake import document_to_json
from tocsin.markup import read_markup
from tocsin.match.ids import Ids
from tocsin.match.index import is_plain
from tocsin.match.lines import Lines
from tocsin.match.registry import Registry, versions
from tocsin.match.written import Entry
from tocsin.query.xpath import holds_xpath, parse_xpath
from tocsin.sim.markup import NAMESPACES, Tangle
from tocsin.sim.workload import random_documents, random_query

MIXED = Analysis({"title": "english", "author": "keyword"})


def matches(registry: Registry, documents: list[Document], knowledge: Knowledge | None = None) -> set[tuple[int, str]]:
    found = registry.match(documents, knowledge or Knowledge(registry.analysis)).matches
    assert len(found) == len(set(found))
    return set(found)


def text(*values: str) -> list[Document]:
    return [Document(f"d{number}", {"t": (value,)}) for number, value in enumerate(values)]


def test_ids_are_found_again_whatever_their_length() -> None:
    ids, names = Ids(), [f"{'x' * (number % 40)}é{number}" for number in range(5_000)]
    assert set(ids.append(names[:3_000]).tolist()) == {-1}
    assert set(ids.append(names[3_000:]).tolist()) == {-1}
    assert [ids.find(name) for name in names] == list(range(5_000))
    assert [ids[owner] for owner in range(5_000)] == names
    assert ids.find("absent") == -1
    assert ids.append([names[7], names[7]]).tolist() == [7, 5_000]
    assert ids.find(names[7]) == 5_001


def test_what_is_no_xml_holds_no_path_and_stops_nothing() -> None:
    registry = Registry()
    registry.add("path", xpath="//b")
    registry.add("word", "peer")
    bad = Document("bad", {"t": ("peer",)}, xml="<a><b></a>")
    deep = Document("deep", {}, xml="<a>" * 600 + "<b/>" + "</a>" * 600)  # a site may allow more than 512
    assert matches(registry, [bad, deep, Document("good", {}, xml="<a><b/></a>")]) == {
        (0, "word"), (1, "path"), (2, "path"),
    }  # fmt: skip


def test_a_subscription_can_be_replaced_and_removed() -> None:
    registry = Registry()
    registry.add("a", "peer")
    registry.add("b", "peer OR grid")
    assert matches(registry, text("peer", "grid")) == {(0, "a"), (0, "b"), (1, "b")}
    registry.add("a", "grid")
    assert (len(registry), "a" in registry) == (2, True)
    assert matches(registry, text("peer", "grid")) == {(0, "b"), (1, "a"), (1, "b")}
    registry.remove("b")
    assert (len(registry), "b" in registry) == (1, False)
    assert matches(registry, text("peer", "grid")) == {(1, "a")}
    with pytest.raises(KeyError):
        registry.remove("b")


def test_many_at_once_and_each_refusal_named() -> None:
    registry = Registry()
    refused = registry.add_many([("a", "peer grid"), ("b", "(peer"), ("c", '"peer grid"'), ("a", "NOT peer")])
    assert list(refused) == ["b"]
    assert isinstance(refused["b"], QueryError)
    assert matches(registry, text("peer x grid", "zzz")) == {(1, "a")}


def test_plain_queries_take_the_quick_way_and_mean_the_same() -> None:
    assert is_plain("Peer to peer 2004")
    assert not any(map(is_plain, ["a OR b", "NOT a", "a NEAR b", "a:b", "naïve", "", "a-b", "a*", '"a"', "a AND b"]))
    rng = np.random.default_rng(5)
    queries = [" ".join(rng.choice(list("abcdefgh"), rng.integers(1, 5))) for _ in range(300)]
    documents = text(*(" ".join(rng.choice(list("ABCDEFGH"), 5)) for _ in range(40)))
    registry = Registry()
    registry.add_many([(f"{number}", query) for number, query in enumerate(queries)])
    assert matches(registry, documents) == {
        (place, f"{number}")
        for place, document in enumerate(documents)
        for number, query in enumerate(queries)
        if holds(parse(query), document, Knowledge())
    }


@pytest.mark.row("X2")
@pytest.mark.parametrize("seed", range(8))
def test_random_operations_equal_the_oracle_that_replays_them(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 21])
    documents = random_documents(rng, 24)
    knowledge = Knowledge(MIXED, Statistics.of(documents, MIXED))
    registry, truth = Registry(MIXED), {}
    for _ in range(40):
        id = f"s{rng.integers(12)}"
        match rng.integers(5):
            case 0 | 1 | 2:
                query = random_query(rng, 2, nested=False)
                try:  # a stop word alone is refused under english, and leaves the old query standing
                    registry.add(id, show(query))
                    truth[id] = query
                except QueryError:
                    pass
            case 3 if id in truth:
                registry.remove(id)
                del truth[id]
            case 4:
                registry.save(tmp_path)
                registry = Registry.open(tmp_path, verify=True)
        assert len(registry) == len(truth)
        if rng.random() < 0.3:
            assert matches(registry, documents, knowledge) == {
                (place, id)
                for place, document in enumerate(documents)
                for id, query in truth.items()
                if holds(query, document, knowledge)
            }


def test_a_reader_of_an_old_version_keeps_it(tmp_path: Path) -> None:
    registry = Registry()
    registry.add("a", "peer")
    registry.save(tmp_path)
    old = Registry.open(tmp_path)
    for number in range(5):
        registry.add(f"more{number}", "peer")
        registry.save(tmp_path)
    assert matches(old, text("peer")) == {(0, "a")}
    assert len(matches(Registry.open(tmp_path), text("peer"))) == 6
    assert versions(tmp_path) == [5, 6]
    assert len(matches(Registry.open(tmp_path, 5), text("peer"))) == 5
    with pytest.raises(SnapshotError, match="no version 1"):
        Registry.open(tmp_path, 1)


def test_saving_again_writes_only_new_segments(tmp_path: Path) -> None:
    registry = Registry()
    registry.add_many([(f"{number}", f"w{number % 997} v{number % 31}") for number in range(40_000)])
    registry.save(tmp_path)
    before = {path.name for path in tmp_path.glob("segment-*")}
    registry.add("one", "more")
    registry.save(tmp_path)
    assert before <= {path.name for path in tmp_path.glob("segment-*")}


def test_damage_is_refused_with_the_file_named(tmp_path: Path) -> None:
    registry = Registry()
    registry.add_many([(f"s{number}", f"peer w{number}") for number in range(500)])
    registry.save(tmp_path)
    (version,) = tmp_path.glob("version-*")
    (segment,) = tmp_path.glob("segment-*")
    for path in (version, segment):
        whole = path.read_bytes()
        for damaged, how in [
            (whole[: len(whole) // 2], "cut short"),
            (whole[:20] + b"\xff\xff" + whole[22:], "header"),
            (b"other" + whole[5:], "no Tocsin snapshot"),
            (whole[: len(whole) * 3 // 4] + b"\xfe\xff\xfe" + whole[len(whole) * 3 // 4 + 3 :], "is damaged"),
        ]:
            path.write_bytes(damaged)
            with pytest.raises(SnapshotError, match=how) as refused:
                Registry.open(tmp_path, verify=True)
            assert path.name in str(refused.value)
        path.write_bytes(whole)
    Registry.open(tmp_path, verify=True)
    with pytest.raises(SnapshotError, match="no saved index"):
        Registry.open(tmp_path / "nowhere")


def test_registration_moves_to_the_rarest_word_when_frequencies_drift() -> None:
    """S3: the anchor is the word of lowest document frequency, and follows it."""
    registry = Registry()
    registry.add_many([(f"{number}", f"alpha beta w{number % 7}") for number in range(40_000)])
    index = registry.index
    rng = np.random.default_rng(1)

    def stream(common: str, count: int) -> list[Document]:
        return text(*(f"{common} {' '.join(rng.choice([f'w{n}' for n in range(7)], 3))} zeta" for _ in range(count)))

    index.match(stream("alpha", 1_200), Knowledge())
    index.reorganise()
    low = index.work()
    assert low < 40_000, "clauses wait under beta, which never came"
    index.match(stream("beta", 6_000), Knowledge())
    assert index.work() > 2 * max(low, 1)
    assert index.reorganise_if_drifted()
    assert index.work() <= 40_000
    assert not index.reorganise_if_drifted()
    assert len(matches(registry, text("alpha beta w3"))) == len([n for n in range(40_000) if n % 7 == 3])


def test_segments_are_merged_while_matching_goes_on() -> None:
    registry, documents = Registry(), text("common w3", "common w4 v1")
    expected: set[tuple[int, str]] = set()
    for turn in range(8):
        entries = [
            (f"{turn}-{n}", f"common w{n % 50} v{n % 3}" if n % 2 else f"common w{n % 50}") for n in range(33_000)
        ]
        registry.add_many(entries)
        if turn == 5:
            registry.remove("0-4")
        expected |= {
            (place, id)
            for id, query in entries
            for place, document in enumerate(documents)
            if set(query.split()) <= set(str(document.fields["t"][0]).split())
        }
        assert matches(registry, documents) == expected - ({(1, "0-4")} if turn >= 5 else set())
    registry.index.settle()
    assert len(registry.index.clauses.segments) <= 3
    assert matches(registry, documents) == expected - {(1, "0-4")}


# --- paths -----------------------------------------------------------------------------------------------------------


def test_words_and_path_of_one_subscription_must_both_hold() -> None:
    registry = Registry()
    registry.add("words", "peer")
    registry.add("path", xpath="/a/b")
    registry.add("both", "peer", "//b[@c = 1]")
    registry.add("named", xpath="//n:b", namespaces={"n": "urn:n"})
    xmls = ["<a><b c='1'/></a>", "<a><b/></a>", "<a xmlns='urn:n'><b/></a>", None]
    documents = [Document(f"d{at}", {"t": ("peer" if at != 2 else "grid",)}, xml=xml) for at, xml in enumerate(xmls)]
    assert matches(registry, documents) == {
        *((place, "words") for place in (0, 1, 3)),
        (0, "path"),
        (1, "path"),
        (0, "both"),
        (2, "named"),
    }
    registry.add("both", "grid", "//b[@c = 1]")
    registry.add("path", "peer grid")
    registry.remove("named")
    assert matches(registry, documents) == {(place, "words") for place in (0, 1, 3)}


def test_a_nested_query_is_refused() -> None:
    registry = Registry()
    with pytest.raises(QueryError, match="nested"):
        registry.add("a", "author:IN:(networks)")
    assert len(registry) == 0


def test_owners_become_ids_and_what_was_written(tmp_path: Path) -> None:
    registry = Registry()
    entries = [Entry(f"w{n} peer") if n % 3 else Entry("peer", f"//x{n}", {"p": "urn:é"}) for n in range(3_000)]
    registry.add_many([(f"é{n}", entry) for n, entry in enumerate(entries)])
    registry.save(tmp_path)
    registry.add("more", 'title:"peer grid"')
    for opened in (registry, Registry.open(tmp_path)):
        assert opened.names(np.array([7, 0, 2_999], np.uint32)).to_pylist() == ["é7", "é0", "é2999"]
        for owner in (0, 1, 2_998):
            found = opened.subscription(owner)
            assert (found.id, found.text) == (f"é{owner}", entries[owner].query)
            assert found.query == parse(found.text)
            xpath = entries[owner].xpath
            assert found.path == (None if xpath is None else parse_xpath(xpath, {"p": "urn:é"}))
    assert registry.names(np.array([3_000], np.uint32)).to_pylist() == ["more"]


@pytest.mark.parametrize("seed", range(4))
def test_random_words_and_paths_equal_the_oracle_over_versions(seed: int, tmp_path: Path) -> None:
    rng, tangle = np.random.default_rng([seed, 22]), Tangle(seed)
    documents = [
        Document(one.id, one.fields, one.source, one.time, xml=tangle.document() if rng.random() < 0.8 else None)
        for one in random_documents(rng, 24)
    ]
    knowledge = Knowledge(MIXED, Statistics.of(documents, MIXED))
    registry, truth = Registry(MIXED), dict[str, tuple]()
    for turn in range(120):
        id, kind = f"s{rng.integers(40)}", rng.integers(8)
        if kind == 0 and id in truth:
            registry.remove(id)
            del truth[id]
        query = random_query(rng, 2, nested=False) if kind % 3 else None
        xpath = tangle.query() if kind > 3 or query is None else None
        try:
            path = None if xpath is None else parse_xpath(xpath, NAMESPACES)
            registry.add(id, None if query is None else show(query), xpath, NAMESPACES)
            truth[id] = query, path
        except QueryError:
            pass
        if turn % 30 == 29:
            registry.save(tmp_path)
            registry = Registry.open(tmp_path, verify=True)
            found = matches(registry, documents, knowledge)
            lines = registry.match_lines(Lines.of([document_to_json(one).encode() for one in documents]), knowledge)
            pairs = zip(lines.places.tolist(), registry.names(lines.owners).to_pylist(), strict=True)
            assert sorted(pairs) == sorted(found)
            assert found == {
                (place, id)
                for place, document in enumerate(documents)
                for id, (query, path) in truth.items()
                if (query is None or holds(query, document, knowledge))
                and (path is None or (document.xml is not None and holds_xpath(path, read_markup(document.xml))))
            }
