"""X4: the same trace through the false world and through real connections: equal messages, equal bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.net.rings import drivers, total, until
from tests.net.trace import Step, act, delivered, in_the_world, member, script, time_of


async def in_drivers(
    folder: Path, steps: list[Step], nodes: int
) -> tuple[list[str], Counter[str], Counter[str], Counter[str]]:
    """Addresses, messages and bytes by type, and what was delivered, over TLS."""
    now = 0.0
    async with drivers(folder, nodes, clock=lambda: now) as ring:
        addresses = [driver.address for driver in ring]

        def is_quiet() -> bool:
            return sum(total([driver.count() for driver in ring])[0].values()) == sum(one.received for one in ring)

        for number, step in enumerate(steps):
            now, node = time_of(number), step[1]
            if step[0] == "add":
                ring[node].add(addresses[node], member(addresses, node))
            else:
                ring[node].invoke(addresses[node], lambda process, now, step=step: act(process, step, now))  # type: ignore[misc]
            await until(is_quiet)
        told = Counter(delivered(address, effect) for driver in ring for address, effect in driver.delivered)
        return addresses, *total([driver.count() for driver in ring]), told


@pytest.mark.row("X4")
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))])
def test_messages_and_bytes_of_the_world_are_those_of_real_connections(tmp_path, seed):
    steps = script(seed, nodes=6, actions=80)
    addresses, messages, sizes, told = asyncio.run(in_drivers(tmp_path, steps, 6))
    assert (messages, sizes, told) == in_the_world(steps, addresses)
    assert (messages, sizes, told) != in_the_world(steps[:-6], addresses)  # one round of ticks less is seen
    assert {
        "Route",
        "Owner",
        "Next",
        "Stabilise",
        "HandOver",
        "Replicate",
        "Cast",
        "Receipt",
        "Done",
        "Notify",
    } <= messages.keys()
