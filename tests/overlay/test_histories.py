"""X2 on the ring: random histories of subscriptions and documents on many nodes, replayed by the oracle."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.overlay.test_nested import KNOWLEDGE, Ring
from tocsin.errors import SettingError
from tocsin.model import Document
from tocsin.overlay.delivery import Notified
from tocsin.overlay.placement.entry import QUERY_KIND, Mode, entry_of
from tocsin.overlay.placement.subscriber import Ended, Paused
from tocsin.query.semantics import holds
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription
from tocsin.sim.workload import random_document, random_query

ACTIVE, PAUSED, GONE = "active", "paused", "gone"
SETTLE_SECONDS = 12.0  # of the false clock: what is done at one node has reached all


class History:
    """What is done, and what should have come of it."""

    def __init__(self, seed: int, mode: Mode) -> None:
        self.ring, self.chance, self.rng = Ring(mode=mode), Random(seed), np.random.default_rng(seed)
        self.wishes: dict[str, tuple[str, str, str]] = {}  # id: node, query, state
        self.documents: dict[str, tuple[str, Document]] = {}
        self.expected: set[tuple[str, str, int]] = set()

    def do(self) -> None:
        """Something, at a random node; then everything settles."""
        living = [id for id, (_, _, state) in self.wishes.items() if state != GONE]
        act = self.chance.choice(
            ["subscribe", "change", "pause", "resume", "end", "publish", "publish", "update", "withdraw"]
        )
        if act == "subscribe" or (not living and act in ("change", "pause", "resume", "end")):
            self._subscribe(f"s{len(self.wishes)}", self.chance.choice(self.ring.names))
        elif act in ("change", "pause", "resume", "end"):
            self._alter(act, self.chance.choice(living))
        elif act == "publish" or not self.documents:
            self._publish(self.chance.choice(self.ring.names), None)
        else:
            id = self.chance.choice(sorted(self.documents))
            node, document = self.documents[id]
            if act == "update":
                self._publish(node, document)
            else:
                del self.documents[id]
                self.ring.world.invoke(node, lambda process, now: process.words.publisher.withdraw(id, now))
        self.ring.wait(SETTLE_SECONDS)

    def _subscribe(self, id: str, node: str) -> None:
        while True:
            text = show(random_query(self.rng, 2, nested=False, subscription=True))
            try:
                parse_subscription(text)
            except ValueError:
                continue
            break
        self.wishes[id] = node, text, ACTIVE
        self.ring.world.invoke(node, lambda process, now: process.words.subscriber.subscribe(id, text, now))

    def _alter(self, act: str, id: str) -> None:
        node, text, state = self.wishes[id]
        subscriber = self.ring.world.process(node).words.subscriber
        if act == "change":
            self._subscribe(id, node)
        elif act == "end":
            self.wishes[id] = node, text, GONE
            self.ring.world.invoke(node, lambda process, now: process.words.subscriber.unsubscribe(id, now))
        elif (act == "pause") is (state == ACTIVE):
            self.wishes[id] = node, text, PAUSED if act == "pause" else ACTIVE
            self.ring.world.invoke(node, lambda process, now: getattr(process.words.subscriber, act)(id, now))
        else:
            with pytest.raises(SettingError, match="paused"):
                getattr(subscriber, act)(id, self.ring.world.now)

    def _publish(self, node: str, before: Document | None) -> None:
        document = random_document(self.rng, self.chance.randrange(10**6))
        if before is not None:
            document = Document(before.id, document.fields, document.source, document.time, before.version + 1)
        self.documents[document.id] = node, document
        for id, (_, text, state) in self.wishes.items():
            if state == ACTIVE and holds(parse_subscription(text), document, KNOWLEDGE):
                self.expected.add((id, document.id, document.version))
        self.ring.publish(node, document)

    def told(self) -> list[tuple[str, str, int]]:
        return [what.notice.name for _, what in self.ring.heard if isinstance(what, Notified)]

    def copies(self) -> set[str]:
        """Subscriptions of which some node has a copy."""
        found = set()
        for place in self.ring.world.places.values():
            store = place.process.items.store  # type: ignore[attr-defined]
            items = [item for key in store.sorted_keys() for item in store.at(key) if item.kind == QUERY_KIND]
            entries = [entry_of(item, KNOWLEDGE.analysis) for item in items]
            found |= {entry.subscription for entry in entries if entry is not None}
        return found


def check(seed: int, mode: Mode, steps: int) -> int:
    history = History(seed, mode)
    for _ in range(steps):
        history.do()
    told = history.told()
    assert len(told) == len(set(told))
    assert set(told) == history.expected
    assert history.copies() == {id for id, (_, _, state) in history.wishes.items() if state == ACTIVE}
    ended = {what.id for _, what in history.ring.heard if isinstance(what, Ended)}
    assert ended == {id for id, (_, _, state) in history.wishes.items() if state == GONE}
    assert any(isinstance(what, Paused) for _, what in history.ring.heard) or steps < 30
    return len(told)


@pytest.mark.row("X2")
@pytest.mark.parametrize(("seed", "mode"), [(1, Mode.SMARTSEER), (2, Mode.DHTRIE)])
def test_random_histories_are_what_the_oracle_replays(seed, mode):
    """X2 across nodes: update, pause, resume, delete of queries; update and delete of documents; no copy stays."""
    assert check(seed, mode, 40) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_many_random_histories_are_what_the_oracle_replays(seed):
    check(seed, list(Mode)[seed % 2], 60)


def test_a_paused_subscription_survives_a_restart_of_its_node():
    ring = Ring()
    ring.world.invoke("n3", lambda node, now: node.words.subscriber.subscribe("s", "title:ring", now))
    ring.wait()
    ring.world.invoke("n3", lambda node, now: node.words.subscriber.pause("s", now))
    ring.wait()
    ring.world.crash("n3")
    ring.world.restart("n3", keeps_disk=True)
    ring.wait()
    ring.publish("n1", Document("d1", {"title": ("ring",)}))
    ring.wait()
    assert ring.told("s") == []
    ring.world.invoke("n3", lambda node, now: node.words.subscriber.resume("s", now))
    ring.wait()
    ring.publish("n1", Document("d2", {"title": ("ring",)}))
    ring.wait()
    assert ring.told("s") == ["d2"]
