"""A real cluster: a master and two workers from Spark's pip package, each its own process.

What it finds is what this machine finds alone.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyspark
import pytest

from tocsin.cli import main
from tocsin.intake import document_to_json
from tocsin.pipeline.java import find_java, java_home
from tocsin.query import show
from tocsin.sim.markup import NAMESPACES, Tangle
from tocsin.sim.workload import random_documents, random_query

SPARK_HOME = Path(pyspark.__file__).parent
STARTING_SECONDS_MAX = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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


@pytest.mark.slow
def test_two_workers_find_what_one_process_finds(cluster: str, tmp_path: Path, capsys) -> None:
    rng, tangle = np.random.default_rng(45), Tangle(45)
    documents, subscriptions = tmp_path / "d.jsonl", tmp_path / "s.jsonl"
    with documents.open("w", encoding="utf-8") as file:
        for number, document in enumerate(random_documents(rng, 3_000)):
            data = json.loads(document_to_json(document)) | {"padding": "filler " * 200}
            data |= {"xml": tangle.document()} if number % 2 else {}
            file.write(json.dumps(data) + "\n" + ("{broken\n" if number % 500 == 3 else ""))
    with subscriptions.open("w", encoding="utf-8") as file:
        for number in range(300):
            entry: dict[str, object] = {"id": f"s{number}", "query": show(random_query(rng, 2, nested=False))}
            entry |= {"xpath": tangle.query(), "namespaces": NAMESPACES} if number % 3 == 0 else {}
            file.write(json.dumps(entry) + "\n")
    given = ["match", "-s", str(subscriptions), "-d", str(documents)]
    assert main(given) == 1
    alone = capsys.readouterr()
    command = [sys.executable, "-m", "tocsin", *given, "--spark", cluster]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (run.returncode, run.stderr) == (1, alone.err)
    assert run.stdout == alone.out
    assert alone.out.count("\n") > 10_000
    for worker in ("0", "1"):
        assert list((tmp_path / worker).glob("app-*/*")), f"worker {worker} had no part in it"
