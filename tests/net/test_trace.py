"""X4: the same trace through the false world and through real connections: equal messages, equal bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.net import placement_driver, test_maps, test_states
from tests.net.rings import drivers, total
from tests.net.trace import LATENCY_SECONDS, Step, act, delivered, in_the_world, member, script, time_of
from tests.net.turns import InTurns, settle_drivers, shuffled


async def in_drivers(
    folder: Path, steps: list[Step], nodes: int
) -> tuple[list[str], Counter[str], Counter[str], Counter[str]]:
    """Addresses, messages and bytes by type, and what was delivered, over TLS."""
    now = 0.0
    async with drivers(folder, nodes, clock=lambda: now) as ring:
        addresses = [driver.address for driver in ring]
        joined: list[InTurns] = []
        for number, step in enumerate(steps):
            now, node = time_of(number), step[1]
            if step[0] == "add":
                joined.append(member(addresses, node))
                ring[node].add(addresses[node], joined[-1])
            else:
                ring[node].invoke(addresses[node], lambda process, now, step=step: act(process, step, now))  # type: ignore[misc]
            await settle_drivers(ring, joined)
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


# --- whoever is first ------------------------------------------------------------------------------------------------

SETS_SLOW = 30


def compare_orders(which: int) -> None:
    """Other identities in each set, so other places on the ring; any message may overtake any other."""
    addresses = [f"set{which} node{node}" for node in range(6)]
    steps = script(which, nodes=6, actions=40)
    assert in_the_world(steps, addresses) == in_the_world(steps, addresses, shuffled(which, LATENCY_SECONDS))
    nearby = shuffled(which, placement_driver.LATENCY_SECONDS)
    for placement, trace in (("maps in steps", test_maps.trace), ("recursive", test_states.trace)):
        steps = trace(which, 5, 24)
        in_order = placement_driver.in_the_world(placement, steps, addresses)
        assert in_order == placement_driver.in_the_world(placement, steps, addresses, nearby), placement


@pytest.mark.parametrize("which", range(3))
def test_what_a_script_counts_does_not_hang_on_which_message_is_first(which):
    """X4 compares worlds; this one shows that they can be compared. See `turns`: what used to hang on it."""
    compare_orders(which)


@pytest.mark.slow
@pytest.mark.parametrize("which", range(3, 3 + SETS_SLOW))
def test_what_a_script_counts_does_not_hang_on_which_message_is_first_in_many_rings(which):
    compare_orders(which)
