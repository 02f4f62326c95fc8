"""Channels that an account keeps: mailboxes, which confirm before anything is told there, and services; test sends.

Whoever names a mailbox may not own it. So it gets one mail that holds nothing but a link, and no alert before that
link's button was pressed. Mailboxes are asked rarely, whatever accounts name them, and never again by a site that
their reader wants nothing of.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from tocsin.site import accounts, life
from tocsin.site.accounts import Account
from tocsin.site.channels import links
from tocsin.site.channels.address import MAIL, Target, channel_of, is_channel, target_of
from tocsin.site.channels.digest import Message
from tocsin.site.channels.sender import ChannelSender
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.delivery.caller import Answer
from tocsin.site.delivery.caller import Caller as Hooks
from tocsin.site.delivery.signature import headers
from tocsin.site.moments import stamp
from tocsin.site.problems import Conflict, Invalid, NotFound, OverQuota, Problem, TooFast
from tocsin.store import Store, channels, journal, webhooks
from tocsin.store.channels import Asked, Saved
from tocsin.store.connect import packed
from tocsin.store.webhooks import Hook

if TYPE_CHECKING:
    from tocsin.site.site import Site

NAME_CHARACTERS_MAX = 200
SAVED_MAX = 100
TESTS_PER_SECOND = 0.5  # of one account; the first five are let through
_lock = threading.Lock()
_under_way: set[tuple[int, str]] = set()
"""(site, account) of the tests that are being sent."""


# --- keeping ---------------------------------------------------------------------------------------------------------


def add(site: Site, account: Account, body: object) -> Saved:
    """Keeps a channel of `{"kind": "mail", "to", "name"?}` or `{"kind": "apprise", "url", "name"?}`.

    A mailbox is asked to confirm at once.
    """
    if not isinstance(body, Mapping):
        raise Invalid('a channel is an object, such as {"kind": "mail", "to": "ann@example.org"}', field="kind")
    name = _name(body.get("name"))
    settings = site.settings.channels
    target = channel_of({key: value for key, value in body.items() if key != "name"}, settings)
    if len(channels.saved_of(site.store, account.name)) >= SAVED_MAX:
        raise OverQuota(f"an account keeps at most {SAVED_MAX} channels: remove one that is not used")
    if channels.saved_at(site.store, account.name, target.kind, target.address) is not None:
        raise Conflict("this channel is saved already", field="to" if target.kind == MAIL else "url")
    needs_word = target.kind == MAIL and settings.mail_needs_confirmation
    if needs_word:
        _check_may_ask(channels.asked_of(site.store, target.address), settings)
    made = channels.save(
        site.store, account.name, target.kind, target.address, name=name or target.shown, is_confirmed=not needs_word
    )
    if made is None:
        raise Conflict("this channel is saved already", field="to" if target.kind == MAIL else "url")
    journal.note(site.store, account.name, "add channel", str(made.number))
    return ask(site, account, made.number) if needs_word else made


def listed(site: Site, account: Account) -> list[Saved]:
    """The account's channels, oldest first."""
    return channels.saved_of(site.store, account.name)


def get(site: Site, account: Account, number: int) -> Saved:
    """One of the account's own; NotFound."""
    found = channels.find_saved(site.store, number)
    if found is None or found.account != account.name:
        raise NotFound(f"there is no channel {number}")
    return found


def remove(site: Site, account: Account, number: int) -> list[str]:
    """Forgets a channel; the subscriptions that it told go on in the inbox. Returns their ids."""
    one = get(site, account, number)
    ended = links.end_messages(site, account, target_in(one).stored)
    channels.drop_saved(site.store, account.name, number)
    journal.note(site.store, account.name, "remove channel", str(number))
    return ended


def target_in(one: Saved) -> Target:
    """Where it leads."""
    return Target(one.kind, one.address)


def wanted(one: Saved) -> dict[str, str]:
    """As it is written into a subscription of its own account: whole, so not to be shown."""
    return {"kind": one.kind, "to" if one.kind == MAIL else "url": one.address}


def as_json(one: Saved) -> dict[str, Any]:
    """As the API answers it: without secrets."""
    return {
        "number": one.number,
        **target_in(one).as_json(),
        "name": one.name,
        "state": state(one),
        "created": stamp(one.created),
        "confirmed": stamp(one.confirmed),
        "last_test": stamp(one.tried),
        "problem": one.problem,
    }


def state(one: Saved) -> str:
    """ready, waiting (for its reader's word) or failing."""
    if one.confirmed is None:
        return "waiting"
    return "failing" if one.problem else "ready"


def _name(value: object) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > NAME_CHARACTERS_MAX or not value.isprintable():
        raise Invalid(f"a name has at most {NAME_CHARACTERS_MAX} printable characters", field="name")
    return value.strip() or None


# --- the word of whoever reads a mailbox -----------------------------------------------------------------------------


def ask(site: Site, account: Account, number: int) -> Saved:
    """Sends the mail that asks whether alerts may come; TooFast if the mailbox was asked not long ago."""
    one = get(site, account, number)
    if one.kind != MAIL or one.confirmed is not None:
        raise Conflict("this channel is confirmed")
    _in_sender(site, lambda sender: asked_by(site.store, site.settings.channels, sender, one))
    return get(site, account, number)


async def save_and_ask(
    store: Store, settings: ChannelSettings, sender: ChannelSender, account: str, address: str
) -> None:
    """Keeps a mailbox that a subscription names, and asks it to confirm; why it is not asked stands with it."""
    is_confirmed = not settings.mail_needs_confirmation
    made = await asyncio.to_thread(
        channels.save, store, account, MAIL, address, name=address, is_confirmed=is_confirmed
    )
    if made is None or is_confirmed:
        return
    try:
        await asked_by(store, settings, sender, made)
    except Problem as problem:
        await asyncio.to_thread(channels.set_saved, store, made.number, problem=problem.message)


async def asked_by(store: Store, settings: ChannelSettings, sender: ChannelSender, one: Saved) -> Answer:
    """Asks a mailbox, if it may be asked now; what was not taken does not count."""
    now = time.time()
    before = await asyncio.to_thread(channels.asked_of, store, one.address)
    _check_may_ask(before, settings)
    today = await asyncio.to_thread(channels.asked_since, store, one.account, now - 86_400.0)
    if today >= settings.mail_asks_per_day_max:
        raise TooFast(
            f"the account has asked {today} mailboxes today (mail_asks_per_day_max)", retry_after_seconds=86_400.0
        )
    again = before is not None and now - before.asked < settings.mail_asks_forgotten_seconds
    after = Asked(one.account, now, (before.asks if before is not None and again else 0) + 1, None)
    if not await asyncio.to_thread(channels.note_ask, store, one.address, before, after):
        raise TooFast("it is being asked", retry_after_seconds=settings.mail_ask_wait_seconds)
    await asyncio.to_thread(journal.note, store, one.account, "ask mailbox", str(one.number))
    message = _question(store, settings, one)
    answer = await sender.send_message(target_in(one), message, f"ask_{secrets.token_hex(16)}")
    problem = None if answer.is_taken else str(answer)
    await asyncio.to_thread(channels.set_saved, store, one.number, tried=now, problem=problem)
    if not answer.is_taken:
        await asyncio.to_thread(
            channels.note_ask, store, one.address, after, Asked(one.account, 0.0, after.asks - 1, None)
        )
    return answer


def _check_may_ask(before: Asked | None, settings: ChannelSettings) -> None:
    if before is None:
        return
    if before.refused is not None:
        raise Invalid("whoever reads this mailbox wants no mail of this site", field="to")
    since = time.time() - before.asked
    wait = settings.mail_ask_wait_seconds - since
    if wait > 0:
        raise TooFast(
            f"this mailbox was asked a moment ago: look into it, or try again in {wait / 60:.0f} minutes",
            retry_after_seconds=wait,
        )
    if before.asks >= settings.mail_asks_max and since < settings.mail_asks_forgotten_seconds:
        raise TooFast(
            f"this mailbox was asked {before.asks} times and did not answer",
            retry_after_seconds=settings.mail_asks_forgotten_seconds - since,
        )


def _question(store: Store, settings: ChannelSettings, one: Saved) -> Message:
    """Holds nothing that a stranger could write: only the account's name, which the administrator gave."""
    code = confirm_code(store, one)
    where = f"the Tocsin at {settings.public_url}" if settings.public_url else "a Tocsin"
    first = f"The account “{one.account}” asks {where} to send its alerts to this mailbox."
    link = None if settings.public_url is None else f"{settings.public_url.rstrip('/')}/confirm/{code}"
    how = "If that is you, open this link and press the button:" if link else "If that is you, type this code there:"
    other = "If it is not you, you need do nothing: no alert will come."
    text = f"{first}\n\n{how}\n{link or code}\n\n{other}\n"
    shown = f'<a href="{escape(link, quote=True)}">{escape(link)}</a>' if link else f"<code>{escape(code)}</code>"
    html = f"<p>{escape(first)}</p><p>{escape(how)}<br>{shown}</p><p>{escape(other)}</p>"
    return Message("May Tocsin write to you?", text, f'<!DOCTYPE html><html lang="en"><body>{html}</body></html>')


def confirm_code(store: Store, one: Saved) -> str:
    """What proves that somebody read the mail: of this account, for this address, not for another of its number."""
    raw = one.number.to_bytes(8, "big")
    return links.written(raw + _proof(store, one))


def _proof(store: Store, one: Saved) -> bytes:
    return links.proof(store, b"confirm", "\0".join((str(one.number), one.account, one.address)).encode())


def with_code(store: Store, code: str) -> Saved:
    """The channel that a code is about; NotFound if it is none of ours."""
    raw = links.read(code.strip())
    if len(raw) == 8 + links.PROOF_BYTES:
        one = channels.find_saved(store, links.number_in(raw))
        if one is not None and hmac.compare_digest(raw[8:], _proof(store, one)):
            return one
    raise NotFound("this link is not in force any more")


def confirm(site: Site, code: str) -> Saved:
    """Alerts may come from now on."""
    one = with_code(site.store, code)
    if one.confirmed is None:
        channels.set_saved(site.store, one.number, confirmed=time.time(), problem=None)
        channels.note_answer(site.store, one.address, refused=None)
        journal.note(site.store, one.account, "confirm mailbox", str(one.number))
        site.noticed()
    return with_code(site.store, code)


def refuse(site: Site, code: str) -> Saved:
    """The site writes to this mailbox never again, whoever names it."""
    one = with_code(site.store, code)
    channels.note_answer(site.store, one.address, refused=time.time())
    journal.note(site.store, one.account, "mailbox refused", str(one.number))
    links.end_messages(site, accounts.find(site.store, one.account), target_in(one).stored)
    return with_code(site.store, code)


def may_tell(store: Store, settings: ChannelSettings, account: str, stored: str) -> bool:
    """May what is found be told there? Mailboxes must have confirmed."""
    target = target_of(stored)
    if target.kind != MAIL or not settings.mail_needs_confirmation:
        return True
    one = channels.saved_at(store, account, MAIL, target.address)
    return one is not None and one.confirmed is not None


# --- test sends ------------------------------------------------------------------------------------------------------


def test(site: Site, account: Account, number: int) -> Answer:
    """Sends a test to a channel, now."""
    one = get(site, account, number)
    if one.confirmed is None:
        raise Conflict("whoever reads this mailbox has not confirmed it yet: a test would be the first of a flood")
    with _testing(site, account):
        answer = _in_sender(site, lambda sender: sender.send_test(target_in(one)))
    channels.set_saved(site.store, number, tried=time.time(), problem=None if answer.is_taken else str(answer))
    return answer


def test_subscription(site: Site, account: Account, id: str) -> Answer:
    """Sends a test to wherever a subscription is told: a webhook gets a signed call of the type "test"."""
    kept = life.get(site, account, id)
    hook = webhooks.hook(site.store, kept.number)
    if hook is None:
        raise Conflict("this subscription is told in the inbox only", field="channel")
    if is_channel(hook.url) and not may_tell(site.store, site.settings.channels, account.name, hook.url):
        raise Conflict("whoever reads this mailbox has not confirmed it yet", field="channel")
    with _testing(site, account):
        answer = _tested(site, hook, id)
    if answer.is_taken and not is_channel(hook.url):
        webhooks.revive(site.store, kept.number)
    return answer


def _tested(site: Site, hook: Hook, id: str) -> Answer:
    if is_channel(hook.url):
        return _in_sender(site, lambda sender: sender.send_test(target_of(hook.url)))
    told = {"type": "test", "timestamp": stamp(time.time()), "data": {"subscription": id}}
    body = packed(told).encode()
    signed = headers(hook.secret, f"msg_test_{secrets.token_hex(12)}", int(time.time()), body)

    async def call() -> Answer:
        caller = Hooks(site.settings.delivery)
        try:
            return await caller.call(hook.url, signed, body)
        finally:
            await caller.close()

    return asyncio.run(call())


@contextmanager
def _testing(site: Site, account: Account) -> Iterator[None]:
    """One test of an account at a time, and not too many: each holds a thread until its place has answered."""
    own = (id(site), account.name)
    with _lock:
        if own in _under_way:
            raise TooFast("a test is being sent: wait for its answer", retry_after_seconds=1.0 / TESTS_PER_SECOND)
        site.buckets.take(f"test {account.name}", TESTS_PER_SECOND, 1, "test sends")
        _under_way.add(own)
    try:
        yield
    finally:
        with _lock:
            _under_way.discard(own)


def _in_sender(site: Site, do: Any) -> Answer:
    """Runs something with a sender of its own, in this thread."""

    async def run() -> Answer:
        sender = ChannelSender(site.store, site.settings.channels)
        try:
            answer: Answer = await do(sender)
            return answer
        finally:
            await sender.close()

    return asyncio.run(run())
