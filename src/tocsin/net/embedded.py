"""A node inside another program, such as a site: it runs in a thread of its own, with an event loop of its own.

    with Embedded(settings, say, equip=add_placement, on_deliver=take) as node:
        node.call(lambda member, now: member.multicast.send(message, keys, now))

`equip` and `on_deliver` are called in the node's thread; `call` may be called in any other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from typing import Any

from tocsin.net.envelope import Refusal
from tocsin.net.host import Equip, Host, HostSettings, Say
from tocsin.net.limits import NetError
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Seconds

LOOK_SECONDS = 0.05


class Embedded:
    """A host in a thread."""

    def __init__(
        self,
        settings: HostSettings,
        say: Say,
        *,
        equip: Equip | None = None,
        on_deliver: Callable[[Deliver], None] | None = None,
        kind: type[Member] = Member,
    ) -> None:
        """As a host's: `kind` is what is made, since some placements need more than a plain member."""
        self._kind = kind
        self._settings, self._say, self._equip, self._on_deliver = settings, say, equip, on_deliver
        self._started: Future[None] = Future()
        self._ended: Future[int] = Future()
        self._made: Future[Host] = Future()
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)

    def start(self) -> None:
        """Comes back when the node has begun: it listens, and is in a ring or looks for one."""
        self._thread.start()
        self._started.result()

    def __enter__(self) -> Embedded:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> Address:
        """What others call it."""
        return self._host.address

    @property
    def is_ready(self) -> bool:
        """Whether it owns its range."""
        member = self._made.result().member if self._made.done() and not self._ended.done() else None
        return member is not None and member.chord.is_ready

    @property
    def refused(self) -> int:
        """Messages of others that were refused, or made no sense."""
        if not self._made.done() or self._made.exception() is not None:
            return 0
        host = self._made.result()
        counts = host.driver.counts if hasattr(host, "driver") else {}
        return sum(counts.get(one, 0) for one in Refusal) + (0 if host.member is None else host.member.dropped)

    @property
    def ended(self) -> Future[int]:
        """Done when the node had to leave, with its exit status."""
        return self._ended

    def call(self, call: Callable[[Member, Seconds], list[Effect]]) -> None:
        """Lets the node act; comes back when its effects are done, or on their way to the disk."""

        async def act() -> None:
            self._host.driver.invoke(self.address, call)

        if self._ended.done():
            raise NetError("the node has left the ring")
        coroutine = act()
        try:
            done = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # its loop was closed at this moment
            coroutine.close()
            raise NetError("the node has left the ring") from None
        either: list[Future[Any]] = [done, self._ended]
        wait(either, return_when=FIRST_COMPLETED)
        if not done.done() or done.cancelled():  # it ended before it came to this
            raise NetError("the node has left the ring")
        done.result()

    def stop(self) -> int:
        """Leaves in order; 0 if it did."""
        if not self._thread.is_alive() and not self._ended.done():
            return 0  # it never began
        host = self._made.result()
        if not self._ended.done():
            with suppress(RuntimeError):  # it ends by itself at this moment
                self._loop.call_soon_threadsafe(host.stop)
        self._thread.join()
        return self._ended.result()

    def _run(self) -> None:
        try:
            self._ended.set_result(asyncio.run(self._main()))
        except BaseException as error:
            for future in (self._started, self._ended, self._made):
                if not future.done():
                    future.set_exception(error)

    async def _main(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._host = Host(
            self._settings, self._say, equip=self._equip, on_deliver=self._on_deliver, kind=self._kind
        )  # fmt: skip
        self._made.set_result(self._host)
        running: asyncio.Task[Any] = asyncio.create_task(self._host.run())
        while self._host.member is None and not running.done():
            await asyncio.wait([running], timeout=LOOK_SECONDS)
        if not running.done():
            self._started.set_result(None)
        status: int = await running
        if not self._started.done():  # it was told to stop before it had found the ring
            self._started.set_exception(NetError("the node was stopped before it had begun"))
        return status
