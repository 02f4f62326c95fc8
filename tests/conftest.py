"""What all tests share: Hypothesis profiles, real data, and the rows of the mission."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tools.rows import ROWS

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("TOCSIN_DATA") or ROOT.parent / "shared" / "data")

# No deadline: the first call of a kernel compiles it, and machines are shared.
settings.register_profile("everyday", deadline=None, print_blob=True)
settings.register_profile("thorough", parent=settings.get_profile("everyday"), max_examples=2_000)
settings.load_profile("everyday")


def pytest_report_header() -> str:
    found = DATA if DATA.is_dir() else f"{DATA} is absent, tests that need it are skipped"
    return f"real data (TOCSIN_DATA): {found}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("row"):
            unknown = [row for row in mark.args if row not in ROWS]
            if unknown or not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: the mission has no row {unknown}; see tools/rows.py")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data, which is not part of the project."""
    if not DATA.is_dir():
        pytest.skip(f"real data is absent: {DATA} is no folder; set TOCSIN_DATA to the folder that holds it")
    return DATA
