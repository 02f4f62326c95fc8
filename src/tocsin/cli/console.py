"""Speaking to a person: messages and progress on standard error, data lines on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer
from time import monotonic
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Item = TypeVar("Item")
POLL_SECONDS = 0.25
PATIENCE_SECONDS = 1.0  # progress is shown to who has waited longer than this


def say(message: str) -> None:
    """A message for the person, never mixed with data."""
    print(message, file=sys.stderr, flush=True)


def line(data: dict[str, Any]) -> str:
    """One line of output."""
    return json.dumps(data, ensure_ascii=False)


@contextmanager
def waiting(why: str) -> Iterator[None]:
    """Says why to a person on a terminal who has waited longer than a second."""
    timer = Timer(PATIENCE_SECONDS, say, [why]) if sys.stderr.isatty() else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer:
            timer.cancel()


@contextmanager
def polled(what: str, ask: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Shows (done, total) of work that goes on elsewhere, on a terminal, once it takes longer than a second."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
    task = bar.add_task(what, total=None)
    ended = Event()

    def look() -> None:
        if ended.wait(PATIENCE_SECONDS):
            return
        with bar:
            while not ended.wait(POLL_SECONDS):
                done, total = ask()
                bar.update(task, completed=done, total=total or None)

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextmanager
def watched(ask: Callable[[], str]) -> Iterator[None]:
    """Keeps a line below everything else that is printed, on a terminal, with what `ask` says now."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status("", spinner="dots") as status:
        ended = Event()

        def look() -> None:
            while not ended.wait(POLL_SECONDS):
                status.update(ask())

        watcher = Thread(target=look, name="status", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def progress(items: Iterable[Item], what: str) -> Iterator[Item]:
    """The same items; counts them on a terminal once it takes longer than a second."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from items
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"))
    bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
    task = bar.add_task(what, total=None)
    start, shown = monotonic(), False
    try:
        for item in items:
            bar.advance(task)
            if not shown and monotonic() - start > PATIENCE_SECONDS:
                bar.start()
                shown = True
            yield item
    finally:
        if shown:
            bar.stop()
