"""The false world: a clock that jumps from event to event, a network with latencies and faults, disks that survive.

It drives anything that has `start`, `handle` and `wake` and answers with effects (`overlay.node`), and knows nothing
of what they mean. Everything that happens follows from the seed: the trace hash of two runs is equal, on any machine.

    world = World(seed=7, faults=draw_faults(7, machines, until=60))
    world.add("a", lambda disk, life: Member("a", disk=disk, incarnation=life))
    world.run(60)
"""

from __future__ import annotations

import gc
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from itertools import count
from math import hypot, inf
from random import Random
from struct import Struct
from typing import Any, Protocol, TypeAlias

from tocsin.overlay import message as codec
from tocsin.overlay.node import Deliver, Effect, Seconds, Send, Token, Wake
from tocsin.sim.agenda import Agenda
from tocsin.sim.faults import NO_FAULTS, Faults, Machine

Address: TypeAlias = str
Disk: TypeAlias = dict[bytes, bytes]


class Process(Protocol):
    """What the world can run."""

    def start(self, now: Seconds) -> list[Effect]:
        """It begins."""

    def handle(self, message: Any, now: Seconds, /) -> list[Effect]:
        """A message came."""

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """The time of a Wake has come."""


Factory: TypeAlias = Callable[[Disk, int], Process]
Latency: TypeAlias = Callable[[int, int], Seconds]


class Plane:
    """Latency of a link: machines lie on a square, and far is slow."""

    def __init__(self, seed: int, least: Seconds = 0.005, across: Seconds = 0.1) -> None:
        self._chance = Random(f"plane {seed}")
        self._places = array("d")  # x and y of each, side by side: 100,000 tuples would be all over the memory
        self._least, self._across = least, across

    def __call__(self, start: int, end: int) -> Seconds:
        """From one machine to another, by their numbers."""
        places, at, to = self._places, 2 * start, 2 * end
        try:
            return self._least + self._across * hypot(places[at] - places[to], places[at + 1] - places[to + 1])
        except IndexError:
            places.extend([self._chance.random() for _ in range(max(at, to) + 2 - len(places))])
            return self(start, end)


def constant(seconds: Seconds) -> Latency:
    """Every link alike."""
    return lambda start, end: seconds


class Place:
    """A process, the machine it runs on, and what is counted of it."""

    __slots__ = (
        "address", "busy_until", "drift", "factory", "index", "is_up", "life", "machine", "offset", "process",
        "received", "sent", "service",
    )  # fmt: skip

    def __init__(
        self, address: Address, index: int, machine: Machine, factory: Factory | None, process: Process
    ) -> None:
        self.address, self.index, self.machine, self.factory, self.process = address, index, machine, factory, process
        self.is_up = True
        self.life = 0
        self.received = self.sent = 0
        self.service: Seconds = 0.0
        self.busy_until: Seconds = 0.0
        self.offset: Seconds = 0.0
        self.drift = 1.0


_STAMP = Struct("<dII")
_Script: TypeAlias = Callable[["World"], None]
MESSAGE, WAKE, SCRIPT = 0, 1, 2
LONG_BYTES = 1_024
COLLECT_AFTER = 100_000
"""Objects. Hardly anything here is in a cycle: after each 700, as is usual, all that lives is looked at for nothing."""
SERVED = 1  # of a message to a slow process: it has waited for its turn


class World:
    """Processes and what is between them."""

    def __init__(
        self,
        seed: int = 0,
        *,
        latency: Latency | None = None,
        faults: Faults = NO_FAULTS,
        encode: Callable[[Any], bytes] = codec.encode,
        decode: Callable[[bytes], Any] | None = None,
        traces: bool = True,
    ) -> None:
        """`decode`: let every message go through the codec; without it receivers get what was sent."""
        self.now: Seconds = 0.0
        self.faults = faults
        self.places: dict[Address, Place] = {}
        self.disks: dict[Address, Disk] = {}
        self.lost = self.events = 0
        self.delivered: list[tuple[Seconds, Address, Deliver]] = []
        self.observe: Callable[[Seconds, Address, Deliver], None] | None = None
        self._latency: Latency = latency or Plane(seed).__call__  # the method itself is quicker to call
        self._encode, self._decode = encode, decode
        self._chance = Random(f"network {seed}")
        self._trace = sha256(usedforsecurity=False) if traces else None  # processors have instructions for it
        self._agenda = Agenda()
        self._number = count().__next__
        self._machines: dict[Machine, int] = {}
        self._counts: dict[type, list[int]] = {}

    # --- who is there ------------------------------------------------------------------------------------------------

    def add(self, address: Address, factory: Factory, machine: Machine | None = None) -> Process:
        """Starts a process on a machine (its own, unless told); `factory` makes it anew after a crash."""
        self.disks[address] = {}
        process = factory(self.disks[address], 0)
        place = self.settle(address, process, machine, factory)
        self.perform(place, process.start(self._clock(place)))
        return process

    def settle(
        self, address: Address, process: Process, machine: Machine | None = None, factory: Factory | None = None
    ) -> Place:
        """Adds a process that is already running."""
        machine = machine or address
        number = self._machines.setdefault(machine, len(self._machines))
        place = self.places[address] = Place(address, number, machine, factory, process)
        place.service = self.faults.slow.get(machine, 0.0)
        place.offset, drift = self.faults.skews.get(machine, (0.0, 0.0))
        place.drift = 1.0 + drift if drift else 1.0  # of most places the same number, not one for each
        return place

    def trouble(self, faults: Faults) -> None:
        """Other faults from now on. Clocks keep what they had: a node cannot follow one that jumps."""
        self.faults = faults
        for place in self.places.values():
            place.service = faults.slow.get(place.machine, 0.0)

    def process(self, address: Address) -> Any:
        """The process at an address."""
        return self.places[address].process

    def remove(self, address: Address) -> None:
        """A process ends for good."""
        del self.places[address]

    def crash(self, machine: Machine) -> None:
        """Everything on a machine stops; what is not on its disks is gone."""
        for place in self.places.values():
            if place.machine == machine and place.is_up:
                place.is_up = False
                place.life += 1

    def restart(self, machine: Machine, keeps_disk: bool) -> None:
        """Everything on a machine begins again."""
        for place in list(self.places.values()):
            if place.machine == machine and not place.is_up and place.factory is not None:
                if not keeps_disk:
                    self.disks[place.address] = {}
                place.is_up = True
                place.busy_until = self.now
                place.process = place.factory(self.disks[place.address], place.life)
                self.perform(place, place.process.start(self._clock(place)))

    def schedule(
        self, join: Callable[[Machine], None] | None = None, leave: Callable[[Machine], None] | None = None
    ) -> None:
        """Enters the crashes of the faults, and joins and leaves if it is told how."""
        for crash in self.faults.crashes:
            self.at(crash.at, lambda world, crash=crash: world.crash(crash.machine))  # type: ignore[misc]
            self.at(crash.back_at, lambda world, crash=crash: world.restart(crash.machine, crash.keeps_disk))  # type: ignore[misc]
        for moves, do in ((self.faults.joins, join), (self.faults.leaves, leave)):
            for at, machine in moves if do is not None else ():
                self.at(at, lambda world, do=do, machine=machine: do(machine))  # type: ignore[misc]

    # --- time --------------------------------------------------------------------------------------------------------

    def at(self, time: Seconds, call: _Script) -> None:
        """Something that the experimenter does at a time."""
        self._agenda.add((time, self._number(), SCRIPT, None, 0, call))

    def invoke(self, address: Address, call: Callable[[Any, Seconds], list[Effect]]) -> None:
        """Calls a process as the layer above it would: `call(process, now)` answers with effects."""
        place = self.places[address]
        if place.is_up:
            self.perform(place, call(place.process, self._clock(place)))

    def run(self, until: Seconds = inf) -> int:
        """Lets everything happen up to a time (or until nothing is left to happen); how many events that were."""
        before, thresholds = self.events, gc.get_threshold()
        gc.set_threshold(max(thresholds[0], COLLECT_AFTER) if thresholds[0] else 0, *thresholds[1:])
        try:
            self._run(until)
        finally:
            gc.set_threshold(*thresholds)
        if until != inf:
            self.now = until
        return self.events - before

    def _run(self, until: Seconds) -> None:
        take, add = self._agenda.take, self._agenda.add
        while (entry := take(until)) is not None:
            time, number, kind, place, life, what = entry
            self.now = time
            if kind == SCRIPT:
                what(self)
                continue
            if not place.is_up or (kind == WAKE and place.life != life):
                self.lost += kind == MESSAGE
                continue
            if place.service and kind == MESSAGE and life != SERVED and time < self.faults.until:
                begin = max(time, place.busy_until)
                place.busy_until = begin + place.service
                add((place.busy_until, number, kind, place, SERVED, what))
                continue
            self.events += 1
            clock = time * place.drift + place.offset
            if kind == MESSAGE:
                place.received += 1
                effects = place.process.handle(what, clock)
            else:
                effects = place.process.wake(what, clock)
            if effects:
                self.perform(place, effects)

    def _clock(self, place: Place) -> Seconds:
        return self.now * place.drift + place.offset

    # --- effects -----------------------------------------------------------------------------------------------------

    def perform(self, place: Place, effects: Iterable[Effect]) -> None:
        """Does what a process asks for."""
        for effect in effects:
            if isinstance(effect, Send):
                to, message = effect
                self._send(place, to, message)
            elif isinstance(effect, Wake):
                at = max((effect.at - place.offset) / place.drift, self.now)
                self._agenda.add((at, self._number(), WAKE, place, place.life, effect.token))
            else:
                if self._trace is not None:
                    self._trace.update(_STAMP.pack(self.now, place.index, len(effect.keys)))
                if self.observe is not None:
                    self.observe(self.now, place.address, effect)
                else:
                    self.delivered.append((self.now, place.address, effect))

    def _send(self, place: Place, to: Address, message: Any) -> None:
        now = self.now
        data = self._encode(message)
        count = self._counts.get(type(message))
        if count is None:
            count = self._counts[type(message)] = [0, 0]
        count[0] += 1
        count[1] += len(data)
        place.sent += 1
        target = self.places.get(to)
        if target is None:
            self.lost += 1
            return
        if self._decode is not None:
            message = self._decode(data)
        arrival = now + self._latency(place.index, target.index)
        if now >= self.faults.until:
            self._agenda.add((arrival, self._number(), MESSAGE, target, 0, message))
        else:
            fates = self.faults.fates((place.machine, target.machine), now, self._chance)
            self.lost += not fates
            for late in fates:
                self._agenda.add((arrival + late, self._number(), MESSAGE, target, 0, message))
        trace = self._trace
        if trace is not None:
            stamp = _STAMP.pack(arrival, place.index, target.index)
            if len(data) < LONG_BYTES:
                trace.update(stamp + data)
            else:  # to hash twice is cheaper than to copy
                trace.update(stamp)
                trace.update(data)

    # --- what was counted --------------------------------------------------------------------------------------------

    def count(self) -> tuple[Counter[str], Counter[str]]:
        """Messages and bytes so far, by type of message."""
        messages = Counter({cls.__name__: count[0] for cls, count in self._counts.items()})
        sizes = Counter({cls.__name__: count[1] for cls, count in self._counts.items()})
        return messages, sizes

    def trace(self) -> str:
        """A hash of everything that was sent, when, by whom, and of what was delivered."""
        if self._trace is None:
            raise ValueError("this world keeps no trace: World(traces=True)")
        return self._trace.copy().hexdigest()[:32]
