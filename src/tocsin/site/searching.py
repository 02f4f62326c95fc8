"""One-time queries over what is stored now (SmartSeer §II): beside the standing ones, in the same language.

The index of documents follows the log in a thread of its own; what it has not taken in yet is looked at one by one, so
an answer is always of now. Words weigh what they weigh for notifications: the pipeline's statistics.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tocsin.errors import TocsinError
from tocsin.query.ast import Query
from tocsin.query.score import Statistics
from tocsin.store import Store, documents
from tocsin.store.search import Answer, Library
from tocsin.text import Analysis

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between looks at whether the log has grown


class Searching:
    """The searcher of a site. Safe to share between threads."""

    def __init__(
        self, store: Store, folder: Path, analysis: Analysis, statistics: Callable[[], Statistics | None]
    ) -> None:
        self._store = store
        self._statistics = statistics
        self._library = Library(folder, analysis, writable=True)
        self._gone: deque[str] = deque()
        self._is_used = False  # since words were last weighed
        self._counted: Statistics | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Follows the log from now on."""
        self._thread = threading.Thread(target=self._follow, name="tocsin-search", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops following."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._library.close()

    def delete(self, id: str) -> None:
        """The document was deleted: its words leave the index."""
        self._gone.append(id)

    def _follow(self) -> None:
        is_checked = False
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                if not is_checked:  # what was deleted while nobody followed
                    self._library.recheck(self._store)
                    is_checked = True
                gone = [self._gone.popleft() for _ in range(len(self._gone))]
                if gone:
                    self._library.delete(gone)
                if documents.last_position(self._store) > self._library.last:
                    self._library.update(self._store)
                if self._is_used and (statistics := self._statistics()) is not None:
                    self._is_used = False
                    self._library.prepare(statistics)  # those who search soon again need not wait for it
            except (TocsinError, OSError, ValueError) as error:  # tantivy says ValueError
                log.warning("the index of documents is behind: %s", error)
                is_checked = False  # what it was about to leave out may still be in it

    def places(self, query: Query) -> tuple[npt.NDArray[np.int64], Statistics]:
        """Where the documents are that match now, ascending; and by what words are weighed."""
        self._is_used = True
        statistics = self._weights()
        return self._library.places(self._store, query, statistics), statistics

    def _weights(self) -> Statistics:
        """The pipeline's; without one, counted from the index, and again when it has grown."""
        found = self._statistics()
        if found is not None:
            return found
        if self._counted is None or self._counted.version != self._library.last:
            self._counted = self._library.statistics(self._store)
        return self._counted

    def search(self, text: str, limit: int = 10, after: str | None = None) -> Answer:
        """The best documents after the cursor; QueryError if the query is refused."""
        self._is_used = True
        return self._library.search(self._store, text, self._weights(), limit, after)
