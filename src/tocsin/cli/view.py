"""`tocsin view`: views in SQL over events in files, or on a running site (`cli.view_site`)."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tocsin.cli import view_site, view_spark
from tocsin.cli.console import progress, say
from tocsin.cli.match import LOCAL
from tocsin.errors import EventError, InputError
from tocsin.files import Rejection, find_inputs
from tocsin.files.lines import lines
from tocsin.files.unpacked import Damaged, chunks
from tocsin.settings import DEFAULTS
from tocsin.views.compile import compile_views
from tocsin.views.engine import Engine
from tocsin.views.events import Decoder, Item
from tocsin.views.told import Change, lines_of

NAME = "view"
HELP = "compute views over events, saying at each step what is certain"
DESCRIPTION = """Views over event histories: SQL that is kept up to date, event by event. Values that can still change
are printed as what is certain of them, such as {"at_least": 80}; final values are plain."""

REJECTIONS_SHOWN = 20
COLUMNS_FROM = 256  # lines: larger batches are worth their arrays
SPARK_BATCH = 100_000
Thing = TypeVar("Thing")


def arguments(command: argparse.ArgumentParser) -> None:
    """Its subcommands and their options."""
    actions = command.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    action = actions.add_parser(
        "run",
        help="run the views of a file over the events of a file",
        description="""Reads CREATE RELATION and CREATE VIEW statements, then events ({"relation", "tick", …},
{"relation", "silent": [first, last]} or {"relation", "closed": true}, one a line), and prints a line
{"view", "key", "row", "final"} for each row that a line changes, before the next line is read.""",
    )
    action.add_argument("-f", "--views", metavar="VIEWS", required=True, help="relations and views, in SQL")
    action.add_argument(
        "-e", "--events", metavar="EVENTS", required=True,
        help="events, one a line: plain, gzip or zstd; - for standard input",
    )  # fmt: skip
    action.add_argument("--final", action="store_true", help="print only the last state of each row")
    action.add_argument(
        "--batch", metavar="N", type=_positive,
        help=f"take N lines as one step, and print what they change (default 1; with --spark {SPARK_BATCH:,})",
    )  # fmt: skip
    action.add_argument(
        "--spark", metavar="MASTER", nargs="?", const=LOCAL,
        help=f"let Spark group and join each batch, with the same rows (of one batch in any order): "
        f"{LOCAL} (the default) or a cluster",
    )  # fmt: skip
    action.add_argument("--plan", action="store_true", help="print the plan to standard error first")
    view_site.arguments(actions)


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return number


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a view or an event was refused; the others run."""
    if given.action != "run":
        return view_site.run(given)
    compiled = compile_views(_read(given.views))
    for refusal in compiled.refused:
        say(f"rejected: {given.views}: {refusal}")
    if given.plan:
        say(compiled.plan.show())
    size = given.batch or (SPARK_BATCH if given.spark else 1)
    if size >= COLUMNS_FROM:
        _collect_less_often()
    events = _Events(given.events, Decoder(compiled.plan.relations))
    batches = _batches(progress(events, "reading events"), size)
    if given.spark:
        read = (events.items(batch) for batch in batches)
        for found in view_spark.changes(given, compiled.plan, read, events.refuse):
            _write(found)
        return 1 if events.close() or compiled.refused else 0
    engine = Engine(compiled.plan, keep=given.final, columns=size >= COLUMNS_FROM)
    unseen = _names(engine.state())  # rows that are there before anything happens; they are printed once they change
    for batch in batches:
        changes = events.feed(engine, batch)
        if changes and not given.final:
            if unseen:
                changes = [one for one in changes if one.row is not None or not unseen & _names([one])]
                unseen -= _names(changes)
            _write(changes)
    if given.final:
        _write(list(engine.state()))
    return 1 if events.close() or compiled.refused else 0


def _collect_less_often() -> None:
    """Events make many objects and hardly a cycle: looking for cycles all the time takes a fifth of it."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"{path} cannot be read: {reason}") from error


def _batches(things: Iterable[Thing], size: int) -> Iterator[list[Thing]]:
    source = iter(things)
    while batch := list(islice(source, size)):
        yield batch


def _names(changes: Iterable[Change]) -> set[str]:
    return {f"{one.view} {one.key}" for one in changes}


def _write(changes: Sequence[Change]) -> None:
    sys.stdout.writelines(lines_of(changes))
    sys.stdout.flush()


class _Events:
    """The lines of `-e`; what cannot be read or taken is told and counted."""

    def __init__(self, path: str, decoder: Decoder) -> None:
        self._inputs = find_inputs([path])
        self._file = path
        self._decoder = decoder
        self.refused = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for source in self._inputs:
            self._file = source.name
            try:
                yield from self._lines(lines(chunks(source), DEFAULTS.document.document_bytes_max))
            except Damaged as error:
                self.refuse(0, EventError(str(error)))

    def _lines(self, found: Iterable[tuple[int, bytes | None]]) -> Iterator[tuple[int, bytes]]:
        for number, text in found:
            if text is None:
                self.refuse(number, EventError("the line is longer than document_bytes_max"))
            elif text and not text.isspace():
                yield number, text

    def feed(self, engine: Engine, batch: Sequence[tuple[int, bytes]]) -> Sequence[Change]:
        """One step: all lines at once where they are in good order, else one by one."""
        if len(batch) >= COLUMNS_FROM:
            table = self._decoder.table([text for _, text in batch])
            changes = None if table is None else engine.step_table(table)
            if changes is not None:
                return changes
        read = self.items(batch)
        return engine.step([item for _, item in read], lambda at, error: self.refuse(read[at][0], error))

    def items(self, batch: Sequence[tuple[int, bytes]]) -> list[tuple[int, Item]]:
        """What the lines say, each with its number; those that say nothing are refused."""
        found: list[tuple[int, Item]] = []
        for number, text in batch:
            try:
                found.append((number, self._decoder.line(text)))
            except EventError as error:
                self.refuse(number, error)
        return found

    def refuse(self, number: int, error: EventError) -> None:
        """Tells of a refused line."""
        self.refused += 1
        if self.refused <= REJECTIONS_SHOWN:
            say(f"rejected: {Rejection(self._file, number, str(error))}")
        elif self.refused == REJECTIONS_SHOWN + 1:
            say("rejected: … (further ones are only counted)")

    def close(self) -> int:
        """How many were refused; tells so."""
        if self.refused:
            say(f"{self.refused:,} event{'s' if self.refused > 1 else ''} rejected")
        return self.refused
