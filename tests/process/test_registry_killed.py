"""A process that saves its index is killed (SIGKILL) at random moments: the newest version is always whole."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tocsin import Document, Knowledge
from tocsin.match.registry import Registry

WRITER = """
import sys
from pathlib import Path
from tocsin.match.registry import Registry, versions
folder = Path(sys.argv[1])
registry = Registry.open(folder) if versions(folder) else Registry()
while True:
    following = registry.version + 1
    registry.add_many([(f"{following}-{n}", f"common w{n}" if n % 3 else f'"common w{n}"') for n in range(40)])
    if following > 3:
        registry.remove(f"{following - 3}-7")
    registry.save(folder)
    print(registry.version, flush=True)
"""


def expected(version: int) -> set[str]:
    """What version n holds, by the writer's rule alone."""
    every = {f"{one}-{n}" for one in range(1, version + 1) for n in range(40)}
    return every - {f"{one - 3}-7" for one in range(4, version + 1)}


def kill_and_check(folder: Path, moments: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    document = Document("d", {"t": ("; ".join(f"common w{n}" for n in range(40)),)})
    seen = []
    for _ in range(moments):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        told = int(writer.stdout.readline())
        time.sleep(chance.uniform(0, 0.1))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        registry = Registry.open(folder, verify=True)
        found = {id for _, id in registry.match([document], Knowledge()).matches}
        assert found == expected(registry.version)
        assert registry.version >= told, "a version that was told is never lost"
        seen.append(registry.version)
    return seen


def test_killed_at_random_moments(tmp_path: Path) -> None:
    assert kill_and_check(tmp_path, moments=6, seed=1)[-1] > 1


@pytest.mark.slow
def test_killed_at_two_hundred_random_moments(tmp_path: Path) -> None:
    seen = kill_and_check(tmp_path, moments=200, seed=2)
    assert seen[-1] > 200
