"""From raw records to matches: DataFrame -> DataFrame, without state and without I/O of their own.

A test table, stored history and a stream run through the same functions. Python sees rows as Arrow batches
(`mapInArrow`); the subscriptions are a snapshot in a folder that every worker maps into memory, never a broadcast: it
opens in milliseconds, and all workers of a machine share its pages. A worker remembers the last few snapshots it
opened; which one is used is named with each batch, so a batch that is run again finds the same matches.

Scores are those of `query.score`: the same numbers that `tocsin match` computes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tocsin.errors import DocumentError
from tocsin.intake import document_from_json
from tocsin.markup import read_markup
from tocsin.match.explain import why
from tocsin.match.lines import Found, Lines
from tocsin.match.registry import Registry
from tocsin.model import Document
from tocsin.pipeline.schema import DOCUMENTS, MATCHES, MATCHES_ARROW, PARSED, PARSED_ARROW, REJECTIONS
from tocsin.pipeline.statistics import StatisticsRef, open_statistics
from tocsin.query.score import Statistics, Vector, cosine, document_vector, query_vector
from tocsin.query.semantics import Knowledge
from tocsin.settings import DEFAULTS, DocumentLimits

Batches = Iterator[pa.RecordBatch]
U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

OPENED_MAX = 4  # snapshots that a worker keeps open
EXCERPT_CHARACTERS = 200
VECTORS_MAX = 100_000  # subscriptions whose words a worker remembers for scores
_BY_NAME = [("place", "ascending"), ("name", "ascending")]


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """One version of the subscriptions, where every worker can open it."""

    folder: str
    version: int


# --- parse -----------------------------------------------------------------------------------------------------------


def parse(raw: DataFrame, limits: DocumentLimits = DEFAULTS.document) -> DataFrame:
    """RAW -> PARSED: documents, and rejections where `reason` is not null."""
    return raw.select("file", "position", "line").mapInArrow(partial(parse_batches, limits), PARSED)


def accepted(parsed: DataFrame) -> DataFrame:
    """PARSED -> DOCUMENTS."""
    return parsed.where("reason IS NULL").select(*DOCUMENTS.names)


def rejected(parsed: DataFrame) -> DataFrame:
    """PARSED -> REJECTIONS."""
    return parsed.where("reason IS NOT NULL").select(*REJECTIONS.names)


def parse_batches(limits: DocumentLimits, batches: Batches) -> Batches:
    """The Arrow side of parse."""
    for batch in batches:
        columns: dict[str, list[Any]] = {name: [] for name in PARSED_ARROW.names}
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for file, position, line in rows:
            row = dict.fromkeys(PARSED_ARROW.names) | {"file": file, "position": position} | _parsed(line, limits)
            for name, value in row.items():
                columns[name].append(value)
        yield pa.RecordBatch.from_pydict(columns, PARSED_ARROW)


def _parsed(line: bytes | None, limits: DocumentLimits) -> dict[str, Any]:
    raw = line or b""
    try:
        document = document_from_json(raw, limits)
        if document.xml is not None:
            read_markup(document.xml)
    except DocumentError as error:
        return {"reason": error.reason, "excerpt": excerpt(raw)}
    return {"id": document.id, "version": document.version, "body": raw.decode("utf-8-sig")}


def excerpt(raw: bytes) -> str:
    """What a refused record starts like."""
    return raw[: 4 * EXCERPT_CHARACTERS].decode("utf-8", "replace")[:EXCERPT_CHARACTERS]


# --- match -----------------------------------------------------------------------------------------------------------


def find_matches(
    documents: DataFrame,
    snapshot: SnapshotRef,
    statistics: StatisticsRef | None = None,
    *,
    evidence: bool = False,
) -> DataFrame:
    """DOCUMENTS -> MATCHES. Without statistics every word weighs nothing, so scores are 0 (1 for a path alone).

    A row at a negative position is no match: at FAILED it tells of a subscription that could not be evaluated, at TRIED
    of one that was looked at by itself, and on how many documents (as its version): those are the slow ones.
    """
    stage = partial(match_batches, snapshot, statistics, evidence)
    return documents.select(*DOCUMENTS.names).mapInArrow(stage, MATCHES)


def match_batches(snapshot: SnapshotRef, statistics: StatisticsRef | None, evidence: bool, batches: Batches) -> Batches:
    """The Arrow side of find_matches: rows with position, id, version and body in, rows of MATCHES out."""
    scorer = open_scorer(snapshot, statistics)
    before = scorer.registry.tried()
    for batch in batches:
        found = scorer.find(lines_of(batch.column("body")))
        yield from scorer.matches(found, batch.select(["position", "id", "version"]), evidence)
    if tried := (scorer.registry.tried() - before).most_common(TRIED_MAX):
        yield _remarks(TRIED, [(id, count, None) for id, count in tried])
    if errors := scorer.registry.errors():
        yield _remarks(FAILED, [(id, 0, reason) for id, reason in errors.items()])


def _remarks(position: int, told: Sequence[tuple[str, int, str | None]]) -> pa.RecordBatch:
    """Rows of MATCHES that are none: about subscriptions, each with a number and a reason."""
    ids, numbers, reasons = zip(*told, strict=True)
    count = len(told)
    columns = [[position] * count, [""] * count, numbers, ids, [0.0] * count, pa.array(reasons, pa.string())]
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=MATCHES_ARROW)


def lines_of(texts: pa.StringArray) -> Lines:
    """A column of JSON as lines, without copying it."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return Lines(np.frombuffer(data or b"", np.uint8), bounds)


FAILED, TRIED = -1, -2  # positions of no document
TRIED_MAX = 100  # of one task: the dearest
ANY_SIZE = DocumentLimits(1 << 62, 1 << 62, 1 << 62)
"""The document was accepted before."""


class Scorer:
    """A snapshot of subscriptions with the statistics that weigh words, as a worker holds it open."""

    def __init__(self, registry: Registry, statistics: Statistics) -> None:
        self.registry = registry
        self._statistics = statistics
        self._knowledge = Knowledge(registry.analysis, statistics)
        self._asked: dict[int, tuple[bool, Vector]] = {}

    def find(self, lines: Lines, limits: DocumentLimits = ANY_SIZE) -> Found:
        """What the subscriptions find in JSON lines."""
        return self.registry.match_lines(lines, self._knowledge, limits)

    def find_in(self, documents: Sequence[Document]) -> tuple[U32, I64]:
        """What the subscriptions find in documents."""
        return self.registry.match_owners(documents, self._knowledge)

    def matches(self, found: Found, rows: pa.RecordBatch, evidence: bool) -> Batches:
        """The rows of MATCHES for lines, in their order, then by subscription; rows are position, id and version."""
        return self.rows(found.owners, found.places, lambda line: found.document(line, ANY_SIZE), rows, evidence)

    def rows(
        self, owners: U32, places: I64, document: Callable[[int], Document], rows: pa.RecordBatch, evidence: bool
    ) -> Batches:
        """The rows of MATCHES for these pairs: `document` and `rows` tell the document of a place."""
        if not owners.size:
            return
        names = self.registry.names(owners)
        order = pc.sort_indices(pa.record_batch([pa.array(places), names], names=["place", "name"]), sort_keys=_BY_NAME)
        owners, places = owners[order.to_numpy()], places[order.to_numpy()]
        found = rows.take(pa.array(places))
        document = lru_cache(maxsize=8)(document)  # pairs come document by document
        vector = lru_cache(maxsize=8)(
            lambda place: document_vector(document(place), self.registry.analysis, self._statistics)
        )
        scores = pa.array(self._scores(owners, places, vector))
        told = pa.array(self._told(owners, places, document, vector) if evidence else [None] * owners.size, pa.string())
        yield pa.RecordBatch.from_arrays([*found.columns, names.take(order), scores, told], schema=MATCHES_ARROW)

    def _scores(self, owners: U32, places: I64, vector: Callable[[int], Vector]) -> npt.NDArray[np.float64]:
        scores = np.zeros(owners.size)
        if not self._statistics.documents and not len(self.registry.paths):
            return scores  # words weigh nothing
        for at, (owner, place) in enumerate(zip(owners.tolist(), places.tolist(), strict=True)):
            path_only, asked = self._vector(owner)
            if path_only:
                scores[at] = 1.0
            elif asked.length:
                scores[at] = cosine(vector(place), asked)
        return scores

    def _vector(self, owner: int) -> tuple[bool, Vector]:
        """Does the owner ask for a path alone? What are the words that it asks for?"""
        known = self._asked.get(owner)
        if known is None:
            query = self.registry.subscription(owner).query
            vector = Vector({}, 0.0)
            if query is not None and self._statistics.documents:
                vector = query_vector(query, self.registry.analysis, self._statistics)
            if len(self._asked) >= VECTORS_MAX:
                self._asked.clear()
            known = self._asked[owner] = query is None, vector
        return known

    def _told(
        self, owners: U32, places: I64, document: Callable[[int], Document], vector: Callable[[int], Vector]
    ) -> list[str]:
        subscription = lru_cache(maxsize=1_024)(self.registry.subscription)
        pairs = zip(owners.tolist(), places.tolist(), strict=True)
        found = (why(subscription(owner), document(place), self._knowledge, vector(place)) for owner, place in pairs)
        return [json.dumps(one, ensure_ascii=False) for one in found]


# --- what a worker keeps open ----------------------------------------------------------------------------------------


@lru_cache(maxsize=OPENED_MAX)
def open_scorer(snapshot: SnapshotRef, statistics: StatisticsRef | None) -> Scorer:
    """The snapshot, mapped into memory the first time that this process asks for it."""
    registry = Registry.open(Path(snapshot.folder), snapshot.version)
    return Scorer(registry, Statistics() if statistics is None else open_statistics(statistics))


# --- deduplicate -----------------------------------------------------------------------------------------------------


def deduplicate(matches: DataFrame) -> DataFrame:
    """MATCHES -> MATCHES: one for each (subscription, document, version), that of the first position."""
    first = Window.partitionBy("subscription", "document", "version").orderBy("position")
    return matches.withColumn("rank", F.row_number().over(first)).where("rank = 1").drop("rank")
