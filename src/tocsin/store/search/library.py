"""The library: an index over the documents of a store, and the answers to one-time queries from it.

The index (tantivy) finds candidates; where tokens are not all that a query asks for, the language itself decides on
each (`query.semantics.holds`), so a one-time answer and a subscription cannot disagree. Documents that the index has
not seen yet are asked one by one, so an answer is as new as the store. Nested queries are answered innermost first:
the values of a subquery's documents become tokens (SmartSeer §VI-B.1). Ranked by cosine under one version of the
statistics (S18). Plain conjunctions take the short way (`plain`), which needs neither tokens nor a look at documents.

Updating is idempotent: a mark in the index, changed with it in one commit, tells up to which position of the log it
holds the documents.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tantivy
from sqlalchemy import Connection, select

from tocsin.errors import SettingError, SnapshotError
from tocsin.intake import document_from_json
from tocsin.match.snapshot import open_arrays, write_arrays
from tocsin.model import Document
from tocsin.query.ast import Query, nested
from tocsin.query.parse import parse
from tocsin.query.score import ROUNDING, Statistics, Vector, cosine, document_vector, query_vector, word_counts
from tocsin.query.semantics import Knowledge, holds
from tocsin.store import schema
from tocsin.store.connect import Store
from tocsin.store.documents import last_position
from tocsin.store.search.phrases import Patterns, may_hold, patterns_of
from tocsin.store.search.plain import Names, plain_words
from tocsin.store.search.tokens import EVERY, FIELDS, KEYS, Translator, tokens_of
from tocsin.store.search.vectors import Vectors
from tocsin.text import STANDARD, UNSEEN_BY_BARE, Analysis, value_key, values_of

FORMAT = 2  # of the index: another one is built anew
CHUNK = 5_000  # documents of one commit
LOOKED_UP = 500  # positions in one question to the store
CHECKED_MAX = 2_000  # so many matches are all looked up in the store; of more, only those that are shown
NEARLY = 1e-11  # scores nearer than this may be equal once they are rounded
HEAP_BYTES = 64_000_000
RETRIES = 5
MARK = "last"
I64 = npt.NDArray[np.int64]
log = schema.documents


class Hit(NamedTuple):
    """A document that answers a query."""

    id: str
    version: int
    score: float
    position: int


class Answer(NamedTuple):
    """Some of the documents that answer a query, best first; how many there are; where the next ones begin."""

    hits: list[Hit]
    total: int
    next: str | None
    statistics: int


class Library:
    """One folder. Any number of readers, one writer; a reader sees what the writer has committed."""

    def __init__(self, folder: Path | str, analysis: Analysis, *, writable: bool = False) -> None:
        self._folder = Path(folder)
        self.analysis = analysis
        self._is_writable = writable
        self._schema = _schema()
        self._index: tantivy.Index | None = None
        self._writer: tantivy.IndexWriter | None = None
        self._vectors: Vectors | None = None
        self._names: Names | None = None
        self._is_plain = analysis.names(None) == (STANDARD,)
        self._lock = RLock()  # threads ask one after the other; the writer waits for them only to show its commit
        self._seen: tuple[int, int] | None = None  # the state of the index that we have read
        self.last = 0
        """The position of the log up to which documents are in the index."""
        if writable:
            self._create()
        self.refresh()

    # --- the index -----------------------------------------------------------------------------

    def _create(self) -> None:
        """A new index, or the one that is there; one of another analysis or format is built anew."""
        self._folder.mkdir(parents=True, exist_ok=True)
        about = self._folder / "about.tocsin"
        wanted = {"format": FORMAT, "analysis": dict(self.analysis.fields)}
        if about.exists() and open_arrays(about).about != wanted:
            for path in sorted(self._folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        (self._folder / "tantivy").mkdir(exist_ok=True)
        if not about.exists():
            write_arrays(about, {}, wanted)
        self._index = tantivy.Index(self._schema, path=str(self._folder / "tantivy"))

    def _open(self) -> tantivy.Index | None:
        about = self._folder / "about.tocsin"
        if not about.exists() or not tantivy.Index.exists(str(self._folder / "tantivy")):
            return None
        if open_arrays(about).about != {"format": FORMAT, "analysis": dict(self.analysis.fields)}:
            return None  # it is of no use to us; its writer builds it anew
        return tantivy.Index.open(str(self._folder / "tantivy"))

    def refresh(self) -> None:
        """Sees what was committed meanwhile."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        if self._index is None:
            self._index = self._open()
        if self._index is None:
            return
        committed = (self._folder / "tantivy" / "meta.json").stat()
        state = (committed.st_ino, committed.st_mtime_ns)
        if state == self._seen:
            return
        self._seen = state
        _prepare(self._index)
        for _ in range(RETRIES):
            try:
                return self._reload(self._index)
            except (FileNotFoundError, SnapshotError):  # the writer has merged files between our two looks
                continue
        self._reload(self._index)

    def _reload(self, index: tantivy.Index) -> None:
        index.reload()
        searcher = index.searcher()
        marks = searcher.search(tantivy.Query.term_query(self._schema, "mark", MARK), 1, count=False).hits
        last = searcher.fast_field_values("upto", [address for _, address in marks])[0] if marks else 0
        self.last = int(last or 0)
        if self._vectors is None or self._vectors.last < self.last:
            self._vectors = Vectors(self._folder, self.last)
            if self._is_writable:
                self._vectors.tidy(self.last)

    def close(self) -> None:
        """Lets go of the index."""
        if self._writer is not None:
            self._writer.wait_merging_threads()
        if self._names is not None:
            self._names.close()
        self._writer = self._index = self._vectors = self._names = None

    # --- updating ------------------------------------------------------------------------------

    def update(self, store: Store, chunk: int = CHUNK) -> int:
        """Takes in the documents after the last position; returns how many. What is there already is not repeated, and
        what comes meanwhile waits for the next time: each commit costs as much as many documents."""
        taken, upto = 0, last_position(store)
        while True:
            with store.read() as transaction:
                rows = _rows(transaction, (log.c.position > self.last) & (log.c.position <= upto), chunk)
            if not rows:
                return taken
            self._take_in(rows)
            taken += len(rows)

    def _take_in(self, rows: Sequence[Any]) -> None:
        if self._vectors is None:
            raise SettingError("this library was opened for reading: open it as writable to update it")
        if self._vectors.last != self.last:
            self._vectors = Vectors(self._folder, self.last)  # a commit has failed after the file was written
        writer = self._open_writer()
        knowledge = Knowledge(self.analysis)
        last = rows[-1].position
        positions, counts = [], []
        for row in rows:
            if row.version > 1:
                writer.delete_documents_by_term("id", _digest(row.id))  # its older versions
            if row.state != schema.CURRENT or row.body is None:
                continue
            document = document_from_json(row.body)
            entry = tantivy.Document()
            entry.add_unsigned("position", row.position)
            entry.add_text("id", _digest(row.id))
            entry.add_text(KEYS, " ".join(tokens_of(document, knowledge)))
            writer.add_document(entry)
            positions.append(row.position)
            counts.append(word_counts(document, self.analysis))
        writer.delete_documents_by_term("mark", MARK)
        mark = tantivy.Document()
        mark.add_text("mark", MARK)
        mark.add_unsigned("upto", last)
        writer.add_document(mark)
        self._vectors.append(last, positions, counts)
        writer.commit()
        self.refresh()
        self._vectors.tidy(last)

    def delete(self, ids: Iterable[str]) -> None:
        """Takes out documents that were deleted."""
        writer = self._open_writer()
        for id in ids:
            writer.delete_documents_by_term("id", _digest(id))
        writer.commit()
        self.refresh()

    def _open_writer(self) -> tantivy.IndexWriter:
        if not self._is_writable or self._index is None:
            raise SettingError("this library was opened for reading: open it as writable to update it")
        if self._writer is None:
            self._writer = self._index.writer(HEAP_BYTES, 1)
        return self._writer

    def recheck(self, store: Store) -> int:
        """Takes out every document that is not current in the store any more; returns how many."""
        gone = []
        with store.read() as transaction:
            for some in _chunks(self._positions(None).tolist()):
                asked = select(log.c.id).where(log.c.position.in_(some) & (log.c.state != schema.CURRENT))
                gone += list(transaction.execute(asked).scalars())
        if gone:
            self.delete(gone)
        return len(gone)

    # --- answering -----------------------------------------------------------------------------

    def search(
        self, store: Store, query: Query | str, statistics: Statistics, k: int | None = 10, after: str | None = None
    ) -> Answer:
        """The k best documents (None: all) after the cursor, of those that match now; QueryError for a refused text."""
        place = None if after is None else _place(after)
        with self._lock:
            plain = plain_words(query) if self._is_plain else None
            if plain and (answer := self._at_once(store, plain, statistics, k, place)) is not None:
                return answer
            if isinstance(query, str):
                query = parse(query, self.analysis)
            with store.read() as transaction:
                self._refresh()
                asked = _Asked(self, transaction, statistics)
                found, newest = asked.matching(query)
                return asked.ranked(query, found, newest, k, place)

    def _at_once(
        self, store: Store, words: list[str], statistics: Statistics, k: int | None, after: tuple[float, str] | None
    ) -> Answer | None:
        """The answer to a plain conjunction; None if there are many, or if the log has grown since the last look."""
        if self._vectors is None or not store.is_sqlite or (found := self._vectors.holding(words, statistics)) is None:
            return None
        if self._names is None or self._names.store is not store:
            self._names = Names(store)
        positions, scores = found
        last, named = self._names.of(positions)
        if last != self._vectors.last:
            return None
        score_at = dict(zip(positions, scores, strict=True))
        hits = [Hit(id, version, min(1.0, round(score_at[at], ROUNDING)), at) for at, id, version in named]
        total = len(hits)
        if after is not None:
            hits = [hit for hit in hits if (-hit.score, hit.id) > (-after[0], after[1])]
        if len(hits) > 1:
            hits.sort(key=lambda hit: (-hit.score, hit.id))
        more = k is not None and len(hits) > k
        hits = hits[:k]
        return Answer(hits, total, _cursor(hits[-1]) if more else None, statistics.version)

    def prepare(self, statistics: Statistics) -> None:
        """Weighs all words by these statistics at once: the first searches by them are then as fast as later ones."""
        with self._lock:
            self._refresh()
            vectors = self._vectors
        if vectors is not None:
            vectors.prepare(statistics)

    def count(self, store: Store, query: Query, statistics: Statistics) -> int:
        """How many documents match."""
        with self._lock, store.read() as transaction:
            self._refresh()
            found, newest = _Asked(self, transaction, statistics).matching(query)
            return found.size + len(newest)

    def places(self, store: Store, query: Query, statistics: Statistics) -> I64:
        """The positions of the documents that match, ascending; of very many, also of some that were just deleted."""
        with self._lock, store.read() as transaction:
            self._refresh()
            found, newest = _Asked(self, transaction, statistics).matching(query)
            return np.sort(np.concatenate([found, np.array(newest, np.int64)]))

    def fields(self, store: Store) -> set[str]:
        """The fields that some document has, or had."""
        with self._lock, store.read() as transaction:
            self._refresh()
            return _Asked(self, transaction, Statistics()).fields()

    def statistics(self, store: Store) -> Statistics:
        """Counted from the current documents; the version is the last position that the index has seen."""
        with self._lock, store.read() as transaction:
            self._refresh()
            return _Asked(self, transaction, Statistics()).counted()

    def _positions(self, query: tantivy.Query | None) -> I64:
        """Where the documents are that hold these tokens, ascending."""
        if self._index is None or not self.last:
            return np.empty(0, np.int64)
        searcher = self._index.searcher()
        if query is None:
            query = tantivy.Query.term_query(self._schema, KEYS, EVERY, index_option="basic")
        hits = searcher.search(query, max(1, searcher.num_docs), count=False).hits
        found = searcher.fast_field_values("position", [address for _, address in hits])
        return np.sort(np.array(found, np.int64))


class _Asked:
    """One question: the index and the store as they are now, and the sets of nested queries found so far."""

    def __init__(self, library: Library, transaction: Connection, statistics: Statistics) -> None:
        self._library = library
        self._transaction = transaction
        self._statistics = statistics
        self._knowledge = Knowledge(library.analysis, statistics)
        self._tail: dict[int, tuple[str, Document]] = {}
        self._named: dict[int, tuple[int, str, int] | None] = {}
        after = library.last
        newest = transaction.execute(select(schema.clock.c.position)).scalar_one()
        while after < newest and (rows := _rows(transaction, log.c.position > after, LOOKED_UP)):
            after = rows[-1].position
            self._tail |= {
                row.position: (row.id, document_from_json(row.body))
                for row in rows
                if row.state == schema.CURRENT and row.body is not None
            }
        self._replaced = np.array(self._older([id for id, _ in self._tail.values()]), np.int64)

    def _older(self, ids: list[str]) -> list[int]:
        """The positions in the index that newer documents have replaced."""
        found: list[int] = []
        for some in _chunks(ids):
            within = log.c.id.in_(some) & (log.c.position <= self._library.last)
            found += self._transaction.execute(select(log.c.position).where(within)).scalars()
        return found

    def matching(self, query: Query) -> tuple[I64, list[int]]:
        """Where the query holds: in the index, and in what came after it."""
        for atom in nested(query):
            if (atom.query, atom.source) not in self._knowledge.sets:
                self._knowledge.sets[atom.query, atom.source] = frozenset(self._values(atom.query, atom.source))
        newest = [at for at, (_, document) in self._tail.items() if holds(query, document, self._knowledge)]
        return self._indexed(query), newest

    def _values(self, query: Query, source: str) -> Iterator[str | float]:
        found, newest = self.matching(query)
        for _, document in self._read(found):
            yield from map(value_key, values_of(document, source))
        for at in newest:
            yield from map(value_key, values_of(self._tail[at][1], source))

    def _indexed(self, query: Query) -> I64:
        index = self._library._index
        if index is None or not self._library.last:
            return np.empty(0, np.int64)
        translator = Translator(self._library._schema, index.searcher(), self._knowledge)
        candidates = translator.candidates(query)
        found = self._library._positions(translator.whole(candidates))
        if self._replaced.size:
            found = np.setdiff1d(found, self._replaced)
        if not candidates.exact:
            read = self._read(found, patterns_of(query, self._knowledge.analysis))
            held = [at for at, document in read if holds(query, document, self._knowledge)]
            return np.array(held, np.int64)
        return self._current(found) if found.size <= CHECKED_MAX else found

    def _read(self, positions: I64, patterns: Patterns = ()) -> Iterator[tuple[int, Document]]:
        """The documents at these positions that are current, and could show all of the patterns."""
        for some in _chunks(positions.tolist()):
            for row in _rows(self._transaction, log.c.position.in_(some), LOOKED_UP):
                if row.state == schema.CURRENT and row.body is not None and may_hold(row.body, patterns):
                    yield row.position, document_from_json(row.body)

    def _current(self, positions: I64) -> I64:
        return np.array(sorted(at for at, _, _ in self._names(positions.tolist())), np.int64)

    def _names(self, positions: list[int]) -> list[tuple[int, str, int]]:
        """(position, id, version) of those that are current; each is asked for once."""
        for some in _chunks([at for at in positions if at not in self._named]):
            # Whole numbers, written out: a statement of 500 parameters costs more than its answer.
            among = f"state = {schema.CURRENT} AND position IN ({','.join(map(str, some))})"
            rows = self._transaction.exec_driver_sql(f"SELECT position, id, version FROM documents WHERE {among}")
            self._named.update(dict.fromkeys(some))
            self._named.update((row[0], (row[0], row[1], row[2])) for row in rows)
        return [named for at in positions if (named := self._named[at]) is not None]

    def fields(self) -> set[str]:
        """The names of all fields."""
        index = self._library._index
        terms = [] if index is None else index.searcher().terms_with_prefix(KEYS, FIELDS)
        found = {term[len(FIELDS) :] for term, _ in terms}
        return found.union(UNSEEN_BY_BARE, *(document.fields for _, document in self._tail.values()))

    def counted(self) -> Statistics:
        """The statistics of all current documents."""
        vectors = self._library._vectors
        found = self._library._positions(None)
        if self._replaced.size:
            found = np.setdiff1d(found, self._replaced)
        indexed = Statistics() if vectors is None else vectors.statistics(found)
        tail = Statistics.of((document for _, document in self._tail.values()), self._knowledge.analysis)
        frequency = Counter(indexed.frequency)
        frequency.update(tail.frequency)
        return Statistics(indexed.documents + tail.documents, frequency, self._library.last)

    # --- ranking -------------------------------------------------------------------------------

    def ranked(
        self, query: Query, found: I64, newest: list[int], k: int | None, after: tuple[float, str] | None
    ) -> Answer:
        """The k best after the place."""
        asked = query_vector(query, self._knowledge.analysis, self._statistics)
        positions = np.concatenate([found, np.array(newest, np.int64)])
        scores = np.concatenate([self._cosines(found, asked), [self._score(at, asked) for at in newest]])
        total = int(positions.size)
        if after is not None:
            left = scores <= after[0] + NEARLY
            positions, scores = positions[left], scores[left]
        wanted = positions.size if k is None else k
        hits: list[Hit] = []
        looked_at = wanted
        while True:
            best = _best(scores, looked_at)
            hits = self._hits(positions[best], scores[best])
            hits = [hit for hit in hits if after is None or (-hit.score, hit.id) > (-after[0], after[1])]
            if len(hits) >= wanted or best.size == positions.size:
                break
            looked_at = 2 * looked_at + 16
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        more = len(hits) > wanted or best.size < positions.size
        hits = hits[:wanted]
        cursor = _cursor(hits[-1]) if hits and more else None
        return Answer(hits, total, cursor, self._statistics.version)

    def _cosines(self, positions: I64, asked: Vector) -> npt.NDArray[np.float64]:
        vectors = self._library._vectors
        if vectors is None or not positions.size or not asked.length:
            return np.zeros(positions.size)
        return vectors.cosines(positions, asked, self._statistics)

    def _score(self, position: int, asked: Vector) -> float:
        document = self._tail[position][1]
        return cosine(document_vector(document, self._knowledge.analysis, self._statistics), asked)

    def _hits(self, positions: I64, scores: npt.NDArray[np.float64]) -> list[Hit]:
        """With ids, versions and rounded scores; what was deleted meanwhile is left out."""
        rounded = {
            at: min(1.0, round(score, ROUNDING)) for at, score in zip(positions.tolist(), scores.tolist(), strict=True)
        }
        return [Hit(id, version, rounded[at], at) for at, id, version in self._names(list(rounded))]


def _best(scores: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.intp]:
    """Where the highest scores are, with all that may equal the last of them."""
    if count >= scores.size:
        return np.arange(scores.size)
    least = np.partition(scores, scores.size - count)[scores.size - count]
    return np.flatnonzero(scores >= least - NEARLY)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("position", indexed=True, fast=True)
    builder.add_unsigned_field("upto", fast=True)
    builder.add_text_field("mark", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("id", tokenizer_name="raw", index_option="basic")
    builder.add_text_field(KEYS, tokenizer_name="tokens", index_option="basic")
    return builder.build()


def _prepare(index: tantivy.Index) -> None:
    """Tokens are made here; the library only splits them."""
    index.register_tokenizer("tokens", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


def _rows(transaction: Connection, which: Any, limit: int) -> Sequence[Any]:
    columns = (log.c.position, log.c.id, log.c.version, log.c.body, log.c.state)
    return list(transaction.execute(select(*columns).where(which).order_by(log.c.position).limit(limit)))


def _digest(id: str) -> str:
    return sha256(id.encode()).hexdigest()


def _chunks(items: list[Any]) -> Iterator[list[Any]]:
    for first in range(0, len(items), LOOKED_UP):
        yield items[first : first + LOOKED_UP]


def _cursor(hit: Hit) -> str:
    return urlsafe_b64encode(json.dumps([hit.score, hit.id]).encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[float, str]:
    try:
        score, id = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return float(score), str(id)
    except (ValueError, TypeError, OverflowError):
        raise SettingError(
            f"{cursor!r} is no cursor of this search: use the one that came with the last answer"
        ) from None
