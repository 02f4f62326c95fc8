"""Knowledge downstream, curiosity upstream, over a channel that loses, repeats and reorders (§3.1, §3.2)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.views.knowledge import Curiosity, Knowledge, Merger, Publisher, Receiver, TickStore
from tocsin.views.ticks import FIRST_TICK, LAST_TICK, Ticks
from tocsin.views.value import SILENT, UNKNOWN

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


@given(RANGES, st.integers(0, 40), st.integers(0, 40))
def test_ranges_of_ticks_are_sets_of_ticks(ranges, first, last):
    ticks, plain = Ticks(), set[int]()
    for start, end in ranges:
        new = ticks.add(start, end)
        fresh = set(range(start, end + 1)) - plain
        assert {tick for a, b in new for tick in range(a, b + 1)} == fresh
        plain |= fresh
    assert {tick for tick in range(50) if tick in ticks} == plain
    assert ticks.count() == len(plain)
    wanted = set(range(first, last + 1))
    assert {tick for a, b in ticks.missing(first, last) for tick in range(a, b + 1)} == wanted - plain
    assert ticks.missing_count(first, last) == len(wanted - plain)
    assert ticks.covers(first, last) == (wanted <= plain)
    between = [(b, a) for (_, b), (a, _) in zip(ticks.ranges(), ticks.ranges()[1:], strict=False)]
    assert all(b + 1 < a for b, a in between), "ranges are apart"
    assert ticks.horizon(first) == next(t for t in range(first - 1, 60) if t + 1 not in plain)
    assert Ticks(ticks.ranges()) == ticks == ticks.copy()
    assert Ticks(ranges[:3]) <= ticks


def deliver(seed: int, loss: float, events: int = 60) -> tuple[Publisher, Receiver, list, int]:
    """One publisher and one receiver; every message is lost, repeated or delayed at random."""
    chance = random.Random(seed)
    publisher, receiver = Publisher("quotes"), Receiver("quotes", patience_seconds=3.0)
    publisher.subscribe("me")
    tick, largest = 0, 0
    sent, got, on_the_way = list[tuple](), list[tuple](), list[tuple]()

    def send(messages):
        for message in messages:
            for _ in range(chance.choice([1, 1, 2])):
                if chance.random() >= loss:
                    on_the_way.append((chance.randint(0, 8), message))

    for now in range(3000):
        if len(sent) < events and chance.random() < 0.5:
            tick += chance.randint(1, 4)
            sent.append((tick, (tick,)))
            send([publisher.publish(tick, (tick,))])
            if len(sent) == events:
                send([publisher.close()])
        arrived = [message for delay, message in on_the_way if delay == 0]
        on_the_way = [(delay - 1, message) for delay, message in on_the_way if delay > 0]
        chance.shuffle(arrived)
        questions = []
        for message in arrived:
            ready, question = receiver.handle(message, float(now))
            got += ready
            questions.append(question)
        wakes = receiver.wakes_at()
        if wakes is not None and wakes <= now:
            questions.append(receiver.wake(float(now)))
        for question in questions:
            if question is not None and chance.random() >= loss:
                send(publisher.handle(question, "me"))
        largest = max(largest, receiver.store.size())
        if receiver.is_complete():
            break
    assert got == sent
    return publisher, receiver, got, largest


@pytest.mark.row("G12")
@pytest.mark.parametrize("seed", range(40))
def test_gaps_fill_in_order_exactly_once_and_the_log_is_trimmed(seed):
    """§3.1: guaranteed delivery over 30 % loss; storage upstream is trimmed after acknowledgements."""
    publisher, receiver, got, _ = deliver(seed, loss=0.3)
    assert receiver.is_complete()
    assert len(got) == 60
    publisher.handle(receiver.wake(1e9) or _acknowledge(receiver), "me")
    assert publisher.store.size() == 1, "nothing is held but one range of known ticks"


def _acknowledge(receiver):
    return Curiosity("quotes", (), receiver.horizon())


def test_nothing_is_asked_for_where_nothing_is_lost():
    publisher, receiver = Publisher("quotes"), Receiver("quotes")
    for tick in range(1, 100, 3):
        ready, question = receiver.handle(publisher.publish(tick, (tick,)), 0.5)
        assert ready == [(tick, (tick,))]
        assert question is not None
        assert question.wanted == ()
        assert question.acknowledged == tick


def test_a_gap_is_asked_for_at_once_and_again_until_it_is_filled():
    publisher, receiver = Publisher("quotes"), Receiver("quotes", patience_seconds=1.0)
    first, lost, third = (publisher.publish(tick, (tick,)) for tick in (5, 9, 12))
    receiver.handle(first, 0.0)
    ready, question = receiver.handle(third, 0.1)
    assert ready == []
    assert question is not None
    assert question.wanted == ((6, 9),)
    assert receiver.wake(0.2).wanted == ()  # type: ignore[union-attr]
    assert (6, 9) in receiver.wake(1.2).wanted  # type: ignore[union-attr]
    (message,) = publisher.handle(question, "me")
    assert (message.tick, message.silent) == (lost.tick, ((6, 8),))
    assert receiver.handle(message, 1.3)[0] == [(9, (9,)), (12, (12,))]
    assert receiver.handle(message, 1.4)[0] == [], "a repeat is ignored"


def test_a_horizon_that_stands_still_raises_curiosity():
    receiver = Receiver("quotes", patience_seconds=2.0)
    receiver.handle(Publisher("quotes").publish(5, ()), 0.0)
    assert receiver.wakes_at() == 2.0
    assert receiver.wake(2.0).wanted == ((6, LAST_TICK),)  # type: ignore[union-attr]


def test_events_are_logged_before_they_are_handed_on():
    logged: list[Knowledge] = []
    publisher = Publisher("quotes", logged.append)
    said = [publisher.publish(3, ("a",)), publisher.silence(8), publisher.publish(9, ("b",))]
    assert logged == said
    risen = Publisher("quotes")
    risen.recover(logged)
    assert risen.store.known == publisher.store.known
    assert risen.store.events(0, 10) == [(3, ("a",)), (9, ("b",))]
    assert risen.publish(12, ("c",)).silent == ((10, 11),)


@pytest.mark.row("G13")
def test_memory_grows_with_gaps_not_with_ticks():
    """§3.1: ranges of silence, a doubt horizon, gaps; merge delays silence until all inputs are silent."""
    store = TickStore()
    for tick in range(0, 1_000_000, 1000):
        store.put(Knowledge("r", ((tick, tick + 998),), tick + 999, ()))
        store.drop(tick + 999)
    assert store.size() == 1
    for gap in range(1, 11):
        start = 1_000_000 + 2000 * gap
        store.put(Knowledge("r", ((start, start + 1500),)))
    assert store.size() == 11
    assert len(store.gaps()) == 11
    assert store.horizon() == FIRST_TICK - 1
    assert (store.at(5), store.at(1_000_001)) == (SILENT, UNKNOWN)

    merger = Merger("both", ["a", "b"])
    assert merger.handle(Knowledge("a", ((FIRST_TICK, 9),))) == []
    assert merger.handle(Knowledge("b", ((FIRST_TICK, 3),), 4, ("x",))) == [
        Knowledge("both", ((FIRST_TICK, 3),), 4, ("b", "x"))
    ]
    assert merger.handle(Knowledge("b", ((5, 20),))) == [Knowledge("both", ((5, 9),))]
    assert merger.handle(Knowledge("b", ((5, 20),))) == []
    assert merger.horizon() == 9
    _, receiver, _, largest = deliver(3, loss=0.3, events=200)
    assert largest < 100, "held until gaps fill, then forgotten"
    assert receiver.store.size() == 1
