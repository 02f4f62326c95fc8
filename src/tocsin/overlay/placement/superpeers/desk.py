"""An access point's clients: who is connected, what waits for them, and what was left at former access points.

A client is known by its name, which its address begins with; where it is may change. Each connection has a higher epoch
than the one before, so that what is late is recognised. What is for a client waits in a queue on disk until the client
says that it has it; nothing is forgotten because the client went away without a word (P2P-DIET §3: stored
notifications).

A client that comes from elsewhere names its former access points. They are asked for what they stored, first at once,
and again until the client has told its new access point everything and they may forget it. What is newer waits until
they have answered, for a while: so things come in order.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgpack

from tocsin.overlay.message import Address, Message, encode
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.superpeers.advertisements import Advertisement, advertisement
from tocsin.overlay.placement.superpeers.messages import (
    AreYouAlive,
    Collect,
    Connect,
    Done,
    Handed,
    Heard,
    Leave,
    LeftBehind,
    Refused,
    Settled,
    Stored,
    Told,
    Welcome,
)
from tocsin.overlay.placement.superpeers.routes import Routes, client_of

Disk: TypeAlias = MutableMapping[bytes, bytes]
Then: TypeAlias = Callable[[Seconds], list[Effect]]


class ClientGone(NamedTuple):
    """Told to the operator: a client does not answer any more; what is for it is kept."""

    client: str


@dataclass(slots=True)
class KeptQuery:
    """A continuous query of a client; without text it has ended, and its version is remembered."""

    version: int
    text: str
    base: int
    """Of the record when it was told: what is older than that may be out of date."""


@dataclass(slots=True)
class KeptDocument:
    """Metadata of a client's resource; without data it was withdrawn, and its version is remembered."""

    version: int
    data: bytes
    base: int


@dataclass(slots=True)
class Record:
    """A client as its access point knows it."""

    client: str
    address: Address
    epoch: int
    card: bytes
    formers: dict[Address, int] = field(default_factory=dict)
    """Access points that it has left, and up to which number their store was collected."""
    is_settled: bool = False
    base: int = 0
    """The epoch since which it has told everything here."""
    advertisement: Advertisement = Advertisement()
    advertised: int = 0
    """The number of the request that brought it: an older one that comes late must not narrow it."""
    queries: dict[str, KeptQuery] = field(default_factory=dict)
    documents: dict[str, KeptDocument] = field(default_factory=dict)
    queue: dict[int, bytes] = field(default_factory=dict)
    last: int = 0
    # What is not kept on disk:
    numbers: dict[bytes, int] = field(default_factory=dict)
    """The queue, the other way round."""
    thens: dict[int, Then] = field(default_factory=dict)
    held: list[tuple[bytes, Then]] = field(default_factory=list)
    unanswered: set[Address] = field(default_factory=set)
    hold_until: Seconds = 0.0
    heard_at: Seconds = 0.0
    told_at: Seconds = 0.0
    probe_at: Seconds = 0.0
    is_online: bool = True
    is_probed: bool = False

    def packed(self) -> bytes:
        """What is on disk beside queries, documents and the queue."""
        parts = (
            self.address, self.epoch, self.card, sorted(self.formers.items()), self.is_settled, self.base,
            self.advertisement.packed(), self.advertised, self.last,
        )  # fmt: skip
        data: bytes = msgpack.packb(parts)
        return data


def record_of(client: str, data: bytes) -> Record:
    """From disk."""
    address, epoch, card, formers, is_settled, base, packed, advertised, last = msgpack.unpackb(data)
    return Record(
        client, address, epoch, card, dict(formers), is_settled, base, advertisement(packed), advertised, last=last
    )  # fmt: skip


class Desk:
    """Where clients come to."""

    name = "desk"

    def __init__(self, routes: Routes, disk: Disk) -> None:
        self.routes, self.me, self.settings = routes, routes.me, routes.settings
        self._disk = disk
        self.records: dict[str, Record] = {}
        self._released: dict[str, int] = {}  # clients that were let go, and the epoch in which they were elsewhere
        self.on_connect: Callable[[Record, Seconds], list[Effect]] = lambda record, now: []
        self.on_settled: Callable[[Record, Seconds], list[Effect]] = lambda record, now: []
        self.on_release: Callable[[Record, Seconds], list[Effect]] = lambda record, now: []
        self._load()
        routes.node.add(self)
        routes.on_client_alive = self._is_alive
        routes.inner |= {Collect: self._on_collect, Handed: self._on_handed}

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {
            Connect: self._on_connect, Heard: self._on_heard, Leave: self._on_leave,
            Settled: self.request(self._on_settled),
        }  # fmt: skip

    def start(self, now: Seconds) -> list[Effect]:
        """Clients are taken for connected until they do not answer."""
        effects: list[Effect] = []
        for record in self.records.values():
            record.heard_at = now
            effects += self._begin(record, now)
        return effects

    # --- on disk -----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        for key in sorted(self._disk):
            kind, client, *rest = msgpack.unpackb(key)
            data = self._disk[key]
            if kind == "released":
                self._released[client] = msgpack.unpackb(data)
            elif kind == "client":
                self.records[client] = record_of(client, data)
            elif client in self.records:  # "client" is the first of a client's kinds in the order of names
                record = self.records[client]
                if kind == "query":
                    record.queries[rest[0]] = KeptQuery(*msgpack.unpackb(data))
                elif kind == "document":
                    record.documents[rest[0]] = KeptDocument(*msgpack.unpackb(data))
                else:
                    record.queue[rest[0]] = data
        for record in self.records.values():
            record.queue = dict(sorted(record.queue.items()))
            record.numbers = {payload: number for number, payload in record.queue.items()}

    def keep(self, record: Record) -> None:
        """Writes what is short of a client."""
        self._disk[_key("client", record.client)] = record.packed()

    def keep_query(self, record: Record, id: str, query: KeptQuery) -> None:
        """Writes a query."""
        record.queries[id] = query
        self._disk[_key("query", record.client, id)] = msgpack.packb((query.version, query.text, query.base))

    def keep_document(self, record: Record, id: str, document: KeptDocument) -> None:
        """Writes a document."""
        record.documents[id] = document
        self._disk[_key("document", record.client, id)] = msgpack.packb(
            (document.version, document.data, document.base)
        )

    def _drop(self, record: Record, numbers: list[int]) -> list[Then]:
        for number in numbers:
            del record.numbers[record.queue.pop(number)]
            del self._disk[_key("stored", record.client, number)]
        return [record.thens.pop(number) for number in numbers if number in record.thens]

    def _clear(self, record: Record) -> None:
        """Forgets a client's queries and documents."""
        for id in record.queries:
            del self._disk[_key("query", record.client, id)]
        for id in record.documents:
            del self._disk[_key("document", record.client, id)]
        record.queries, record.documents = {}, {}
        record.advertisement = Advertisement()

    # --- connecting --------------------------------------------------------------------------------------------------

    def _on_connect(self, message: Connect, now: Seconds) -> list[Effect]:
        client, address = client_of(message.sender.address), message.sender.address
        if message.client != client or not self.routes.sealing.is_card(address, message.card):
            told = f"{address} says that it is {message.client}"
            refused = Refused(self.me, message.epoch, 0, True, "your name is that of another client, or your keys are")
            return [*self.routes.refuse("impostor", address, told), Send(address, refused)]
        if self.me.address in self.routes.retired:
            gone = Refused(self.me, message.epoch, 0, True, "this super-peer was retired: connect to another")
            return [Send(address, gone)]
        record = self.records.get(client)
        if self._released.get(client, 0) >= message.epoch:
            return []  # late: it is elsewhere by now
        if record is not None and record.epoch >= message.epoch:
            if (record.epoch, record.address) != (message.epoch, address):
                return []  # late
            return [self._welcome(record)]
        effects: list[Effect] = []
        # If it was welcomed elsewhere since, that was in an epoch after all that are known here.
        knows = record is not None and record.base <= message.last <= record.epoch
        if record is None:
            record = self.records[client] = Record(client, address, message.epoch, message.card)
        if not knows:  # it was elsewhere in between: what it does not tell again until it has settled is out of date
            record.base = message.epoch
        record.address, record.epoch, record.card = address, message.epoch, message.card
        record.formers = {one: record.formers.get(one, 0) for one in message.formers if one != self.me.address}
        record.is_settled = False
        record.heard_at, record.is_online = now, True
        self.keep(record)
        return [*effects, self._welcome(record), *self.on_connect(record, now), *self._begin(record, now)]

    def _welcome(self, record: Record) -> Effect:
        knows = record.base != record.epoch
        return Send(record.address, Welcome(self.me, record.epoch, knows, self.routes.sealing.card))

    def _begin(self, record: Record, now: Seconds) -> list[Effect]:
        record.unanswered, record.hold_until = set(record.formers), now + self.settings.hold_seconds
        effects = [*self._collect(record, now), *self._tell_all(record, now)]
        if not record.is_probed:
            record.is_probed = True
            record.probe_at = now + self.settings.probe_seconds
            effects.append(Wake(record.probe_at, (self.name, record.client)))
        return effects

    def request(self, handler: Callable[[Record, Any, Seconds], list[Effect]]) -> Handler:
        """Lets only connected clients through."""

        def check(message: Any, now: Seconds) -> list[Effect]:
            sender: Address = message.sender.address
            record = self.records.get(client_of(sender))
            if record is None or (record.address, record.epoch) != (sender, message.epoch):
                refused = Refused(self.me, message.epoch, message.number, False, "you are not connected here")
                self.routes.refused["unconnected"] += 1
                return [Send(sender, refused)]
            record.heard_at, record.is_online = now, True
            return handler(record, message, now)

        return check

    def done(self, record: Record, number: int) -> Effect:
        """A request was done."""
        return Send(record.address, Done(self.me, record.epoch, number))

    def refuse(self, record: Record, number: int, kind: str, why: str) -> list[Effect]:
        """A request cannot be done: the client is told, and the operator."""
        told = self.routes.refuse(kind, record.address, why)
        return [*told, Send(record.address, Refused(self.me, record.epoch, number, True, why))]

    def _on_settled(self, record: Record, message: Settled, now: Seconds) -> list[Effect]:
        record.is_settled = True
        self.keep(record)
        return [*self.on_settled(record, now), self.done(record, message.number), *self._collect(record, now)]

    def drop_old(self, record: Record) -> tuple[list[str], list[str]]:
        """Forgets queries and documents that were not told again since the client came back; which ones."""
        queries = [id for id, one in record.queries.items() if one.base < record.base]
        documents = [id for id, one in record.documents.items() if one.base < record.base]
        for id in queries:
            del record.queries[id], self._disk[_key("query", record.client, id)]
        for id in documents:
            del record.documents[id], self._disk[_key("document", record.client, id)]
        return queries, documents

    # --- are you alive? ----------------------------------------------------------------------------------------------

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Probes a client, sends again what it has not heard, asks its former access points."""
        record = self.records.get(token[1])
        if record is None:
            return []
        settings = self.settings
        effects: list[Effect] = [Wake(now + settings.probe_seconds, token)]
        record.heard_at += max(0.0, now - record.probe_at)  # this access point slept, not the client
        record.probe_at = now + settings.probe_seconds
        if record.is_online:
            effects.append(Send(record.address, AreYouAlive(self.me, 0, False)))
            if now - record.heard_at > settings.probe_seconds * (settings.probes_missed_max + 0.5):
                effects += [Deliver(ClientGone(record.client)), *self._away(record, now)]
            elif now - record.told_at >= settings.again_seconds:
                effects += self._tell_all(record, now)
        if record.held and now >= record.hold_until:
            effects += self._release_held(record, now)
        return [*effects, *self._collect(record, now)]

    def _is_alive(self, address: Address, now: Seconds) -> None:
        record = self.records.get(client_of(address))
        if record is not None and record.address == address:
            record.heard_at, record.is_online = now, True

    def _on_leave(self, message: Leave, now: Seconds) -> list[Effect]:
        record = self.records.get(client_of(message.sender.address))
        return [] if record is None or record.epoch != message.epoch else self._away(record, now)

    def _away(self, record: Record, now: Seconds) -> list[Effect]:
        """What is stored for a client that is away is as good as delivered: whoever sent it need not remember it."""
        record.is_online = False
        thens, record.thens = list(record.thens.values()), {}
        return [effect for then in thens for effect in then(now)]

    # --- the queue ---------------------------------------------------------------------------------------------------

    def put(self, record: Record, message: Message, now: Seconds, then: Then) -> list[Effect]:
        """Something for a client; calls back when it has it, or when it is away and the disk has it."""
        payload = encode(message)
        if record.unanswered and now < record.hold_until:
            record.held.append((payload, then))
            return []
        return self._put(record, payload, now, then)

    def put_payload(self, record: Record, payload: bytes, now: Seconds) -> list[Effect]:
        """Something for a client that is not waited for: it is on disk, that is enough."""
        return self._put(record, payload, now, _nothing)

    def _put(self, record: Record, payload: bytes, now: Seconds, then: Then) -> list[Effect]:
        if payload in record.numbers:  # its sender had not heard that it is here
            return then(now) if not record.is_online else self._share(record, payload, then)
        record.last += 1
        record.queue[record.last] = payload
        record.numbers[payload] = record.last
        self._disk[_key("stored", record.client, record.last)] = payload
        self.keep(record)
        if not record.is_online:
            return then(now)
        record.thens[record.last] = then
        if len(record.queue) == 1:
            record.told_at = now
        return [self._told(record, record.last)] if len(record.queue) <= self.settings.window else []

    def _share(self, record: Record, payload: bytes, then: Then) -> list[Effect]:
        number = record.numbers[payload]
        before = record.thens.get(number)
        record.thens[number] = then if before is None else lambda now: [*before(now), *then(now)]
        return []

    def _told(self, record: Record, number: int) -> Effect:
        first = next(iter(record.queue))
        return Send(record.address, Told(self.me, record.epoch, number, first, record.queue[number]))

    def _tell_all(self, record: Record, now: Seconds) -> list[Effect]:
        if not record.is_online or not record.queue:
            return []
        record.told_at = now
        return [self._told(record, number) for number in list(record.queue)[: self.settings.window]]

    def _on_heard(self, message: Heard, now: Seconds) -> list[Effect]:
        record = self.records.get(client_of(message.sender.address))
        if record is None or (record.address, record.epoch) != (message.sender.address, message.epoch):
            return []
        record.heard_at, record.is_online = now, True
        before = len(record.queue)
        was_full = before > self.settings.window
        thens = self._drop(record, [number for number in record.queue if number <= message.upto])
        if len(record.queue) < before:
            record.told_at = now
        effects = [effect for then in thens for effect in then(now)]
        return [*effects, *(self._tell_all(record, now) if was_full and thens else [])]

    def _release_held(self, record: Record, now: Seconds) -> list[Effect]:
        held, record.held, record.unanswered = record.held, [], set()
        return [effect for payload, then in held for effect in self._put(record, payload, now, then)]

    # --- clients that moved ------------------------------------------------------------------------------------------

    def _collect(self, record: Record, now: Seconds) -> list[Effect]:
        effects: list[Effect] = []
        for former in record.formers.keys() & self.routes.retired:
            nothing = Handed(record.client, record.epoch, (), True)
            effects += self._on_handed(nothing, former, 0, now)
        for former in list(record.formers):
            effects += self._collect_from(former, record, now)
        return effects

    def _collect_from(self, former: Address, record: Record, now: Seconds) -> list[Effect]:
        question = Collect(record.client, record.epoch, record.formers[former], record.is_settled)
        return self.routes.relay(former, question, now)

    def _on_collect(self, message: Collect, origin: Address, hops: int, now: Seconds) -> list[Effect]:
        record = self.records.get(message.client)
        if record is None:
            self._released[message.client] = max(message.epoch, self._released.get(message.client, 0))
            self._disk[_key("released", message.client)] = msgpack.packb(self._released[message.client])
        if record is None or record.epoch >= message.epoch:
            nothing = Handed(message.client, message.epoch, (), True)
            return self.routes.relay(origin, nothing, now)
        effects = self._away(record, now) if record.is_online else []
        if record.held:
            effects += self._release_held(record, now)
        thens = self._drop(record, [number for number in record.queue if number <= message.upto])
        effects += [effect for then in thens for effect in then(now)]
        if message.is_final:
            effects += self.on_release(record, now)
            self._clear(record)
            self.keep(record)
        stored = tuple(Stored(number, payload) for number, payload in record.queue.items())
        is_released = message.is_final and not stored
        if is_released:
            del self.records[record.client], self._disk[_key("client", record.client)]
            self._released[record.client] = message.epoch
            self._disk[_key("released", record.client)] = msgpack.packb(message.epoch)
        handed = Handed(message.client, message.epoch, stored, is_released)
        return [*effects, *self.routes.relay(origin, handed, now)]

    def _on_handed(self, message: Handed, origin: Address, hops: int, now: Seconds) -> list[Effect]:
        record = self.records.get(message.client)
        if record is None or record.epoch != message.epoch or origin not in record.formers:
            return []
        effects: list[Effect] = []
        upto = record.formers[origin]
        for stored in message.stored:
            if stored.number > upto:
                record.formers[origin] = stored.number
                effects += self._put(record, stored.payload, now, _nothing)
        if message.is_released:
            del record.formers[origin]
            effects += self._put(record, encode(LeftBehind(origin, record.epoch)), now, _nothing)
        self.keep(record)
        record.unanswered.discard(origin)
        if not record.unanswered and record.held:
            effects += self._release_held(record, now)
        if not message.is_released and record.formers[origin] > upto:
            # So that it can drop what is here now. Only who has given something new, or questions and answers multiply.
            effects += self._collect_from(origin, record, now)
        return effects


def _nothing(now: Seconds) -> list[Effect]:
    return []


def _key(*parts: Any) -> bytes:
    data: bytes = msgpack.packb(parts)
    return data
