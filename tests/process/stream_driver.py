"""A process that runs the stream of a store, and may be told where to die: run by test_stream_killed.

python -m tests.process.stream_driver STORE FOLDER BATCH_DOCUMENTS_MAX [before | during | after | spark://MASTER]
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tocsin.pipeline.session import SparkSettings, open_session
from tocsin.pipeline.stream import Stream, StreamSettings
from tocsin.store import Store, outbox


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(point: str) -> None:
    """Makes the sink kill this process at the point; the first batch passes, so that there is something to repeat."""
    finish, append = outbox.finish, outbox._append
    batches = 0

    def finish_and_die(*given: Any) -> int:
        nonlocal batches
        batches += 1
        if point == "before" and batches > 1:
            die()
        written = finish(*given)
        if point == "after" and batches > 1:
            die()
        return written

    def append_and_die(*given: Any) -> int:
        written = append(*given)
        if point == "during" and batches > 1:
            die()  # the rows were written, the transaction has not ended
        return written

    vars(outbox).update(finish=finish_and_die, _append=append_and_die)


def main(store: str, folder: str, batch: str, point: str = "") -> None:
    is_cluster = point.startswith("spark://")
    if point and not is_cluster:
        dying(point)
    spark = open_session(SparkSettings(master=point if is_cluster else "local[2]", driver_memory_megabytes=512))
    settings = StreamSettings(batch_documents_max=int(batch), small_documents_max=20)  # both ways to the driver
    stream = Stream(Store(store), Path(folder), spark, settings=settings)
    stream.start()
    print("running", flush=True)
    while stream.is_running:
        time.sleep(0.05)
    print(stream.failure(), flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
