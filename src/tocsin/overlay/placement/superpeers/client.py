"""A client: it has resources and wishes, and one access point at a time (P2P-DIET §3).

    client = Client("ann@host:7", accesses=["s1"], knowledge=knowledge)
    client.subscribe(number, "title:peer", now)     the driver gives the number: large, and never the same twice
    client.publish(document, now, resource)
    client.search("author:smith", now)
    client.fetch(notice.link, notice.document, notice.version, now)

Whatever it wants is on its disk until its access point has done it, and is told to the next one when it moves. What it
publishes satisfies its advertisement, or a wider one goes first. A resource stays here, and is given to who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple, TypeAlias

from tocsin.match.rendezvous.payload import PackedDocument
from tocsin.model import Document
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.message import Address, Message, OverlayError, Peer, decode, peer
from tocsin.overlay.node import Deliver, Effect, Handler, Node, Seconds, Send, Token, Wake
from tocsin.overlay.placement.publisher import Published
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.overlay.placement.superpeers.advertisements import Advertisement
from tocsin.overlay.placement.superpeers.belongings import Belongings, Desired, Disk, Owned, Wanted
from tocsin.overlay.placement.superpeers.errands import Answer, Fetched, Resources, Searches
from tocsin.overlay.placement.superpeers.filtering import standing_query
from tocsin.overlay.placement.superpeers.messages import (
    Advertise,
    Answers,
    AreYouAlive,
    Asked,
    Connect,
    Done,
    Heard,
    Leave,
    LeftBehind,
    Parcel,
    PublishAt,
    Refused,
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

__all__ = ["Answer", "Client", "Connected", "Fetched", "Lost", "Moved", "Rejected"]

SETTINGS = SuperpeerSettings()
Build: TypeAlias = Callable[[int], Message]


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


class _Request(NamedTuple):
    what: tuple[Any, ...]
    build: Build
    sent_at: Seconds


class Client(Node):
    """A node outside the backbone."""

    name = "client"

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
        self.kept = Belongings(disk)
        self.access: Address | None = None
        self.is_connected = False
        self.advertised = 0
        """How often it advertised."""
        self.searches, self.resources = Searches(self), Resources(self, self.kept)
        self._requests: dict[int, _Request] = {}
        self._number = 0
        self._is_advertised = self._is_settled = self._is_known = False
        self._upto: int | None = None
        """Of what waited at the access point: up to here it has everything."""
        self._heard_at: Seconds = 0.0
        self._tick_at: Seconds = inf
        self._attempts = 0
        self._is_ticking = False
        self.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {
            AreYouAlive: self._on_probe, Welcome: self._on_welcome, Done: self._on_done, Refused: self._on_refused,
            Told: self._on_told, Asked: self.searches.on_asked, Answers: self.searches.on_answers,
            Wish: self.resources.on_wish, Parcel: self.resources.on_parcel,
        }  # fmt: skip

    @property
    def epoch(self) -> int:
        """Of this connection: higher than that of any before."""
        return self.kept.epoch

    @property
    def advertisement(self) -> Advertisement:
        """What it said that it will publish."""
        return self.kept.advertisement

    # --- for the layer above -----------------------------------------------------------------------------------------

    def subscribe(self, number: int, text: str, now: Seconds) -> list[Effect]:
        """Asks for documents from now on; with a number that is in use, another query takes its place."""
        standing_query(text, self.knowledge)  # so that the caller is told at once what is wrong with it
        id = self.query_id(number)
        before = self.kept.wanted.get(id)
        self.kept.want(id, Wanted(1 if before is None else before.version + 1, text))
        return self._flush(now)

    def unsubscribe(self, number: int, now: Seconds) -> list[Effect]:
        """Ends a subscription."""
        id = self.query_id(number)
        self.kept.want(id, Wanted(self.kept.wanted[id].version + 1, ""))
        return self._flush(now)

    def query_id(self, number: int) -> str:
        """The client's name and a very large number (P2P-DIET §3)."""
        return f"{self.id} {number:016x}"

    def publish(self, document: Document, now: Seconds, resource: bytes = b"") -> list[Effect]:
        """Publishes a document, or a new version of it; the resource stays here."""
        data = PackedDocument.of(document).data
        self.kept.own(document.id, Owned(document.version, data, resource))
        self.kept.begin(document.id, document.version, data)
        self.kept.withdraw(document.id, False)
        if self.advertisement.is_satisfied(document):
            return self._flush(now)
        most = self.settings.values_max if self.settings.advertises_values else 0
        return self.advertise(self.advertisement.widened(document, most), now)

    def advertise(self, wanted: Advertisement, now: Seconds) -> list[Effect]:
        """Says what will be published."""
        self.kept.advertisement, self._is_advertised = wanted, False
        self.kept.keep_self()
        self._requests = {number: one for number, one in self._requests.items() if one.what != ("advertise",)}
        return self._flush(now)

    def withdraw(self, id: str, now: Seconds) -> list[Effect]:
        """A resource is gone."""
        owned = self.kept.owned[id]
        owned.is_withdrawn = True
        self.kept.own(id, owned)
        self.kept.withdraw(id, True)
        return self._flush(now)

    def search(self, text: str, now: Seconds) -> list[Effect]:
        """A one-time query; its `Answer` will have the number that `last_number` has now."""
        parse(text, self.knowledge.analysis)
        return self.searches.begin(self._next(), text, now)

    def fetch(self, owner: Address, id: str, version: int, now: Seconds) -> list[Effect]:
        """Gets a resource from its owner, or by a rendezvous if the owner is away."""
        return self.resources.begin(self._next(), Desired(owner, id, version), now)

    @property
    def last_number(self) -> int:
        """The number of the last search or fetch."""
        return self._number

    def outbox(self, after: int = 0) -> Iterator[tuple[int, Notice]]:
        """Every notice after a number, in order."""
        return self.kept.outbox(after)

    # --- connecting --------------------------------------------------------------------------------------------------

    def start(self, now: Seconds) -> list[Effect]:
        """Connects to where it was, or to the first of its access points."""
        access = self.kept.last_access or (self.accesses[0] if self.accesses else None)
        return [] if access is None else self.connect(access, now)

    def connect(self, access: Address, now: Seconds) -> list[Effect]:
        """Makes a super-peer its access point."""
        kept = self.kept
        if access not in kept.formers:
            kept.formers = (*kept.formers, access)
        kept.epoch += 1
        kept.keep_self()
        self.access, self.is_connected = access, False
        self._requests, self._attempts = {}, 0
        self._number = max(self._number, kept.epoch << 24)
        if self._is_ticking:
            return [self._connecting()]
        self._is_ticking = True
        self._tick_at = now + self.settings.again_seconds / 2
        return [self._connecting(), Wake(self._tick_at, (self.name,))]

    def _connecting(self) -> Effect:
        assert self.access is not None
        card = self.sealing.card
        return Send(self.access, Connect(self.me, self.id, self.epoch, self.kept.last_epoch, self._left(), card))

    def _left(self) -> tuple[Address, ...]:
        return tuple(one for one in self.kept.formers if one != self.access)

    def leave(self, now: Seconds) -> list[Effect]:
        """Goes off-line in order; what comes meanwhile is stored. (Going without a word does as well.)"""
        if self.access is None or not self.is_connected:
            return []
        self.is_connected = False
        access, self.access = self.access, None
        return [Send(access, Leave(self.me, self.epoch))]

    def _on_welcome(self, message: Welcome, now: Seconds) -> list[Effect]:
        access, kept = message.sender.address, self.kept
        if access != self.access or message.epoch != self.epoch or self.is_connected:
            return []
        self.is_connected, self._heard_at, self._upto, self._is_settled = True, now, None, False
        kept.last_epoch, kept.last_access = self.epoch, access
        kept.keep_self()
        self._is_known = message.knows
        if not message.knows:
            self._is_advertised = False
            kept.forget_access()
        return [Deliver(Connected(access, self.epoch)), *self._flush(now), *self.searches.again(inf, now)]

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
        return [*effects, *self.searches.again(late, now), *self.resources.again(now)]

    def _other(self) -> Address:
        """The next access point to try."""
        assert self.access is not None
        others = (*self.accesses, self.access)  # one that was chosen otherwise comes after all
        return others[(others.index(self.access) + 1) % max(1, len(self.accesses))]

    # --- requests ----------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def ask(self, what: tuple[object, ...], build: Build, now: Seconds) -> list[Effect]:
        """A request to the access point, until it is done; not twice for the same thing."""
        if self.access is None or any(one.what == what for one in self._requests.values()):
            return []
        number = self._next()
        self._requests[number] = _Request(what, build, now)
        return [Send(self.access, build(number))]

    def _flush(self, now: Seconds) -> list[Effect]:
        """Asks for everything that is not done."""
        if not self.is_connected:
            return []
        me, epoch, kept = self.me, self.epoch, self.kept
        effects: list[Effect] = []
        if not self._is_advertised:
            packed = self.advertisement.packed()
            effects += self.ask(("advertise",), lambda number: Advertise(me, epoch, number, packed), now)
        for id, one in kept.wanted.items():
            if not one.is_standing:
                effects += self.ask(("subscribe", id, one.version), _subscribe(me, epoch, id, one), now)
        if self._is_advertised:  # what is published must be advertised before
            for (id, version), data in kept.unfinished.items():
                effects += self.ask(("publish", id, version), _publish(me, epoch, data, False), now)
            for id, owned in kept.owned.items():
                if not (owned.is_listed or owned.is_withdrawn or (id, owned.version) in kept.unfinished):
                    effects += self.ask(("list", id, owned.version), _publish(me, epoch, owned.data, True), now)
        for id in sorted(kept.withdrawing):
            effects += self.ask(("withdraw", id), _withdraw(me, epoch, id, kept.owned[id].version), now)
        if not effects and not self._requests and (self._left() or not self._is_known) and not self._is_settled:
            effects += self.ask(("settled",), lambda number: Settled(me, epoch, number), now)
        return effects

    def _answered(self, message: Done | Refused) -> tuple[Any, ...] | None:
        """What was asked for; nothing if it is not known any more; None if this is not from the access point."""
        if message.sender.address != self.access or message.epoch != self.epoch:
            return None
        request = self._requests.pop(message.number, None)
        return () if request is None else request.what

    def _on_done(self, message: Done, now: Seconds) -> list[Effect]:
        what, kept = self._answered(message), self.kept
        effects: list[Effect] = []
        match what:
            case None:
                return []
            case ("advertise",):
                self._is_advertised = True
                self.advertised += 1
            case ("subscribe", id, version):
                effects += self._is_standing(id, version)
            case ("publish", id, version):
                kept.finish(id, version)
                self._is_listed(id, version)
                effects.append(Deliver(Published(id, version)))
            case ("list", id, version):
                self._is_listed(id, version)
            case ("withdraw", id):
                kept.withdraw(id, False)
            case ("settled",):
                self._is_settled = True
        return [*effects, *self._flush(now)]

    def _is_listed(self, id: str, version: int) -> None:
        owned = self.kept.owned[id]
        if owned.version == version:
            owned.is_listed = True
            self.kept.own(id, owned)

    def _is_standing(self, id: str, version: int) -> list[Effect]:
        one = self.kept.wanted[id]
        if one.version != version or one.is_standing:
            return []
        one.is_standing = True
        self.kept.want(id, one)
        return [Deliver(Standing(id, version) if one.text else Ended(id))]

    def _on_refused(self, message: Refused, now: Seconds) -> list[Effect]:
        what = self._answered(message)
        if what is None or self.access is None:
            return []
        if message.number == 0:
            return [Deliver(Rejected(("connect",), message.reason))]
        if not message.is_final:
            return self.connect(self.access, now)
        if not what and message.number in self.searches:
            self.searches.drop(message.number)
            what = ("search", message.number)
        match what:
            case ("subscribe", id, version) if self.kept.wanted[id].version == version:
                self.kept.wanted[id].is_standing = True  # nothing more to ask for
            case ("publish", id, version):
                self.kept.finish(id, version)
        return [Deliver(Rejected(what, message.reason)), *self._flush(now)]

    # --- what waited at the access point -----------------------------------------------------------------------------

    def _on_told(self, message: Told, now: Seconds) -> list[Effect]:
        if message.sender.address != self.access or message.epoch != self.epoch or not self.is_connected:
            return []
        self._heard_at = now
        if self._upto is None or message.first - 1 > self._upto:
            self._upto = message.first - 1
        effects: list[Effect] = []
        if message.number == self._upto + 1:
            self._upto = message.number
            effects = self._take(message.payload, now)
        return [*effects, Send(self.access, Heard(self.me, self.epoch, self._upto))]

    def _take(self, payload: bytes, now: Seconds) -> list[Effect]:
        try:
            inside = decode(payload)
        except OverlayError:
            self.dropped += 1
            return []
        match inside:
            case Tell(notice, version, hops):
                wanted = self.kept.wanted.get(notice.subscription)
                if wanted is None or not wanted.text or wanted.version != version:
                    return []  # of a query that has changed or ended since
                number = self.kept.hear(notice)
                return [] if number is None else [Deliver(Notified(number, notice), (), hops)]
            case LeftBehind(access, epoch) if epoch == self.epoch and access != self.access:
                self.kept.formers = tuple(one for one in self.kept.formers if one != access)
                self.kept.keep_self()
                return [Deliver(Moved(access))]
            case Wish():
                return self.resources.at_rendezvous(inside, now)
            case Parcel():
                return self.resources.on_parcel(inside, now)
        return []


def _subscribe(me: Peer, epoch: int, id: str, one: Wanted) -> Build:
    version, text = one.version, one.text
    return lambda number: Subscribe(me, epoch, number, id, version, text)


def _publish(me: Peer, epoch: int, data: bytes, is_old: bool) -> Build:
    return lambda number: PublishAt(me, epoch, number, data, is_old)


def _withdraw(me: Peer, epoch: int, id: str, version: int) -> Build:
    return lambda number: WithdrawAt(me, epoch, number, id, version)
