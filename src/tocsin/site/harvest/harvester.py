"""The harvester: visits the sources that are due, many at once, never two at one host, in a thread of its own.

All that matters is in the store: a harvester that is killed leaves sources due, and items either stored with their
source's progress or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import random
from typing import Any

from tocsin.site.harvest import feeds, folders, oaipmh
from tocsin.site.harvest.apart import Apart
from tocsin.site.harvest.fetch import Fetcher, SourceError, host_of
from tocsin.site.harvest.politeness import Politeness, next_visit, wait_seconds
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.site.harvest.sources import FEED, FOLDER, OAI
from tocsin.site.harvest.visit import Ended, SourceGone, Visit
from tocsin.store import Store, harvested, sources
from tocsin.store.harvested import Arrived
from tocsin.store.sources import Source

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between looks whether a source is due
TIDY_SECONDS = 3_600.0  # between two times that old sketches are dropped
FEED_CHILD = "tocsin.site.harvest.feed_child"
VISITS = {FEED: feeds.visit, OAI: oaipmh.visit, FOLDER: folders.visit}


@dataclass(frozen=True, slots=True)
class Visited:
    """What came of a visit."""

    source: Source
    found: Arrived
    problem: str | None = None
    note: str | None = None
    has_more: bool = False


MakeFetcher = Callable[[HarvestSettings, Politeness], Fetcher]


class Harvester:
    """Visits sources until it is stopped, or once."""

    def __init__(
        self,
        store: Store,
        settings: HarvestSettings | None = None,
        fetcher: MakeFetcher = Fetcher,
        chance: Callable[[], float] = random,
        told: Callable[[Visited], None] = lambda _: None,
    ) -> None:
        self.store = store
        self.settings = settings or HarvestSettings()
        self.make_fetcher = fetcher
        self.chance = chance
        self.told = told
        """Is told of each visit."""
        self.failure: str | None = None
        self._thread: threading.Thread | None = None
        self.stopping = threading.Event()

    def start(self) -> None:
        """Begins."""
        self.stopping.clear()
        self._thread = threading.Thread(target=self._keep_running, name="tocsin-harvest", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the visits under way, and stops; they are made again after the next start."""
        self.stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _keep_running(self) -> None:
        while not self.stopping.is_set():
            try:
                asyncio.run(_Shift(self).run())
                self.failure = None
            except Exception as error:  # the store is away for a moment
                self.failure = f"{type(error).__name__}: {error}"
                log.exception("harvesting")
                self.stopping.wait(LOOK_SECONDS)

    def visit_once(self, numbers: Sequence[int] | None = None) -> list[Visited]:
        """Visits these sources, or all that are due, each until it has no more to tell now."""
        return asyncio.run(_Shift(self).once(numbers))


class _Shift:
    """The harvester's work from when it begins until it stops or the store fails."""

    def __init__(self, owner: Harvester) -> None:
        self._owner = owner
        self._store, self._settings = owner.store, owner.settings
        self._politeness = Politeness(self._settings)
        self._fetcher = owner.make_fetcher(self._settings, self._politeness)
        self._parser = Apart(FEED_CHILD, self._settings.harvest_parsers, self._settings.harvest_parse_bytes_max)
        self._waiting: dict[str, deque[Source]] = {}
        """Due sources by host."""
        self._known: set[int] = set()
        """Those that wait or are visited."""
        self._busy: dict[str, asyncio.Task[Visited | None]] = {}
        """Visits by host."""
        self._tidy_at = 0.0

    async def run(self) -> None:
        """Until the harvester stops."""
        try:
            look_at = 0.0
            while not self._owner.stopping.is_set():
                if time.monotonic() >= look_at:
                    await self._look()
                    look_at = time.monotonic() + LOOK_SECONDS
                self._begin_visits()
                await self._wait(min(LOOK_SECONDS, 0.2))
        finally:
            await self._end()

    async def once(self, numbers: Sequence[int] | None) -> list[Visited]:
        """One round."""
        done: list[Visited] = []
        try:
            if numbers is None:
                await self._look()
            else:
                for number in numbers:
                    found = await asyncio.to_thread(sources.find, self._store, number)
                    if found is not None:
                        self._put(found)
            while self._waiting or self._busy:
                self._begin_visits()
                for visited in await self._wait(None):
                    done.append(visited)
                    if visited.has_more and visited.problem is None:
                        found = await asyncio.to_thread(sources.find, self._store, visited.source.number)
                        if found is not None:
                            self._put(found)
        finally:
            await self._end()
        return done

    async def _look(self) -> None:
        now = time.time()
        for source in await asyncio.to_thread(sources.due, self._store, now, self._settings.harvest_sources_max):
            self._put(source)
        if time.monotonic() >= self._tidy_at:
            self._tidy_at = time.monotonic() + TIDY_SECONDS
            before = now - self._settings.near_window_seconds
            await asyncio.to_thread(harvested.forget_sketches, self._store, before)

    def _put(self, source: Source) -> None:
        if source.number not in self._known:
            self._known.add(source.number)
            self._waiting.setdefault(_place(source), deque()).append(source)

    def _begin_visits(self) -> None:
        for place in list(self._waiting):
            if len(self._busy) >= self._settings.harvest_connections_max:
                return
            if place in self._busy:
                continue
            queue = self._waiting.pop(place)
            source = queue.popleft()
            if queue:
                self._waiting[place] = queue  # behind the others
            self._busy[place] = asyncio.create_task(self._visit(source))

    async def _wait(self, seconds: float | None) -> list[Visited]:
        """Until a visit ends, or so long; what has ended."""
        if not self._busy:
            await asyncio.sleep(seconds or 0.0)
            return []
        await asyncio.wait(self._busy.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        found = []
        for place, task in [(place, task) for place, task in self._busy.items() if task.done()]:
            del self._busy[place]
            visited = task.result()
            if visited is not None:
                found.append(visited)
        return found

    async def _end(self) -> None:
        for task in self._busy.values():
            task.cancel()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)
        await self._parser.close()
        await self._fetcher.close()

    # --- one visit -----------------------------------------------------------------------------

    async def _visit(self, source: Source) -> Visited | None:
        try:
            return await self._visited(source)
        finally:
            self._known.discard(source.number)  # after its next visit is noted: until then it is still due

    async def _visited(self, source: Source) -> Visited | None:
        one = Visit(self._store, source, self._settings, self._fetcher, self._parser, partial(self._success, source))
        ended, problem, wait = Ended(), None, 0.0
        try:
            # Twice as long: OAI-PMH ends by itself, between two pages.
            async with asyncio.timeout(2 * self._settings.harvest_visit_seconds_max):
                ended = await VISITS[source.kind](one)
        except SourceGone:
            return None
        except SourceError as error:
            problem, wait = error.reason, error.wait_seconds
        except TimeoutError:
            problem = f"the visit took more than {2 * self._settings.harvest_visit_seconds_max:g} seconds"
        except Exception as error:  # one source's strange answer is not the others' trouble
            log.exception("a visit to source %d", source.number)
            problem = f"{type(error).__name__}: {error}"[:300]
        if problem is not None:
            values = self._failure(source, problem, wait)
            await asyncio.to_thread(sources.note_visit, self._store, source, **values)
        elif not ended.is_noted:
            await asyncio.to_thread(sources.note_visit, self._store, source, **self._success(source, ended))
        visited = Visited(source, one.found, problem, ended.note, ended.has_more)
        self._owner.told(visited)
        return visited

    def _failure(self, source: Source, problem: str, wait: float) -> dict[str, Any]:
        now, failures = time.time(), source.failures + 1
        back_off = wait_seconds(failures, self._settings, self._owner.chance)
        return {"tried": now, "failures": failures, "problem": problem[:500], "due": now + max(back_off, wait)}

    def _success(self, source: Source, ended: Ended) -> dict[str, Any]:
        now = time.time()
        pause = 0.0 if ended.has_more else next_visit(source.interval, self._settings, self._owner.chance)
        values = {"tried": now, "failures": 0, "problem": None, "note": ended.note, "succeeded": now}
        return values | {"due": now + pause}


def _place(source: Source) -> str:
    """Where no two visits are at once."""
    return source.address if source.kind == FOLDER else host_of(source.address)
