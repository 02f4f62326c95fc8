"""Who goes on from a checkpoint says what it would have said without the break."""

from __future__ import annotations

import json
import random

import pytest

from tests.views.test_engine import RELATIONS, SQL, VIEWS, stream
from tocsin.views import checkpoint
from tocsin.views.codec import dumped, loaded
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder, Event, Item
from tocsin.views.ticks import Ticks
from tocsin.views.value import UNKNOWN, Growing, Latest, Rows, SoFar

PLAN = compile_views(SQL).plan
DECODER = Decoder(PLAN.relations)


def told(changes) -> list[str]:
    return sorted(json.dumps(change.json()) for change in changes)


def forbidden(upto):
    raise AssertionError(f"the log is read: {upto}")


def replay_of(items: list[Item]):
    """The log of what was taken."""

    def replay(upto):
        for name, last in upto.items():
            log = [one for one in items if isinstance(one, Event) and one.relation == name and one.tick <= last]
            yield from (log[at : at + 4] for at in range(0, len(log), 4))

    return replay


class TheLog:
    """The stored events of one source."""

    def __init__(self, items: list[Item], name: str) -> None:
        self._events = {one.tick: one.cells for one in items if isinstance(one, Event) and one.relation == name}

    def at(self, tick):
        return self._events.get(tick)

    def first(self, start):
        return min((tick for tick in self._events if tick >= start), default=None)


@pytest.mark.row("G16")
@pytest.mark.parametrize("seed", range(8))
def test_an_engine_goes_on_from_its_checkpoint_without_reading_the_log(seed):
    """Relational subscriptions §5: a checkpoint of an intermediate view is read before the log."""
    chance = random.Random(seed)
    items = [DECODER.item(item) for item in stream(seed, length=25)]
    whole, broken = Engine(PLAN), Engine(PLAN)
    for at, item in enumerate(items):
        if chance.random() < 0.2:
            parts = checkpoint.taken(broken)
            broken = Engine(PLAN)
            checkpoint.restore(broken, parts, forbidden)
            for name, history in broken.histories.items():
                history.log = TheLog(items[:at], name)
        assert told(whole.step([item])) == told(broken.step([item]))
    assert [c.json() for c in whole.state()] == [c.json() for c in broken.state()]
    assert [len(h) for h in whole.histories.values()] == [len(h) for h in broken.histories.values()]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_new_in_a_plan_reads_the_log_and_what_is_known_does_not(seed):
    chance = random.Random(seed)
    names = chance.sample([name for name, sql in VIEWS.items() if " r" in sql and "FROM windows" not in sql], 6)
    some = RELATIONS + "".join(f"CREATE VIEW {name} AS {VIEWS[name]};\n" for name in names)
    compiled = compile_views(some)
    items = [DECODER.item(item) for item in stream(seed, length=20)]
    half = len(items) // 2
    before, whole = Engine(compiled.plan), Engine(PLAN)
    before.step(items[:half])
    whole.step(items[:half])
    after = Engine(PLAN)
    marks = checkpoint.restore(after, checkpoint.taken(before), replay_of(items[:half]))
    assert {name: mark.events for name, mark in marks.items()} == {n: len(h) for n, h in whole.histories.items()}
    assert [c.json() for c in whole.state()] == [c.json() for c in after.state()]
    for name, history in after.histories.items():
        history.log = TheLog(items[:half], name)
    for item in items[half:]:
        assert told(whole.step([item])) == told(after.step([item]))


def test_a_checkpoint_of_other_relations_is_none():
    before = Engine(compile_views("CREATE RELATION r (tick BIGINT, x BIGINT);").plan)
    before.step([Event("r", 1, (1, 2))])
    after = Engine(PLAN)
    marks = checkpoint.restore(after, checkpoint.taken(before), replay_of([]))
    assert not marks
    assert not after.histories["r"].known


@pytest.mark.parametrize("value", [
    None, True, 1, 2**80, -0.5, float("inf"), "x\0\ud800", (), [], {}, set(), (1, "a", None), {(1, "x"): {"a": [1]}},
    {1, "b"},
    SoFar(1, 0.5), SoFar(Rows(("a",), ((1,),)), None, 3), Latest("x", 5, 1), UNKNOWN, Growing(Rows(("a", "b"), ())),
    Ticks([(1, 5), (9, 9)]), ["t", 1], ("d",),
])  # fmt: skip
def test_every_value_comes_back_as_it_was(value):
    back = loaded(dumped(value))
    assert (back, type(back)) == (value, type(value))


def test_what_no_view_remembers_is_not_written():
    with pytest.raises(TypeError):
        dumped(object())
