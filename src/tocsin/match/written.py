"""Subscriptions as they were written, by owner: append-only, in blocks that lie in files.

The index forgets the text of a query that it understands as keys; scores and evidence need it again. A block holds the
texts of neighbouring owners; saving writes only blocks that are new, and neighbours are merged as segments are.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.segments import due

BLOCK_MAX = 65_536  # texts that wait for a block at most
_PLAIN, _OBJECT = b"q", b"o"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one subscription asks for: words, a path, or both."""

    query: str | None = None
    xpath: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    moved: str | None = None
    """The words of texts that feedback has moved (`query.vector.to_text`)."""

    def to_bytes(self) -> bytes:
        """Most have words only: these are kept as they are."""
        if self.xpath is None and self.moved is None:
            return _PLAIN + (self.query or "").encode()
        return _OBJECT + json.dumps([self.query, self.xpath, dict(self.namespaces), self.moved]).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Entry:
        """Undo to_bytes."""
        return Entry(data[1:].decode()) if data[:1] == _PLAIN else Entry(*json.loads(data[1:]))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The texts of the owners from `first` on; text i ends at ends[i]."""

    first: int
    ends: npt.NDArray[np.int64]
    texts: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return self.ends.size

    def __getitem__(self, owner: int) -> bytes:
        at = owner - self.first
        return bytes(self.texts[int(self.ends[at - 1]) if at else 0 : int(self.ends[at])])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For a file."""
        return {"first": np.array([self.first], np.int64), "ends": self.ends, "texts": self.texts}

    @staticmethod
    def from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> Block:
        """Undo arrays(); they may be memory-mapped."""
        return Block(int(arrays["first"][0]), arrays["ends"], arrays["texts"])

    @staticmethod
    def of(first: int, texts: Sequence[bytes]) -> Block:
        """A block of new texts."""
        ends = np.fromiter(accumulate(map(len, texts)), np.int64, len(texts))
        return Block(first, ends, np.frombuffer(b"".join(texts), np.uint8))


class Written:
    """All texts, by owner."""

    def __init__(self, blocks: Sequence[Block] = ()) -> None:
        self._blocks = list(blocks)
        self._waiting: list[bytes] = []

    def __len__(self) -> int:
        return self._sealed + len(self._waiting)

    @property
    def _sealed(self) -> int:
        return self._blocks[-1].first + len(self._blocks[-1]) if self._blocks else 0

    def append(self, entries: Sequence[Entry]) -> None:
        """The texts of the next owners."""
        self._waiting += [entry.to_bytes() for entry in entries]
        if len(self._waiting) >= BLOCK_MAX:
            self._seal()

    def __getitem__(self, owner: int) -> Entry:
        if owner >= self._sealed:
            return Entry.from_bytes(self._waiting[owner - self._sealed])
        place = bisect_right(self._blocks, owner, key=lambda block: block.first) - 1
        return Entry.from_bytes(self._blocks[place][owner])

    def blocks(self) -> tuple[Block, ...]:
        """All of it, in blocks that stay the same as long as they are not merged."""
        self._seal()
        return tuple(self._blocks)

    def _seal(self) -> None:
        if self._waiting:
            self._blocks.append(Block.of(self._sealed, self._waiting))
            self._waiting = []
        begin = due([len(block) for block in self._blocks])
        if begin < len(self._blocks) - 1:
            self._blocks[begin:] = [_merged(self._blocks[begin:])]


def _merged(blocks: Sequence[Block]) -> Block:
    starts = accumulate((block.texts.size for block in blocks), initial=0)
    ends = [block.ends + start for block, start in zip(blocks, starts, strict=False)]
    return Block(blocks[0].first, np.concatenate(ends), np.concatenate([block.texts for block in blocks]))
