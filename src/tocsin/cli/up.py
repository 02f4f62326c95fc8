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
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tocsin.cli.console import say
from tocsin.errors import SettingError

if TYPE_CHECKING:
    import uvicorn

    from tocsin.web.app import Application

NAME = "up"
HELP = "run a site: store, pipeline, HTTP API"
DESCRIPTION = """Runs a whole installation on this machine. Its first line of output is its address; on the first start
it prints the administrator's token, once (TOCSIN_ADMIN_TOKEN presets it). It stops on ctrl-C or SIGTERM."""

FOLDER = "tocsin-data"


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument(
        "--data", metavar="DIR", help=f"the site's folder (default: {FOLDER}; with --demo a new one that is removed)"
    )
    command.add_argument(
        "--host", metavar="H", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)"
    )
    command.add_argument("--port", metavar="P", type=_port, help="the port (default: 8047, else the next free one)")
    command.add_argument("--demo", action="store_true", help="add generated documents and sample subscriptions")
    command.add_argument(
        "--store", metavar="URL", help="a PostgreSQL server for the store, such as postgresql://user@host/tocsin"
    )
    command.add_argument("--master", metavar="MASTER", default="local[*]", help="where Spark runs (default local[*])")
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
    from tocsin.web.app import Application
    from tocsin.web.server import listen, make_server, url_of

    listening = listen(given.host, given.port)
    with contextlib.closing(listening):
        site = _site(given, folder)
        try:
            token = _first_start(site)
            application = Application(site)
            print(f"Tocsin is at {url_of(listening)}", flush=True)
            if token is not None:
                print(f"The administrator's token, shown this once: {token}", flush=True)
            server = make_server(application)
            with _stopping(server, application), _busy(given, site):
                site.start()
                server.run(sockets=[listening])
        finally:
            say("stopping …")
            site.stop()
    return 0
