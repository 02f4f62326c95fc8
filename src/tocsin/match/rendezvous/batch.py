"""How a batch of documents meets the queries: the cheapest way by the numbers of today, and why (SmartSeer §V-E).

The overlay counts bytes; on the machines of one cluster what counts is time. The terms are those of §IV-B: what is done
grows with the documents (d) or with the queries (q), and a filter spares some of it. For D documents on k cores:

* mirror: every worker maps the whole index, D·(visit + candidates) / k. It must fit into a worker's memory.
* by id: P parts, every document to all of them: D·(P·(visit + send) + candidates) / k, and P parts to open.
* by word: filters route a document to the v ≤ P parts that may concern it: D·(route + v·(visit + send) + …) / k.
* send query: the queries are a table that is joined with the words of the documents; no index at all.

The constants are seconds, set by hand after one run of benchmarks/bench_meeting.py (8 cells) on a machine that was busy
with other work: fixed costs after its quietest cell, the others so that the order of strategies in those cells comes
out. They are not a fit; run the benchmark with --calibrate on an idle machine before relying on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from tocsin.match.rendezvous.bloom import PARTS_MAX


class Strategy(StrEnum):
    """How documents and queries meet on Spark."""

    MIRROR = "mirror"
    BY_ID = "by-id"
    BY_WORD = "by-word"
    SEND_QUERY = "send-query"


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What is known when a batch is about to be matched."""

    queries: int
    index_bytes: int
    """The whole index, as it is mapped."""
    memory_bytes: int
    """What one worker may map."""
    documents: int
    document_bytes: float
    """Mean size of a document's JSON."""
    words: float
    """Words in a document, on average, repetitions included."""
    cores: int
    visited_share: float = 1.0
    """Of the parts, how many a document visits by word: as the last batches did."""
    candidates: float = 0.0
    """Clauses that a document visits in the index (`QueryIndex.work`)."""

    @property
    def parts(self) -> int:
        """As few parts as fit into the workers' memory, and one for each core at least."""
        return min(PARTS_MAX - 1, max(self.cores, ceil(self.index_bytes / max(1, self.memory_bytes))))


@dataclass(frozen=True, slots=True)
class MeetingCosts:
    """Seconds, of one core where a core is busy."""

    job: float = 0.4
    """A job that runs Python at all."""
    shuffle: float = 0.15
    """One that also sends rows between workers."""
    routing: float = 0.25
    """One that runs Python twice: to route, then to match."""
    table: float = 2.0
    """Planning and running the joins of send query."""
    part: float = 0.15
    """A part: its task, and opening it."""
    visit_document: float = 10e-6
    visit_byte: float = 15e-9
    """A document read and looked up in one index, and each of its bytes."""
    candidate: float = 3e-9
    """A clause that is looked at."""
    send_byte: float = 8e-9
    """A byte of a document through a shuffle."""
    route_byte: float = 40e-9
    """A byte of a document into the routing worker and out again; looking up its words is a quarter of it."""
    join_byte: float = 2e-6
    """A byte of a document in the join of send query."""
    join_query: float = 20e-6


@dataclass(frozen=True, slots=True)
class MeetingPlan:
    """The choice, what every strategy was expected to take, and what ruled some out."""

    strategy: Strategy
    parts: int
    seconds: dict[Strategy, float]
    refused: dict[Strategy, str]
    facts: BatchFacts

    def explain(self) -> str:
        """Why this strategy, in sentences for people."""
        facts = self.facts
        lines = [
            f"{self.strategy}: {facts.documents:,} documents of {facts.words:,.0f} words meet {facts.queries:,} queries"
            f" (an index of {facts.index_bytes / 1e6:,.1f} MB) on {facts.cores} cores; a worker may map"
            f" {facts.memory_bytes / 1e6:,.1f} MB."
        ]
        for strategy, seconds in sorted(self.seconds.items(), key=lambda item: item[1]):
            if strategy in self.refused:
                lines.append(f"  {strategy}: not possible: {self.refused[strategy]}")
            else:
                chosen = " (chosen)" if strategy is self.strategy else ""
                lines.append(f"  {strategy}: about {seconds:.2f} s{_how(strategy, self)}{chosen}")
        return "\n".join(lines)


def _how(strategy: Strategy, plan: MeetingPlan) -> str:
    match strategy:
        case Strategy.BY_ID:
            return f", every document in {plan.parts} parts"
        case Strategy.BY_WORD:
            return f", a document in {max(1.0, plan.facts.visited_share * plan.parts):.1f} of {plan.parts} parts"
    return ""


def seconds(facts: BatchFacts, costs: MeetingCosts) -> dict[Strategy, float]:
    """What every strategy is expected to take."""
    size = facts.document_bytes
    visit = costs.visit_document + costs.visit_byte * size
    found = costs.candidate * facts.candidates
    away = visit + costs.send_byte * size
    visits = max(1.0, facts.visited_share * facts.parts)
    fixed = costs.job + costs.shuffle + facts.parts * costs.part / facts.cores

    def spread(per_document: float) -> float:
        return facts.documents * per_document / facts.cores

    return {
        Strategy.MIRROR: costs.job + spread(visit + found),
        Strategy.BY_ID: fixed + spread(facts.parts * away + found),
        Strategy.BY_WORD: fixed + costs.routing + spread(costs.route_byte * size + visits * away + found),
        Strategy.SEND_QUERY: costs.job
        + costs.table
        + spread(costs.join_byte * size)
        + costs.join_query * facts.queries,
    }


def plan_meeting(facts: BatchFacts, costs: MeetingCosts | None = None) -> MeetingPlan:
    """The strategy of the least expected time among those that fit into memory."""
    expected = seconds(facts, costs or MeetingCosts())
    refused: dict[Strategy, str] = {}
    if facts.index_bytes > facts.memory_bytes:
        refused[Strategy.MIRROR] = (
            f"the index takes {facts.index_bytes / 1e6:,.1f} MB, a worker may map {facts.memory_bytes / 1e6:,.1f} MB"
        )
    possible = [strategy for strategy in Strategy if strategy not in refused]
    chosen = min(possible, key=lambda strategy: expected[strategy])
    return MeetingPlan(chosen, facts.parts, expected, refused, facts)
