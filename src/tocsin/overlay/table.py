"""A node's routing table: its successors and its fingers (Chord §4.3).

Finger i is the owner of the key 2^i steps ahead. Most of the 64 are the same few nodes, so a node knows about log2 N
others, whatever is stored on the ring. A message goes to the known node that most closely precedes its key; each hop
halves what is left, on average in half of the hops: about ½ log2 N of them until the owner's predecessor is reached.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tocsin.overlay.key import BITS, MASK, Key
from tocsin.overlay.message import Address, Peer

BACK_STEPS = 4
"""A node that is taken for the owner and is not passes a message back to its predecessor, at most so often: its range
has just been cut by nodes that joined before it. Then the message takes the way through the fingers again."""


class Table:
    """The other nodes that a node knows, nearest first (clockwise)."""

    __slots__ = ("_after", "_peers", "_reach", "fingers", "me", "successors", "successors_max")

    def __init__(self, me: Peer, successors_max: int) -> None:
        self.me = me
        self._after = me.key + 1
        self.successors_max = successors_max
        self.successors: tuple[Peer, ...] = ()
        self.fingers: dict[int, Peer] = {}
        self._reach = array("Q")
        self._peers: tuple[Peer, ...] = ()

    def settle(self, successors: tuple[Peer, ...], peers: tuple[Peer, ...], reach: array[int]) -> None:
        """Takes a finished table: successor and distinct fingers with their distances, nearest first (`sim.ring`)."""
        self.successors, self._peers, self._reach = successors, peers, reach

    def next_hop(self, key: Key, attempt: int = 0) -> tuple[Peer | None, int]:
        """Where a message goes next, and whether that should be the owner (BACK_STEPS) or only nearer to it (0)."""
        reach = self._reach
        if not reach:
            return None, 0
        ahead = (key - self._after) & MASK  # one less than the distance; my own key is a whole round away
        if ahead < reach[0]:
            return self._peers[0], BACK_STEPS
        at = bisect_left(reach, ahead + 1) - 1
        if attempt:  # the closest may be dead: another attempt takes another way
            at = max(0, at - attempt % 3)
        return self._peers[at], 0

    def set_successors(self, peers: Iterable[Peer]) -> bool:
        """The nearest of these; whether the first has changed."""
        me = self.me.key
        near = {(peer.key - me) & MASK: peer for peer in peers if peer.key != me}
        chosen = tuple([near[far] for far in sorted(near)[: self.successors_max]])
        if chosen == self.successors:
            return False
        changed = chosen[:1] != self.successors[:1]
        self.successors = chosen
        if changed:
            self._index()
        return changed

    def set_finger(self, bit: int, peer: Peer | None) -> None:
        """The owner of the key 2^bit ahead, or nobody known."""
        if self.fingers.get(bit) == peer:
            return
        if peer is None or peer.key == self.me.key:
            self.fingers.pop(bit, None)
        else:
            self.fingers[bit] = peer
        self._index()

    def forget(self, address: Address) -> bool:
        """Removes a node everywhere; whether it was the first successor."""
        for bit in [bit for bit, peer in self.fingers.items() if peer.address == address]:
            del self.fingers[bit]
        changed = self.set_successors([peer for peer in self.successors if peer.address != address])
        self._index()
        return changed

    def first_finger(self) -> int:
        """Fingers below this one are the successor itself."""
        return self._reach[0].bit_length() if self._reach else BITS

    def known(self) -> Sequence[Peer]:
        """Nodes that messages are routed to."""
        return self._peers

    def size(self) -> int:
        """How many different nodes are known."""
        return len({peer.address for peer in (*self._peers, *self.successors)})

    def _index(self) -> None:
        me = self.me.key
        near = {(peer.key - me) & MASK: peer for peer in (*self.successors[:1], *self.fingers.values())}
        order = sorted(near)
        self._reach = array("Q", order)
        self._peers = tuple([near[far] for far in order])
