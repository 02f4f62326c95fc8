"""The four joins as conversations between a document node and a query node (SmartSeer §III-B, §IV-A).

Each side is a state machine without I/O: it takes a payload and says what it answers, or that it has nothing more to
say. The overlay carries the payloads in messages; here `converse` passes them across in memory, through the codec, and
counts. Whatever the join, together the two sides find exactly the queries that the document matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tocsin.match.rendezvous.bloom import CITESEER_BITS, BloomFilter, filter_word
from tocsin.match.rendezvous.dialogue import Dialogue, DialogueSettings
from tocsin.match.rendezvous.payload import (
    Answers,
    Check,
    Join,
    Notice,
    PackedDocument,
    Payload,
    Queries,
    Questions,
    decode,
    encode,
)
from tocsin.match.rendezvous.registered import Registered, decide, held_keys
from tocsin.model import Document
from tocsin.query.normal import Key
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.settings import QueryLimits

HEADER_BYTES = 40
"""What a message costs beside its payload (an IPv4 and a TCP header): why batching matters in §IV-A."""
_ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the query node has accepted the query


class DocumentSide:
    """The document node: opens, and answers about its document."""

    def __init__(self, document: Document, knowledge: Knowledge, filter_bits: int = CITESEER_BITS) -> None:
        self.document = document
        self.held = held_keys(document, knowledge.analysis)
        self.matches: list[str] = []
        """Queries that came here whole and match: their owners are told from here."""
        self._knowledge = knowledge
        self.filter_bits = filter_bits
        self._packed: PackedDocument | None = None
        self._filter: BloomFilter | None = None

    @property
    def packed(self) -> PackedDocument:
        """The document, compressed once."""
        if self._packed is None:
            self._packed = PackedDocument.of(self.document)
        return self._packed

    @property
    def filter(self) -> BloomFilter:
        """The filter of the document's words, made once."""
        if self._filter is None:
            self._filter = BloomFilter.of(map(filter_word, sorted(self.held)), self.filter_bits)
        return self._filter

    def open(self, join: Join, words: Iterable[Key] = ()) -> Notice:
        """The first payload to a query node that owns these words of the document.

        With the document itself the words need not be named: the query node finds them (§IV-C).
        """
        named = () if join is Join.SEND_DOCUMENT else tuple(words)
        body: PackedDocument | BloomFilter | None = None
        if join is Join.SEND_DOCUMENT:
            body = self.packed
        elif join in (Join.BLOOM_QUERY, Join.BLOOM_DIALOGUE):
            body = self.filter
        return Notice(join, self.document.id, self.document.version, named, body)

    def receive(self, payload: Payload) -> Payload | None:
        """The answer to a query node; None: this was the last word."""
        match payload:
            case Questions(words):
                return Answers.of([key in self.held for key in words])
            case Check(texts):
                return Answers.of([self._holds(text) for text in texts])
            case Queries(entries):
                self.matches += [id for id, text, _ in entries if self._holds(text)]
                return None
        raise ValueError(f"a document node does not expect {type(payload).__name__}")

    def _holds(self, text: str) -> bool:
        return holds(parse(text, self._knowledge.analysis, _ANY_SIZE), self.document, self._knowledge)


class QuerySide:
    """The query node's part of one conversation, about the queries registered on the words of the notice."""

    def __init__(
        self, queries: Sequence[Registered], knowledge: Knowledge, settings: DialogueSettings | None = None
    ) -> None:
        self.matches: list[str] = []
        """Queries that are known here to match: their owners are told from here."""
        self.survivors: int | None = None
        """How many queries a Bloom filter left: Q′ of §IV-B."""
        self._queries = queries
        self._knowledge = knowledge
        self._settings = settings or DialogueSettings()
        self._dialogue: Dialogue | None = None
        self._checking: list[Registered] = []

    def receive(self, payload: Payload) -> Payload | None:
        """The answer to the document node; None: this was the last word."""
        match payload:
            case Notice(Join.SEND_DOCUMENT, body=PackedDocument() as packed):
                self._match(packed.unpacked())
                return None
            case Notice(Join.SEND_QUERY):
                return _whole(self._queries)
            case Notice(join, words=words, body=body):
                return self._begin(join, words, body if isinstance(body, BloomFilter) else None)
            case Answers() if self._checking:
                answered = zip(self._checking, payload.unpacked(), strict=True)
                self.matches += [registered.id for registered, held in answered if held]
                return None
            case Answers() if self._dialogue is not None:
                self._dialogue.learn(zip(self._dialogue.ask(), payload.unpacked(), strict=True))
                return self._continue(self._dialogue)
        raise ValueError(f"a query node does not expect {type(payload).__name__} here")

    def _match(self, document: Document) -> None:
        held = held_keys(document, self._knowledge.analysis)
        self.matches += [each.id for each in self._queries if decide(each, held, document, self._knowledge)]

    def _begin(self, join: Join, words: tuple[Key, ...], filter: BloomFilter | None) -> Payload | None:
        dialogue = self._dialogue = Dialogue(self._queries, self._settings)
        dialogue.learn((key, True) for key in words)
        if filter is not None:
            asked = sorted(dialogue.open_words)
            maybe = filter.may_hold([filter_word(key) for key in asked])
            dialogue.learn((key, False) for key, may in zip(asked, maybe.tolist(), strict=True) if not may)
            self.survivors = len(dialogue.remaining) + len(dialogue.matched)
        if join is Join.BLOOM_QUERY:
            self.matches += [registered.id for registered in dialogue.matched]
            return _whole(dialogue.remaining)
        return self._continue(dialogue)

    def _continue(self, dialogue: Dialogue) -> Payload | None:
        if asked := dialogue.ask():
            return Questions(asked)
        self.matches += [registered.id for registered in dialogue.matched]
        self._checking = dialogue.undecided
        return Check(tuple(registered.text for registered in self._checking)) if self._checking else None


def _whole(queries: Sequence[Registered]) -> Queries | None:
    return Queries(tuple((each.id, each.text, each.metadata) for each in queries)) if queries else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a conversation found and what it took."""

    matches: tuple[str, ...]
    notice_bytes: int
    """The notice without what the join sends along: every join has it, and index updates travel in it."""
    join_bytes: int
    """All that the join itself sent: document or filter, questions, answers, queries."""
    messages: int
    """After the notice."""
    rounds: int
    """Times that the document node was asked and answered."""
    survivors: int | None = field(default=None)

    def bytes(self, header_bytes: int = HEADER_BYTES) -> int:
        """Join and headers, without the notice."""
        return self.join_bytes + header_bytes * self.messages

    def total_bytes(self, header_bytes: int = HEADER_BYTES) -> int:
        """With the notice."""
        return self.notice_bytes + self.bytes(header_bytes) + header_bytes


def converse(document: DocumentSide, queries: QuerySide, join: Join, words: Iterable[Key] = ()) -> Outcome:
    """Runs one conversation through the codec."""
    notice = document.open(join, words)
    sent = encode(notice)
    bare = len(encode(Notice(join, notice.document, notice.version, notice.words)))
    join_bytes, messages, rounds = len(sent) - bare, 0, 0
    before = len(document.matches)
    answer = queries.receive(decode(sent))
    while answer is not None:
        asked = encode(answer)
        reply = document.receive(decode(asked))
        join_bytes, messages = join_bytes + len(asked), messages + 1
        if reply is None:
            break
        rounds += 1
        told = encode(reply)
        join_bytes, messages = join_bytes + len(told), messages + 1
        answer = queries.receive(decode(told))
    matches = tuple(sorted([*document.matches[before:], *queries.matches]))
    return Outcome(matches, bare, join_bytes, messages, rounds, queries.survivors)
