"""Sites in one process, each a node of one ring."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tocsin.net.host import HostSettings, paced
from tocsin.net.identity import Endpoint
from tocsin.overlay.message import Item
from tocsin.overlay.placement.entry import QUERY_KIND
from tocsin.overlay.placement.states.key import STATE_KIND
from tocsin.site import accounts, intake
from tocsin.site.accounts import Account
from tocsin.site.federation import Federation
from tocsin.site.local import LocalPipeline
from tocsin.site.settings import RingSettings, SiteSettings
from tocsin.site.site import Site
from tocsin.store import Store, outbox

PATIENCE_SECONDS = 240.0
PACE = paced(0.5)
"""A node that is silent for ten of these is thought dead: not too short, or a busy machine makes rings fall apart."""
QUICK = SiteSettings(ring=RingSettings(interval_seconds=0.5, reposition_seconds=1.0))


def until(holds: Callable[[], Any], lacking: Callable[[], Any] = lambda: "") -> Any:
    """What `holds` gives, once it is true; if it is not in time, `lacking` says why."""
    start = time.monotonic()
    while not (found := holds()):
        assert time.monotonic() - start < PATIENCE_SECONDS, lacking()
        time.sleep(0.02)
    return found


@dataclass
class Joined:
    """A site, its node, and an account of it."""

    site: Site
    federation: Federation
    account: Account

    def publish(self, *documents: dict[str, Any]) -> None:
        assert intake.publish(self.site, self.account, list(documents)).accepted == len(documents)

    def told(self) -> list[tuple[str, str, int]]:
        return [(one.subscription, one.document, one.version) for one in outbox.read(self.site.store, limit=10_000)]

    def is_begun(self) -> bool:
        """In the ring, and what is published from now on is shared."""
        return self.federation.node.is_ready and self.federation._note(b"position") is not None

    def standing(self) -> int:
        """Subscriptions of which every copy is where it should be."""

        def count() -> int:
            placements = self.federation._placements
            words, states = placements.words.subscriber, placements.states.subscriber
            maps = placements.publishers.subscriber
            found = sum(not words._waiting.get(id) for id, _ in words.standing())
            found += sum(states._waiting[id][1] == 0 for id, _ in states.standing())
            return found + sum(record.is_standing for record in maps._records.values() if record.text)

        return int(self.federation._ask(count))

    def monitored(self, number: int) -> tuple[str, ...]:
        """Whom an approximate subscription listens to."""
        name = f"{number}.0p@{self.federation.node.address.partition('@')[0]}"
        report = self.federation._ask(self.federation._placements.reports).get(name)
        return () if report is None else tuple(report.publishers)

    def copies(self) -> list[Any]:
        """All that this node keeps of anybody's subscriptions, and all that it remembers of its own."""

        def look() -> list[Any]:
            placements = self.federation._placements
            store = placements.words.node.items.store  # type: ignore[attr-defined]
            items: list[Item] = [one for key in store.sorted_keys() for one in store.at(key)]
            kept = [one.name for one in items if one.kind in (QUERY_KIND, STATE_KIND) and one.value is not None]
            mine = [*placements.words.subscriber._records, *placements.states.subscriber._records]
            return [*kept, *placements.publishers.publisher.kept(), *mine, *placements.publishers.subscriber._records]

        found: list[Any] = self.federation._ask(look)
        return found


def join(site: Site, folder: Path, contacts: tuple[str, ...] = (), port: int | None = None) -> Federation:
    """Makes a site a node; it is to be started."""
    settings = HostSettings(folder / "node", Endpoint("127.0.0.1", port or free_port()), contacts=contacts, chord=PACE)
    site.federation = Federation(site, settings, lambda text: None)
    return site.federation


@contextmanager
def running(folder: Path, *others: Joined, port: int | None = None) -> Iterator[Joined]:
    """A site in the ring of the others, until the end of the block."""
    store = Store(folder / "store")
    site = Site(store, QUICK)
    site.pipeline = LocalPipeline(store, noticed=site.noticed)
    federation = join(site, folder, tuple(one.federation.node.address for one in others[:1]), port)
    names = [one.name for one in accounts.listed(store)]
    account = accounts.find(store, "ann") if "ann" in names else accounts.create(store, "ann", "admin")
    site.start()
    try:
        joined = Joined(site, federation, account)
        until(joined.is_begun)
        yield joined
    finally:
        site.stop()
        store.close()


@contextmanager
def sites(folder: Path, number: int) -> Iterator[list[Joined]]:
    """Sites in one ring."""
    with ExitStack() as stack:
        found: list[Joined] = []
        for one in range(number):
            found.append(stack.enter_context(running(folder / f"n{one}", *found)))
        yield found
