"""A bad network: between each node and everybody who calls it stands a proxy that delays, drops and cuts.

It sees only the bytes of TLS. Losing some of them would break the connection, so losing is breaking connections, in
the middle of whatever is sent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random


class Proxy:
    """Everything for one node goes through here."""

    def __init__(self, target: int, seed: int) -> None:
        self.target = target
        self.port = 0
        self.delay_seconds = 0.0
        self.breaks_per_second = 0.0
        self.is_cut = False
        self.broken = self.refused = 0
        self._chance = Random(seed)
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._breaking = asyncio.create_task(self._break())

    async def close(self) -> None:
        self._server.close()
        self._breaking.cancel()
        self.break_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._breaking, *self._tasks, return_exceptions=True)

    def cut(self, is_cut: bool) -> None:
        """Nobody reaches the node, while it reaches everybody; or no longer."""
        self.is_cut = is_cut
        if is_cut:
            self.break_all()

    def break_all(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _break(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            for writer in list(self._open):
                if self._chance.random() < self.breaks_per_second * 0.05:
                    self.broken += 1
                    writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        onward = None
        try:
            if self.is_cut:
                self.refused += 1
                return
            back, onward = await asyncio.open_connection("127.0.0.1", self.target)
            self._open |= {writer, onward}
            both = [asyncio.create_task(self._pass(reader, onward)), asyncio.create_task(self._pass(back, writer))]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in both:
                    one.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except asyncio.CancelledError:
            return  # the test is over
        except OSError:
            self.refused += 1  # the node is down
        finally:
            for end in (writer, onward):
                if end is not None:
                    self._open.discard(end)
                    end.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if self.delay_seconds:
                    await asyncio.sleep(self._chance.uniform(0, self.delay_seconds))
                writer.write(data)
                await writer.drain()
