"""The best join and notification for each document, from live statistics (SmartSeer §V-E, its future work).

No single choice is best as workloads change (§V-E), so a document node asks the cost model anew for every document. It
knows its document exactly and the queries of the other nodes from reports: a query node tells how many queries, of how
many words, a notified word concerns on average, and tells it again when that has changed by a quarter. Reports ride on
other messages, and take about twenty bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgpack

from tocsin.match.rendezvous.cost import CostModel, DocumentFacts, QueryFacts
from tocsin.match.rendezvous.notification import LOOKUP_BYTES, Notification
from tocsin.match.rendezvous.payload import Join

CHANGED = 0.25
"""A query node reports when its numbers have changed by this share."""
WEIGHT = 0.3
"""How much the newest document counts in a query node's averages."""
_SHARE_UNIT, _COUNT_UNIT = 250, 16  # shares and counts as whole numbers


# --- reports ---------------------------------------------------------------------------------------------------------


def encode_facts(facts: QueryFacts) -> bytes:
    """A report in few bytes; numbers are rounded to what a choice needs."""
    counts = (facts.queries, facts.query_bytes, facts.words, facts.word_bytes, facts.words_per_query)
    rounded = [round(count * _COUNT_UNIT) for count in counts]
    shares = bytes(round(share * _SHARE_UNIT) for share in (facts.present, *facts.missing))
    packed: bytes = msgpack.packb([*rounded, shares])
    return packed


def decode_facts(data: bytes) -> QueryFacts:
    """Undo encode_facts(); ValueError for anything else."""
    try:
        *counts, shares = msgpack.unpackb(data)
        queries, size, words, word_bytes, words_per_query = (count / _COUNT_UNIT for count in counts)
        present, *missing = (share / _SHARE_UNIT for share in bytes(shares))
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"no report of a query node: {error}") from error
    return QueryFacts(queries, size, words, word_bytes, words_per_query, present, tuple(missing))


@dataclass(slots=True)
class Reporter:
    """A query node's averages over the notices it got."""

    _mean: QueryFacts | None = None
    _told: QueryFacts | None = None

    def observe(self, facts: QueryFacts, words: int) -> QueryFacts | None:
        """Counts a notice of so many words; what to report now, if anything."""
        new = facts.scaled(1 / max(1, words))
        self._mean = new if self._mean is None else _blend(self._mean, new, WEIGHT)
        if self._told is not None and not _differs(self._mean, self._told):
            return None
        self._told = self._mean
        return self._told


def _blend(old: QueryFacts, new: QueryFacts, weight: float) -> QueryFacts:
    """Counts are averaged; what describes a query counts by how many queries it describes."""
    queries = _mix(old.queries, new.queries, weight)
    share = weight * new.queries / queries if queries else weight

    def mixed(a: float, b: float) -> float:
        return _mix(a, b, share)

    return QueryFacts(
        queries,
        _mix(old.query_bytes, new.query_bytes, weight),
        _mix(old.words, new.words, weight),
        mixed(old.word_bytes, new.word_bytes),
        mixed(old.words_per_query, new.words_per_query),
        mixed(old.present, new.present),
        tuple(map(mixed, old.missing, new.missing)),
    )


def _mix(old: float, new: float, weight: float) -> float:
    return old + weight * (new - old)


def _differs(one: QueryFacts, other: QueryFacts) -> bool:
    pairs = ((one.queries, other.queries), (one.words, other.words), (one.missing[0], other.missing[0]))
    return any(abs(a - b) > CHANGED * max(a, b) + 0.01 for a, b in pairs)


# --- choices ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """How one document is announced, and how it meets the queries of each node."""

    notification: Notification
    joins: Mapping[int, Join]
    expected_bytes: float


@dataclass(slots=True)
class Chooser:
    """A document node's choices."""

    nodes: int
    model: CostModel = CostModel()
    _facts: dict[int, QueryFacts] = field(default_factory=dict)

    def learn(self, node: int, facts: QueryFacts) -> None:
        """Takes a report."""
        self._facts[node] = facts

    def choose(self, document: DocumentFacts, words: Mapping[int, int], word_bytes: float) -> Choice:
        """For a document with so many words at each node, of so many bytes each in a notice.

        As long as nothing was reported this is a dialogue with clustered notification, where §V-E starts too.
        """
        header = self.model.header_bytes
        clustered = {node: self._cheapest(document, node, count, word_bytes) for node, count in words.items()}
        naive = {node: self._cheapest(document, node, 1, word_bytes) for node in words}
        everywhere = dict.fromkeys(range(self.nodes), Join.SEND_DOCUMENT)
        lookup_bytes = LOOKUP_BYTES + 2 * header
        options = [
            Choice(
                Notification.CLUSTERED,
                {node: join for node, (join, _) in clustered.items()},
                sum(size + header + lookup_bytes for _, size in clustered.values()),
            ),
            Choice(
                Notification.NAIVE,
                {node: join for node, (join, _) in naive.items()},
                sum(words[node] * (size + header) for node, (_, size) in naive.items()),
            ),
            Choice(Notification.BROADCAST, everywhere, self.nodes * (document.packed_bytes + header)),
        ]
        return min(options, key=lambda option: option.expected_bytes)

    def _cheapest(self, document: DocumentFacts, node: int, words: int, word_bytes: float) -> tuple[Join, float]:
        facts = self._facts.get(node)
        if facts is None:
            return Join.DIALOGUE, words * word_bytes
        costs = self.model.costs(document, facts.scaled(words), round(words * word_bytes))
        join = min(costs, key=lambda name: costs[name])
        return join, costs[join]
