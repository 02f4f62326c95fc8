"""`tocsin up`: runs a site on this machine: store, Spark pipeline, HTTP API and delivery, with no other server.

HTTP answers at once; Spark starts meanwhile. One process owns a data folder: a second one is told so.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tocsin.cli.console import say, watched
from tocsin.cli.pace import Pace
from tocsin.errors import SettingError

if TYPE_CHECKING:
    import uvicorn

    from tocsin.cli.installation import Installation
    from tocsin.site.federation import Federation
    from tocsin.site.site import Site
    from tocsin.web.app import Application

NAME = "up"
HELP = "run a site: store, pipeline, HTTP API"
DESCRIPTION = """Runs a whole installation on this machine. Its first line of output is its address; on the first start
it prints the administrator's token, once (TOCSIN_ADMIN_TOKEN presets it). It stops on ctrl-C or SIGTERM."""

FOLDER = "tocsin-data"
SETTINGS = "settings.toml"
LISTEN = "127.0.0.1:8048"
LOOK_SECONDS = 0.5


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument(
        "--data", metavar="DIR", help=f"the site's folder (default: {FOLDER}; with --demo a new one that is removed)"
    )
    command.add_argument(
        "--host", metavar="H", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)"
    )
    command.add_argument("--port", metavar="P", type=_port, help="the port (default: 8047, else the next free one)")
    command.add_argument(
        "--settings", metavar="FILE", help=f"a TOML file of settings (default: {SETTINGS} in the site's folder, if any)"
    )
    command.add_argument("--demo", action="store_true", help="add generated documents and sample subscriptions")
    command.add_argument(
        "--store", metavar="URL", help="a PostgreSQL server for the store, such as postgresql://user@host/tocsin"
    )
    command.add_argument("--master", metavar="MASTER", help="where Spark runs (default: the settings', else local[*])")
    command.add_argument(
        "--join", metavar="NODE", action="append", default=[],
        help="make the site a node of the ring of this one (HOST:PORT or NAME@HOST:PORT; may be repeated)",
    )  # fmt: skip
    command.add_argument(
        "--listen", metavar="HOST:PORT",
        help=f"make the site a node that listens here for other nodes (default with --join: {LISTEN})",
    )  # fmt: skip
    command.add_argument(
        "--allow-private-webhooks", action="store_true", help="let webhooks call addresses of the site's own network"
    )


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return number


def run(given: argparse.Namespace) -> int:
    """Runs until it is stopped."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # pages of Java; the pipeline says in one line why it failed
    with folder_of(given) as folder, owned(folder):
        return _run(given, folder)


@contextlib.contextmanager
def folder_of(given: argparse.Namespace) -> Iterator[Path]:
    """The site's folder; a demonstration that was not given one uses a new one, and removes it."""
    if given.data is None and given.demo:
        folder = Path(tempfile.mkdtemp(prefix="tocsin-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    folder = Path(given.data or FOLDER)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SettingError(f"--data {folder}: the folder cannot be made: {error.strerror}") from None
    yield folder


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """The folder is this process's alone, until it ends, however it ends."""
    try:
        lock = open(folder / "lock", "a+", encoding="utf-8")  # noqa: SIM115 - it is held until the end
    except OSError as error:
        raise SettingError(f"{folder} cannot be written: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            owner = lock.read(20).strip() or "unknown"
            message = f"{folder} is in use by another Tocsin (process {owner}): stop that one, or choose another --data"
            raise SettingError(message) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _run(given: argparse.Namespace, folder: Path) -> int:
    # Heavy: numba, Spark. Other commands do without, and a usage error is told at once.
    from tocsin.site import accounts
    from tocsin.web.app import Application
    from tocsin.web.server import listen, make_server, url_of

    settings = _settings(given, folder)
    listening = listen(given.host, given.port)
    with contextlib.closing(listening):
        site = _site(given, folder, settings)
        try:
            token = accounts.first_start(site.store, os.environ.get("TOCSIN_ADMIN_TOKEN") or None)
            application = Application(site, settings.web)
            server = make_server(application, settings.web)
            print(f"Tocsin is at {url_of(listening)}", flush=True)
            if token is not None:
                print(f"The administrator's token, shown this once: {token}", flush=True)
            pace = Pace(site.progress)
            with _stopping(server, application), watched(pace.line), _watched(site), _busy(given, site):
                site.start()
                server.run(sockets=[listening])
                say("stopping …")
        finally:
            _stop(site)
    return 0


def _stop(site: Site) -> None:
    try:
        site.stop()
    finally:
        site.store.close()


@contextlib.contextmanager
def _watched(site: Site) -> Iterator[None]:
    """Tells when the pipeline runs, and why if it does not."""
    stopping = threading.Event()

    def watch() -> None:
        told: str | None = "it starts"
        while not stopping.wait(LOOK_SECONDS):
            now = site.failure if not site.is_running else None
            if now != told and (site.is_running or now is not None):
                say("the pipeline runs" if now is None else f"the pipeline does not run: {now}")
                told = now

    watcher = threading.Thread(target=watch, name="watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stopping.set()
        watcher.join()


def _settings(given: argparse.Namespace, folder: Path) -> Installation:
    """What the file says, then what the command line says."""
    from tocsin.cli.installation import Installation
    from tocsin.cli.settings_file import read_settings

    file = Path(given.settings) if given.settings is not None else folder / SETTINGS
    settings = Installation()
    if given.settings is not None or file.exists():
        settings = read_settings(file, settings)
    if given.master is not None:
        settings = replace(settings, spark=replace(settings.spark, master=given.master))
    if given.allow_private_webhooks:
        delivery = replace(settings.site.delivery, delivery_allows_private=True)
        settings = replace(settings, site=replace(settings.site, delivery=delivery))
    return settings


def _site(given: argparse.Namespace, folder: Path, settings: Installation) -> Site:
    from tocsin.pipeline.running import Pipeline
    from tocsin.site.searching import Searching
    from tocsin.site.site import Site
    from tocsin.store import Store

    store = Store(given.store or folder)
    site = Site(store, settings.site)
    pipeline = Pipeline(
        store,
        folder / "pipeline",
        spark=settings.spark,
        stream=settings.stream,
        analysis=site.analysis,
        noticed=site.noticed,
    )
    site.pipeline = pipeline
    site.searching = Searching(store, folder / "search", site.analysis, pipeline.statistics)
    if given.join or given.listen:
        site.federation = _federation(given, folder, site)
    return site


def _federation(given: argparse.Namespace, folder: Path, site: Site) -> Federation:
    """The site's node: in a ring that was named, in the one that it was in, or the first of a new one."""
    from tocsin.net.host import HostSettings
    from tocsin.net.identity import endpoint
    from tocsin.site.federation import Federation

    settings = HostSettings(folder / "node", endpoint(given.listen or LISTEN), contacts=tuple(given.join))
    return Federation(site, settings, say)


@contextlib.contextmanager
def _stopping(server: uvicorn.Server, application: Application) -> Iterator[None]:
    """SIGINT and SIGTERM end the open calls, then the server; a second one does not wait for them."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        application.stop()

    # uvicorn would raise the signal again when it has stopped: the process would end before the site has.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _busy(given: argparse.Namespace, site: Site) -> Iterator[None]:
    """With --demo: papers keep arriving meanwhile."""
    if not given.demo:
        yield
        return
    from tocsin.cli.demo import Demo

    demo = Demo(site)
    demo.start()
    try:
        yield
    finally:
        demo.stop()
