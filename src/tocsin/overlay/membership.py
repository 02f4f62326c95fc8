"""How the ring is kept together: join, leave, stabilise, notice the dead, hand keys over (Chord §4.4, §4.5, §5).

At each tick a node asks its successor for its neighbours. The question is a probe (unanswered ones mean death), tells
the successor that its predecessor lives, and brings back a nearer successor and the successor list: three duties of
Chord in one exchange.

A range changes hands in one message: whoever gives stops owning when it sends, whoever takes owns when everything has
arrived; between the two nobody acts as owner, and what arrives is held. So nothing is done twice, nothing is missed.

    joining    the new node finds its successor, claims its range and gets it in pages
    leaving    the node gives its range to its successor in pages, then tells its predecessor
    failing    the successor holds copies (`items`); it owns the range as soon as the next predecessor speaks up

One neighbour that falls silent is taken for dead: its successor has copies of all it had, and takes over. When more are
silent at a time (`losses_max`; neighbours tell each other whom they lost), a node cannot know whether they died or it
is cut off itself, and whoever is cut off misses what is stored elsewhere. So it doubts: it keeps its place but owns
nothing, until it hears the others again or `doubt_seconds` have passed; then it claims its range anew from its
successor. Nodes that were lost are asked now and then, so that rings that were split find each other.

A node gives only what it has. It knows the line of those before it (the one before it tells it); when its predecessor
is lost and somebody from further back claims, everybody whom that skips is silent, too, and the copies that the claimer
needs may be theirs alone. So the claimer is sent to the first of them that speaks; if too many are silent, it must wait
until one speaks or `doubt_seconds` have passed. Else a node that has copies of two ranges could hand over a third, of
which it has nothing, to a node that begins again with an empty disk. A leaver's range is refused for the same reason:
whoever took it would own all that lies between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

from tocsin.overlay.chord import Chord
from tocsin.overlay.key import BITS, MASK, Key, is_between
from tocsin.overlay.message import Address, Item, Message, Peer, message
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Send, Token, Wake

CONTACTS_MAX = 16
OTHER_KINDS = 0
"""Who is registered under this kind takes the items of every kind that nobody else has."""
SEARCH_TICKS = 5
"""A lost node is asked for the ring every so many ticks; at every tick while this one is not in order."""


@message(10)
@dataclass(frozen=True, slots=True)
class Stabilise(Message):
    """Who are your neighbours? I am before you."""

    sender: Peer
    is_ready: bool
    lost: tuple[Address, ...]  # neighbours that I do not hear any more
    before: tuple[Peer, ...]  # who is before me, nearest first; (): I have lost the one before me


@message(11)
@dataclass(frozen=True, slots=True)
class Neighbours(Message):
    """These."""

    sender: Peer
    predecessor: Peer | None
    successors: tuple[Peer, ...]
    lost: tuple[Address, ...]


@message(12)
@dataclass(frozen=True, slots=True)
class Claim(Message):
    """What lies before me is mine now: give it to me, from this item on."""

    sender: Peer
    cursor: int


@message(13)
@dataclass(frozen=True, slots=True)
class HandOver(Message):
    """Here is a page of what is in (low, the receiver]; or in (low, me], and I leave."""

    sender: Peer
    low: Peer | None
    cursor: int
    items: tuple[Item, ...]
    is_last: bool
    is_leaving: bool
    before: tuple[Peer, ...]  # who is before the range, nearest first, as far as I know


@message(14)
@dataclass(frozen=True, slots=True)
class Taken(Message):
    """I have it, up to this item."""

    sender: Peer
    cursor: int


@message(15)
@dataclass(frozen=True, slots=True)
class Leave(Message):
    """I am gone; these come after me."""

    sender: Peer
    successors: tuple[Peer, ...]


class Joined(NamedTuple):
    """Delivered when a node owns its range for the first time."""

    low: Peer | None


class Left(NamedTuple):
    """Delivered when a node has given everything away and may stop."""

    to: Peer | None


class Refused(NamedTuple):
    """Delivered when another node has the same key."""

    by: Peer


class Keyed(Protocol):
    """State of a component that belongs to keys and moves with them."""

    def items_in(self, low: Key, high: Key) -> Iterable[Item]:
        """What belongs to the keys in (low, high]."""

    def take(self, items: Sequence[Item], now: Seconds) -> None:
        """Adds what another node had."""


class Membership:
    """A node's place in the ring."""

    __slots__ = (
        "_before", "_contact", "_finger", "_giving", "_heard", "_leaving", "_left", "_lost", "_skipped", "_spoke",
        "_suspects", "_tick", "_told", "_unanswered", "chord", "contacts", "keyed", "me", "settings", "suspicions",
    )  # fmt: skip
    name = "membership"

    def __init__(self, chord: Chord, contacts: Iterable[Address] = ()) -> None:
        self.chord = chord
        self.me = chord.me
        self.settings = chord.settings
        self.contacts: list[Address] = [address for address in contacts if address != chord.me.address]
        self.keyed: dict[int, Keyed] = {}
        self._giving: tuple[Address, Peer | None, list[Item]] | None = None
        self._leaving: list[Item] | None = None
        self._heard: Seconds = 0.0
        self._unanswered = 0
        self.suspicions = 0  # how often a neighbour was taken for dead
        self._suspects: dict[Address, Seconds] = {}  # taken for dead, and until when
        self._left: dict[Address, Seconds] = {}
        self._lost: dict[Address, Seconds] = {}
        self._skipped: dict[Address, Seconds] = {}  # whom a claim would have skipped, and until when that counts
        self._spoke: dict[Address, tuple[Peer, Seconds]] = {}  # who would be before it, and when each last spoke
        self._before: tuple[Peer, ...] = ()  # the line of those before it, nearest first, as it was last known
        self._told: dict[Address, tuple[Address, ...]] = {}  # whom the two neighbours have lost
        self._finger = self._tick = self._contact = 0
        chord.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {
            Stabilise: self._on_stabilise, Neighbours: self._on_neighbours, Claim: self._on_claim,
            HandOver: self._on_hand_over, Taken: self._on_taken, Leave: self._on_leave,
        }  # fmt: skip

    # --- ticks -------------------------------------------------------------------------------------------------------

    def start(self, now: Seconds) -> list[Effect]:
        """Founds a ring if there is nobody to join, else begins to look for its place."""
        effects: list[Effect] = []
        if not self.contacts:
            self.chord.is_placed = self.chord.is_ready = True
            effects.append(Deliver(Joined(None)))
        # Nodes that start together should not all speak at once, and have no chance of their own: the key spreads them.
        first = now + self.settings.tick_seconds * (self.me.key % 1_000) / 1_000
        return [*effects, Wake(first, (self.name,)), *([] if self.chord.is_placed else self._search(now))]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """A tick."""
        if self.chord.is_gone:
            return []
        return [Wake(now + self.settings.tick_seconds, (self.name,)), *self.tick(now)]

    def tick(self, now: Seconds) -> list[Effect]:
        """Looks after the neighbours, a finger or two, and those that were lost."""
        self._tick += 1
        for gone in (self._suspects, self._left, self._lost, self._skipped):
            for address in [address for address, until in gone.items() if until <= now]:
                del gone[address]
                if gone is self._skipped:  # gone for good
                    self._before = tuple([peer for peer in self._before if peer.address != address])
        self._spoke = {address: one for address, one in self._spoke.items() if now - one[1] <= self._patience}
        effects = self._check_predecessor(now)
        if self._leaving is not None:
            effects += self._give_page(0)
        if self.chord.table.successors:
            effects += self._stabilise(now)
            if self.chord.is_placed:
                effects += self._fix_fingers(now)
        if not self.chord.is_ready or self._tick % SEARCH_TICKS == 0:
            effects += self._search(now)
        return effects

    def _check_predecessor(self, now: Seconds) -> list[Effect]:
        low = self.chord.predecessor
        if low is None or now - self._heard <= self._patience:
            return []
        return self._lose(low, now)

    @property
    def _patience(self) -> Seconds:
        """How long a neighbour may be silent."""
        return self.settings.tick_seconds * (self.settings.probes_missed_max + 1)

    def _stabilise(self, now: Seconds) -> list[Effect]:
        first = self.chord.table.successors[0]
        self._unanswered += 1
        if self._unanswered > self.settings.probes_missed_max:
            return self._lose(first, now)
        effects: list[Effect] = [self._probe(first)]
        if not self.chord.is_ready and self._may_claim():
            effects.append(Send(first.address, Claim(self.me, 0)))
        return effects

    def _probe(self, first: Peer) -> Send:
        before = self._before if self.chord.predecessor is not None else ()
        return Send(first.address, Stabilise(self.me, self.chord.is_ready, tuple(self._lost), before))

    def _neighbours(self, to: Peer) -> Send:
        lost = tuple(self._lost)
        return Send(to.address, Neighbours(self.me, self.chord.predecessor, self.chord.table.successors, lost))

    def _fix_fingers(self, now: Seconds) -> list[Effect]:
        """Low ones first: a lookup of finger i uses fingers below i only, so one round mends all (Chord §4.4)."""
        effects: list[Effect] = []
        for _ in range(self.settings.fingers_per_tick):
            self._finger += 1
            if not self.chord.table.first_finger() <= self._finger < BITS:
                self._finger = self.chord.table.first_finger()
                for bit in [bit for bit in self.chord.table.fingers if bit < self._finger]:
                    self.chord.table.set_finger(bit, None)
            if self._finger < BITS:
                effects += self._fix_finger(self._finger, now)
        return effects

    def _fix_finger(self, bit: int, now: Seconds) -> list[Effect]:
        def fixed(owner: Peer | None, hops: int, now: Seconds) -> list[Effect]:
            self.chord.table.set_finger(bit, owner)
            return []

        return self.chord.find_place((self.me.key + (1 << bit)) & MASK, now, fixed)

    # --- the dead and the lost ---------------------------------------------------------------------------------------

    def is_suspect(self, peer: Peer) -> bool:
        """Whether a node was taken for dead, or left, not long ago."""
        return peer.address in self._suspects or peer.address in self._left

    def _lose(self, peer: Peer, now: Seconds) -> list[Effect]:
        """A neighbour is taken for dead."""
        self._suspects[peer.address] = now + self.settings.suspicion_seconds
        self.suspicions += 1
        self._remember(peer.address)
        chord = self.chord
        if chord.predecessor is not None and chord.predecessor.address == peer.address:
            chord.predecessor = None
        if chord.table.forget(peer.address):
            self._unanswered = 0
        if not chord.table.successors:
            rest = [*chord.table.known(), *([chord.predecessor] if chord.predecessor else [])]
            chord.table.set_successors([one for one in rest if not self.is_suspect(one)])
        self._lost[peer.address] = now + self.settings.doubt_seconds
        if not chord.table.successors or self._is_in_doubt():
            chord.is_ready = False
        return [] if chord.table.successors else self._search(now)

    def _is_in_doubt(self) -> bool:
        """Whether so many neighbours are silent that it may be this node that is cut off."""
        near = [peer.address for peer in (self.chord.predecessor, *self.chord.table.successors[:1]) if peer is not None]
        told = [address for neighbour in near for address in self._told.get(neighbour, ())]
        return len({*self._lost, *told}.difference(near, self._left, [self.me.address])) > self.settings.losses_max

    def _hear(self, sender: Peer, lost: tuple[Address, ...] | None = None) -> None:
        """A neighbour speaks: it is not lost; and it says whom it has lost itself."""
        self._lost.pop(sender.address, None)
        self._skipped.pop(sender.address, None)
        near = [peer.address for peer in (self.chord.predecessor, *self.chord.table.successors[:1]) if peer is not None]
        self._told = {address: told for address, told in self._told.items() if address in near}
        if lost is not None and sender.address in near:
            self._told[sender.address] = lost
        if self.chord.is_ready and self._is_in_doubt():
            self.chord.is_ready = False

    def _remember(self, address: Address) -> None:
        if address != self.me.address and address not in self.contacts:
            self.contacts = [*self.contacts, address][-CONTACTS_MAX:]

    def _search(self, now: Seconds) -> list[Effect]:
        """Asks a contact for this node's successor: a place in the ring, or proof that there is another ring."""
        if not self.contacts:
            return []
        self._contact = (self._contact + 1) % len(self.contacts)

        def found(owner: Peer | None, hops: int, now: Seconds) -> list[Effect]:
            return [] if owner is None or owner.address == self.me.address else self._consider(owner)

        after = (self.me.key + 1) & MASK  # not its own key: the ring may still believe in its former life
        return self.chord.find_place(after, now, found, self.contacts[self._contact])

    def _consider(self, peer: Peer) -> list[Effect]:
        """A node that may be nearer than the successor."""
        if peer.key == self.me.key:
            return [Deliver(Refused(peer))]
        first = self.chord.table.successors[:1]
        if first and not is_between(peer.key, self.me.key, (first[0].key - 1) & MASK):
            return []
        self._suspects.pop(peer.address, None)
        return self._set_successors([peer, *self.chord.table.successors])

    def _set_successors(self, peers: Iterable[Peer]) -> list[Effect]:
        if not self.chord.table.set_successors(peers):
            return []
        self._unanswered = 0
        first = self.chord.table.successors[:1]
        return [self._probe(one) for one in first]

    # --- neighbours --------------------------------------------------------------------------------------------------

    def _set_predecessor(self, peer: Peer | None, now: Seconds) -> list[Effect]:
        self.chord.predecessor = peer
        self._heard = now
        if peer is not None:
            self._line_up(peer, self._before)
        return self.chord.release(now)

    def _line_up(self, first: Peer, before: Iterable[Peer]) -> None:
        """Who is before this node: the predecessor, and those further back."""
        further = [peer for peer in before if is_between(peer.key, self.me.key, (first.key - 1) & MASK)]
        self._before = (first, *further)[: self.settings.replicas]

    def _skips(self, sender: Peer, now: Seconds) -> bool:
        """Whether too many were known to be between a node and this one, and are silent."""
        line = [peer for peer in self._before if is_between(peer.key, sender.key, (self.me.key - 1) & MASK)]
        silent = [peer.address for peer in line if peer.address not in self._left and peer.address not in self._spoke]
        for address in silent:
            self._skipped.setdefault(address, now + self.settings.doubt_seconds)
        return len(silent) > self.settings.losses_max

    def _between(self, sender: Peer) -> Peer | None:
        """The first after a node that wants to be before this one, too: its copies are the ones to ask for."""
        alive = [peer for peer, _ in self._spoke.values() if peer.address not in self._left]
        found = [peer for peer in alive if is_between(peer.key, sender.key, (self.me.key - 1) & MASK)]
        return min(found, key=lambda peer: (peer.key - sender.key) & MASK, default=None)

    def _hear_of(self, before: tuple[Peer, ...]) -> None:
        """The node before this one names those before it: they are not silent."""
        self._line_up(self._before[0], before)
        for peer in before:
            self._skipped.pop(peer.address, None)

    def _on_stabilise(self, message: Stabilise, now: Seconds) -> list[Effect]:
        sender, chord = message.sender, self.chord
        if chord.is_gone:  # it has been told, but did not hear
            return [Send(sender.address, Leave(self.me, chord.table.successors))]
        if not chord.is_placed or sender.address in self._left:  # what a leaver said before may come after
            return []
        self._suspects.pop(sender.address, None)
        self._spoke[sender.address] = sender, now
        effects: list[Effect] = []
        if not chord.table.successors:  # alone, or cut off
            effects += self._set_successors([sender])
        if message.is_ready or chord.predecessor == sender:
            if chord.predecessor is None:
                effects += self._set_predecessor(sender, now)
            elif chord.predecessor.address == sender.address:
                self._heard = now
            if chord.predecessor == sender and message.before:
                self._hear_of(message.before)
        self._hear(sender, message.lost)
        return [self._neighbours(sender), *effects]

    def _on_neighbours(self, message: Neighbours, now: Seconds) -> list[Effect]:
        first, low = message.sender, message.predecessor
        if first.address not in [peer.address for peer in self.chord.table.successors[:1]] or self.chord.is_gone:
            return []
        self._unanswered = 0
        self._hear(first, message.lost)
        if low is not None and low.key == self.me.key and low.address != self.me.address:
            return [Deliver(Refused(low))]
        is_nearer = low is not None and low != self.me and is_between(low.key, self.me.key, (first.key - 1) & MASK)
        if is_nearer and low is not None and self.is_suspect(low):
            return []
        nearer = [low] if is_nearer and low is not None else []
        peers = [*nearer, first, *(peer for peer in message.successors if not self.is_suspect(peer))]
        effects = self._set_successors(peers)
        if nearer or (low is not None and low.address == self.me.address) or not self._may_claim():
            return effects
        return [*effects, Send(first.address, Claim(self.me, 0))]

    def _may_claim(self) -> bool:
        return self._leaving is None and not self._is_in_doubt()

    # --- a range changes hands ---------------------------------------------------------------------------------------

    def _items(self, low: Key, high: Key) -> list[Item]:
        return list(chain.from_iterable(keyed.items_in(low, high) for keyed in self.keyed.values()))

    def _take(self, items: Iterable[Item], now: Seconds) -> None:
        by_kind: dict[int, list[Item]] = {}
        for item in items:
            by_kind.setdefault(item.kind, []).append(item)
        for kind, some in by_kind.items():
            keyed = self.keyed.get(kind) or self.keyed.get(OTHER_KINDS)
            if keyed is not None:
                keyed.take(some, now)

    def _page(self, to: Key, items: list[Item], low: Peer | None, cursor: int, is_leaving: bool) -> HandOver:
        end = cursor + self.settings.page_items_max
        before = tuple([peer for peer in self._before if is_between(peer.key, self.me.key, (to - 1) & MASK)])
        return HandOver(self.me, low, cursor, tuple(items[cursor:end]), end >= len(items), is_leaving, before)

    def _on_claim(self, message: Claim, now: Seconds) -> list[Effect]:
        sender, chord, effects = message.sender, self.chord, list[Effect]()
        if not chord.is_placed or chord.is_gone or sender.address in (self.me.address, *self._left):
            return []
        self._spoke[sender.address] = sender, now
        self._hear(sender)
        # A leaver gives, too: else two leavers and the node between them, which must claim, wait for each other.
        if self._is_in_doubt():  # what it has may not be all
            return []
        if sender.key == self.me.key:
            return [Send(sender.address, Neighbours(self.me, self.me, (), ()))]
        if chord.predecessor is None and (refusal := self._refuse_skipping(sender, now)) is not None:
            return refusal
        low = chord.predecessor
        is_alone = low is None and not chord.table.successors
        if low is not None and low.address == sender.address:
            if message.cursor == 0:  # it has been here before: it lost its memory, or was in doubt
                self._giving = sender.address, None, self._items(self.me.key, sender.key)
        elif low is None or is_between(sender.key, low.key, self.me.key):
            # Not only what lies in its range: it is the next replica of those before it from now on.
            self._giving = sender.address, self.me if is_alone else low, self._items(self.me.key, sender.key)
            effects += self._set_predecessor(sender, now)
            if is_alone:
                effects += self._set_successors([sender])
        else:
            return [self._neighbours(sender)]
        self._heard = now
        if self._giving is None or self._giving[0] != sender.address:
            return effects
        page = self._page(sender.key, self._giving[2], self._giving[1], message.cursor, False)
        return [Send(sender.address, page), *effects]

    def _refuse_skipping(self, sender: Peer, now: Seconds) -> list[Effect] | None:
        """What a node is told that would be before this one, but others are, or may be; None: it may be."""
        if (nearer := self._between(sender)) is not None:
            return [Send(sender.address, Neighbours(self.me, nearer, self.chord.table.successors, tuple(self._lost)))]
        return [] if self._skips(sender, now) else None

    def _on_hand_over(self, message: HandOver, now: Seconds) -> list[Effect]:
        return self._take_from_leaver(message, now) if message.is_leaving else self._take_claimed(message, now)

    def _take_claimed(self, message: HandOver, now: Seconds) -> list[Effect]:
        chord, low = self.chord, message.low
        if message.sender.address not in [peer.address for peer in chord.table.successors[:1]] or chord.is_gone:
            return []
        self._take(message.items, now)
        if not message.is_last:
            return [Send(message.sender.address, Claim(self.me, message.cursor + len(message.items)))]
        effects: list[Effect] = []
        if not self._before:
            self._before = message.before[: self.settings.replicas]
        if low is not None and low.address != self.me.address and not self.is_suspect(low):
            mine = chord.predecessor
            if mine is None or is_between(low.key, mine.key, (self.me.key - 1) & MASK):
                chord.predecessor, self._heard = low, now
                self._line_up(low, self._before)
        if not chord.is_ready and self._may_claim():
            effects = [] if chord.is_placed else [Deliver(Joined(low))]
            chord.is_placed = chord.is_ready = True
            effects.append(self._probe(message.sender))
        return [*effects, *chord.release(now)]

    # --- leaving -----------------------------------------------------------------------------------------------------

    def leave(self, now: Seconds) -> list[Effect]:
        """Gives everything to the successor; `Left` is delivered when it may stop."""
        chord = self.chord
        if self._leaving is not None or chord.is_gone:
            return []
        if not chord.is_placed or not chord.table.successors:
            return self._gone(now)
        low = chord.predecessor
        chord.is_ready = False
        self._leaving = self._items((low or self.me).key, self.me.key)
        return self._give_page(0)

    def _give_page(self, cursor: int) -> list[Effect]:
        first = self.chord.table.successors[:1]
        page = self._page(self.me.key, self._leaving or [], self.chord.predecessor, cursor, True)
        return [Send(peer.address, page) for peer in first]

    def _take_from_leaver(self, message: HandOver, now: Seconds) -> list[Effect]:
        chord, sender, mine = self.chord, message.sender, self.chord.predecessor
        if not chord.is_ready or (
            mine is not None and mine != sender and not is_between(sender.key, mine.key, self.me.key)
        ):
            return []
        if mine is None and (refusal := self._refuse_skipping(sender, now)) is not None:
            return refusal  # the ranges between would come with it, and their copies are elsewhere
        self._take(message.items, now)
        effects: list[Effect] = [Send(sender.address, Taken(self.me, message.cursor + len(message.items)))]
        if message.is_last:
            self._left[sender.address] = now + self.settings.suspicion_seconds
            if mine in (None, sender):  # else the ring has gone on without it already
                low = message.low
                if low is not None and low.address == self.me.address:  # there were two
                    chord.table.forget(sender.address)
                    low = None
                self._before = message.before[: self.settings.replicas]
                effects += self._set_predecessor(low, now)
        return effects

    def _on_taken(self, message: Taken, now: Seconds) -> list[Effect]:
        if self._leaving is None or self.chord.is_gone:
            return []
        if message.cursor < len(self._leaving):
            return self._give_page(message.cursor)
        return self._gone(now)

    def _gone(self, now: Seconds) -> list[Effect]:
        chord = self.chord
        chord.is_ready, chord.is_gone = False, True
        low, after = chord.predecessor, chord.table.successors
        effects: list[Effect] = [] if low is None else [Send(low.address, Leave(self.me, after))]
        return [*effects, *chord.release(now), Deliver(Left(after[0] if after else None))]

    def _on_leave(self, message: Leave, now: Seconds) -> list[Effect]:
        gone = message.sender.address
        if gone not in [peer.address for peer in self.chord.table.successors]:
            return []
        self._left[gone] = now + self.settings.suspicion_seconds
        rest = [peer for peer in (*self.chord.table.successors, *message.successors) if peer.address != gone]
        self.chord.table.forget(gone)
        return self._set_successors(peer for peer in rest if not self.is_suspect(peer))
