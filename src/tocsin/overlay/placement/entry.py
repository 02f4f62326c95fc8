"""A query as its homes keep it; where it lives; and which of its homes speaks when a document reaches several.

    smartseer    whole, on its most selective word (SmartSeer §III-B). A disjunction lives on a word of each part, or
                 as disjoint clauses Qi = ¬T1 ∧ … ∧ ¬Ti−1 ∧ Ti, each on its own word (§VI-A). What says only what a
                 document is not, or in which range it lies, lives on dedicated nodes, which see every document.
    dhtrie       whole, on every distinct word that it asks for (DHTrie, "Subscribing")

A document visits the owners of all its words, so it may reach several homes of one query. Each home knows the others,
and the words of the document: the home with the smallest key speaks, the others are silent. No message is needed for
that, and none for a home that was lost: its key has another owner, who knows the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import msgpack

from tocsin.errors import QueryError
from tocsin.match.rendezvous.registered import Registered, register
from tocsin.match.requirement import PREFIX, PRESENT
from tocsin.overlay.key import Key, hashed
from tocsin.overlay.message import Address, Item
from tocsin.query.ast import And, Not, Or, Query
from tocsin.query.normal import Frequency, anchors, clauses, inward, keys_of
from tocsin.query.normal import Key as WordKey
from tocsin.query.parse import parse
from tocsin.query.show import show
from tocsin.settings import QueryLimits
from tocsin.text import Analysis

QUERY_KIND = 40
LIST_KIND = 41
EVERY = "*"
"""The "word" under which dedicated nodes list documents: no analysis makes a star."""
_ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the subscriber's node has accepted the query


class Mode(StrEnum):
    """Which words a query is registered on."""

    SMARTSEER = "smartseer"
    DHTRIE = "dhtrie"


class Disjunction(StrEnum):
    """How SmartSeer registers OR."""

    WORDS = "words"
    CLAUSES = "clauses"


def word_key(word: str) -> Key:
    """The key of a word, whatever field and analysis: a word's queries and documents are together."""
    return hashed("word", word)


def dedicated_key(number: int) -> Key:
    """The key of a dedicated node."""
    return hashed("dedicated", str(number))


def dedicated_for(name: str, nodes: int) -> Key:
    """The dedicated node of a query or a document."""
    return dedicated_key(hashed("name", name) % nodes)


def keys_by_word(held: Iterable[WordKey]) -> dict[Key, set[str]]:
    """The words of a document by the keys of their owners; whether a field is there is nobody's word."""
    found: dict[Key, set[str]] = {}
    for one in held:
        if one.analysis != PRESENT:
            found.setdefault(word_key(one.word), set()).add(one.word)
    return found


# --- where a query lives ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A query, or one of its disjoint clauses, and the keys where it lives."""

    query: Query
    homes: frozenset[Key]


def parts_of(
    id: str,
    query: Query,
    analysis: Analysis,
    *,
    mode: Mode,
    dedicated: int = 1,
    frequency: Frequency = lambda key: 0,
    disjunction: Disjunction = Disjunction.WORDS,
) -> tuple[Part, ...]:
    """What is registered of a query, and where."""
    everywhere = frozenset({dedicated_for(id, dedicated)})
    found = anchors(query, analysis, frequency)
    if found is None:
        return (Part(query, everywhere),)
    if mode is Mode.DHTRIE:
        return (Part(query, frozenset(word_key(key.word) for key in wanted_words(query, analysis))),)
    split = clauses(query) if disjunction is Disjunction.CLAUSES and len(found) > 1 else None
    if split is None:
        return (Part(query, frozenset(word_key(key.word) for key in found)),)
    parts = []
    for clause in split:
        waits = anchors(clause.query(), analysis, frequency)
        homes = everywhere if waits is None else frozenset(word_key(key.word) for key in waits)
        parts.append(Part(clause.query(), homes))
    return tuple(parts)


def wanted_words(query: Query, analysis: Analysis) -> frozenset[WordKey]:
    """Every word that the query asks for, not those that it forbids."""
    match query:
        case And(parts) | Or(parts):
            return frozenset().union(*(wanted_words(part, analysis) for part in map(inward, parts)))
        case Not(Not() | And() | Or()):
            return wanted_words(inward(query), analysis)
        case Not():
            return frozenset()
    return frozenset(key for keys in keys_of(query, analysis) for key in keys if key.analysis not in (PREFIX, PRESENT))


# --- an entry --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """What a home keeps of a query."""

    subscription: str
    subscriber: Address
    homes: tuple[Key, ...]
    registered: Registered

    def is_spoken_by(self, key: Key, present: AbstractSet[Key]) -> bool:
        """Whether the home at this key speaks for a document with these keys."""
        return key == min((home for home in self.homes if home in present), default=None)


def item_name(subscription: str, part: int) -> bytes:
    """The name of an entry: a subscription may have several."""
    return b"%d " % part + subscription.encode()


def entry_value(part: Part, subscriber: Address) -> bytes:
    """An entry as bytes."""
    packed: bytes = msgpack.packb([show(part.query), subscriber, sorted(part.homes)])
    return packed


def entry_of(item: Item, analysis: Analysis) -> Entry | None:
    """The entry in an item; None if it is removed, or nonsense of another node."""
    if item.kind != QUERY_KIND or item.value is None:
        return None
    return _entry(item.name, item.value, _Same(analysis))


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """An analysis as a key of a cache: the same object."""

    analysis: Analysis

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.analysis is self.analysis

    def __hash__(self) -> int:
        return id(self.analysis)


@lru_cache(maxsize=200_000)
def _entry(name: bytes, value: bytes, analysis: _Same) -> Entry | None:
    try:
        text, subscriber, homes = msgpack.unpackb(value)
        subscription = name.split(b" ", 1)[1].decode()
        query = parse(text, analysis.analysis, _ANY_SIZE)
        registered = register(name.decode(), query, analysis.analysis, subscriber)
        return Entry(subscription, subscriber, tuple(map(int, homes)), registered)
    except (ValueError, TypeError, IndexError, AttributeError, QueryError, msgpack.UnpackException):
        return None
