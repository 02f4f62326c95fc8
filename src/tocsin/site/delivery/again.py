"""What was given up, and is wanted again: each account's by itself, so that nobody waits for another's webhook.

An account's items go one after the other. Where nobody answers, the rest of that subscription's are not tried: they
stay among the undelivered, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from tocsin.site.delivery.caller import Answer
from tocsin.store import Store, inbox, webhooks
from tocsin.store.inbox import Item
from tocsin.store.webhooks import Hook

LOOK_SECONDS = 1.0  # between looks
Send = Callable[[Hook, Item], Awaitable[Answer]]


async def send_again(store: Store, send: Send, most: int) -> None:
    """Looks for what is wanted again, and sends it, at most so many at once; until it is cancelled."""
    slots = asyncio.Semaphore(most)
    under_way: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            for account, subscriptions in (await asyncio.to_thread(webhooks.wanting_again, store)).items():
                if account not in under_way or under_way[account].done():
                    under_way[account] = group.create_task(_send_all(store, send, slots, subscriptions))
            await asyncio.sleep(LOOK_SECONDS)


async def _send_all(store: Store, send: Send, slots: asyncio.Semaphore, subscriptions: Sequence[int]) -> None:
    for subscription in subscriptions:
        while found := await asyncio.to_thread(webhooks.wanted_again, store, subscription):
            for number, cursor in found:
                async with slots:
                    problem, is_there = await _send_one(store, send, subscription, cursor)
                await asyncio.to_thread(webhooks.resent, store, number, problem)
                if problem is not None and not is_there:
                    await asyncio.to_thread(webhooks.want_no_more, store, subscription, problem)
                    break


async def _send_one(store: Store, send: Send, subscription: int, cursor: int) -> tuple[str | None, bool]:
    """Why it was not taken (None: it was), and whether anybody is there to take others."""
    hook = await asyncio.to_thread(webhooks.hook, store, subscription)
    if hook is None:
        return "the subscription has no webhook any more", False
    item = await asyncio.to_thread(inbox.item_at, store, cursor)
    if item is None:
        return "a newer version of the document has been told since, and this one is not kept", True
    answer = await send(hook, item)
    return None if answer.is_taken else str(answer), answer.status not in (None, HTTPStatus.GONE)
