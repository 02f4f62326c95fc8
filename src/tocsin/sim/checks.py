"""What must never happen on the ring, and what must have happened once the faults are over.

A run has two phases. In the first anything may fail: machines, links, clocks; members come and go; messages are cast
and items stored all the while. Nothing may be wrong:

    phantom      a delivery that nobody sent
    twice        the same life of a node had a key of a message twice; or two nodes had it, though nobody was suspected
    blind        an owner had a message for a key, and did not hold what had been stored there before it was sent

In the second everything heals, and must converge:

    ring         predecessors, successors and lookups are those of the true ring
    silent       a key of a message that nobody had, though its sender lived on
    lost         an item that was acknowledged and is gone, though not all who held it lost their disks
    thin         an item without its copies
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tocsin.overlay import message as codec
from tocsin.overlay.chord import ChordSettings, Found
from tocsin.overlay.key import Key, hashed, host_of, virtual_addresses
from tocsin.overlay.member import CHORD, Member
from tocsin.overlay.message import Address, Item, Message, Peer, message, peer
from tocsin.overlay.multicast import Method, MulticastSettings
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.sim.faults import LIMITS, FaultLimits, Faults, Machine, draw_faults
from tocsin.sim.world import World

ITEM_KIND = 900


@message(900)
@dataclass(frozen=True, slots=True)
class Note(Message):
    """Something to cast; the number tells one from the other."""

    number: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is done on a ring while it is troubled."""

    members: int = 12
    virtual: int = 1
    fault_seconds: Seconds = 60.0
    heal_seconds: Seconds = 90.0
    casts_per_second: float = 1.0
    puts_per_second: float = 0.5
    words: int = 40
    limits: FaultLimits = LIMITS
    chord: ChordSettings = CHORD
    multicast: MulticastSettings = MulticastSettings(cache_entries_max=30)
    checks_blind: bool = True


@dataclass(slots=True)
class _Cast:
    sender: Address
    life: int
    keys: frozenset[Key]
    promised: dict[Key, set[Item]]  # what was safely stored under its keys before it was sent
    had: defaultdict[Key, list[tuple[Address, int]]] = field(default_factory=lambda: defaultdict(list))


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    faults: Faults
    violations: list[str] = field(default_factory=list)
    trace: str = ""
    casts: int = 0
    puts: int = 0
    suspicions: int = 0
    messages: int = 0

    def __str__(self) -> str:
        return "\n".join([str(self.faults), *self.violations])


class RingRun:
    """One run of a scenario under the faults of a seed."""

    def __init__(self, seed: int, scenario: Scenario, member: Callable[..., Member] = Member) -> None:
        self.scenario, self.member = scenario, member
        self.machines = [f"m{number}" for number in range(scenario.members)]
        faults = draw_faults(seed, self.machines, scenario.fault_seconds, scenario.limits)
        self.outcome = Outcome(faults)
        self.world = World(seed, faults=faults, decode=codec.decode)
        self.chance = Random(f"scenario {seed}")
        self.words = [hashed("word", f"{seed} {number}") for number in range(scenario.words)]
        self.casts: dict[int, _Cast] = {}
        self.safe: dict[Item, set[tuple[Address, int]]] = {}  # acknowledged items, and who held them (which disk)
        self.disk_lives: defaultdict[Address, int] = defaultdict(int)

    def run(self) -> Outcome:
        """Both phases, then the checks."""
        world, scenario = self.world, self.scenario
        world.observe = self._observe
        start = self._assemble()
        faults = self.outcome.faults
        world.faults = Faults(faults.seed, skews=faults.skews)  # the ring forms in peace, whatever its clocks say
        world.run(start)
        self._begin(start)
        world.run(start + scenario.fault_seconds)
        world.run(start + scenario.fault_seconds + scenario.heal_seconds)
        self._check_ring()
        self._check_casts()
        self._check_items()
        outcome = self.outcome
        outcome.trace, outcome.casts, outcome.puts = world.trace(), len(self.casts), len(self.safe)
        outcome.messages = sum(world.count()[0].values())
        return outcome

    # --- the ring ----------------------------------------------------------------------------------------------------

    def _assemble(self) -> Seconds:
        for number, machine in enumerate(self.machines):
            self.world.at(number * 0.5, lambda world, machine=machine: self._join(machine))  # type: ignore[misc]
        return len(self.machines) * 0.5 + 45.0

    def _join(self, machine: Machine) -> None:
        contacts = [virtual_addresses(other, self.scenario.virtual)[0] for other in self.machines[:3]]
        for number, address in enumerate(virtual_addresses(machine, self.scenario.virtual)):
            first = machine == self.machines[0] and number == 0

            def make(disk: dict[bytes, bytes], life: int, address: Address = address, first: bool = first) -> Member:
                known = () if first and life == 0 else contacts
                settings = self.scenario
                return self.member(
                    address, known, chord=settings.chord, multicast=settings.multicast, disk=disk, incarnation=life
                )

            self.world.add(address, make, machine)

    def _leave(self, machine: Machine) -> None:
        for address in virtual_addresses(machine, self.scenario.virtual):
            self.world.invoke(address, lambda node, now: node.membership.leave(now))

    def _begin(self, start: Seconds) -> None:
        """Phase 1 begins: faults are counted from now on."""
        world, scenario = self.world, self.scenario
        shifted = self.outcome.faults.shifted(start)
        world.trouble(shifted)
        world.schedule(self._join, self._leave)
        for crash in shifted.crashes:
            if not crash.keeps_disk:
                world.at(crash.at, lambda world, crash=crash: self._lose_disk(crash.machine))  # type: ignore[misc]
        for rate, act in ((scenario.casts_per_second, self._cast), (scenario.puts_per_second, self._put)):
            for number in range(int(scenario.fault_seconds * rate)):
                world.at(start + (number + self.chance.random()) / rate, act)

    def _lose_disk(self, machine: Machine) -> None:
        for address in virtual_addresses(machine, self.scenario.virtual):
            self.disk_lives[address] += 1

    def members(self) -> list[Member]:
        """Who is in the ring, in ring order."""
        some = [place.process for place in self.world.places.values() if place.is_up]
        alive = [node for node in some if isinstance(node, Member) and not node.chord.is_gone]
        return sorted(alive, key=lambda node: node.me.key)

    # --- what is done ------------------------------------------------------------------------------------------------

    def _someone(self) -> Member | None:
        ready = [node for node in self.members() if node.chord.is_ready]
        return self.chance.choice(ready) if ready else None

    def _cast(self, world: World) -> None:
        node = self._someone()
        if node is None:
            return
        keys = frozenset(self.chance.sample(self.words, self.chance.randint(1, len(self.words) // 2)))
        number = len(self.casts)
        promised: dict[Key, set[Item]] = {key: {item for item in self.safe if item.key == key} for key in keys}
        self.casts[number] = _Cast(node.me.address, world.places[node.me.address].life, keys, promised)
        method = self.chance.choice(list(Method))
        world.invoke(node.me.address, lambda node, now: node.multicast.send(Note(number), keys, now, method))

    def _put(self, world: World) -> None:
        node = self._someone()
        if node is None:
            return
        item = Item(self.chance.choice(self.words), ITEM_KIND, b"%f" % world.now, 1, b"value")

        def then(answer: tuple[Item, ...] | None, now: Seconds) -> list[Effect]:
            if answer is not None:
                holders = [other.me.address for other in self.members() if item in other.items.store.at(item.key)]
                self.safe[item] = {(address, self.disk_lives[address]) for address in holders}
            return []

        world.invoke(node.me.address, lambda node, now: node.items.put([item], now, then))

    # --- phase 1: nothing may be wrong -------------------------------------------------------------------------------

    def _wrong(self, kind: str, text: str) -> None:
        self.outcome.violations.append(f"{kind}: {text} (at {self.world.now:.1f} s)")

    def _observe(self, now: Seconds, address: Address, effect: Deliver) -> None:
        if not isinstance(effect.what, Note):
            return
        cast = self.casts.get(effect.what.number)
        if cast is None or not cast.keys.issuperset(effect.keys):
            self._wrong("phantom", f"{address} had {effect.what} for {effect.keys}")
            return
        life = self.world.places[address].life
        node: Member = self.world.process(address)
        for key in effect.keys:
            if (address, life) in cast.had[key]:
                self._wrong("twice", f"{address} had {effect.what} for {key:x} twice")
            cast.had[key].append((address, life))
            missing = cast.promised[key].difference(node.items.store.at(key))
            if self.scenario.checks_blind and any(not self._is_excused(item) for item in missing):
                self._wrong("blind", f"{address} had {effect.what} for {key:x} without {len(missing)} items")

    def _is_excused(self, item: Item) -> bool:
        """Everyone who held it has lost its disk."""
        return all(self.disk_lives[address] != life for address, life in self.safe[item])

    # --- phase 2: everything converges -------------------------------------------------------------------------------

    def _check_ring(self) -> None:
        members = self.members()
        self.outcome.suspicions = sum(node.membership.suspicions for node in members)
        for index, node in enumerate(members):
            before, after = members[index - 1].me, members[(index + 1) % len(members)].me
            if node.chord.predecessor != before or node.chord.table.successors[0] != after or not node.chord.is_ready:
                self._wrong("ring", f"{node.me.address} is not between {before.address} and {after.address}")
        self._check_lookups(members)

    def _check_lookups(self, members: list[Member]) -> None:
        world, answers = self.world, dict[tuple[Address, Key], Peer | None]()

        def observe(now: Seconds, address: Address, effect: Deliver) -> None:
            if isinstance(effect.what, Found):
                answers[address, effect.what.key] = effect.what.owner
            else:
                self._observe(now, address, effect)

        world.observe = observe
        for node in members:
            for key in self.words:
                self._look_up(node.me.address, key, self.chance.random() < 0.5)
        world.run(world.now + 30)
        for node in members:
            for key in self.words:
                if answers.get((node.me.address, key)) != self.owner(members, key).me:
                    self._wrong(
                        "ring", f"{node.me.address} takes {answers.get((node.me.address, key))} for owner of {key:x}"
                    )

    def _look_up(self, address: Address, key: Key, is_iterative: bool) -> None:
        def look_up(node: Member, now: Seconds) -> list[Effect]:
            return node.chord.lookup(key, now, is_iterative=is_iterative)

        self.world.invoke(address, look_up)

    @staticmethod
    def owner(members: list[Member], key: Key) -> Member:
        """The first at or after a key."""
        return next((node for node in members if node.me.key >= key), members[0])

    def _check_casts(self) -> None:
        calm = not self.outcome.suspicions and not self.outcome.faults.crashes
        for number, cast in self.casts.items():
            place = self.world.places.get(cast.sender)
            if place is None or place.life != cast.life or self.world.process(cast.sender).chord.is_gone:
                continue
            for key in sorted(cast.keys):
                had = cast.had[key]
                if not had:
                    self._wrong("silent", f"message {number} of {cast.sender} for {key:x}")
                elif calm and len(had) > 1:
                    self._wrong("twice", f"message {number} for {key:x} was had by {had}")

    def _check_items(self) -> None:
        members = self.members()
        hosts = {host_of(node.me.address) for node in members}
        for item in self.safe:
            if self._is_excused(item):
                continue
            if item not in self.owner(members, item.key).items.store.at(item.key):
                self._wrong("lost", f"{item}")
            holders = {host_of(node.me.address) for node in members if item in node.items.store.at(item.key)}
            if len(holders) < min(self.scenario.chord.replicas, len(hosts)):
                self._wrong("thin", f"{item} is at {sorted(holders)} only")


def run_ring(seed: int, scenario: Scenario = Scenario(), member: Callable[..., Any] = Member) -> Outcome:  # noqa: B008
    """Runs a scenario under the faults of a seed; `violations` says what went wrong."""
    return RingRun(seed, scenario, member).run()


def true_owner(addresses: list[Address], key: Key) -> Address:
    """Who should own a key."""
    peers = sorted((peer(address) for address in addresses), key=lambda one: one.key)
    return next((one for one in peers if one.key >= key), peers[0]).address
