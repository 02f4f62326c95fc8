"""A message may say only what its sender may say.

Two things can be checked without knowing what a message means: a node's key is the hash of its address, wherever a
message names a node; and a message that names its own `sender` comes from that node. (A message that travels inside
another, such as a routed question, names who asked first; that is for its receiver to believe or not.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from tocsin.net.identity import name_and_endpoint
from tocsin.overlay.message import Address, Message, Peer, peer

Getter = Callable[[Any], Any]
Fields = tuple[tuple[Getter, ...], tuple[Getter, ...], tuple[Getter, ...]]

_known: dict[type, Fields] = {}  # as many as there are classes of messages


@lru_cache(maxsize=16_384)
def _key_of(address: Address) -> int | None:
    return None if name_and_endpoint(address) is None else peer(address).key


def _fields(cls: type) -> Fields:
    """Getters of a class: of one node or none, of many nodes, of messages inside."""
    one, many, inside = list[Getter](), list[Getter](), list[Getter]()
    hints = get_type_hints(cls)
    for field in fields(cls):
        hint = hints[field.name]
        if hint is Peer or hint == (Peer | None):
            one.append(attrgetter(field.name))
        elif get_args(hint)[:1] == (Peer,):
            many.append(attrgetter(field.name))
        elif hint is Message:
            inside.append(attrgetter(field.name))
    return tuple(one), tuple(many), tuple(inside)


def _named(message: Message) -> Iterable[Peer | None]:
    found = _known.get(type(message))
    if found is None:
        found = _known[type(message)] = _fields(type(message))
    one, many, inside = found
    for get in one:
        yield get(message)
    for get in many:
        yield from get(message)
    for get in inside:
        yield from _named(get(message))


def is_credible(message: Message, sender: Address) -> bool:
    """Whether a message names nodes as they can be, and its own sender as it is."""
    if any(named is not None and _key_of(named.address) != named.key for named in _named(message)):
        return False
    said = getattr(message, "sender", None)
    return not isinstance(said, Peer) or said.address == sender
