"""A broker of Kafka for the tests: one process, KRaft, from Maven's jars.

Maven fetches the jars into `.cache/kafka` the first time: the broker's with all they need, and those of Spark's
connector. The connector of Spark 4.3 is not in every copy of the Maven repository yet; that of 4.2 works with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tocsin.pipeline.java import find_java

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "kafka"
BROKER = ("org.apache.kafka:kafka_2.13:4.1.0",)
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)
START_SECONDS_MAX = 60.0


class KafkaUnavailableError(Exception):
    """Java or Maven cannot be had, or Maven cannot fetch the jars."""


def jars(name: str, artifacts: tuple[str, ...], *, transitive: bool) -> Path:
    """The folder with the jars of these artifacts."""
    folder = CACHE / name
    if (folder / "complete").exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError("no Maven found (mvn): it fetches the jars of Kafka")
    folder.mkdir(parents=True, exist_ok=True)
    project = folder / "pom.xml"
    project.write_text(_project(artifacts, transitive), encoding="utf-8")
    command = [maven, "--batch-mode", "--quiet", f"--file={project}", f"-DoutputDirectory={folder}"]
    done = subprocess.run([*command, "dependency:copy-dependencies"], check=False, capture_output=True, timeout=900)
    if done.returncode:
        raise KafkaUnavailableError(f"Maven cannot fetch {', '.join(artifacts)}")
    (folder / "complete").touch()
    return folder


def _project(artifacts: tuple[str, ...], transitive: bool) -> str:
    alone = (
        ""
        if transitive
        else "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )
    wanted = ""
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        ids = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        wanted += f"<dependency>{ids}{alone}</dependency>"
    own = "<modelVersion>4.0.0</modelVersion><groupId>tocsin</groupId><artifactId>jars</artifactId><version>1</version>"
    return f"<project>{own}<dependencies>{wanted}</dependencies></project>"


def connector() -> str:
    """The connector's jars, as the setting spark.jars wants them."""
    return ",".join(map(str, sorted(jars("connector", CONNECTOR, transitive=False).glob("*.jar"))))


class Broker:
    """A running broker; its topics are in a folder, so it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._java = find_java().program
        self._jars = str(jars("broker", BROKER, transitive=True) / "*")
        self._process: subprocess.Popen[bytes] | None = None
        broker, controller = free_port(), free_port()
        self.servers = f"127.0.0.1:{broker}"
        folder.mkdir(parents=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder / "logs"),
            "offsets.topic.replication.factor": "1",
            "num.partitions": "2",
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (folder / "server.properties").write_text(text, encoding="utf-8")
        self._run("kafka.tools.StorageTool", "format", "-t", "dG9jc2luLWthZmthLXRlcw", "-c")
        self.start()

    def _run(self, main: str, *given: str) -> None:
        command = [str(self._java), "-cp", self._jars, main, *given, str(self._folder / "server.properties")]
        subprocess.run(command, check=True, capture_output=True)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        command = [str(self._java), "-Xmx512m", "-cp", self._jars, "kafka.Kafka"]
        with open(self._folder / "log.txt", "ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder / "server.properties")], stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + START_SECONDS_MAX
        host, port = self.servers.split(":")
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise KafkaUnavailableError(f"the broker did not start: see {self._folder / 'log.txt'}") from None
                time.sleep(0.2)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
