"""XML to events: the only place where markup is read.

libxml2 (through lxml) says what is XML, and a document becomes a tape of events as YFilter takes them (XML filtering
paper §5: StartOfElement, EndOfElement, Text). Nothing is fetched and nothing is expanded: a DOCTYPE may name an
external DTD, which is not loaded; an internal subset and with it every entity declaration is refused before libxml2
sees it, and so is a reference to an entity that nobody declared. Depth and sizes are bounded by `MarkupLimits`.

Bytes are in the encoding that they declare (or UTF-8, or as their byte order mark says); a string has been decoded
already, so the declaration inside it is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from lxml import etree

from tocsin import markup_kernels as kernels
from tocsin.errors import DocumentError
from tocsin.markup_kernels import COMMENT, END
from tocsin.settings import DEFAULTS, MarkupLimits

IntArray = npt.NDArray[np.int32]


LIMITS = DEFAULTS.markup


class Markup:
    """A document as a tape of events; elements are numbered in the order in which they start.

    `tape[i]` is 1 + the number of the name of an element that starts, END, or COMMENT (a comment or processing
    instruction). `marks[i]` is how many pieces of text came before event i: a text node is what lies between two
    events. Attribute k is at the element of event `owners[k]`. Names are '{uri}local'. `texts()` gives the pieces and
    the values of the attributes, which are decoded only when somebody looks at them.
    """

    def __init__(  # noqa: PLR0917 — the columns of one table
        self,
        tape: IntArray,
        marks: IntArray,
        names: list[str],
        owners: IntArray,
        attribute: IntArray,
        attribute_names: list[str],
        texts: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        self.tape = tape
        self.marks = marks
        self.names = names
        self.owners = owners
        self.attribute = attribute
        self.attribute_names = attribute_names
        self._texts = texts

    @cached_property
    def _decoded(self) -> tuple[list[str], list[str]]:
        return self._texts()

    @property
    def pieces(self) -> list[str]:
        """The pieces of text, in order."""
        return self._decoded[0]

    @property
    def values(self) -> list[str]:
        """The values of the attributes."""
        return self._decoded[1]

    @cached_property
    def tree(self) -> Tree:
        """The same document with random access."""
        return _tree(self)


@dataclass(frozen=True, slots=True)
class Tree:
    """Elements by number, in document order; element i and all below it are i, …, last[i] - 1."""

    names: list[str]
    parents: list[int]  # of the root element: -1
    last: list[int]
    children: list[list[int]]
    attributes: list[dict[str, str]]
    texts: list[list[str]]  # the text nodes right below each element
    text_marks: list[list[int]]  # and where each starts among the pieces, which is their order in the document
    spans: list[tuple[int, int]]  # the pieces of text inside each element
    pieces: list[str]

    def value(self, element: int) -> str:
        """The string-value of an element: all text inside it."""
        first, end = self.spans[element]
        return "".join(self.pieces[first:end])

    def path(self, element: int) -> str:
        """Where an element stands, as an XPath that selects it alone; names without their namespaces."""
        steps = []
        while element >= 0:
            parent = self.parents[element]
            name = self.names[element]
            same = [one for one in (self.children[parent] if parent >= 0 else [0]) if self.names[one] == name]
            steps.append(name.rpartition("}")[2] + (f"[{same.index(element) + 1}]" if len(same) > 1 else ""))
            element = parent
        return "/" + "/".join(reversed(steps))


def read_markup(source: bytes | str, limits: MarkupLimits = LIMITS) -> Markup:
    """The events of a document, or a DocumentError with line and reason.

    libxml2 judges, without building anything; what it accepts is scanned by a kernel. The rare document that the
    kernel is not made for is read by events.
    """
    data = _utf8(source, limits)
    _check_prolog(data)
    parser = _parser(_Judge())
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        if "Excessive depth" in str(error.msg):
            return _by_events(data, limits)  # which stops earlier, and says so
        _refuse(str(error.msg), error.lineno or 1)
    _check_log(parser)
    return _scanned(data, limits) or _by_events(data, limits)


class _Judge:
    """Takes no events: only libxml2's verdict is asked for."""

    def close(self) -> None:
        pass


# --- reading by scan -------------------------------------------------------------------------------------------------

_NAMES_MAX, _SCOPES_MAX, _DEPTH_MAX = 4_096, 1_024, 2_100  # libxml2 stops at a depth of 2,048
_XML = "http://www.w3.org/XML/1998/namespace"
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(lt|gt|amp|quot|apos));")
_PREDEFINED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_BLANKS = str.maketrans("\t\n\r", "   ")


def _scanned(data: bytes, limits: MarkupLimits) -> Markup | None:
    size = len(
        data
    )  # '<a>' is an event, '<a>x' has a piece, ' a=""' is an attribute; memory never written costs nothing
    found = kernels.Scan(
        tape=np.empty(size // 2 + 2, np.int32),
        marks=np.empty(size // 2 + 2, np.int32),
        piece=np.empty((size // 3 + 2, 3), np.int32),
        attribute=np.empty((size // 5 + 2, 4), np.int32),
        name=np.empty((_NAMES_MAX, 3), np.int32),
        table=np.full(4 * _NAMES_MAX, -1, np.int32),
        scope=np.zeros(_SCOPES_MAX, np.int32),
        declared=np.empty((_SCOPES_MAX, 5), np.int32),
        stack=np.zeros(_DEPTH_MAX, np.int32),
        counts=np.zeros(kernels.COUNTS, np.int64),
    )
    found.counts[kernels.SCOPES] = 1
    if kernels.scan(np.frombuffer(data, np.uint8), *found) != kernels.DONE:
        return None
    if not _within(found, limits):
        return None
    events, pieces, attributes, names = found.counts[:4].tolist()
    element_names, attribute_names = _resolve(data, found, names)
    piece, attribute = found.piece[:pieces], found.attribute[:attributes]
    return Markup(
        found.tape[:events],
        found.marks[:events],
        element_names,
        attribute[:, 0],
        attribute[:, 1],
        attribute_names,
        lambda: _decode(data, piece, attribute),
    )


def _within(found: kernels.Scan, limits: MarkupLimits) -> bool:
    """Are depth and attributes within the limits? If one may not be, reading by events finds out and says where."""
    counts = found.counts.tolist()
    return bool(
        counts[kernels.DEEPEST] <= limits.markup_depth_max
        and counts[kernels.LONGEST] <= limits.markup_attribute_characters_max
        and counts[kernels.MOST] <= limits.markup_element_attributes_max
    )


def _resolve(data: bytes, found: kernels.Scan, count: int) -> tuple[list[str], list[str]]:
    """Each name as an element's and as an attribute's: the default namespace is for elements only."""
    scopes: list[dict[str, str]] = [{"": "", "xml": _XML}]
    scopes += [{} for _ in range(int(found.counts[kernels.SCOPES]) - 1)]
    declared = found.declared[: found.counts[kernels.DECLARED]].tolist()
    for scope, start, end, value, value_end in declared:
        if not scopes[scope]:
            scopes[scope].update(scopes[found.scope[scope]])
        prefix = data[start:end].decode().partition(":")[2]
        scopes[scope][prefix] = _unescape(data[value:value_end].decode().translate(_BLANKS))
    elements, attributes = [], []
    for start, end, scope in found.name[:count].tolist():
        prefix, colon, local = data[start:end].decode().rpartition(":")
        uri = scopes[scope].get(prefix, "")
        elements.append(f"{{{uri}}}{local}" if uri else local)
        attributes.append(f"{{{uri}}}{local}" if uri and colon else local)
    return elements, attributes


def _decode(data: bytes, piece: IntArray, attribute: IntArray) -> tuple[list[str], list[str]]:
    """Texts and values as XML says: line ends, references, and blanks in attributes."""
    pieces = []
    for start, end, cdata in piece.tolist():
        text = data[start:end].decode()
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        pieces.append(text if cdata or "&" not in text else _unescape(text))
    values = []
    for start, end in attribute[:, 2:].tolist():
        text = data[start:end].decode().replace("\r\n", "\n").translate(_BLANKS)
        values.append(_unescape(text) if "&" in text else text)
    return pieces, values


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
        _refuse(str(error.msg), error.lineno or 1)
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


def _refuse(reason: str, line: int) -> NoReturn:
    reason = re.sub(r",? line \d+, column \d+.*", "", reason, flags=re.DOTALL).replace("\n", " ").strip()
    raise DocumentError(f"line {line}: the XML is not well-formed: {reason}")


def _check_log(parser: etree.XMLParser) -> None:
    """What libxml2 passes over when no tree is built: undeclared prefixes and entities."""
    for entry in parser.error_log:
        if entry.type == etree.ErrorTypes.WAR_UNDECLARED_ENTITY:
            raise DocumentError(f"line {entry.line}: {entry.message}: entities are not expanded, write the character")
        if entry.level >= etree.ErrorLevels.ERROR:
            _refuse(entry.message, entry.line)


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


# --- encodings -------------------------------------------------------------------------------------------------------

_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|utf-?32(?:le|be)?|us-ascii|ascii|iso-?8859-\d+|latin-?\d|windows-\d{3,4}|cp\d{3,4}"
    r"|koi8-[ru]|euc-(?:jp|kr)|shift_jis|iso-2022-jp|gb2312|gbk|gb18030|big5|mac(?:roman|intosh)|tis-620",
    re.IGNORECASE,
)
_MARKS = (  # the longer one first: UTF-32 LE starts as UTF-16 LE does
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"<\0?\0", "utf-16-le"),
    (b"\0<\0?", "utf-16-be"),
)


def _utf8(source: bytes | str, limits: MarkupLimits) -> bytes:
    if isinstance(source, str):
        try:
            data = source.removeprefix("\ufeff").encode()
        except UnicodeEncodeError as error:
            line = source.count("\n", 0, error.start) + 1
            raise DocumentError(f"line {line}: a lone surrogate is no character") from None
    else:
        data = source if len(source) > limits.markup_bytes_max else _recoded(source)
    if len(data) > limits.markup_bytes_max:
        raise DocumentError(f"the XML has {len(data):,} bytes, at most {limits.markup_bytes_max:,} are allowed")
    return data


def _recoded(data: bytes) -> bytes:
    """The bytes as UTF-8; XML 1.0 §4.3.3 and appendix F say which encoding they are in."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    declared = _DECLARED.match(data.removeprefix(b"\xef\xbb\xbf"))
    if not encoding:
        encoding = declared[1].decode("ascii") if declared else "utf-8"
        if encoding.lower().replace("-", "").startswith(("utf16", "utf32")):
            raise DocumentError(f"line 1: the encoding {encoding} is declared, but the bytes are not in it")
        if not _KNOWN.fullmatch(encoding):
            raise DocumentError(f"line 1: the encoding {encoding!r} is not known")
    elif encoding == "utf-8-sig" and declared and declared[1].lower() not in (b"utf-8", b"utf8"):
        name = declared[1].decode("ascii")
        raise DocumentError(f"line 1: the encoding {name} is declared, but the byte order mark says UTF-8")
    if encoding.lower() in ("utf-8", "utf8", "utf-8-sig", "us-ascii", "ascii"):
        return data.removeprefix(b"\xef\xbb\xbf")  # libxml2 finds bytes that are not UTF-8
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"line {line}: the bytes are not in the encoding {encoding}: {error.reason}") from None
    except LookupError:
        raise DocumentError(f"line 1: the encoding {encoding!r} is not known") from None
    return text.removeprefix("\ufeff").encode()


# --- prolog ----------------------------------------------------------------------------------------------------------

_BEFORE = re.compile(rb"\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*)*", re.DOTALL)
_DOCTYPE = re.compile(rb"""<!DOCTYPE(?:[^"'\[>]|"[^"]*"|'[^']*')*\[""")
_ENTITY = re.compile(rb"<!ENTITY")


def _check_prolog(data: bytes) -> None:
    """Refuses an internal DTD subset: it could declare entities, and defaults for attributes."""
    start = _BEFORE.match(data).end()  # type: ignore[union-attr]
    found = _DOCTYPE.match(data, start)
    if found is None:
        return
    entity = _ENTITY.search(data, found.end())
    if entity:
        line = data.count(b"\n", 0, entity.start()) + 1
        raise DocumentError(f"line {line}: the DOCTYPE declares an entity: write the characters themselves")
    line = data.count(b"\n", 0, found.end()) + 1
    raise DocumentError(f"line {line}: the DOCTYPE has an internal subset ('['): remove it")


# --- tree ------------------------------------------------------------------------------------------------------------

_NONE: dict[str, str] = {}


def _tree(markup: Markup) -> Tree:
    """Walks the tape once with the stack of open elements."""
    pieces = markup.pieces
    found = Tree([], [], [], [], [], [], [], [], pieces)
    stack: list[int] = []
    numbers: dict[int, int] = {}
    before = 0
    for at, (event, mark) in enumerate(zip(markup.tape.tolist(), markup.marks.tolist(), strict=True)):
        if mark > before and stack:
            found.texts[stack[-1]].append("".join(pieces[before:mark]))
            found.text_marks[stack[-1]].append(before)
        before = mark
        if event == END:
            done = stack.pop()
            found.last[done] = len(found.names)
            found.spans[done] = (found.spans[done][0], mark)
        elif event > 0:
            numbers[at] = len(found.names)
            _open(found, stack, markup.names[event - 1], mark)
    names = markup.attribute_names
    owners = zip(markup.owners.tolist(), markup.attribute.tolist(), markup.values, strict=True)
    for event, name, value in owners:
        if found.attributes[numbers[event]] is _NONE:
            found.attributes[numbers[event]] = {}
        found.attributes[numbers[event]][names[name]] = value
    return found


def _open(found: Tree, stack: list[int], name: str, mark: int) -> None:
    number = len(found.names)
    found.names.append(name)
    found.parents.append(stack[-1] if stack else -1)
    if stack:
        found.children[stack[-1]].append(number)
    found.last.append(0)
    found.children.append([])
    found.attributes.append(_NONE)
    found.texts.append([])
    found.text_marks.append([])
    found.spans.append((mark, mark))
    stack.append(number)


# --- records of large files ------------------------------------------------------------------------------------------

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
            _check_prolog(_prolog(chunk))
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
        _refuse(str(mistake.msg), mistake.lineno or 1)


def _prolog(chunk: bytes) -> bytes:
    """The first chunk as UTF-8, as far as it can be decoded: the prolog is in it."""
    mark = next((name for start, name in _MARKS if chunk.startswith(start)), "utf-8")
    return chunk if mark.startswith("utf-8") else chunk.decode(mark, errors="ignore").encode()


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
