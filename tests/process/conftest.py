"""A real cluster for the tests that need one: a master and two workers of Spark's pip package, three processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.ports import free_port
from tocsin.pipeline.java import find_java, java_home

SPARK_HOME = Path(pyspark.__file__).parent
STARTING_SECONDS_MAX = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each; their work folders are tmp_path/0 and tmp_path/1."""
    port, pages = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = os.environ | {"JAVA_HOME": str(java_home(find_java())), "SPARK_LOCAL_IP": "127.0.0.1"}
    log = (tmp_path / "cluster.log").open("wb")

    def start(*command: str | Path) -> subprocess.Popen[bytes]:
        program = SPARK_HOME / "bin" / "spark-class"
        return subprocess.Popen([program, *command], env=environment, stdout=log, stderr=log)

    with ExitStack() as stack:
        stack.callback(log.close)
        where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(pages))
        started = [start("org.apache.spark.deploy.master.Master", *where)]
        for number in range(2):
            size = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()))
            folder = ("--work-dir", tmp_path / str(number))
            started.append(start("org.apache.spark.deploy.worker.Worker", *size, *folder, master))
        for process in started:
            stack.callback(process.wait)
            stack.callback(process.terminate)
        deadline = time.monotonic() + STARTING_SECONDS_MAX
        while (tmp_path / "cluster.log").read_bytes().count(b"Successfully registered with master") < 2:
            assert time.monotonic() < deadline, (tmp_path / "cluster.log").read_text()
            time.sleep(0.2)
        yield master
