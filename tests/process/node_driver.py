"""A node in a process of its own, for tests: `node` is the command, `scripted FOLDER` obeys standard input.

Lines of a scripted node, each answered with one: ["open"] -> address; ["clock", now] and ["step", step, addresses] ->
done; ["count"] -> messages and bytes by type, messages received, what was delivered.
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
from tocsin.net.driver import Driver
from tocsin.net.identity import open_identity


async def scripted(folder: Path) -> None:
    now = 0.0
    driver = Driver(open_identity(folder), clock=lambda: now)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        what, *rest = json.loads(line)
        answer: Any = "done"
        if what == "open":
            answer = await driver.open(LOOPBACK)
        elif what == "clock":
            (now,) = rest
        elif what == "step":
            step, addresses = rest
            if step[0] == "add":
                driver.add(driver.address, member(addresses, step[1]))
            else:
                driver.invoke(driver.address, lambda process, now, step=step: act(process, step, now))  # type: ignore[misc]
        else:
            answer = [*driver.count(), driver.received, [delivered(*one) for one in driver.delivered]]
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
