"""XML to events: the only place where markup is read.

libxml2 (through lxml) says what is XML, and a document becomes a tape of events as YFilter takes them (XML filtering
paper §5: StartOfElement, EndOfElement, Text). Nothing is fetched and nothing is expanded: a DOCTYPE may name an
external DTD, which is not loaded, and a reference to an entity that nobody declared is refused. Depth and sizes are
bounded by `MarkupLimits`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from lxml import etree

from tocsin import markup_kernels as kernels
from tocsin.errors import DocumentError
from tocsin.markup.document import Markup, Raw
from tocsin.markup.encodings import check_prolog, to_utf8
from tocsin.markup_kernels import COMMENT, END
from tocsin.settings import DEFAULTS, MarkupLimits

IntArray = npt.NDArray[np.int32]

LIMITS = DEFAULTS.markup
ANY_SIZE = MarkupLimits(1 << 40, 4_000, 1 << 40, 1 << 30)
"""The document was accepted before, by a site with limits of its own."""


def read_markup(source: bytes | str, limits: MarkupLimits = LIMITS) -> Markup:
    """The events of a document, or a DocumentError with line and reason.

    libxml2 judges, without building anything; what it accepts is scanned by a kernel. The rare document that the
    kernel is not made for is read by events.
    """
    data = to_utf8(source, limits)
    check_prolog(data)
    found = _scanned(data, limits) if _is_judged(data) else None
    return found or _by_events(data, limits)


def read_accepted(source: str | None) -> Markup | None:
    """The events of a document that was accepted; None if it has no XML, or none that this Tocsin would accept.

    No path holds there: one such document must not stop all that come after it.
    """
    if source is None:
        return None
    try:
        return read_markup(source, ANY_SIZE)
    except DocumentError:
        return None


class _Judge:
    """Takes no events: only libxml2's verdict is asked for."""

    def close(self) -> None:
        pass


_judges: list[etree.XMLParser] = []
"""Parsers that nobody uses: making one costs more than reading a short record."""
_JUDGES_MAX = 8


def _is_judged(data: bytes) -> bool:
    """Raises DocumentError for what is not XML; False if only reading by events finds that out."""
    try:
        parser = _judges.pop()
    except IndexError:
        parser = _parser(_Judge())
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        if "Excessive depth" in str(error.msg):
            return False  # by events it stops earlier, and says so
        refuse(str(error.msg), error.lineno or 1)
    _check_log(parser)
    if len(_judges) < _JUDGES_MAX:
        _judges.append(parser)
    return True


# --- reading by scan -------------------------------------------------------------------------------------------------

_NAMES_MAX, _SCOPES_MAX, _DEPTH_MAX = 4_096, 1_024, 2_100  # libxml2 stops at a depth of 2,048
_plain_names: dict[bytes, str] = {}
_NAME_BYTES_MAX = 64
_XML = "http://www.w3.org/XML/1998/namespace"
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(lt|gt|amp|quot|apos));")
_PREDEFINED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_BLANKS = str.maketrans("\t\n\r", "   ")


def _scanned(data: bytes, limits: MarkupLimits) -> Markup | None:
    status, found = kernels.scan(np.frombuffer(data, np.uint8), _NAMES_MAX, _SCOPES_MAX, _DEPTH_MAX)
    if status != kernels.DONE or not _within(found, limits):
        return None
    element_names, attribute_names = _resolve(data, found)
    piece, attribute = found.piece, found.attribute
    return Markup(
        found.tape,
        found.marks,
        element_names,
        attribute[:, 0],
        attribute[:, 1],
        attribute_names,
        lambda: _decode(data, piece, attribute),
        Raw(data, piece, attribute, _decode_one),
    )


def _within(found: kernels.Scan, limits: MarkupLimits) -> bool:
    """Are depth and attributes within the limits? If one may not be, reading by events finds out and says where."""
    counts = found.counts.tolist()
    return bool(
        counts[kernels.DEEPEST] <= limits.markup_depth_max
        and counts[kernels.LONGEST] <= limits.markup_attribute_characters_max
        and counts[kernels.MOST] <= limits.markup_element_attributes_max
    )


def _resolve(data: bytes, found: kernels.Scan) -> tuple[list[str], list[str]]:
    """Each name as an element's and as an attribute's: the default namespace is for elements only."""
    if len(found.scope) == 1:
        plain = [_plain_name(data[start:end]) for start, end, _ in found.name.tolist()]
        return plain, plain
    scopes: list[dict[str, str]] = [{"": "", "xml": _XML}]
    scopes += [{} for _ in range(len(found.scope) - 1)]
    for scope, start, end, value, value_end in found.declared.tolist():
        if not scopes[scope]:
            scopes[scope].update(scopes[found.scope[scope]])
        prefix = data[start:end].decode().partition(":")[2]
        scopes[scope][prefix] = _unescape(data[value:value_end].decode().translate(_BLANKS))
    elements, attributes = [], []
    for start, end, scope in found.name.tolist():
        prefix, colon, local = data[start:end].decode().rpartition(":")
        uri = scopes[scope].get(prefix, "")
        elements.append(f"{{{uri}}}{local}" if uri else local)
        attributes.append(f"{{{uri}}}{local}" if uri and colon else local)
    return elements, attributes


def _plain_name(name: bytes) -> str:
    """A name where no prefix is declared but `xml`; most documents use names that others have used."""
    found = _plain_names.get(name)
    if found is None:
        prefix, _, local = name.decode().rpartition(":")
        found = f"{{{_XML}}}{local}" if prefix == "xml" else local
        if len(_plain_names) >= _NAMES_MAX:
            _plain_names.clear()
        if len(name) <= _NAME_BYTES_MAX:
            _plain_names[name] = found
    return found


def _decode(data: bytes, piece: IntArray, attribute: IntArray) -> tuple[list[str], list[str]]:
    """Texts and values as XML says: line ends, references, and blanks in attributes."""
    text = data.decode()
    if len(text) < len(data):  # from places of bytes to those of characters
        characters = np.zeros(len(data) + 1, np.int32)
        np.cumsum(np.frombuffer(data, np.uint8) & 0xC0 != 0x80, out=characters[1:])
        piece = np.column_stack([characters[piece[:, :2]], piece[:, 2]])
        attribute = np.column_stack([attribute[:, :2], characters[attribute[:, 2:]]])
    pieces = [text[start:end] for start, end in piece[:, :2].tolist()]
    values = [text[start:end] for start, end in attribute[:, 2:].tolist()]
    if "\r" in text:
        pieces = [one.replace("\r\n", "\n").replace("\r", "\n") for one in pieces]
        values = [one.replace("\r\n", "\n") for one in values]
    if "&" in text:
        cdata = piece[:, 2].tolist()
        pieces = [
            one if marked or "&" not in one else _unescape(one) for one, marked in zip(pieces, cdata, strict=True)
        ]
    values = [one if one.isprintable() else one.translate(_BLANKS) for one in values]
    values = [_unescape(one) if "&" in one else one for one in values]
    return pieces, values


def _decode_one(text: str, is_value: bool, is_cdata: bool) -> str:
    """One text or value, as `_decode` has it."""
    text = text.replace("\r\n", "\n")
    text = text.translate(_BLANKS) if is_value else text.replace("\r", "\n")
    return text if is_cdata or "&" not in text else _unescape(text)


def _unescape(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found[3]:
            return _PREDEFINED[found[3]]
        return chr(int(found[1], 16) if found[1] else int(found[2]))

    return _REFERENCE.sub(character, text)


# --- reading by events -----------------------------------------------------------------------------------------------


def _by_events(data: bytes, limits: MarkupLimits) -> Markup:
    """The definition that the scan is tested against: libxml2's own events, one Python call each."""
    target = _Tape(limits)
    parser = _parser(target, predefined=True)
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        refuse(str(error.msg), error.lineno or 1)
    except _TooMuch as error:
        raise DocumentError(f"line {_line_of_element(data, error.element)}: {error.reason}") from None
    _check_log(parser)
    return target.markup()


def _parser(target: object, predefined: bool = False) -> etree.XMLParser:
    """libxml2 with nothing switched on; `huge_tree` only moves its depth limit above ours.

    Values of attributes are right only if the predefined entities are resolved; there are no others by then.
    """
    resolve: Any = "internal" if predefined else False
    return etree.XMLParser(
        target=target, encoding="utf-8", resolve_entities=resolve, no_network=True, load_dtd=False, huge_tree=True
    )


def refuse(reason: str, line: int) -> NoReturn:
    """Raises DocumentError with what libxml2 said."""
    reason = re.sub(r",? line \d+, column \d+.*", "", reason, flags=re.DOTALL).replace("\n", " ").strip()
    raise DocumentError(f"line {line}: the XML is not well-formed: {reason}")


def _check_log(parser: etree.XMLParser) -> None:
    """What libxml2 passes over when no tree is built: undeclared prefixes and entities."""
    for entry in parser.error_log:
        if entry.type == etree.ErrorTypes.WAR_UNDECLARED_ENTITY:
            raise DocumentError(f"line {entry.line}: {entry.message}: entities are not expanded, write the character")
        if entry.level >= etree.ErrorLevels.ERROR:
            refuse(entry.message, entry.line)


class _TooMuch(Exception):
    """A limit is passed at the element of this number."""

    def __init__(self, reason: str, element: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.element = element


class _Tape:
    """Takes libxml2's events. `data` is the list's own method: texts pass without a Python call."""

    def __init__(self, limits: MarkupLimits) -> None:
        self._tape: list[int] = []
        self._marks: list[int] = []
        self._names: dict[str, int] = {}
        self._owners: list[tuple[int, int]] = []
        self._attribute_names: dict[str, int] = {}
        self._values: list[str] = []
        self._pieces: list[str] = []
        self.data = self._pieces.append
        self._limits = limits
        self._room = limits.markup_depth_max

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if not self._room:
            raise self._too_much(f"elements are nested deeper than {self._limits.markup_depth_max} levels")
        self._room -= 1
        if attributes:
            self._check(attributes)
            for attribute, value in attributes.items():
                number = self._attribute_names.setdefault(attribute, len(self._attribute_names))
                self._owners.append((len(self._tape), number))
                self._values.append(value)
        self._event(1 + self._names.setdefault(name, len(self._names)))

    def _event(self, what: int) -> None:
        self._tape.append(what)
        self._marks.append(len(self._pieces))

    def end(self, _name: str) -> None:
        self._room += 1
        self._event(END)

    def comment(self, _text: str) -> None:
        self._event(COMMENT)

    def pi(self, _target: str, _data: str | None = None) -> None:
        self._event(COMMENT)

    def close(self) -> None:
        pass

    def markup(self) -> Markup:
        """What has been taken."""
        owners = np.array(self._owners, np.int32).reshape(-1, 2)
        return Markup(
            np.array(self._tape, np.int32),
            np.array(self._marks, np.int32),
            list(self._names),
            owners[:, 0],
            owners[:, 1],
            list(self._attribute_names),
            lambda: (self._pieces, self._values),
        )

    def _check(self, attributes: Mapping[str, str]) -> None:
        most = self._limits.markup_attribute_characters_max
        for name, value in attributes.items():
            if len(value) > most:
                raise self._too_much(f"the attribute {name!r} has {len(value):,} characters, at most {most:,} allowed")
        if len(attributes) > self._limits.markup_element_attributes_max:
            raise self._too_much(f"more than {self._limits.markup_element_attributes_max:,} attributes on one element")

    def _too_much(self, reason: str) -> _TooMuch:
        return _TooMuch(reason, sum(event > 0 for event in self._tape))


def _line_of_element(data: bytes, element: int) -> int:
    """Events carry no line; the few documents that are refused for one are read again up to that element."""
    parser = etree.XMLPullParser(("start",), encoding="utf-8", resolve_entities=False, no_network=True, huge_tree=True)
    with suppress(etree.XMLSyntaxError):
        parser.feed(data)
    for number, (_, found) in enumerate(parser.read_events()):
        if number == element:
            return int(found.sourceline or 1)
    return 1
