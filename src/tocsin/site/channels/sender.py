"""Sends what subscriptions have to tell to mailboxes and services, and tells the dispatcher what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from tocsin.site.channels import links
from tocsin.site.channels.address import MAIL, NO_MAIL_SERVICE, Target, target_of
from tocsin.site.channels.digest import Message, compose
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.channels.telling import Telling, Told, told_of
from tocsin.site.delivery.caller import Answer
from tocsin.site.harvest.apart import Apart, ApartError
from tocsin.store import Store, channels
from tocsin.store.inbox import Item

SEND_CHILD = "tocsin.site.channels.send_child"
TAKEN = 200  # as a webhook that took its item answers


class ChannelSender:
    """Sends messages; its processes are started when they are first needed. Used within one event loop."""

    def __init__(self, store: Store, settings: ChannelSettings) -> None:
        self._store = store
        self._settings = settings
        guard = ("private",) if settings.channel_allows_private else ()
        most = settings.channel_sender_bytes_max
        self._child = Apart(SEND_CHILD, settings.channel_senders, most, guard)
        self._mail = Apart(SEND_CHILD, settings.channel_senders, most, ("private",))
        """For the administrator's own mail server, which may be anywhere."""

    async def send(self, stored: str, items: Sequence[Item], id: str) -> Answer:
        """Tells the items (of one subscription or several) in one message; the same id is the same message."""
        target = target_of(stored)
        message, unsubscribe = await asyncio.to_thread(self._composed, target, items)
        return await self._sent(target, message, id, unsubscribe)

    def _composed(self, target: Target, items: Sequence[Item]) -> tuple[Message, str | None]:
        settings, store = self._settings, self._store
        most = settings.mail_items_max if target.kind == MAIL else settings.chat_items_max
        told = told_of(store, items, most)
        if len(told) == 1 or target.kind != MAIL:
            unsubscribe = links.unsubscribe_link(store, settings, told[0].number) if len(told) == 1 else None
            return compose(told, settings, unsubscribe), unsubscribe
        told = [one._replace(stop=links.unsubscribe_link(store, settings, one.number)) for one in told]
        saved = channels.saved_at(store, items[0].account, MAIL, target.address)
        unsubscribe = None if saved is None else links.stop_link(store, settings, saved)
        return compose(told, settings, unsubscribe), unsubscribe

    async def send_message(self, target: Target, message: Message, id: str) -> Answer:
        """Sends a message that is about no subscription."""
        return await self._sent(target, message, id, None)

    async def send_test(self, target: Target) -> Answer:
        """A message that shows whether the channel works."""
        example = Telling(
            "test", 1, "This is a test", None, "Tocsin", None, "If you can read this, it works.", 1.0, 0.0
        )
        message = compose([Told(0, "test", "A test of this channel", (example,))], self._settings)
        id = blake2b(f"test {target.stored}".encode(), digest_size=16).hexdigest()
        return await self._sent(target, message, f"test_{id}", None)

    async def _sent(self, target: Target, message: Message, id: str, unsubscribe: str | None) -> Answer:
        if target.kind == MAIL and self._settings.mail_url is None:
            return Answer(None, "this site sends no mail any more (mail_url)")
        if target.is_mail_service:
            return Answer(None, NO_MAIL_SERVICE)
        url = target.address if target.kind != MAIL else mail_to(self._settings.mail_url or "", target.address)
        is_mail = url.lower().startswith(("mailto://", "mailtos://"))
        most = self._settings.chat_characters_max
        text = message.text if is_mail or len(message.text) <= most else message.text[: most - 1] + "…"
        asked = {"url": url, "subject": message.subject, "text": text, "html": message.html, "id": id}
        try:
            child = self._mail if target.kind == MAIL else self._child
            answer = await child.ask(asked | {"unsubscribe": unsubscribe}, b"", self._settings.channel_timeout_seconds)
        except ApartError as error:
            # What a crash says could hold the address; that it took too long cannot.
            said = str(error)
            return Answer(None, f"sending {said}" if said.startswith(("took", "failed")) else "sending failed")
        return Answer(TAKEN) if answer.get("sent") else Answer(None, f"not taken: {answer.get('why')}"[:500])

    async def close(self) -> None:
        """Ends its processes."""
        await self._child.close()
        await self._mail.close()


def mail_to(server: str, mailbox: str) -> str:
    """The mail server's address with this mailbox as the only one that gets the message."""
    parts = urlsplit(server)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name.lower() not in ("to", "cc", "bcc")]
    return urlunsplit(parts._replace(path=f"/{quote(mailbox, safe='@')}", query=urlencode(kept)))
