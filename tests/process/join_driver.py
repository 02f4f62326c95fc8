"""A site that is a node, in a process of its own, for tests: `FOLDER PORT [CONTACT]`; obeys standard input.

Lines, each answered with one: ["address"], ["subscribe", id, query], ["standing"], ["publish", documents], ["told"].
The log is matched in the process itself: what is tested is the way between sites, and Spark would take its time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.net.rings import FAST
from tocsin.net.host import HostSettings
from tocsin.net.identity import Endpoint
from tocsin.site import accounts, intake, life
from tocsin.site.federation import Federation
from tocsin.site.local import LocalPipeline
from tocsin.site.site import Site
from tocsin.store import Store, documents, outbox


def answer(site: Site, federation: Federation, what: str, *rest: Any) -> Any:
    account = accounts.find(site.store, "ann")
    if what == "address":
        while not hasattr(federation.node, "_host") or not federation.node.is_ready:
            time.sleep(0.02)
        return federation.node.address
    if what == "subscribe":
        id, query = rest
        return life.create(site, account, {"id": id, "query": query}).kept.id
    if what == "standing":
        subscriber = federation._words.subscriber
        return federation._ask(lambda: sum(not subscriber._waiting.get(id, 1) for id, _ in subscriber.standing()))
    if what == "publish":
        return intake.publish(site, account, rest[0]).accepted
    if what == "shared":
        under_way = federation._ask(lambda: federation._words.publisher.under_way)
        return federation._note(b"position") == documents.last_position(site.store) and not under_way
    return [[one.subscription, one.document, one.version] for one in outbox.read(site.store, limit=100_000)]


def main() -> None:
    folder, port, *contacts = sys.argv[1:]
    store = Store(Path(folder) / "store")
    site = Site(store)
    site.pipeline = LocalPipeline(store, noticed=site.noticed)
    settings = HostSettings(
        Path(folder) / "node", Endpoint("127.0.0.1", int(port)), contacts=tuple(contacts), chord=FAST
    )
    site.federation = Federation(site, settings, lambda text: print(text, file=sys.stderr))
    if not accounts.listed(store):
        accounts.create(store, "ann", "admin")
    site.start()
    for line in sys.stdin:
        print(json.dumps(answer(site, site.federation, *json.loads(line))), flush=True)
    site.stop()
    store.close()


if __name__ == "__main__":
    main()
