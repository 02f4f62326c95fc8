"""What a source may say of its ticks, and what is refused."""

from __future__ import annotations

import random

import pytest

from tests.views.test_engine import RELATIONS, stream
from tocsin.errors import EventError
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder
from tocsin.views.history import History
from tocsin.views.value import SILENT, UNKNOWN

PLAN = compile_views(RELATIONS).plan
DECODER = Decoder(PLAN.relations)


def take(history: History, *items: dict) -> None:
    for item in items:
        history.take(DECODER.item({"relation": "s"} | item))


@pytest.mark.row("G1")
@pytest.mark.parametrize("seed", range(30))
def test_ticks_become_silent_or_events_and_never_change(seed):
    """§2: unknown at first; an event makes earlier ticks known (history constraint); what is known stays."""
    chance = random.Random(seed)
    engine = Engine(PLAN)
    seen: dict[tuple[str, int], object] = {}
    for item in stream(seed, length=25):
        engine.step([DECODER.item(item)])
        for name, history in engine.histories.items():
            states = [history.at(tick) for tick in range(120)]
            for tick, state in enumerate(states):
                assert seen.get((name, tick), UNKNOWN) in (UNKNOWN, state)
                seen[name, tick] = state
            events = [tick for tick, state in enumerate(states) if isinstance(state, tuple)]
            assert not events or UNKNOWN not in states[: events[-1]]
        tick = chance.randint(0, 20)
        wrong = {"relation": "s", "tick": tick, "k": "another", "z": 77}
        if engine.histories["s"].at(tick) is not UNKNOWN:
            with pytest.raises(EventError):
                engine.step([DECODER.item(wrong)])
    assert UNKNOWN not in seen.values(), "both relations are closed"


def test_silence_ahead_leaves_a_gap_that_an_event_may_fill():
    history = History("s")
    take(history, {"tick": 3, "z": 1}, {"silent": [10, 12]})
    assert [history.at(tick) for tick in (2, 4, 10)] == [SILENT, UNKNOWN, SILENT]
    take(history, {"tick": 5, "z": 1})
    assert [history.at(tick) for tick in (4, 6, 9)] == [SILENT, UNKNOWN, UNKNOWN]
    take(history, {"tick": 13, "z": 1})
    assert history.at(9) is SILENT


@pytest.mark.parametrize(("item", "why"), [
    ({"tick": 4, "z": 9}, "goes back behind 7"),
    ({"tick": 7, "z": 2}, "another event is known at tick 7"),
    ({"tick": 9, "z": 2}, "is known to be silent"),
    ({"silent": [6, 8]}, "tick 7 holds an event"),
    ({"silent": [8]}, "needs a first and a last tick"),
    ({"silent": [9, 8]}, "ends before it begins"),
    ({"closed": False}, '"closed": true'),
    ({"tick": "7"}, "tick needs an integer"),
    ({"tick": True}, "tick needs an integer"),
    ({"tick": 20, "z": "x"}, "column z is BIGINT"),
    ({"tick": 20, "z": 1.5}, "column z is BIGINT"),
    ({"tick": 20, "k": 3}, "column k is TEXT"),
    ({"tick": 20, "colour": 3}, "'colour' is not a column"),
    ({"relation": "q", "tick": 1}, "no relation 'q'"),
    ({"z": 1}, 'no "tick"'),
    ({"relation": None}, 'names no "relation"'),
])  # fmt: skip
def test_bad_events_are_refused_with_a_reason(item, why):
    engine = Engine(PLAN)
    for good in ({"tick": 7, "k": "a", "z": 1}, {"silent": [8, 10]}):
        engine.step([DECODER.item({"relation": "s"} | good)])
    with pytest.raises(EventError, match=why):
        engine.step([DECODER.item({"relation": "s"} | item)])
    engine.step([DECODER.item({"relation": "s", "tick": 7, "k": "a", "z": 1})])
    engine.step([DECODER.item({"relation": "s", "closed": True})])
    with pytest.raises(EventError, match="closed"):
        engine.step([DECODER.item({"relation": "s", "tick": 30})])


@pytest.mark.parametrize(("text", "why"), [
    (b"{", "no valid JSON"), (b"[1]", "an event is an object"), (b'{"relation": "s", "relation": "s"}', "twice"),
    (b'{"relation": "s", "tick": 1, "z": NaN}', "NaN"), (b'{"relation": "s", "tick": 1, "k": "\xff"}', "no valid JSON"),
    (b"[" * 100_000, "nested too deeply|no valid JSON"),
])  # fmt: skip
def test_bad_lines_are_refused_with_a_reason(text, why):
    with pytest.raises(EventError, match=why):
        DECODER.line(text)


def test_columns_left_out_are_null_and_names_may_differ_in_case():
    assert DECODER.item({"relation": "R", "tick": 1, "K": "a", "x": 2.0, "y": 3}).cells == (1, "a", 2, 3.0)  # type: ignore[union-attr]
    assert DECODER.item({"relation": "r", "tick": 1}).cells == (1, None, None, None)  # type: ignore[union-attr]


def test_one_bad_event_of_a_batch_does_not_stop_the_others():
    engine, refused = Engine(PLAN), []
    items = [DECODER.item({"relation": "s", "tick": tick}) for tick in (1, 5, 3, 8)]
    engine.step(items, lambda at, error: refused.append(at))
    assert refused == [2]
    assert len(engine.histories["s"]) == 3
