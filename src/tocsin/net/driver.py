"""Does what nodes ask for, in the real world: as `sim.world` does in the false one, message by message.

    Send       encoded, counted (as the world counts, before envelope and TLS) and given to a link
    Wake       a timer of the event loop
    Deliver    handed to `on_deliver`

What a node wrote to its disk while it handled a message is safe before the message's effects are done; whatever is
handled meanwhile waits for the next turn, so one sync serves many.

A node whose clock is wrong, or whose disk is full, ends: `ended` tells why. Whether it is this node's clock that is
wrong is decided by the nodes that it connected to: each greets with its time, and numbers its messages by it. A message
that seems to come from the past may have waited while this machine was busy or asleep; then the node is asked anew.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias

from tocsin.net.disk import DiskError, Journal
from tocsin.net.door import Door
from tocsin.net.envelope import (
    NANOSECONDS,
    NOBODY,
    Envelope,
    EnvelopeError,
    Gate,
    Refusal,
    Sealer,
    WallClock,
    read_envelope,
)
from tocsin.net.identity import Endpoint, Identity, client_context, name_and_endpoint
from tocsin.net.limits import DEFAULT_LIMITS, NetError, NetLimits
from tocsin.net.link import FAILURES, Link, connect
from tocsin.overlay.key import host_of
from tocsin.overlay.membership import Joined
from tocsin.overlay.message import Address, Message, OverlayError, decode, encode
from tocsin.overlay.node import Deliver, Effect, Seconds, Send, Token, Wake

WITNESSES_MAX = 64
OnDeliver: TypeAlias = Callable[[Address, Deliver], None]
OnError: TypeAlias = Callable[[Address, Exception], None]
OnRefusal: TypeAlias = Callable[[Refusal, str], None]


class Process(Protocol):
    """What can be driven: see `overlay.node`."""

    def start(self, now: Seconds) -> list[Effect]:
        """It begins."""

    def handle(self, message: Any, now: Seconds, /) -> list[Effect]:
        """A message came."""

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """The time of a Wake has come."""


class _Place(NamedTuple):
    address: Address
    process: Process


class Driver:
    """Runs the nodes of one identity: one, or several virtual ones."""

    def __init__(
        self,
        identity: Identity,
        *,
        limits: NetLimits = DEFAULT_LIMITS,
        disk: Journal | None = None,
        on_deliver: OnDeliver | None = None,
        on_error: OnError | None = None,
        on_refusal: OnRefusal | None = None,
        clock: Callable[[], Seconds] = time.monotonic,
        wall_clock: WallClock = time.time_ns,
        seed: int | None = None,
    ) -> None:
        """`clock` is what nodes see, and never jumps; `wall_clock`, in nanoseconds, is what they compare."""
        self.identity, self.limits, self.disk = identity, limits, disk
        self.address: Address = NOBODY
        self.counts: Counter[str] = Counter()
        self.delivered: list[tuple[Address, Deliver]] = []
        self.received = 0
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_ending = False
        self.is_joined = False
        self._on_deliver = on_deliver or (lambda address, effect: self.delivered.append((address, effect)))
        self._on_error = on_error or self._report
        self._is_disk_lost = False
        self._clock, self._wall_clock = clock, wall_clock
        self._chance = Random(seed)
        self._places: dict[Address, _Place] = {}
        self._links: dict[Address, Link] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._sent: dict[type, list[int]] = {}
        self._outbox: list[tuple[_Place, Effect]] = []
        self._witnesses: dict[str, tuple[int, float]] = {}  # by name: last number, seconds that it is ahead of us
        self._asking: dict[str, asyncio.Task[None]] = {}  # witnesses that are asked for their time, or just were
        self._sealer, self._gate = Sealer(identity, wall_clock), Gate(wall_clock, limits)
        self._client = client_context()
        self._committing: asyncio.Task[None] | None = None
        self._door = Door(
            identity.server_context(), limits, greeting=lambda: self._sealer.seal(self.address, NOBODY),
            check=self._check, receive=self._receive, count=self._count,
            refused=on_refusal or (lambda refusal, who: None),
        )  # fmt: skip

    # --- life --------------------------------------------------------------------------------------------------------

    async def open(self, listen: Endpoint, advertise: Endpoint | None = None) -> Address:
        """Listens; `advertise` is where others reach this node, if not there. The node's address."""
        found = await self._door.open(listen)
        self.address = self.identity.address(advertise or found)
        return self.address

    def add(self, address: Address, process: Process) -> None:
        """Begins to run a node at an address of this identity."""
        if host_of(address) != self.address:
            raise NetError(f"{address} is not an address of {self.address}")
        place = self._places[address] = _Place(address, process)
        self._perform(place, process.start(self._clock()))

    async def close(self) -> None:
        """Ends at once; nothing is handed over."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        for asking in self._asking.values():
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._door.close()
        for link in self._links.values():
            await link.close()
        self._links.clear()

    def end(self, why: str) -> None:
        """Says that this node must not go on."""
        self.is_ending = True
        if not self.ended.done():
            self.ended.set_result(why)

    def invoke(self, address: Address, call: Callable[[Any, Seconds], list[Effect]]) -> None:
        """Calls a node as the layer above it would: `call(process, now)` answers with effects."""
        place = self._places[address]
        self._do(place, lambda: call(place.process, self._clock()))

    # --- what comes in -----------------------------------------------------------------------------------------------

    def _check(self, data: bytes) -> Envelope:
        """Opens an envelope, or refuses it."""
        envelope = read_envelope(data, (self.address, *self._places))
        if envelope.name in self._witnesses:  # one that we chose to speak with, not one that chose us
            self._witness(envelope)
        self._gate.check(envelope)
        return envelope

    def _receive(self, sender: Address, to: Address, message: Message) -> None:
        place = self._places.get(to)
        if place is None:
            raise EnvelopeError(Refusal.MISDIRECTED)
        self.received += 1
        self._guard(place, lambda: place.process.handle(message, self._clock()))

    def _guard(self, place: _Place, call: Callable[[], list[Effect]]) -> None:
        """A node that fails on one message lives on for the others; the failure is counted and told."""
        try:
            self._do(place, call)
        except Exception as error:
            self._fail(place, error)

    def _do(self, place: _Place, call: Callable[[], list[Effect]]) -> None:
        """Lets a node act, and does what it asks for."""
        changes = self.disk.changes if self.disk is not None else 0
        effects = call()
        if self._is_disk_lost and self.disk is not None and self.disk.changes != changes:
            # It cannot be kept, so it must not be acknowledged.
            effects = [effect for effect in effects if not isinstance(effect, Send)]
        self._perform(place, effects)

    # --- effects -----------------------------------------------------------------------------------------------------

    def _perform(self, place: _Place, effects: list[Effect]) -> None:
        if not self._is_clean():
            self._outbox += [(place, effect) for effect in effects]
            if self._committing is None or self._committing.done():
                self._committing = asyncio.create_task(self._commit())
            return
        for effect in effects:
            self._effect(place, effect)

    def _is_clean(self) -> bool:
        is_safe = self.disk is None or self._is_disk_lost or not self.disk.is_dirty
        return is_safe and not self._outbox

    async def _commit(self) -> None:
        """Makes the disk safe, then does what waited for it."""
        disk = self.disk
        assert disk is not None
        while self._outbox:
            waiting, self._outbox = self._outbox, []
            try:
                if disk.is_dirty and not self._is_disk_lost:
                    disk.write()
                    await asyncio.get_running_loop().run_in_executor(None, disk.sync)
                    disk.compact()
            except DiskError as error:
                self._count("disk_failed")
                self._is_disk_lost = True
                self.end(str(error))
            for place, effect in waiting:
                if self._is_disk_lost and isinstance(effect, Send):
                    continue  # it may be an acknowledgement
                try:
                    self._effect(place, effect)
                except Exception as error:
                    self._fail(place, error)

    def _effect(self, place: _Place, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._send(place, effect.to, effect.message)
        elif isinstance(effect, Wake):
            self._wake_at(place, effect)
        else:
            self.is_joined = self.is_joined or isinstance(effect.what, Joined)
            self._on_deliver(place.address, effect)

    def _wake_at(self, place: _Place, effect: Wake) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            self._guard(place, lambda: place.process.wake(effect.token, self._clock()))

        timer = asyncio.get_running_loop().call_later(max(0.0, effect.at - self._clock()), ring)
        self._timers.add(timer)

    def _send(self, place: _Place, to: Address, message: Message) -> None:
        try:
            body = encode(message)
        except OverlayError:
            self._count("unsendable")
            return
        count = self._sent.setdefault(type(message), [0, 0])
        count[0] += 1
        count[1] += len(body)
        if to in self._places:  # to itself, through the codec as everything
            again = decode(body)
            asyncio.get_running_loop().call_soon(self._receive, place.address, to, again)
            return
        link = self._link(host_of(to))
        if link is not None:
            link.offer(place.address, to, body)

    def _link(self, host: Address) -> Link | None:
        link = self._links.get(host)
        if link is None:
            if name_and_endpoint(host) is None:
                self._count("unreachable")
                return None
            if len(self._links) >= self.limits.links_max:
                self._retire()
            link = self._links[host] = Link(
                host, self.address, sealer=self._sealer, context=self._client, limits=self.limits, count=self._count,
                on_greeting=self._witness, wall_clock=self._wall_clock, chance=self._chance,
            )  # fmt: skip
        return link

    def _retire(self) -> None:
        """Ends the link that was not used for longest."""
        oldest = min(self._links, key=lambda host: self._links[host].used)
        link = self._links.pop(oldest)
        closing = asyncio.ensure_future(link.close())
        closing.add_done_callback(lambda _: self._count("links_retired"))

    # --- clocks ------------------------------------------------------------------------------------------------------

    def _witness(self, envelope: Envelope, since: int | None = None) -> None:
        """Another node says what time it is. If most say that ours is wrong, it is.

        What is said on a connection that was begun at `since`, by our clock, is not older than that. Anything else may
        be: that it seems to be old proves nothing.
        """
        last = self._witnesses.get(envelope.name, (0, 0.0))[0]
        if envelope.number <= last:  # somebody repeats what it said long ago
            return
        most, ahead = self.limits.clock_seconds_max, envelope.number - self._wall_clock()
        if ahead < 0 and since is not None:
            ahead = min(0, envelope.number - since)
        elif ahead < -most * NANOSECONDS:
            self._ask_time(envelope)
            return
        self._witnesses.pop(envelope.name, None)
        self._witnesses[envelope.name] = envelope.number, ahead / NANOSECONDS
        if len(self._witnesses) > WITNESSES_MAX:
            del self._witnesses[next(iter(self._witnesses))]
        against = [ahead for _, ahead in self._witnesses.values() if abs(ahead) > most]
        # One against one proves nothing; but whoever comes new has to follow those who are there.
        if len(against) * 2 > len(self._witnesses) and len(against) >= (2 if self.is_joined else 1):
            off = sorted(against)[len(against) // 2]
            self.end(
                f"the clock of this machine is wrong: {len(against)} of {len(self._witnesses)} other nodes are "
                f"{abs(off):.0f} seconds {'ahead' if off > 0 else 'behind'} (clock_seconds_max is {most:g})"
            )

    def _ask_time(self, envelope: Envelope) -> None:
        """Lets a node greet once more; not at every message that is late."""
        found = name_and_endpoint(envelope.sender)
        if found is not None and envelope.name not in self._asking:
            self._asking[envelope.name] = asyncio.create_task(self._greeted(*found))

    async def _greeted(self, name: str, where: Endpoint) -> None:
        self._count("clocks_asked")
        since = self._wall_clock()
        try:
            connection = await connect(where, name, self._client, self.limits)
            connection.close()
            self._witness(connection.greeting, since)
        except FAILURES:
            pass  # a link will be greeted when it is back
        await asyncio.sleep(self.limits.clock_seconds_max)
        del self._asking[name]

    # --- what went wrong, and what was counted ------------------------------------------------------------------------

    def _fail(self, place: _Place, error: Exception) -> None:
        self._count("failed")
        self._on_error(place.address, error)

    @staticmethod
    def _report(address: Address, error: Exception) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": f"{address} failed", "exception": error})

    def _count(self, what: str, by: int = 1) -> None:
        self.counts[str(what)] += by

    def count(self) -> tuple[Counter[str], Counter[str]]:
        """Messages and bytes sent so far, by type of message, as `World.count` has them."""
        messages = Counter({cls.__name__: count[0] for cls, count in self._sent.items()})
        sizes = Counter({cls.__name__: count[1] for cls, count in self._sent.items()})
        return messages, sizes

    def peers(self) -> dict[Address, dict[str, Any]]:
        """The nodes that this one has links to."""
        return {host: {"connected": link.is_connected, "waiting": len(link)} for host, link in self._links.items()}

    @property
    def connections(self) -> int:
        """Connections from others."""
        return self._door.connections
