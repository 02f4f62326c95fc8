"""What goes into one message: all that waits for one mailbox or room of an account, over its subscriptions.

So the digests that are made at eight o'clock are one mail, and a burst of matches is one, not a flood. What a message
holds is written down before it is sent: one that is sent again, after whatever crash, is the same under the same id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from tocsin.store import Store, channels, inbox, webhooks
from tocsin.store.channels import Part
from tocsin.store.inbox import Item
from tocsin.store.webhooks import Hook

ITEMS = 100  # of one subscription in one message


@dataclass(frozen=True, slots=True)
class Bundle:
    """A message that was begun: its id, whose items it tells, and which."""

    id: str
    parts: tuple[Part, ...]
    items: tuple[Item, ...]


def gathered(store: Store, site_id: str, hook: Hook, reached: Mapping[int, int]) -> Bundle | None:
    """The message that a subscription's next items belong to: the one that was begun, or a new one; None: no items.

    `reached` holds the cursors that were told but are not noted in the store yet.
    """
    begun = channels.message_with(store, hook.subscription)
    if begun is not None:
        left = _untold(store, hook.url, begun[1], reached)
        items = [item for part in left for item in _items(store, part)]
        if items:
            return Bundle(begun[0], tuple(left), tuple(items))
        channels.end_message(store, begun[0])
    found = {
        number: max(cursor, reached.get(number, 0))
        for number, cursor in channels.companions(store, hook.account, hook.url)
    }
    found.setdefault(hook.subscription, max(hook.cursor, reached.get(hook.subscription, 0)))
    parts, items = [], []
    for number, cursor in found.items():
        if number != hook.subscription and channels.message_with(store, number) is not None:
            continue  # its items belong to a message that waits to be tried again
        new = inbox.items(store, subscription=number, after=cursor, limit=ITEMS)
        if new:
            parts.append(Part(number, cursor, new[-1].cursor))
            items += new
    if not parts:
        return None
    told = json.dumps([site_id, *((part.subscription, part.upto) for part in parts)])
    bundle = Bundle(f"msg_{blake2b(told.encode(), digest_size=16).hexdigest()}", tuple(parts), tuple(items))
    channels.begin_message(store, bundle.id, bundle.parts)
    return bundle


def _untold(store: Store, url: str, parts: Sequence[Part], reached: Mapping[int, int]) -> list[Part]:
    """Those of a message's parts that are still to be told at this address, however many else are told there."""
    found = webhooks.hooks_of(store, [part.subscription for part in parts])
    return [
        part
        for part in parts
        if (own := found.get(part.subscription)) is not None
        and own.url == url
        and part.upto > max(own.cursor, reached.get(part.subscription, 0))
    ]


def _items(store: Store, part: Part) -> list[Item]:
    found = inbox.items(store, subscription=part.subscription, after=part.after, limit=ITEMS)
    return [item for item in found if item.cursor <= part.upto]
