"""What the views refuse: a view, or one event; the rest goes on."""

from __future__ import annotations

from tocsin.errors import TocsinError


class ViewError(TocsinError):
    """A relation or view is refused; `name` is which, `reason` says why and what to write instead."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(f"{name}: {reason}" if name else reason)
        self.reason = reason
        self.name = name


class EventError(TocsinError):
    """An event, silence or end of a relation is refused."""
