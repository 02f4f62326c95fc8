"""One way to a Spark session: small, quiet and on this machine unless told otherwise.

A session is the process's own: Spark has one for all, so settings that concern its Java (memory, logs) count when the
first is opened. Workers run the same Python as this process; on a cluster, Tocsin must be installed there too, and
files must be seen under the same paths.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tocsin.errors import SettingError, SparkError
from tocsin.pipeline.java import find_java, java_home, private_folder

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
LOG_LEVELS = ("off", "fatal", "error", "warn", "info", "debug")


_CAUSE = re.compile(r"(?:: )?(?!pyspark\.)[\w.]+(?:Error|Exception|Failed)[\w.]*: ")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How Spark runs."""

    master: str = "local[*]"
    """Where: local[N] is N threads of this process, spark://HOST:PORT a cluster."""
    driver_memory_megabytes: int = 1_024
    """Memory of this process's Java."""
    shuffle_partitions: int = 4
    """Parts into which rows are sorted or grouped."""
    arrow_rows_max: int = 4_096
    """Rows that a Python worker takes at a time."""
    arrow_bytes_max: int = 64 << 20
    """Bytes that a Python worker takes at a time, about."""
    ui: bool = False
    """Serve Spark's own pages?"""
    log_level: str = "error"
    """What of Spark's log goes to standard error."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Any other setting of Spark, by its own name; these win."""

    def __post_init__(self) -> None:
        if self.log_level not in LOG_LEVELS:
            raise SettingError(f"unknown log_level {self.log_level!r}: one of {', '.join(LOG_LEVELS)}")
        for name in ("driver_memory_megabytes", "shuffle_partitions", "arrow_rows_max", "arrow_bytes_max"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}: it must be at least 1")

    @property
    def is_here(self) -> bool:
        """Does all of it run on this machine?"""
        return self.master.startswith("local") or urlsplit(self.master).hostname in LOCAL_HOSTS


DEFAULTS = SparkSettings()


def open_session(settings: SparkSettings = DEFAULTS, name: str = "tocsin") -> SparkSession:
    """The session, a new one if there is none; JavaError if no Java can run it."""
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java_home(find_java()))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if settings.is_here:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(settings.master)
    for key, value in _options(settings).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(settings.log_level.upper())
    return session


@contextmanager
def running(
    settings: SparkSettings = DEFAULTS, while_starting: AbstractContextManager[None] | None = None
) -> Iterator[SparkSession]:
    """The session for as long as the context; one that ran before is used, and left running."""
    if (known := SparkSession.getActiveSession()) is not None:
        yield known
        return
    try:
        with while_starting or nullcontext():
            session = open_session(settings)
        try:
            yield session
        finally:
            session.stop()
    except (PySparkException, Py4JError) as error:
        raise SparkError(f"Spark ({settings.master}) stopped: {_told(error)}") from error


def _told(error: Exception) -> str:
    """What happened, out of the pages that Spark writes about it."""
    lines = [line.strip() for line in str(error).splitlines()]
    found = [line for line in lines if _CAUSE.match(line)] or [line for line in lines if line] or [type(error).__name__]
    return found[0].removeprefix(": ")


def _options(settings: SparkSettings) -> dict[str, str]:
    options = {
        "spark.driver.memory": f"{settings.driver_memory_megabytes}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_logging(settings.log_level).as_uri()}",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(settings.arrow_rows_max),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(settings.arrow_bytes_max),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": str(settings.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.is_here:
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return options | dict(settings.more)


def _logging(level: str) -> Path:
    """A file that tells Spark's log what to say, and where."""
    text = (
        f"rootLogger.level = {level}\n"
        "rootLogger.appenderRef.stderr.ref = stderr\n"
        # Without a level of its own, Spark announces one on standard error.
        "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer\n"
        f"logger.gateway.level = {level}\n"
        "appender.stderr.type = Console\n"
        "appender.stderr.name = stderr\n"
        "appender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\n"
        "appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex\n"
    )
    path = private_folder() / f"log4j2-{blake2b(text.encode(), digest_size=8).hexdigest()}.properties"
    if not path.is_file():
        beside = path.with_name(f"{path.name}.{os.getpid()}.partial")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    return path


def tasks_done(session: SparkSession) -> tuple[int, int]:
    """Of the stages that run now: how many tasks are done, and how many there are."""
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
