"""XML: documents as events and trees, how they are read, and how large files are split into records."""

from tocsin.markup.document import Layout, Markup, Tree
from tocsin.markup.reading import LIMITS, read_accepted, read_markup
from tocsin.markup.records import CHUNK_BYTES, Readable, Record, split_records

__all__ = [
    "CHUNK_BYTES", "LIMITS", "Layout", "Markup", "Readable", "Record", "Tree", "read_accepted", "read_markup",
    "split_records",
]  # fmt: skip
