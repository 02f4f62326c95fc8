"""Many at once: one publishes and matches, one changes states, one makes digests, one reads. The reader, who keeps the
last cursor, gets everything once and each subscription's documents in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.store.scenes import doc
from tocsin.errors import SubscriptionError
from tocsin.store import Store, documents, inbox, outbox, subscriptions
from tocsin.store.outbox import Batch, Found
from tocsin.store.subscriptions import ACTIVE, HOLD, MUTED, Asked, Wish

DOCUMENTS = 120


def publish(store: Store, number: int) -> None:
    documents.accept(store, [doc(f"{number:05}")])


def match(store: Store) -> None:
    """Everything matches everything that is in force."""
    last = documents.last_position(store)
    with store.read() as transaction:
        first = documents.matched(transaction)
    if last == first:
        return
    batch, _ = outbox.begin(store, Batch("match", last, first, last, 0, 0))
    stored = [one for chunk in documents.read(store, first, last) for one in chunk]
    known = subscriptions.within(store, first, last)
    outbox.finish(store, batch, [Found(s.position, r.number, s.id, 1, 0.5, None) for s in stored for r in known])


def toggle(store: Store, number: int) -> None:
    kept = subscriptions.find(store, "ann", f"s{number % 2}")
    assert kept is not None
    values = {"state": ACTIVE} if kept.state == MUTED else {"state": MUTED, "mute": HOLD, "muted_until": 9e9}
    try:
        subscriptions.change(store, kept, **values)
    except SubscriptionError:
        return


def gather(store: Store) -> None:
    inbox.make_digests(store, [(due, time.time() + 0.02) for due in inbox.digests_due(store, time.time())])


def test_a_reader_gets_everything_once_and_in_order(store):
    wishes = [Wish("s0", Asked("peer")), Wish("s1", Asked("peer")), Wish("d", Asked("peer"), {}, None, 1.0)]
    assert subscriptions.add(store, "ann", wishes) == {}
    ended = threading.Event()
    failures: list[BaseException] = []

    def repeated(work: Callable[[int], None], times: int | None = None) -> Callable[[], None]:
        def run() -> None:
            number = 0
            try:
                while number < times if times is not None else not ended.is_set():
                    work(number)
                    number += 1
            except BaseException as error:
                failures.append(error)
            finally:
                if times is not None:
                    ended.set()

        return run

    read: list[tuple[str, str]] = []
    place = 0

    def look(_number: int = 0) -> None:
        nonlocal place
        for item in inbox.items(store, account="ann", after=place, limit=7):
            assert item.cursor > place
            place = item.cursor
            read.extend((item.subscription, one.document) for one in item.notifications)

    works = [
        repeated(lambda number: publish(store, number), DOCUMENTS),
        repeated(lambda _: match(store)),
        repeated(lambda number: toggle(store, number)),
        repeated(lambda _: gather(store)),
        repeated(look),
    ]
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    match(store)
    for number in range(2):
        kept = subscriptions.find(store, "ann", f"s{number}")
        assert kept is not None
        if kept.state == MUTED:
            toggle(store, number)
    inbox.make_digests(store, [(due, 9e9) for due in inbox.digests_due(store, time.time() + 10)])
    while inbox.items(store, account="ann", after=place, limit=1):
        look()
    wanted = [f"{number:05}" for number in range(DOCUMENTS)]
    for id in ("s0", "s1", "d"):
        assert [document for subscription, document in read if subscription == id] == wanted
    assert len(read) == 3 * DOCUMENTS
