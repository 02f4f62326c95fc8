"""JSON that is not one text per line: an array of documents, or documents written over several lines.

The splitter finds where each element starts and ends without decoding it, and holds one at a time. It knows
strings and brackets, and a little about people: a string ends with its line at the latest (JSON forbids line
breaks in strings), a closing bracket closes what its partner opened, and an element that was never closed
ends where the next one starts: at a brace where only a key can stand, or in the same way on a line of its own.
So one bad element does not lose the next. Whether an element is JSON at all is decided later, by tocsin.intake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tocsin.errors import DocumentError
from tocsin.files.lines import fragments
from tocsin.intake import too_large

NESTING_MAX = 1_000  # deeper brackets are only counted: no document is that deep
UNCLOSED = "invalid JSON: this object is not closed before the next one starts"

_BLANK = re.compile(rb"[ \t\r]*+")
_STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_IN_STRING = re.compile(_STRING, re.DOTALL)
_FLAT = re.compile(rb'(?:[^"{}\[\]]++|"' + _STRING + rb'")*+', re.DOTALL)  # up to a bracket or an open string
_FLAT_IN_ARRAY = re.compile(rb'(?:[^"{}\[\],]++|"' + _STRING + rb'")*+', re.DOTALL)  # or a comma
_OPENERS = {b"}": b"{", b"]": b"["}

Found = tuple[int, bytes | DocumentError]


def values(chunks: Iterable[bytes], bytes_max: int) -> Iterator[Found]:
    """Each element as (line, JSON text), or as (line, what is wrong with it)."""
    splitter = _Splitter(bytes_max)
    for number, part, ends in fragments(chunks):
        yield from splitter.read(number, part, ends)
    yield from splitter.finish()


class _Element:
    """What is known of the element that is being read."""

    def __init__(self, line: int, indent: int | None, bytes_max: int) -> None:
        self.line = line
        self.indent = indent  # None if something stands before it on its line
        self.indented = True  # are all its other lines deeper than its first?
        self.text = bytearray()
        self.bytes_max = bytes_max
        self.size = 0
        self.last = b""  # the end of what was added last
        self.nesting = bytearray()  # the open brackets
        self.deeper = 0  # those beyond NESTING_MAX

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size <= self.bytes_max:
            self.text += part
        else:
            self.text.clear()
        self.last = part.rstrip()[-1:] or self.last

    def open(self, bracket: bytes) -> None:
        if len(self.nesting) < NESTING_MAX:
            self.nesting += bracket
        else:
            self.deeper += 1

    def close(self, bracket: bytes) -> None:
        """Closes the bracket's partner, and whatever was left open inside; without a partner it is ignored."""
        if self.deeper:
            self.deeper -= 1
        elif (at := self.nesting.rfind(_OPENERS[bracket])) >= 0:
            del self.nesting[at:]

    def ends_before_line(self, part: bytes) -> bool:
        """Does this line of the element look like the first line of another one?"""
        if self.indent is None:
            return False
        indent = _BLANK.match(part).end()  # type: ignore[union-attr]
        first = part[indent : indent + 1]
        if first == b"{" and indent == self.indent:
            return self.indented
        if first and first not in b"}]" and indent <= self.indent:
            self.indented = False
        return False


class _Splitter:
    """Reads fragments of lines in order; remembers only where it is."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.element: _Element | None = None
        self.array = ""  # in an array, what came last: "[", "," or "element"
        self.array_line = 0
        self.in_string = False
        self.escaped = False  # did the fragment end with a backslash?
        self.fresh = True  # does a line start with this fragment?

    def read(self, number: int, part: bytes, ends: bool) -> Iterator[Found]:
        """What is found in this fragment of line `number`."""
        if self.fresh and self.element is not None and self.element.ends_before_line(part):
            yield self._broken(self.element)
        at = 0
        while at < len(part):
            if self.element is None:
                at, problem = self._between(number, part, at)
                if problem:
                    yield number, DocumentError(problem)
            elif self.in_string:
                at = self._string(self.element, part, at)
            else:
                at = self._flat(self.element, part, at)
                if at < len(part):
                    at, found = self._structure(self.element, part, at)
                    if found:
                        yield found
        self.fresh = ends
        if ends and self.element is not None:
            self.in_string = self.escaped = False
            self.element.add(b"\n")
            if not self.element.nesting and not self.array:
                yield self._whole(self.element)

    def finish(self) -> Iterator[Found]:
        """What the end of the file means."""
        if self.element is not None and self.element.nesting:
            yield self.element.line, DocumentError("invalid JSON: this object is not closed: the file may be cut off")
        else:
            if self.element is not None:
                yield self._whole(self.element)
            if self.array:
                yield self.array_line, DocumentError("invalid JSON: this list is not closed: the file may be cut off")

    def _between(self, number: int, part: bytes, at: int) -> tuple[int, str]:
        """Reads on, outside any element, until one starts; says what is wrong."""
        at = _BLANK.match(part, at).end()  # type: ignore[union-attr]
        byte, before = part[at : at + 1], self.array
        if not byte:
            return at, ""
        if not before and byte == b"[":
            self.array, self.array_line = "[", number
            return at + 1, ""
        if before and byte == b",":
            self.array = ","
            return at + 1, "" if before == "element" else "invalid JSON: a comma without a document before it"
        if before and byte == b"]":
            self.array = ""
            return at + 1, "invalid JSON: a comma without a document after it" if before == "," else ""
        indent = at if self.fresh and not part[:at].strip() else None
        self.element = _Element(number, indent, self.bytes_max)
        missing = "invalid JSON: a comma is missing before this document, which was read all the same"
        return at, missing if before == "element" else ""

    def _string(self, element: _Element, part: bytes, start: int) -> int:
        """Reads on inside a string that an earlier fragment opened."""
        end = _IN_STRING.match(part, start + self.escaped).end()  # type: ignore[union-attr]
        self.escaped = part[end : end + 1] == b"\\"  # the last byte
        self.in_string = part[end : end + 1] != b'"'
        end = min(end + 1, len(part))
        element.add(part[start:end])
        return end

    def _flat(self, element: _Element, part: bytes, start: int) -> int:
        """Reads on to the next byte that matters."""
        flat = _FLAT_IN_ARRAY if self.array and not element.nesting else _FLAT
        end = flat.match(part, start).end()  # type: ignore[union-attr]
        if end > start:
            element.add(part[start:end])
        return end

    def _structure(self, element: _Element, part: bytes, at: int) -> tuple[int, Found | None]:
        """Reads the byte that matters: a quotation mark, a bracket, or the comma after a scalar."""
        byte, inside = part[at : at + 1], bool(element.nesting)
        if byte == b'"':
            self.in_string = True
        elif byte in b"{[":
            if element.nesting[-1:] == b"{" and byte == b"{" and element.last == b",":
                return at, self._broken(element)
            if not inside and element.size:
                return at, self._whole(element)
            element.open(byte)
        elif inside:
            element.close(byte)
        elif self.array and byte in b",]":
            return at, self._whole(element)
        element.add(byte)
        return at + 1, self._whole(element) if inside and not element.nesting else None

    def _whole(self, element: _Element) -> Found:
        self.element = None
        self.array = "element" if self.array else ""
        if element.size > self.bytes_max:
            return element.line, DocumentError(too_large(self.bytes_max))
        return element.line, bytes(element.text).strip()

    def _broken(self, element: _Element) -> Found:
        self.element = None
        self.array = "," if self.array else ""
        return element.line, DocumentError(UNCLOSED)
