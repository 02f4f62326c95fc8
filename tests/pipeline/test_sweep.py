"""Sweeps: each configuration of an experiment is a task of Spark, and the results are those of one process."""

from __future__ import annotations

import os
from functools import partial
from operator import mul

import pytest
from pyspark.errors import PythonException

from tocsin.lab import dhtrie_casts, dhtrie_traffic, smartseer_notification, superpeer_pruning, xml_balance, xml_scene
from tocsin.lab.sweep import in_turn
from tocsin.pipeline.sweep import run_tasks


def test_answers_come_in_the_order_of_the_tasks(spark):
    assert run_tasks(spark, [partial(mul, number, number) for number in range(20)]) == [n * n for n in range(20)]


def test_tasks_run_in_workers(spark):
    assert os.getpid() not in run_tasks(spark, [os.getpid, os.getpid])


def test_nothing_is_done_for_no_tasks(spark):
    assert run_tasks(spark, []) == in_turn([]) == []


def test_a_task_that_fails_says_why(spark):
    with pytest.raises(PythonException, match="by zero"):
        run_tasks(spark, [partial(divmod, 1, 1), partial(divmod, 1, 0)])


@pytest.mark.parametrize(
    ("experiment", "scales", "scale"),
    [
        (smartseer_notification, smartseer_notification.SCALES, smartseer_notification.Scale(500, 1, (10, 30))),
        (superpeer_pruning, superpeer_pruning.SCALES, superpeer_pruning.Scale((4, 6), 2, 2, 2, (8, 16))),
        (dhtrie_traffic, dhtrie_casts.SCALES, dhtrie_casts.Scale((64, 128, 256), 30, 40, 80)),
        (xml_balance, xml_scene.SCALES, xml_scene.Scale(100, (2_000,), 2)),
    ],
)
def test_an_experiment_finds_the_same_on_spark(spark, monkeypatch, experiment, scales, scale):
    monkeypatch.setitem(scales, "small", scale)
    here, there = experiment.run("small", 1), experiment.run("small", 1, partial(run_tasks, spark))
    assert here.data == there.data
    assert here.claims == there.claims
    assert here.about == there.about
