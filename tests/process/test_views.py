"""A process that takes events is killed at any moment: what it answered is there, and the views are those of it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tocsin.site import accounts, life, reading
from tocsin.site.site import Site
from tocsin.store import Store
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder

SQL = """CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE);
CREATE VIEW high AS SELECT issue, max(price) AS high, count(*) AS n FROM quotes GROUP BY issue"""
CHILD = """
import sys
from tocsin.site import views as module
from tocsin.site.site import Site
from tocsin.store import Store
module.CHECKPOINT_EVENTS, module.BYTES_AN_EVENT = 8, 1 << 40  # every other call writes a checkpoint, too
views = Site(Store(sys.argv[1])).views
tick = int(sys.argv[2])
while True:
    lines = ['{"relation": "quotes", "tick": %d, "issue": "i%d", "price": %d}' % (t, t % 3, t * 37 % 101)
             for t in range(tick, tick + 4)]
    assert views.publish(lines) == [None] * 4
    print(tick + 3, flush=True)  # answered
    tick += 4
"""


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_what_was_answered_survives_kill_9_and_is_told_once(tmp_path: Path, kills: int) -> None:
    """Killed while it stores events, rows, notifications or a checkpoint; the next one reads the checkpoint first."""
    site = Site(Store(tmp_path))
    ann = accounts.create(site.store, "ann", "publisher")
    assert len(site.views.create(ann, SQL).made) == 2
    life.create(site, ann, {"view": "high", "id": "all"})
    chance, tick = random.Random(3), 1
    for _ in range(kills):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path), str(tick)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.uniform(0, 0.3))
        os.kill(child.pid, signal.SIGKILL)
        answered = [int(line) for line in child.stdout.read().split()]
        child.wait()
        child.stdout.close()
        views = Site(site.store).views
        size = views.described(ann, "quotes").size
        assert size % 4 == 0, "a call is stored whole or not at all"
        assert size >= max(answered, default=tick + 3)
        engine = Engine(compile_views(SQL).plan)
        lines = [
            {"relation": "quotes", "tick": t, "issue": f"i{t % 3}", "price": t * 37 % 101} for t in range(1, size + 1)
        ]
        engine.step([Decoder(engine.plan.relations).line(json.dumps(line)) for line in lines])
        wanted = [change.json() for change in engine.state()]
        assert [change.json() for change in views.rows(ann, "high", 10)[1]] == wanted
        told = [reading.as_json(item) for item in reading.notifications(site, ann, None, 1000).items]
        assert sorted((one["key"]["issue"], json.dumps(one["row"])) for one in told) == [
            (one["key"]["issue"], json.dumps(one["row"])) for one in wanted
        ]
        tick = size + 1
    site.store.close()
