"""A node whose signatures are right and whose messages are absurd: the others live on."""

from __future__ import annotations

import dataclasses
import types
from contextlib import suppress
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from tocsin.net.claims import is_credible
from tocsin.net.disk import Journal
from tocsin.net.identity import Endpoint, open_identity
from tocsin.overlay.member import Member
from tocsin.overlay.message import Item, Message, OverlayError, Peer, decode, encode, message_types, peer
from tocsin.overlay.node import Send

NUMBERS = (0, 1, 2, 7, 255, 65_535, 65_536, 1 << 32, 1 << 63, (1 << 64) - 1)
CORE = [cls for tag, cls in sorted(message_types().items()) if tag < 40]


class Absurd:
    """Makes messages of any type with values that nobody would send."""

    def __init__(self, seed: int, addresses: list[str]) -> None:
        self.chance = Random(seed)
        self.addresses = addresses

    def value(self, hint: Any, depth: int = 0) -> Any:
        chance = self.chance
        if hint is int:
            return chance.choice([*NUMBERS, chance.getrandbits(64)])
        if hint is bool:
            return chance.random() < 0.5
        if hint is float:
            return chance.choice([0.0, -1.0, 1e300])
        if hint is str:
            return chance.choice(["", "#", "é\0", *self.addresses])
        if hint is bytes:
            return chance.randbytes(chance.choice([0, 1, 16, 40]))
        if hint is Message:
            return self.message(chance.choice(CORE), depth + 1) if depth < 2 else self.message(CORE[1], depth)
        if hint is Peer:
            return peer(chance.choice(self.addresses))
        if get_origin(hint) in (Union, types.UnionType):
            inner = next(one for one in get_args(hint) if one is not type(None))
            return None if chance.random() < 0.3 else self.value(inner, depth)
        if get_origin(hint) is tuple:
            return tuple(self.value(get_args(hint)[0], depth) for _ in range(chance.choice([0, 1, 3, 16, 40])))
        assert hint is Item
        return Item(*(self.value(get_type_hints(Item)[field.name]) for field in dataclasses.fields(Item)))

    def message(self, cls: type, depth: int = 0) -> Any:
        hints = get_type_hints(cls)
        made = {field.name: self.value(hints[field.name], depth) for field in dataclasses.fields(cls)}
        if depth == 0 and "sender" in made:
            made["sender"] = peer(self.addresses[1])
        return cls(**made)


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 200))]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_absurd_message_makes_a_node_fail(tmp_path, seed):
    identity = open_identity(tmp_path)
    addresses = [identity.address(Endpoint("127.0.0.1", port)) for port in range(1, 6)]
    absurd = Absurd(seed, addresses)
    journal = Journal(tmp_path / "journal", 1 << 30)
    member = Member(addresses[0], addresses[1:2] if seed % 2 else (), disk=journal)
    member.start(0.0)
    now = 0.0
    for _ in range(300):
        made = absurd.message(absurd.chance.choice(CORE))
        message = decode(encode(made))
        assert is_credible(message, addresses[1])
        now += absurd.chance.choice([0.0, 0.1, 1.0])
        for effect in [*member.handle(message, now), *member.membership.tick(now), *member.items.tick(now)]:
            if isinstance(effect, Send):
                with suppress(OverlayError):  # one more than the largest number: the driver counts it as unsendable
                    encode(effect.message)
    journal.save()
    journal.close()
    again = Journal(tmp_path / "journal", 1 << 30)
    Member(addresses[0], disk=again)
    again.close()
