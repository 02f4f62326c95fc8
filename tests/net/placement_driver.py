"""A node of a placement in a process of its own, and how tests speak with it: a line of JSON each way.

    nursery                                  makes such processes: what all of them need is imported once
    hosted PLACEMENT FOLDER PORT [CONTACT]   a node as it is deployed: `net.host`, with its disk and its own timers
    scripted PLACEMENT FOLDER                a node whose time and messages come in the steps of a script (X4)

Both obey ["act", …]: see `act`; and ["told"]: what was delivered. A hosted node answers with how many messages the act
sent at once, and tells its "status". A scripted one is given the time by ["clock", now], handles as many messages as
["turn", count] says, and answers these, acts and ["pulse"] with how many it has sent, received, and not looked at yet.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping
from contextlib import ExitStack, suppress
from functools import cache
from heapq import heappop, heappush
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, TypeAlias

from tests.net.rings import LOOPBACK, drivers, total
from tests.net.turns import InTurns, settle, settle_drivers
from tests.ports import free_port
from tocsin.markup import read_markup
from tocsin.match.paths import PathIndex
from tocsin.model import Document
from tocsin.net.driver import Driver
from tocsin.net.host import Host, HostSettings, paced
from tocsin.net.identity import Endpoint, open_identity
from tocsin.overlay.chord import ChordSettings
from tocsin.overlay.delivery import Notified
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address, decode, peer
from tocsin.overlay.node import Deliver, Effect, Seconds, Send, Wake
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.entry import Mode
from tocsin.overlay.placement.publishers.placement import Publishers
from tocsin.overlay.placement.publishers.posting import Carrier
from tocsin.overlay.placement.publishers.settings import EXACT, Approximate, PublishersSettings
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.states import Execution, States, StateSettings
from tocsin.overlay.placement.states.key import STATE_KIND
from tocsin.overlay.placement.words import Words
from tocsin.query.semantics import Knowledge
from tocsin.query.xpath import parse_xpath
from tocsin.sim.world import Latency, World, constant

ROOT = Path(__file__).resolve().parent.parent.parent
KNOWLEDGE = Knowledge()
NODES_PATIENCE_SECONDS = 60.0
PACE = paced(0.15)
STEP_SECONDS = 0.2
"""Of a script. Messages of a step are over before the next begins, in the false world too."""
SCRIPTED = ChordSettings(successors=4, fingers_per_tick=1)
Step: TypeAlias = list[Any]
"""What, which node, arguments."""
Disk: TypeAlias = MutableMapping[bytes, bytes]


# --- the placements --------------------------------------------------------------------------------------------------


class Maps:
    """MAPS: publications are only counted, or also visit the owners of their words for exact subscriptions."""

    kind = Carrier

    def __init__(self, member: Member, disk: Disk | None, life: int, settings: PublishersSettings) -> None:
        self.words = Words(member, KNOWLEDGE, PlacementSettings(mode=Mode.DHTRIE), disk=disk, life=life)
        self.maps = Publishers(self.words, settings, disk=disk, life=life)

    def subscribe(self, now: Seconds, id: str, text: str, rho: float | None, alpha: float = 0.25) -> list[Effect]:
        precision = EXACT if rho is None else Approximate(rho, alpha)
        return self.maps.subscriber.subscribe(id, text, now, precision)

    def unsubscribe(self, now: Seconds, id: str) -> list[Effect]:
        return self.maps.subscriber.unsubscribe(id, now)

    def publish(self, now: Seconds, id: str, text: str) -> list[Effect]:
        return self.maps.publisher.publish(Document(id, {"text": (text,)}), now)

    def status(self, now: Seconds) -> dict[str, Any]:
        reports = {}
        for one in self.maps.subscriber.standing():
            recall = one.recall and [one.recall.value, one.recall.low, one.recall.high, one.recall.asked]
            reports[one.id] = {"publishers": one.publishers, "population": one.population, "recall": recall}
        return {"kept": self.maps.publisher.kept(), "reports": reports, "unposted": self.maps.posting.open}


class Automaton:
    """The distributed automaton."""

    kind = Member

    def __init__(self, member: Member, disk: Disk | None, life: int, settings: StateSettings) -> None:
        self.member = member
        self.states = States(member, settings, disk=disk, life=life)

    def subscribe(self, now: Seconds, id: str, text: str) -> list[Effect]:
        return self.states.subscriber.subscribe(id, text, now)

    def unsubscribe(self, now: Seconds, id: str) -> list[Effect]:
        return self.states.subscriber.unsubscribe(id, now)

    def publish(self, now: Seconds, id: str, xml: str) -> list[Effect]:
        return self.states.publisher.publish(Document(id, xml=xml), now)

    def status(self, now: Seconds) -> dict[str, Any]:
        store = self.member.items.store
        found = (item for key in store.sorted_keys() for item in store.at(key))
        items = [item for item in found if item.kind == STATE_KIND and item.value is not None]
        owned = {item.key for item in items if self.member.chord.owns(item.key)}
        return {"kept": len(items), "owned": len(owned), "requests": dict(self.states.owner.requests)}


QUICK = PublishersSettings(interval_seconds=0.5, carry_seconds=0.2, reposition_seconds=2.0, exact=False)
IN_STEPS = PublishersSettings(interval_seconds=2.0, carry_seconds=0.5, reposition_seconds=4.0, set_support=2)
PLACEMENTS: dict[str, tuple[type[Maps] | type[Automaton], Any]] = {
    "maps": (Maps, QUICK),
    "maps in steps": (Maps, IN_STEPS),
    **{str(one): (Automaton, StateSettings(execution=one, length=1)) for one in Execution},
}


def act(placed: Maps | Automaton, step: Step, now: Seconds) -> list[Effect]:
    """What a node does in a step: subscribe, unsubscribe, publish."""
    what, _, *rest = step
    effects: list[Effect] = getattr(placed, what)(now, *rest)
    return effects


# --- a script's node -------------------------------------------------------------------------------------------------


def time_of(step: int) -> Seconds:
    """When a step begins, by every node's clock."""
    return step * STEP_SECONDS


class Stepped:
    """A node whose timers ring in the steps ["due", node] only, and for which a step takes no time."""

    def __init__(self, placement: str, addresses: list[Address], node: int) -> None:
        make, settings = PLACEMENTS[placement]
        self.member = make.kind(addresses[node], addresses[: min(node, 1)], chord=SCRIPTED)
        self.placed = make(self.member, None, 0, settings)
        self._timers: list[tuple[Seconds, str, Any]] = []

    def start(self, now: Seconds) -> list[Effect]:
        return self._still(self.member.start(_begin(now)), _begin(now))

    def handle(self, message: Any, now: Seconds) -> list[Effect]:
        return self._still(self.member.handle(message, _begin(now)), _begin(now))

    def wake(self, token: Any, now: Seconds) -> list[Effect]:
        raise AssertionError("nothing is woken")

    def act(self, step: Step, now: Seconds) -> list[Effect]:
        now = _begin(now)
        if step[0] != "due":
            return self._still(act(self.placed, step, now), now)
        effects: list[Effect] = []
        while self._timers and self._timers[0][0] <= now:
            _, _, token = heappop(self._timers)
            effects += self._still(self.member.wake(token, now), now)
        return effects

    def _still(self, effects: list[Effect], now: Seconds) -> list[Effect]:
        """Keeps timers; those of this moment ring at once."""
        found: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Wake):
                found.append(effect)
            elif effect.at <= now:
                found += self._still(self.member.wake(effect.token, now), now)
            else:
                heappush(self._timers, (effect.at, repr(effect.token), effect.token))
        return found


def _begin(now: Seconds) -> Seconds:
    """The beginning of the step that a time lies in: a message's flight takes a little of it in the false world."""
    return time_of(int(now / STEP_SECONDS + 1e-6))


def said(address: Address, effect: Deliver) -> str:
    """A delivery as text. Which of two notices that are on their way at once enters the outbox first is nobody's to
    say: its number there is left out."""
    what = effect.what.notice if isinstance(effect.what, Notified) else effect.what
    return f"{address} {type(effect.what).__name__} {what} {effect.keys} {effect.hops}"


# --- the process -----------------------------------------------------------------------------------------------------


async def lines() -> Any:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        yield json.loads(line)


def answer(what: Any) -> None:
    print(json.dumps(what), flush=True)


async def hosted(placement: str, folder: Path, port: int, contacts: tuple[str, ...]) -> None:
    make, settings = PLACEMENTS[placement]
    placed: list[Maps | Automaton] = []
    told: list[Any] = []

    def equip(member: Member, disk: Any, life: int) -> None:
        placed.append(make(member, Drawer(disk, b"placement "), life, settings))

    host = Host(
        HostSettings(folder, Endpoint("127.0.0.1", port), contacts=contacts, chord=PACE),
        lambda text: print(text, file=sys.stderr, flush=True),
        equip=equip,
        on_deliver=lambda effect: told.append([type(effect.what).__name__, *_plain(effect.what)]),
        kind=make.kind,
    )
    running = asyncio.create_task(host.run())
    async for what, *rest in lines():
        if running.done():
            break
        if what == "told":
            answer(told)
        elif what == "status":
            chord = host.member.chord if host.member is not None else None
            if chord is None or not chord.is_ready:
                answer({"ready": False})
                continue
            near = [chord.predecessor and chord.predecessor.address, *(one.address for one in chord.table.successors)]
            messages, _ = host.driver.count()
            found: dict[str, Any] = {
                "ready": True, "address": host.address, "near": near, "sent": messages, "counts": host.driver.counts
            }  # fmt: skip

            def look(member: Member, now: Seconds, found: dict[str, Any] = found) -> list[Effect]:
                found |= {"now": now, **placed[0].status(now)}
                return []

            host.driver.invoke(host.address, look)
            answer(found)
        else:
            sends: list[Effect] = []

            def do(member: Member, now: Seconds, step: Step = rest[0], sends: list[Effect] = sends) -> list[Effect]:
                effects = act(placed[0], step, now)
                sends += [effect for effect in effects if isinstance(effect, Send)]
                return effects

            host.driver.invoke(host.address, do)
            answer(len(sends))
    host.stop()
    await running


def _plain(what: Any) -> list[Any]:
    """A named tuple as JSON has it."""
    notice = getattr(what, "notice", None)
    return [str(part) for part in what] if notice is None else [notice.subscription, notice.document, notice.version]


async def scripted(placement: str, folder: Path) -> None:
    now = 0.0
    node: InTurns | None = None
    driver = Driver(open_identity(folder), clock=lambda: now)
    answer(await driver.open(LOOPBACK))
    async for what, *rest in lines():
        if what == "told":
            answer([*driver.count(), [said(*one) for one in driver.delivered]])
            continue
        if what == "clock":
            (now,) = rest
        elif what == "turn" and rest[0]:
            driver.invoke(driver.address, lambda node, now, count=rest[0]: node.turn(count, now))  # type: ignore[misc]
        elif what == "act" and rest[0][0] == "add":
            node = InTurns(Stepped(placement, rest[1], rest[0][1]))
            driver.add(driver.address, node)
        elif what == "act":
            driver.invoke(driver.address, lambda node, now, step=rest[0]: node.process.act(step, now))  # type: ignore[misc]
        answer([sum(driver.count()[0].values()), driver.received, node.waiting if node is not None else 0])
    await driver.close()


def live(how: str, placement: str, folder: str, *rest: str) -> None:
    if how == "scripted":
        asyncio.run(scripted(placement, Path(folder)))
    else:
        asyncio.run(hosted(placement, Path(folder), int(rest[0]), tuple(rest[1:])))


@cache
def warm() -> None:
    """Loads the kernels that check predicates: once, not in every process."""
    index = PathIndex()
    index.add(0, parse_xpath("/a[b = 1]//c"))
    assert index.match(read_markup("<a><b>1</b><c/></a>")).tolist() == [0]


def nursery() -> None:
    """A process for each line of standard input: the socket where it is expected, its log, its words."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        where, log, *words = json.loads(line)
        if PLACEMENTS[words[1]][0] is Automaton:
            warm()
        if os.fork():
            continue
        status = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(where)
                sys.stdin, sys.stdout = connection.makefile("r"), connection.makefile("w")
                answer(os.getpid())
                live(*words)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)


# --- for tests -------------------------------------------------------------------------------------------------------


class Remote:
    """A process that can be asked, and killed."""

    def __init__(self, connection: socket.socket, log: Path) -> None:
        self._connection, self._log = connection, log
        self._reader = connection.makefile("r")
        self._pid: int = self.hear()

    def hear(self) -> Any:
        line = self._reader.readline()
        assert line, self._log.read_text()
        return json.loads(line)

    def say(self, *words: Any) -> None:
        self._connection.sendall(f"{json.dumps(words)}\n".encode())

    def ask(self, *words: Any) -> Any:
        self.say(*words)
        return self.hear()

    def kill(self) -> None:
        """SIGKILL; comes back when it is dead."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with suppress(OSError):
            while self._reader.read():
                pass
        self._reader.close()
        self._connection.close()


class Nursery:
    """Where processes come from, and end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._short = TemporaryDirectory()  # the name of a socket has a hundred characters at most
        self._door = socket.socket(socket.AF_UNIX)
        self._door.settimeout(NODES_PATIENCE_SECONDS)
        self._where = str(Path(self._short.name) / "door")
        self.children: dict[int, Remote] = {}

    def __enter__(self) -> Nursery:
        self._door.bind(self._where)
        self._door.listen()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.net.placement_driver"], stdin=subprocess.PIPE, text=True, cwd=ROOT
        )
        return self

    def __exit__(self, *_: object) -> None:
        for remote in self.children.values():
            remote.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._door.close()
        self._short.cleanup()

    def bear(self, node: int, how: str, placement: str, *rest: str) -> Remote:
        """Begins the process of a node, in its folder."""
        log = self._folder / f"log{node}"
        words = [self._where, str(log), how, placement, str(self._folder / f"n{node}"), *rest]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        connection, _ = self._door.accept()
        connection.settimeout(NODES_PATIENCE_SECONDS)
        self.children[node] = Remote(connection, log)
        return self.children[node]

    def kill(self, node: int) -> None:
        self.children.pop(node).kill()


class Nodes:
    """A ring of hosted processes, one for each placement that is named."""

    def __init__(self, folder: Path, *placements: str) -> None:
        self._placements, self._folder = placements, folder
        self._ports = [free_port() for _ in placements]
        self._nursery = Nursery(folder)
        self.living = self._nursery.children
        self.addresses: list[Address] = []
        self._heard: list[tuple[int, str, str, int]] = []
        """Notices of nodes that were killed since."""

    def __enter__(self) -> Nodes:
        with ExitStack() as stack:
            stack.enter_context(self._nursery)
            for node in range(len(self._ports)):
                self.start(node)
            self.until_right()
            self.addresses = [self.status(node)["address"] for node in self.living]
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def start(self, node: int) -> None:
        """After a kill it finds the ring again by itself."""
        is_new = node and not (self._folder / f"n{node}").exists()
        contact = [f"127.0.0.1:{self._ports[0]}"] if is_new else []
        self._nursery.bear(node, "hosted", self._placements[node], str(self._ports[node]), *contact)

    def kill(self, node: int) -> None:
        """SIGKILL; what it was told is remembered here."""
        self._heard += self._notices(node)
        self._nursery.kill(node)

    def act(self, what: str, node: int, *rest: Any) -> int:
        """How many messages it sent at once."""
        sent: int = self.living[node].ask("act", [what, node, *rest])
        return sent

    def status(self, node: int) -> dict[str, Any]:
        found: dict[str, Any] = self.living[node].ask("status")
        return found

    def statuses(self) -> list[dict[str, Any]]:
        return [self.status(node) for node in self.living]

    def told(self, node: int, kind: str) -> list[list[Any]]:
        return [rest for name, *rest in self.living[node].ask("told") if name == kind]

    def _notices(self, node: int) -> list[tuple[int, str, str, int]]:
        return [(node, *notice) for notice in self.told(node, "Notified")]

    def notices(self) -> Counter[tuple[int, str, str, int]]:
        """Node, subscription, document, version: how often it was told, in all lives."""
        return Counter([*self._heard, *(notice for node in self.living for notice in self._notices(node))])

    def wait(self, holds: Callable[[], bool], seconds: float = NODES_PATIENCE_SECONDS) -> None:
        """For something that must become true."""
        start = monotonic()
        while not holds():
            assert monotonic() - start < seconds, self.statuses()
            sleep(0.05)

    def _is_right(self) -> bool:
        found = self.statuses()
        if not all(one["ready"] for one in found):
            return False
        ring = sorted(found, key=lambda one: peer(one["address"]).key)
        after = [*ring[1:], ring[0]]
        return all(
            one["near"][1:2] == [next["address"]] and next["near"][0] == one["address"]
            for one, next in zip(ring, after, strict=True)
        )

    def until_right(self) -> None:
        """Until predecessors and successors are those of the true ring of the living."""
        self.wait(self._is_right)


# --- X4: a script in three worlds ------------------------------------------------------------------------------------


LATENCY_SECONDS = 0.0005
LATENCY = constant(LATENCY_SECONDS)
Counted: TypeAlias = tuple[Counter[str], Counter[str], Counter[str]]
"""Messages and bytes by type, and what was delivered."""


def script(nodes: int, actions: Iterable[Step]) -> list[Step]:
    """Nodes join, one by one; then they act, and time passes for all after each act; then until all is done."""
    steps: list[Step] = []
    for node in range(nodes):
        steps.append(["add", node])
        steps += [["due", one] for _ in range(4) for one in range(node + 1)]
    for step in actions:
        steps += [step, *(["due", one] for one in range(nodes))]
    return [*steps, *(["due", one] for _ in range(8) for one in range(nodes))]


def in_the_world(placement: str, steps: list[Step], addresses: list[Address], latency: Latency = LATENCY) -> Counted:
    world = World(1, latency=latency, decode=decode)
    for number, step in enumerate(steps):
        what, node, *_ = step
        if what == "add":
            world.add(addresses[node], lambda disk, life, node=node: InTurns(Stepped(placement, addresses, node)))  # type: ignore[misc]
        else:
            world.invoke(addresses[node], lambda node, now, step=step: node.process.act(step, now))  # type: ignore[misc]
        settle(world)
        world.run(time_of(number + 1))
    assert world.lost == 0
    return *world.count(), Counter(said(address, effect) for _, address, effect in world.delivered)


async def in_drivers(placement: str, steps: list[Step], nodes: int, folder: Path) -> tuple[list[Address], Counted]:
    """Over TLS, in one process."""
    now = 0.0
    async with drivers(folder, nodes, clock=lambda: now) as ring:
        addresses = [driver.address for driver in ring]
        joined: list[InTurns] = []
        for number, step in enumerate(steps):
            now, (what, node, *_) = time_of(number), step
            if what == "add":
                joined.append(InTurns(Stepped(placement, addresses, node)))
                ring[node].add(addresses[node], joined[-1])
            else:
                ring[node].invoke(addresses[node], lambda node, now, step=step: node.process.act(step, now))  # type: ignore[misc]
            await settle_drivers(ring, joined, NODES_PATIENCE_SECONDS)
        told = Counter(said(*one) for driver in ring for one in driver.delivered)
        return addresses, (*total([driver.count() for driver in ring]), told)


def in_processes(placement: str, steps: list[Step], nodes: int, folder: Path) -> tuple[list[Address], Counted]:
    with Nursery(folder) as nursery:
        remotes = [nursery.bear(node, "scripted", placement) for node in range(nodes)]
        addresses = [remote.hear() for remote in remotes]
        for number, step in enumerate(steps):
            _all(remotes, *(["clock", time_of(number)] for _ in remotes))  # before any message of the step can come
            remotes[step[1]].ask("act", step, addresses if step[0] == "add" else None)
            _settle(remotes)
        counts = [remote.ask("told") for remote in remotes]
        told = Counter(text for *_, some in counts for text in some)
        return addresses, (*total([(Counter(one[0]), Counter(one[1])) for one in counts]), told)


def _settle(remotes: list[Remote]) -> None:
    """Everything that follows from a step. Nodes send only when they act or have their turn: nothing is on its way when
    as much came as was sent."""
    start = monotonic()
    pulses = _all(remotes, *(["pulse"] for _ in remotes))
    while True:
        assert monotonic() - start < NODES_PATIENCE_SECONDS, pulses
        if sum(sent for sent, *_ in pulses) != sum(received for _, received, _ in pulses):
            sleep(0.001)
            pulses = _all(remotes, *(["pulse"] for _ in remotes))
        elif any(count for *_, count in pulses):
            pulses = _all(remotes, *(["turn", count] for *_, count in pulses))
        else:
            return


def _all(remotes: list[Remote], *words: list[Any]) -> list[Any]:
    """Asks everybody at once."""
    for remote, some in zip(remotes, words, strict=True):
        remote.say(*some)
    return [remote.hear() for remote in remotes]


if __name__ == "__main__":
    nursery()
