"""Subscriptions by id over the index, in versions that survive a crash.

A version is a file of small arrays that names the segment files it needs; both are written whole and
renamed into place (`snapshot`), segments first. So at any moment the newest version on the disk is complete,
whoever has an older one open keeps it, and saving writes only the segments that are new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tocsin.errors import QueryError, SnapshotError
from tocsin.match.engine import Counts
from tocsin.match.ids import Ids
from tocsin.match.index import QueryIndex, is_plain
from tocsin.match.segments import Segment
from tocsin.match.snapshot import ArrayFile, open_arrays, write_arrays
from tocsin.model import Document
from tocsin.query.semantics import Knowledge
from tocsin.query.standing import parse_subscription
from tocsin.settings import DEFAULTS, QueryLimits
from tocsin.text import STANDARD, Analysis

FORMAT = 1
KEEP = 2  # versions that saving leaves on the disk
WAITING_MAX = 4_096  # single additions that are registered together at the latest
PLAIN_MAX = 1_000  # characters of a query that may take the quick way
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
        self.ids = Ids()
        self.version = 0
        self._limits = limits
        self._files: dict[str, Segment] = {}
        self._next_file = 0
        self._removed = 0
        self._waiting: list[tuple[str, str]] = []
        """Plain queries that are registered together, before anything looks."""

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

    def add(self, id: str, text: str) -> None:
        """Registers a subscription, or gives it a new query; QueryError if the query is refused."""
        if self._is_plain(text):
            self._waiting.append((id, text))
            if len(self._waiting) >= WAITING_MAX:
                self._register_waiting()
            return
        query = parse_subscription(text, self.analysis, self._limits)
        self._register_waiting()
        self.index.add(query, text)
        self._replace(self.ids.append([id]).tolist())

    def add_many(self, subscriptions: Sequence[tuple[str, str]]) -> dict[str, QueryError]:
        """Registers many; returns those that were refused, with the reason. The others are registered."""
        refused: dict[str, QueryError] = {}
        for id, text in subscriptions:
            if self._is_plain(text):
                self._waiting.append((id, text))
                continue
            try:
                self.add(id, text)
            except QueryError as error:
                refused[id] = error
        self._register_waiting()
        return refused

    def _register_waiting(self) -> None:
        if self._waiting:
            ids, texts = zip(*self._waiting, strict=True)
            self._waiting = []
            self.index.add_plain([text.encode() for text in texts])
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

    def _living(self, id: str) -> int:
        owner = self.ids.find(id)
        return -1 if owner >= 0 and self._is_dead(owner) else owner

    def _is_dead(self, owner: int) -> bool:
        return self.index.is_removed(owner)

    # --- matching ------------------------------------------------------------------------------

    def match(self, documents: Sequence[Document], knowledge: Knowledge) -> Result:
        """The subscriptions that each document matches."""
        self._register_waiting()
        owners, places = self.index.match(documents, knowledge)
        names = self.ids
        matches = [(place, names[owner]) for owner, place in zip(owners.tolist(), places.tolist(), strict=True)]
        errors = {names[owner]: reason for owner, reason in self.index.counts.errors.items()}
        return Result(matches, errors, self.index.counts)

    # --- keeping -------------------------------------------------------------------------------

    def save(self, folder: Path, keep: int = KEEP) -> int:
        """Writes the next version and returns its number; older versions than the last `keep` are deleted."""
        self._register_waiting()
        folder.mkdir(parents=True, exist_ok=True)
        names = [self._save_segment(folder, segment) for segment in self.index.segments()]
        self._files = {name: segment for name, segment in self._files.items() if name in names}
        version = max([self.version, *versions(folder)]) + 1
        about = {
            "format": FORMAT,
            "version": version,
            "segments": names,
            "next_file": self._next_file,
            "removed": self._removed,
            **self.index.about(),
        }
        arrays = self.index.arrays() | {f"ids.{name}": array for name, array in self.ids.arrays().items()}
        write_arrays(folder / f"version-{version:010}.tocsin", arrays, about)
        self.version = version
        _collect(folder, keep)
        return version

    def _save_segment(self, folder: Path, segment: Segment) -> str:
        for name, known in self._files.items():
            if known is segment and (folder / name).exists():
                return name
        name = f"segment-{self.version + 1:010}-{self._next_file:06}.tocsin"
        self._next_file += 1
        write_arrays(folder / name, {field.name: getattr(segment, field.name) for field in fields(segment)}, {})
        self._files[name] = segment
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
        parts = [open_arrays(folder / name) for name in file.about["segments"]]
        if verify:
            for part in (file, *parts):
                part.verify()
        return cls._from_files(file, parts)

    @classmethod
    def _from_files(cls, file: ArrayFile, parts: Sequence[ArrayFile]) -> Registry:
        about: dict[str, Any] = file.about
        segments = [Segment(**part.arrays) for part in parts]
        self = cls(Analysis(about["analysis"]))
        self.index = QueryIndex.from_arrays(file.arrays, about, segments)
        ids = {name: file.arrays[f"ids.{name}"] for name in ("blob", "ends", "slots")}
        self.ids = Ids.from_arrays(ids)
        self.version, self._next_file, self._removed = about["version"], about["next_file"], about["removed"]
        self._files = {part.path.name: segment for part, segment in zip(parts, segments, strict=True)}
        return self


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
        needed.update(open_arrays(folder / f"version-{version:010}.tocsin").about["segments"])
    for path in [*folder.glob("segment-*.tocsin"), *folder.glob("*.partial")]:
        if path.name not in needed:
            path.unlink(missing_ok=True)
