"""A back-up holds everything; what is restored is the same store, on either database."""

from __future__ import annotations

import gzip

import pytest
from sqlalchemy import Table

from tests.store.scenes import contents, doc, furnish
from tocsin.errors import StoreError
from tocsin.store import Store, documents, journal, schema, subscriptions
from tocsin.store.backup import back_up, restore
from tocsin.store.subscriptions import Asked, Wish


def test_what_is_restored_is_what_was_backed_up(store, place, tmp_path):
    furnish(store)
    before = contents(store)
    own = [table.name for table in vars(schema).values() if isinstance(table, Table)]
    assert [name for name in own if not before[name]] == [], "something in every table"
    rows = back_up(store, tmp_path / "copy")
    other = Store(place("other"))
    assert restore(other, tmp_path / "copy") == rows
    after = contents(other)
    assert {name: after[name] for name in before} == before
    other.close()


def test_a_back_up_moves_from_one_database_to_the_other(store, server, tmp_path):
    from tests import postgres

    furnish(store)
    back_up(store, tmp_path / "copy")
    place = postgres.new_database(server, "moved") if store.is_sqlite else str(tmp_path / "moved")
    other = Store(place)
    restore(other, tmp_path / "copy")
    before, after = contents(store), contents(other)
    assert {name: after[name] for name in before} == before
    other.close()


def test_a_restored_store_goes_on(store, place, tmp_path):
    furnish(store)
    back_up(store, tmp_path / "copy")
    other = Store(place("other"))
    restore(other, tmp_path / "copy")
    assert documents.accept(other, [doc("z")]).positions == [4]
    assert subscriptions.add(other, "ann", [Wish("new", Asked("x"))]) == {}
    journal.note(other, "ann", "again")
    assert [entry.action for entry in journal.read(other)] == ["again", "subscribe"]
    other.close()


def test_a_store_that_is_not_empty_is_not_overwritten(store, tmp_path):
    furnish(store)
    back_up(store, tmp_path / "copy")
    before = contents(store)
    with pytest.raises(StoreError, match="not empty"):
        restore(store, tmp_path / "copy")
    assert contents(store) == before


@pytest.mark.parametrize("keep", [0, 10, 0.5, -30, -1])
def test_a_back_up_that_is_cut_restores_nothing(store, place, tmp_path, keep):
    furnish(store)
    back_up(store, tmp_path / "copy")
    whole = (tmp_path / "copy").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * keep) if isinstance(keep, float) else keep])
    other = Store(place("other"))
    before = contents(other)
    with pytest.raises(StoreError):
        restore(other, tmp_path / "cut")
    assert contents(other) == before
    other.close()


def test_lines_that_are_missing_are_noticed(store, place, tmp_path):
    furnish(store)
    back_up(store, tmp_path / "copy")
    lines = gzip.decompress((tmp_path / "copy").read_bytes()).splitlines(keepends=True)
    place_of_row = next(at for at, line in enumerate(lines) if line.startswith(b"["))
    del lines[place_of_row]
    (tmp_path / "less").write_bytes(gzip.compress(b"".join(lines)))
    other = Store(place("other"))
    with pytest.raises(StoreError, match="damaged"):
        restore(other, tmp_path / "less")
    other.close()


def test_only_its_owner_may_read_a_back_up(store, tmp_path):
    back_up(store, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    with pytest.raises(StoreError, match="cannot be written"):
        back_up(store, tmp_path / "nowhere" / "copy")
