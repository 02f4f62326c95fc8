"""From one super-peer to another in order, each thing once, however often a message is lost or the path changes.

The receiver says how far everything is settled: what came is taken in order, and what it led to is safe (a notice has
reached a client, or is on a disk for one that is away). A receiver that died before that is told again; so whatever is
done with a message must bear being done twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tocsin.overlay.message import Address, Message
from tocsin.overlay.node import Effect, Handler, Seconds, Token, Wake
from tocsin.overlay.placement.superpeers.messages import Flow, Flowed
from tocsin.overlay.placement.superpeers.routes import Routes

Then: TypeAlias = Callable[[Seconds], list[Effect]]
Take: TypeAlias = Callable[[Any, Address, int, Then, Seconds], list[Effect]]
"""Takes a message, who sent it, over how many links; calls back once it is settled."""


@dataclass(slots=True)
class _Outgoing:
    last: int = 0
    open: dict[int, tuple[Message, Then]] = field(default_factory=dict)
    sent_at: dict[int, Seconds] = field(default_factory=dict)
    is_waking: bool = False


@dataclass(slots=True)
class _Incoming:
    taken: int = 0
    early: dict[int, tuple[Message, int]] = field(default_factory=dict)
    unsettled: set[int] = field(default_factory=set)

    @property
    def upto(self) -> int:
        return min(self.unsettled, default=self.taken + 1) - 1


class Streams:
    """Both ends of all streams of a super-peer."""

    name = "streams"

    def __init__(self, routes: Routes) -> None:
        self.routes, self.me = routes, routes.me
        self.take: dict[type, Take] = {}
        self._out: dict[Address, _Outgoing] = {}
        self._in: dict[tuple[Address, int], _Incoming] = {}
        routes.node.add(self)
        routes.inner |= {Flow: self._on_flow, Flowed: self._on_flowed}
        routes.on_change.append(self._on_graph)

    def handlers(self) -> dict[type, Handler]:
        """Nothing comes but by relay."""
        return {}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, to: Address, message: Message, now: Seconds, then: Then) -> list[Effect]:
        """Sends until it is settled, then calls back."""
        if to == self.me.address:
            return self.take[type(message)](message, to, 0, then, now)
        if to in self.routes.retired:
            return then(now)
        stream = self._out.setdefault(to, _Outgoing())
        stream.last += 1
        stream.open[stream.last] = message, then
        return [*self._flow(to, stream, stream.last, now), *self._waking(to, stream, now)]

    def open_to(self, to: Address) -> int:
        """How much is not settled there."""
        return len(self._out[to].open) if to in self._out else 0

    def _flow(self, to: Address, stream: _Outgoing, number: int, now: Seconds) -> list[Effect]:
        first = next(iter(stream.open))
        stream.sent_at[number] = now
        return self.routes.relay(to, Flow(self.routes.life, number, first, stream.open[number][0]), now)

    def _waking(self, to: Address, stream: _Outgoing, now: Seconds) -> list[Effect]:
        if stream.is_waking or not stream.open:
            return []
        stream.is_waking = True
        return [Wake(now + self.routes.settings.again_seconds / 2, (self.name, to))]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Sends again what was not settled."""
        to, stream = token[1], self._out[token[1]]
        stream.is_waking = False
        late = now - self.routes.settings.again_seconds
        again = [one for one in list(stream.open)[: self.routes.settings.window] if stream.sent_at[one] <= late]
        effects = [effect for number in again for effect in self._flow(to, stream, number, now)]
        return [*effects, *self._waking(to, stream, now)]

    def _on_graph(self, now: Seconds) -> list[Effect]:
        """What was for a super-peer that is gone for good is not waited for."""
        gone = [self._out[one] for one in self._out.keys() & self.routes.retired]
        thens = [then for stream in gone for _, then in stream.open.values()]
        for stream in gone:
            stream.open, stream.sent_at = {}, {}
        return [effect for then in thens for effect in then(now)]

    def _on_flowed(self, message: Flowed, origin: Address, hops: int, now: Seconds) -> list[Effect]:
        stream = self._out.get(origin)
        if stream is None or message.life != self.routes.life:
            return []
        numbers = [number for number in stream.open if number <= message.upto]
        settled = [stream.open.pop(number)[1] for number in numbers]
        for number in numbers:
            del stream.sent_at[number]
        return [effect for then in settled for effect in then(now)]

    # --- receiving ---------------------------------------------------------------------------------------------------

    def _on_flow(self, message: Flow, origin: Address, hops: int, now: Seconds) -> list[Effect]:
        if type(message.payload) not in self.take:
            return self.routes.refuse("malformed", origin, f"{type(message.payload).__name__} in a stream")
        key = origin, message.life
        stream = self._in.get(key)
        if stream is None:
            for old in [one for one in self._in if one[0] == origin and one[1] < message.life]:
                del self._in[old]
            stream = self._in[key] = _Incoming()
        if message.first - 1 > stream.taken:  # a former life of this super-peer has settled them
            stream.taken = message.first - 1
            stream.early = {number: one for number, one in stream.early.items() if number > stream.taken}
        if message.number > stream.taken:
            stream.early[message.number] = message.payload, hops
        effects: list[Effect] = []
        while stream.taken + 1 in stream.early:
            stream.taken += 1
            payload, crossed = stream.early.pop(stream.taken)
            effects += self._take(payload, key, stream, crossed, now)
        return [*effects, *self._answer(key, stream, now)]

    def _take(
        self, payload: Message, key: tuple[Address, int], stream: _Incoming, hops: int, now: Seconds
    ) -> list[Effect]:
        number = stream.taken
        stream.unsettled.add(number)
        is_taking = True

        def settled(now: Seconds) -> list[Effect]:
            stream.unsettled.discard(number)
            return [] if is_taking else self._answer(key, stream, now)

        effects = self.take[type(payload)](payload, key[0], hops, settled, now)
        is_taking = False  # what settles later is told later
        return effects

    def _answer(self, key: tuple[Address, int], stream: _Incoming, now: Seconds) -> list[Effect]:
        return self.routes.relay(key[0], Flowed(key[1], stream.upto), now)
