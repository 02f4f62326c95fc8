"""The commonest one-time query, some words that must all occur, without a detour.

Under one analysis, the words of a document are all that such a query asks for: the postings beside the scores
(`vectors`) are exact for it, and the store says in one statement what is current and that nothing newer has come.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from sqlalchemy import make_url

from tocsin.query.ast import And, Query, Words
from tocsin.store import schema
from tocsin.store.connect import BUSY_SECONDS, PAGE_CACHE_KIB, Store
from tocsin.text import STANDARD, words

WORDS_MAX = 16
CHARACTERS_MAX = 1_000
_PLAIN = re.compile("[a-z0-9]+(?: [a-z0-9]+)*")
_SIZES = (1, 2, 4, 8, 16, 32, 64)  # of statements that are kept prepared
_STATEMENT = (
    "SELECT position, NULL, NULL FROM clock UNION ALL"
    f" SELECT position, id, version FROM documents WHERE state = {schema.CURRENT} AND position IN "
)
_PREPARED = {size: _STATEMENT + "(" + ",".join("?" * size) + ")" for size in _SIZES}


def plain_words(query: Query | str) -> list[str] | None:
    """The words of a query that asks for nothing else, in any field; None for all other queries.

    A text of such words needs no parser: there is no operator, no sign and no other analysis in it.
    """
    if isinstance(query, str):
        plain = len(query) <= CHARACTERS_MAX and _PLAIN.fullmatch(query)
        found = query.split(" ") if plain else []
    else:
        parts = query.parts if isinstance(query, And) else (query,)
        found = []
        for part in parts:
            if not isinstance(part, Words) or part.field is not None or len(several := words(part.text, STANDARD)) != 1:
                return None
            found += several
    return found if 0 < len(found) <= WORDS_MAX else None


class Names:
    """The names of documents in a SQLite store, by a connection that is kept: each question sees the newest state."""

    def __init__(self, store: Store) -> None:
        self.store = store
        file = Path(make_url(store.url).database or "").absolute().as_uri()
        self._connection = sqlite3.connect(
            f"{file}?mode=ro", uri=True, check_same_thread=False, timeout=BUSY_SECONDS, isolation_level=None
        )
        self._connection.execute(f"PRAGMA cache_size=-{PAGE_CACHE_KIB}")

    def close(self) -> None:
        """Lets go of the file."""
        self._connection.close()

    def of(self, positions: list[int]) -> tuple[int, list[tuple[int, str, int]]]:
        """The end of the log, and (position, id, version) of those that are current: both at the same moment."""
        count = len(positions)
        size = next((size for size in _SIZES if size >= count), 0)
        if size:
            rows = self._connection.execute(_PREPARED[size], positions + [-1] * (size - count)).fetchall()
        else:
            rows = self._connection.execute(f"{_STATEMENT}({','.join(map(str, positions))})").fetchall()
        return rows[0][0], rows[1:]
