"""The shared automaton: its states, its kernels against their twins, and the whole index against the oracle."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tocsin.errors import DocumentError, QueryError
from tocsin.markup import read_markup, split_records
from tocsin.match import path_conditions as conditions
from tocsin.match import path_kernels as kernels
from tocsin.match import path_reference as reference
from tocsin.match.path_families import Families
from tocsin.match.path_masks import Reading, Selector
from tocsin.match.path_member_kernels import mark_members
from tocsin.match.path_reference import TreeFilter
from tocsin.match.path_runs import Found, Runner, read_tape
from tocsin.match.paths import Automaton, CacheLimits, PathIndex, Selection
from tocsin.match.snapshot import open_arrays, write_arrays
from tocsin.query.xpath import holds_xpath, parse_xpath
from tocsin.query.xpath.routes import clauses_of, linear_paths, plain_path
from tocsin.sim.markup import NAMESPACES, NEWS_DTD, QueryShape, Tangle, documents, infer_type, queries, read_dtd

LABELS = st.sampled_from(["a", "b", "*", "$", "@x", "text()"])
PLAIN = QueryShape(distinct=False)
TINY = CacheLimits(cache_pool_first=256, cache_pool_max=256)


@st.composite
def linear(draw):
    """Linear paths as queries have them: ε stands before another label, attributes and texts stand last."""
    inner = draw(st.lists(st.sampled_from(["a", "b", "*"]), max_size=3))
    labels = [*inner, draw(st.sampled_from(["a", "b", "*", "@x", "@*", "text()"]))]
    return tuple(one for label in labels for one in (("$", label) if draw(st.booleans()) else (label,)))


def tangled(tangle, count):
    found: list = []
    while len(found) < count:
        text = tangle.query()
        try:
            found.append((text, parse_xpath(text, NAMESPACES)))
        except QueryError:
            continue
    return found


def filled(paths, kind=PathIndex, *arguments):
    index = kind(*arguments)
    for number, path in enumerate(paths):
        index.add(number, path)
    return index


def found_by(index, document):
    return list(index.match(document))


# --- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.row("Y3")
@given(st.lists(linear(), max_size=12), st.randoms(use_true_random=False), st.data())
def test_states_are_the_distinct_prefixes_in_any_order_and_after_deletion(paths, shuffle, data):
    keys = {" + ".join(("start", *prefix)) for prefix in reference.prefixes(paths)}
    automaton = Automaton()
    states, places = [], []
    for number, path in enumerate(paths):
        state, place = automaton.insert([path], [number])
        states += state.tolist()
        places += place.tolist()
    assert set(automaton.states()) == keys
    assert automaton.size == len(keys)
    other = Automaton()
    other.insert(shuffle.sample(paths, len(paths)), list(range(len(paths))))
    assert other.states() == automaton.states()
    gone = data.draw(st.sets(st.sampled_from(range(len(paths))))) if paths else set()
    automaton.delete([states[one] for one in gone], [places[one] for one in gone])
    left = [path for number, path in enumerate(paths) if number not in gone]
    assert automaton.size == len(reference.prefixes(left))
    again = Automaton()
    again.insert(left, list(range(len(left))))
    assert again.states() == automaton.states()


def test_a_state_that_was_given_up_is_used_again():
    automaton = Automaton()
    for _ in range(5_000):
        states, places = automaton.insert([("a", "$", "b"), ("a", "c")], [0, 1])
        automaton.delete(states.tolist(), places.tolist())
    assert automaton.size == 1
    assert automaton.nbytes() < 100_000


@given(st.lists(linear(), min_size=1, max_size=12), st.integers(0, 10**6))
def test_both_kernels_find_the_paths_that_occur(paths, seed):
    document = read_markup(Tangle(seed).document())
    expected = reference.run_stack(paths, document)
    for limits in (CacheLimits(), TINY):
        automaton, runner = Automaton(), Runner(limits)
        automaton.insert(paths, list(range(len(paths))))
        tape = read_tape(automaton.labels, document)
        runner.run(automaton, tape, found := Found.empty(len(paths), 1))
        assert np.flatnonzero(found.flags).tolist() == expected
        assert runner._cache is not None
        runner._cache.counts[kernels.RUN] += 1
        runner._run_stack(automaton, tape, found := Found.empty(len(paths), 1))
        assert np.flatnonzero(found.flags).tolist() == expected


@given(st.integers(0, 10**6))
def test_the_mask_kernel_finds_the_elements_of_every_condition(seed):
    tangle = Tangle(seed)
    paths = [path for _, path in tangled(tangle, 15)]
    document = read_markup(tangle.document())
    for selection in Selection:
        index = filled(paths, PathIndex, None, selection)
        _, guards = index._flush(), index.guards
        nodes = np.arange(guards.size, dtype=np.int32)
        tests = np.stack([nodes, np.full_like(nodes, -1), np.full_like(nodes, -1)], axis=1)
        flags = np.zeros(guards.size, np.uint8)
        selector = Selector()
        tape = read_tape(index.labels, document)
        selector.select(guards, document, tape, tests, nodes, Families(), nodes, flags)
        for node in nodes.tolist():
            row = int(selector._memo[node] & 0xFFFFFFFF) - 1
            words = selector._pool[row] if row >= 0 else np.zeros(1, np.uint32)
            found = set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist())
            assert found == reference.evaluate(guards, document, node)
            assert bool(found) == bool(flags[node])


@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(-1, 4)), max_size=12),
    st.lists(st.tuples(st.integers(-1, 4), st.sampled_from([-1.0, 0.0, 1.0, 2.5, 4.0, np.inf, np.nan])), max_size=4),
)
def test_the_members_of_a_family_that_values_meet(members, values):
    ordered = sorted((how, float(literal if how > conditions.DIFFERENT else abs(literal))) for how, literal in members)
    member = np.array([(how, slot) for slot, (how, _) in enumerate(ordered)], np.int32).reshape(-1, 2)
    literals = np.array([literal for _, literal in ordered], np.float64)
    strings, numbers = np.array([one for one, _ in values], np.int32), np.array([one for _, one in values], np.float64)
    flags = np.zeros(len(ordered), np.uint8)
    mark_members(member, literals, 0, len(ordered), strings, numbers, flags)
    wanted = reference.mark_members(((*one, slot) for slot, one in enumerate(ordered)), values)
    assert set(np.flatnonzero(flags).tolist()) == wanted


SIGNS = [
    "1",
    "-",
    ".",
    "5",
    "e3",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\r",
    "x",
    "ü",
    "0.1",
    "-0",
    "long words ",
    "1234567890123456",
]
PIECES = st.sampled_from([*SIGNS, "&amp;", "&#49;", "&#0000000032;", "<![CDATA[&]]>", "<b>", "<b/>", "<!--1-->"])


@given(st.lists(st.lists(PIECES, max_size=6), min_size=1, max_size=6), st.lists(PIECES, max_size=4))
def test_values_are_found_in_the_bytes_as_they_are_in_the_texts(contents, value):
    """References, CDATA, line ends, blanks and numbers of every length; the texts are decoded for comparison."""
    elements = ("".join(one) + "</b>" * one.count("<b>") for one in contents)
    inner = "".join(f"<a>{one}</a>" for one in elements)
    bare = "".join(one for one in value if "<" not in one)
    document = read_markup(f"<r x='{bare}'>{inner}</r>".encode())
    assert document.raw is not None
    mentioned = ["1", "&", "x", "", " ", "-0", "\n", "1x", "&1", "ü5", "long words ", "5 "]
    texts = [f"//a[. = '{text}']" for text in mentioned] + [f"//r[@x = '{text}']" for text in mentioned]
    index = filled([parse_xpath(text) for text in texts])
    reading = Reading(index.guards, document, read_tape(index.labels, document))
    layout = document.layout
    joined = ["".join(document.pieces[a:b]) for a, b in zip(layout.first.tolist(), layout.end.tolist(), strict=True)]
    assert joined == [document.raw.text(a, b) for a, b in zip(layout.first, layout.end, strict=True)]
    assert document.values == [document.raw.value_text(at) for at in range(len(document.values))]
    for found, texts in ((reading._inside(layout.first, layout.end), joined), (reading._attributes(), document.values)):
        strings, numbers = reading._known(texts)
        assert found[0].tolist() == strings.tolist()
        np.testing.assert_array_equal(found[1], numbers)


SHAPES = ["/r/a[{}]/b", "//a[{}]", "/r//*[{}]/b", "//a[b][{}]", "/r/a[{}]//b[2]", "/r/a[{} or {}]/b"]
VALUES = ["@x {} {}", "b {} {}", ". {} {}", "@y {} {}", "* {} {}", "@* {} {}"]


@pytest.mark.parametrize("seed", range(3))
def test_families_of_queries_come_go_and_are_kept_as_the_oracle_says(seed, tmp_path):
    rng = np.random.default_rng(seed)
    pick = lambda options: options[rng.integers(len(options))]  # noqa: E731
    literals = ["1", "2", "-3", "0.5", "'1'", "'2'", "'x'", "'y z'", "''"]

    def query() -> str:
        text: str = pick(SHAPES)
        while "{}" in text:
            test = pick(VALUES).format(pick(["=", "!=", "<", "<=", ">", ">="]), pick(literals))
            text = text.replace("{}", test, 1)
        return text

    def element(depth: int) -> str:
        name, content = pick("ab"), pick(["", "1", "2", "x", "0.5", " 2 ", "y z"])
        inside = "".join(element(depth - 1) for _ in range(rng.integers(0, 3))) if depth else ""
        held = "".join(f" {one}='{pick(['1', '2', 'x', '-3', ''])}'" for one in "xy" if rng.random() < 0.4)
        return f"<{name}{held}>{content}{inside}</{name}>"

    index, inline, asked = PathIndex(), PathIndex(selection=Selection.INLINE), {}
    matches, sizes = 0, set[int]()
    for step in range(12):
        for number in range(120 * step, 120 * step + 120):
            asked[number] = parse_xpath(query())
            index.add(number, asked[number])
            inline.add(number, asked[number])
        for number in rng.choice(list(asked), 60 if step < 11 else len(asked) - 5, replace=False).tolist():
            index.remove(number)
            inline.remove(number)
            del asked[number]
        if step % 4 == 3:
            arrays, about = index.to_arrays()
            write_arrays(tmp_path / "index", arrays, about)
            kept = open_arrays(tmp_path / "index")
            index = PathIndex.from_arrays(kept.arrays, kept.about)
        for _ in range(4):
            document = read_markup(f"<r>{''.join(element(3) for _ in range(4))}</r>")
            wanted = sorted(number for number, path in asked.items() if holds_xpath(path, document))
            assert index.match(document).tolist() == wanted
            assert inline.match(document).tolist() == wanted
            matches += len(wanted)
        assert len(index) == len(asked)
        sizes |= {int(index._families.head[family, 1]) for family, _, _, _ in index._families.members()}
    assert min(sizes) <= conditions.FEW < max(sizes)  # both ways to look at a family are taken
    assert matches > 1_000
    for number in list(asked):
        index.remove(number)
    index.merge()
    assert (len(index), len(index._families), len(index.guards), len(index.guards.strings)) == (0, 0, 0, 0)


# --- the index against the oracle ------------------------------------------------------------------------------------


@pytest.mark.row("Y1", "Y2", "Y9")
def test_index_inline_postponed_oracle_and_lxml_agree_on_tangled_queries():
    matches = 0
    for seed in range(25):
        tangle = Tangle(seed)
        texts = tangled(tangle, 60)
        paths = [path for _, path in texts]
        filters = [
            filled(paths),
            filled(paths, PathIndex, TINY),
            filled(paths, PathIndex, None, Selection.INLINE),
            filled(paths, TreeFilter, Selection.INLINE),
            filled(paths, TreeFilter, Selection.POSTPONED),
        ]
        for _ in range(5):
            text = tangle.document()
            root, document = etree.fromstring(text), read_markup(text)
            expected = [
                number
                for number, (query, _) in enumerate(texts)
                if root.xpath(query.replace("<>", "!="), namespaces=NAMESPACES)
            ]
            matches += len(expected)
            assert [number for number, path in enumerate(paths) if holds_xpath(path, document)] == expected
            for one in filters:
                assert found_by(one, document) == expected, (type(one), text)
    assert matches > 1_000


@given(st.integers(0, 10**6), st.data())
def test_queries_come_and_go_in_any_order(seed, data):
    tangle = Tangle(seed)
    paths = [path for _, path in tangled(tangle, 12)]
    read = [read_markup(tangle.document()) for _ in range(2)]
    index = PathIndex()
    alive: set[int] = set()
    for number in data.draw(st.lists(st.integers(0, 11), max_size=25)):
        if number in alive:
            index.remove(number)
            alive.remove(number)
        else:
            index.add(number, paths[number])
            alive.add(number)
    for document in read:
        assert found_by(index, document) == sorted(number for number in alive if holds_xpath(paths[number], document))
    for number in sorted(alive):
        index.remove(number)
    assert index.states == 1
    assert len(index) == len(index.guards) == len(index.guards.strings) == 0
    assert not index._clauses


@pytest.mark.parametrize("document", ["<c><b/><a/></c>", "<r><c><b/><a/></c></r>"])
@pytest.mark.parametrize("selection", Selection)
def test_the_document_itself_is_no_element(document, selection):
    """Found by chance: a path from the root inside a predicate took the document for an element that `*` names."""
    query = "//b[not(not(/descendant-or-self::*/descendant::c//a))]"
    expected = [0] if etree.fromstring(document).xpath(query) else []
    assert found_by(filled([parse_xpath(query)], PathIndex, None, selection), read_markup(document)) == expected


@pytest.mark.row("Y2")
@pytest.mark.parametrize(
    ("query", "document", "holds"),
    [
        ("//a[b]/c", "<r><a><b/></a><a><c/></a></r>", False),
        ("//a[b]/c", "<r><a><b/></a><a><c/><b/></a></r>", True),
        ("//a[b][c]", "<r><a><b/></a><a><c/></a></r>", False),
        ("//a[@x='1']/c[@y='1']", "<r><a x='1'><c y='2'/></a><a x='2'><c y='1'/></a></r>", False),
        ("//a[@x='1']/c[@y='1']", "<r><a x='1'><c y='2'/><c y='1'/></a></r>", True),
        ("//a[.//b/c]//d", "<a><b/><a><b><c/></b></a><d/></a>", True),
        ("//a[b/c]//d", "<a><b/><a><b><c/></b></a><d/></a>", False),
        ("//a[b]//a[c]/d", "<a><b/><a><d/></a><a><c/></a></a>", False),
        ("//a[b]//a[c]/d", "<a><b/><a><c/><d/></a></a>", True),
        ("//a[b and not(c)]", "<r><a><b/><c/></a><a/></r>", False),
        ("//a[2][b]", "<r><a><b/></a><a/></r>", False),
        ("//a[b][2]", "<r><a/><a><b/></a><a><b/></a></r>", True),
    ],
)
def test_branches_are_joined_at_the_element_they_share(query, document, holds):
    """Every linear path occurs in these documents: splitting alone (paper §2) would match them all."""
    path, read = parse_xpath(query), read_markup(document)
    chains = set(reference.chains(read))
    assert bool(etree.fromstring(document).xpath(query)) == holds
    if "not" not in query:
        for clause in clauses_of(path):
            assert all(any(reference.accepts(one, chain) for chain in chains) for one in linear_paths(clause))
    for index in (filled([path]), filled([path], TreeFilter, Selection.INLINE)):
        assert found_by(index, read) == ([0] if holds else [])


def test_the_same_value_predicate_is_evaluated_once():
    paths = [parse_xpath(f"//a[@x = 'v'][{number} != b]") for number in range(50)]
    document = read_markup("<r>" + "<a x='w'><b>1</b></a>" * 20 + "</r>")
    index = filled(paths)
    assert found_by(index, document) == []
    nodes = index.guards.graph[0][: index.guards.size]
    held = nodes[(nodes[:, 0] == conditions.ATTRIBUTE) & (nodes[:, 2] & 15 == conditions.SAME)]
    assert len(held) == 1
    plain = filled([parse_xpath(f"//{'*/' * (n % 5)}a[@x = 'v']") for n in range(50)], TreeFilter, Selection.INLINE)
    plain.match(document)
    assert plain.work.checks <= 20


def test_a_literal_may_be_a_string_or_a_number():
    texts = ["//a[@x >= '2']", "//a[@x >= 2]", "//a[@x = '2']", "//a[@x = 2]", "//a[@x < 'y']", "//a[2 <= @x]"]
    index = filled([parse_xpath(text) for text in texts])
    assert found_by(index, read_markup("<a x='2'/>")) == [0, 1, 2, 3, 5]
    assert found_by(index, read_markup("<a x='2.0'/>")) == [0, 1, 3, 5]
    for number in (0, 2, 4):
        index.remove(number)
    assert found_by(index, read_markup("<a x='2'/>")) == [1, 3, 5]


def test_a_query_may_have_several_clauses():
    path = parse_xpath("//*/descendant-or-self::*/descendant-or-self::b")
    assert len(clauses_of(path)) > 2
    index = filled([path])
    assert found_by(index, read_markup("<a><b/></a>")) == [0]
    assert found_by(index, read_markup("<a><c/></a>")) == []
    with pytest.raises(QueryError, match="alternatives"):
        clauses_of(parse_xpath("/" + "/".join(["descendant-or-self::*"] * 40)))


def test_a_number_in_use_is_refused():
    index = filled([parse_xpath("/a")])
    with pytest.raises(ValueError, match="in use"):
        index.add(0, parse_xpath("/b"))


def test_plain_queries_have_the_same_linear_path_either_way():
    for text in ("/a", "//a/*//b", "//*"):
        path = parse_xpath(text)
        assert (plain_path(path),) == linear_paths(clauses_of(path)[0])
    assert plain_path(parse_xpath("a/b")) is None


def test_unknown_names_are_not_kept():
    index = filled([parse_xpath("//p:*", {"p": "u"}), parse_xpath("//a")])
    index.match(read_markup("<r xmlns='u'>" + "".join(f"<n{n}/>" for n in range(500)) + "</r>"))
    assert len(index.labels.elements) == 1


def test_the_cache_grows_and_starts_again_without_changing_results():
    kinds = [f"{a}{b}" for a in "abcdef" for b in "uvwxyz"]
    paths = [parse_xpath(f"//{a}//{b}") for a in kinds for b in kinds[:6]]
    documents = [
        read_markup("".join(f"<{kind}>" for kind in order) + "".join(f"</{kind}>" for kind in reversed(order)))
        for order in (np.random.default_rng(n).permutation(kinds).tolist() for n in range(12))
    ]
    large, small = filled(paths), filled(paths, PathIndex, CacheLimits(cache_pool_first=512, cache_pool_max=4_096))
    for document in documents * 2:
        expected = [number for number, path in enumerate(paths) if holds_xpath(path, document)]
        assert found_by(large, document) == found_by(small, document) == expected


def test_what_was_learned_survives_additions_and_removals():
    """A stream with steady additions keeps its speed: only the small automaton of new queries is learned again."""
    news = read_dtd(NEWS_DTD)
    paths = [parse_xpath(text) for text in queries(news, 900, 1, QueryShape(predicates=0.3))]
    read = [read_markup(text) for text in documents(news, 6, 1)]
    index = filled(paths[:800])
    for document in read:
        index.match(document)
    first = index._parts[0].runner
    learned, renewals = first.remembered, first.renewals
    assert learned > 100
    alive = dict(enumerate(paths[:800]))
    for number in range(800, 840):
        index.add(number, paths[number])
        index.remove(number - 700)
        alive[number] = paths[number]
        del alive[number - 700]
        document = read[number % len(read)]
        found = found_by(index, document)
        if number % 20 == 0:
            assert found == [one for one, path in sorted(alive.items()) if holds_xpath(path, document)]
        assert (first.remembered, first.renewals) == (learned, renewals)
    assert 1 < len(index._parts) <= 4
    states = index.states
    index.merge()
    assert (len(index._parts), index.states, first.remembered) == (1, states, 0)
    fresh = PathIndex()
    for number, path in alive.items():
        fresh.add(number, path)
    assert fresh.states == states
    assert fresh.automaton.states() == index.automaton.states()
    assert all(found_by(index, one) == found_by(fresh, one) for one in read)


def test_an_opened_index_is_changed_without_copying_it(tmp_path):
    news = read_dtd(NEWS_DTD)
    paths = [parse_xpath(text) for text in queries(news, 430, 1, QueryShape(predicates=0.5))]
    arrays, about = filled(paths[:400]).to_arrays()
    write_arrays(tmp_path / "paths", arrays, json.loads(json.dumps(about)))
    file = open_arrays(tmp_path / "paths")
    opened = PathIndex.from_arrays(file.arrays, file.about)
    for number in range(400, 420):
        opened.add(number, paths[number])
        opened.remove(number - 200)
    documents_read = [read_markup(text) for text in documents(news, 4, 1)]
    alive = [*range(200), *range(220, 420)]
    for document in documents_read:
        assert found_by(opened, document) == [one for one in alive if holds_xpath(paths[one], document)]
    assert np.shares_memory(opened._parts[0].automaton.nfa.keys, file.arrays["nfa_keys"])
    arrays, about = opened.to_arrays()
    again = PathIndex.from_arrays(arrays, json.loads(json.dumps(about)))
    assert len(again) == len(opened) == 400
    assert all(found_by(again, one) == found_by(opened, one) for one in documents_read)
    again.remove(405)
    again.remove(20)
    again.merge()
    alive = [one for one in alive if one not in (20, 405)]
    for document in documents_read:
        assert found_by(again, document) == [one for one in alive if holds_xpath(paths[one], document)]


def test_an_index_is_written_mapped_and_changed_again(tmp_path):
    tangle = Tangle(4)
    paths = [path for _, path in tangled(tangle, 60)] + [parse_xpath(text) for text in ("/a/b", "//b", "//*", "//c")]
    documents = [read_markup(tangle.document()) for _ in range(6)]
    index = filled(paths)
    for number in (3, 7, 60, 63):
        index.remove(number)
    expected = [found_by(index, document) for document in documents]
    arrays, about = index.to_arrays()
    write_arrays(tmp_path / "paths", arrays, json.loads(json.dumps(about)))
    file = open_arrays(tmp_path / "paths")
    opened = PathIndex.from_arrays(file.arrays, file.about)
    assert len(opened) == len(index) == 60
    assert [found_by(opened, document) for document in documents] == expected
    for number in (60, 3, 100):
        opened.add(number, paths[number % 64])
        index.add(number, paths[number % 64])
    opened.remove(5)
    index.remove(5)
    assert [found_by(opened, document) for document in documents] == [found_by(index, one) for one in documents]
    assert opened.states == index.states


@pytest.mark.row("Y1")
def test_all_conformance_cases_in_one_index(data_dir):
    """The 183 cases of the oracle's test, all queries registered together, both ways with predicates."""
    with tarfile.open(data_dir / "xpath" / "xpath_subset_cases.tar.gz") as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive)
        files = {name: file.read() for name, file in opened if file is not None}
    cases = [json.loads(line) for line in files["xpath_subset/cases.jsonl"].decode().splitlines()]
    paths = [parse_xpath(case["expr"]) for case in cases]
    for selection in Selection:
        index = filled(paths, PathIndex, None, selection)
        for name in sorted({case["doc"] for case in cases}):
            bare = re.sub(rb"<!DOCTYPE[^\[>]*\[.*?\]\s*>", b"", files["xpath_subset/" + name], flags=re.DOTALL)
            document = read_markup(bare)
            found = set(found_by(index, document))
            assert found == {number for number, path in enumerate(paths) if holds_xpath(path, document)}
            assert all((number in found) == case["match"] for number, case in enumerate(cases) if case["doc"] == name)


# --- real documents --------------------------------------------------------------------------------------------------


def real_documents(data_dir, each):
    """Documents of every kind that we have, as (kind, bytes or text)."""
    folder = data_dir / "xml"
    for name in ("elife_jats_xml_350.tar.gz", "feeds_rss_atom.tar.gz"):
        with tarfile.open(folder / name) as archive:
            files = (one for one in archive if one.isfile() and not one.name.endswith((".txt", "LICENSE")))
            for member in islice(files, 0, each * 7, 7):
                file = archive.extractfile(member)
                assert file
                yield name, file.read()
    for name, path in [
        ("dblp_dbvenues.xml.gz", "/dblp/*"),
        ("xmark_auction_3.5MB.xml.gz", "/site/*/*"),
        ("acl_originals/2021.eacl.xml.gz", "//paper"),
    ]:
        with gzip.open(folder / name) as unpacked:
            for record in islice(split_records(unpacked, path), 0, each * 40, 40):
                yield name, record.xml


@pytest.mark.row("Y1", "Y2")
def test_index_and_lxml_agree_on_real_documents(data_dir):
    """Queries drawn from what the documents hold, with and without predicates and branches."""
    compare_on_real_documents(data_dir, each=6, count=120)


@pytest.mark.slow
def test_index_and_lxml_agree_on_100_000_pairs_of_real_documents(data_dir):
    assert compare_on_real_documents(data_dir, each=40, count=600) >= 100_000


def compare_on_real_documents(data_dir, each, count):
    groups: dict[str, list] = {}
    for kind, data in real_documents(data_dir, each):
        try:
            groups.setdefault(kind, []).append((read_markup(data), data))
        except DocumentError:
            continue
    pairs = matches = 0
    for number, group in enumerate(groups.values()):
        shape = QueryShape(depth_max=6, predicates=0.6, branches=0.5, distinct=False)
        kinds = infer_type(document for document, _ in group)
        texts = list(queries(kinds, count, number, shape)) + list(queries(kinds, count // 2, number, PLAIN))
        texts = list(dict.fromkeys(texts))
        compiled = [etree.XPath(text, namespaces=kinds.namespaces) for text in texts]
        index = filled([parse_xpath(text, kinds.namespaces) for text in texts])
        for document, data in group:
            root = etree.fromstring(data if isinstance(data, bytes) else data.encode())
            expected = [at for at, one in enumerate(compiled) if one(root)]
            assert found_by(index, document) == expected
            pairs += len(texts)
            matches += len(expected)
    assert matches > pairs / 50
    return pairs
