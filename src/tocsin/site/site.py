"""One installation, put together: a store, what matches it, the clocks that end mutes and make digests, delivery.

    site = Site(store, settings, pipeline=pipeline)
    site.start() … site.stop()

Without a pipeline a site takes documents and subscriptions, and delivers what others put into its outbox.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from tocsin.site import accounts, life
from tocsin.site.accounts import Account
from tocsin.site.bell import Bell
from tocsin.site.delivery.dispatch import Dispatcher
from tocsin.site.harvest.harvester import Harvester
from tocsin.site.history import History
from tocsin.site.limits import Buckets
from tocsin.site.schedule import mode_of
from tocsin.site.searching import Searching
from tocsin.site.settings import SiteSettings
from tocsin.site.views import Views
from tocsin.site.wishes import Reader
from tocsin.store import Store, inbox, journal, replies, subscriptions
from tocsin.text import Analysis

if TYPE_CHECKING:
    from tocsin.site.federation import Federation

log = logging.getLogger(__name__)

LONGEST_SLEEP_SECONDS = 5.0  # of the clock: changes by other processes are seen that late
TIDY_EVERY_SECONDS = 600.0


class Pipeline(Protocol):
    """What matches the log's documents with the subscriptions."""

    def start(self) -> None:
        """Begins."""

    def stop(self) -> None:
        """Ends, gracefully."""

    @property
    def is_running(self) -> bool:
        """Does it take documents?"""

    def failure(self) -> str | None:
        """Why it stopped by itself, if it did."""

    def progress(self) -> Any:
        """How far it is."""


class Site:
    """All that one installation is. Safe to share between threads."""

    def __init__(self, store: Store, settings: SiteSettings | None = None, pipeline: Pipeline | None = None) -> None:
        self.store = store
        self.settings = settings or SiteSettings()
        self.pipeline = pipeline
        self.analysis = Analysis(dict(self.settings.analysis))
        self.history = History(store, self.analysis, self.settings.history_documents_max)
        self.buckets = Buckets()
        self.searching: Searching | None = None
        """Answers one-time queries; needs a folder for its index."""
        self.federation: Federation | None = None
        """Makes the site a node of a ring."""
        self.bell = Bell()
        """Rings when there is something new to read."""
        self.dispatcher = Dispatcher(store, self.settings.delivery, self.bell, channels=self.settings.channels)
        self.views = Views(store, self.bell, self.settings.views)
        """Relations and views over events, and over what was found."""
        self.harvester = Harvester(store, self.settings.harvest)
        self._clock = threading.Condition()
        self._is_stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._next_due: float | None = 0.0  # unknown yet
        self._changes = 0

    # --- running -------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the clocks, the delivery and the pipeline."""
        self._is_stopping.clear()
        self.settle_due()
        loops = {"tocsin-clock": self._run_clock, "tocsin-watch": self._run_watch}
        self._threads = [threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops.items()]
        for thread in self._threads:
            thread.start()
        self.dispatcher.start()
        self.views.start()
        self.harvester.start()
        if self.searching is not None:
            self.searching.start()
        if self.pipeline is not None:
            self.pipeline.start()
        if self.federation is not None:
            self.federation.start()

    def stop(self) -> None:
        """Stops all of it; what is not delivered yet is after the next start."""
        self._is_stopping.set()
        with self._clock:
            self._clock.notify_all()
        if self.federation is not None:
            self.federation.stop()
        if self.pipeline is not None:
            self.pipeline.stop()
        if self.searching is not None:
            self.searching.stop()
        self.harvester.stop()
        self.views.stop()
        self.dispatcher.stop()
        for thread in self._threads:
            thread.join()
        self._threads = []

    @property
    def is_running(self) -> bool:
        """Does the pipeline take documents?"""
        return self.pipeline is not None and self.pipeline.is_running

    @property
    def failure(self) -> str | None:
        """Why the pipeline stopped by itself, if it did."""
        return None if self.pipeline is None else self.pipeline.failure()

    def progress(self) -> Any:
        """How far the pipeline is; None without one."""
        return None if self.pipeline is None else self.pipeline.progress()

    # --- for the parts -------------------------------------------------------------------------

    def reader(self, account: Account) -> Reader:
        """Reads the bodies of the account's subscriptions."""
        return Reader(self.settings, account, self.analysis, self.views, self.federation is not None)

    def authenticate(self, token: str) -> Account | None:
        """Whose token this is, with the site's quotas where the account has none of its own."""
        return accounts.authenticate(self.store, token, self.settings.quotas)

    def take(self, account: Account, what: str, amount: float = 1.0) -> None:
        """Counts so many documents or calls against the account's rate; TooFast."""
        if not account.is_unbound:
            quotas = account.quotas
            rate = quotas.documents_per_second if what == "documents" else quotas.calls_per_second
            self.buckets.take(f"{what} {account.name}", rate, amount, what)

    def changed(self) -> None:
        """A subscription was made or changed: its times may come before those that the clock waits for."""
        with self._clock:
            self._next_due = 0.0
            self._changes += 1
            self._clock.notify_all()

    @property
    def changes(self) -> int:
        """How often a subscription was made or changed in this process."""
        return self._changes

    def noticed(self, _count: int = 0) -> None:
        """The outbox has grown. The pipeline may say so; if it does not, the watch finds out."""
        self.bell.ring()

    def settle_due(self) -> None:
        """Ends the mutes and lives that are over. Before documents are accepted, so that it holds for them."""
        due, changes = self._next_due, self._changes
        now = time.time()
        if due is not None and due <= now:
            life.settle(self, now)
            following = subscriptions.next_due(self.store)
            with self._clock:
                if changes == self._changes:  # else somebody changed something since, and it must be looked up again
                    self._next_due = following

    # --- clocks --------------------------------------------------------------------------------

    def _run_clock(self) -> None:
        tidy_at = time.monotonic()
        while not self._is_stopping.is_set():
            wait = LONGEST_SLEEP_SECONDS
            try:
                self._next_due = 0.0
                self.settle_due()
                self.make_digests()
                if time.monotonic() >= tidy_at:
                    self.tidy()
                    tidy_at = time.monotonic() + TIDY_EVERY_SECONDS
                wait = self._until_next()
            except Exception:  # a store that is away for a moment must not end the clock
                log.exception("the clock of the site")
            with self._clock:
                if not self._is_stopping.is_set() and self._next_due != 0.0:
                    self._clock.wait(wait)

    def _until_next(self) -> float:
        moments = [moment for moment in (self._next_due, inbox.next_digest(self.store)) if moment is not None]
        wait = min(moments, default=time.time() + LONGEST_SLEEP_SECONDS) - time.time()
        return min(max(wait, 0.01), LONGEST_SLEEP_SECONDS)

    def make_digests(self, now: float | None = None) -> int:
        """Makes the digests that are due; returns how many."""
        moment = time.time() if now is None else now
        made = 0
        while due := inbox.digests_due(self.store, moment):
            wanted = []
            for one in due:
                next_due = mode_of(one.about.get("mode")).next_after(moment)
                wanted.append((one, next_due if next_due is not None else moment + 3_600.0))
            made += inbox.make_digests(self.store, wanted)
        if made:
            self.bell.ring()
        return made

    def tidy(self) -> None:
        """Forgets old answers to idempotency keys and old entries of the journal."""
        now = time.time()
        replies.forget(self.store, now - self.settings.reply_kept_seconds)
        journal.forget(self.store, now - self.settings.journal_kept_seconds)

    def _run_watch(self) -> None:
        """Looks whether the outbox has grown, and rings."""
        seen = -1
        while not self._is_stopping.wait(self.settings.watch_interval_seconds):
            try:
                last = inbox.last(self.store)
            except Exception:  # see above
                log.exception("the watch of the outbox")
                self._is_stopping.wait(1.0)
                continue
            if last != seen:
                seen = last
                self.bell.ring()
