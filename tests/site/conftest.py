"""A site on SQLite, with accounts, and a pipeline that runs when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.site import accounts
from tocsin.site.accounts import Account
from tocsin.site.local import LocalPipeline
from tocsin.site.site import Site
from tocsin.store import Store


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Not started: its clocks stand still, unless a test starts them."""
    store = Store(tmp_path / "store")
    found = Site(store)
    found.pipeline = LocalPipeline(store)
    yield found
    found.stop()
    store.close()


@pytest.fixture
def ann(site: Site) -> Account:
    return accounts.create(site.store, "ann", "publisher")


@pytest.fixture
def bob(site: Site) -> Account:
    return accounts.create(site.store, "bob", "subscriber")
