"""The codec: what is sent comes back, and nothing else gets in."""

from __future__ import annotations

import typing
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import TocsinError
from tocsin.overlay import delivery, member  # noqa: F401 — registers the messages of all components, as these do:
from tocsin.overlay.message import (
    VERSION,
    Message,
    OverlayError,
    Peer,
    decode,
    encode,
    message,
    message_types,
    passed_on,
    peer,
    quick,
    size_of,
)
from tocsin.overlay.multicast import Cast, Receipt
from tocsin.overlay.placement import states, words  # noqa: F401
from tocsin.overlay.placement.publishers import placement  # noqa: F401
from tocsin.overlay.placement.superpeers import client, superpeer  # noqa: F401
from tocsin.sim.checks import Note

KEYS = st.integers(0, 2**64 - 1)
TYPES = sorted((tag, cls) for tag, cls in message_types().items())


def values(hint: Any) -> st.SearchStrategy[Any]:
    if hint is Message:
        return st.builds(Note, KEYS)
    if is_dataclass(hint) and isinstance(hint, type):
        return messages(hint)
    if typing.get_origin(hint) is tuple:
        parts = typing.get_args(hint)
        if parts[-1] is not Ellipsis:
            return st.tuples(*map(values, parts))
        return st.lists(values(parts[0]), max_size=4).map(tuple)
    if typing.get_args(hint):
        return st.none() | values(typing.get_args(hint)[0])
    simple: dict[Any, st.SearchStrategy[Any]] = {
        int: KEYS, str: st.text(max_size=9), bytes: st.binary(max_size=9), bool: st.booleans(),
    }  # fmt: skip
    return simple[hint]


def messages(cls: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, *(values(hints[field.name]) for field in fields(cls)))


ANY_MESSAGE = st.one_of([messages(cls) for _, cls in TYPES])
CAST = Cast(Peer(1, "a"), 2, (3, 2**64 - 1), ("", "b"), Note(7), 0, 0, 4, 1)


@given(ANY_MESSAGE)
def test_what_is_sent_comes_back(sent):
    data = encode(sent)
    assert decode(data) == sent
    assert size_of(sent) == size_of(decode(data)) == len(data)


@given(st.binary(max_size=200))
def test_noise_is_refused_with_one_error(data):
    try:
        found = decode(data)
    except OverlayError:
        return
    assert decode(encode(found)) == found


JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=20,
)


@given(st.sampled_from([tag for tag, _ in TYPES]), st.lists(JSON_LIKE, max_size=10))
def test_other_fields_are_refused_with_one_error(tag, parts):
    try:
        found = decode(msgpack.packb([VERSION, tag, *parts]))
    except OverlayError:
        return
    assert decode(encode(found)) == found


@given(ANY_MESSAGE, st.data())
def test_a_changed_byte_is_refused_or_another_message(sent, data):
    spoiled = bytearray(encode(sent))
    spoiled[data.draw(st.integers(0, len(spoiled) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = decode(bytes(spoiled))
    except OverlayError:
        return
    assert decode(encode(found)) == found


def nested(times: int) -> list[Any]:
    parts: list[Any] = [900, 1]
    for _ in range(times):
        parts = [1, 5, parts, 0, 0, 0]
    return [VERSION, *parts]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([VERSION + 1, 31, 1, [], [1, "a"]], f"version {VERSION + 1} is unknown; this node speaks {VERSION}"),
        ([VERSION - 1, 31, 1, [], [1, "a"]], f"version {VERSION - 1} is unknown"),
        ([VERSION, 65_000], "tag 65000"),
        ([VERSION], "array"),
        ([VERSION, 31, 1, []], "fields"),
        ([VERSION, 31, 1, [], [1, "a"], 0], "fields"),
        ([VERSION, 31, True, [], [1, "a"]], "unsigned"),
        ([VERSION, 31, -1, [], [1, "a"]], "unsigned"),
        ([VERSION, 31, 1, [], None], "array"),
        ([VERSION, 31, 1, {}, [1, "a"]], "msgpack|array"),
        ([VERSION, 31, 1, [], [1, b"a"]], "bytes where"),
        ([VERSION, 10, [1, "a"], 1, [], []], "bool"),
        (nested(6), "too many"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(parts, reason):
    with pytest.raises(OverlayError, match=reason):
        decode(msgpack.packb(parts))


def test_too_large_is_refused_both_ways():
    data = encode(CAST)
    assert decode(data, limit=len(data)) == CAST
    with pytest.raises(OverlayError, match="more than"):
        decode(data, limit=len(data) - 1)
    with pytest.raises(OverlayError, match="more than"):
        encode(CAST, limit=len(data) - 1)


@pytest.mark.parametrize("wrong", [Receipt(2**64, (), Peer(1, "a")), Receipt(1, (object(),), Peer(1, "a"))])  # type: ignore[arg-type]
def test_what_cannot_be_written_is_refused(wrong):
    with pytest.raises(OverlayError, match="Receipt"):
        encode(wrong)


def test_extensions_are_refused():
    for length in (0, 1, 4, 8, 12):
        ext = msgpack.ExtType(5, b"x" * length)
        with pytest.raises(OverlayError):
            decode(msgpack.packb([VERSION, 31, ext, [], [1, "a"]]))


def test_it_is_an_error_of_tocsin():
    assert issubclass(OverlayError, TocsinError)


def test_a_tag_is_given_once():
    with pytest.raises(TypeError, match="taken"):

        @message(31)
        @dataclass(frozen=True, slots=True)
        class Another(Message):
            pass


def test_every_message_is_frozen_and_slotted():
    for _, cls in TYPES:
        assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert not hasattr(object.__new__(cls), "__dict__")


def test_the_wire_is_what_it_was():
    """Bytes of version 2 must stay readable: this is a recording."""
    recorded = "9b021e9201a161029203cfffffffffffffffff92a0a16292cd03840700000401"
    assert encode(CAST).hex() == recorded
    assert decode(bytes.fromhex(recorded)) == CAST


def test_a_message_that_is_passed_on_has_the_bytes_of_a_new_one():
    """A list that goes from node to node loses its first keys; its bytes are those of a list that never had them."""
    chance, me = Random(1), peer("n1")
    for turn, length in enumerate([1, 2, 15, 16, 17, 18, 40, 300, 65_538] * 3):
        keys = tuple(chance.getrandbits(chance.choice([5, 14, 30, 64])) for _ in range(length))
        hints = tuple(chance.choice(["", "n17", "n" * 40]) for _ in keys) if turn % 2 else ()
        cast = Cast(me, turn, keys, hints, Note(turn), 1, 0, 0, 1)
        for hops in range(2, 40):
            plain = msgpack.packb(
                [VERSION, 30, [me.key, me.address], turn, keys, hints, [900, turn], hops - 1, 0, hops * 70, 1]
            )  # fmt: skip
            cast = passed_on(cast, replace(cast, last=hops * 70))
            assert encode(cast) == encode(replace(cast)) == plain
            assert decode(plain) == cast
            cut = chance.choice([0, 0, 1, 1, 2, 10])
            if cut >= len(keys) or (length > 300 and hops > 4):
                break
            keys, hints = keys[cut:], hints[cut:]
            cast = passed_on(cast, replace(cast, keys=keys, hints=hints, hops=hops), cut)


def test_a_payload_is_packed_once_however_often_it_is_sent():
    payload, me = Note(7), peer("n1")
    first, second = (Cast(me, 1, (key,), (), payload, 0, 0, 0, 0) for key in (1, 2))
    assert encode(first)[-7:] == encode(second)[-7:]
    assert first._kept[-1] is second._kept[-1]  # type: ignore[attr-defined]


def test_what_is_made_quickly_is_the_same_and_as_frozen():
    made = quick(Cast)(*[getattr(CAST, field.name) for field in fields(Cast)])
    assert type(made) is Cast
    assert (made, hash(made), repr(made), encode(made)) == (CAST, hash(CAST), repr(CAST), encode(CAST))
    with pytest.raises(FrozenInstanceError):
        made.hops = 1  # type: ignore[misc]
