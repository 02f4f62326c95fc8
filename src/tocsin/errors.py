"""Everything that Tocsin refuses, as one tree.

    TocsinError
    ├── SettingError            a setting has a value that cannot work
    ├── InputError              a file cannot be read at all
    ├── DocumentError           one document is refused; the others go through
    ├── SubscriptionError       one subscription is refused; the others run
    ├── SnapshotError           a saved index is damaged, or of another format
    ├── StoreError              the store cannot be opened or is of another format
    ├── PipelineError           the pipeline cannot run, or not with this checkpoint
    │   ├── JavaError           Spark needs a Java that is not here, or not new enough
    │   └── SparkError          Spark cannot start, or ended
    ├── OverlayError            a message of the overlay is malformed, too large or unknown (`overlay.message`)
    │   └── UnknownVersion      it is of another version than this node speaks
    ├── NetError                a node cannot run, or not with this identity or disk (`net.limits`)
    ├── ViewError               a relation or view is refused; the others run
    ├── EventError              one event is refused; the rest goes on
    └── QueryError              a query is refused; it names the position
        ├── QuerySyntaxError    it cannot be read
        ├── QueryTooLong        more characters than query_characters_max
        ├── QueryTooDeep        more nesting than query_nesting_max
        ├── QueryTooManyAtoms   more atoms than query_atoms_max
        ├── QueryTooCostly      more work per document than query_cost_max
        └── NestedUnderNot      NOT over a nested query in a subscription

A message says what is wrong, where, and what to do.
"""

from __future__ import annotations

WINDOW = 60  # characters of the query shown on each side of the caret


class TocsinError(Exception):
    """Anything that Tocsin refuses, with a sentence that a user can act on."""


class SettingError(TocsinError):
    """A setting has a value that cannot work."""


class InputError(TocsinError):
    """A file or folder cannot be read at all."""


class DocumentError(TocsinError):
    """A document is refused; `where` is its file and line if it came from one."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        self.where = where


class SubscriptionError(TocsinError):
    """A subscription is refused."""


class SnapshotError(TocsinError):
    """A saved index cannot be used."""


class StoreError(TocsinError):
    """The store cannot be opened, is of another format, or does not answer."""


class PipelineError(TocsinError):
    """The pipeline cannot run, or not with this checkpoint."""


class JavaError(PipelineError):
    """Spark needs a Java that is not here, or not new enough."""


class SparkError(PipelineError):
    """Spark cannot start, or ended."""


class ViewError(TocsinError):
    """A relation or view is refused; `name` is which, `reason` says why and what to write instead."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(f"{name}: {reason}" if name else reason)
        self.reason = reason
        self.name = name


class EventError(TocsinError):
    """An event, silence or end of a relation is refused."""


class QueryError(TocsinError):
    """A query is refused: `reason` says why, `position` (from 0) where in `text`."""

    def __init__(self, reason: str, text: str = "", position: int = 0) -> None:
        self.reason = reason
        self.text = text
        self.position = min(position, len(text))
        super().__init__(f"{reason} (position {self.position})\n{self.caret()}")

    def caret(self) -> str:
        """The line of the query that holds the position, and a line with a caret under it."""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        left, right = max(start, self.position - WINDOW), min(end, self.position + WINDOW)
        before = ("…" if left > start else "") + self.text[left : self.position]
        after = self.text[self.position : right] + ("…" if right < end else "")
        line = "".join(c if c.isprintable() else " " for c in before + after)
        return f"  {line}\n  {' ' * len(before)}^"


class QuerySyntaxError(QueryError):
    """The query cannot be read."""


class QueryTooLong(QueryError):
    """The query has more characters than query_characters_max."""


class QueryTooDeep(QueryError):
    """The query is nested deeper than query_nesting_max."""


class QueryTooManyAtoms(QueryError):
    """The query has more atoms than query_atoms_max."""


class QueryTooCostly(QueryError):
    """The query could cost more work per document than one subscription may spend."""


class NestedUnderNot(QueryError):
    """NOT over a nested query cannot be kept right as documents arrive (SmartSeer §VI-B)."""
