"""A client: it has resources and wishes, and one access point at a time (P2P-DIET §3).

    client = Client("ann@host", accesses=["s1"], knowledge=knowledge)
    client.subscribe(number, "title:peer", now)     the driver gives the number: large, and never the same twice
    client.publish(document, now, resource)
    client.search("author:smith", now)
    client.fetch(notice.link, notice.document, notice.version, now)

Whatever it wants is on its disk until its access point has done it, and is told to the next one when it moves. What it
publishes satisfies its advertisement, or a wider one goes first. A resource stays here, and is given to who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, TypeAlias

import msgpack

from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.model import Document
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.message import Address, Message, OverlayError, decode, encode, peer
from tocsin.overlay.node import Deliver, Effect, Handler, Node, Seconds, Send, Token, Wake
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.overlay.placement.superpeers.advertisements import Advertisement, advertisement
from tocsin.overlay.placement.superpeers.filtering import standing_query
from tocsin.overlay.placement.superpeers.messages import (
    Advertise,
    Answers,
    AreYouAlive,
    Asked,
    Connect,
    Done,
    Found,
    Heard,
    Leave,
    LeftBehind,
    Meet,
    Parcel,
    PublishAt,
    Refused,
    Search,
    Settled,
    Subscribe,
    Tell,
    Told,
    Welcome,
    Wish,
    WithdrawAt,
)
from tocsin.overlay.placement.superpeers.routes import client_of
from tocsin.overlay.placement.superpeers.sealing import CLEAR, Sealing
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge

Disk: TypeAlias = MutableMapping[bytes, bytes]
SETTINGS = SuperpeerSettings()
DIRECT_ATTEMPTS = 3
"""So often an owner is asked directly before a rendezvous is set up."""
SEARCH_ATTEMPTS_MAX = 15
FETCH_AGAIN_SECONDS = 60.0


class Connected(NamedTuple):
    """Delivered when an access point has taken the client."""

    access: Address
    epoch: int


class Lost(NamedTuple):
    """Delivered when the access point does not answer any more."""

    access: Address


class Moved(NamedTuple):
    """Delivered when a former access point has handed over everything."""

    former: Address


class Rejected(NamedTuple):
    """Delivered when a request was refused."""

    what: tuple[Any, ...]
    reason: str


class Answer(NamedTuple):
    """Delivered when a one-time query is answered; `missing` names super-peers that never did."""

    number: int
    documents: tuple[Found, ...]
    missing: tuple[Address, ...]


class Fetched(NamedTuple):
    """Delivered when a resource is here; None: its owner has no such thing."""

    request: int
    data: bytes | None


@dataclass(slots=True)
class _Wanted:
    version: int
    text: str
    is_standing: bool = False


@dataclass(slots=True)
class _Owned:
    version: int
    data: bytes
    resource: bytes
    is_withdrawn: bool = False
    is_listed: bool = False
    """The access point has it."""


@dataclass(slots=True)
class _Search:
    text: str
    attempt: int = 0
    sent_at: Seconds = 0.0
    asked: tuple[Address, ...] | None = None
    answers: dict[Address, tuple[Found, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class _Fetch:
    owner: Address
    id: str
    version: int
    attempt: int = 0
    next_at: Seconds = 0.0


Build: TypeAlias = Callable[[int], Message]


class _Request(NamedTuple):
    what: tuple[Any, ...]
    build: Build
    sent_at: Seconds


class Client(Node):
    """A node outside the backbone."""

    def __init__(
        self,
        address: Address,
        accesses: Sequence[Address],
        knowledge: Knowledge,
        *,
        settings: SuperpeerSettings = SETTINGS,
        sealing: Sealing = CLEAR,
        disk: Disk | None = None,
    ) -> None:
        """`accesses`: super-peers that it may connect to, the first by itself, the others when one is silent."""
        super().__init__(peer(address))
        self.id = client_of(address)
        self.accesses, self.knowledge, self.settings, self.sealing = accesses, knowledge, settings, sealing
        self._disk: Disk = {} if disk is None else disk
        self.access: Address | None = None
        self.is_connected = False
        self.advertisement = Advertisement()
        self.advertised = 0
        """How often it advertised."""
        self._epoch = self._last_epoch = 0
        self._last_access: Address | None = None
        self._formers: tuple[Address, ...] = ()
        """Super-peers that may have something of this client: all that it tried to connect to, until they let it go."""
        self._wanted: dict[str, _Wanted] = {}
        self._owned: dict[str, _Owned] = {}
        self._unfinished: dict[tuple[str, int], bytes] = {}  # publications whose subscribers may not all have heard
        self._withdrawing: set[str] = set()
        self._outbox: list[Notice] = []
        self._had: set[tuple[str, str, int]] = set()
        self._load()
        # Of this connection:
        self._requests: dict[int, _Request] = {}
        self._is_advertised = self._is_settled = False
        self._upto: int | None = None
        self._number = 0
        self._heard_at: Seconds = 0.0
        self._tick_at: Seconds = inf
        self._attempts = 0
        self._is_ticking = False
        self._searches: dict[int, _Search] = {}
        self._fetches: dict[int, _Fetch] = {}
        self.add(self)

    name = "client"

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {
            AreYouAlive: self._on_probe, Welcome: self._on_welcome, Done: self._on_done, Refused: self._on_refused,
            Asked: self._on_asked, Answers: self._on_answers, Told: self._on_told, Wish: self._on_wish,
            Parcel: self._on_parcel,
        }  # fmt: skip

    # --- on disk -----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        for key in sorted(self._disk):
            kind, *name = msgpack.unpackb(key)
            parts = msgpack.unpackb(self._disk[key])
            if kind == "self":
                self._epoch, self._last_epoch, self._last_access, formers, packed = parts
                self._formers, self.advertisement = tuple(formers), advertisement(packed)
            elif kind == "wanted":
                self._wanted[name[0]] = _Wanted(*parts)
            elif kind == "owned":
                self._owned[name[0]] = _Owned(*parts)
            elif kind == "open":
                self._unfinished[name[0], name[1]] = parts[0]
            elif kind == "withdrawing":
                self._withdrawing.add(name[0])
            else:
                self._keep_notice(Notice(*parts))

    def _write(self, *name: Any, value: Any) -> None:
        self._disk[msgpack.packb(name)] = msgpack.packb(value)

    def _erase(self, *name: Any) -> None:
        self._disk.pop(msgpack.packb(name), None)

    def _write_self(self) -> None:
        value = self._epoch, self._last_epoch, self._last_access, self._formers, self.advertisement.packed()
        self._write("self", value=value)

    def _write_wanted(self, id: str) -> None:
        one = self._wanted[id]
        self._write("wanted", id, value=(one.version, one.text, one.is_standing))

    def _write_owned(self, id: str) -> None:
        one = self._owned[id]
        self._write("owned", id, value=(one.version, one.data, one.resource, one.is_withdrawn, one.is_listed))

    def _keep_notice(self, notice: Notice) -> bool:
        if notice.name in self._had:
            return False
        self._had.add(notice.name)
        self._outbox.append(notice)
        return True

    # --- for the layer above -----------------------------------------------------------------------------------------

    def subscribe(self, number: int, text: str, now: Seconds) -> list[Effect]:
        """Asks for documents from now on; with a number that is in use, another query takes its place."""
        standing_query(text, self.knowledge)  # so that the caller is told at once what is wrong with it
        id = self.query_id(number)
        before = self._wanted.get(id)
        self._wanted[id] = _Wanted(1 if before is None else before.version + 1, text)
        self._write_wanted(id)
        return self._flush(now)

    def unsubscribe(self, number: int, now: Seconds) -> list[Effect]:
        """Ends a subscription."""
        id = self.query_id(number)
        before = self._wanted[id]
        self._wanted[id] = _Wanted(before.version + 1, "")
        self._write_wanted(id)
        return self._flush(now)

    def query_id(self, number: int) -> str:
        """The client's name and a very large number (P2P-DIET §3)."""
        return f"{self.id} {number:016x}"

    def publish(self, document: Document, now: Seconds, resource: bytes = b"") -> list[Effect]:
        """Publishes a document, or a new version of it; the resource stays here."""
        data = PackedDocument.of(document).data
        if not self.advertisement.is_satisfied(document):
            most = self.settings.values_max if self.settings.advertises_values else 0
            self.advertisement = self.advertisement.widened(document, most)
            self._is_advertised = False
            self._requests = {number: one for number, one in self._requests.items() if one.what[0] != "advertise"}
            self._write_self()
        self._owned[document.id] = _Owned(document.version, data, resource)
        self._write_owned(document.id)
        self._unfinished[document.id, document.version] = data
        self._write("open", document.id, document.version, value=(data,))
        self._withdrawing.discard(document.id)
        self._erase("withdrawing", document.id)
        return self._flush(now)

    def advertise(self, wanted: Advertisement, now: Seconds) -> list[Effect]:
        """Says beforehand what will be published."""
        self.advertisement, self._is_advertised = wanted, False
        self._requests = {number: one for number, one in self._requests.items() if one.what[0] != "advertise"}
        self._write_self()
        return self._flush(now)

    def withdraw(self, id: str, now: Seconds) -> list[Effect]:
        """A resource is gone."""
        self._owned[id].is_withdrawn = True
        self._write_owned(id)
        self._withdrawing.add(id)
        self._write("withdrawing", id, value=())
        return self._flush(now)

    def search(self, text: str, now: Seconds) -> list[Effect]:
        """A one-time query; its `Answer` will have the number that `last_number` has now."""
        parse(text, self.knowledge.analysis)
        number = self._next()
        self._searches[number] = _Search(text)
        return self._send_search(number, now)

    def fetch(self, owner: Address, id: str, version: int, now: Seconds) -> list[Effect]:
        """Gets a resource from its owner, or by a rendezvous if the owner is away."""
        number = self._next()
        self._fetches[number] = _Fetch(owner, id, version)
        return self._send_fetch(number, now)

    @property
    def last_number(self) -> int:
        """The number of the last search or fetch."""
        return self._number

    def outbox(self, after: int = 0) -> Iterator[tuple[int, Notice]]:
        """Every notice after a number, in order."""
        yield from enumerate(self._outbox[after:], after + 1)

    # --- connecting --------------------------------------------------------------------------------------------------

    def start(self, now: Seconds) -> list[Effect]:
        """Connects to where it was, or to the first of its access points."""
        access = self._last_access or (self.accesses[0] if self.accesses else None)
        return [] if access is None else self.connect(access, now)

    def connect(self, access: Address, now: Seconds) -> list[Effect]:
        """Makes a super-peer its access point."""
        if access not in self._formers:
            self._formers = (*self._formers, access)
        self._epoch += 1
        self._write_self()
        self.access, self.is_connected = access, False
        self._requests, self._attempts = {}, 0
        self._number = max(self._number, self._epoch << 24)
        ticking: list[Effect] = []
        if not self._is_ticking:
            self._is_ticking = True
            self._tick_at = now + self.settings.again_seconds / 2
            ticking.append(Wake(self._tick_at, (self.name,)))
        return [self._connecting(), *ticking]

    def _connecting(self) -> Effect:
        assert self.access is not None
        left = self._left()
        return Send(self.access, Connect(self.me, self.id, self._epoch, self._last_epoch, left, self.sealing.card))

    def _left(self) -> tuple[Address, ...]:
        return tuple(one for one in self._formers if one != self.access)

    def leave(self, now: Seconds) -> list[Effect]:
        """Goes off-line in order; what comes meanwhile is stored. (Going without a word does as well.)"""
        if self.access is None or not self.is_connected:
            return []
        self.is_connected = False
        access, self.access = self.access, None
        return [Send(access, Leave(self.me, self._epoch))]

    def _on_welcome(self, message: Welcome, now: Seconds) -> list[Effect]:
        access = message.sender.address
        if access != self.access or message.epoch != self._epoch or self.is_connected:
            return []
        self.is_connected, self._heard_at, self._upto = True, now, None
        self._last_epoch, self._last_access = self._epoch, access
        self._write_self()
        self._is_settled = False
        self._is_advertised = message.knows and self._is_advertised
        if not message.knows:
            for id, one in self._wanted.items():
                one.is_standing = one.is_standing and not one.text
                self._write_wanted(id)
            for id, owned in self._owned.items():
                owned.is_listed = False
                self._write_owned(id)
            # A publication that is still open is told again, and must not bring back what was withdrawn.
            gone = {id for id, _ in self._unfinished if self._owned[id].is_withdrawn}
            for id in self._withdrawing - gone:
                self._erase("withdrawing", id)
            for id in gone - self._withdrawing:
                self._write("withdrawing", id, value=())
            self._withdrawing = gone
        searching = [effect for number in self._searches for effect in self._send_search(number, now)]
        return [Deliver(Connected(access, self._epoch)), *self._flush(now), *searching]

    def _on_probe(self, message: AreYouAlive, now: Seconds) -> list[Effect]:
        if message.sender.address != self.access or message.is_answer:
            return []
        self._heard_at = now
        return [Send(message.sender.address, AreYouAlive(self.me, 0, True))]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Says again what was not answered."""
        settings = self.settings
        effects: list[Effect] = [Wake(now + settings.again_seconds / 2, token)]
        self._heard_at += max(0.0, now - self._tick_at)  # this client slept, not its access point
        self._tick_at = now + settings.again_seconds / 2
        if self.access is None:
            return effects
        if not self.is_connected:
            self._attempts += 1
            if self._attempts > 2 * settings.probes_missed_max:
                return [*effects, *self.connect(self._other(), now)]
            return [*effects, self._connecting()]
        if now - self._heard_at > settings.probe_seconds * (settings.probes_missed_max + 0.5):
            return [*effects, Deliver(Lost(self.access)), *self.connect(self._other(), now)]
        late = now - settings.again_seconds
        for number, request in list(self._requests.items())[: settings.window]:
            if request.sent_at <= late:
                self._requests[number] = request._replace(sent_at=now)
                effects.append(Send(self.access, request.build(number)))
        for number, search in list(self._searches.items()):
            effects += self._search_again(number, now) if search.sent_at <= late else []
        for number, fetch in list(self._fetches.items()):
            effects += self._send_fetch(number, now) if now >= fetch.next_at else []
        return effects

    def _other(self) -> Address:
        """The next access point to try."""
        assert self.access is not None
        others = (*self.accesses, self.access)  # one that was chosen otherwise comes after all
        return others[(others.index(self.access) + 1) % max(1, len(self.accesses))]

    # --- requests ----------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, what: tuple[Any, ...], build: Build, now: Seconds) -> list[Effect]:
        if self.access is None or any(one.what == what for one in self._requests.values()):
            return []
        number = self._next()
        self._requests[number] = _Request(what, build, now)
        return [Send(self.access, build(number))]

    def _flush(self, now: Seconds) -> list[Effect]:
        """Asks for everything that is not done."""
        if not self.is_connected:
            return []
        me, epoch = self.me, self._epoch
        effects: list[Effect] = []
        if not self._is_advertised:
            packed = self.advertisement.packed()
            effects += self._ask(("advertise",), lambda number: Advertise(me, epoch, number, packed), now)
        for id, one in self._wanted.items():
            if not one.is_standing:
                effects += self._ask(("subscribe", id, one.version), _subscribe(me, epoch, id, one), now)
        if self._is_advertised:  # what is published must be advertised before
            for (id, version), data in self._unfinished.items():
                effects += self._ask(("publish", id, version), _publish(me, epoch, data, False), now)
            for id, owned in self._owned.items():
                if not (owned.is_listed or owned.is_withdrawn or (id, owned.version) in self._unfinished):
                    effects += self._ask(("list", id, owned.version), _publish(me, epoch, owned.data, True), now)
        for id in self._withdrawing:
            effects += self._ask(("withdraw", id), _withdraw(me, epoch, id, self._owned[id].version), now)
        if not effects and not self._requests and self._left() and not self._is_settled:
            effects += self._ask(("settled",), lambda number: Settled(me, epoch, number), now)
        return effects

    def _on_done(self, message: Done, now: Seconds) -> list[Effect]:
        if message.sender.address != self.access or message.epoch != self._epoch:
            return []
        request = self._requests.pop(message.number, None)
        what = () if request is None else request.what
        effects: list[Effect] = []
        match what:
            case ("advertise",):
                self._is_advertised = True
                self.advertised += 1
            case ("subscribe", id, version):
                effects += self._is_standing(id, version)
            case ("publish", id, version):
                del self._unfinished[id, version]
                self._erase("open", id, version)
                self._is_listed(id, version)
                effects.append(Deliver(Published(id, version)))
            case ("list", id, version):
                self._is_listed(id, version)
            case ("withdraw", id):
                self._withdrawing.discard(id)
                self._erase("withdrawing", id)
            case ("settled",):
                self._is_settled = True
        return [*effects, *self._flush(now)]

    def _is_listed(self, id: str, version: int) -> None:
        if self._owned[id].version == version:
            self._owned[id].is_listed = True
            self._write_owned(id)

    def _is_standing(self, id: str, version: int) -> list[Effect]:
        one = self._wanted[id]
        if one.version != version or one.is_standing:
            return []
        one.is_standing = True
        self._write_wanted(id)
        return [Deliver(Standing(id, version) if one.text else Ended(id))]

    def _on_refused(self, message: Refused, now: Seconds) -> list[Effect]:
        if message.sender.address != self.access or message.epoch != self._epoch:
            return []
        if message.number == 0:
            return [Deliver(Rejected(("connect",), message.reason))]
        if "connect first" in message.reason:
            return self.connect(self.access, now)
        request = self._requests.pop(message.number, None)
        what = () if request is None else request.what
        if not what and message.number in self._searches:
            del self._searches[message.number]
            what = ("search", message.number)
        match what:
            case ("subscribe", id, version) if self._wanted[id].version == version:
                self._wanted[id].is_standing = True  # nothing more to ask for
            case ("publish", id, version):
                del self._unfinished[id, version]
                self._erase("open", id, version)
        return [Deliver(Rejected(what, message.reason)), *self._flush(now)]

    # --- notices -----------------------------------------------------------------------------------------------------

    def _on_told(self, message: Told, now: Seconds) -> list[Effect]:
        if message.sender.address != self.access or message.epoch != self._epoch or not self.is_connected:
            return []
        self._heard_at = now
        if self._upto is None or message.first - 1 > self._upto:
            self._upto = message.first - 1
        effects: list[Effect] = []
        if message.number == self._upto + 1:
            self._upto = message.number
            effects = self._take(message.payload, now)
        return [*effects, Send(self.access, Heard(self.me, self._epoch, self._upto))]

    def _take(self, payload: bytes, now: Seconds) -> list[Effect]:
        try:
            inside = decode(payload)
        except OverlayError:
            self.dropped += 1
            return []
        match inside:
            case Tell(notice, version, hops):
                wanted = self._wanted.get(notice.subscription)
                if wanted is None or not wanted.text or wanted.version != version or not self._keep_notice(notice):
                    return []
                number = len(self._outbox)
                value = notice.subscription, notice.document, notice.version, notice.link
                self._write("notice", number, value=value)
                return [Deliver(Notified(number, notice), (), hops)]
            case LeftBehind(access, epoch) if epoch == self._epoch and access != self.access:
                self._formers = tuple(one for one in self._formers if one != access)
                self._write_self()
                return [Deliver(Moved(access))]
            case Wish():
                return self._at_rendezvous(inside, now)
            case Parcel():
                return self._on_parcel(inside, now)
        return []

    # --- one-time queries --------------------------------------------------------------------------------------------

    def _send_search(self, number: int, now: Seconds) -> list[Effect]:
        search = self._searches[number]
        if not self.is_connected or self.access is None:
            return []
        search.attempt += 1
        search.sent_at = now
        missing = () if search.asked is None else tuple(one for one in search.asked if one not in search.answers)
        message = Search(self.me, self._epoch, number, search.attempt, search.text, missing)
        return [Send(self.access, message)]

    def _search_again(self, number: int, now: Seconds) -> list[Effect]:
        search = self._searches[number]
        if search.attempt < SEARCH_ATTEMPTS_MAX or search.asked is None:
            return self._send_search(number, now)
        return self._answer(number)

    def _on_asked(self, message: Asked, now: Seconds) -> list[Effect]:
        search = self._searches.get(message.number)
        if search is None or message.sender.address != self.access:
            return []
        search.asked = search.asked or message.superpeers
        return self._answer_if_whole(message.number)

    def _on_answers(self, message: Answers, now: Seconds) -> list[Effect]:
        search = self._searches.get(message.number)
        if search is None:
            return []
        search.answers.setdefault(message.sender.address, message.found)
        return self._answer_if_whole(message.number)

    def _answer_if_whole(self, number: int) -> list[Effect]:
        search = self._searches[number]
        if search.asked is None or any(one not in search.answers for one in search.asked):
            return []
        return self._answer(number)

    def _answer(self, number: int) -> list[Effect]:
        """What those said who were asked: nobody else is believed. Of a client that has just moved, both may speak."""
        search = self._searches.pop(number)
        asked = search.asked or ()
        found = {(one.id, one.version): one for who in asked for one in search.answers.get(who, ())}
        missing = tuple(one for one in asked if one not in search.answers)
        return [Deliver(Answer(number, tuple(found[name] for name in sorted(found)), missing))]

    # --- resources ---------------------------------------------------------------------------------------------------

    def _send_fetch(self, number: int, now: Seconds) -> list[Effect]:
        fetch = self._fetches[number]
        fetch.attempt += 1
        wish = Wish(self.me, number, fetch.id, fetch.version, self.sealing.card)
        if fetch.attempt <= DIRECT_ATTEMPTS or not self.is_connected:
            fetch.next_at = now + self.settings.again_seconds
            return [Send(fetch.owner, wish)]
        fetch.next_at = now + FETCH_AGAIN_SECONDS
        return self._meet(client_of(fetch.owner), encode(wish), ("wish", number, fetch.attempt), now)

    def _meet(self, client: str, payload: bytes, what: tuple[Any, ...], now: Seconds) -> list[Effect]:
        me, epoch = self.me, self._epoch
        return self._ask(what, lambda number: Meet(me, epoch, number, client, payload), now)

    def _parcel(self, wish: Wish) -> Parcel:
        owned = self._owned.get(wish.id)
        to = wish.sender.address
        data = None
        has = owned is not None and owned.version == wish.version and not owned.is_withdrawn
        if owned is not None and has and self.sealing.is_card(to, wish.card):
            data = self.sealing.seal(self.me.address, to, wish.card, owned.resource)
        return Parcel(self.me.address, self.sealing.card, to, wish.request, data)

    def _on_wish(self, message: Wish, now: Seconds) -> list[Effect]:
        """Asked directly."""
        return [Send(message.sender.address, self._parcel(message))]

    def _at_rendezvous(self, message: Wish, now: Seconds) -> list[Effect]:
        requester = message.sender.address
        parcel = encode(self._parcel(message))
        return self._meet(client_of(requester), parcel, ("parcel", requester, message.request), now)

    def _on_parcel(self, message: Parcel, now: Seconds) -> list[Effect]:
        fetch = self._fetches.get(message.request)
        if fetch is None or client_of(message.owner) != client_of(fetch.owner) or client_of(message.to) != self.id:
            return []
        data = message.data
        if data is not None:
            data = self.sealing.unseal(message.owner, message.to, message.card, data)
            if data is None:
                self.dropped += 1  # it is not what the owner sealed, or not for this client
                return []
        del self._fetches[message.request]
        return [Deliver(Fetched(message.request, data))]


def _subscribe(me: Any, epoch: int, id: str, one: _Wanted) -> Build:
    version, text = one.version, one.text
    return lambda number: Subscribe(me, epoch, number, id, version, text)


def _publish(me: Any, epoch: int, data: bytes, is_old: bool) -> Build:
    return lambda number: PublishAt(me, epoch, number, data, is_old)


def _withdraw(me: Any, epoch: int, id: str, version: int) -> Build:
    return lambda number: WithdrawAt(me, epoch, number, id, version)
