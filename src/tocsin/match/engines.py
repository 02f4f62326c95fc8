"""The engines by name, as the command line offers them."""

from __future__ import annotations

from tocsin.errors import SettingError
from tocsin.match.brute import Brute, PathBrute
from tocsin.match.engine import Engine, PathEngine
from tocsin.match.index import IndexEngine
from tocsin.match.paths import PathIndex
from tocsin.match.tries import BestFitTrie, PrefixTrie, Swin
from tocsin.model import Document
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge
from tocsin.text import Analysis

ENGINES = ("auto", "brute", "swin", "prefix-trie", "best-fit-trie")


def engine_named(name: str, analysis: Analysis) -> Engine:
    """A fresh engine of this name."""
    if name == "auto":
        return IndexEngine(analysis)
    if name == "brute":
        return Brute()
    if name == "swin":
        return Swin(analysis)
    if name == "prefix-trie":
        return PrefixTrie(analysis)
    if name == "best-fit-trie":
        return BestFitTrie(analysis)
    raise SettingError(f"unknown engine {name!r}: one of {', '.join(ENGINES)}")


def path_engine_named(name: str) -> PathEngine:
    """What matches the paths beside the engine of this name: the shared automaton, or every path by itself."""
    return PathBrute() if name == "brute" else PathIndex()


def prepare(name: str, analysis: Analysis) -> None:
    """Loads what the engine of this name needs; the first time on a machine, its kernels are compiled and kept."""
    engine, documents = engine_named(name, analysis), [Document(str(n), {"text": ("a b",)}) for n in range(8)]
    for number, query in enumerate([parse("a b c d"), parse('"a b"'), parse("a")]):
        engine.add(number, query)
    engine.match(documents, Knowledge(analysis))
    engine.match(documents[:1], Knowledge(analysis))
