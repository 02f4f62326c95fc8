"""A process that brings a topic of Kafka into a store, and may be told where to die: run by test_kafka.

python -m tests.process.ingest_driver STORE FOLDER SERVERS TOPIC [before | during | after]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.process.stream_driver import die
from tocsin.pipeline import ingest
from tocsin.pipeline.session import SparkSettings, open_session
from tocsin.store import Store, arrivals
from tools.kafka import connector


def dying(point: str) -> None:
    """Makes the second delivery kill this process at the point."""
    arrive, refuse = vars(ingest)["arrive"], vars(arrivals)["refuse"]
    deliveries = 0

    def arrive_and_die(*given: Any) -> Any:
        nonlocal deliveries
        deliveries += 1
        if point == "before" and deliveries > 1:
            die()
        accepted = arrive(*given)
        if point == "after" and deliveries > 1:
            die()
        return accepted

    def refuse_and_die(*given: Any) -> None:
        refuse(*given)
        if point == "during" and deliveries > 1:
            die()  # documents were written, the transaction has not ended

    vars(ingest).update(arrive=arrive_and_die)
    vars(arrivals).update(refuse=refuse_and_die)


def main(store: str, folder: str, servers: str, topic: str, point: str = "") -> None:
    if point:
        dying(point)
    more = {"spark.jars": connector()}
    spark = open_session(SparkSettings(master="local[2]", driver_memory_megabytes=512, more=more))
    source = ingest.Topic("kafka", servers, topic, batch_messages_max=100)
    running = ingest.Ingest(Store(store), Path(folder), spark, source, chunk_documents_max=30)
    running.start()
    print("running", flush=True)
    while running.is_running:
        time.sleep(0.05)
    print(running.failure(), flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
