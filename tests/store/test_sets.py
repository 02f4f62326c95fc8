"""The sets of nested subscriptions in the store: the same lives as in memory, with crashes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.match.nested_histories import History, paper
from tocsin import Analysis, Document, parse_subscription
from tocsin.match.nested import NestedSubscriptions, Tables, Told
from tocsin.store import Store, documents, sets
from tocsin.store.sets import StoredSets, key_of


class Crash(Exception):
    """Power is gone before the commit."""


class StoredHistory(History):
    """A life whose tables are in a store; each batch may crash before it is committed, and is run again."""

    def __init__(self, seed: int, store: Store) -> None:
        self.store = store
        self.crashes = 0
        with store.write() as transaction:
            sets.create(transaction)
        super().__init__(seed)

    def first_tables(self) -> Tables:
        return StoredSets()

    def restarted(self) -> Tables:
        return StoredSets()

    def working(self) -> AbstractContextManager[object]:
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        assert isinstance(self.tables, StoredSets)
        with self.store.write() as transaction, self.tables.within(transaction):
            yield

    def _accept(self) -> None:
        """All that was published since the last batch."""
        accepted = documents.accept(self.store, [document for _, document in self.batch])
        assert accepted.positions == [position for position, _ in self.batch]

    def delete(self, id: str) -> None:
        documents.delete(self.store, id)
        with self.store.write() as transaction:
            sets.depart(transaction, id)
        with self.working():
            assert isinstance(self.tables, StoredSets)
            for one in self.tables.departed():
                self.nested.leave(one)

    def matched(self, documents: list[tuple[int, Document]]) -> list[Told]:
        self._accept()
        if self.rng.random() < 0.3:
            with pytest.raises(Crash):
                self._crash(documents)
            if self.rng.random() < 0.5:
                self._restart()
        return super().matched(documents)

    def _crash(self, documents: list[tuple[int, Document]]) -> None:
        self.crashes += 1
        with self.working():
            self.nested.match(documents)
            raise Crash


def lives(seeds: range, folder: Path) -> tuple[int, int]:
    """How many matches were told, and how many batches crashed."""
    matches = crashes = 0
    for seed in seeds:
        store = Store(folder / str(seed))
        history = StoredHistory(seed, store)
        matches += history.run()
        crashes += history.crashes
        store.close()
    return matches, crashes


def test_what_is_told_from_a_store_is_what_the_oracle_says(tmp_path):
    matches, crashes = lives(range(6), tmp_path)
    assert matches > 30
    assert crashes > 5


@pytest.mark.slow
def test_what_is_told_from_a_store_in_500_lives_is_what_the_oracle_says(tmp_path):
    matches, crashes = lives(range(100, 600), tmp_path)
    assert matches > 5_000
    assert crashes > 500


def test_long_values_numbers_and_strings_are_told_apart(tmp_path):
    store, tables = Store(tmp_path), StoredSets()
    nested = NestedSubscriptions(Analysis(), tables=tables)
    long = "very " * 300 + "long"
    stream = [
        Document("a", {"key": ("2", long), "title": ("x",)}),
        Document("b", {"key": (2,)}),
        Document("c", {"key": ("2.0",)}),
        Document("d", {"key": (long.upper(),)}),
        Document("e", {"key": (long + "er",)}),
        Document("f", {"key": (-0.0,), "title": ("x",)}),
        Document("g", {"key": (0,)}),
    ]
    documents.accept(store, stream)
    with store.write() as transaction:
        sets.create(transaction)
    with store.write() as transaction, tables.within(transaction):
        nested.add(0, parse_subscription("key:IN:(title:x)"))
        told = nested.match(list(enumerate(stream, 1)))
        assert [stream[one.position - 1].id for one in told] == ["a", "d", "f", "g"]
    with store.write() as transaction, tables.within(transaction):
        assert set(tables.values(tables.sets()[0])) == {"2", long, 0.0}  # type: ignore[index]
        assert tables.size(tables.sets()[0]) == 3  # type: ignore[index]
    assert len(key_of(long)) < 100
    store.close()


def test_sets_are_read_and_changed_within_a_transaction_only(tmp_path):
    with pytest.raises(RuntimeError, match="within a transaction"):
        StoredSets().contains(1, "x")


def test_a_subscription_made_later_is_filled_from_the_log(tmp_path):
    store, tables = Store(tmp_path), StoredSets()
    stream = [paper("bob", "Bob", title="networks"), paper("carol", "Carol")]
    later = [paper("b2", "Bob"), paper("joint", "Bob", "Carol", title="networks")]
    nested = NestedSubscriptions(Analysis(), tables=tables)
    documents.accept(store, stream)
    with store.write() as transaction:
        sets.create(transaction)
    with store.write() as transaction, tables.within(transaction):
        assert nested.match(list(enumerate(stream, 1))) == []
    with store.write() as transaction, tables.within(transaction):
        nested.add(7, parse_subscription("author:IN:(networks)"), since=2)
    documents.accept(store, later)
    with store.write() as transaction, tables.within(transaction):
        told = nested.match(list(enumerate(later, 3)))
    assert told == [Told(7, 3, 3), Told(7, 2, 4), Told(7, 4, 4)]
    store.close()
