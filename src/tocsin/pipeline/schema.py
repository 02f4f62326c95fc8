"""What rows look like between stages: NAME for Spark, NAME_ARROW the same for Arrow.

Text travels raw, as one string or as bytes: columns of lists are six times slower between Java and Python.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> StructType:
    """The same for Spark."""
    return from_arrow_schema(schema)


def _schema(*columns: tuple[str, pa.DataType], nullable: tuple[str, ...] = ()) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in columns])


_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()

RAW_ARROW: Final = _schema(("file", _TEXT), ("position", _WHOLE), ("line", pa.binary()), nullable=("file", "line"))
RAW: Final = spark_schema(RAW_ARROW)
"""A record as it arrived: where from, and where in it (a byte or a row: what tells records apart and orders them)."""

DOCUMENTS_ARROW: Final = _schema(("position", _WHOLE), ("id", _TEXT), ("version", _WHOLE), ("body", _TEXT))
DOCUMENTS: Final = spark_schema(DOCUMENTS_ARROW)
"""A document that was accepted: `body` is all of it, as JSON."""

MATCHES_ARROW: Final = _schema(
    ("position", _WHOLE),
    ("document", _TEXT),
    ("version", _WHOLE),
    ("subscription", _TEXT),
    ("score", _REAL),
    ("evidence", _TEXT),
    nullable=("evidence",),
)
MATCHES: Final = spark_schema(MATCHES_ARROW)
"""A document met a subscription; `position` is the document's, `evidence` is JSON if it was asked for."""

REJECTIONS_ARROW: Final = _schema(
    ("file", _TEXT), ("position", _WHOLE), ("reason", _TEXT), ("excerpt", _TEXT), nullable=("file", "excerpt")
)
REJECTIONS: Final = spark_schema(REJECTIONS_ARROW)
"""A record that was refused, with what it starts like."""

PARSED_ARROW: Final = _schema(
    ("file", _TEXT),
    ("position", _WHOLE),
    ("id", _TEXT),
    ("version", _WHOLE),
    ("body", _TEXT),
    ("reason", _TEXT),
    ("excerpt", _TEXT),
    nullable=("file", "id", "version", "body", "reason", "excerpt"),
)
PARSED: Final = spark_schema(PARSED_ARROW)
"""What parsing gives in one pass: a document, or (where `reason` is not null) a rejection."""

COUNTS_ARROW: Final = _schema(("kind", _TEXT), ("name", _TEXT), ("count", _WHOLE))
COUNTS: Final = spark_schema(COUNTS_ARROW)
"""Partial counts: documents, documents that hold a word, documents of a source."""
