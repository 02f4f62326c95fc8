"""What document nodes and query nodes say to each other, and how many bytes it takes (SmartSeer §III-B, §IV-A).

Every payload goes through one codec (msgpack), so what is counted is what is sent. A word that stands anywhere, under
the standard analysis, is a plain string; other keys carry field and analysis. Documents are compressed.

`decode` refuses, with a ValueError, whatever `encode` would not have written; a compressed document may not unpack to
more than the settings allow.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgpack

from tocsin.errors import DocumentError
from tocsin.intake import document_from_json, document_to_json
from tocsin.match.rendezvous.bloom import HASHES_MAX, BloomFilter
from tocsin.model import Document
from tocsin.query.normal import Key
from tocsin.settings import DEFAULTS
from tocsin.text import STANDARD

FILTER_BITS_MAX = 1 << 24
"""The largest filter that a node accepts: 2 MB."""


class Join(StrEnum):
    """How a document and the queries of one query node meet."""

    SEND_QUERY = "send-query"
    SEND_DOCUMENT = "send-document"
    DIALOGUE = "dialogue"
    BLOOM_QUERY = "bloom-query"
    BLOOM_DIALOGUE = "bloom-dialogue"


JOINS = tuple(Join)


@dataclass(frozen=True, slots=True)
class PackedDocument:
    """A document, compressed."""

    data: bytes

    @classmethod
    def of(cls, document: Document) -> PackedDocument:
        """Packs a document."""
        return cls(zlib.compress(document_to_json(document).encode(), 9))

    def unpacked(self, bytes_max: int = DEFAULTS.document.document_bytes_max) -> Document:
        """The document; ValueError if it is none, or larger than allowed."""
        unpacker = zlib.decompressobj()
        try:
            text = unpacker.decompress(self.data, bytes_max)
            if not unpacker.eof:
                raise ValueError(f"the document is cut short, or unpacks to more than {bytes_max} bytes")
            return document_from_json(text)
        except (zlib.error, DocumentError) as error:
            raise ValueError(f"the payload holds no document: {error}") from error


@dataclass(frozen=True, slots=True)
class Notice:
    """A new document: the words that the query node owns, the join, and what the join sends along (§IV-B, end)."""

    join: Join
    document: str
    version: int
    words: tuple[Key, ...]
    body: PackedDocument | BloomFilter | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """Does the document hold these words?"""

    words: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """One bit per question."""

    bits: bytes
    count: int

    @classmethod
    def of(cls, answers: Sequence[bool]) -> Answers:
        """Packs the bits, the first one lowest."""
        number = sum(1 << place for place, answer in enumerate(answers) if answer)
        return cls(number.to_bytes((len(answers) + 7) // 8, "little"), len(answers))

    def unpacked(self) -> list[bool]:
        """The answers in the order of the questions."""
        number = int.from_bytes(self.bits, "little")
        return [bool(number >> place & 1) for place in range(self.count)]


@dataclass(frozen=True, slots=True)
class Queries:
    """Whole queries: id, text, metadata. Their owners are told by whoever receives them."""

    entries: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Texts of queries that words could not decide: does the document match?"""

    texts: tuple[str, ...]


Payload = Notice | Questions | Answers | Queries | Check

_NOTICE, _QUESTIONS, _ANSWERS, _QUERIES, _CHECK = range(5)


def encode(payload: Payload) -> bytes:
    """The payload as bytes."""
    match payload:
        case Notice(join, document, version, words, body):
            whole = [_NOTICE, JOINS.index(join), document, version, [_pack_key(key) for key in words], _pack_body(body)]
        case Questions(words):
            whole = [_QUESTIONS, [_pack_key(key) for key in words]]
        case Answers(bits, count):
            whole = [_ANSWERS, count, bits]
        case Queries(entries):
            whole = [_QUERIES, [list(entry) for entry in entries]]
        case Check(texts):
            whole = [_CHECK, list(texts)]
    packed: bytes = msgpack.packb(whole)
    return packed


def decode(data: bytes) -> Payload:
    """Undo encode(); ValueError for anything else."""
    try:
        whole = msgpack.unpackb(data, strict_map_key=True)
        kind, *rest = whole
        return _READERS[kind](*rest)
    except (TypeError, KeyError, IndexError, msgpack.UnpackException) as error:
        raise ValueError(f"no payload of a rendezvous: {error}") from error


def _notice(join: Any, document: Any, version: Any, words: Any, body: Any) -> Notice:
    _require(isinstance(join, int) and 0 <= join < len(JOINS), "an unknown join")
    _require(isinstance(document, str) and isinstance(version, int), "a document without id and version")
    keys = tuple(map(_unpack_key, words))
    return Notice(JOINS[join], document, version, keys, _unpack_body(JOINS[join], body))


def _answers(count: Any, bits: Any) -> Answers:
    _require(isinstance(count, int) and isinstance(bits, bytes) and len(bits) == (count + 7) // 8, "too few bits")
    return Answers(bits, count)


def _queries(entries: Any) -> Queries:
    for entry in entries:
        _require(len(entry) == 3 and all(isinstance(part, str) for part in entry), "a query that is not text")
    return Queries(tuple((id, text, metadata) for id, text, metadata in entries))


def _check(texts: Any) -> Check:
    _require(all(isinstance(text, str) for text in texts), "a query that is not text")
    return Check(tuple(texts))


def _questions(words: Any) -> Questions:
    return Questions(tuple(map(_unpack_key, words)))


_READERS: dict[int, Callable[..., Payload]] = {
    _NOTICE: _notice,
    _QUESTIONS: _questions,
    _ANSWERS: _answers,
    _QUERIES: _queries,
    _CHECK: _check,
}


def _pack_key(key: Key) -> str | list[str]:
    return key.word if key.analysis == STANDARD and not key.field else [key.word, key.field, key.analysis]


def _unpack_key(packed: Any) -> Key:
    if isinstance(packed, str):
        return Key("", STANDARD, packed)
    word, field, analysis = packed
    _require(all(isinstance(part, str) for part in (word, field, analysis)), "a word that is not text")
    return Key(field, analysis, word)


def _pack_body(body: PackedDocument | BloomFilter | None) -> bytes | list[Any] | None:
    match body:
        case PackedDocument(data):
            return data
        case BloomFilter(data, bits, hashes):
            return [data, bits, hashes]
    return None


def _unpack_body(join: Join, packed: Any) -> PackedDocument | BloomFilter | None:
    if join is Join.SEND_DOCUMENT:
        _require(isinstance(packed, bytes), "no document")
        return PackedDocument(packed)
    if join in (Join.BLOOM_QUERY, Join.BLOOM_DIALOGUE):
        data, bits, hashes = packed
        _require(isinstance(data, bytes) and isinstance(bits, int) and isinstance(hashes, int), "no filter")
        _require(0 < bits <= FILTER_BITS_MAX and len(data) == (bits + 7) // 8, "a filter of another size")
        _require(0 < hashes <= HASHES_MAX, "a filter with too many hashes")
        return BloomFilter(data, bits, hashes)
    _require(packed is None, "a body that the join does not have")
    return None


def _require(sound: bool, problem: str) -> None:
    if not sound:
        raise ValueError(f"no payload of a rendezvous: {problem}")
