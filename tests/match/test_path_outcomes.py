"""What documents of the same paths have in common is remembered, within bytes, and forgotten when queries change."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.markup import read_markup
from tocsin.match.path_outcomes import KEYS_MAX, Outcome, Outcomes
from tocsin.match.paths import CacheLimits, PathIndex, Selection
from tocsin.query.xpath import holds_xpath, parse_xpath

NONE = np.zeros(0, np.int32)


def outcome(size):
    return Outcome(NONE, np.zeros(0, np.int64), np.arange(size))


def test_an_outcome_is_kept_from_the_second_time_on_and_the_longest_unused_goes_first():
    known = Outcomes(bytes_max=250)
    for number in range(3):
        key = (bytes([number]),)
        known.note(key, outcome(10))
        assert known.find(key) is None
        known.note(key, outcome(10))
        found = known.find(key)
        assert found is not None
        assert len(found.numbers) == 10
    assert known.find((b"\0",)) is not None  # so the second one is the longest unused
    for _ in range(2):
        known.note((b"new",), outcome(10))
    assert [known.find((key,)) is not None for key in (b"\0", b"\1", b"\2", b"new")] == [True, False, True, True]
    assert known.nbytes == 245
    for _ in range(3):
        known.note((b"large",), outcome(31))
    assert known.find((b"large",)) is None
    assert len(known) == 3
    known.clear()
    assert (len(known), known.nbytes) == (0, 0)
    for number in range(2 * KEYS_MAX):
        known.note((number.to_bytes(4, "little"),), outcome(1))
    assert len(known._once) <= KEYS_MAX


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("limits", [CacheLimits(), CacheLimits(outcome_bytes_max=64), CacheLimits(256, 256)])
def test_documents_of_the_same_paths_while_queries_come_and_go(selection, limits):
    rng = np.random.default_rng(1)
    texts = ["/r/a", "//b", "/r/*[@x = '1']", "/r/a[@x != '2']/b", "//c", "/r//b[. = 'v']", "/r/c[2]", "//@x", "//d/a"]
    paths = [parse_xpath(text) for text in texts]
    index, asked = PathIndex(limits, selection), {}
    shapes = ["<r><a x='{}'><b>{}</b></a></r>", "<r><c/><c x='{}'/></r>", "<r><a x='{}'/><a><b>{}</b></a></r>"]
    matches = 0
    for step in range(60):
        if rng.random() < 0.5:
            asked[step] = paths[rng.integers(len(paths))]
            index.add(step, asked[step])
        elif asked and rng.random() < 0.5:
            gone = int(rng.choice(list(asked)))
            index.remove(gone)
            del asked[gone]
        if step % 20 == 19:
            index.merge()
        for _ in range(6):
            text = shapes[rng.integers(3)].format(rng.integers(1, 3), rng.choice(["v", "w"]))
            document = read_markup(text)
            wanted = sorted(number for number, path in asked.items() if holds_xpath(path, document))
            assert index.match(document).tolist() == wanted
            matches += len(wanted)
    assert matches > 1_000


def test_records_of_one_shape_share_their_answer():
    index = PathIndex()
    for number, text in enumerate(["/r/a", "//b", "//c"]):
        index.add(number, parse_xpath(text))
    found = [index.match(read_markup(f"<r><a>{one}</a><b/></r>")) for one in range(4)]
    assert all(one.tolist() == [0, 1] for one in found)
    assert found[1] is found[2] is found[3]
    assert not found[1].flags.writeable
    swapped = index.match(read_markup("<r><b/><a/><b/></r>"))  # text, order and number say nothing here
    assert swapped is found[1]
    index.add(3, parse_xpath("/r"))
    assert index.match(read_markup("<r><a/><b/></r>")).tolist() == [0, 1, 3]
    index.remove(1)
    assert index.match(read_markup("<r><a/><b/></r>")).tolist() == [0, 3]
