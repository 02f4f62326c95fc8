"""Did every subscription see every document, once? The receipts prove it, or name the gap; a gap can be filled.

Every batch leaves a receipt of each index part: the range of the log, how many documents the part saw, and how many
revisions it held. They prove the log seen if the ranges of the batches that ended join without a hole and each part's
count is that of the documents accepted there. That takes no matching. `deep` matches again, here and without Spark,
and compares with the outbox row by row: what is missing, and what should not be there.

What `~` matches depends on how frequent words were at the time, and what a nested query matches on the values that were
in its sets, which are not kept: such subscriptions are proved by receipts only. So are documents whose content was
deleted since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tocsin.query.score import Statistics
from tocsin.site.local import RangeMatcher, depends_on_history
from tocsin.store import Store, channels, documents, outbox, receipts, subscriptions
from tocsin.store.documents import Stored
from tocsin.store.outbox import Batch, Found, Receipt
from tocsin.store.receipts import Done
from tocsin.text import Analysis

if TYPE_CHECKING:
    from tocsin.site.site import Site

JOB = "audit"
RANGE = 2_000  # documents that are matched again at once
NAMED_MAX = 100  # differences that are named one by one


@dataclass(frozen=True, slots=True)
class Gap:
    """Documents after `first` up to `last` that are not proved to be matched, and why."""

    first: int
    last: int
    reason: str


@dataclass(slots=True)
class Report:
    """What an audit found."""

    matched: int
    """The position up to which batches have ended."""
    accepted: int
    batches: int = 0
    gaps: list[Gap] = field(default_factory=list)
    looked_at: int = 0
    """Documents that were matched again."""
    erased: int = 0
    """Documents whose content was deleted since: receipts alone speak for them."""
    unprovable: int = 0
    """Subscriptions with `~` or nested queries: receipts alone speak for them."""
    missing: int = 0
    false: int = 0
    named: list[dict[str, Any]] = field(default_factory=list)
    """The first differences: account, subscription (null if it is deleted), document, version, and which it is."""
    mended: int = 0
    """Of the missing ones that were added."""
    filled: int = 0
    """Notifications that were added, those of gaps included."""

    @property
    def complete(self) -> bool:
        """Is everything that was matched proved, or filled? What waits to be matched is not a gap."""
        return not self.gaps and not self.false and self.missing == self.mended

    def as_json(self) -> dict[str, Any]:
        """As the API answers it."""
        return {"complete": self.complete, **asdict(self)}


def run(site: Site, *, fill: bool = False, deep: bool = True) -> dict[str, Any]:
    """Audits a site; with `fill`, what is missing is added to the outbox."""
    return audit(site.store, site.analysis, fill=fill, deep=deep).as_json()


def audit(store: Store, analysis: Analysis, *, fill: bool = False, deep: bool = True) -> Report:
    """Looks at the receipts, and (deep) matches everything again."""
    return _Audit(store, analysis, fill).run(deep)


class _Audit:
    """One audit."""

    def __init__(self, store: Store, analysis: Analysis, fill: bool) -> None:
        self._store = store
        self._analysis = analysis
        self._fills = fill
        with store.read() as transaction:
            matched = documents.matched(transaction)
        self.report = Report(matched, documents.last_position(store))
        self._unprovable: set[int] = set()

    def run(self, deep: bool) -> Report:
        report = self.report
        report.gaps = list(self._gaps())
        if self._fills and report.gaps:
            for gap in report.gaps:
                self._fill(gap)
            report.gaps = list(self._gaps())
        if deep:
            known = subscriptions.within(self._store, 0, report.matched)
            self._unprovable = {one.subscription for one in known if depends_on_history(one, self._analysis)}
            report.unprovable = len(self._unprovable)
            for after in range(0, report.matched, RANGE):
                self._compare(after, min(after + RANGE, report.matched))
        return report

    # --- receipts ------------------------------------------------------------------------------

    def _gaps(self) -> Iterator[Gap]:
        """Ranges that no batch has, or that a part did not see whole. Ranges that an audit filled are no gaps."""
        ended, filled = receipts.done(self._store), [(one.first, one.last) for one in receipts.done(self._store, JOB)]
        self.report.batches = len(ended)
        reached = 0
        for done in ended:
            if done.first > reached and not _covered(reached, done.first, filled):
                yield Gap(reached, done.first, "no batch has these documents")
            reason = self._unproved(done)
            if reason is not None and not _covered(done.first, done.last, filled):
                yield Gap(done.first, done.last, reason)
            reached = max(reached, done.last)

    def _unproved(self, done: Done) -> str | None:
        if not done.parts:
            return "the batch left no receipt"
        if [part for part, _, _ in done.parts] != list(range(len(done.parts))):
            return "a part of the index left no receipt"
        # What was deleted before its batch ran counts too: its content stays until it is matched.
        accepted = receipts.accepted_within(self._store, done.first, done.last)
        for part, seen, _ in done.parts:
            if seen != accepted:
                return f"part {part} saw {seen:,} of {accepted:,} documents"
        return None

    def _fill(self, gap: Gap) -> None:
        """Matches the gap's documents now, and notes that an audit did."""
        for after in range(gap.first, gap.last, RANGE):
            upto = min(after + RANGE, gap.last)
            current = documents.sample(self._store, 0, upto, upto)
            statistics = Statistics.of((one.document() for one in current), self._analysis)
            stored, known = self._stored(after, upto), subscriptions.within(self._store, after, upto)
            found = RangeMatcher(self._store, self._analysis, evidence=False).find(stored, known, statistics)
            self.report.filled += self._write(after, upto, found, Receipt(0, len(stored), len(known)))

    # --- matching again ------------------------------------------------------------------------

    def _compare(self, after: int, upto: int) -> None:
        """Matches a range again and compares with the outbox; adds what is missing."""
        report = self.report
        stored, known = self._stored(after, upto), subscriptions.within(self._store, after, upto)
        provable = [one for one in known if one.subscription not in self._unprovable]
        found = RangeMatcher(self._store, self._analysis, evidence=False).find(stored, provable, Statistics())
        owner = {one.number: one.subscription for one in known}
        wanted = {(owner[one.revision], one.document, one.version): one for one in found}
        present = {one.position for one in stored}
        told = {
            (one.subscription, one.document, one.version)
            for one in receipts.told_within(self._store, after, upto)
            if one.position in present and one.subscription not in self._unprovable
        }
        missing = [key for key in wanted if key not in told]
        false = sorted(told - wanted.keys())
        report.looked_at += len(stored)
        report.erased += receipts.erased_within(self._store, after, upto)
        report.missing += len(missing)
        report.false += len(false)
        self._name(missing, "missing")
        self._name(false, "false")
        if self._fills and missing:
            receipt = Receipt(0, len(stored), len(known))
            written = self._write(after, upto, [wanted[key] for key in missing], receipt)
            report.mended += written
            report.filled += written

    def _stored(self, after: int, upto: int) -> list[Stored]:
        return [one for chunk in documents.read(self._store, after, upto) for one in chunk]

    def _write(self, after: int, upto: int, found: list[Found], receipt: Receipt) -> int:
        last = outbox.last_batch(self._store, JOB)
        number = 1 if last is None else last.number + 1
        batch, _ = outbox.begin(self._store, Batch(JOB, number, after, upto, 0, 0))
        return outbox.finish(self._store, batch, found, [receipt])

    def _name(self, keys: list[tuple[int, str, int]], what: str) -> None:
        for number, document, version in keys[: NAMED_MAX - len(self.report.named)]:
            account, id = channels.subscription_of(self._store, number) or (None, None)
            named = {"account": account, "subscription": id, "document": document, "version": version, "what": what}
            self.report.named.append(named)


def _covered(first: int, last: int, ranges: list[tuple[int, int]]) -> bool:
    """Is all of (first, last] in these ranges together?"""
    for start, end in sorted(ranges):
        if start <= first < end:
            first = end
    return first >= last
