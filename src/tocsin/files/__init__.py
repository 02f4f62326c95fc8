"""Files and standard input to documents and subscriptions; results back to files.

Everything is read as a stream, so a large file needs no more memory than a small one:

    inputs         which files, and that each can be read          paths -> Input
    unpacked       plain, gzip or zstd                             Input -> chunks of bytes
    lines          chunks to lines, none longer than its limit     chunks -> (line, bytes)
    values         JSON arrays and objects over several lines      chunks -> Piece
    rows           CSV                                             chunks -> Piece
    documents      any of these, each checked by tocsin.intake     Piece  -> Located
    subscriptions  likewise                                        Piece  -> Entry
    output         a file that is replaced whole or not at all

What cannot be read is handed to a callback as a Rejection with its file, line and reason; the rest goes through.
"""

from tocsin.files.documents import Located, read_documents
from tocsin.files.inputs import Input, find_inputs, rereadable
from tocsin.files.output import replacing
from tocsin.files.pieces import Rejection
from tocsin.files.subscriptions import Entry, read_subscriptions

__all__ = [
    "Entry",
    "Input",
    "Located",
    "Rejection",
    "find_inputs",
    "read_documents",
    "read_subscriptions",
    "replacing",
    "rereadable",
]
