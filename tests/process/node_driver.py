"""A node in a process of its own, for tests: `node` is the command, `scripted FOLDER` obeys standard input.

Lines of a scripted node, each answered with one: ["open"] -> address; ["clock", now], ["step", step, addresses],
["turn", count] (see `tests.net.turns`) and ["pulse"] -> messages sent, received, not looked at yet; ["count"] ->
messages and bytes by type, what was delivered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.net.rings import LOOPBACK
from tests.net.trace import act, delivered, member
from tests.net.turns import InTurns
from tocsin.net.driver import Driver
from tocsin.net.identity import open_identity


async def scripted(folder: Path) -> None:
    now = 0.0
    node: InTurns | None = None
    driver = Driver(open_identity(folder), clock=lambda: now)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        what, *rest = json.loads(line)
        if what == "clock":
            (now,) = rest
        elif what == "step":
            step, addresses = rest
            if step[0] == "add":
                node = member(addresses, step[1])
                driver.add(driver.address, node)
            else:
                driver.invoke(driver.address, lambda process, now, step=step: act(process, step, now))  # type: ignore[misc]
        elif what == "turn" and rest[0]:
            driver.invoke(driver.address, lambda process, now, count=rest[0]: process.turn(count, now))  # type: ignore[misc]
        answer: Any = [sum(driver.count()[0].values()), driver.received, node.waiting if node is not None else 0]
        if what == "open":
            answer = await driver.open(LOOPBACK)
        elif what == "count":
            answer = [*driver.count(), [delivered(*one) for one in driver.delivered]]
        print(json.dumps(answer), flush=True)
    await driver.close()


def main() -> int:
    kind, *words = sys.argv[1:]
    if kind == "scripted":
        asyncio.run(scripted(Path(words[0])))
        return 0
    from tocsin.cli import node

    parser = argparse.ArgumentParser()
    node.arguments(parser)
    return node.run(parser.parse_args(words))


if __name__ == "__main__":
    sys.exit(main())
