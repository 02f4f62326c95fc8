"""The documents of `-d`, which are read more than once: first to count words, then to match.

What is rejected is told in the first reading only.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence

from tocsin.cli.console import progress, say
from tocsin.errors import DocumentError
from tocsin.files import Input, Rejection, read_documents
from tocsin.intake import Admission
from tocsin.markup import read_markup
from tocsin.model import Document
from tocsin.query.score import Statistics, word_counts
from tocsin.settings import DEFAULTS
from tocsin.text import Analysis


def documents_argument(command: argparse.ArgumentParser, required: bool) -> None:
    """-d, --analysis: what every command on files takes."""
    command.add_argument(
        "-d",
        "--documents",
        metavar="DOCS",
        action="append",
        required=required,
        help="documents: JSONL, a JSON array or CSV, plain, gzip or zstd; a folder of these; - for standard input "
        "(may be given several times)",
    )
    analysis_argument(command)


def analysis_argument(command: argparse.ArgumentParser) -> None:
    """--analysis, which may be given several times, each with one or more pairs."""
    command.add_argument(
        "--analysis",
        metavar="FIELD=NAME",
        action="extend",
        nargs="+",
        default=[],
        help="how a field becomes words: standard (the default), english or keyword",
    )


class Collection:
    """Documents in files, as they are accepted in order."""

    def __init__(self, inputs: Sequence[Input], analysis: Analysis) -> None:
        self._inputs = inputs
        self._analysis = analysis
        self._latest = Admission()
        self.rejected = 0
        self.statistics = self._count()

    def documents(self) -> Iterator[Document]:
        """Every accepted document, each version of it, in order."""
        return self._accepted(Admission(), tell=False)

    def current(self) -> Iterator[Document]:
        """The documents as they stand at the end: replaced versions are left out."""
        return (document for document in self.documents() if self._latest.is_current(document.id, document.version))

    def _count(self) -> Statistics:
        """Two passes at most: a second one only where documents were replaced, since those do not count."""
        frequency: Counter[str] = Counter()
        number = 0
        for document in progress(self._accepted(self._latest, tell=True), "counting words"):
            number += 1
            frequency.update(word_counts(document, self._analysis).keys())
        if self._latest.replaced:
            return Statistics.of(progress(self.current(), "counting words again"), self._analysis)
        return Statistics(number, frequency)

    def _accepted(self, admission: Admission, tell: bool) -> Iterator[Document]:
        reject = self._tell if tell else _ignore
        for located in read_documents(self._inputs, DEFAULTS.document, reject):
            try:
                if located.document.xml is not None:
                    read_markup(located.document.xml)
                if admission.admit(located.document):
                    yield located.document
            except DocumentError as error:
                reject(Rejection(located.file, located.line, error.reason))

    def _tell(self, rejection: Rejection) -> None:
        self.rejected += 1
        say(f"rejected: {rejection}")

    def close(self) -> int:
        """Tells how many were rejected; the exit status."""
        if self.rejected:
            say(f"{self.rejected:,} document{'s' if self.rejected > 1 else ''} rejected")
        return 1 if self.rejected else 0


def _ignore(rejection: Rejection) -> None:
    """It was told before."""
