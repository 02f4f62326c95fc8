"""What came in, what matched, how far behind the pipeline is, and how each subscription fares."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from tocsin.site.site import Site
from tocsin.store import glance, subscriptions
from tocsin.store.subscriptions import Kept
from tocsin.web.answers import json_answer
from tocsin.web.pages.charts import Spark, bars_of, spark_of
from tocsin.web.pages.shown import shown_all
from tocsin.web.pages.tally import DAY, HOUR, Tally
from tocsin.web.pages.view import View

LATEST, LISTED, LOOKED_AT, HOURS, DAYS = 5, 8, 50, 24, 14


@dataclass(frozen=True, slots=True)
class Line:
    """A subscription with its last two weeks."""

    kept: Kept
    spark: Spark

    @property
    def name(self) -> str:
        """What it is called."""
        asked = self.kept.asked
        return str(self.kept.about.get("name") or asked.query or asked.xpath or asked.view or self.kept.id)


@dataclass(frozen=True, slots=True)
class Health:
    """How the pipeline does."""

    state: str
    """ok, behind, starting, stopped."""
    words: str
    lag: int
    batch_seconds: float | None


def overview(view: View) -> Response:
    """The first page."""
    site, owner = view.site, view.owner
    lines = lines_of(site, view.tally, subscriptions.newest(site.store, owner.name, LOOKED_AT))
    busiest = sorted(lines, key=lambda line: -line.spark.total)[:LISTED]
    came, matched = view.tally.came_in(HOUR, HOURS), view.tally.matched(owner.name, HOUR, HOURS)
    return view.page(
        "overview.html",
        health=health_of(site),
        came=bars_of(came),
        matched=bars_of(matched),
        lines=busiest,
        subscriptions=subscriptions.count(site.store, owner.name),
        alerts=shown_all(site, glance.newest(site.store, owner.name, limit=LATEST)),
        last=glance.last_of(site.store, owner.name),
    )


def pulse(view: View) -> Response:
    """What an open page asks now and then: is there something new?"""
    health = health_of(view.site)
    last = glance.last_of(view.site.store, view.owner.name)
    return json_answer({"last": last, "state": health.state, "words": health.words})


def lines_of(site: Site, tally: Tally, kept: list[Kept]) -> list[Line]:
    """Subscriptions with their sparklines."""
    series = tally.matched_each([one.number for one in kept], DAY, DAYS)
    return [Line(one, spark_of(series[one.number])) for one in kept]


def health_of(site: Site) -> Health:
    """How the pipeline does, in words."""
    progress = site.progress()
    lag = 0 if progress is None else progress.lag
    seconds = None if progress is None else progress.batch_seconds
    if not site.is_running:
        stopped = site.failure is not None
        words = "The pipeline does not run: the operator's log says why" if stopped else "The pipeline starts"
        return Health("stopped" if stopped else "starting", words, lag, seconds)
    if lag:
        return Health(
            "behind", f"{lag:,} {'document waits' if lag == 1 else 'documents wait'} to be matched", lag, seconds
        )
    return Health("ok", "Everything that came in is matched", lag, seconds)
