"""The distributed automaton: nothing is missed, told twice or left behind, whatever happens to the ring."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from tests.overlay.planted import takes_a_notice_twice
from tocsin.errors import SettingError, TocsinError
from tocsin.markup import read_markup
from tocsin.model import Document
from tocsin.overlay import message as codec
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.delivery import Delivery
from tocsin.overlay.key import host_of
from tocsin.overlay.message import Item, peer
from tocsin.overlay.placement.asking import Asking
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.states import Execution, StateSettings, fragment
from tocsin.overlay.placement.states.fragment import Entry, fragment_of, places_of
from tocsin.overlay.placement.states.key import STATE_KIND, ring_key, tail
from tocsin.overlay.placement.states.messages import Candidates, IndexQuery, RecExpandState
from tocsin.overlay.placement.states.outline import Outline, Piece, pieces_of
from tocsin.overlay.placement.states.publisher import Publisher
from tocsin.overlay.placement.states.shedding import COPIED_NAME, NUMBERS, READY, Shedding
from tocsin.overlay.placement.states.subscriber import Subscriber
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.query.xpath import holds_xpath, parse_xpath
from tocsin.sim.faults import LIMITS, draw_faults
from tocsin.sim.markup import Tangle
from tocsin.sim.states import BRISK_STATES, CalmStates, draw_states, run_states, virtual_ring

SEEDS = 200
SEEDS_SLOW = 5_000


def xml(id: str, text: str, version: int = 1) -> Document:
    return Document(id, xml=text, version=version)


# --- under faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_recall_is_whole_and_nothing_comes_twice_under_faults(first):
    """Churn, crashes, partitions, loss; three copies of each item; both executions, any length, with shedding."""
    due = 0
    for seed in range(first, first + 20):
        scenario = draw_states(seed, BRISK_STATES, through_codec=seed % 10 == 0)
        assert scenario.chord.replicas == 3
        outcome = run_states(seed, scenario)
        assert not outcome.violations, str(outcome)
        due += outcome.due
    assert due > 60


def test_a_small_ring_is_troubled_by_every_kind_of_fault():
    """The everyday seeds are no easy ones: between them they have all faults, and states with copies."""
    limits, seconds = BRISK_STATES.limits or LIMITS, BRISK_STATES.fault_seconds
    drawn = [draw_faults(seed, list("abcdef"), seconds, limits) for seed in range(SEEDS)]
    for kind in ("loss", "duplication", "delayed", "partitions", "crashes", "slow", "skews", "joins", "leaves"):
        assert sum(bool(getattr(one, kind)) for one in drawn) > SEEDS // 4, kind
    assert any(not crash.keeps_disk for one in drawn for crash in one.crashes)
    settings = [draw_states(seed, BRISK_STATES).states for seed in range(SEEDS)]
    assert {(one.execution, one.length) for one in settings} == set(product(Execution, range(5)))
    assert {bool(one.copies and one.relief_share) for one in settings} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + SEEDS_SLOW, 20))
def test_recall_is_whole_and_nothing_comes_twice_under_many_faults(first):
    for seed in range(first, first + 20):
        outcome = run_states(seed, draw_states(seed))
        assert not outcome.violations, str(outcome)


def test_equal_seeds_give_equal_traces():
    scenario = draw_states(11, routers=5, subscriptions=4, operations=6, fault_seconds=10.0, heal_seconds=40.0)
    first, second = (run_states(11, scenario) for _ in range(2))
    assert first.trace == second.trace
    assert not first.violations, first


# --- planted bugs ----------------------------------------------------------------------------------------------------


def _never_asks_again(patch):
    """Nobody minds that an owner does not answer."""
    patch.setattr(Asking, "wake", lambda self, token, now: [])


def _is_done_before_it_is_heard(patch):
    """An owner says that everybody has heard while its notices are still on their way."""
    tell = Delivery.tell
    patch.setattr(
        Delivery,
        "tell",
        lambda self, to, notice, now, then: [*then(now), *tell(self, to, notice, now, lambda now: [])],
    )


def _predicates_are_not_checked(patch):
    """The structure of a document is taken for all of it."""
    patch.setattr(Publisher, "_checked", lambda self, one, entries: entries)


def _leaves_a_state_behind(patch):
    """Unsubscribing removes all but one."""
    unsubscribe = Subscriber.unsubscribe

    def leave_one(self, id, now):
        self._records[id].places.discard(max(self._records[id].places))
        return unsubscribe(self, id, now)

    patch.setattr(Subscriber, "unsubscribe", leave_one)


def _loops_are_not_followed(patch):
    """What is below an element that ε leads to is not looked at."""
    patch.setattr(fragment, "is_loop", lambda state: False)


def _copies_hear_of_no_queries(patch):
    """Queries that come or go after a state has copies come and go at the state alone."""
    patch.setattr(Shedding, "known", lambda self, key: ())


@pytest.mark.parametrize(
    ("patch", "kinds"),
    [
        (_never_asks_again, {"open", "missed"}),
        (takes_a_notice_twice, {"twice"}),
        (_is_done_before_it_is_heard, {"early"}),
        (_predicates_are_not_checked, {"wrong"}),
        (_leaves_a_state_behind, {"copies"}),
        (_loops_are_not_followed, {"missed"}),
        (_copies_hear_of_no_queries, {"copies"}),
    ],
)
def test_a_planted_bug_is_caught(patch, kinds, monkeypatch):
    patch(monkeypatch)
    for seed in range(60):
        found = run_states(seed, draw_states(seed, BRISK_STATES, through_codec=False)).violations
        if kinds & {violation.partition(":")[0] for violation in found}:
            return
    pytest.fail("no seed out of 60 found the bug")


# --- queries come and go ---------------------------------------------------------------------------------------------


def test_ending_a_query_removes_every_trace_and_nothing_else():
    """X2; the paper is silent on deletion. A transition stays as long as a query of any subscriber needs it."""
    calm = CalmStates(7, StateSettings(length=1))
    calm.subscribe("n1", "one", "/a/b/c")
    alone = {(address, item.key, item.name) for address, item in calm.items()}
    calm.subscribe("n1", "two", "/a/b[@x]//d")
    calm.subscribe("n2", "three", "/a/b/c")
    calm.unsubscribe("n1", "two")
    calm.unsubscribe("n2", "three")
    assert {(address, item.key, item.name) for address, item in calm.items()} == alone
    calm.publish("n3", xml("d", "<a><b x='1'><c/><d/></b></a>"))
    assert calm.told("d") == ["one"]
    calm.unsubscribe("n1", "one")
    assert calm.items() == []
    assert calm.what(Ended) == [Ended("two"), Ended("three"), Ended("one")]
    calm.subscribe("n1", "one", "//c")
    calm.publish("n3", xml("e", "<a><c/></a>"))
    assert calm.told("e") == ["one"]


def test_a_query_can_be_changed_under_its_name():
    calm = CalmStates(5)
    calm.subscribe("n1", "s", "/a/b")
    calm.subscribe("n1", "s", "/a/c[. = 2]")
    assert calm.what(Standing) == [Standing("s", 1), Standing("s", 2)]
    wanted = places_of(parse_xpath("/a/c[. = 2]"), "s", "n1", 0)
    assert {(item.key, item.name) for _, item in calm.items()} == {(ring_key(state), name) for state, name in wanted}
    for id, text in (("d1", "<a><b/></a>"), ("d2", "<a><c>2</c></a>"), ("d3", "<a><c>3</c></a>")):
        calm.publish("n2", xml(id, text))
    assert [notice.document for _, notice in calm.notices()] == ["d2"]


def test_branches_are_joined_at_the_element_they_share():
    """§2: splitting alone would say too much."""
    for execution in Execution:
        calm = CalmStates(6, StateSettings(execution=execution, length=1))
        calm.subscribe("n1", "s", "/r/a[b]/c")
        calm.publish("n2", xml("apart", "<r><a><b/></a><a><c/></a></r>"))
        calm.publish("n2", xml("together", "<r><a/><a><b/><c/></a></r>"))
        assert [notice.document for _, notice in calm.notices()] == ["together"]


def test_what_cannot_be_is_refused_before_anything_is_sent():
    calm = CalmStates(3)
    for text in ("", "a[", "/a/following::b"):
        with pytest.raises(TocsinError):
            calm.subscribe("n0", "s", text)
    with pytest.raises(SettingError, match="name"):
        calm.subscribe("n0", "", "/a")
    with pytest.raises(SettingError, match="no XML"):
        calm.publish("n0", Document("d"))
    with pytest.raises(TocsinError):
        calm.publish("n0", xml("d", "<a><b></a>"))
    calm.publish("n0", xml("d", "<a/>", 2))
    with pytest.raises(SettingError, match="not newer"):
        calm.publish("n0", xml("d", "<a/>", 2))
    with pytest.raises(SettingError):
        StateSettings(length=-1)
    assert calm.spent()[0]["IndexQuery"] == calm.requests()["IndexQuery"] == 0


# --- the parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "length", "labels"),
    [(0, 0, ("$", "a")), (1, 0, ("a",)), (2, 0, ("b",)), (2, 1, ("b", "$", "c")), (0, 1, ("$", "a", "b")),
     (4, 3, ("c",)), (5, 2, ()), (0, 9, ("$", "a", "b", "$", "c"))],
)  # fmt: skip
def test_an_owner_knows_the_labels_that_its_length_reaches(depth, length, labels):
    assert tail(("$", "a", "b", "$", "c"), depth, length) == labels


def test_pieces_have_the_paths_of_the_document_each_once():
    tangle = Tangle(5)
    for _ in range(20):
        markup = read_markup(tangle.document())
        whole = paths_in(list(pieces_of(markup, 1 << 20)))
        for bytes_max in (1, 60, 200):
            assert paths_in(list(pieces_of(markup, bytes_max))) == whole
            assert sum(whole.values()) == len(markup.tree.names)


def paths_in(pieces: list[Piece]) -> Counter[tuple[str, ...]]:
    found = Counter[tuple[str, ...]]()
    for piece in pieces:
        outline = Outline(piece)
        above: dict[int, tuple[str, ...]] = {-1: ()}
        for parent, children in outline.children.items():
            for child in children:
                above[child] = (*above[parent], outline.name(child))
                found[above[child]] += not outline.is_ghost(child)
    return found


def test_every_message_goes_through_the_codec_and_virtual_nodes_change_nothing():
    tangle = Tangle(2)
    queries = ["//a", "/*/b//c", "//a[@x]/b", "//c[. = 1]", "//text()", "/a"]
    calm = CalmStates(virtual_ring(4, 3), StateSettings(length=2, fragment_bytes_max=80), decode=codec.decode)
    assert Counter(host_of(address) for address in calm.sites) == Counter({f"n{host}": 3 for host in range(4)})
    for number, text in enumerate(queries):
        calm.subscribe("n0#1", f"s{number}", text)
    for number in range(6):
        text = tangle.document()
        calm.publish("n2#0", xml(f"d{number}", text))
        held = [f"s{one}" for one, query in enumerate(queries) if holds_xpath(parse_xpath(query), read_markup(text))]
        assert calm.told(f"d{number}") == held


def test_one_node_alone_runs_deep_documents_and_long_queries():
    """Everything is local then: calls must not pile up."""
    text = "<a>" * 150 + "<b/>" + "</a>" * 150
    queries = ["/a" * 140, "//a//a//a//b", "/a" * 140 + "/b"]
    calm = CalmStates(1)
    for number, query in enumerate(queries):
        calm.subscribe("n0", f"s{number}", query)
    calm.publish("n0", xml("d", text))
    assert calm.told("d") == ["s0", "s1"]


# --- load shedding ---------------------------------------------------------------------------------------------------


def test_an_overloaded_state_gets_copies_that_take_requests_and_learn_new_queries():
    """§6.4: more than a share of the documents came; so many other peers help; threshold and number are settings."""
    settings = StateSettings(copies=3, overload_share=0.5, overload_documents_min=4)
    calm = CalmStates(12, settings, chord=ChordSettings(replicas=1))
    calm.subscribe("n1", "hot", "/a/b")
    calm.subscribe("n1", "cold", "/a/rare/x")
    for number in range(40):
        rare = "<rare><x/></rare>" if number % 4 == 0 else ""
        calm.publish(f"n{number % 12}", xml(f"d{number}", f"<a><b/>{rare}</a>"))
    assert helped(calm) == dict.fromkeys(((), ("a",), ("a", "b")), (1, 2, 3))  # a quarter is less than half
    held = {item.key for _, item in calm.items()}
    assert {ring_key(("a",), copy) for copy in (1, 2, 3)} <= held
    before = Counter({address: site.states.owner.requests["RecExpandState"] for address, site in calm.sites.items()})
    calm.subscribe("n2", "late", "/a/c")
    for number in range(40, 80):
        calm.publish(f"n{number % 12}", xml(f"d{number}", "<a><b/><c/></a>"))
        assert calm.told(f"d{number}") == ["hot", "late"]
    owners = {calm.owner(ring_key(("a",), copy)) for copy in range(4)}
    later = Counter({address: site.states.owner.requests["RecExpandState"] for address, site in calm.sites.items()})
    assert all((later - before)[address] > 0 for address in owners)
    for id, owner in (("hot", "n1"), ("cold", "n1"), ("late", "n2")):
        calm.unsubscribe(owner, id)
    assert [item for _, item in calm.items() if item.name != COPIED_NAME] == []


def helped(calm: CalmStates) -> dict[tuple[str, ...], tuple[int, ...]]:
    found = [help for site in calm.sites.values() for help in site.states.owner.shedding.helped()]
    assert all(help.phase == READY for help in found)
    return {help.state: help.numbers for help in found}


@pytest.mark.parametrize("execution", Execution)
def test_copies_are_given_back_when_few_documents_come_and_made_again_when_many_do(execution):
    """The paper makes copies only. Some publishers know of them long after they are gone: nothing is missed."""
    settings = StateSettings(
        copies=3, overload_share=0.5, overload_documents_min=4, relief_share=0.25, relief_documents_min=32
    )
    calm = CalmStates(12, settings, chord=ChordSettings(replicas=1))
    calm.sites["n11"].states.publisher.settings = replace(settings, execution=execution)
    calm.subscribe("n1", "hot", "/a/b")
    calm.subscribe("n1", "other", "/z")
    number = 0

    def publish(count: int, share: int, publishers: int = 11) -> None:
        nonlocal number
        for _ in range(count):
            number += 1
            text, told = ("<a><b/></a>", "hot") if number % share == 0 else ("<z/>", "other")
            calm.publish(f"n{number % publishers}", xml(f"d{number}", text))
            assert told in calm.told(f"d{number}")

    publish(30, 1)
    calm.publish("n11", xml("early", "<a><b/></a>"))  # it hears of the copies
    assert {("a",), ("a", "b")} <= helped(calm).keys()
    publish(160, 8)
    assert helped(calm).keys() == {(), ("z",)}  # every document still begins at the start, and most go on to z
    states = {("a",): (), ("a", "b"): (), **helped(calm)}
    kept = {ring_key(state, copy) for state, numbers in states.items() for copy in (0, *numbers)}
    assert {item.key for _, item in calm.items()} == kept
    calm.subscribe("n2", "late", "/a/b")
    for again in range(8):
        calm.publish("n11", xml(f"old{again}", "<a><b/></a>"))
        assert calm.told(f"old{again}") == ["hot", "late"]
    publish(40, 1)
    assert min(helped(calm)["a",]) > NUMBERS  # not those that were removed
    calm.publish("n11", xml("last", "<a><b/></a>"))
    assert calm.told("last") == ["hot", "late"]
    for id, owner in (("hot", "n1"), ("other", "n1"), ("late", "n2")):
        calm.unsubscribe(owner, id)
    assert [item for _, item in calm.items() if item.name != COPIED_NAME] == []


def test_help_that_would_come_and_go_is_refused():
    with pytest.raises(SettingError, match="relief_share"):
        StateSettings(overload_share=0.1, relief_share=0.2)


# --- nonsense --------------------------------------------------------------------------------------------------------

STRANGER = peer("n4")
BROKEN = [
    ((), ((0, 0, 1, 1),), 0),  # a name that is not there
    (("a",), ((0, 0),), 0),  # no position
    (("a",), ((0, 5, 6, 1), (0, 2, 3, 1)), 0),  # not in order
    (("a",), ((0, 0, 9, 1), (0, 1, 2, 7)), 0),  # too deep
]


@pytest.mark.parametrize(("names", "events", "ghosts"), BROKEN)
def test_a_broken_outline_is_dropped_and_counted(names, events, ghosts):
    calm = CalmStates(5)
    calm.subscribe("n1", "s", "/a")
    owner = calm.sites[calm.owner(ring_key(()))]
    message = RecExpandState(1, STRANGER, STRANGER, 1, "d", 1, (), 0, names, events, ghosts, 0)
    assert owner.chord.route(ring_key(()), message, 0.0) == []
    assert owner.dropped == 1
    calm.publish("n2", xml("d", "<a/>"))
    assert calm.told("d") == ["s"]


def test_items_that_are_not_of_the_state_are_dropped_and_nonsense_in_items_is_passed_over():
    calm = CalmStates(5)
    key = ring_key(())
    owner = calm.sites[calm.owner(key)]
    for items in ((), (Item(key + 1, STATE_KIND, b"", 1, b""),), (Item(key, 1, b"", 1, b""),)):
        assert owner.chord.route(key, IndexQuery(1, STRANGER, items), 0.0) == []
    assert owner.dropped == 3
    junk = [b"", b"\xc1", b"\x93\x00\x01\x02", b"\x92\x01\x91\x05", b"\x93\x01\xa1s\x91\xa1a"]
    assert fragment_of([Item(key, STATE_KIND, name, 1, b"\xc1") for name in junk]).accepts == []
    assert Entry.unpacked(b"\x97\x01\x02\x03\x04\x05\x06\x07") is None
    calm.subscribe("n1", "s", "/a[b]")
    publisher = calm.sites["n2"]
    calm.world.invoke("n2", lambda site, now: site.states.publisher.publish(xml("d", "<a><b/></a>"), now))
    number = next(iter(publisher.states.publisher._open))
    forged = Entry("s", "n1", "//[", (), 0, 0, 1).packed()
    calm.world.invoke("n2", lambda site, now: site.handle(Candidates(9, STRANGER, number, (b"\xc1", forged)), now))
    calm.world.run(calm.world.now + 3)
    assert calm.what(Published) == [Published("d", 1)]
