"""Messages of MAPS and of DHTrie for the same subscriptions and documents, counted, not sent.

On a ring that does not change, what the nodes would say follows from keys and counts. MAPS pays for statistics (a post
for each publisher, interval and owner of some of its words), for questions to the directory, for orders to publishers,
and for notices; DHTrie for bringing every document to the owners of its words, and for notices. Acknowledgements count
like everything else. Posts that ride on other messages would be saved; here none does. Tests show that both counts are
those of nodes in `sim.world`, message by message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tocsin.overlay.multicast import Method
from tocsin.overlay.placement.entry import dedicated_key, word_key
from tocsin.overlay.placement.publishers.directory import EVERYBODY, term_key
from tocsin.sim.bulk import Counts, Publications, count_casts, count_hops
from tocsin.sim.maps import Batch, History, Outcome, Workload
from tocsin.sim.ring import Indices, Keys, Ring, make_ring

LIST_MAX = 30
DEDICATED = 2


@dataclass(frozen=True, slots=True)
class MapsBill:
    """Messages of MAPS, by purpose."""

    posts: int
    lookups: int
    """To learn who owns which keys; once for each publisher and owner."""
    questions: int
    orders: int
    notices: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.posts + self.lookups + self.questions + self.orders + self.notices


@dataclass(frozen=True, slots=True)
class DhtrieBill:
    """Messages of DHTrie, by purpose."""

    subscriptions: int
    publications: int
    notices: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.subscriptions + self.publications + self.notices


class Meter:
    """Counts messages on the ring of a workload: publisher i is the i-th address by name."""

    def __init__(self, workload: Workload, ring: Ring | None = None) -> None:
        self.workload = workload
        self.ring = ring or make_ring(workload.settings.publishers)
        place = {address: index for index, address in enumerate(self.ring.addresses)}
        self.places = np.array([place[name] for name in sorted(self.ring.addresses)], np.int32)
        """The place on the ring of each publisher."""

    def subscriber(self, query: int) -> int:
        """The publisher that subscribes."""
        return query % len(self.places)

    @cached_property
    def _terms(self) -> Keys:
        """Keys of statistics: words that are asked for, background, everybody."""
        names = [*self.workload.words, *self.workload.background, EVERYBODY]
        return np.array([term_key(name) for name in names], np.uint64)

    @cached_property
    def _words(self) -> Keys:
        """Keys of words: those that are asked for, background, and those that every document visits."""
        names = [*self.workload.words, *self.workload.background]
        return np.array([*map(word_key, names), *map(dedicated_key, range(DEDICATED))], np.uint64)

    def _owners(self, keys: Keys) -> Indices:
        return (np.searchsorted(self.ring.keys, keys) % len(self.ring.keys)).astype(np.int32)

    def _hops(self, publisher: int, keys: Keys) -> int:
        starts = np.full(len(keys), self.places[publisher], np.int32)
        return int(count_hops(self.ring, starts, keys).sum())

    # --- MAPS --------------------------------------------------------------------------------------------------------

    def posts(self, batches: Iterable[Batch], only: Sequence[int] | None = None) -> tuple[int, int]:
        """Messages of posts, and of lookups before them, for all publishers or some."""
        keys, owners = self._terms, self._owners(self._terms)
        columns = len(self.workload.words)
        known: dict[int, set[int]] = {}
        posts = lookups = 0
        for batch in batches:
            for publisher in only if only is not None else np.unique(batch.publishers).tolist():
                mine = batch.publishers == publisher
                if not mine.any():
                    continue
                held = np.flatnonzero(batch.holds[mine].any(axis=0))
                terms = np.concatenate([held, columns + np.unique(batch.background[mine]), [len(keys) - 1]])
                me = self.places[publisher]
                needed = set(owners[terms].tolist()) - {int(me)}
                posts += 2 * len(needed)
                new = needed - known.setdefault(publisher, set())
                known[publisher] |= new
                lookups += self._lookups(publisher, new, keys[terms], owners[terms])
        return posts, lookups

    def _lookups(self, publisher: int, new: set[int], keys: Keys, owners: Indices) -> int:
        """One for each new owner: for its first key around the ring."""
        order = np.argsort(keys - self.ring.keys[self.places[publisher]])
        first: dict[int, int] = {}
        for place in order.tolist():
            if int(owners[place]) in new:
                first.setdefault(int(owners[place]), place)
        return self._hops(publisher, keys[list(first.values())]) + len(first) if first else 0

    def questions(self, query: int) -> int:
        """Messages of one ranking: totals, and statistics of each word."""
        keys = self._terms[[*self.workload.queries[query], len(self._terms) - 1]]
        return self._hops(self.subscriber(query), keys) + len(keys)

    def rankings(self, history: History, outcome: Outcome) -> tuple[int, int, int]:
        """Messages of questions, orders and notices of all subscriptions."""
        shape = self.workload.settings
        questions = orders = notices = 0
        for query in range(len(self.workload.queries)):
            before: frozenset[int] = frozenset()
            for time in range(shape.first, shape.intervals):
                chosen = outcome.chosen[query, time]
                questions += self.questions(query)
                orders += 2 * len(chosen ^ before)
                before = chosen
                others = sorted(chosen - {self.subscriber(query)})
                notices += 2 * int(history.matches[time, others, query].sum())
        return questions, orders, notices

    def maps(self, history: History, batches: Sequence[Batch], outcome: Outcome) -> MapsBill:
        """A whole run; what the last interval would post comes after it."""
        return MapsBill(*self.posts(batches[:-1]), *self.rankings(history, outcome))

    # --- DHTrie ------------------------------------------------------------------------------------------------------

    def casts(
        self,
        documents: Sequence[tuple[int, str, Counts]],
        method: Method = Method.HYBRID,
        cache_entries: int = 0,
    ) -> Counts:
        """Messages of each publication: on the way, receipts, and those that say that an owner is done.

        A document is its publisher, its id, and its words (columns first, then background).
        """
        fixed = len(self._words)
        keys = np.concatenate([self._words, np.array([word_key(id) for _, id, _ in documents], np.uint64)])
        rows = [
            np.concatenate([words, np.arange(fixed - DEDICATED, fixed), [fixed + number]])
            for number, (_, _, words) in enumerate(documents)
        ]
        origins = self.places[[publisher for publisher, _, _ in documents]]
        first = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        publications = Publications(origins, first, np.concatenate(rows).astype(np.int32), keys)
        traffic = count_casts(self.ring, publications, method, LIST_MAX, cache_entries)
        owners = self._owners(keys)
        own = np.array([bool((owners[row] == origin).any()) for row, origin in zip(rows, origins, strict=True)])
        found: Counts = traffic.messages + 2 * traffic.receipts + own
        return found

    def documents(self, interval: int, batch: Batch) -> list[tuple[int, str, Counts]]:
        """A batch as `casts` takes it."""
        columns = len(self.workload.words)
        found = []
        for number, publisher in enumerate(batch.publishers.tolist()):
            words = np.concatenate([np.flatnonzero(batch.holds[number]), columns + np.unique(batch.background[number])])
            found.append((publisher, f"d{interval}-{number}", words))
        return found

    def dhtrie(
        self, batches: Sequence[Batch], method: Method = Method.HYBRID, cache_entries: int = 0
    ) -> DhtrieBill:  # fmt: skip
        """A whole run: every subscription at all its words, every document to all of its."""
        first = self.workload.settings.first
        subscriptions = notices = 0
        for query, words in enumerate(self.workload.queries):
            keys = self._words[list(words)]
            me = self.subscriber(query)
            subscriptions += self._hops(me, keys) + len(keys)
            speaks = self._owners(np.array([keys.min()], np.uint64))[0]  # of several homes the one with the lowest key
            matches = sum(int(batch.holds[:, list(words)].all(axis=1).sum()) for batch in batches[first:])
            notices += 0 if speaks == self.places[me] else 2 * matches
        every = [one for interval, batch in enumerate(batches) for one in self.documents(interval, batch)]
        return DhtrieBill(subscriptions, int(self.casts(every, method, cache_entries).sum()), notices)
