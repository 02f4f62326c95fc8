"""MAPS in its parts, under faults, and with bugs planted; the paper's claims are in tests/paper/test_maps.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from random import Random

import numpy as np
import pytest

from tocsin.errors import QueryError, SettingError
from tocsin.model import Document
from tocsin.overlay.message import Item, decode, encode, peer
from tocsin.overlay.node import Send
from tocsin.overlay.placement.client import Client
from tocsin.overlay.placement.publishers import publisher
from tocsin.overlay.placement.publishers.audit import Round, recall_of
from tocsin.overlay.placement.publishers.correlation import Correlations, cover, set_name
from tocsin.overlay.placement.publishers.directory import STATISTICS_KIND, figures_of, summary_item, term_key
from tocsin.overlay.placement.publishers.messages import (
    Audit,
    Audited,
    Carried,
    Figures,
    Keep,
    Post,
    Posted,
    Statistics,
)
from tocsin.overlay.placement.publishers.placement import Publishers
from tocsin.overlay.placement.publishers.posting import Owners
from tocsin.overlay.placement.publishers.prediction import forecast
from tocsin.overlay.placement.publishers.publisher import Publisher
from tocsin.overlay.placement.publishers.selection import Evidence, best, gather, monitored, rank, score, selection
from tocsin.overlay.placement.publishers.settings import EXACT, Approximate, PublishersSettings
from tocsin.overlay.placement.publishers.subscriber import Repositioned, Subscriber
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.overlay.placement.words import Words
from tocsin.query.semantics import Knowledge
from tocsin.sim.maps_checks import MapsScenario, draw_maps, run_maps
from tocsin.sim.maps_world import MapsRing, MapsSite, equip
from tocsin.sim.placements import PlacementScenario

SEEDS = 3
SEEDS_SLOW = 100
STRANGER = peer("stranger")
ONLY_MAPS = PublishersSettings(exact=False)


def document(id: str, text: str, version: int = 1) -> Document:
    return Document(id, {"text": (text,)}, version=version)


# --- prediction, selection -------------------------------------------------------------------------------------------


def smoothed(series: Sequence[float], level_weight: float, trend_weight: float) -> float:
    """Double exponential smoothing, point by point."""
    level, trend = series[0], 0.0
    for point in series[1:]:
        level, before = level_weight * point + (1 - level_weight) * (level + trend), level
        trend = trend_weight * (level - before) + (1 - trend_weight) * trend
    return max(0.0, level + trend)


def test_prediction_is_double_exponential_smoothing():
    chance = Random(1)
    rows = [[chance.randrange(50) for _ in range(6)] for _ in range(40)]
    found = forecast(np.array(rows, float), 0.5, 0.3)
    assert found.tolist() == pytest.approx([smoothed(row, 0.5, 0.3) for row in rows])


def test_prediction_follows_a_trend_and_forgets_who_falls_silent():
    rising, steady, silent = forecast(np.array([[0, 2, 4, 6, 8], [8, 8, 8, 8, 8], [60, 60, 0, 0, 0]], float), 0.5, 0.5)
    assert rising > 8 - 1
    assert steady == 8
    assert silent < steady


def cori(documents: list[int], words: list[int], publishers: int, mean: float, at: int) -> float:
    """One term, one publisher, as the formula is written."""
    df, holders = documents[at], sum(count > 0 for count in documents)
    often = df / (df + 50 + 150 * words[at] / mean)
    rare = log((publishers + 0.5) / holders) / log(publishers + 1.0)
    return 0.4 + 0.6 * often * rare


def test_selection_is_cori():
    documents, words = [[30, 0, 7], [2, 9, 100]], [500, 100, 3_000]
    evidence = Evidence(np.array(documents, float), np.zeros((2, 3, 4)), np.array(words, float), 10, 800.0)
    expected = [np.mean([cori(term, words, 10, 800.0, at) for term in documents]) for at in range(3)]
    assert selection(evidence).tolist() == pytest.approx(expected)


def test_scores_lie_between_0_and_1_and_alpha_weighs_them():
    chance = np.random.default_rng(3)
    series = chance.integers(0, 9, (2, 6, 4)).astype(float)
    evidence = Evidence(series.sum(axis=2) * 2, series, chance.integers(50, 99, 6).astype(float), 8, 70.0)
    low, half, high = (score(evidence, alpha, ONLY_MAPS) for alpha in (0.0, 0.5, 1.0))
    assert half.tolist() == pytest.approx(((low + high) / 2).tolist())
    assert all(0 <= one <= 1 for one in (*low, *high))
    assert max(low) == max(high) == 1


def test_who_has_a_set_comes_before_who_has_not():
    words = Evidence(np.array([[50.0, 3.0, 0.0]]), np.array([[[50.0], [3.0], [0.0]]]), np.ones(3), 3, 1.0)
    sets = replace(words, documents=np.array([[0.0, 2.0, 0.0]]), series=np.array([[[0.0], [2.0], [0.0]]]))
    found = rank(words, sets, 0.5, ONLY_MAPS)
    assert best(found, 3) == [1, 0]
    assert best(rank(words, None, 0.5, ONLY_MAPS), 3) == [0, 1]


def test_how_many_publishers_are_monitored():
    assert [monitored(rho, 1_000) for rho in (0.0001, 0.01, 0.1, 0.25, 1.0)] == [1, 10, 100, 250, 1_000]


def test_who_has_not_posted_since_has_published_nothing_since():
    figures = (Figures("a", 0, 9, 40, 5, (1, 2, 3)), Figures("b", 0, 4, 10, 7, (0, 0, 4)))
    names, evidence = gather([figures], 7, 5, 100, 3)
    assert names == ["a", "b"]
    assert evidence.series.tolist() == [[[3, 0, 0], [0, 0, 4]]]
    assert evidence.words_mean == 20


@pytest.mark.parametrize(("rho", "alpha"), [(0.0, 0.5), (1.1, 0.5), (0.1, -0.1), (0.1, 1.1)])
def test_shares_and_weights_that_cannot_be_are_refused(rho, alpha):
    with pytest.raises(SettingError, match=r"rho|alpha"):
        Approximate(rho, alpha)


@pytest.mark.parametrize("wrong", [{"interval_seconds": 0}, {"window": 0}, {"level_weight": 0}, {"trend_weight": 2}])
def test_settings_that_cannot_work_are_refused(wrong):
    with pytest.raises(SettingError, match=r"series|smoothing"):
        PublishersSettings(**wrong)


# --- correlated words ------------------------------------------------------------------------------------------------


def test_a_set_is_recognised_when_enough_ask_for_it():
    learnt = Correlations(support=2, confidence=0.5, words_max=3)
    both = set_name(["b", "a"])
    assert learnt.learn("a", "s1", ["a", "b"]) == []
    assert learnt.learn("a", "s1", ["a", "b"]) == []  # the same subscription again
    assert learnt.learn("a", "s2", ["a", "b", "c"]) == [both]
    assert learnt.learn("a", "s3", ["a", "c"]) == [set_name(["a", "c"])]
    assert learnt.learn("b", "s2", ["a", "b", "c"]) == []  # at the node of b it was asked for once


def test_a_set_that_few_of_many_ask_for_is_not_recognised():
    learnt = Correlations(support=2, confidence=0.5, words_max=3)
    for number in range(10):
        learnt.learn("a", f"other{number}", ["a"])
    learnt.learn("a", "s1", ["a", "b"])
    assert learnt.learn("a", "s2", ["a", "b"]) == []


def test_a_query_that_changes_is_counted_as_it_is_now():
    learnt = Correlations(support=2, confidence=0.0, words_max=4)
    learnt.learn("a", "s1", ["a", "b"])
    learnt.learn("a", "s1", ["a", "c"])
    assert learnt.learn("a", "s2", ["a", "b"]) == []


def test_the_largest_sets_stand_for_a_query():
    sets = [set_name(some) for some in (["a", "b"], ["b", "c"], ["a", "b", "c"], ["d", "x"])]
    assert cover(["a", "b", "c", "d"], sets) == [set_name(["a", "b", "c"])]
    assert cover(["a", "b"], [sets[1]]) == []


# --- the audit -------------------------------------------------------------------------------------------------------


def test_recall_is_what_was_heard_of_what_was_heard_and_missed():
    found = recall_of([Round(60, 5, 20, (4, 0, 2, 2))])
    assert found is not None
    assert found.value == pytest.approx(60 / (60 + 40))
    assert found.low < found.value < found.high <= 60 / (60 + 8)  # 8 were seen to be missed


def test_if_everybody_was_asked_recall_is_known():
    found = recall_of([Round(9, 1, 3, (1, 0, 0)), Round(5, 4, 0, ())])
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((14 / 15,) * 3)


def test_nothing_seen_to_be_missed_is_not_taken_for_everything():
    found = recall_of([Round(50, 10, 90, (0,) * 9)])
    assert found is not None
    assert found.value == found.high == 1
    assert found.low < 0.5


def test_without_matches_or_answers_there_is_no_recall():
    assert recall_of([]) is None
    assert recall_of([Round(0, 1, 9, (0, 0))]) is None
    assert recall_of([Round(5, 1, 9, ())]) is None


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    chance = np.random.default_rng(5)
    inside = 0
    for _ in range(300):
        rounds, heard, every = [], 0, 0
        for _ in range(10):
            missed = chance.poisson(np.where(chance.random(90) < 0.2, 1.5, 0.02))
            got = int(chance.poisson(60))
            heard, every = heard + got, every + got + int(missed.sum())
            rounds.append(Round(got, 10, 90, tuple(chance.choice(missed, 11, replace=False).tolist())))
        found = recall_of(rounds)
        assert found is not None
        inside += found.low <= heard / every <= found.high
    assert inside / 300 > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_every_document_is_heard_or_missed_once_whatever_moves_while_it_is_published(seed):
    """Everybody is asked, so recall is known: documents of each moment, also of those in which publishers are ranked
    and queries move from one to another, count once. The topic wanders over the publishers, so queries do move."""
    settings = PublishersSettings(
        interval_seconds=4.0, carry_seconds=0.3, reposition_seconds=4.0, exact=False, audit_publishers=9,
        audit_rounds=1_000, window=3,
    )  # fmt: skip
    ring, chance, number = MapsRing(8, settings, seed=seed), Random(f"wandering {seed}"), 0

    def publish_until(time: float) -> list[str]:
        nonlocal number
        matching = []
        while ring.world.now < time:
            number += 1
            topic = int(ring.world.now / 10) % 8
            who = topic if chance.random() < 0.5 else chance.randrange(8)
            text = "ring of nodes" if who == topic or chance.random() < 0.3 else "something else"
            ring.publish(f"n{who}", document(f"d{number}", text))
            matching += [f"d{number}"] * ("ring" in text)
            ring.run(chance.choice([0.01, 0.05, 0.2]))
        return matching

    publish_until(12.0)
    ring.subscribe("n5", "s", "ring", Approximate(0.3, 0.25))  # its first ranking is where the first period begins
    ring.run(1)
    due = publish_until(120.0)
    ring.run(30)  # whatever was published last has its ranking, too
    heard = {notice.document for _, notice in ring.notices()}
    chosen = {what.publishers for _, _, what in ring.seen if isinstance(what, Repositioned)}
    assert len(chosen) > 3  # they did move
    found = ring.site("n5").maps.subscriber.report("s").recall
    assert found is not None
    assert heard < set(due)
    assert found.heard == len(heard)
    assert found.value == pytest.approx(len(heard) / len(due), abs=1e-9)
    assert found.low == found.high == pytest.approx(found.value)


def test_an_audit_asks_for_a_time_that_has_an_end():
    """What is published while publishers are ranked belongs to the next period, however long that takes."""
    ring = MapsRing(4, ONLY_MAPS)
    for number in range(6):
        ring.publish("n1", document(f"d{number}", "ring" if number != 2 else "something else"))
        ring.run(1)
    site, now = ring.site("n1"), ring.world.now  # they were published 6, 5, 4, 3, 2 and 1 seconds ago
    for since, until, count in ((10_000, 0, 5), (5_500, 1_500, 3), (1_500, 0, 1), (5_500, 5_500, 0), (0, 0, 0)):
        (answer,) = site.handle(Audit(1, STRANGER, "s", "ring", since, until), now)
        assert answer == Send("stranger", Audited(1, count))


# --- posts -----------------------------------------------------------------------------------------------------------


def test_owners_are_known_by_their_ranges():
    owners = Owners()
    owners.learn(100, 200, "a")
    owners.learn(900, 50, "b")  # over the end of the ring
    assert [owners.of(key) for key in (101, 200, 201, 100, 901, 3, 50, 51)] == [
        "a", "a", None, None, "b", "b", "b", None,
    ]  # fmt: skip
    owners.learn(100, 150, "c")  # it has joined
    assert [owners.of(key) for key in (120, 180)] == ["c", "a"]
    owners.forget("c")
    assert owners.of(160) == "a"


def test_posts_ride_on_any_message_to_their_owner_and_the_message_is_heard():
    ring = MapsRing(6, ONLY_MAPS, is_living=True)
    for number, address in enumerate(ring.addresses):
        ring.publish(address, document(f"d{number}", " ".join(f"word{n}" for n in range(60))))
    ring.run_to(1, 0.5)
    savings = [site.maps.posting.savings for site in ring.sites()]
    assert sum(one.carried for one in savings) > 0
    assert ring.world.count()[0]["Carried"] == sum(one.carried for one in savings)
    assert all(site.maps.posting.open == 0 for site in ring.sites())
    assert all(site.membership.suspicions == 0 for site in ring.sites())  # what carried them was not lost
    for n in range(60):
        owner = ring.site(ring.owner(term_key(f"word{n}")))
        assert len(owner.maps.directory.figures(f"word{n}")) == 6


def test_messages_survive_the_codec():
    figures = Figures("a", 1, 2, 3, 4, (5, 6))
    item = summary_item("word", figures, 7)
    keep = Keep(1, STRANGER, "s", 2, "text")
    for message in (Post(1, STRANGER, (item,)), Carried(1, STRANGER, (item,), keep), Statistics(1, (figures,), ("x",))):
        assert decode(encode(message)) == message
    assert figures_of(item) == ("word", figures)


# --- bad input -------------------------------------------------------------------------------------------------------


def lone_site() -> MapsSite:
    site = equip(MapsSite("a"), Knowledge(), ONLY_MAPS)
    site.start(0.0)
    return site


def test_a_publisher_speaks_for_itself_only():
    """An advertisement that lies about others is refused and counted; everybody else goes on."""
    site = lone_site()
    lie = summary_item("word", Figures("victim", 0, 999, 1, 1, (999,)), 99)
    own = summary_item("word", Figures("stranger", 0, 3, 1, 1, (3,)), 1)
    assert site.handle(Post(1, STRANGER, (own, lie)), 1.0) == []
    assert site.dropped == 1
    assert site.maps.directory.figures("word") == []
    answers = [effect.message for effect in site.handle(Post(2, STRANGER, (own,)), 1.0) if isinstance(effect, Send)]
    assert [type(answer) for answer in answers] == [Posted]
    assert [one.publisher for one in site.maps.directory.figures("word")] == ["stranger"]


@pytest.mark.parametrize(
    "nonsense", [Keep(1, STRANGER, "s", 1, "AND AND ("), Audit(1, STRANGER, "s", "AND (", 1_000, 0)]
)
def test_queries_that_cannot_be_read_are_dropped_and_not_answered(nonsense):
    site = lone_site()
    assert site.handle(nonsense, 1.0) == []
    assert site.dropped == 1
    assert site.maps.publisher.kept() == []


@pytest.mark.parametrize("value", [b"\xc1", b"\x93\x01\x02\x03", b"\xa1x", None])
def test_summaries_that_are_no_such_thing_are_passed_over(value):
    assert figures_of(Item(term_key("word"), STATISTICS_KIND, b"word\0a", 1, value)) is None
    assert figures_of(Item(term_key("word"), 40, b"word\0a", 1, b"x")) is None


def test_answers_that_nobody_asked_for_change_nothing():
    site = lone_site()
    assert site.handle(Statistics(99, (), ()), 1.0) == []
    assert site.handle(Posted(99, STRANGER, 0, ("no set", "a", "\x1f")), 1.0) == []


def test_a_late_order_does_not_bring_a_query_back():
    site = lone_site()
    for stamp, text in ((5, "word"), (9, ""), (5, "word"), (7, "other")):
        site.handle(Keep(1, STRANGER, "s", stamp, text), 1.0)
    assert site.maps.publisher.kept() == []
    site.handle(Keep(1, STRANGER, "s", 10, "word"), 1.0)
    assert site.maps.publisher.kept() == [("stranger", "s")]


def test_what_cannot_be_subscribed_to_is_said():
    site = equip(MapsSite("a"), Knowledge(), PublishersSettings())
    site.start(0.0)
    subscriber = site.maps.subscriber
    with pytest.raises(SettingError, match="asks for no word"):
        subscriber.subscribe("s", "year > 2000", 1.0, Approximate(0.1))
    with pytest.raises(SettingError, match="no name"):
        subscriber.subscribe("two words", "ring", 1.0, Approximate(0.1))
    with pytest.raises(QueryError):
        subscriber.subscribe("s", "AND (", 1.0, Approximate(0.1))
    subscriber.subscribe("exact", "ring", 1.0, EXACT)
    with pytest.raises(SettingError, match="is an exact subscription"):
        subscriber.subscribe("exact", "ring", 2.0, Approximate(0.1))
    subscriber.subscribe("approximate", "ring", 1.0, Approximate(0.1))
    with pytest.raises(SettingError, match="is an approximate subscription"):
        subscriber.subscribe("approximate", "ring", 2.0, EXACT)
    with pytest.raises(SettingError, match="approximate subscriptions only"):
        lone_site().maps.subscriber.subscribe("s", "ring", 1.0, EXACT)
    with pytest.raises(TypeError, match="members of the ring"):
        Publishers(Words(Client("c", ["a"]), Knowledge()))


def test_a_version_that_is_not_newer_is_refused():
    site = lone_site()
    site.maps.publisher.publish(document("d", "ring", 2), 1.0)
    with pytest.raises(SettingError, match="not newer"):
        site.maps.publisher.publish(document("d", "ring", 2), 2.0)


# --- what is kept over a crash ---------------------------------------------------------------------------------------


def placed(settings: PublishersSettings = ONLY_MAPS) -> MapsRing:
    """n1 publishes on rings, and n5 has subscribed."""
    ring = MapsRing(8, settings, is_living=True)
    for interval in range(1, 3):
        ring.run_to(interval, 0.8)
        for number in range(5):
            ring.publish("n1", document(f"d{interval}-{number}", "ring of nodes"))
    ring.run_to(3, 0.2)
    ring.subscribe("n5", "s", "ring", Approximate(0.5, 0.25))
    ring.run(10)
    assert ring.keepers("s") == {"n1"}
    return ring


def test_publisher_and_subscriber_go_on_after_a_crash_with_their_disks():
    ring = placed()
    ring.publish("n1", document("x", "ring"))
    for machine in ("n1", "n5"):
        ring.world.crash(machine)  # before the notice arrives
    ring.run(20)
    for machine in ("n1", "n5"):
        ring.world.restart(machine, keeps_disk=True)
    ring.run(60)
    assert [notice.document for _, notice in ring.notices()] == ["x"]
    ring.publish("n1", document("y", "ring"))
    ring.run(10)
    assert [notice.document for _, notice in ring.notices()] == ["x", "y"]
    ring.unsubscribe("n5", "s")
    ring.run(20)
    assert ring.keepers("s") == set()
    assert [what.id for _, _, what in ring.seen if isinstance(what, Ended)] == ["s"]


def test_a_publisher_that_lost_its_disk_is_given_the_query_again():
    ring = placed()
    ring.world.crash("n1")
    ring.run(20)
    ring.world.restart("n1", keeps_disk=False)
    ring.run(30)
    assert ring.keepers("s") == set()
    ring.publish("n1", document("again", "ring"))  # not heard: nobody knows yet; but it posts, in another life
    ring.run(150)
    assert ring.keepers("s") == {"n1"}
    ring.publish("n1", document("z", "ring"))
    ring.run(10)
    assert [notice.document for _, notice in ring.notices()] == ["z"]


def test_queries_of_a_subscriber_that_lost_its_disk_are_sent_away():
    ring = placed()
    ring.world.crash("n5")
    ring.run(20)
    ring.world.restart("n5", keeps_disk=False)
    ring.run(30)
    assert ring.keepers("s") == {"n1"}
    ring.publish("n1", document("stray", "ring"))
    ring.run(60)
    assert ring.keepers("s") == set()
    assert ring.notices() == []


def test_a_withdrawn_document_leaves_the_statistics():
    ring = placed()
    ring.do("n1", lambda maps, now: maps.publisher.withdraw("d1-0", now))
    ring.publish("n1", document("d1-1", "nothing of it", 2))
    ring.run(100)
    found = ring.site(ring.owner(term_key("ring"))).maps.directory.figures("ring")
    assert [(one.publisher, one.documents) for one in found] == [("n1", 8)]


def test_another_query_under_the_same_name():
    ring = placed()
    ring.subscribe("n5", "s", "nodes AND of", Approximate(0.5, 0.25))
    ring.run(10)
    assert [what.version for _, _, what in ring.seen if isinstance(what, Standing)] == [1, 2]
    ring.publish("n1", document("old", "ring"))
    ring.publish("n1", document("new", "of nodes"))
    ring.run(10)
    assert [notice.document for _, notice in ring.notices()] == ["new"]


def test_a_query_that_changed_right_before_a_crash_changes_everywhere():
    """The old order must not be given again with the new text: who has it would take it for the same."""
    ring = placed()
    ring.subscribe("n5", "s", "nodes AND of", Approximate(0.5, 0.25))
    ring.world.crash("n5")  # before the directory has answered
    ring.run(20)
    ring.world.restart("n5", keeps_disk=True)
    ring.run(20)
    ring.publish("n1", document("old", "ring"))
    ring.publish("n1", document("new", "of nodes"))
    ring.run(10)
    assert [notice.document for _, notice in ring.notices()] == ["new"]


# --- under faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_notice_is_wrong_or_twice_and_no_copy_stays_under_faults(seed):
    """Loss, duplication, delay, partitions, crashes with and without disks, joins and leaves."""
    outcome = run_maps(seed)
    assert not outcome.violations, str(outcome)
    assert outcome.published


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + SEEDS_SLOW, 20))
def test_no_notice_is_wrong_or_twice_and_no_copy_stays_under_many_faults(first):
    for seed in range(first, first + 20):
        outcome = run_maps(seed)
        assert not outcome.violations, str(outcome)


def test_equal_seeds_give_equal_traces():
    """X3, with MAPS on the ring."""
    drawn = draw_maps(5)
    scenario = replace(drawn, placement=replace(drawn.placement, fault_seconds=10, heal_seconds=20))
    assert run_maps(5, scenario).trace == run_maps(5, scenario).trace


CALM = PlacementScenario(limits=None, fault_seconds=20, heal_seconds=40, query_depth=1, operations=60)


def _tells_without_deciding(patch):
    """A publisher takes every query that waits at a word of the document for a match."""
    patch.setattr(publisher, "decide", lambda registered, held, document, knowledge: True)


def _leaves_a_copy_behind(patch):
    """Unsubscribing forgets a publisher."""
    unsubscribe = Subscriber.unsubscribe

    def leave_one(self, id, now):
        if id in self._records and self._records[id].places:
            self._records[id].places.popitem()
        return unsubscribe(self, id, now)

    patch.setattr(Subscriber, "unsubscribe", leave_one)


def _misses_a_query(patch):
    """A publisher passes over one of the queries that match."""
    matches = Publisher._matches

    def fewer(self, own):
        return set(sorted(matches(self, own))[1:])

    patch.setattr(Publisher, "_matches", fewer)


@pytest.mark.parametrize(
    ("patch", "kind"),
    [(_tells_without_deciding, "wrong"), (_leaves_a_copy_behind, "copies"), (_misses_a_query, "missed")],
)
def test_a_planted_bug_is_caught(patch, kind, monkeypatch):
    patch(monkeypatch)
    scenario = MapsScenario(replace(draw_maps(1).placement, **{
        name: getattr(CALM, name) for name in ("limits", "fault_seconds", "heal_seconds", "operations")
    }), draw_maps(1).maps)  # fmt: skip
    for seed in range(20):
        if kind in {violation.partition(":")[0] for violation in run_maps(seed, scenario).violations}:
            return
    pytest.fail("no seed out of 20 found the bug")
