"""The dispatcher: one thread, many calls at once, each subscription's items one after the other.

A subscription is *ready* when it has something to deliver and is not waiting after a failure. Whatever is ready is
worked on, each by one task: it reads the next items, calls the webhook, and notes what came of it. Notes are gathered
and written together, so a thousand deliveries cost a handful of transactions; if the process dies before a note is
written, the item is sent again, with the same id. A webhook that answers 410 (gone) is not called again before it is
set anew or takes a test; what it should have been told waits. What goes to one mailbox or room of an account goes
together (`messages`), and to a mailbox not before its reader has confirmed it.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from http import HTTPStatus
from math import inf
from random import random
from typing import Any

from tocsin.site import reading
from tocsin.site.bell import Bell
from tocsin.site.channels import saved
from tocsin.site.channels.address import is_channel
from tocsin.site.channels.sender import ChannelSender
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.delivery.again import send_again
from tocsin.site.delivery.caller import Answer, Caller
from tocsin.site.delivery.messages import Bundle, gathered
from tocsin.site.delivery.retries import asked_to_wait, wait_seconds
from tocsin.site.delivery.signature import headers
from tocsin.site.moments import stamp
from tocsin.site.settings import DeliverySettings
from tocsin.store import Store, channels, inbox, webhooks
from tocsin.store.inbox import Item
from tocsin.store.relations import NO_STATISTICS
from tocsin.store.webhooks import GONE, Attempt, GivenUp, Hook, Waiting

log = logging.getLogger(__name__)

ITEMS = 100  # that a task reads at once
ITEMS_TOGETHER = 1_000  # that are read for many tasks at once
NOTE_SECONDS = 0.02  # notes are gathered this long
LOOK_SECONDS = 1.0  # between looks, if no bell rings
MAILBOXES = 200  # unconfirmed ones that are looked at in one look
IS_GONE = "answered 410 (gone): it is not called again until it is set anew or takes a test"
STOP_SECONDS_MAX = 5.0  # that calls under way may take when the site stops


class Dispatcher:
    """Delivers the outbox to webhooks, in a thread of its own."""

    def __init__(
        self,
        store: Store,
        settings: DeliverySettings,
        bell: Bell,
        *,
        caller: Callable[[], Caller] | None = None,
        chance: Callable[[], float] = random,
        channels: ChannelSettings | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._bell = bell
        self._channels = channels or ChannelSettings()
        self._make_caller = caller or (lambda: Caller(settings))
        self._chance = chance
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.delivered = 0
        """Items that were taken since the start."""
        self.failed = 0
        """Attempts that failed since the start."""
        self.failure: str | None = None

    def start(self) -> None:
        """Begins."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._keep_running, name="tocsin-delivery", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Lets calls under way end, notes what came of them, and stops."""
        self._stopping.set()
        self._bell.ring()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _keep_running(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(_Shift(self).run())
                self.failure = None
            except Exception as error:  # the store is away: all that matters is in it, so a new shift finds its work
                self.failure = f"{type(error).__name__}: {error}"
                log.exception("delivery")
                self._stopping.wait(1.0)


class _Shift:
    """The dispatcher's work from when it begins until it stops or the store fails."""

    def __init__(self, owner: Dispatcher) -> None:
        self._owner = owner
        self._store, self._settings = owner._store, owner._settings
        self._site_id = ""
        self._caller: Caller = owner._make_caller()
        self._sender = ChannelSender(owner._store, owner._channels)
        self._ready: deque[int] = deque()
        self._queued: set[int] = set()
        self._again: set[int] = set()
        """Got something new while they were worked on."""
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._later: list[tuple[float, int]] = []
        self._waiting: dict[int, float] = {}
        """Until when, after a failure (GONE: they want no more calls) or for a mailbox's word (inf): what they get
        meanwhile does not make them ready."""
        self._unconfirmed: dict[tuple[str, str], set[int]] = {}
        """What waits for a mailbox's word, by account and address."""
        self._together: dict[tuple[str, str], asyncio.Lock] = {}
        """One message at a time to one address of an account."""
        self._delivered: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        """The same, and remembered when it is noted: a look that began before must not see less."""
        self._failed: dict[int, Attempt] = {}
        self._given_up: list[GivenUp] = []
        self._noted = asyncio.Event()
        self._writing = asyncio.Lock()
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Until the dispatcher stops."""
        helpers = []
        try:
            await self._begin()
            helpers = [asyncio.create_task(one) for one in self._helpers()]
            await self._work(helpers)
        finally:
            await self._end(helpers)

    def _helpers(self) -> list[Coroutine[Any, Any, None]]:
        return [self._watch(), self._note(), self._resend(), self._ask_mailboxes(), self._look_for_set_anew()]

    async def _begin(self) -> None:
        """What was left to do when the last shift ended."""
        self._site_id = await asyncio.to_thread(lambda: self._store.id)
        self._seen = await asyncio.to_thread(inbox.last, self._store)
        for subscription, next_try in await asyncio.to_thread(webhooks.waiting, self._store):
            if next_try is None or next_try <= time.time():
                self._make_ready(subscription)
            else:
                self._wait(subscription, next_try)

    async def _end(self, helpers: list[asyncio.Task[None]]) -> None:
        under_way = [*self._busy.values()]
        if under_way:
            await asyncio.wait(under_way, timeout=STOP_SECONDS_MAX)
        for task in [*helpers, *under_way]:
            task.cancel()
        await asyncio.gather(*helpers, *under_way, return_exceptions=True)
        await self._write_notes()
        await self._caller.close()
        await self._sender.close()

    # --- who is next ---------------------------------------------------------------------------

    def _make_ready(self, subscription: int) -> None:
        if subscription in self._busy:
            self._again.add(subscription)
        elif subscription not in self._queued and subscription not in self._waiting:
            self._queued.add(subscription)
            self._ready.append(subscription)
            self._moved.set()

    def _wait(self, subscription: int, until: float) -> None:
        self._waiting[subscription] = until
        if until < GONE:
            heapq.heappush(self._later, (until, subscription))
            self._moved.set()

    def _wake(self, subscription: int) -> None:
        self._waiting.pop(subscription, None)
        self._make_ready(subscription)

    async def _work(self, helpers: list[asyncio.Task[None]]) -> None:
        while not self._owner._stopping.is_set():
            self._moved.clear()
            now = time.time()
            while self._later and self._later[0][0] <= now:
                until, subscription = heapq.heappop(self._later)
                if self._waiting.get(subscription) == until:  # it was not woken before, and does not wait anew
                    self._wake(subscription)
            self._send_out()
            for helper in helpers:
                if helper.done():
                    helper.result()  # its failure is ours
            wait = self._later[0][0] - time.time() if self._later else LOOK_SECONDS
            await _set_within(self._moved, min(max(wait, 0.001), LOOK_SECONDS))

    def _send_out(self) -> None:
        """A task for each that is ready, as many as may be; what all of them need is read at once."""
        free = self._settings.delivery_connections_max - len(self._busy)
        chosen = [self._ready.popleft() for _ in range(min(free, len(self._ready)))]
        if not chosen:
            return
        self._queued.difference_update(chosen)
        read = asyncio.create_task(asyncio.to_thread(webhooks.due, self._store, chosen, ITEMS_TOGETHER))
        for subscription in chosen:
            self._busy[subscription] = asyncio.create_task(self._deliver(subscription, read))

    async def _watch(self) -> None:
        """Makes ready whoever got something new."""
        bell = self._owner._bell
        rung = bell.count
        while True:
            last = await asyncio.to_thread(inbox.last, self._store)
            if last > self._seen:
                for subscription in await asyncio.to_thread(webhooks.told_since, self._store, self._seen, last):
                    self._make_ready(subscription)
                self._seen = last
            await bell.wait_async(rung, LOOK_SECONDS)
            rung = bell.count
            if self._owner._stopping.is_set():
                self._moved.set()

    # --- delivering ----------------------------------------------------------------------------

    async def _deliver(self, subscription: int, read: asyncio.Task[dict[int, Waiting]]) -> None:
        try:
            await self._deliver_all(subscription, read)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("delivery to one subscription")
            self._wait(subscription, time.time() + LOOK_SECONDS)
        finally:
            del self._busy[subscription]
            if subscription in self._again:
                self._again.discard(subscription)
                self._make_ready(subscription)
            self._moved.set()

    async def _deliver_all(self, subscription: int, read: asyncio.Task[dict[int, Waiting]]) -> None:
        found, items = (await asyncio.shield(read)).get(subscription, (None, None))
        while found is not None and not self._owner._stopping.is_set():
            if is_channel(found.url):
                return await self._deliver_together(found)
            after = max(found.cursor, self._reached.get(subscription, 0))
            if items is None:
                items = await asyncio.to_thread(_items, self._store, subscription, after)
            attempts = found.attempts if after == found.cursor else 0
            for item in items:
                if item.cursor <= after:
                    continue
                if self._owner._stopping.is_set() or not await self._try(found, item, attempts):
                    return
                attempts = 0
            if len(items) < ITEMS:
                return
            found, items = await asyncio.to_thread(webhooks.hook, self._store, subscription), None

    async def _try(self, hook: Hook, item: Item, attempts: int) -> bool:
        """Sends an item; True: it is done with, and the next one may go."""
        answer = await self._send(hook, item)
        if answer.is_taken:
            self._deliver_upto(hook.subscription, item.cursor)
            return True
        self._owner.failed += 1
        attempts += 1
        if answer.status == HTTPStatus.GONE:
            self._failed[hook.subscription] = Attempt(attempts, GONE, IS_GONE, hook.url)
            await self._write_notes()
            self._wait(hook.subscription, GONE)
            return False
        if attempts >= self._settings.delivery_attempts_max:
            # Written before the next item is sent: whoever looks finds it delivered, or among the undelivered.
            self._given_up.append(GivenUp(hook.subscription, hook.account, item.cursor, attempts, str(answer)))
            self._deliver_upto(hook.subscription, item.cursor)
            await self._write_notes()
            return True
        wait = wait_seconds(attempts, self._settings, self._owner._chance)
        wait = max(wait, asked_to_wait(answer.status or 0, answer.retry_after, self._settings))
        next_try = time.time() + wait
        self._failed[hook.subscription] = Attempt(attempts, next_try, str(answer), hook.url)
        await self._write_notes()
        self._wait(hook.subscription, next_try)
        return False

    async def _look_for_set_anew(self) -> None:
        """Goes on with webhooks that failed, or were gone, and are set anew."""
        while True:
            # As it was before the look: what is noted during it may not be seen by it.
            known = {number: until for number, until in self._waiting.items() if until <= GONE}
            found = await asyncio.to_thread(webhooks.hooks_of, self._store, sorted(known)) if known else {}
            for subscription, until in known.items():
                hook = found.get(subscription)
                if (hook is None or hook.next_try is None) and self._waiting.get(subscription) == until:
                    self._wake(subscription)
            await asyncio.sleep(LOOK_SECONDS)

    def _deliver_upto(self, subscription: int, cursor: int) -> None:
        self._failed.pop(subscription, None)  # of an attempt before, whose note failed
        self._delivered[subscription] = self._reached[subscription] = cursor
        self._noted.set()

    # --- together ------------------------------------------------------------------------------

    async def _deliver_together(self, hook: Hook) -> None:
        """All that waits for one address of an account, a message after the other."""
        place = (hook.account, hook.url)
        async with self._together.setdefault(place, asyncio.Lock()):
            while not self._owner._stopping.is_set() and hook.subscription not in self._waiting:
                if not await self._may_tell(*place):
                    self._waiting[hook.subscription] = inf
                    self._unconfirmed.setdefault(place, set()).add(hook.subscription)
                    return
                now = await asyncio.to_thread(webhooks.hook, self._store, hook.subscription)
                if now is None or now.url != hook.url:
                    return
                reached = dict(self._reached)
                bundle = await asyncio.to_thread(gathered, self._store, self._site_id, now, reached)
                if bundle is None or not await self._try_together(now, bundle):
                    return

    async def _try_together(self, hook: Hook, bundle: Bundle) -> bool:
        """Sends a message; True: it is done with."""
        answer = await self._sender.send(hook.url, bundle.items, bundle.id)
        attempts = hook.attempts + 1
        if not answer.is_taken:
            self._owner.failed += 1
            if attempts < self._settings.delivery_attempts_max:
                next_try = time.time() + wait_seconds(attempts, self._settings, self._owner._chance)
                for part in bundle.parts:
                    self._failed[part.subscription] = Attempt(attempts, next_try, str(answer), hook.url)
                await self._write_notes()
                for part in bundle.parts:
                    self._wait(part.subscription, next_try)
                return False
            self._given_up += [
                GivenUp(item.number, item.account, item.cursor, attempts, str(answer)) for item in bundle.items
            ]
        else:
            self._owner.delivered += len(bundle.items)
        for part in bundle.parts:
            self._deliver_upto(part.subscription, part.upto)
        await self._write_notes()
        await asyncio.to_thread(channels.end_message, self._store, bundle.id)
        return True

    async def _may_tell(self, account: str, url: str) -> bool:
        return await asyncio.to_thread(saved.may_tell, self._store, self._owner._channels, account, url)

    async def _ask_mailboxes(self) -> None:
        """Asks mailboxes that subscriptions name, and goes on with those that have confirmed."""
        settings = self._owner._channels
        while True:
            for place in list(self._unconfirmed)[:MAILBOXES]:
                waiting = self._unconfirmed.pop(place)
                if await self._may_tell(*place):
                    for subscription in waiting:
                        self._wake(subscription)
                    continue
                found = await asyncio.to_thread(webhooks.hooks_of, self._store, sorted(waiting))
                moved = {number for number in waiting if number not in found or found[number].url != place[1]}
                for subscription in moved:
                    self._wake(subscription)
                if waiting - moved:  # behind the others, and with those that came meanwhile
                    self._unconfirmed.setdefault(place, set()).update(waiting - moved)
            if settings.mail_url is not None:
                for account, address in await asyncio.to_thread(channels.unsaved_mailboxes, self._store):
                    await saved.save_and_ask(self._store, settings, self._sender, account, address)
            await asyncio.sleep(LOOK_SECONDS)

    async def _send(self, hook: Hook, item: Item) -> Answer:
        if is_channel(hook.url):
            if not await self._may_tell(hook.account, hook.url):
                return Answer(None, "the mailbox has not confirmed that it wants to be told")
            answer = await self._sender.send(hook.url, [item], item_id(self._site_id, item))
        else:
            body = payload(item)
            signed = headers(hook.secret, item_id(self._site_id, item), int(time.time()), body)
            answer = await self._caller.call(hook.url, signed, body)
        self._owner.delivered += answer.is_taken
        return answer

    async def _resend(self) -> None:
        await send_again(self._store, self._send, max(1, self._settings.delivery_connections_max // 4))

    # --- notes ---------------------------------------------------------------------------------

    async def _note(self) -> None:
        while True:
            await self._noted.wait()
            self._noted.clear()
            await asyncio.sleep(NOTE_SECONDS)
            await self._write_notes()

    async def _write_notes(self) -> None:
        async with self._writing:
            await self._write_gathered()

    async def _write_gathered(self) -> None:
        delivered, failed, given_up = dict(self._delivered), self._failed, self._given_up
        if not (delivered or failed or given_up):
            return
        self._failed, self._given_up = {}, []
        try:
            await asyncio.to_thread(webhooks.note, self._store, delivered=delivered, failed=failed, given_up=given_up)
        except BaseException:  # the next note has them: to note them twice does no harm
            self._failed, self._given_up = {**failed, **self._failed}, [*given_up, *self._given_up]
            raise
        for subscription, cursor in delivered.items():  # what was delivered meanwhile is still to be noted
            if self._delivered.get(subscription) == cursor:
                del self._delivered[subscription]


def _items(store: Store, subscription: int, after: int) -> list[Item]:
    return inbox.items(store, subscription=subscription, after=after, limit=ITEMS)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def item_id(site_id: str, item: Item) -> str:
    """The id of an item, the same however often it is sent: of what it tells, not of when."""
    if item.digest is not None:
        told: list[Any] = [site_id, "digest", item.digest]
    else:
        one = item.notifications[0]
        told = [site_id, item.number, one.document, one.version]
    digest = blake2b(json.dumps(told).encode(), digest_size=16).hexdigest()
    return f"msg_{digest}"


def payload(item: Item) -> bytes:
    """The body of a call: the same bytes however often it is sent."""
    kind = "view" if item.notifications[0].statistics == NO_STATISTICS else "match"
    told = {"type": kind if item.digest is None else "digest", "timestamp": stamp(item.made)}
    return json.dumps(told | {"data": reading.as_json(item)}, ensure_ascii=False, separators=(",", ":")).encode()
