"""A folder and a process for one node.

    identity.pem, certificate.pem    who it is
    journal                          the items that it keeps
    life                             how often it has begun: no message looks like one of a former life
    contacts                         nodes that it knew, to find the ring again after a crash
    lock, control                    that it runs, and how to ask it

The first node of a ring founds it; every other needs one address of the ring. A node that has been in a ring finds it
again by itself: it never founds a second one, unless it is told to.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from tocsin.errors import SettingError
from tocsin.net import control
from tocsin.net.complaints import Complaints
from tocsin.net.disk import Journal
from tocsin.net.driver import Driver
from tocsin.net.envelope import NANOSECONDS, WallClock
from tocsin.net.equipment import Equipment
from tocsin.net.identity import Endpoint, client_context, contact, name_and_endpoint, open_identity, write_private
from tocsin.net.limits import DEFAULT_LIMITS, NetError, NetLimits
from tocsin.net.link import FAILURES, connect
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.key import Key, hashed
from tocsin.overlay.member import CHORD, Member
from tocsin.overlay.membership import Joined, Left, Refused
from tocsin.overlay.message import Address, Item, Peer
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.publishers.posting import Carrier
from tocsin.overlay.placement.publishers.settings import PublishersSettings
from tocsin.text import Analysis

CONTACTS_MAX = 32
SAVE_SECONDS, FIRST_SAVE_SECONDS = 2.0, 0.1
Say: TypeAlias = Callable[[str], None]
Equip: TypeAlias = Callable[[Member, Journal, int], None]
ITEMS = b"items "
"""What the names of items on the disk begin with; components that are plugged in have names of their own."""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """How one node is run."""

    folder: Path
    listen: Endpoint
    advertise: Endpoint | None = None
    """Where others reach it, if not where it listens."""
    contacts: tuple[str, ...] = ()
    """Nodes of the ring: NAME@HOST:PORT, or HOST:PORT whose name is believed."""
    founds: bool = False
    """Begin a new ring, whatever was known of another."""
    chord: ChordSettings = CHORD
    limits: NetLimits = DEFAULT_LIMITS


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process owns a folder."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SettingError(f"a node runs in {folder} already: `tocsin node status --data {folder}`") from error
        yield
    finally:
        os.close(descriptor)


def next_life(folder: Path) -> int:
    """Another number in each life."""
    path = folder / "life"
    life = int(path.read_text()) + 1 if path.exists() else 0
    write_private(path, str(life).encode())
    return life


def read_contacts(path: Path) -> tuple[str, ...]:
    """A bootstrap list: a node in each line; what follows # is a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    return tuple(text for line in lines if (text := line.partition("#")[0].strip()))


async def resolve(contacts: Sequence[str], limits: NetLimits, say: Say) -> list[Address]:
    """Addresses of nodes; those without a name are asked for it, as long as nobody answers."""
    parsed = [contact(text) for text in contacts]
    context, pause, said = client_context(), limits.backoff_seconds_min, False
    while True:
        found = [f"{name}@{where}" for name, where in parsed if name is not None]
        for name, where in parsed:
            if name is None:
                try:
                    connection = await connect(where, None, context, limits)
                except FAILURES:
                    continue
                found.append(f"{connection.greeting.name}@{where}")
                connection.close()
        if found:
            return found
        if not said:
            say(f"nobody answers at {', '.join(contacts)}; asking again until somebody does")
            said = True
        await asyncio.sleep(pause)
        pause = min(2 * pause, limits.backoff_seconds_max)


def steady(wall_clock: WallClock) -> Callable[[], Seconds]:
    """The clock of a node: it begins at the time of the wall, and never jumps. So the periods that nodes count in are
    the same on all machines, and go on where they were when a machine has been restarted."""
    ahead = wall_clock() / NANOSECONDS - time.monotonic()
    return lambda: time.monotonic() + ahead


def paced(tick_seconds: Seconds) -> ChordSettings:
    """The usual settings, for a ring that looks at its neighbours more or less often."""
    pace = tick_seconds / CHORD.tick_seconds
    return replace(
        CHORD, tick_seconds=tick_seconds, suspicion_seconds=CHORD.suspicion_seconds * pace,
        doubt_seconds=CHORD.doubt_seconds * pace,
    )  # fmt: skip


class Host:
    """One node in one process."""

    def __init__(
        self,
        settings: HostSettings,
        say: Say,
        wall_clock: WallClock = time.time_ns,
        *,
        equip: Equip | None = None,
        on_deliver: Callable[[Deliver], None] | None = None,
        kind: type[Member] = Member,
    ) -> None:
        """`equip(member, disk, life)` plugs in further components; `on_deliver` gets what is for the layer above.

        `kind` is what is made: some placements need more than a plain member.
        """
        self._kind = kind
        self.settings, self._say, self._wall_clock = settings, say, wall_clock
        self._equip, self._on_deliver = equip, on_deliver
        self._left = asyncio.Event()
        self._state = "starting"
        self._is_stopped = False
        self._first: tuple[Address, ...] = ()
        self.member: Member | None = None
        self._saved: tuple[Address, ...] = ()

    async def run(self) -> int:
        """Until it is told to leave, or must; 0 if it left in order."""
        settings, folder = self.settings, self.settings.folder
        with locked(folder):
            try:
                identity, life = open_identity(folder), next_life(folder)
                self._journal = Journal(folder / "journal", settings.limits.disk_bytes_max)
            except OSError as error:
                raise NetError(f"{folder} cannot be used: {error.strerror}") from error
            if self._journal.cut_bytes:
                self._say(f"the last {self._journal.cut_bytes} bytes of the journal were torn by a crash: cut off")
            self.driver = Driver(
                identity, limits=settings.limits, disk=self._journal, on_deliver=self._delivered,
                on_error=self._failed, on_refusal=Complaints(self._say).refused, clock=steady(self._wall_clock),
                wall_clock=self._wall_clock,
            )  # fmt: skip
            server = saving = None
            try:
                self.address = await self.driver.open(settings.listen, settings.advertise)
                server = await control.listen(folder, self._verbs())
                self._say(f"node {self.address}")
                if self._is_stopped:
                    return 0
                await self._begin(life)
                saving = asyncio.create_task(self._save_contacts())
                why = await self.driver.ended
                return await self._leave(why)
            finally:
                if saving is not None:
                    saving.cancel()
                    await asyncio.gather(saving, return_exceptions=True)
                if server is not None:
                    server.close()
                    control.forget(folder)
                await self.driver.close()
                self._journal.close()

    async def _begin(self, life: int) -> None:
        settings, path = self.settings, self.settings.folder / "contacts"
        known = read_contacts(path) if path.exists() and not settings.founds else ()
        texts = tuple(dict.fromkeys((*settings.contacts, *known)))
        self._state = "looking for the ring" if texts else "founding a ring"
        contacts = await self._unless_ended(resolve(texts, settings.limits, self._say)) if texts else []
        if contacts is None:
            return
        self._first = tuple(one for one in contacts if one != self.address)
        self.member = self._kind(
            self.address, contacts, chord=settings.chord, disk=Drawer(self._journal, ITEMS), incarnation=life
        )
        if self._equip is not None:
            self._equip(self.member, self._journal, life)
        self.driver.add(self.address, self.member)

    async def _unless_ended(self, work: Any) -> Any:
        task = asyncio.ensure_future(work)
        await asyncio.wait([task, self.driver.ended], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return None

    def stop(self) -> None:
        """Leaves in order: for a signal, which may come at any time."""
        self._is_stopped = True
        if hasattr(self, "driver"):
            self.driver.end("")

    async def _leave(self, why: str) -> int:
        if why:
            self._say(f"this node leaves: {why}")
        self._state = f"leaving: {why}" if why else "leaving"
        if self.member is not None:
            self.driver.invoke(self.address, lambda member, now: member.membership.leave(now))
            try:
                async with asyncio.timeout(self.settings.limits.leave_seconds_max):
                    await self._left.wait()
                await asyncio.sleep(0.1)  # the last word is on its way
            except TimeoutError:
                self._say("nobody took over in time; the copies at other nodes stay")
        return 1 if why else 0

    def _delivered(self, address: Address, effect: Deliver) -> None:
        what = effect.what
        if isinstance(what, Joined):
            self._state = "in the ring"
            self._say("joined the ring" if self._first else "founded a ring")
        elif isinstance(what, Left):
            self._left.set()
        elif isinstance(what, Refused):
            self.driver.end(f"another node has the same place on the ring: {what.by.address}")
        elif self._on_deliver is not None:
            self._on_deliver(effect)

    def _failed(self, address: Address, error: Exception) -> None:
        self._say(f"a message was dropped, as it made this node fail: {type(error).__name__}: {error}")

    async def _save_contacts(self) -> None:
        """Keeps what is known of others, for the next life: soon, for this one may be short."""
        while True:
            await asyncio.sleep(SAVE_SECONDS if self._saved else FIRST_SAVE_SECONDS)
            if self.member is None:
                continue
            chord = self.member.chord
            near = [*chord.table.successors, *([chord.predecessor] if chord.predecessor else [])]
            known = [*(peer.address for peer in near), *self._first, *self.member.membership.contacts]
            chosen = tuple(dict.fromkeys(one for one in known if one != self.address and name_and_endpoint(one)))
            if chosen[:CONTACTS_MAX] != self._saved:
                self._saved = chosen[:CONTACTS_MAX]
                try:
                    write_private(
                        self.settings.folder / "contacts", "".join(f"{one}\n" for one in self._saved).encode()
                    )
                except OSError as error:
                    self.driver.end(f"{self.settings.folder} cannot be written: {error.strerror}")

    # --- what it can be asked ----------------------------------------------------------------------------------------

    def _verbs(self) -> dict[str, control.Verb]:
        return {
            "status": self._status, "lookup": self._lookup, "put": self._put, "get": self._get, "leave": self._told_to
        }  # fmt: skip

    async def _told_to(self, request: dict[str, Any]) -> dict[str, Any]:
        self.stop()
        return {"state": "leaving"}

    async def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        messages, sizes = self.driver.count()
        # What is rightly signed but cannot be, or goes in circles, is dropped by the node itself.
        counts = self.driver.counts + Counter(dropped=0 if self.member is None else self.member.dropped)
        status: dict[str, Any] = {
            "address": self.address, "state": self._state,
            "sent": dict(sorted(messages.items())), "sent_bytes": dict(sorted(sizes.items())),
            "received": self.driver.received, "counts": dict(sorted(counts.items())),
            "connections": self.driver.connections, "peers": self.driver.peers(),
            "journal_bytes": self._journal.size,
        }  # fmt: skip
        if self.member is not None:
            chord = self.member.chord
            status |= {
                "key": chord.me.key, "ready": chord.is_ready, "items": self.member.items.store.count,
                "predecessor": chord.predecessor.address if chord.predecessor else None,
                "successors": [peer.address for peer in chord.table.successors],
                "fingers": len(chord.table.fingers), "suspicions": self.member.membership.suspicions,
            }  # fmt: skip
        return status

    async def _asked(self, call: Callable[[Member, Seconds, Callable[[Any], None]], list[Effect]]) -> Any:
        """Asks the ring through this node; what the answer's callback was given."""
        if self.member is None:
            raise ValueError("this node has not begun")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.driver.invoke(self.address, lambda member, now: call(member, now, answer.set_result))
        return await answer

    async def _lookup(self, request: dict[str, Any]) -> dict[str, Any]:
        key = _key(request)

        def call(member: Member, now: Seconds, then: Callable[[Any], None]) -> list[Effect]:
            def found(owner: Peer | None, hops: int, now: Seconds) -> list[Effect]:
                then((owner, hops))
                return []

            return member.chord.lookup(key, now, found)

        owner, hops = await self._asked(call)
        return {"owner": owner and owner.address, "hops": hops}

    async def _put(self, request: dict[str, Any]) -> dict[str, Any]:
        value = request["value"]
        item = Item(
            _key(request), _number(request["kind"], 16), str(request["name"]).encode(),
            _number(request["version"], 63), None if value is None else str(value).encode(),
        )  # fmt: skip

        def call(member: Member, now: Seconds, then: Callable[[Any], None]) -> list[Effect]:
            return member.items.put([item], now, _then(then))

        return {"safe": await self._asked(call) is not None}

    async def _get(self, request: dict[str, Any]) -> dict[str, Any]:
        key = _key(request)

        def call(member: Member, now: Seconds, then: Callable[[Any], None]) -> list[Effect]:
            return member.items.get(key, now, _then(then))

        items = await self._asked(call)
        if items is None:
            return {"items": None}
        return {"items": [[one.kind, one.name.decode(), one.version, one.value.decode()] for one in items]}


def keeper(settings: HostSettings, say: Say, analysis: Analysis) -> Host:
    """A node without a site, which keeps queries, states and statistics for others (`equipment`); to be run."""

    def equip(member: Member, disk: Journal, life: int) -> None:
        Equipment(member, analysis, PublishersSettings(), disk, life)

    return Host(settings, say, equip=equip, kind=Carrier)


def run_host(settings: HostSettings, say: Say, analysis: Analysis | None = None) -> int:
    """Runs a node in this process until it is told to stop (SIGINT, SIGTERM), or must; 0 if it left in order.

    `analysis` is that of the sites in its ring.
    """

    async def run() -> int:
        host = keeper(settings, say, analysis or Analysis())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, host.stop)
        return await host.run()

    return asyncio.run(run())


def _then(then: Callable[[Any], None]) -> Callable[[tuple[Item, ...] | None, Seconds], list[Effect]]:
    def answered(items: tuple[Item, ...] | None, now: Seconds) -> list[Effect]:
        then(items)
        return []

    return answered


def _number(value: Any, bits: int) -> int:
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise ValueError(f"{value!r:.40} is no number of {bits} bits")
    return value


def _key(request: dict[str, Any]) -> Key:
    """A place on the ring, or the word that has it."""
    return hashed("word", str(request["word"])) if "word" in request else _number(request["key"], 64)
