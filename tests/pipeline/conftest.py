"""One small Spark session for all tests of the pipeline: starting it takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tocsin.pipeline.session import SparkSettings, open_session

SETTINGS = SparkSettings(master="local[2]", shuffle_partitions=2, driver_memory_megabytes=768)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session(SETTINGS, "tests")
    yield session
    session.stop()
