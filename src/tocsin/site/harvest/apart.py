"""Work done apart: in processes of its own, which may hang, swell or crash without harm, and are ended if they do.

A request is a JSON object and bytes, the answer a JSON object. A child that does not answer in time is killed, and
another one is started for the next request. Children end by themselves when their parent does.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from tocsin.errors import TocsinError

_HEAD = struct.Struct("!II")  # bytes of JSON, bytes that follow
_ANSWER_BYTES_MAX = 1 << 28
_UNWANTED = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "netrc")


class ApartError(TocsinError):
    """The work could not be done: it took too long, too much memory, or crashed."""


class Apart:
    """Children that run a module; each does one thing at a time."""

    def __init__(self, module: str, children: int, memory_bytes_max: int, words: Sequence[str] = ()) -> None:
        self._module = module
        self._words = words
        self._memory = memory_bytes_max
        self._free: asyncio.Queue[asyncio.subprocess.Process | None] = asyncio.Queue()
        for _ in range(children):
            self._free.put_nowait(None)
        self._children: set[asyncio.subprocess.Process] = set()

    async def ask(self, request: Mapping[str, Any], data: bytes, seconds: float) -> dict[str, Any]:
        """The answer; ApartError if there is none in time."""
        child = await self._free.get()
        try:
            if child is None or child.returncode is not None:
                child = await self._start()
            async with asyncio.timeout(seconds):
                answer = await _ask(child, request, data)
        except BaseException as error:
            if child is not None:
                await self._end(child)
            child = None
            if isinstance(error, TimeoutError):
                raise ApartError(f"took more than {seconds:g} seconds") from None
            if isinstance(error, asyncio.IncompleteReadError | OSError):
                raise ApartError("failed: its process ended (out of memory?)") from None
            raise
        finally:
            self._free.put_nowait(child)
        if "problem" in answer:
            raise ApartError(str(answer["problem"]))
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        environment = {name: value for name, value in os.environ.items() if name.lower() not in _UNWANTED}
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self._module, str(self._memory), *self._words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
        )
        self._children.add(child)
        return child

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        self._children.discard(child)
        with suppress(ProcessLookupError):
            child.kill()
        if child.stdin is not None:
            child.stdin.close()
        await child.wait()
        transport = getattr(child, "_transport", None)
        if transport is not None:
            transport.close()

    async def close(self) -> None:
        """Ends all children."""
        for child in list(self._children):
            await self._end(child)


async def _ask(child: asyncio.subprocess.Process, request: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    assert child.stdin is not None
    assert child.stdout is not None
    said = json.dumps(request).encode()
    child.stdin.write(_HEAD.pack(len(said), len(data)))
    child.stdin.write(said)
    child.stdin.write(data)
    await child.stdin.drain()
    size, _ = _HEAD.unpack(await child.stdout.readexactly(_HEAD.size))
    if size > _ANSWER_BYTES_MAX:
        raise ApartError("failed: its answer is too large")
    answer: dict[str, Any] = json.loads(await child.stdout.readexactly(size))
    return answer


# --- in the child ----------------------------------------------------------------------------------------------------


def serve(do: Callable[[dict[str, Any], bytes], dict[str, Any]]) -> None:
    """Answers requests until the parent hangs up. What the work prints is not heard."""
    import resource

    memory = int(sys.argv[1])
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    out = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    while (head := sys.stdin.buffer.read(_HEAD.size)) and len(head) == _HEAD.size:
        size, length = _HEAD.unpack(head)
        request = json.loads(sys.stdin.buffer.read(size))
        data = sys.stdin.buffer.read(length)
        try:
            answer = do(request, data)
        except MemoryError:
            os._exit(1)
        except Exception as error:
            answer = {"problem": f"{type(error).__name__}: {error}"[:500]}
        _answer(out, answer)


def _answer(out: BinaryIO, answer: dict[str, Any]) -> None:
    said = json.dumps(answer).encode()
    out.write(_HEAD.pack(len(said), 0))
    out.write(said)
    out.flush()
