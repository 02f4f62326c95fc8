"""X4: what happens at once happens in an order that follows from the messages alone, in every world.

Which of two messages that are on their way at once arrives first is nobody's to say, and some counts hang on it: a post
rides on whichever message leaves first; a question about statistics is overtaken by a post, or not; a lookup passes a
node before a finger was mended, or after. A node is right either way, but worlds can be compared only where they decide
alike. So a node of a script keeps what comes until everything that was sent has arrived. Then it is everybody's turn:
each handles what it has, sorted. A step is over when nobody has anything.

Messages are encoded, sealed, sent, opened and counted as ever; only the moment when they are looked at is the script's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from tests.net.rings import PATIENCE_SECONDS, until
from tocsin.net.driver import Driver
from tocsin.overlay.message import Message, encode
from tocsin.overlay.node import Effect, Seconds, Token
from tocsin.sim.world import Latency, World

Order = Callable[[Message], Any]


class InTurns:
    """A process that keeps messages until its turn."""

    def __init__(self, process: Any, order: Order = encode) -> None:
        """`order` sorts messages that came together: where it says nothing, as they came."""
        self.process = process
        self._order = order
        self._came: list[Message] = []

    @property
    def waiting(self) -> int:
        """Messages that it has not looked at."""
        return len(self._came)

    def start(self, now: Seconds) -> list[Effect]:
        """It begins."""
        effects: list[Effect] = self.process.start(now)
        return effects

    def handle(self, message: Message, now: Seconds) -> list[Effect]:
        """A message came, and waits."""
        self._came.append(message)
        return []

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Scripts have no timers."""
        raise AssertionError("nothing is woken")

    def turn(self, count: int, now: Seconds) -> list[Effect]:
        """Handles the first so many that came: those that come while others have their turn belong to the next."""
        some, self._came = self._came[:count], self._came[count:]
        return [effect for message in sorted(some, key=self._order) for effect in self.process.handle(message, now)]


def shuffled(seed: int, most: Seconds) -> Latency:
    """A network in which any message may overtake any other."""
    chance = Random(f"shuffled {seed}")
    return lambda start, end: chance.uniform(0.0, most)


def settle(world: World) -> None:
    """Everything that follows from a step, in the false world."""
    while True:
        world.run()
        waiting = [(address, place.process.waiting) for address, place in world.places.items()]  # type: ignore[attr-defined]
        if not any(count for _, count in waiting):
            return
        for address, count in waiting:
            world.invoke(address, lambda process, now, count=count: process.turn(count, now))  # type: ignore[misc]


async def settle_drivers(ring: Sequence[Driver], nodes: Iterable[InTurns], seconds: float = PATIENCE_SECONDS) -> None:
    """Everything that follows from a step, over connections; `nodes` are those of the first drivers, in their order."""
    nodes = list(nodes)

    def is_quiet() -> bool:
        return sum(sum(driver.count()[0].values()) for driver in ring) == sum(driver.received for driver in ring)

    while True:
        await until(is_quiet, seconds)
        waiting = [node.waiting for node in nodes]
        if not any(waiting):
            return
        for driver, count in zip(ring, waiting, strict=False):
            driver.invoke(driver.address, lambda process, now, count=count: process.turn(count, now))  # type: ignore[misc]
