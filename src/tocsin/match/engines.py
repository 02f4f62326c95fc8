"""The engines by name, as the command line offers them."""

from __future__ import annotations

from tocsin.errors import SettingError
from tocsin.match.brute import Brute
from tocsin.match.engine import Engine
from tocsin.match.index import IndexEngine
from tocsin.text import Analysis

ENGINES = ("auto", "brute")


def engine_named(name: str, analysis: Analysis) -> Engine:
    """A fresh engine of this name."""
    if name == "auto":
        return IndexEngine(analysis)
    if name == "brute":
        return Brute()
    raise SettingError(f"unknown engine {name!r}: one of {', '.join(ENGINES)}")
