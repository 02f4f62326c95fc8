"""FCache: which node answered for a key the last time (DHTrie, "Content-Based Multicasting").

Bounded, the least recently used key goes first. It learns from receipts that come anyway and is corrected by them; no
message is ever sent for its sake. A key takes its place when it is used, not when it is learned: so what is kept
depends on what was sent, not on which receipt happened to be first.
"""

from __future__ import annotations

from tocsin.overlay.key import Key
from tocsin.overlay.message import Address


class FCache:
    """Often-used keys and the addresses of their owners."""

    __slots__ = ("_entries", "entries_max", "hits", "misses")

    def __init__(self, entries_max: int) -> None:
        self.entries_max = entries_max
        self.hits = self.misses = 0
        self._entries: dict[Key, Address] = {}  # oldest use first; "" where no receipt has come yet

    def use(self, key: Key) -> Address:
        """The owner's address if it is known, else ""; the key is now the most recently used."""
        address = self._entries.pop(key, "")
        self._entries[key] = address
        if address:
            self.hits += 1
        else:
            self.misses += 1
            if len(self._entries) > self.entries_max:
                del self._entries[next(iter(self._entries))]
        return address

    def learn(self, key: Key, address: Address) -> None:
        """A receipt says who owns a key."""
        if key in self._entries:
            self._entries[key] = address

    def doubt(self, key: Key) -> None:
        """No receipt came: the address may be dead."""
        if key in self._entries:
            self._entries[key] = ""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return bool(self._entries.get(key))
