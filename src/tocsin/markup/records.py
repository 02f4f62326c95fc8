"""Large files as records: the elements at a path, one after the other, each a document of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from lxml import etree

from tocsin.errors import DocumentError
from tocsin.markup.encodings import check_prolog, read_prolog
from tocsin.markup.reading import LIMITS, refuse
from tocsin.settings import MarkupLimits

CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Record:
    """One element of a large file, as a document of its own; `line` is where it starts in the file."""

    number: int
    line: int
    xml: str


class Readable(Protocol):
    """A binary file, compressed or not."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, b"" at the end."""


def split_records(file: Readable, record_path: str, limits: MarkupLimits = LIMITS) -> Iterator[Record]:
    """The elements at a path such as /dblp/* or /collection/volume/paper, or //paper, one after the other.

    The file is read in chunks; what is not inside a record is dropped as soon as it ends, so memory holds one record.
    A record inside a record is part of it. Raises DocumentError where the file stops being well-formed.
    """
    parser = etree.XMLPullParser(("start", "end"), resolve_entities=False, no_network=True, huge_tree=True)
    splitter = _Splitter(record_path, limits)
    first = True
    mistake: etree.XMLSyntaxError | None = None
    while mistake is None:
        chunk = file.read(CHUNK_BYTES)
        if first:
            check_prolog(read_prolog(chunk))
            first = False
        try:
            if chunk:
                parser.feed(chunk)
            else:
                parser.close()
        except etree.XMLSyntaxError as error:
            mistake = error
        yield from splitter.take(parser, len(chunk))  # also those before a mistake
        if not chunk:
            break
    if mistake is not None:
        refuse(str(mistake.msg), mistake.lineno or 1)


class _Splitter:
    """Which open element is a record, and how much has been read of it."""

    def __init__(self, record_path: str, limits: MarkupLimits) -> None:
        self._anywhere = record_path.startswith("//")
        self._steps = record_path.lstrip("/").split("/")
        if not record_path.startswith("/") or not all(self._steps) or (self._anywhere and len(self._steps) > 1):
            raise ValueError(f"a record path is /name/…/name (or '*'), or //name, not {record_path!r}")
        self._limits = limits
        self._open: list[str] = []
        self._record = 0  # depth of the record that is open
        self._bytes = 0
        self._count = 0

    def take(self, parser: etree.XMLPullParser, bytes_read: int) -> Iterator[Record]:
        for event, element in parser.read_events():
            if event == "start":
                self._start(element)
            else:
                found = self._end(element)
                if found:
                    yield found
        self._bytes = self._bytes + bytes_read if self._record else 0
        if self._bytes > self._limits.markup_bytes_max + CHUNK_BYTES:
            most = self._limits.markup_bytes_max
            raise DocumentError(f"record {self._count + 1} is larger than {most:,} bytes: is the record path right?")

    def _start(self, element: etree._Element) -> None:
        self._open.append(str(element.tag).rpartition("}")[2])
        if len(self._open) > self._limits.markup_depth_max:
            most = self._limits.markup_depth_max
            raise DocumentError(f"line {element.sourceline}: elements are nested deeper than {most} levels")
        if not self._record and self._is_record():
            self._record = len(self._open)

    def _is_record(self) -> bool:
        if self._anywhere:
            return self._steps[0] in ("*", self._open[-1])
        return len(self._open) == len(self._steps) and all(
            step in ("*", name) for step, name in zip(self._steps, self._open, strict=True)
        )

    def _end(self, element: etree._Element) -> Record | None:
        depth = len(self._open)
        self._open.pop()
        if self._record and depth > self._record:
            return None
        found = None
        if self._record:
            self._record = self._bytes = 0
            self._count += 1
            text = etree.tostring(element, encoding="unicode", with_tail=False)
            found = Record(self._count, element.sourceline or 0, text)
        parent = element.getparent()
        element.clear()
        if parent is not None:
            while len(parent) > 1:  # the last one stays: the parser still holds it
                del parent[0]
        return found
