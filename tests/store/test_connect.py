"""A store that does not answer is one error, which those above wait out."""

from __future__ import annotations

import sqlite3

import pytest

from tocsin.errors import StoreError
from tocsin.store import Store, connect
from tocsin.store.documents import last_position


def test_a_locked_store_is_a_store_error_and_answers_again(tmp_path, monkeypatch):
    monkeypatch.setattr(connect, "BUSY_SECONDS", 0.01)
    store = Store(tmp_path)
    other = sqlite3.connect(tmp_path / "tocsin.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="does not answer: database is locked"):
        store.put("a", "1")
    other.execute("ROLLBACK")
    other.close()
    store.put("a", "2")
    assert store.get("a") == "2"
    store.close()


def test_a_broken_file_is_a_store_error(tmp_path):
    store = Store(tmp_path)
    store.close()
    (tmp_path / "tocsin.sqlite").unlink()
    (tmp_path / "tocsin.sqlite").mkdir()
    with pytest.raises(StoreError, match="does not answer"):
        last_position(store)
    store.close()
