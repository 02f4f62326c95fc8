"""What a stranger sends becomes a Document, or a DocumentError that says why not.

Nothing here trusts its input: every shape of JSON, every encoding and every size ends in one of the two.
A document that passed holds only whole Unicode characters, numbers that float64 can hold, and field names
that a query can write, so nothing behind this door checks for them again.

`null` and `[]` mean absent, everywhere. A field keeps a tuple of values, so a value and a list of that one
value are the same document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from json import JSONDecodeError
from math import inf, isinf, isnan
from typing import Any, NoReturn

from tocsin.dates import span
from tocsin.errors import DocumentError
from tocsin.model import Document, Value
from tocsin.settings import DEFAULTS, DocumentLimits
from tocsin.text import is_field_name

BOM = b"\xef\xbb\xbf"
VERSION_MAX = 2**63 - 1
OWN_KEYS = frozenset({"id", "source", "time", "version", "xml"})
"""Keys with a meaning of their own; any other key is a field."""

DIGITS_MAX = 310  # an integer with more digits is larger than any float64
SHOWN_MAX = 60  # characters of a stranger's text in a message

_ADVICE = {  # what json says, and what we say
    "Expecting value": "a value is expected here",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
    "Expecting ':' delimiter": 'a ":" is expected after the key',
    "Expecting ',' delimiter": 'a "," or the closing bracket is expected here',
    "Unterminated string starting at": "the string that starts here is not closed",
    "Invalid control character at": "a line break, tab or other control character in a string is written as an escape",
    "Illegal trailing comma before end of object": "remove the comma before the closing bracket",
    "Illegal trailing comma before end of array": "remove the comma before the closing bracket",
    "Extra data": "the object ends before this, but more text follows: write one object per line",
}


# --- JSON to Python --------------------------------------------------------------------------------------------------


def object_from_json(raw: bytes | str, bytes_max: int) -> dict[str, Any]:
    """The JSON object in the text, strictly: UTF-8, no duplicate keys, no NaN. Its values are not checked."""
    try:
        size = len(raw) if isinstance(raw, bytes) else len(raw.encode())
    except UnicodeEncodeError as error:
        raise DocumentError(f"{_surrogate(error)} at character {error.start}") from None
    if size > bytes_max:
        raise DocumentError(too_large(bytes_max))
    text = decode_utf8(raw.removeprefix(BOM)) if isinstance(raw, bytes) else raw.removeprefix("\ufeff")
    try:
        decoded = _DECODER.decode(text)
    except JSONDecodeError as error:
        raise DocumentError(_json_problem(error)) from None
    except RecursionError:
        raise DocumentError("the brackets are nested too deeply: write flat lists of strings and numbers") from None
    if not isinstance(decoded, dict):
        raise DocumentError(f'this is {_kind(decoded)}: an object is expected, such as {{"id": …}}')
    return decoded


def decode_utf8(raw: bytes) -> str:
    """The text, or an error that names the first byte that is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        hint = "; this looks like UTF-16" if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
        raise DocumentError(
            f"invalid UTF-8 at byte {error.start} (0x{raw[error.start]:02x}){hint}: save the text as UTF-8"
        ) from None


def too_large(bytes_max: int) -> str:
    """The reason for refusing a document by its size."""
    return f"more than {bytes_max:,} bytes (document_bytes_max)"


def _json_problem(error: JSONDecodeError) -> str:
    if not error.doc.strip():
        return 'this is empty: an object is expected, such as {"id": …}'
    line = f"line {error.lineno} of the object, " if error.lineno > 1 else ""
    return f"invalid JSON at {line}column {error.colno}: {_ADVICE.get(error.msg, error.msg)}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DocumentError(f"the key {shown(key)} occurs twice: write several values as a list")
            seen.add(key)
    return found


def _integer(digits: str) -> int | float:
    """Python refuses to read very long integers; as a float they are infinite, which is refused by name."""
    return int(digits) if len(digits) <= DIGITS_MAX else float(digits)


def _constant(name: str) -> NoReturn:
    raise DocumentError(f"{name} is no number in JSON: write null, or leave the field out")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)


# --- Python to a document --------------------------------------------------------------------------------------------


def document_from_json(raw: bytes | str, limits: DocumentLimits = DEFAULTS.document) -> Document:
    """The document in one JSON text."""
    return document_from_object(object_from_json(raw, limits.document_bytes_max), limits)


def document_from_object(mapping: Mapping[str, Any], limits: DocumentLimits = DEFAULTS.document) -> Document:
    """The document in a decoded JSON object."""
    fields: dict[str, tuple[Value, ...]] = {}
    count = 0
    for name, value in mapping.items():
        if name in OWN_KEYS:
            continue
        if problem := field_name_problem(name):
            raise DocumentError(problem)
        values = _values(name, value)
        if values:
            fields[name] = values
            count += len(values)
    if len(fields) > limits.document_fields_max:
        raise DocumentError(f"more than {limits.document_fields_max:,} fields (document_fields_max)")
    if count > limits.document_values_max:
        raise DocumentError(f"more than {limits.document_values_max:,} values (document_values_max)")
    return Document(
        id=_id(mapping),
        fields=fields,
        source=_own_text(mapping, "source"),
        time=_time(mapping),
        version=_version(mapping),
        xml=_own_text(mapping, "xml"),
    )


def field_name_problem(name: object) -> str:
    """Why this cannot be the name of a field; "" if it can."""
    if not isinstance(name, str):
        return f"a field name is {_kind(name)}: it must be a string"
    if name.isascii() and name.isidentifier() and name[0] != "_":
        return ""  # the common case, without looking at each character
    if is_field_name(name):
        return ""
    if not name:
        return "a field name is empty: it must start with a letter"
    if any("\ud800" <= c <= "\udfff" for c in name):
        return f"the field name {shown(name)} holds a lone surrogate, which is no character"
    if not name[0].isalpha():
        return f"the field name {shown(name)} starts with {_character(name[0])}: it must start with a letter"
    bad = next(c for c in name if not is_field_name("a" + c))
    return f'the field name {shown(name)} holds {_character(bad)}: only letters, digits, "_", "-" and "." are allowed'


def _values(name: str, value: object) -> tuple[Value, ...]:
    if isinstance(value, str):
        return (_text(name, value),)
    if isinstance(value, list | tuple):
        return tuple([_item(name, item) for item in value])
    if value is None:
        return ()
    return (_number(name, value),)


def _item(name: str, item: object) -> Value:
    if isinstance(item, str):
        return _text(name, item)
    if item is None:
        raise DocumentError(f"the list of field {shown(name)} holds null: leave it out of the list")
    if isinstance(item, list | tuple):
        raise DocumentError(f"the list of field {shown(name)} holds another list: write one flat list")
    return _number(name, item)


def _text(name: str, text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DocumentError(f"{shown(name)} holds {_surrogate(error)}") from None
    return text


def _number(name: str, value: object) -> int | float:
    if isinstance(value, bool):
        word = "true" if value else "false"
        raise DocumentError(f'field {shown(name)} holds {word}: write "{word}" as a string, or 1 or 0')
    if not isinstance(value, int | float):
        raise DocumentError(f"field {shown(name)} holds {_kind(value)}: only strings, numbers and lists of these can")
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if isnan(number):
        raise DocumentError(f"field {shown(name)} holds NaN, which is no number: leave the field out")
    if isinf(number):
        raise DocumentError(f"field {shown(name)} holds a number too large for float64: write it as a string")
    return value


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, list | tuple) and not value)


def _id(mapping: Mapping[str, Any]) -> str:
    value = mapping.get("id")
    if _absent(value):
        raise DocumentError('there is no "id": every document needs one, a string')
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise DocumentError('"id" is a number: write it as a string, in double quotes')
    if not isinstance(value, str):
        raise DocumentError(f'"id" is {_kind(value)}: it must be a string')
    if not value:
        raise DocumentError('"id" is empty: it must have at least one character')
    return _text("id", value)


def _own_text(mapping: Mapping[str, Any], key: str) -> str | None:
    value = mapping.get(key)
    if _absent(value):
        return None
    if not isinstance(value, str):
        raise DocumentError(f'"{key}" is {_kind(value)}: it must be a string')
    return _text(key, value)


def _time(mapping: Mapping[str, Any]) -> str | None:
    time = _own_text(mapping, "time")
    if time is not None and span(time) is None:
        raise DocumentError(
            f'"time" is {shown(time)}, which is no date: write it as 2004-05-31 or 2004-05-31T18:30:00Z (RFC 3339)'
        )
    return time


def _version(mapping: Mapping[str, Any]) -> int:
    value = mapping.get("version")
    if _absent(value):
        return 1
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and 0 <= value <= VERSION_MAX:
            return value
        what = "out of range" if isinstance(value, int) or isinf(value) else str(value)
    else:
        what = _kind(value)
    raise DocumentError(
        f'"version" is {what}: it must be a whole number, from 0 to {VERSION_MAX}, without a decimal point'
    )


# --- words for messages ----------------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """A stranger's text, quoted, on one line, printable and short."""
    cut = text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
    return f'"{"".join(c if c.isprintable() else _escape(c) for c in cut)}"'


def _character(character: str) -> str:
    return {" ": "a space", '"': "a quotation mark"}.get(character, shown(character))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _surrogate(error: UnicodeEncodeError) -> str:
    half = _escape(error.object[error.start])
    return f"a lone surrogate ({half}), which is no character: write both halves, or leave it out"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
    return f"of Python's type {type(value).__name__}"


# --- a document to JSON ----------------------------------------------------------------------------------------------

_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


def document_to_json(document: Document) -> str:
    """One line that document_from_json reads back as the same document."""
    found: dict[str, object] = {"id": document.id, "source": document.source, "time": document.time}
    found["version"] = document.version if document.version != 1 else None
    for name, values in document.fields.items():
        found[name] = values[0] if len(values) == 1 else values
    found["xml"] = document.xml
    return _ENCODER.encode({key: value for key, value in found.items() if value is not None})


def fingerprint(document: Document) -> bytes:
    """16 bytes that are the same exactly when the documents are equal; the order of fields does not count."""
    fields = [[name, *map(_canonical, values)] for name, values in sorted(document.fields.items())]
    content = [document.id, document.source, document.time, document.version, document.xml, fields]
    return _digest(_ENCODER.encode(content))


def _canonical(value: Value) -> Value:
    """1.0 and 1 are equal, so they are written alike."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# --- versions --------------------------------------------------------------------------------------------------------


class Admission:
    """The rule of versions: the same again is ignored, a higher version replaces, anything else is refused."""

    def __init__(self) -> None:
        self._known = _Table()
        self.replaced = False
        """Did a higher version replace an earlier one?"""

    def __len__(self) -> int:
        """How many ids were admitted."""
        return len(self._known)

    def admit(self, document: Document) -> bool:
        """True: new. False: an identical repeat. A conflict is a DocumentError."""
        key, mark = _digest(document.id), fingerprint(document)
        known = self._known.get(key)
        if known is not None:
            version, known_mark = known
            if document.version < version:
                raise DocumentError(
                    f"{shown(document.id)} has version {document.version}, but version {version} came before: "
                    "a new version needs a higher number"
                )
            if document.version == version:
                if mark == known_mark:
                    return False
                raise DocumentError(
                    f"{shown(document.id)} came before with version {version} and other content: "
                    "a new version needs a higher number"
                )
            self.replaced = True
        self._known.put(key, document.version, mark)
        return True

    def is_current(self, id: str, version: int) -> bool:
        """Is this the highest version that was admitted under the id?"""
        known = self._known.get(_digest(id))
        return known is not None and known[0] == version


class _Table:
    """id hash -> (version, fingerprint) in one block of bytes, 40 a slot: a dict would take four times as much.

    Open addressing with linear probing; a key of zeros marks a free slot (no 16-byte hash is that, in practice).
    """

    SLOT = 40  # 16 of the id, 8 of the version, 16 of the fingerprint
    FREE = bytes(16)

    def __init__(self) -> None:
        self._slots = 1_024
        self._block = bytearray(self._slots * self.SLOT)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def get(self, key: bytes) -> tuple[int, bytes] | None:
        at = self._find(key)
        held = self._block[at : at + self.SLOT]
        return (int.from_bytes(held[16:24], "big"), bytes(held[24:])) if held[:16] == key else None

    def put(self, key: bytes, version: int, mark: bytes) -> None:
        at = self._find(key)
        if self._block[at : at + 16] == self.FREE:
            self._used += 1
        self._block[at : at + self.SLOT] = key + version.to_bytes(8, "big") + mark
        if self._used * 4 > self._slots * 3:
            self._grow()

    def _find(self, key: bytes) -> int:
        """Where the key is, or the free slot that it would take."""
        slot = int.from_bytes(key[:8], "big") % self._slots
        while True:
            at = slot * self.SLOT
            held = self._block[at : at + 16]
            if held in (key, self.FREE):
                return at
            slot = (slot + 1) % self._slots

    def _grow(self) -> None:
        old, self._slots = self._block, self._slots * 2
        self._block = bytearray(self._slots * self.SLOT)
        for at in range(0, len(old), self.SLOT):
            key = bytes(old[at : at + 16])
            if key != self.FREE:
                to = self._find(key)
                self._block[to : to + self.SLOT] = old[at : at + self.SLOT]
