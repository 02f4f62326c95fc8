"""Subscriptions by id over the index, in versions that survive a crash.

A subscription asks for words, for a path of XML, or for both, which must then both hold: words live in the index of
queries (`index`), paths in the automaton (`paths`), both under the same owner.

A version is a file of small arrays that names the segment files it needs; both are written whole and
renamed into place (`snapshot`), segments first. So at any moment the newest version on the disk is complete,
whoever has an older one open keeps it, and saving writes only the segments that are new.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.errors import QueryError, SnapshotError
from tocsin.markup import read_accepted
from tocsin.match.engine import Counts
from tocsin.match.ids import Ids
from tocsin.match.index import ANY_SIZE, QueryIndex, is_plain
from tocsin.match.lines import Found, Lines
from tocsin.match.paths import PathIndex
from tocsin.match.segments import Segment
from tocsin.match.snapshot import ArrayFile, open_arrays, write_arrays
from tocsin.match.written import Block, Entry, Written
from tocsin.model import Document, Subscription
from tocsin.query.ast import Query, nested
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge
from tocsin.query.standing import parse_subscription
from tocsin.query.vector import attached, from_text
from tocsin.query.xpath.parse import parse_xpath
from tocsin.settings import DEFAULTS, DocumentLimits, QueryLimits
from tocsin.text import STANDARD, Analysis

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

FORMAT = 3
KEEP = 2  # versions that saving leaves on the disk
WAITING_MAX = 4_096  # single additions that are registered together at the latest
PLAIN_MAX = 1_000  # characters of a query that may take the quick way
OWNER_BITS = 32  # an owner and the place of a document make one number of 64 bits
_VERSION = re.compile(r"version-(\d{10})\.tocsin")


@dataclass(frozen=True, slots=True)
class Result:
    """What a batch of documents found."""

    matches: list[tuple[int, str]]
    """(index of the document, id of the subscription), by document."""
    errors: dict[str, str]
    """Subscriptions that could not be evaluated, with the reason; the matches of others are complete."""
    counts: Counts


class Registry:
    """Subscriptions that can be added, replaced, removed, matched, saved and opened."""

    def __init__(self, analysis: Analysis | None = None, limits: QueryLimits = DEFAULTS.query) -> None:
        self.index = QueryIndex(analysis or Analysis())
        self.paths = PathIndex()
        self.ids = Ids()
        self.version = 0
        self._written = Written()
        self._limits = limits
        self._files: dict[str, Segment | Block] = {}
        self._next_file = 0
        self._removed = 0
        self._waiting: list[tuple[str, str]] = []
        """Plain queries that are registered together, before anything looks."""
        self._both = np.empty(0, np.uint32)
        """Owners that ask for words and a path, ascending; removed ones stay here and match nothing."""
        self._both_new: list[int] = []
        self._names: tuple[int, pa.Array] = (-1, pa.array([], pa.large_string()))

    @property
    def analysis(self) -> Analysis:
        """How fields become words."""
        return self.index.analysis

    def __len__(self) -> int:
        self._register_waiting()
        return self.ids.count - self._removed

    def __contains__(self, id: str) -> bool:
        self._register_waiting()
        return self._living(id) >= 0

    # --- changing ------------------------------------------------------------------------------

    def add(
        self,
        id: str,
        text: str | None = None,
        xpath: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        moved: str | None = None,
    ) -> None:
        """Registers a subscription, or gives it another query or path; QueryError if one is refused.

        `moved` are the words of texts that feedback has moved (`query.vector.to_text`).
        """
        if text is None and xpath is None:
            raise ValueError("a subscription asks for words, for a path, or for both")
        if text is not None and xpath is None and moved is None and self._is_plain(text):
            self._waiting.append((id, text))
            if len(self._waiting) >= WAITING_MAX:
                self._register_waiting()
            return
        query = None if text is None else attached(self._parsed(text), from_text(moved))
        path = None if xpath is None else parse_xpath(xpath, namespaces or {}, self._limits)
        self._register_waiting()
        owner = self.index.next_owner
        if query is None:
            self.index.next_owner += 1
        else:
            self.index.add(query, text)
        if path is not None:
            self.paths.add(owner, path)
            if query is not None:
                self._both_new.append(owner)
        self._written.append([Entry(text, xpath, namespaces or {}, moved)])
        self._replace(self.ids.append([id]).tolist())

    def _parsed(self, text: str) -> Query:
        query = parse_subscription(text, self.analysis, self._limits)
        if any(nested(query)):
            raise QueryError("a nested query depends on other documents, which an index of queries does not keep", text)
        return query

    def add_many(self, subscriptions: Iterable[tuple[str, str] | tuple[str, Entry]]) -> dict[str, QueryError]:
        """Registers many, each with a query or an entry; returns those that were refused, with the reason."""
        refused: dict[str, QueryError] = {}
        for id, given in subscriptions:
            if isinstance(given, str) and self._is_plain(given):
                self._waiting.append((id, given))
                continue
            entry = Entry(given) if isinstance(given, str) else given
            try:
                self.add(id, entry.query, entry.xpath, entry.namespaces, entry.moved)
            except QueryError as error:
                refused[id] = error
        self._register_waiting()
        return refused

    def _register_waiting(self) -> None:
        if self._waiting:
            ids, texts = zip(*self._waiting, strict=True)
            self._waiting = []
            self.index.add_plain([text.encode() for text in texts])
            self._written.append([Entry(text) for text in texts])
            self._replace(self.ids.append(ids).tolist())

    def remove(self, id: str) -> None:
        """Forgets a subscription; KeyError if there is none of this id."""
        self._register_waiting()
        owner = self._living(id)
        if owner < 0:
            raise KeyError(id)
        self._replace([owner])

    def _is_plain(self, text: str) -> bool:
        return len(text) <= PLAIN_MAX and self.analysis.names(None) == (STANDARD,) and is_plain(text)

    def _replace(self, owners: Iterable[int]) -> None:
        for owner in owners:
            if owner >= 0 and not self._is_dead(owner):
                self.index.remove(owner)
                self._removed += 1
                if len(self.paths) and self._written[owner].xpath is not None:
                    self.paths.remove(owner)

    def _living(self, id: str) -> int:
        owner = self.ids.find(id)
        return -1 if owner >= 0 and self._is_dead(owner) else owner

    def _is_dead(self, owner: int) -> bool:
        return self.index.is_removed(owner)

    # --- matching ------------------------------------------------------------------------------

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> Result:
        """The subscriptions that each document matches."""
        owners, places = self.match_owners(documents, knowledge)
        names = self.ids
        matches = [(place, names[owner]) for owner, place in zip(owners.tolist(), places.tolist(), strict=True)]
        return Result(matches, self.errors(), self.index.counts)

    def match_owners(self, documents: Sequence[Document], knowledge: Knowledge) -> tuple[U32, I64]:
        """(owner, index of the document) for every match, by document, then by owner."""
        self._register_waiting()
        owners, places = self.index.match(documents, knowledge)
        if not len(self.paths):
            return owners, places
        return self._where_paths_hold(owners, places, self._paths_held(enumerate(documents)))

    def match_lines(self, lines: Lines, knowledge: Knowledge, limits: DocumentLimits = DEFAULTS.document) -> Found:
        """match_owners() of the documents in JSON lines, most of which need not become documents for it."""
        self._register_waiting()
        found = self.index.match_lines(lines, knowledge, limits)
        if not len(self.paths):
            return found
        held = self._paths_held(sorted(found.odd.items()))  # a document with XML is never plain
        owners, places = self._where_paths_hold(found.owners, found.places, held)
        return replace(found, owners=owners, places=places)

    def _where_paths_hold(self, owners: U32, places: I64, held: I64) -> tuple[U32, I64]:
        """Keeps what has no path or whose path holds too, and adds what asks for a path only."""
        both = self._asking_both()
        found = places << OWNER_BITS | owners.astype(np.int64)
        found = found[~_among(owners, both) | np.isin(found, held)]
        path_only = held[~_among(held & (1 << OWNER_BITS) - 1, both)]
        every = np.sort(np.concatenate([found, path_only]))
        return (every & (1 << OWNER_BITS) - 1).astype(np.uint32), every >> OWNER_BITS

    def _paths_held(self, documents: Iterable[tuple[int, Document]]) -> I64:
        """The pairs of place and owner whose path selects something, each as one number, ascending."""
        found = [
            self.paths.match(markup) | np.int64(place << OWNER_BITS)
            for place, document in documents
            if (markup := read_accepted(document.xml)) is not None
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _asking_both(self) -> U32:
        if self._both_new:
            self._both = np.concatenate([self._both, np.array(self._both_new, np.uint32)])
            self._both_new = []
        return self._both

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """All subscriptions, as they were written."""
        self._register_waiting()
        for owner in range(self.ids.count):
            if not self._is_dead(owner):
                yield self.ids[owner], self._written[owner]

    @property
    def nbytes(self) -> int:
        """Memory of the index, its ids included."""
        return self.index.nbytes + self.paths.nbytes() + self.ids.nbytes

    def errors(self) -> dict[str, str]:
        """Subscriptions that could not be evaluated so far, with the reason."""
        return {self.ids[owner]: reason for owner, reason in self.index.counts.errors.items()}

    def tried(self) -> Counter[str]:
        """On how many documents each subscription was looked at by itself so far."""
        return Counter({self.ids[owner]: count for owner, count in self.index.counts.tried.items()})

    def names(self, owners: U32) -> pa.Array:
        """The ids of owners, as an array of strings."""
        if self._names[0] != self.ids.count:
            arrays = self.ids.arrays()
            ends = np.zeros(self.ids.count + 1, np.int64)
            ends[1:] = arrays["ends"]
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(arrays["blob"]))]
            self._names = self.ids.count, pa.Array.from_buffers(pa.large_string(), self.ids.count, buffers)
        return self._names[1].take(pa.array(owners)).cast(pa.string())

    def subscription(self, owner: int) -> Subscription:
        """The subscription as it was written, parsed again: for scores and evidence."""
        self._register_waiting()
        entry = self._written[owner]
        query = None if entry.query is None else parse(entry.query, self.analysis, ANY_SIZE)
        if query is not None and entry.moved is not None:
            query = attached(query, from_text(entry.moved))
        path = None if entry.xpath is None else parse_xpath(entry.xpath, entry.namespaces, ANY_SIZE)
        return Subscription(self.ids[owner], query, entry.query or "", path)

    # --- keeping -------------------------------------------------------------------------------

    def save(self, folder: Path, keep: int = KEEP) -> int:
        """Writes the next version and returns its number; older versions than the last `keep` are deleted."""
        self._register_waiting()
        folder.mkdir(parents=True, exist_ok=True)
        segments = [self._save_part(folder, "segment", part, _segment_arrays(part)) for part in self.index.segments()]
        blocks = [self._save_part(folder, "written", part, part.arrays()) for part in self._written.blocks()]
        self._files = {name: part for name, part in self._files.items() if name in {*segments, *blocks}}
        path_arrays, about_paths = self.paths.to_arrays()
        version = max([self.version, *versions(folder)]) + 1
        about = {
            "format": FORMAT,
            "version": version,
            "segments": segments,
            "written": blocks,
            "next_file": self._next_file,
            "removed": self._removed,
            "paths": about_paths,
            **self.index.about(),
        }
        arrays = self.index.arrays() | {f"ids.{name}": array for name, array in self.ids.arrays().items()}
        arrays |= {f"paths.{name}": array for name, array in path_arrays.items()} | {"both": self._asking_both()}
        write_arrays(folder / f"version-{version:010}.tocsin", arrays, about)
        self.version = version
        _collect(folder, keep)
        return version

    def _save_part(self, folder: Path, kind: str, part: Segment | Block, arrays: dict[str, npt.NDArray[Any]]) -> str:
        for name, known in self._files.items():
            if known is part and (folder / name).exists():
                return name
        name = f"{kind}-{self.version + 1:010}-{self._next_file:06}.tocsin"
        self._next_file += 1
        write_arrays(folder / name, arrays, {})
        self._files[name] = part
        return name

    @classmethod
    def open(cls, folder: Path, version: int | None = None, *, verify: bool = False) -> Registry:
        """The newest version in the folder, or the one asked for, by memory-mapping; `verify` reads it all."""
        known = versions(folder)
        if not known:
            raise SnapshotError(f"{folder}: there is no saved index here")
        if version is not None and version not in known:
            raise SnapshotError(f"{folder}: there is no version {version}; there are {', '.join(map(str, known))}")
        chosen = known[-1] if version is None else version
        file = open_arrays(folder / f"version-{chosen:010}.tocsin")
        if file.about.get("format") != FORMAT:
            raise SnapshotError(f"{file.path}: format {file.about.get('format')}, this Tocsin reads format {FORMAT}")
        segments = [open_arrays(folder / name) for name in file.about["segments"]]
        blocks = [open_arrays(folder / name) for name in file.about["written"]]
        if verify:
            for part in (file, *segments, *blocks):
                part.verify()
        return cls._from_files(file, segments, blocks)

    @classmethod
    def _from_files(cls, file: ArrayFile, segments: Sequence[ArrayFile], blocks: Sequence[ArrayFile]) -> Registry:
        about: dict[str, Any] = file.about
        self = cls(Analysis(about["analysis"]))
        parts: dict[str, Segment] = {part.path.name: Segment(**part.arrays) for part in segments}
        written = {part.path.name: Block.from_arrays(part.arrays) for part in blocks}
        self.index = QueryIndex.from_arrays(file.arrays, about, list(parts.values()))
        self.ids = Ids.from_arrays(_part(file, "ids."))
        self.paths = PathIndex.from_arrays(_part(file, "paths."), about["paths"])
        self._written, self._both = Written(list(written.values())), file.arrays["both"]
        self.version, self._next_file, self._removed = about["version"], about["next_file"], about["removed"]
        self._files = {**parts, **written}
        return self


def _segment_arrays(segment: Segment) -> dict[str, npt.NDArray[Any]]:
    return {field.name: getattr(segment, field.name) for field in fields(segment)}


def _part(file: ArrayFile, prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in file.arrays.items() if name.startswith(prefix)}


def _among(numbers: npt.NDArray[Any], ascending: U32) -> npt.NDArray[np.bool_]:
    """Which of the numbers are in the ascending array."""
    if not ascending.size:
        return np.zeros(numbers.size, np.bool_)
    at = np.minimum(np.searchsorted(ascending, numbers), ascending.size - 1)
    return np.asarray(ascending[at] == numbers)


def versions(folder: Path) -> list[int]:
    """The versions in a folder, oldest first."""
    found = (_VERSION.fullmatch(path.name) for path in folder.glob("version-*.tocsin"))
    return sorted(int(match[1]) for match in found if match)


def _collect(folder: Path, keep: int) -> None:
    """Deletes versions before the last `keep`, and what no version needs any more."""
    for version in versions(folder)[:-keep]:
        (folder / f"version-{version:010}.tocsin").unlink(missing_ok=True)
    needed: set[str] = set()
    for version in versions(folder):
        about = open_arrays(folder / f"version-{version:010}.tocsin").about
        needed.update(about["segments"], about.get("written", ()))
    for path in [*folder.glob("segment-*.tocsin"), *folder.glob("written-*.tocsin"), *folder.glob("*.partial")]:
        if path.name not in needed:
            path.unlink(missing_ok=True)
