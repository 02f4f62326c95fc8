"""Real nodes on loopback: messages a second through envelopes and TLS, what an envelope costs, puts that are on disk.

No bar was promised: the figures say what a ring of real processes can carry, beside those of the simulator.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from tocsin.net.disk import Journal
from tocsin.net.driver import Driver
from tocsin.net.envelope import Sealer, read_envelope
from tocsin.net.host import paced
from tocsin.net.identity import Endpoint, open_identity
from tocsin.overlay.chord import FindOwner, Route
from tocsin.overlay.key import hashed
from tocsin.overlay.member import Member
from tocsin.overlay.message import Item, encode, peer
from tocsin.overlay.node import Deliver, Effect, Send

LOOPBACK = Endpoint("127.0.0.1", 0)


def envelopes(folder: Path, number: int) -> dict[str, Any]:
    """Microseconds of this processor to seal and to open an envelope, and the bytes that it adds."""
    identity = open_identity(folder)
    me = identity.address(Endpoint("127.0.0.1", 8048))
    body = encode(Route(1 << 63, FindOwner(1, peer(me), False), 1, 0, 0))
    sealer = Sealer(identity, lambda: 1)
    start = process_time()
    sealed = [sealer.seal(me, me, body) for _ in range(number)]
    middle = process_time()
    for one in sealed:
        read_envelope(one, (me,))
    end = process_time()
    return {
        "seal_microseconds": round((middle - start) / number * 1e6, 1),
        "open_microseconds": round((end - middle) / number * 1e6, 1),
        "message_bytes": len(body),
        "envelope_bytes": len(sealed[0]) - len(body),
    }


class Sink:
    """Counts what comes, and tells when it is all."""

    def __init__(self, expected: int = 0) -> None:
        self.expected, self.done = expected, asyncio.Event()

    def start(self, now: float) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def handle(self, message: Any, now: float) -> list[Effect]:
        """One more."""
        self.expected -= 1
        if not self.expected:
            self.done.set()
        return []

    def wake(self, token: Any, now: float) -> list[Effect]:
        """It never sleeps."""
        return []


async def stream(folder: Path, number: int) -> dict[str, Any]:
    """Messages a second from one node to another, both in this process."""
    drivers = [Driver(open_identity(folder / name)) for name in ("one", "two")]
    sink = Sink(number)
    try:
        for driver, process in zip(drivers, (Sink(), sink), strict=True):
            driver.add(await driver.open(LOOPBACK), process)
        one, two = drivers
        message = Route(1 << 63, FindOwner(1, peer(one.address), False), 1, 0, 0)
        start, burnt = perf_counter(), process_time()
        for _ in range(number // 1_000):
            one.invoke(one.address, lambda process, now: [Send(two.address, message)] * 1_000)
            while sum(peer["waiting"] for peer in one.peers().values()) > 1_000:
                await asyncio.sleep(0.001)
        await sink.done.wait()
        seconds, burnt = perf_counter() - start, process_time() - burnt
    finally:
        for driver in drivers:
            await driver.close()
    return {"messages_per_second": round(number / seconds), "messages_per_core_second": round(number / burnt)}


async def puts(folder: Path, nodes: int, number: int, at_once: int) -> dict[str, Any]:
    """Puts a second into a ring in this process: routed, on three disks, acknowledged."""
    drivers, journals, members = list[Driver](), list[Journal](), list[Member]()
    joined = asyncio.Event()

    def count(address: str, effect: Deliver) -> None:
        if all(member.chord.is_ready for member in members) and len(members) == nodes:
            joined.set()

    try:
        for node in range(nodes):
            identity = open_identity(folder / f"n{node}")
            journals.append(Journal(folder / f"n{node}" / "journal", 1 << 40))
            drivers.append(Driver(identity, disk=journals[-1], on_deliver=count))
            address = await drivers[-1].open(LOOPBACK)
            contacts = [drivers[0].address] if node else []
            members.append(Member(address, contacts, chord=paced(0.2), disk=journals[-1]))
            drivers[-1].add(address, members[-1])
        await joined.wait()
        await asyncio.sleep(3.0)  # successor lists fill
        turns = asyncio.Semaphore(at_once)
        times: list[float] = []

        async def put(item: int) -> None:
            async with turns:
                answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

                def then(items: Any, now: float) -> list[Effect]:
                    answer.set_result(items)
                    return []

                driver = drivers[item % nodes]
                one = Item(hashed("word", str(item)), 7, b"n", 1, b"v" * 100)
                start = perf_counter()
                driver.invoke(driver.address, lambda member, now: member.items.put([one], now, then))
                if await answer is None:
                    raise SystemExit("a put was not acknowledged")
                times.append(perf_counter() - start)

        start, burnt = perf_counter(), process_time()
        await asyncio.gather(*(put(item) for item in range(number)))
        seconds, burnt = perf_counter() - start, process_time() - burnt
    finally:
        for driver in drivers:
            await driver.close()
        for journal in journals:
            journal.close()
    times.sort()
    return {
        "nodes": nodes, "puts": number, "at_once": at_once, "puts_per_second": round(number / seconds),
        "puts_per_core_second": round(number / burnt),
        "milliseconds_p50": round(times[len(times) // 2] * 1e3, 1),
        "milliseconds_p99": round(times[len(times) * 99 // 100] * 1e3, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("small", "full"), default="small")
    scale = 1 if parser.parse_args().size == "small" else 10
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, Any] = {
            "benchmark": "net",
            "envelope": envelopes(folder / "envelope", 2_000 * scale),
            "stream": asyncio.run(stream(folder / "stream", 5_000 * scale)),
            "puts_one_at_a_time": asyncio.run(puts(folder / "single", 8, 50 * scale, 1)),
            "puts": asyncio.run(puts(folder / "many", 8, 500 * scale, 64)),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
