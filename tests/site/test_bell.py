"""The bell wakes whoever waits, and never keeps somebody who is told to stop."""

from __future__ import annotations

import asyncio

from tocsin.site.bell import Bell


def test_a_cancellation_that_comes_with_the_ring_is_not_lost():
    async def sleeper(bell: Bell) -> None:
        while True:
            await bell.wait_async(bell.count, 10)

    async def main() -> None:
        bell = Bell()
        task = asyncio.create_task(sleeper(bell))
        await asyncio.sleep(0.01)
        bell.ring()  # its future is set in the loop's next turn,
        asyncio.get_running_loop().call_soon(task.cancel)  # and the task is cancelled in the same one
        await asyncio.wait([task], timeout=2)
        assert task.cancelled()

    asyncio.run(main())


def test_a_ring_between_looking_and_waiting_is_not_missed():
    async def main() -> bool:
        bell = Bell()
        seen = bell.count
        bell.ring()
        return await bell.wait_async(seen, 0) and not await bell.wait_async(bell.count, 0.01)

    assert asyncio.run(main())
