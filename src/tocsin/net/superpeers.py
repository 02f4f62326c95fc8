"""A folder and a process for one super-peer, as `host` is for a node of the ring.

    identity.pem, certificate.pem, sealing.pem    who it is
    journal                                       its clients, what is stored for them, what others forwarded
    life                                          how often it has begun
    links                                         its neighbours: an address in each line
    lock, control                                 that it runs, and how to ask it

Links are made at both ends, by their operators: `link` is an entry in a file, and is looked at from then on. What is
refused is counted, and said to the operator.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.net import control
from tocsin.net.complaints import Complaints
from tocsin.net.disk import Journal
from tocsin.net.driver import Driver
from tocsin.net.host import Say, locked, next_life, read_contacts
from tocsin.net.identity import Endpoint, name_and_endpoint, open_identity, write_private
from tocsin.net.limits import DEFAULT_LIMITS, NetError, NetLimits
from tocsin.net.sealing import open_seals
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver
from tocsin.overlay.placement.superpeers.desk import ClientGone
from tocsin.overlay.placement.superpeers.routes import Refusal, Retired, Routed
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.overlay.placement.superpeers.superpeer import SuperPeer
from tocsin.query.semantics import Knowledge

FILE = "links"


@dataclass(frozen=True, slots=True)
class SuperpeerHostSettings:
    """How one super-peer is run."""

    folder: Path
    listen: Endpoint
    advertise: Endpoint | None = None
    """Where others reach it, if not where it listens."""
    links: tuple[Address, ...] = ()
    """Neighbours, beside those in its file."""
    knowledge: Knowledge = Knowledge()
    """How fields are analysed; alike on all super-peers."""
    superpeers: SuperpeerSettings = SuperpeerSettings()
    limits: NetLimits = DEFAULT_LIMITS


class SuperpeerHost:
    """One super-peer in one process."""

    def __init__(self, settings: SuperpeerHostSettings, say: Say) -> None:
        self.settings, self._say, self._complaints = settings, say, Complaints(say)
        self.superpeer: SuperPeer | None = None
        self._is_stopped = False

    async def run(self) -> int:
        """Until it is told to stop, or must; 0 if it was told."""
        settings, folder = self.settings, self.settings.folder
        with locked(folder):
            try:
                identity, life = open_identity(folder), next_life(folder)
                seals = open_seals(identity)
                self._journal = Journal(folder / "journal", settings.limits.disk_bytes_max)
            except OSError as error:
                raise NetError(f"{folder} cannot be used: {error.strerror}") from error
            self.driver = Driver(
                identity, limits=settings.limits, disk=self._journal, on_deliver=self._delivered,
                on_error=self._failed, on_refusal=self._complaints.refused,
            )  # fmt: skip
            server = None
            try:
                self.address = await self.driver.open(settings.listen, settings.advertise)
                self.superpeer = SuperPeer(
                    self.address, self._links(), settings.knowledge, settings=settings.superpeers, sealing=seals,
                    disk=self._journal, life=life,
                )  # fmt: skip
                server = await control.listen(folder, self._verbs())
                self._say(f"super-peer {self.address}")
                self.driver.add(self.address, self.superpeer)
                if self._is_stopped:
                    return 0
                why = await self.driver.ended
                if why:
                    self._say(f"this super-peer stops: {why}")
                return 1 if why else 0
            finally:
                if server is not None:
                    server.close()
                    control.forget(folder)
                await self.driver.close()
                self._journal.close()

    def stop(self) -> None:
        """Ends; what it keeps is on disk, and its neighbours find out by themselves."""
        self._is_stopped = True
        if hasattr(self, "driver"):
            self.driver.end("")

    def _links(self) -> tuple[Address, ...]:
        path = self.settings.folder / FILE
        known = (*self.settings.links, *(read_contacts(path) if path.exists() else ()))
        for one in known:
            _check_address(one)
        return tuple(dict.fromkeys(known))

    def _delivered(self, address: Address, effect: Deliver) -> None:
        match effect.what:
            case Refusal(kind, who, why):
                self._complaints.tell(kind, who, why)
            case Retired(superpeer) if superpeer == self.address:
                self._say("this super-peer was retired: the others go on without it; begin with a new folder")
            case Retired(superpeer):
                self._say(f"{superpeer} was retired")
            case Routed(links):
                self._say(f"links: {', '.join(links) or 'none'}")
            case ClientGone(client):
                self._say(f"client {client} does not answer: what comes for it is kept")

    def _failed(self, address: Address, error: Exception) -> None:
        self._say(f"a message was dropped, as it made this super-peer fail: {type(error).__name__}: {error}")

    # --- what it can be asked ----------------------------------------------------------------------------------------

    def _verbs(self) -> dict[str, control.Verb]:
        return {"status": self._status, "link": self._link, "retire": self._retire, "leave": self._told_to}

    async def _told_to(self, request: dict[str, Any]) -> dict[str, Any]:
        self.stop()
        return {"state": "leaving"}

    async def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.superpeer is not None
        messages, sizes = self.driver.count()
        return self.superpeer.status() | {
            "address": self.address, "sent": dict(sorted(messages.items())),
            "sent_bytes": dict(sorted(sizes.items())), "received": self.driver.received,
            "counts": dict(sorted(self.driver.counts.items())), "connections": self.driver.connections,
            "peers": self.driver.peers(), "journal_bytes": self._journal.size,
        }  # fmt: skip

    async def _link(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.superpeer is not None
        with_whom = str(request["with"])
        _check_address(with_whom)
        links = tuple(dict.fromkeys((*self._links(), with_whom)))
        write_private(self.settings.folder / FILE, "".join(f"{one}\n" for one in links).encode())
        self.superpeer.routes.link(links)
        return {"links": list(links)}

    async def _retire(self, request: dict[str, Any]) -> dict[str, Any]:
        gone = str(request["superpeer"])
        _check_address(gone)
        self.driver.invoke(self.address, lambda superpeer, now: superpeer.routes.retire(gone, now))
        return {"retired": gone}


def _check_address(text: Address) -> None:
    if name_and_endpoint(text) is None:
        raise ValueError(f"{text!r} is no super-peer: write NAME@HOST:PORT, as it says when it starts")


def run_superpeer(settings: SuperpeerHostSettings, say: Say) -> int:
    """Runs a super-peer until SIGTERM or SIGINT."""

    async def main() -> int:
        host = SuperpeerHost(settings, say)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, host.stop)
        return await host.run()

    return asyncio.run(main())
