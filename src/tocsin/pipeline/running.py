"""A site's stream, kept running: started in the background, and again when something stopped it.

Spark takes some ten seconds to start, so nobody waits for it. A stream that fails (the store's server is away, a disk
is full) is started again after a pause that grows; nothing is lost meanwhile, since documents wait in the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tocsin.errors import PipelineError, TocsinError
from tocsin.pipeline.inbox import ALWAYS, Period
from tocsin.pipeline.preview import Preview
from tocsin.pipeline.session import SparkSettings, open_session
from tocsin.pipeline.stream import Progress, Stream, StreamSettings
from tocsin.query.score import Statistics
from tocsin.store import Store
from tocsin.store.subscriptions import Asked
from tocsin.text import Analysis

LOOK_SECONDS = 0.5  # between looks at whether the stream runs
PAUSE_SECONDS_MAX = 60.0
TRANSIENT = (TocsinError, PySparkException, Py4JError, OSError)


class Pipeline:
    """The stream of a store, with the Spark session it runs on."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        spark: SparkSettings | None = None,
        stream: StreamSettings | None = None,
        analysis: Analysis | None = None,
        noticed: Callable[[int], None] | None = None,
    ) -> None:
        """`noticed` is called with the number of new notifications after each batch that has some."""
        self._store = store
        self._folder = folder
        self._spark_settings = spark or SparkSettings()
        self._stream_settings = stream
        self._analysis = analysis
        self._noticed = noticed
        self._spark: SparkSession | None = None
        self._stream: Stream | None = None
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins, in a thread of its own."""
        self._thread = threading.Thread(target=self._keep_running, name="pipeline", daemon=True)
        self._thread.start()

    def _keep_running(self) -> None:
        pause = 1.0
        while not self._stopping.is_set():
            try:
                self._begin()
                while not self._stopping.wait(LOOK_SECONDS):
                    stream = self._stream
                    if stream is None or not stream.is_running:
                        raise PipelineError(stream.failure() or "the stream stopped" if stream else "it did not start")
                    if stream.progress().documents:
                        self._failure, pause = None, 1.0
            except TRANSIENT as error:
                self._failure = str(error).strip().splitlines()[0]
                self._stopping.wait(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _begin(self) -> None:
        if self._spark is None:
            self._spark = open_session(self._spark_settings)
        stream = Stream(
            self._store,
            self._folder,
            self._spark,
            settings=self._stream_settings,
            analysis=self._analysis,
            noticed=self._noticed,
        )
        stream.start()
        self._stream = stream

    @property
    def is_running(self) -> bool:
        """Does it take documents?"""
        return self._stream is not None and self._stream.is_running

    def failure(self) -> str | None:
        """What went wrong last, if it has not gone well since."""
        return self._failure

    def progress(self) -> Progress | None:
        """How far the stream is; None before it first runs."""
        return None if self._stream is None else self._stream.progress()

    def statistics(self) -> Statistics | None:
        """What words weigh now; None before the first document was counted."""
        return None if self._stream is None else self._stream.statistics()

    def preview(self, asked: Asked, period: Period = ALWAYS) -> Preview:
        """What the query would have brought, from the stored history; QueryError if it is refused."""
        if self._stream is None:
            raise PipelineError(f"the pipeline does not run yet{f': {self._failure}' if self._failure else ''}")
        return self._stream.preview(asked, period)

    def stop(self) -> None:
        """Lets the batch that runs end, then stops the stream and Spark."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        try:
            if self._stream is not None:
                self._stream.stop()
            if self._spark is not None:
                self._spark.stop()
        except TRANSIENT as error:  # who stops a whole group of processes stops Spark's Java, too
            self._failure = f"Spark had stopped before: {str(error).strip().splitlines()[0]}"
        self._spark = None
