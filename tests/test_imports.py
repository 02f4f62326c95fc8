"""The import contracts of pyproject.toml hold, and each of them can fail: a planted import breaks it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
CONTRACTS = {contract["id"] for contract in CONFIG["contracts"]}
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

# contract, file in which a line is planted (made if it is not there), the line
PLANTS = [
    ("order", "errors.py", "import tocsin.settings"),
    ("order", "model.py", "from tocsin import query"),
    ("order", "query/__init__.py", "import tocsin.match"),
    ("order", "views/__init__.py", "import tocsin.match"),  # a room to come keeps the order from its first day
    ("order", "attic.py", "'''A module without a place in the order.'''"),
    ("door", "query/__init__.py", "from tocsin import __all__"),
    ("numba", "match/__init__.py", "from numba import njit"),
    ("numba", "text.py", "import numba"),
    ("spark", "lab/planted.py", "from pyspark.sql import SparkSession"),
    ("network", "files.py", "import socket"),
    ("network", "sim/planted.py", "import asyncio.events"),
    ("sql", "match/planted.py", "import sqlite3"),
    ("sql", "views/relation.py", "import sqlglot"),
    ("pure", "text.py", "import os.path"),
    ("pure", "query/planted.py", "from time import monotonic"),
    ("pure", "match/planted.py", "import threading"),
    ("pure", "match/index.py", "import random"),  # the exception for snapshots is for os and threading only
    ("pure", "overlay/__init__.py", "import uuid"),
]

ALLOWED = [
    ("numba", "match/kernels.py", "from numba import njit"),
    ("spark", "pipeline/__init__.py", "import pyspark"),
    ("network", "net/driver.py", "import asyncio, socket"),
    ("sql", "store/__init__.py", "import sqlalchemy"),
    ("sql", "views/compile.py", "import sqlglot"),
    ("pure", "match/snapshot.py", "import os"),
    ("pure", "sim/planted.py", "import random"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project's source, to be spoiled."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(copy: Path, file: str, line: str) -> None:
    path = copy / "src" / "tocsin" / file
    if not path.exists() and (package := path.with_suffix("") / "__init__.py").exists():
        path = package  # tocsin.files may be a module or a package
    path.parent.mkdir(exist_ok=True)
    for needed in {path.parent / "__init__.py", path}:
        needed.touch()
    path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")


def lint(project: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", *chosen],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_the_house_keeps_its_contracts(copy):
    result = lint(copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("contract", "file", "line"), PLANTS)
def test_a_planted_import_breaks_its_contract(copy, contract, file, line):
    plant(copy, file, line)
    result = lint(copy, contract)
    assert result.returncode == 1, result.stdout
    assert "1 broken" in result.stdout


@pytest.mark.parametrize(("contract", "file", "line"), ALLOWED)
def test_each_fence_has_its_gate(copy, contract, file, line):
    plant(copy, file, line)
    result = lint(copy, contract)
    assert result.returncode == 0, result.stdout


def test_every_contract_is_proven_to_fail():
    assert {contract for contract, _, _ in PLANTS} == CONTRACTS
