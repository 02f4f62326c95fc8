"""Chunks of bytes to lines. No line is held that is longer than its limit, however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

FRAGMENT_BYTES = 1 << 16

Line = tuple[int, bytes | None]
"""The number of a line, from 1, and its bytes without the line break; None if there are too many."""


def fragments(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """(line, bytes, does the line end here?): whole lines, but long ones in fragments of at least FRAGMENT_BYTES."""
    number, held, size = 1, list[bytes](), 0
    cut = False  # has the line already given a fragment?
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            yield number, b"".join((*held, part)) if held else part, True
            if held:
                held.clear()
            number, size, cut = number + 1, 0, False
        if rest:
            held.append(rest)
            size += len(rest)
            if size >= FRAGMENT_BYTES:
                yield number, b"".join(held), False
                held.clear()
                size, cut = 0, True
    if held or cut:
        yield number, b"".join(held), True


def lines(chunks: Iterable[bytes], bytes_max: int) -> Iterator[Line]:
    """Every line; the bytes of one that has more than bytes_max are dropped as they come."""
    held, size = list[bytes](), 0
    for number, part, ends in fragments(chunks):
        size += len(part)
        if size <= bytes_max:
            held.append(part)
        else:
            held.clear()
        if ends:
            yield number, b"".join(held) if size <= bytes_max else None
            held.clear()
            size = 0
