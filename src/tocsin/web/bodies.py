"""What is sent, read as a stream: a caller who sends too much, too slowly or another type is told at once.

Lines are cut as the bytes arrive, and no line is held that is longer than a document may be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from tocsin.errors import DocumentError
from tocsin.intake import object_from_json
from tocsin.web.answers import Refusal
from tocsin.web.limits import WebLimits

JSON_TYPES = frozenset({"application/json"})
LINE_TYPES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
XML_TYPES = frozenset({"application/xml", "text/xml"})

SPOOLED_BYTES, CHUNK_BYTES = 16 << 20, 1 << 20

Line = tuple[int, bytes | None]
"""The number of a line, from 1, and its bytes without the line break; None if there are too many."""


def content_type(request: Request, *allowed: frozenset[str]) -> str:
    """The type of the body, one of those that are allowed; a body without a type is taken as JSON."""
    given = request.headers.get("content-type", "application/json")
    kind, _, parameters = given.partition(";")
    kind = kind.strip().lower()
    known = sorted(frozenset().union(*allowed))
    if kind not in known:
        raise Refusal(415, "unsupported_type", f"a body of this Content-Type is not read here: send {', '.join(known)}")
    charset = _charset(parameters)
    if kind in XML_TYPES and charset not in ("", "utf-8", "utf8", "us-ascii", "utf-16"):
        message = "XML says its encoding itself, by a declaration or a byte order mark: leave the charset out"
        raise Refusal(415, "unsupported_type", message)
    if charset not in ("", "utf-8", "utf8", "us-ascii") and kind not in XML_TYPES:
        raise Refusal(415, "unsupported_type", "JSON is read as UTF-8: leave the charset out")
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Refusal(415, "unsupported_encoding", "compressed bodies are not read: send it without Content-Encoding")
    return kind


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return ""


async def chunks(request: Request, bytes_max: int, limits: WebLimits) -> AsyncIterator[bytes]:
    """The bytes as they arrive."""
    too_large = Refusal(413, "too_large", f"the body has more than {bytes_max:,} bytes: send it in parts")
    too_slow = Refusal(408, "too_slow", "the body arrived too slowly: send it again", headers={"Connection": "close"})
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > bytes_max:
        raise too_large
    size, start = 0, time.monotonic()
    stream = request.stream()
    try:
        while True:
            try:
                async with asyncio.timeout(limits.body_silence_seconds_max):
                    chunk = await anext(stream, None)
            except TimeoutError:
                raise too_slow from None
            if chunk is None:
                return
            size += len(chunk)
            if size > bytes_max:
                raise too_large
            waited = time.monotonic() - start - limits.body_silence_seconds_max
            if waited > 0 and size < waited * limits.body_bytes_per_second_min:
                raise too_slow
            if chunk:
                yield chunk
    except ClientDisconnect:
        raise Refusal(400, "disconnected", "the caller went away in the middle of the body") from None


async def whole(source: AsyncIterator[bytes]) -> bytes:
    """A body that is one thing."""
    found = bytearray()
    async for chunk in source:
        found += chunk
    return bytes(found)


async def json_object(request: Request, limits: WebLimits) -> dict[str, Any]:
    """A body that is one JSON object: strict, without duplicate keys."""
    content_type(request, JSON_TYPES)
    return as_object(await whole(chunks(request, limits.body_bytes_max, limits)), limits)


def as_object(raw: bytes, limits: WebLimits) -> dict[str, Any]:
    """The JSON object in the text."""
    try:
        found = object_from_json(raw, limits.body_bytes_max)
        found_text_is_whole(found)
    except DocumentError as error:
        raise Refusal(422, "bad_json", str(error)) from None
    return found


def found_text_is_whole(value: Any, depth: int = 0) -> None:
    """Refuses halves of characters (lone surrogates), which no store can hold, and deep nesting."""
    if depth > 32:
        raise DocumentError("the brackets are nested too deeply")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DocumentError("a string holds half of a surrogate pair: write the whole character") from None
    elif isinstance(value, dict):
        for key, inner in value.items():
            found_text_is_whole(key, depth + 1)
            found_text_is_whole(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            found_text_is_whole(inner, depth + 1)


async def lines(source: AsyncIterator[bytes], line_bytes_max: int, limits: WebLimits) -> AsyncIterator[Line]:
    """The lines of a body, those without anything but space left out."""
    number, held, size = 1, bytearray(), 0
    async for chunk in source:
        parts = chunk.split(b"\n")
        for at, part in enumerate(parts):
            size += len(part)
            if size <= line_bytes_max:
                held += part
            else:
                held.clear()
            if at < len(parts) - 1:
                for line in _line(number, held, size, line_bytes_max):
                    yield line
                number, size = number + 1, 0
                held.clear()
                if number > limits.bulk_lines_max + 1:
                    raise Refusal(413, "too_large", f"more than {limits.bulk_lines_max:,} lines: send them in parts")
    for line in _line(number, held, size, line_bytes_max):
        yield line


def _line(number: int, held: bytearray, size: int, bytes_max: int) -> list[Line]:
    if size > bytes_max:
        return [(number, None)]
    return [(number, bytes(held))] if held.strip() else []


async def batches(
    source: AsyncIterator[bytes], line_bytes_max: int, count_max: int, limits: WebLimits
) -> AsyncIterator[list[Line]]:
    """The lines, as many at a time as are stored together."""
    batch: list[Line] = []
    size = 0
    async for line in lines(source, line_bytes_max, limits):
        batch.append(line)
        size += len(line[1] or b"")
        if len(batch) >= count_max or size >= limits.chunk_bytes_max:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Spool:
    """A body that was read whole, to memory or to the disk, with its fingerprint; it can then be read again."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=SPOOLED_BYTES)  # noqa: SIM115 - close() is ours
        self._digest = blake2b(digest_size=32)

    async def fill(self, source: AsyncIterator[bytes]) -> None:
        """Takes everything."""
        async for chunk in source:
            await run_in_threadpool(self._file.write, chunk)
            self._digest.update(chunk)

    def fingerprint(self) -> bytes:
        """Of what was taken."""
        return self._digest.digest()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What was taken, again."""
        self._file.seek(0)
        while chunk := await run_in_threadpool(self._file.read, CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        """Lets go of it."""
        self._file.close()
