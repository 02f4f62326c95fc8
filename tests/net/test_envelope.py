"""Envelopes: signed, numbered, addressed; everything else is refused, by name."""

from __future__ import annotations

from random import Random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.net.envelope import CONTEXT, NANOSECONDS, EnvelopeError, Gate, Refusal, Sealer, read_envelope
from tocsin.net.identity import Endpoint, Identity, open_identity
from tocsin.net.limits import NetLimits

BOB = "b" * 32 + "@127.0.0.1:2"
START = 1_000 * NANOSECONDS


@pytest.fixture(scope="module")
def alice(tmp_path_factory) -> Identity:
    return open_identity(tmp_path_factory.mktemp("alice"))


def address(identity: Identity) -> str:
    return identity.address(Endpoint("127.0.0.1", 1))


def refusal(data: bytes) -> Refusal:
    with pytest.raises(EnvelopeError) as caught:
        read_envelope(data, (BOB,))
    return caught.value.refusal


def signed(identity: Identity, *parts: object) -> bytes:
    content = msgpack.packb(parts)
    data: bytes = msgpack.packb((content, identity.sign(CONTEXT + content)))
    return data


def test_what_is_sealed_can_be_read(alice):
    sealed = Sealer(alice, lambda: START).seal(address(alice), BOB, b"body")
    assert read_envelope(sealed, (BOB,)) == (address(alice), BOB, START, alice.name, b"body")


def test_numbers_never_repeat_even_if_the_clock_goes_back(alice):
    clock = iter([5, 5, 3, 9])
    sealer = Sealer(alice, lambda: next(clock))
    assert [read_envelope(sealer.seal(address(alice), BOB), (BOB,)).number for _ in range(4)] == [5, 6, 7, 9]


def test_each_way_of_being_wrong_has_its_name(alice, tmp_path):
    me, mallory = address(alice), open_identity(tmp_path)
    good = (1, me, BOB, START, alice.public, b"")
    assert read_envelope(signed(alice, *good), (BOB,)).sender == me
    content = msgpack.packb(good)
    assert refusal(msgpack.packb((content, b""))) is Refusal.UNSIGNED
    assert refusal(msgpack.packb((content, b"x" * 64))) is Refusal.FORGED
    assert refusal(signed(mallory, *good)) is Refusal.FORGED
    assert (
        refusal(signed(mallory, 1, me, BOB, START, mallory.public, b"")) is Refusal.FORGED
    )  # not the name of that key
    assert refusal(msgpack.packb((content, alice.sign(content)))) is Refusal.FORGED  # signed for something else
    assert refusal(signed(alice, 1, me, me, START, alice.public, b"")) is Refusal.MISDIRECTED
    assert refusal(signed(alice, 1, me, "", START, alice.public, b"")) is Refusal.MISDIRECTED
    for wrong in [
        (2, *good[1:]), good[:5], (*good, b""), (True, *good[1:]), (1, None, *good[2:]), (*good[:3], -1, *good[4:]),
        (*good[:3], 1.5, *good[4:]), (*good[:4], "key", b""), (*good[:5], "body"),
    ]:  # fmt: skip
        assert refusal(signed(alice, *wrong)) is Refusal.MALFORMED
    for data in [
        b"",
        b"\xc1",
        b"\x92",
        msgpack.packb({}),
        msgpack.packb((content, None)),
        msgpack.packb((1, 2, 3)),
        b"\x91" * 2_000,
    ]:
        assert refusal(data) is Refusal.MALFORMED


@given(data=st.binary(max_size=300))
def test_noise_is_refused_and_nothing_else_happens(data):
    assert refusal(data) in (Refusal.MALFORMED, Refusal.MISDIRECTED)


def test_no_bit_can_be_changed(alice):
    sealed = Sealer(alice, lambda: START).seal(address(alice), BOB, b"body")
    chance = Random(1)
    for _ in range(300):
        changed = bytearray(sealed)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        assert refusal(bytes(changed)) in Refusal


class Late:
    """A gate with a clock that a test sets, and what comes to it."""

    def __init__(self, alice: Identity, **limits: int) -> None:
        self.now = START
        self.alice = alice
        self.gate = Gate(lambda: self.now, NetLimits(clock_seconds_max=10.0, **limits))

    def comes(self, number: int, sender: Identity | None = None) -> str:
        who = sender or self.alice
        envelope = read_envelope(Sealer(who, lambda: number).seal(address(who), BOB), (BOB,))
        try:
            self.gate.check(envelope)
        except EnvelopeError as error:
            return str(error.refusal)
        return "taken"


def test_a_number_comes_once_in_any_order(alice):
    late = Late(alice)
    numbers = [START + n for n in range(1, 200)]
    Random(1).shuffle(numbers)
    assert {late.comes(number) for number in numbers} == {"taken"}
    assert {late.comes(number) for number in numbers} == {"replayed"}


def test_a_replay_is_refused_after_any_time(alice):
    late = Late(alice)
    assert late.comes(START + 1) == "taken"
    for seconds in (1, 9, 10, 11, 1_000):
        late.now = START + seconds * NANOSECONDS
        assert late.comes(START + 1) in ("replayed", "untimely")
        assert late.comes(late.now) == "taken"
    late.now = START + NANOSECONDS  # even if this clock is set back
    assert late.comes(START + 1) == "replayed"


def test_what_is_from_before_this_node_began_is_refused(alice):
    late = Late(alice)
    assert late.comes(START - 1) == "replayed"
    assert late.comes(START) == "replayed"


@pytest.mark.parametrize(("seconds", "fate"), [(9, "taken"), (11, "untimely"), (-11, "untimely")])
def test_clocks_may_differ_a_little(alice, seconds, fate):
    assert Late(alice).comes(START + seconds * NANOSECONDS) == fate


def test_memory_is_bounded_and_still_nothing_comes_twice(alice, tmp_path):
    late = Late(alice, sender_numbers_max=10, senders_max=2)
    assert {late.comes(START + n) for n in range(1, 50)} == {"taken"}
    assert {late.comes(START + n) for n in range(1, 50)} == {"replayed"}
    bob, eve = open_identity(tmp_path / "b"), open_identity(tmp_path / "e")
    assert late.comes(START + 1, bob) == "taken"
    assert late.comes(START + 1, eve) == "crowded"
    late.now += 11 * NANOSECONDS  # those before are too old to be repeated now, and need no memory
    assert late.comes(late.now, eve) == "taken"
    assert late.comes(START + 1, bob) == "untimely"
