"""A session is quiet, and what goes wrong is told in a sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.pipeline.session import SparkSettings, open_session, tasks_done

MATCH = [sys.executable, "-m", "tocsin", "match"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "d.jsonl").write_text('{"id": "d", "t": "peer"}\n')
    (tmp_path / "s.jsonl").write_text('{"id": "s", "query": "peer"}\n')
    return ["-s", str(tmp_path / "s.jsonl"), "-d", str(tmp_path / "d.jsonl")]


@pytest.mark.parametrize(("name", "value"), [("log_level", "loud"), ("shuffle_partitions", 0), ("arrow_rows_max", -1)])
def test_settings_that_cannot_work_are_refused(name, value) -> None:
    with pytest.raises(SettingError, match=name):
        SparkSettings(**{name: value})


def test_a_cluster_elsewhere_is_not_told_to_call_back_to_loopback() -> None:
    assert SparkSettings().is_here
    assert SparkSettings(master="spark://127.0.0.1:7077").is_here
    assert not SparkSettings(master="spark://cluster.example.org:7077").is_here


def test_one_session_for_the_process_and_its_settings(spark) -> None:
    assert open_session(SparkSettings(master="local[2]", shuffle_partitions=2)) is spark
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert tasks_done(spark) == (0, 0)


@pytest.mark.slow
def test_a_run_says_nothing_but_its_result(files) -> None:
    run = subprocess.run([*MATCH, *files, "--spark"], capture_output=True, text=True, timeout=280, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == '{"subscription": "s", "document": "d", "score": 1.0}\n'


@pytest.mark.slow
def test_a_master_that_is_none_is_told(files) -> None:
    run = subprocess.run(
        [*MATCH, *files, "--spark", "nowhere"], capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode == 1
    assert "Spark (nowhere) stopped: " in run.stderr
    assert "master" in run.stderr.lower()
    assert "Traceback" not in run.stderr
