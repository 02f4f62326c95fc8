"""Random lives of a collection with nested subscriptions, and what the oracle expects of each.

The expectation is recomputed from nothing at every step: with which documents does a query hold now, with which did
it hold before. It knows nothing of sets, translated queries or counts.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from tocsin import Analysis, Document, Knowledge, holds, parse_subscription
from tocsin.match.brute import Brute
from tocsin.match.index import IndexEngine
from tocsin.match.nested import InMemory, NestedSubscriptions, Tables, Told
from tocsin.query import Query


def paper(id: str, *authors: str, title: str = "", version: int = 1, cites: tuple[str, ...] = ()) -> Document:
    fields: dict[str, tuple[str, ...]] = {"author": authors, "title": (title,), "citation": cites}
    return Document(id, {name: values for name, values in fields.items() if values}, version=version)


QUERIES = [
    parse_subscription(text)
    for text in (
        "author:IN:(x AND author:a)",
        "author:IN:(y) AND NOT z",
        "author:IN:(author:IN:(x)) OR z",
        "citation:IN:(author:b)",
        "citation:IN:(citation:IN:(x))",
        "author:IN:citation(y)",
        "title:IN:author(x) AND (y OR author:IN:(z))",
        "author:IN:(NOT x AND author:c)",
        "(x OR author:IN:(y AND citation:IN:(z))) AND author:IN:(author:IN:(author:d))",
        "author:IN:(x OR citation:IN:(author:IN:(y)))",
        "author:IN:(x) AND citation:IN:(author:b)",
        "author:IN:(y AND title:IN:author(z) AND author:IN:(x)) AND NOT author:f",
    )
]


@dataclass
class Standing:
    """A subscription of the model."""

    query: Query
    since: int
    held: set[int]


class Model:
    """The oracle's side: told is what begins to hold, each once."""

    def __init__(self) -> None:
        self.documents: dict[int, Document] = {}
        self.standing: dict[int, Standing] = {}
        self.told: set[tuple[int, int]] = set()

    def _held(self, query: Query, knowledge: Knowledge) -> set[int]:
        return {position for position, one in self.documents.items() if holds(query, one, knowledge)}

    def _now(self) -> Knowledge:
        return Knowledge(documents=list(self.documents.values()))

    def add(self, number: int, query: Query, since: int) -> None:
        self.standing[number] = Standing(query, since, self._held(query, self._now()))

    def remove(self, number: int) -> None:
        del self.standing[number]
        self.told = {(one, position) for one, position in self.told if one != number}

    def leave(self, id: str) -> None:
        self.documents = {position: one for position, one in self.documents.items() if one.id != id}
        knowledge = self._now()
        for standing in self.standing.values():
            standing.held = self._held(standing.query, knowledge)

    def arrive(self, position: int, document: Document) -> set[tuple[int, int]]:
        """What is news at this step."""
        self.documents = {at: one for at, one in self.documents.items() if one.id != document.id}
        self.documents[position] = document
        knowledge = self._now()
        news = set()
        for number, standing in self.standing.items():
            held = self._held(standing.query, knowledge)
            news |= {(number, at) for at in held - standing.held} - self.told
            standing.held = held
        self.told |= news
        return news


class History:
    """One life, drawn from its seed; `plain`: no versions, deletions, late subscriptions."""

    def __init__(self, seed: int, plain: bool = False) -> None:
        self.rng = np.random.default_rng([seed, 7])
        self.plain = plain
        self.tables = self.first_tables()
        self.engine = IndexEngine if seed % 10 == 0 else (lambda analysis: Brute())
        self.model = Model()
        self.log: dict[int, Document] = {}
        self.batch: list[tuple[int, Document]] = []
        self.nested = NestedSubscriptions(Analysis(), tables=self.tables, engine=self.engine(Analysis()))
        self.next_number = 0
        self.matches = 0

    # --- where the tables live: in memory, unless a subclass says otherwise --------------------

    def first_tables(self) -> Tables:
        return InMemory()

    def restarted(self) -> Tables:
        """The tables as a new process finds them."""
        assert isinstance(self.tables, InMemory)
        return InMemory.from_rows(self.tables.rows(), self.log)

    def working(self) -> AbstractContextManager[object]:
        """Around everything that reads or changes the tables."""
        return nullcontext()

    def delete(self, id: str) -> None:
        """It leaves again."""
        self.nested.leave(id)

    def matched(self, documents: list[tuple[int, Document]]) -> list[Told]:
        """What is told of a batch."""
        with self.working():
            return self.nested.match(documents)

    # -------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Checks every batch; returns how many matches were told."""
        some = self.rng.permutation(len(QUERIES))[: self.rng.integers(2, 6)]
        for which in some:
            self._subscribe(QUERIES[which])
        for _ in range(self.rng.integers(12, 30)):
            if self.plain or self.rng.random() < 0.75:
                self._publish()
            else:
                self._something_else()
            if self.rng.random() < 0.4:
                self._match()
        self._match()
        return self.matches

    def _pick(self, choices: str, most: int) -> tuple[str, ...]:
        return tuple(self.rng.choice(list(choices), size=self.rng.integers(0, most + 1)).tolist())

    def _publish(self) -> None:
        position = len(self.log) + 1
        id = f"d{position}" if self.plain else f"d{self.rng.integers(0, 9)}"
        version = 1 + sum(document.id == id for document in self.log.values())
        cites = tuple(f"d{number}" for number in self._pick("012345678", 2))
        title = " ".join(self._pick("xyzabc", 3))
        document = paper(id, *self._pick("abcdef", 3), title=title, version=version, cites=cites)
        self.log[position] = document
        self.batch.append((position, document))

    def _something_else(self) -> None:
        draw = self.rng.random()
        if draw < 0.35:
            self._match()
            self._restart()
        elif draw < 0.6:
            self._match()
            id = f"d{self.rng.integers(0, 9)}"
            self.delete(id)
            self.model.leave(id)
        elif draw < 0.85:
            self._match()
            self._subscribe(QUERIES[self.rng.integers(len(QUERIES))])
        elif self.model.standing:
            self._match()
            number = int(self.rng.choice(list(self.model.standing)))
            with self.working():
                self.nested.remove(number)
            self.model.remove(number)

    def _subscribe(self, query: Query) -> None:
        number, since = self.next_number, len(self.log)
        self.next_number += 1
        with self.working():
            self.nested.add(number, query, since)
        self.model.add(number, query, since)

    def _restart(self) -> None:
        self.tables = self.restarted()
        self.nested = NestedSubscriptions(Analysis(), tables=self.tables, engine=self.engine(Analysis()))
        with self.working():
            self.nested.add_all(
                (number, standing.query, standing.since, None) for number, standing in self.model.standing.items()
            )
            self.nested.forget_unused()

    def _match(self) -> None:
        """One batch, perhaps with documents that came before."""
        again = self.rng.integers(0, 3) if self.rng.random() < 0.2 else 0
        first = self.batch[0][0] if self.batch else len(self.log) + 1
        replayed = [(position, self.log[position]) for position in range(max(1, first - again), first)]
        told = self.matched([*replayed, *self.batch])
        found = [(one.number, one.position) for one in told]
        expected = [news for position, document in self.batch for news in self.model.arrive(position, document)]
        assert sorted(found) == sorted(expected)
        self.matches += len(found)
        if self.plain:
            knowledge = Knowledge(documents=list(self.log.values()))
            answer = {
                (number, position)
                for number, standing in self.model.standing.items()
                for position, document in self.log.items()
                if holds(standing.query, document, knowledge)
            }
            assert self.model.told == answer
        self.batch = []
