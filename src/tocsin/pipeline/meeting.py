"""How queries and documents meet on Spark (SmartSeer §III-A, §IV; S5, S10): the same matches, arranged in four ways.

*Mirror* is `stages.find_matches`: every worker maps the whole index. *By id* and *by word* split the queries into
parts, each a snapshot of its own that one task at a time maps, so that the query set may outgrow a worker's memory;
documents are sent to all parts, or only to those whose filters know one of their words (`rendezvous.routing`). *Send
query* needs no index: the queries are a table, joined with the words of the documents on their rarest word, and only
words that some query names leave the workers. Which is best for a batch, `rendezvous.batch` tells from live numbers.

Send Document and Bloom filters of SmartSeer §IV-A are thus the two partitions; a dialogue would make a job of every
round, which costs more than all the words it could spare, so there is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from tocsin.errors import SnapshotError
from tocsin.intake import document_from_json
from tocsin.markup import read_accepted
from tocsin.match.explain import why
from tocsin.match.registry import Registry
from tocsin.match.rendezvous.batch import BatchFacts, MeetingPlan, Strategy, plan_meeting
from tocsin.match.rendezvous.bloom import PartFilters
from tocsin.match.rendezvous.registered import WordClause, held_keys, word_clauses
from tocsin.match.rendezvous.routing import Router, deal_by_id, deal_by_word
from tocsin.match.snapshot import open_arrays, write_arrays
from tocsin.match.written import Entry
from tocsin.model import Document, Subscription
from tocsin.pipeline.schema import DOCUMENTS, DOCUMENTS_ARROW, MATCHES, MATCHES_ARROW, spark_schema
from tocsin.pipeline.stages import (
    ANY_SIZE,
    Batches,
    SnapshotRef,
    find_matches,
    lines_of,
    match_batches,
)
from tocsin.pipeline.statistics import StatisticsRef, open_statistics
from tocsin.query.ast import Query
from tocsin.query.normal import Frequency, Key
from tocsin.query.parse import parse
from tocsin.query.score import Statistics, score
from tocsin.query.semantics import Knowledge, holds
from tocsin.query.vector import attached, from_text
from tocsin.query.xpath.semantics import holds_xpath
from tocsin.settings import QueryLimits
from tocsin.text import Analysis

FORMAT = 1
EVERY_DOCUMENT = ""
"""The word that stands for every document, in the table of send query."""
_MANIFEST = re.compile(r"parts-(\d{10})\.tocsin")
_ROUTED = StructType([*DOCUMENTS.fields, StructField("parts", LongType(), False)])
_WORDS_ARROW = pa.schema([*DOCUMENTS_ARROW, pa.field("words", pa.list_(pa.string()), nullable=False)])
_CLAUSES_ARROW = pa.schema(
    {"anchor": pa.string(), "subscription": pa.string(), "exact": pa.bool_()}
    | dict.fromkeys(("required", "forbidden"), pa.list_(pa.string()))
)
KEPT = 3  # versions on the disk: one in use, one being made, one for a batch that is run again
_ANY_QUERY = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # it was accepted before
_DOCUMENTS_TOGETHER = 1_024  # documents that are held as objects at a time


# --- parts on the disk -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartsRef:
    """One version of a query set in parts, where every worker can open it."""

    folder: str
    version: int


@dataclass(frozen=True, slots=True)
class Parts:
    """What a version says of itself."""

    strategy: Strategy
    snapshots: tuple[SnapshotRef, ...]
    queries: tuple[int, ...]
    router: Router | None


def save_parts(
    folder: Path,
    subscriptions: Sequence[tuple[str, Entry]],
    strategy: Strategy,
    parts: int,
    *,
    analysis: Analysis | None = None,
    frequency: Frequency = lambda key: 0,
) -> PartsRef:
    """Splits the subscriptions and saves every part as a snapshot of its own; the list of parts is written last."""
    known = analysis or Analysis()
    if strategy is Strategy.BY_WORD:
        deal = deal_by_word((_asked(entry, known) for _, entry in subscriptions), parts, known, frequency)
    elif strategy is Strategy.BY_ID:
        deal = deal_by_id(len(subscriptions), parts)
    else:
        raise ValueError(f"{strategy} has no parts")
    dealt: list[list[tuple[str, Entry]]] = [[] for _ in range(deal.count)]
    for part, subscription in zip(deal.parts, subscriptions, strict=True):
        dealt[part].append(subscription)
    snapshots = []
    for number, given in enumerate(dealt):
        registry, place = Registry(known), folder / f"part-{number:03}"
        plain = [(id, entry.query) if _is_words_only(entry) else (id, entry) for id, entry in given]
        refused = registry.add_many(plain)  # type: ignore[arg-type]
        if refused:
            raise next(iter(refused.values()))
        snapshots.append([place.name, registry.save(place, keep=KEPT)])
    version = max(_versions(folder), default=0) + 1
    router = Router.of(deal, known)
    about = {
        "format": FORMAT,
        "strategy": strategy.value,
        "snapshots": snapshots,
        "queries": [len(given) for given in dealt],
        "everywhere": deal.everywhere,
        "hashes": router.filters.hashes,
        "plain": router.plain,
        "analysis": dict(known.fields),
    }
    write_arrays(_manifest(folder, version), {"rows": router.filters.rows}, about)
    for old in _versions(folder)[:-KEPT]:
        _manifest(folder, old).unlink(missing_ok=True)
    return PartsRef(str(folder), version)


def _is_words_only(entry: Entry) -> bool:
    return entry.query is not None and entry.xpath is None and entry.moved is None


def _asked(entry: Entry, analysis: Analysis) -> str | Query | None:
    """The query as it was written, or as a tree if feedback has moved it."""
    if entry.query is None or entry.moved is None:
        return entry.query
    return attached(parse(entry.query, analysis, _ANY_QUERY), from_text(entry.moved))


@lru_cache(maxsize=4)
def open_parts(ref: PartsRef) -> Parts:
    """The parts of a version; their snapshots are opened when a document comes."""
    file = open_arrays(_manifest(Path(ref.folder), ref.version))
    about = file.about
    if about.get("format") != FORMAT:
        raise SnapshotError(f"{file.path}: format {about.get('format')}, this Tocsin reads format {FORMAT}")
    strategy = Strategy(about["strategy"])
    snapshots = tuple(SnapshotRef(str(Path(ref.folder) / name), version) for name, version in about["snapshots"])
    router = None
    if strategy is Strategy.BY_WORD:
        filters = PartFilters(file.arrays["rows"], about["hashes"])
        router = Router(filters, Analysis(about["analysis"]), about["everywhere"], about["plain"])
    return Parts(strategy, snapshots, tuple(about["queries"]), router)


def _manifest(folder: Path, version: int) -> Path:
    return folder / f"parts-{version:010}.tocsin"


def _versions(folder: Path) -> list[int]:
    found = (_MANIFEST.fullmatch(path.name) for path in folder.glob("parts-*.tocsin"))
    return sorted(int(match[1]) for match in found if match)


# --- documents to parts ----------------------------------------------------------------------------------------------


def find_matches_in_parts(
    documents: DataFrame, ref: PartsRef, statistics: StatisticsRef | None = None, *, evidence: bool = False
) -> DataFrame:
    """DOCUMENTS -> MATCHES, by id or by word as the parts were made; one task for each part."""
    parts = open_parts(ref)
    count = len(parts.snapshots)
    kept = documents.select(*DOCUMENTS.names)
    if parts.router is None:
        sent = kept.withColumn("part", F.explode(F.sequence(F.lit(0), F.lit(count - 1))))
    else:
        visited = F.expr(f"filter(sequence(0, {count - 1}), part -> shiftrightunsigned(parts, part) & 1 = 1)")
        sent = route(kept, ref).select(*DOCUMENTS.names, F.explode(visited).alias("part"))
    stage = partial(match_parts, ref, statistics, evidence)
    return sent.repartitionById(count, F.col("part")).mapInArrow(stage, MATCHES)


def route(documents: DataFrame, ref: PartsRef) -> DataFrame:
    """DOCUMENTS -> DOCUMENTS with `parts`, a mask of the parts that a document must visit."""
    return documents.mapInArrow(partial(route_batches, ref), _ROUTED)


def route_batches(ref: PartsRef, batches: Batches) -> Batches:
    """The Arrow side of route."""
    router = open_parts(ref).router
    if router is None:
        raise ValueError("parts by id are visited by every document: there is nothing to route")
    for batch in batches:
        masks = router.route_lines(lines_of(batch.column("body")))
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(masks.view(np.int64))], names=[*batch.schema.names, "parts"]
        )


def match_parts(ref: PartsRef, statistics: StatisticsRef | None, evidence: bool, batches: Batches) -> Batches:
    """DOCUMENTS with `part` in, MATCHES out: each row by the snapshot of its part."""
    snapshots = open_parts(ref).snapshots
    for batch in batches:
        for part in pc.unique(batch.column("part")).to_pylist():
            rows = batch.filter(pc.equal(batch.column("part"), part))
            yield from match_batches(snapshots[part], statistics, evidence, iter([rows]))


def _documents(batch: pa.RecordBatch) -> list[Document]:
    return [document_from_json(body, ANY_SIZE) for body in batch.column("body").to_pylist()]


# --- send query: a join of tables ------------------------------------------------------------------------------------


def find_matches_by_join(
    documents: DataFrame,
    subscriptions: Sequence[Subscription],
    analysis: Analysis | None = None,
    frequency: Frequency = lambda key: 0,
    statistics: StatisticsRef | None = None,
    *,
    evidence: bool = False,
) -> DataFrame:
    """DOCUMENTS -> MATCHES, for query sets small enough to be sent around (SmartSeer §III-B, Send Query).

    A clause meets the documents that hold its rarest word, if they hold its other words too (`forall`). What words
    alone do not decide is checked afterwards.
    """
    known = analysis or Analysis()
    rows = list(_clause_rows(subscriptions, known, frequency))
    vocabulary = frozenset(word for row in rows for word in (*row.required, *row.forbidden))
    session = documents.sparkSession
    clauses = _table(session, rows)
    worded = documents.select(*DOCUMENTS.names).mapInArrow(
        partial(name_words, known, vocabulary), spark_schema(_WORDS_ARROW)
    )
    met = (
        worded.withColumn("anchor", F.explode("words"))
        .join(F.broadcast(clauses), "anchor")
        .where("forall(required, word -> array_contains(words, word))")
        .where("NOT exists(forbidden, word -> array_contains(words, word))")
        .groupBy(*DOCUMENTS.names, "subscription")
        .agg(F.max("exact").alias("exact"))
    )
    stage = partial(settle_batches, {each.id: each for each in subscriptions}, known, statistics, evidence)
    return met.mapInArrow(stage, MATCHES)


class _ClauseRow(NamedTuple):
    """A clause in the table of send query."""

    anchor: str
    subscription: str
    exact: bool
    required: list[str]
    forbidden: list[str]


def _clause_rows(
    subscriptions: Sequence[Subscription], analysis: Analysis, frequency: Frequency
) -> Iterator[_ClauseRow]:
    for subscription in subscriptions:
        everything = (WordClause(frozenset(), exact=False),)
        clauses = everything if subscription.query is None else word_clauses(subscription.query, analysis)
        for clause in clauses:
            required = [column_word(key) for key in sorted(clause.required, key=lambda key: (frequency(key), key))]
            forbidden = [column_word(key) for key in sorted(clause.forbidden)]
            exact = clause.exact and subscription.path is None
            anchor = required[0] if required else EVERY_DOCUMENT
            yield _ClauseRow(anchor, subscription.id, exact, required, forbidden)


def _table(session: SparkSession, rows: Iterable[_ClauseRow]) -> DataFrame:
    return session.createDataFrame(pa.Table.from_pylist([row._asdict() for row in rows], _CLAUSES_ARROW))


def column_word(key: Key) -> str:
    """A key as one string of a column."""
    return f"{key.word}\0{key.field}\0{key.analysis}"


def name_words(analysis: Analysis, vocabulary: frozenset[str], batches: Batches) -> Batches:
    """DOCUMENTS in; out with `words`: those that some query names, and the one that stands for every document."""
    for batch in batches:
        for start in range(0, batch.num_rows, _DOCUMENTS_TOGETHER):
            rows = batch.slice(start, _DOCUMENTS_TOGETHER)
            held = [vocabulary.intersection(map(column_word, held_keys(each, analysis))) for each in _documents(rows)]
            named = pa.array([[EVERY_DOCUMENT, *sorted(found)] for found in held], pa.list_(pa.string()))
            yield pa.RecordBatch.from_arrays([*rows.columns, named], schema=_WORDS_ARROW)


def settle_batches(
    subscriptions: dict[str, Subscription],
    analysis: Analysis,
    statistics: StatisticsRef | None,
    evidence: bool,
    batches: Batches,
) -> Batches:
    """Pairs of document and subscription in, rows of MATCHES out: the undecided are checked, all are scored."""
    weights = Statistics() if statistics is None else open_statistics(statistics)
    knowledge = Knowledge(analysis, weights)
    for batch in batches:
        found: dict[str, list[object]] = {name: [] for name in MATCHES_ARROW.names}
        for row in batch.to_pylist():
            document = document_from_json(row["body"], ANY_SIZE)
            subscription = subscriptions[row["subscription"]]
            if not row["exact"] and not _matches(subscription, document, knowledge):
                continue
            told = json.dumps(why(subscription, document, knowledge), ensure_ascii=False) if evidence else None
            values = (row["position"], row["id"], row["version"], subscription.id)
            for name, value in zip(found, (*values, _score(subscription, document, knowledge), told), strict=True):
                found[name].append(value)
        yield pa.RecordBatch.from_pydict(found, MATCHES_ARROW)


def _matches(subscription: Subscription, document: Document, knowledge: Knowledge) -> bool:
    if subscription.query is not None and not holds(subscription.query, document, knowledge):
        return False
    if subscription.path is None:
        return True
    markup = read_accepted(document.xml)
    return markup is not None and holds_xpath(subscription.path, markup)


def _score(subscription: Subscription, document: Document, knowledge: Knowledge) -> float:
    if subscription.query is None:
        return 1.0
    if not knowledge.statistics.documents:
        return 0.0
    return score(subscription.query, document, knowledge.analysis, knowledge.statistics)


# --- one door --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query set, ready to meet documents in the ways that were prepared."""

    snapshot: SnapshotRef | None = None
    by_id: PartsRef | None = None
    by_word: PartsRef | None = None
    table: tuple[Subscription, ...] | None = None
    analysis: Analysis = Analysis()


def meet(
    documents: DataFrame,
    prepared: Prepared,
    strategy: Strategy,
    statistics: StatisticsRef | None = None,
    *,
    evidence: bool = False,
) -> DataFrame:
    """DOCUMENTS -> MATCHES by this strategy; ValueError if it was not prepared."""
    match strategy:
        case Strategy.MIRROR if prepared.snapshot is not None:
            return find_matches(documents, prepared.snapshot, statistics, evidence=evidence)
        case Strategy.BY_ID if prepared.by_id is not None:
            return find_matches_in_parts(documents, prepared.by_id, statistics, evidence=evidence)
        case Strategy.BY_WORD if prepared.by_word is not None:
            return find_matches_in_parts(documents, prepared.by_word, statistics, evidence=evidence)
        case Strategy.SEND_QUERY if prepared.table is not None:
            return find_matches_by_join(
                documents, prepared.table, prepared.analysis, statistics=statistics, evidence=evidence
            )
    raise ValueError(f"{strategy} was not prepared")


@dataclass(slots=True)
class Planner:
    """Chooses a strategy for every batch, from what the batches before it showed."""

    queries: int
    index_bytes: int
    memory_bytes: int
    cores: int
    candidates: float = 0.0
    visited_share: float = 1.0
    last: MeetingPlan | None = None

    def choose(self, documents: int, document_bytes: float, words: float) -> MeetingPlan:
        """The plan for a batch of so many documents."""
        facts = BatchFacts(
            self.queries,
            self.index_bytes,
            self.memory_bytes,
            documents,
            document_bytes,
            words,
            self.cores,
            self.visited_share,
            self.candidates,
        )
        self.last = plan_meeting(facts)
        return self.last

    def learn(self, visits: int, documents: int, parts: int) -> None:
        """After a batch that was routed by word: how many parts its documents visited."""
        if documents and parts:
            self.visited_share += 0.3 * (visits / (documents * parts) - self.visited_share)

    def explain(self) -> str:
        """Why the last batch was matched as it was."""
        return "no batch was planned yet" if self.last is None else self.last.explain()
