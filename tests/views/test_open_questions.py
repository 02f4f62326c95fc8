"""What the paper leaves open (§5), each with its benchmark: at tiny size, what the benchmark promises holds."""

from __future__ import annotations

import pytest

from benchmarks import bench_consolidation, bench_near, bench_placement, bench_push
from tests.views.test_broker import test_a_crash_reads_the_checkpoint_before_the_log as checkpoint_before_log


@pytest.mark.row("G16")
def test_consolidation_placement_push_against_store_near_me_and_checkpoints():
    """§5: every variant shows the same as the plain one, and costs less."""
    few, many = bench_consolidation.run(20, 100, issues=5), bench_consolidation.run(60, 100, issues=5)
    assert few["same"]
    assert many["holds"], many
    assert many["times_fewer_operators"] > few["times_fewer_operators"], "it pays more, the more there are"

    placed = bench_placement.run(60, 4, 10.0)
    assert placed["same"]
    assert placed["holds"], placed

    pushed = bench_push.run(400, 40)
    assert all(way["same"] for way in pushed["ways"]), pushed
    assert pushed["holds"], pushed

    near = bench_near.run(800, 30)
    assert near["same"]
    assert near["holds"], near
    assert bench_near.run(800, 200)["times_fewer_messages"] > near["times_fewer_messages"]

    checkpoint_before_log()


def test_who_is_near_sees_no_event_twice_and_misses_none_when_they_move():
    for seed in range(10):
        steps = bench_near.walk(300, 5, 4, seed)
        shown, _ = bench_near.dynamic(steps)
        assert shown == bench_near.stateful(steps)[0]
        assert shown
