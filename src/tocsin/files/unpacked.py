"""An input's bytes, unpacked: plain, gzip or zstd, told by their first bytes and not by their name.

Packed data may have several parts one after the other (gzip members, zstd frames). What was read before
the data broke off has already been handed on when `Damaged` is raised.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

import zstandard

from tocsin.errors import InputError
from tocsin.files.inputs import CHUNK_BYTES, Input, reason_of

MAGIC_BYTES = 4
PACKED_BYTES = 256  # unpacked at a time: in zstd, that many hostile bytes become 8 MiB
GZIP = re.compile(rb"\x1f\x8b")
ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame, or one that is to be skipped
FOREIGN = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"BZh91AY": "packed with bzip2: unpack it first, or pack it with gzip or zstd",
    b"\xfd7zX": "packed with xz: unpack it first, or pack it with gzip or zstd",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
}


class Damaged(InputError):
    """The rest of this input cannot be read."""


class Unpacker(Protocol):
    """What zlib and zstandard have in common."""

    def decompress(self, data: bytes, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def chunks(source: Input) -> Iterator[bytes]:
    """The unpacked bytes, in order, in chunks of bounded size."""
    try:
        with source.opened() as read:
            yield from unpack(iter(lambda: read(CHUNK_BYTES), b""))
    except OSError as error:
        raise Damaged(f"reading stopped: {reason_of(error)}") from None


def unpack(packed: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes as they are, unless they start like gzip or zstd."""
    head = b""
    for chunk in packed:
        head += chunk
        if len(head) >= MAGIC_BYTES:
            break
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise Damaged(f"this is {what}")
    data = chain((head,), packed) if head else packed
    if GZIP.match(head):
        return _parts(data, GZIP, "gzip", lambda: zlib.decompressobj(wbits=31))
    if ZSTD.match(head):
        return _parts(data, ZSTD, "zstd", lambda: zstandard.ZstdDecompressor().decompressobj())
    return data


def _parts(
    data: Iterator[bytes], magic: re.Pattern[bytes], name: str, unpacker: Callable[[], Unpacker]
) -> Iterator[bytes]:
    """The unpacked parts; zeros may pad the end, as on tapes and disks."""
    part: Unpacker | None = unpacker()
    rest = b""
    for chunk in data:
        for at in range(0, len(chunk), PACKED_BYTES):
            rest += chunk[at : at + PACKED_BYTES]
            while rest:
                if part is None:
                    rest = rest.lstrip(b"\0")
                    if len(rest) < MAGIC_BYTES:
                        break
                    if not magic.match(rest):
                        raise Damaged(f"the {name} data is followed by something else, which was not read")
                    part = unpacker()
                try:
                    found = part.decompress(rest)
                except (zlib.error, zstandard.ZstdError) as error:
                    raise Damaged(f"the {name} data is damaged; what came before was read ({error})") from None
                rest = part.unused_data if part.eof else b""
                part = None if part.eof else part
                if found:
                    yield found
    if part is not None or rest:
        raise Damaged(f"the {name} data ends too early, as if cut off; what came before was read")
