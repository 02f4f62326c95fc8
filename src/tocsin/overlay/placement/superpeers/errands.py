"""A client's errands: one-time queries until their answer is whole, resources until they are here (P2P-DIET §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tocsin.overlay.message import Address, Message, Peer, encode
from tocsin.overlay.node import Deliver, Effect, Seconds, Send
from tocsin.overlay.placement.superpeers.belongings import Belongings, Desired
from tocsin.overlay.placement.superpeers.messages import Answers, Asked, Found, Meet, Parcel, Search, Wish
from tocsin.overlay.placement.superpeers.routes import client_of
from tocsin.overlay.placement.superpeers.sealing import Sealing
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings

DIRECT_ATTEMPTS = 3
"""So often an owner is asked directly before a rendezvous is set up."""
SEARCH_ATTEMPTS_MAX = 15
FETCH_AGAIN_SECONDS = 60.0


class Answer(NamedTuple):
    """Delivered when a one-time query is answered; `missing` names super-peers that never did."""

    number: int
    documents: tuple[Found, ...]
    missing: tuple[Address, ...]


class Fetched(NamedTuple):
    """Delivered when a resource is here; None: its owner has no such thing."""

    request: int
    data: bytes | None


class Errand(Protocol):
    """What a client lends those who run its errands."""

    me: Peer
    access: Address | None
    is_connected: bool
    settings: SuperpeerSettings
    sealing: Sealing

    @property
    def epoch(self) -> int:
        """Of this connection."""

    def ask(self, what: tuple[object, ...], build: Callable[[int], Message], now: Seconds) -> list[Effect]:
        """A request to the access point, until it is done."""


# --- one-time queries ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    text: str
    attempt: int = 0
    sent_at: Seconds = 0.0
    asked: tuple[Address, ...] | None = None
    answers: dict[Address, tuple[Found, ...]] = field(default_factory=dict)

    def missing(self) -> tuple[Address, ...]:
        return tuple(one for one in self.asked or () if one not in self.answers)


class Searches:
    """One-time queries that are not answered."""

    def __init__(self, client: Errand) -> None:
        self._client = client
        self._open: dict[int, _Search] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def begin(self, number: int, text: str, now: Seconds) -> list[Effect]:
        """Asks."""
        self._open[number] = _Search(text)
        return self._send(number, now)

    def drop(self, number: int) -> None:
        """It was refused."""
        del self._open[number]

    def again(self, late: Seconds, now: Seconds) -> list[Effect]:
        """Asks again what was last asked before a time."""
        effects: list[Effect] = []
        for number, search in list(self._open.items()):
            if search.sent_at > late:
                continue
            if search.attempt < SEARCH_ATTEMPTS_MAX or search.asked is None:
                effects += self._send(number, now)
            else:
                effects += self._answer(number)
        return effects

    def _send(self, number: int, now: Seconds) -> list[Effect]:
        client, search = self._client, self._open[number]
        if not client.is_connected or client.access is None:
            return []
        search.attempt += 1
        search.sent_at = now
        message = Search(client.me, client.epoch, number, search.attempt, search.text, search.missing())
        return [Send(client.access, message)]

    def on_asked(self, message: Asked, now: Seconds) -> list[Effect]:
        """The access point says whom to expect."""
        search = self._open.get(message.number)
        if search is None or message.sender.address != self._client.access:
            return []
        search.asked = search.asked or message.superpeers
        return self._answer_if_whole(message.number, search)

    def on_answers(self, message: Answers, now: Seconds) -> list[Effect]:
        """A super-peer says what it has."""
        search = self._open.get(message.number)
        if search is None:
            return []
        search.answers.setdefault(message.sender.address, message.found)
        return self._answer_if_whole(message.number, search)

    def _answer_if_whole(self, number: int, search: _Search) -> list[Effect]:
        return [] if search.asked is None or search.missing() else self._answer(number)

    def _answer(self, number: int) -> list[Effect]:
        """What those said who were asked: nobody else is believed. Of a client that has just moved, both may speak."""
        search = self._open.pop(number)
        found = {(one.id, one.version): one for who in search.asked or () for one in search.answers.get(who, ())}
        return [Deliver(Answer(number, tuple(found[name] for name in sorted(found)), search.missing()))]


# --- resources -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Attempts:
    number: int = 0
    next_at: Seconds = 0.0


class Resources:
    """Both ends of a fetch: resources stay with their owners, and are given to who asks."""

    def __init__(self, client: Errand, kept: Belongings) -> None:
        self._client, self._kept = client, kept
        self._attempts: dict[int, _Attempts] = {}
        self.refused = 0
        """Parcels that are not what their owner sealed, or not for this client."""

    def begin(self, number: int, desired: Desired, now: Seconds) -> list[Effect]:
        """Asks the owner."""
        self._kept.desire(number, desired)
        return self._send(number, now)

    def again(self, now: Seconds) -> list[Effect]:
        """Asks again; after some attempts at a rendezvous, where a wish waits for its owner."""
        late = [one for one in self._kept.desired if self._attempts.setdefault(one, _Attempts()).next_at <= now]
        return [effect for number in late for effect in self._send(number, now)]

    def _send(self, number: int, now: Seconds) -> list[Effect]:
        client, desired = self._client, self._kept.desired[number]
        attempts = self._attempts.setdefault(number, _Attempts())
        attempts.number += 1
        wish = Wish(client.me, number, desired.id, desired.version, client.sealing.card)
        if attempts.number <= DIRECT_ATTEMPTS or not client.is_connected:
            attempts.next_at = now + client.settings.again_seconds
            return [Send(desired.owner, wish)]
        attempts.next_at = now + FETCH_AGAIN_SECONDS
        return self._meet(client_of(desired.owner), encode(wish), ("wish", number, attempts.number), now)

    def _meet(self, other: str, payload: bytes, what: tuple[object, ...], now: Seconds) -> list[Effect]:
        client = self._client
        me, epoch = client.me, client.epoch
        return client.ask(what, lambda number: Meet(me, epoch, number, other, payload), now)

    def on_wish(self, message: Wish, now: Seconds) -> list[Effect]:
        """Asked directly."""
        return [Send(message.sender.address, self._parcel(message))]

    def at_rendezvous(self, message: Wish, now: Seconds) -> list[Effect]:
        """A wish has waited: who wished may be away now, so the answer waits too."""
        requester = message.sender.address
        parcel = encode(self._parcel(message))
        return self._meet(client_of(requester), parcel, ("parcel", requester, message.request), now)

    def _parcel(self, wish: Wish) -> Parcel:
        client, to = self._client, wish.sender.address
        owned = self._kept.owned.get(wish.id)
        data = None
        has = owned is not None and owned.version == wish.version and not owned.is_withdrawn
        if owned is not None and has and client.sealing.is_card(to, wish.card):
            data = client.sealing.seal(client.me.address, to, wish.card, owned.resource)
        return Parcel(client.me.address, client.sealing.card, to, wish.request, data)

    def on_parcel(self, message: Parcel, now: Seconds) -> list[Effect]:
        """A resource, from its owner or from a rendezvous."""
        desired, me = self._kept.desired.get(message.request), self._client.me.address
        if desired is None or client_of(message.owner) != client_of(desired.owner):
            return []
        data = message.data
        if data is not None:
            data = self._client.sealing.unseal(message.owner, message.to, message.card, data)
            if data is None or client_of(message.to) != client_of(me):
                self.refused += 1
                return []
        self._kept.desire(message.request, None)
        self._attempts.pop(message.request, None)
        return [Deliver(Fetched(message.request, data))]
