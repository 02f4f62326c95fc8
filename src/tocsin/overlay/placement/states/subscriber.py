"""The nodes that want to be told: a query goes to the owners of its states, one message for each (Procedure 1).

The paper passes the query from owner to owner. Its keys follow from its labels, so the subscriber can tell all owners
at once: as many messages, and one that is lost concerns one state. A subscription stands when every owner has it, with
its copies; it has ended when every trace is gone (X2).

A subscriber counts for itself how many of its queries need a transition, and an owner keeps one note of it for each
subscriber: removing a query never needs to know what others need. Everything is written down before it is sent: a node
that stops in the middle goes on with it when it begins again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgpack

from tocsin.errors import SettingError
from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Item
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Token, Wake
from tocsin.overlay.placement.states.fragment import Place, places_of
from tocsin.overlay.placement.states.ground import Ground
from tocsin.overlay.placement.states.key import STATE_KIND, ring_key
from tocsin.overlay.placement.states.messages import Indexed, IndexQuery
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.query.xpath import parse_xpath
from tocsin.query.xpath.routes import Linear

Disk: TypeAlias = MutableMapping[bytes, bytes]
AGAIN_SECONDS = 5.0


@dataclass(slots=True)
class _Record:
    """A subscription."""

    text: str = ""  # "": it is ending
    namespaces: dict[str, str] = field(default_factory=dict)
    version: int = 0
    places: set[Place] = field(default_factory=set)  # of this version, and of those before that may still exist


@dataclass(slots=True)
class _Kept:
    """What an owner should have."""

    value: bytes | None  # None: it should be removed
    version: int
    users: set[str] = field(default_factory=set)
    """Subscriptions that need it."""
    holders: set[str] = field(default_factory=set)
    """Subscriptions that are not finished before it is as it should be."""


class Subscriber:
    """A node's subscriptions."""

    name = "state subscriber"

    def __init__(self, ground: Ground, disk: Disk | None = None, life: int = 0) -> None:
        self.me, self.errands, self.settings = ground.chord.me, ground.errands, ground.settings
        self._disk: Disk = {} if disk is None else disk
        self._version = life << 32
        self._records: dict[str, _Record] = {}
        self._kept: dict[Place, _Kept] = {}
        self._waiting: dict[str, tuple[int, int]] = {}  # version, and states without an answer
        self._load()
        ground.delivery.accept = self._accept
        ground.chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """It takes answers only."""
        return {}

    def start(self, now: Seconds) -> list[Effect]:
        """Goes on with what was not finished: sends everything again, which changes nothing where it is."""
        return [effect for id in self._records for effect in self._send_all(id, now)]

    def _accept(self, notice: Notice) -> bool:
        record = self._records.get(notice.subscription)
        return record is not None and record.text != ""

    # --- for the layer above -----------------------------------------------------------------------------------------

    def subscribe(self, id: str, text: str, now: Seconds, namespaces: Mapping[str, str] | None = None) -> list[Effect]:
        """Registers an XPath query, or another one under the same id; `Standing` is delivered when it stands."""
        if not id:
            raise SettingError("a subscription has a name")
        namespaces = dict(namespaces or {})
        wanted = self._places(id, text, namespaces)
        record = self._records.setdefault(id, _Record())
        record.text, record.namespaces, record.version = text, namespaces, record.version + 1
        for place in record.places - wanted.keys():
            self._release(place, id)
        for place, value in wanted.items():
            self._want(place, value, id)
        record.places |= wanted.keys()
        self._write(id, record)
        return self._send_all(id, now)

    def unsubscribe(self, id: str, now: Seconds) -> list[Effect]:
        """Removes every trace; `Ended` is delivered when the last is gone."""
        record = self._records[id]
        record.text, record.version = "", record.version + 1
        for place in record.places:
            self._release(place, id)
        self._write(id, record)
        return self._send_all(id, now)

    def standing(self) -> Iterator[tuple[str, str]]:
        """Subscriptions of this node: id and text."""
        return ((id, record.text) for id, record in self._records.items() if record.text)

    def namespaces(self, id: str) -> Mapping[str, str]:
        """The prefixes of a subscription's path."""
        return self._records[id].namespaces

    def _places(self, id: str, text: str, namespaces: Mapping[str, str]) -> dict[Place, bytes]:
        return places_of(parse_xpath(text, namespaces), id, self.me.address, self.settings.length)

    # --- what should be where ----------------------------------------------------------------------------------------

    def _want(self, place: Place, value: bytes, id: str) -> None:
        kept = self._kept.get(place)
        if kept is None or kept.value != value:
            self._version += 1
            kept = kept or _Kept(value, 0)
            kept.value, kept.version = value, self._version
            self._kept[place] = kept
        kept.users.add(id)
        kept.holders.add(id)
        self._disk[_name(place)] = msgpack.packb((kept.value, kept.version))

    def _release(self, place: Place, id: str) -> None:
        kept = self._kept.get(place)
        if kept is None:
            return
        kept.users.discard(id)
        if not kept.users and kept.value is not None:
            self._version += 1
            kept.value, kept.version = None, self._version
            self._disk[_name(place)] = msgpack.packb((None, kept.version))

    def _write(self, id: str, record: _Record) -> None:
        packed = (record.text, list(record.namespaces.items()), record.version, sorted(record.places))
        self._disk[b"r" + id.encode()] = msgpack.packb(packed)

    def _load(self) -> None:
        for key, data in sorted(self._disk.items()):
            if key[:1] == b"p":
                state, name = msgpack.unpackb(key[1:], use_list=False)
                self._kept[state, name] = _Kept(*msgpack.unpackb(data))
        for key, data in sorted(self._disk.items()):
            if key[:1] == b"r":
                id = key[1:].decode()
                text, namespaces, version, places = msgpack.unpackb(data, use_list=False)
                record = self._records[id] = _Record(text, dict(namespaces), version, set(places))
                for place in record.places & self._kept.keys():
                    self._kept[place].holders.add(id)
                for place in self._places(id, text, record.namespaces) if text else ():
                    self._kept[place].users.add(id)

    # --- telling the owners ------------------------------------------------------------------------------------------

    def _send_all(self, id: str, now: Seconds) -> list[Effect]:
        """One message for each state: what this subscription needs there, and what nobody here needs any more."""
        record = self._records[id]
        states: dict[Linear, list[Place]] = {}
        for place in sorted(record.places):
            kept = self._kept.get(place)
            if kept is not None and (id in kept.users or kept.value is None):
                states.setdefault(place[0], []).append(place)
        self._waiting[id] = record.version, len(states)
        if not states:
            return self._finish(id, record)
        return [effect for state, places in states.items() for effect in self._send(id, state, places, now)]

    def _send(self, id: str, state: Linear, places: list[Place], now: Seconds, copy: int = 0) -> list[Effect]:
        version = self._records[id].version
        key = ring_key(state, copy)
        items = tuple([
            Item(key, STATE_KIND, place[1], kept.version, kept.value)
            for place in places
            if (kept := self._kept.get(place)) is not None
        ])  # fmt: skip

        def answered(answer: Indexed | None, now: Seconds) -> list[Effect]:
            record = self._records.get(id)
            if record is None or record.version != version:
                return []
            if answer is None:
                return [Wake(now + AGAIN_SECONDS, (self.name, id, state, tuple(places), copy, version))]
            effects: list[Effect] = []
            copies = answer.copies if not copy else ()
            before, left = self._waiting[id]
            self._waiting[id] = before, left - 1 + len(copies)
            for other in copies:
                effects += self._send(id, state, places, now, other)
            return effects if self._waiting[id][1] else [*effects, *self._finish(id, record)]

        return self.errands.ask(key, lambda request: IndexQuery(request, self.me, items), now, answered)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """An owner could not be reached: tries again."""
        _, id, state, places, copy, version = token
        record = self._records.get(id)
        return [] if record is None or record.version != version else self._send(id, state, list(places), now, copy)

    def _finish(self, id: str, record: _Record) -> list[Effect]:
        """Every owner knows: what was removed can be forgotten here, too."""
        for place in list(record.places):
            kept = self._kept[place]
            if id not in kept.users:
                record.places.discard(place)
                kept.holders.discard(id)
                if kept.value is None and not kept.holders:
                    del self._kept[place], self._disk[_name(place)]
        if record.text:
            self._write(id, record)
            return [Deliver(Standing(id, record.version))]
        del self._records[id], self._disk[b"r" + id.encode()], self._waiting[id]
        return [Deliver(Ended(id))]


def _name(place: Place) -> bytes:
    name: bytes = b"p" + msgpack.packb(place)
    return name
