"""How often each word occurs in each document, as flat arrays: what a score needs, without reading the documents.

One file for each update, written before the search library commits and merged as they grow in number; a file's name
tells which positions of the log it covers, so a file that was never committed is recognised and dropped. A file also
holds the words it was the first to meet; the numbers of words are their order over all files. The same, turned round,
says which documents hold a word: the commonest query, some words that must all occur, is found and scored in one call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, repeat
from math import log
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.match.id_kernels import find_ids, refill_slots
from tocsin.match.ids import Ids
from tocsin.match.lexicon import pack
from tocsin.match.posting_kernels import FULL, find_all, invert
from tocsin.match.similarity_kernels import cosines, count_words, listed, unweighed
from tocsin.match.snapshot import open_arrays, write_arrays
from tocsin.query.score import Statistics, Vector

I64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
FILES_MAX = 8  # of about the same size before they are merged
DENSE = 4  # if one of so many words occurs in a file, there is a place for each
ROOM = 2_000  # documents that one call finds; when there are more, the search library counts them
_NAME = re.compile(r"vectors-(\d{15})-(\d{15})\.tocsin")


class _File(NamedTuple):
    """The documents at the positions in (first, last]."""

    first: int
    last: int
    path: Path
    arrays: dict[str, npt.NDArray[Any]]

    @property
    def size(self) -> int:
        return int(self.arrays["words"].size)


class Vectors:
    """The documents' words, up to a position of the log."""

    def __init__(self, folder: Path, last: int) -> None:
        self._folder = folder
        self._lock = Lock()  # one may append while others ask
        self._tf = np.zeros(0)
        self._found = np.zeros(ROOM, np.int64), np.zeros(ROOM)
        files = self._cover(last)
        self._use(files, _vocabulary(files))

    def _use(self, files: list[_File], ids: Ids) -> None:
        """From now on these are all there is."""
        self._files, self._ids = files, ids
        self._weighed: tuple[Statistics, Floats] | None = None
        self._asked = np.zeros(ids.count)  # the query's weights; zero between two queries
        self._words = ids.arrays()
        self._postings: Any = None

    # --- files ---------------------------------------------------------------------------------

    def _cover(self, last: int) -> list[_File]:
        """A chain of files from the beginning of the log to the position.

        Of those that begin alike the longest that was committed; a longer one only where the writer, who is ahead of
        us, has dropped its parts.
        """
        longest: dict[int, tuple[int, Path]] = {}
        names = [_NAME.fullmatch(path.name) for path in self._folder.glob("vectors-*.tocsin")]
        ends = sorted((int(name[2]), int(name[1]), name.string) for name in names if name)
        for end, first, name in sorted(ends, key=lambda one: (one[0] <= last, -abs(one[0] - last))):
            longest[first] = (end, self._folder / name)
        found: list[_File] = []
        at = 0
        while at < last:
            if at not in longest:
                raise FileNotFoundError(f"{self._folder}: the words of the documents after position {at} are missing")
            end, path = longest[at]
            found.append(_File(at, end, path, open_arrays(path).arrays))
            at = end
        return found

    @property
    def last(self) -> int:
        """The position up to which documents are here."""
        return self._files[-1].last if self._files else 0

    def append(self, last: int, positions: Sequence[int], counts: Sequence[Mapping[str, int]]) -> None:
        """Writes the documents after the last position, up to this one."""
        every = list(dict.fromkeys(word for one in counts for word in one))
        numbers = self._find(every)
        new = [word for word, number in zip(every, numbers.tolist(), strict=True) if number < 0]
        numbers[numbers < 0] = np.arange(self._ids.count, self._ids.count + len(new))
        number_of = dict(zip(every, numbers.tolist(), strict=True))
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum([len(one) for one in counts], out=starts[1:])
        total = int(starts[-1])
        ordered = [(number_of[word], one[word]) for one in counts for word in sorted(one)]
        found = np.fromiter((number for number, _ in ordered), np.uint32, total)
        often = np.fromiter((count for _, count in ordered), np.uint32, total)
        written = self._write(
            self.last,
            last,
            {
                "positions": np.array(positions, np.int64),
                "starts": starts,
                "words": found,
                "counts": often if often.max(initial=0) >= 1 << 16 else often.astype(np.uint16),
                **_inverted(starts, found),
                **_packed(new),
            },
        )
        files = self._merged([*self._files, written])
        ids = _vocabulary(files)
        with self._lock:
            self._use(files, ids)

    def _write(self, first: int, last: int, arrays: dict[str, npt.NDArray[Any]]) -> _File:
        path = self._folder / f"vectors-{first:015}-{last:015}.tocsin"
        write_arrays(path, arrays, {"first": first, "last": last})
        return _File(first, last, path, open_arrays(path).arrays)

    def _merged(self, files: list[_File]) -> list[_File]:
        """Joins the last files while they are many of about the same size; the parts are dropped by `tidy`."""
        while len(files) >= FILES_MAX:
            tail = files[-FILES_MAX:]
            if tail[0].size > FILES_MAX * max(1, sum(one.size for one in tail[1:])):
                break
            starts = [one.arrays["starts"] for one in tail]
            shift = np.cumsum([0, *(int(one[-1]) for one in starts)])
            ends = [one.arrays["ends"] for one in tail]
            used = np.cumsum([0, *(int(one[-1]) if one.size else 0 for one in ends)])
            joined = {
                name: np.concatenate([one.arrays[name] for one in tail]) for name in ("positions", "words", "blob")
            }
            joined["counts"] = np.concatenate([one.arrays["counts"] for one in tail])
            joined["starts"] = np.concatenate([[0], *(one[1:] + at for one, at in zip(starts, shift, strict=False))])
            joined["ends"] = np.concatenate([one + at for one, at in zip(ends, used, strict=False)]).astype(np.int64)
            joined |= _inverted(joined["starts"], joined["words"])
            files = [*files[:-FILES_MAX], self._write(tail[0].first, tail[-1].last, joined)]
        return files

    def tidy(self, committed: int) -> None:
        """Drops files that are part of others, and those after the position that was committed."""
        kept = {one.path for one in self._files}
        for path in self._folder.glob("vectors-*.tocsin"):
            if path not in kept:
                path.unlink(missing_ok=True)
        assert self.last == committed

    # --- words ---------------------------------------------------------------------------------

    def _find(self, words: Sequence[str]) -> I64:
        """The number of each word, or -1."""
        data, begins, ends = pack([word.encode() for word in words])
        arrays, owners = self._ids.arrays(), np.empty(len(words), np.int64)
        find_ids(data, begins, ends, arrays["blob"], arrays["ends"], arrays["slots"], owners)
        return owners

    def statistics(self, positions: I64) -> Statistics:
        """Counted from the documents at these positions."""
        with self._lock:
            return self._statistics(positions)

    def _statistics(self, positions: I64) -> Statistics:
        held = np.zeros(self._ids.count, np.int64)
        for file, begins, ends in self._places(np.sort(positions)):
            count_words(begins, ends, file.arrays["words"], held)
        frequency = {self._ids[number]: int(held[number]) for number in np.flatnonzero(held).tolist()}
        return Statistics(int(positions.size), frequency)

    # --- conjunctions --------------------------------------------------------------------------

    def holding(self, words: Sequence[str], statistics: Statistics) -> tuple[list[int], list[float]] | None:
        """Where the documents are that hold all words, and their scores before rounding; None if they are many.

        Documents that were replaced or deleted are among them.
        """
        with self._lock:
            asked = sorted(set(words))
            positions, scores = self._found
            if self._postings is None:
                self._postings = self._gathered()
            if not len(self._postings):  # a list without a first element has no type yet
                return None
            text = np.frombuffer(" ".join(asked).encode(), np.uint8)
            rarity = self._weights(statistics)
            blob, ends, slots = self._words["blob"], self._words["ends"], self._words["slots"]
            count = find_all(text, blob, ends, slots, self._postings, self._tf, rarity, positions, scores)
            if count == FULL:
                return None
            found = scores[:count].tolist()
            if sum(found) != sum(found):  # NaN: not all of their words have been weighed
                vector = Vector.of(dict.fromkeys(asked, 1), statistics)
                found = self._cosines(positions[:count], vector, statistics).tolist()
            return positions[:count].tolist(), found

    def _gathered(self) -> Any:
        """The arrays of all files, each of one type."""
        counts = [file.arrays["counts"] for file in self._files]
        for one in counts:
            self._tf_of(one)
        if len({one.dtype for one in counts}) > 1:
            counts = [_frozen(one.astype(np.uint32)) for one in counts]
        names = ("positions", "terms", "first", "posting", "starts", "words")
        rows = zip(self._files, counts, strict=True)
        return listed((*(file.arrays[name] for name in names), often) for file, often in rows)

    def prepare(self, statistics: Statistics) -> None:
        """Weighs all words at once; otherwise they are weighed when they are first met."""
        with self._lock:
            weights, words_now = self._weights(statistics), self._words
        if not np.isnan(weights).any():
            return
        blob, ends = words_now["blob"].tobytes(), [0, *words_now["ends"].tolist()]
        words = (blob[begin:end].decode() for begin, end in pairwise(ends))
        often = np.fromiter(map(statistics.frequency.get, words, repeat(0)), np.int64, weights.size)
        distinct, which = np.unique(np.maximum(often, 1), return_inverse=True)
        weights[:] = np.array([log(1 + statistics.documents / one) for one in distinct.tolist()])[which]

    # --- scores --------------------------------------------------------------------------------

    def _places(self, positions: I64) -> list[tuple[_File, I64, I64]]:
        """For ascending positions: in which file each document's words begin and end."""
        found = []
        for file in self._files:
            inside = positions[
                np.searchsorted(positions, file.first, "right") : np.searchsorted(positions, file.last, "right")
            ]
            if inside.size:
                at = np.searchsorted(file.arrays["positions"], inside)
                found.append((file, file.arrays["starts"][at], file.arrays["starts"][at + 1]))
        return found

    def cosines(self, positions: I64, asked: Vector, statistics: Statistics) -> Floats:
        """The scores, before rounding, of the documents at these ascending positions."""
        with self._lock:
            return self._cosines(positions, asked, statistics)

    def _cosines(self, positions: I64, asked: Vector, statistics: Statistics) -> Floats:
        weights = self._asked
        names = list(asked.weights)
        numbers = self._find(names)
        known = numbers >= 0
        weights[numbers[known]] = np.fromiter(asked.weights.values(), np.float64, len(names))[known]
        out = np.zeros(positions.size)
        done = 0
        for file, begins, ends in self._places(positions):
            words, counts = file.arrays["words"], file.arrays["counts"]
            rarity = self._rarity(words, begins, ends, statistics)
            scores = out[done : done + begins.size]
            tf = self._tf if self._postings is not None else self._tf_of(counts)
            cosines(begins, ends, words, counts, tf, rarity, weights, asked.length, scores)
            done += begins.size
        weights[numbers[known]] = 0.0
        return out

    def _rarity(self, words: npt.NDArray[Any], begins: I64, ends: I64, statistics: Statistics) -> Floats:
        """How rare words are, filled in where these documents need it."""
        rarity = self._weights(statistics)
        unknown = np.zeros(int((ends - begins).sum()), np.uint32)
        for number in unknown[: unweighed(begins, ends, words, rarity, unknown)].tolist():
            rarity[number] = statistics.weight(self._ids[number], 1)
        return rarity

    def _weights(self, statistics: Statistics) -> Floats:
        """How rare words are; NaN where nobody has asked yet."""
        if self._weighed is None or self._weighed[0] is not statistics:
            self._weighed = (statistics, np.full(self._ids.count, np.nan))
        return self._weighed[1]

    def _tf_of(self, counts: npt.NDArray[Any]) -> Floats:
        most = int(counts.max(initial=1))
        if self._tf.size <= most:
            self._tf = np.array([0.0, *(1 + log(count) for count in range(1, most + 1))])
        return self._tf


def _inverted(starts: I64, words: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """The words that occur, ascending, and for each the documents that hold it; all words if most of them do."""
    first, posting = np.zeros(int(words.max(initial=0)) + 2, np.int64), np.empty(words.size, np.uint32)
    invert(starts, words, first, posting)
    terms = np.flatnonzero(first[1:] > first[:-1])
    if terms.size * DENSE >= first.size:
        return {"terms": np.empty(0, np.uint32), "first": first, "posting": posting}
    return {"terms": terms.astype(np.uint32), "first": np.append(first[terms], words.size), "posting": posting}


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def _packed(words: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    encoded = [word.encode() for word in words]
    return {
        "blob": np.frombuffer(b"".join(encoded), np.uint8),
        "ends": np.cumsum([len(word) for word in encoded], dtype=np.int64) if encoded else np.empty(0, np.int64),
    }


def _vocabulary(files: Sequence[_File]) -> Ids:
    """The words of all files, in order."""
    ends, used = [], 0
    for file in files:
        ends.append(file.arrays["ends"] + used)
        used += file.arrays["blob"].size
    every = np.concatenate(ends).astype(np.uint32) if ends else np.empty(0, np.uint32)
    blob = np.concatenate([file.arrays["blob"] for file in files]) if files else np.empty(0, np.uint8)
    slots = 1024
    while slots < 2 * every.size:
        slots *= 2
    table = np.zeros(slots, np.uint32)
    refill_slots(blob, every, every.size, table)
    return Ids.from_arrays({"blob": blob, "ends": every, "slots": table})
