"""The local socket of a running node: whoever may open its folder may ask it.

A request is a line of JSON, and so is the answer: {"do": "status"}, {"do": "lookup", "key": 7},
{"do": "put", "key": 7, "kind": 9, "name": "n", "version": 1, "value": "v"}, {"do": "get", "key": 7}, {"do": "leave"}.
Names and values are text here. An answer with "error" says what was wrong with the request.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from tocsin.errors import SettingError
from tocsin.net.limits import NetError

FILE = "control"
LINE_BYTES_MAX = 1_048_576
PATH_BYTES_MAX = 107  # of a local socket, by the operating system
ANSWER_SECONDS = 60.0
Verb: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def listen(folder: Path, verbs: dict[str, Verb]) -> asyncio.Server:
    """Answers in the node's folder."""
    path = folder / FILE
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise SettingError(f"{path} is too long for a local socket: choose a folder with a shorter path")
    path.unlink(missing_ok=True)  # left by a node that was killed; the folder's lock says that it does not run

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await _answer(line, verbs)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):  # it went away, its line is too long, or the node ends
            pass
        finally:
            writer.close()

    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(os.fspath(path))
        path.chmod(0o600)  # before it listens: until then nobody can connect (a umask would be the whole process's)
        return await asyncio.start_unix_server(serve, sock=listening, limit=LINE_BYTES_MAX)
    except BaseException:
        listening.close()
        raise


async def _answer(line: bytes, verbs: dict[str, Verb]) -> dict[str, Any]:
    try:
        request = json.loads(line)
        return await verbs[request["do"]](request)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        return {"error": f"not understood: {type(error).__name__}: {error}"}


def ask(folder: Path, request: dict[str, Any], seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
    """Asks the node that runs in a folder."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(seconds)
        try:
            channel.connect(os.fspath(folder / FILE))
            channel.sendall(json.dumps(request).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n"):
                part = channel.recv(65_536)
                if not part:
                    raise NetError(f"the node in {folder} went away")
                data += part
        except (OSError, ValueError) as error:
            raise NetError(
                f"no node runs in {folder}: start one with `tocsin node run` or `tocsin node join`"
            ) from error
    answer: dict[str, Any] = json.loads(data)
    return answer


def forget(folder: Path) -> None:
    """Removes the socket of a node that has ended."""
    with suppress(OSError):
        (folder / FILE).unlink()
