"""Documents from a real broker of Kafka, with the reader or the broker killed: each message once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tocsin.store import Store, documents, outbox
from tools.kafka import Broker, KafkaUnavailableError, connector

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        broker = Broker(tmp_path_factory.mktemp("kafka") / "broker")
        connector()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    yield broker
    broker.kill()


WRITER = """
import sys
from tocsin.pipeline.session import SparkSettings, open_session
servers, topic, jars = sys.argv[1:]
rows = [(line.rstrip("\\n"),) for line in sys.stdin]
spark = open_session(SparkSettings(master="local[1]", more={"spark.jars": jars}))
frame = spark.createDataFrame(rows, "value STRING")
frame.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()
spark.stop()
"""


def write(broker: Broker, topic: str, messages: list[str]) -> None:
    command = [sys.executable, "-c", WRITER, broker.servers, topic, connector()]
    subprocess.run(command, input="\n".join(messages), text=True, check=True)


class Reader:
    """A store, and the process that fills it from a topic."""

    def __init__(self, folder, broker: Broker, topic: str) -> None:
        self.store = Store(folder / "store")
        self._places = [str(folder / "store"), str(folder / "p"), broker.servers, topic]

    @contextmanager
    def reading(self, *point: str):
        command = [sys.executable, "-m", "tests.process.ingest_driver", *self._places, *point]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def wait(self, process, count: int) -> None:
        end = time.monotonic() + 180
        while documents.last_position(self.store) < count:
            assert process.poll() is None, "the reader has ended"
            assert time.monotonic() < end, f"only {documents.last_position(self.store)} documents arrived"
            time.sleep(0.2)


@pytest.fixture
def reader(tmp_path, broker, request):
    reader = Reader(tmp_path, broker, request.function.__name__)
    yield reader
    reader.store.close()


def messages(first: int, last: int) -> list[str]:
    return [json.dumps({"id": f"d{n}", "text": "peer"}) if n % 7 else f"no json {n}" for n in range(first, last)]


def test_killed_before_during_and_after_a_delivery(reader, broker):
    topic = "test_killed_before_during_and_after_a_delivery"
    write(broker, topic, messages(0, 400))
    for point in ("before", "during", "after"):
        with reader.reading(point) as process:
            assert process.wait(timeout=180) == -signal.SIGKILL
    good = {f"d{n}" for n in range(400) if n % 7}
    with reader.reading() as process:
        reader.wait(process, len(good))
    found = [row.id for rows in documents.read(reader.store, 0, 1_000) for row in rows]
    assert len(found) == len(good)
    assert set(found) == good
    letters = outbox.letters(reader.store, limit=1_000)
    assert len(letters) == 400 - len(good)
    assert all(letter.place.startswith(f"{topic}/") and "invalid JSON" in letter.reason for letter in letters)


def test_a_broker_that_is_killed_only_delays(reader, broker):
    topic = "test_a_broker_that_is_killed_only_delays"
    write(broker, topic, messages(1, 7))
    with reader.reading() as process:
        reader.wait(process, 6)
        broker.kill()
        time.sleep(2)
        broker.start()
        write(broker, topic, messages(8, 14))
        reader.wait(process, 12)


def test_without_its_connector_the_reason_is_told(tmp_path):
    script = (
        "from tocsin.pipeline.session import SparkSettings, open_session\n"
        "from tocsin.pipeline.ingest import Topic\n"
        "from tocsin.errors import PipelineError\n"
        "try:\n    Topic('k', '127.0.0.1:1', 't').stream(open_session(SparkSettings(master='local[1]')))\n"
        "except PipelineError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "spark.jars.packages" in done.stdout
