"""Notices arrive: numbered, asked for where they are missing, once into an outbox that can be resumed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tocsin.overlay import message as codec
from tocsin.overlay.delivery import Delivery, Heard, Notice, Notified, Notify
from tocsin.overlay.message import peer
from tocsin.overlay.node import Deliver, Node, Send
from tocsin.sim.faults import Crash, Faults, Partition
from tocsin.sim.world import World, constant


class Post(Node):
    """A node that only delivers."""

    def __init__(self, address: str, disk: dict[bytes, bytes] | None = None, life: int = 0) -> None:
        super().__init__(peer(address))
        self.delivery = Delivery(self, disk, life)


def notice(number: int) -> Notice:
    return Notice("s", f"d{number}", 1, "source")


def posts(faults: Faults, notices: int = 40, until: float = 200.0) -> tuple[World, list[int], list[str]]:
    """a tells b; who was called back, and what b was told."""
    world = World(3, faults=faults, latency=constant(0.1), decode=codec.decode)
    for address in "ab":
        world.add(address, partial(Post, address))
    world.schedule()
    done: list[int] = []

    def tell(number: int) -> Any:
        def then(now: float) -> list[Any]:
            done.append(number)
            return []

        return lambda world: world.invoke("a", lambda node, now: node.delivery.tell("b", notice(number), now, then))

    for number in range(notices):
        world.at(number * 0.5, tell(number))
    world.run(until)
    found = [effect.what for _, who, effect in world.delivered if isinstance(effect.what, Notified) and who == "b"]
    return world, done, [one.notice.document for one in found]


ALL = [f"d{number}" for number in range(40)]


def test_without_trouble_each_notice_takes_two_messages():
    world, done, had = posts(Faults())
    assert had == ALL
    assert done == list(range(40))
    assert world.count()[0] == {"Notify": 40, "Heard": 40}


@pytest.mark.parametrize(
    "faults",
    [
        Faults(until=60, loss=0.5),
        Faults(until=60, duplication=0.9),
        Faults(until=60, delayed=0.5, delay_seconds_max=10),
        Faults(until=60, loss=0.3, duplication=0.3, delayed=0.3, delay_seconds_max=10),
        Faults(until=60, partitions=(Partition(5, 50, frozenset("b"), False),)),
        Faults(until=60, partitions=(Partition(5, 50, frozenset("a"), True),)),
        Faults(until=60, crashes=(Crash(7.3, "b", 30.0, True),)),
    ],
)
def test_each_notice_enters_the_outbox_once_whatever_the_network_does(faults):
    world, done, had = posts(faults)
    assert sorted(had, key=ALL.index) == ALL
    assert sorted(done) == list(range(40))
    assert [number for number, _ in world.process("b").delivery.outbox()] == list(range(1, 41))


def test_whoever_waits_is_called_only_when_the_subscriber_has_it():
    _, done, had = posts(Faults(until=1_000, partitions=(Partition(5.2, 1_000, frozenset("b"), False),)))
    assert done == list(range(11))
    assert had == ALL[:11]


def test_a_gap_is_asked_for_at_once():
    node = Post("b")
    sender = peer("a")
    assert node.handle(Notify(sender, 0, 1, 1, notice(1)), 0.0)[-1] == Send("a", Heard(node.me, 0, 1, ()))
    assert node.handle(Notify(sender, 0, 4, 1, notice(4)), 0.0)[-1] == Send("a", Heard(node.me, 0, 4, (2, 3)))
    assert node.handle(Notify(sender, 0, 2, 2, notice(2)), 0.0)[-1] == Send("a", Heard(node.me, 0, 4, (3,)))
    assert node.handle(Notify(sender, 0, 3, 3, notice(3)), 0.0)[-1] == Send("a", Heard(node.me, 0, 4, ()))


def test_a_sender_sends_what_is_asked_for_and_nothing_else():
    node = Post("a")
    for number in (1, 2, 3):
        node.delivery.tell("b", notice(number), 0.0, lambda now: [])
    again = node.handle(Heard(peer("b"), 0, 3, (2,)), 1.0)
    sent = [effect.message for effect in again if isinstance(effect, Send)]
    assert [message.number for message in sent if isinstance(message, Notify)] == [2]
    assert node.delivery.open_to("b") == 1
    assert node.handle(Heard(peer("b"), 7, 3, ()), 1.0) == []
    assert node.delivery.open_to("b") == 1


def test_a_reader_resumes_after_any_number_and_after_a_restart():
    disk: dict[bytes, bytes] = {}
    node = Post("b", disk)
    for number in (1, 2, 3):
        node.handle(Notify(peer("a"), 0, number, 1, notice(number)), 0.0)
    assert [(number, one.document) for number, one in node.delivery.outbox(after=1)] == [(2, "d2"), (3, "d3")]
    again = Post("b", disk, 1)
    assert list(again.delivery.outbox()) == list(node.delivery.outbox())
    told = again.handle(Notify(peer("c"), 0, 1, 1, notice(2)), 0.0)  # from another sender, and after the restart
    assert not [effect for effect in told if isinstance(effect, Deliver)]


def test_what_was_read_for_good_is_forgotten_and_still_known():
    disk: dict[bytes, bytes] = {}
    node = Post("b", disk)
    for number in (1, 2, 3):
        node.handle(Notify(peer("a"), 0, number, 1, notice(number)), 0.0)
    node.delivery.forget(2)
    for one in (node, Post("b", disk, 1)):
        assert [(number, found.document) for number, found in one.delivery.outbox()] == [(3, "d3")]
        assert list(one.delivery.outbox(after=3)) == []
        assert not any(b"d1" in kept or b"d2" in kept for kept in disk.values())
        told = one.handle(Notify(peer("c"), 0, 1, 1, notice(2)), 0.0)
        assert not [effect for effect in told if isinstance(effect, Deliver)]
    (told,) = (
        effect.what for effect in one.handle(Notify(peer("c"), 0, 2, 1, notice(4)), 0.0) if isinstance(effect, Deliver)
    )
    assert told.number == 4
    one.delivery.forget(9)  # more than there are
    assert list(one.delivery.outbox()) == []


def test_what_is_not_wanted_is_heard_and_not_kept():
    node = Post("b")
    node.delivery.accept = lambda one: one.document != "d1"
    effects = node.handle(Notify(peer("a"), 0, 1, 1, notice(1)), 0.0)
    assert [type(effect) for effect in effects] == [Send]
    assert list(node.delivery.outbox()) == []


def test_a_node_that_tells_itself_needs_no_message():
    node, called = Post("b"), []

    def call(now):
        called.append(now)
        return []

    effects = node.delivery.tell("b", notice(1), 0.5, call)
    assert effects == [Deliver(Notified(1, notice(1)))]
    assert called == [0.5]
