"""What goes wrong, drawn from a seed and printable: the same seed makes the same trouble.

Each kind of fault is there or not, so that seeds differ in kind and not only in degree. All faults end at `until`:
before it anything may fail and nothing may be wrong; after it everything must converge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeAlias

Seconds: TypeAlias = float
Machine: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Partition:
    """Machines that the others cannot reach; one way: they can still send."""

    start: Seconds
    end: Seconds
    group: frozenset[Machine]
    is_one_way: bool

    def __str__(self) -> str:
        ways = "receive" if self.is_one_way else "send or receive"
        return f"{self.start:.1f}-{self.end:.1f} s: {', '.join(sorted(self.group))} cannot {ways}"


@dataclass(frozen=True, slots=True)
class Crash:
    """A machine stops between two events and comes back, with its disk or with an empty one."""

    at: Seconds
    machine: Machine
    back_at: Seconds
    keeps_disk: bool

    def __str__(self) -> str:
        disk = "its disk" if self.keeps_disk else "an empty disk"
        return f"{self.at:.1f} s: {self.machine} crashes, back at {self.back_at:.1f} s with {disk}"


@dataclass(frozen=True, slots=True)
class Faults:
    """Everything that will go wrong in one run."""

    seed: int = 0
    until: Seconds = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    delayed: float = 0.0  # share of messages that are late, and so overtaken
    delay_seconds_max: Seconds = 0.0
    partitions: tuple[Partition, ...] = ()
    crashes: tuple[Crash, ...] = ()
    slow: dict[Machine, Seconds] = field(default_factory=dict)  # seconds for each message
    skews: dict[Machine, tuple[Seconds, float]] = field(
        default_factory=dict
    )  # clock: offset, seconds too many a second
    joins: tuple[tuple[Seconds, Machine], ...] = ()
    leaves: tuple[tuple[Seconds, Machine], ...] = ()

    def __str__(self) -> str:
        lines = [
            f"faults of seed {self.seed}, until {self.until:.1f} s:",
            f"loss {self.loss:.1%}, duplication {self.duplication:.1%}, "
            f"{self.delayed:.1%} late by up to {self.delay_seconds_max:.1f} s",
            *map(str, self.partitions),
            *map(str, self.crashes),
            *(f"{machine} takes {seconds:.3f} s for each message" for machine, seconds in self.slow.items()),
            *(f"clock of {machine}: {off:+.2f} s and {drift:+.2%}" for machine, (off, drift) in self.skews.items()),
            *(f"{at:.1f} s: {machine} joins" for at, machine in self.joins),
            *(f"{at:.1f} s: {machine} leaves" for at, machine in self.leaves),
        ]
        return "\n  ".join(lines)

    def shifted(self, by: Seconds) -> Faults:
        """The same trouble, later."""
        return replace(
            self,
            until=self.until + by,
            partitions=tuple(replace(one, start=one.start + by, end=one.end + by) for one in self.partitions),
            crashes=tuple(replace(one, at=one.at + by, back_at=one.back_at + by) for one in self.crashes),
            joins=tuple((at + by, machine) for at, machine in self.joins),
            leaves=tuple((at + by, machine) for at, machine in self.leaves),
        )

    def fates(self, link: tuple[Machine, Machine], now: Seconds, chance: Random) -> tuple[Seconds, ...]:
        """What becomes of a message: the extra delay of each copy that arrives."""
        if now >= self.until:
            return (0.0,)
        for partition in self.partitions:
            if partition.start <= now < partition.end and self._is_cut(partition, link):
                return ()
        if self.loss and chance.random() < self.loss:
            return ()
        copies = 2 if self.duplication and chance.random() < self.duplication else 1
        return tuple([self._delay(chance) for _ in range(copies)])

    @staticmethod
    def _is_cut(partition: Partition, link: tuple[Machine, Machine]) -> bool:
        outwards, inwards = link[0] in partition.group, link[1] in partition.group
        return inwards > outwards if partition.is_one_way else inwards != outwards

    def _delay(self, chance: Random) -> Seconds:
        if self.delayed and chance.random() < self.delayed:
            return chance.random() * self.delay_seconds_max
        return 0.0


@dataclass(frozen=True, slots=True)
class FaultLimits:
    """How bad it may get."""

    loss_max: float = 0.2
    duplication_max: float = 0.2
    delayed_max: float = 0.2
    delay_seconds_max: Seconds = 3.0
    partitions_max: int = 2
    partition_share_max: float = 0.5
    crashes_max: int = 3
    crash_gap_seconds: Seconds = 20.0
    """Between crashes without a disk, so that copies can be made again: r copies survive r - 1 losses at a time."""
    slow_max: int = 2
    slow_seconds_max: Seconds = 0.03
    skewed_max: int = 3
    joins_max: int = 3
    leaves_max: int = 2


LIMITS = FaultLimits()
NO_FAULTS = Faults()


def draw_faults(seed: int, machines: Sequence[Machine], until: Seconds, limits: FaultLimits = LIMITS) -> Faults:
    """The trouble of a seed. The first machine is spared from leaving: it is where others join."""
    chance = Random(f"faults {seed}")

    def some(most: int) -> int:
        return chance.randint(1, most) if most and chance.random() < 0.5 else 0

    def share(most: float) -> float:
        return chance.random() * most if chance.random() < 0.5 else 0.0

    loss, duplication, delayed = share(limits.loss_max), share(limits.duplication_max), share(limits.delayed_max)
    partitions: list[Partition] = []
    for _ in range(some(limits.partitions_max)):
        start = chance.uniform(0, until * 0.8)
        group = chance.sample(machines, chance.randint(1, max(1, int(len(machines) * limits.partition_share_max))))
        end = min(until, start + chance.uniform(1, until / 2))
        partitions.append(Partition(start, end, frozenset(group), chance.random() < 0.5))
    crashes: list[Crash] = []
    at = 0.0
    for machine in chance.sample(machines, min(len(machines), some(limits.crashes_max))):
        at += chance.uniform(0, 5) + (limits.crash_gap_seconds if crashes else 0)
        if at < until - 1:
            back = min(until, at + chance.uniform(0.5, 15))
            crashes.append(Crash(at, machine, back, chance.random() < 0.5))
    crashing = {crash.machine for crash in crashes}
    stable = [machine for machine in machines[1:] if machine not in crashing]
    leavers = chance.sample(stable, min(len(stable), some(limits.leaves_max)))
    slow = chance.sample(machines, min(len(machines), some(limits.slow_max)))
    skewed = chance.sample(machines, min(len(machines), some(limits.skewed_max)))
    return Faults(
        seed, until, loss, duplication, delayed, limits.delay_seconds_max, tuple(partitions), tuple(crashes),
        {machine: chance.uniform(0.001, limits.slow_seconds_max) for machine in slow},
        {machine: (chance.uniform(-100, 100), chance.uniform(-0.05, 0.05)) for machine in skewed},
        tuple(sorted((chance.uniform(0, until), f"late{number}") for number in range(some(limits.joins_max)))),
        tuple(sorted((chance.uniform(0, until), machine) for machine in leavers)),
    )  # fmt: skip
