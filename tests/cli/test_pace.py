"""The line that tells how fast a pipeline goes."""

from __future__ import annotations

from types import SimpleNamespace

from tocsin.cli.pace import Pace


def test_rates_are_those_of_the_last_seconds():
    clock, now = [0.0], SimpleNamespace(documents=0, matches=0, lag=7, batch_seconds=0.25)
    pace = Pace(lambda: now, lambda: clock[0])
    assert pace.line() == "0 documents (0.0/s) · 7 wait · 0 matches (0.0/s) · last batch 0.25 s"
    for second in range(1, 31):
        clock[0], now.documents, now.matches = float(second), 1_000 * second, 2 * second
        line = pace.line()
    assert line == "30,000 documents (1,000.0/s) · 7 wait · 60 matches (2.0/s) · last batch 0.25 s"
    for second in range(31, 45):
        clock[0] = float(second)
        line = pace.line()
    assert "30,000 documents (0.0/s)" in line, "what was long ago does not count"


def test_nothing_is_said_before_the_pipeline_runs():
    assert Pace(lambda: None).line() == ""
