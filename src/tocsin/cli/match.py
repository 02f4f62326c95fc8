"""`tocsin match`: subscriptions in a file against documents in files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import IO, Any

from tocsin.cli.collection import Collection, documents_argument
from tocsin.cli.console import line, polled, progress, say, waiting
from tocsin.errors import SettingError, TocsinError
from tocsin.files import Entry, Rejection, read_subscriptions, replacing, rereadable
from tocsin.match.engines import ENGINES, engine_named, path_engine_named, prepare
from tocsin.match.explain import why
from tocsin.match.matcher import Hit, Matcher
from tocsin.model import Subscription
from tocsin.query import parse_subscription
from tocsin.query.xpath import parse_xpath
from tocsin.settings import DEFAULTS
from tocsin.text import Analysis

EXPENSIVE_SHOWN = 10
LOCAL = "local[*]"

NAME = "match"
HELP = "match documents in files against subscriptions in a file"
DESCRIPTION = """Reads subscriptions ({"id", "query"} a line) and documents, and prints a line
{"subscription", "document", "score"} for each match, in document order, then by subscription id."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("-s", "--subscriptions", metavar="SUBS", required=True, help="subscriptions, one a line")
    documents_argument(command, required=True)
    command.add_argument("-o", "--output", metavar="OUT", help="write here instead of standard output; replaces it")
    command.add_argument("--engine", choices=ENGINES, default="auto", help="how to match; all give equal results")
    command.add_argument(
        "--spark",
        metavar="MASTER",
        nargs="?",
        const=LOCAL,
        help=f"match with Spark, with the same result: {LOCAL} (the default, all cores of this machine) or a cluster, "
        "such as spark://HOST:7077, whose workers must see the files and TMPDIR under the same paths. Files ending in "
        ".parquet or .xml (one document each) may be named too. Nested subscriptions run on one core",
    )
    command.add_argument("--stats", action="store_true", help="tell what it cost, and the most expensive subscriptions")
    command.add_argument("--explain", action="store_true", help="add to each line why it matched")


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a subscription or a document was rejected; the others run."""
    analysis = Analysis.parse(given.analysis)
    if given.spark:
        return run_on_spark(given, analysis)
    start = monotonic()
    with rereadable(given.documents, say) as inputs:
        with waiting("preparing the engine (its kernels are compiled once on this machine, then kept) …"):
            prepare(given.engine, analysis)
        subscriptions, refused = read(given.subscriptions, analysis)
        collection = Collection(inputs, analysis)
        engine, paths = engine_named(given.engine, analysis), path_engine_named(given.engine)
        matcher = Matcher(subscriptions, engine, analysis, collection.statistics, paths)
        hits = matcher.match(progress(collection.documents(), "matching documents"))
        with replacing(given.output) if given.output else nullcontext(sys.stdout) as output:
            matches = write(hits, matcher, output, explain=given.explain)
    if given.stats:
        tell_stats(matcher, matches, monotonic() - start)
    for number, reason in matcher.counts.errors.items():
        refused += 1
        say(f"failed: subscription {matcher.subscriptions[number].id!r}: {reason}")
    return max(collection.close(), 1 if refused else 0)


def run_on_spark(given: argparse.Namespace, analysis: Analysis) -> int:
    """The same by many workers."""
    if given.engine != "auto" or given.stats:
        raise SettingError("--spark goes with neither --engine nor --stats: it has one engine, which counts no work")
    from tocsin.pipeline.files_job import FilesJob, question_of  # Spark takes a second to import
    from tocsin.pipeline.session import SparkSettings, running, tasks_done

    with rereadable(given.documents, say) as inputs, TemporaryDirectory(prefix="tocsin-") as folder:
        entries, refused = read_entries(given.subscriptions, analysis)
        question = question_of(entries, analysis, evidence=given.explain)
        with running(SparkSettings(master=given.spark), waiting("starting Spark …")) as spark:
            job = FilesJob(spark, Path(folder))
            with polled("counting words", lambda: tasks_done(spark)):
                seen = job.look(inputs, analysis)
            for rejection in seen.rejections:
                say(f"rejected: {rejection}")
            with polled("matching documents", lambda: tasks_done(spark)):
                job.run(seen, question)
        with replacing(given.output) if given.output else nullcontext(sys.stdout) as output:
            output.writelines(f"{each}\n" for each in progress(job.lines(seen, question), "writing matches"))
    for id, reason in sorted(job.failed.items()):
        say(f"failed: subscription {id!r}: {reason}")
    if rejected := len(seen.rejections):
        say(f"{rejected:,} document{'s' if rejected > 1 else ''} rejected")
    return 1 if refused or seen.rejections or job.failed else 0


def read(path: str, analysis: Analysis) -> tuple[list[Subscription], int]:
    """The subscriptions that can run, and how many cannot, each of which is named."""
    found, refused = read_entries(path, analysis)
    return [subscription for subscription, _ in found], refused


def read_entries(path: str, analysis: Analysis) -> tuple[list[tuple[Subscription, Entry]], int]:
    """The same, each with what was written."""
    refused = 0

    def reject(rejection: Rejection) -> None:
        nonlocal refused
        refused += 1
        say(f"rejected: {rejection}")

    found = []
    for entry in read_subscriptions(path, DEFAULTS.document, reject, note=say):
        try:
            found.append((_subscription(entry, analysis), entry))
        except TocsinError as error:
            reject(Rejection(entry.file, entry.line, f"subscription {entry.id!r}: {error}"))
    return found, refused


def _subscription(entry: Entry, analysis: Analysis) -> Subscription:
    query = None if entry.query is None else parse_subscription(entry.query, analysis)
    path = None if entry.xpath is None else parse_xpath(entry.xpath, entry.namespaces)
    return Subscription(entry.id, query, entry.query or "", path)


def write(hits: Iterable[Hit], matcher: Matcher, output: IO[str], explain: bool) -> int:
    """One line a match; returns how many."""
    matches = 0
    for hit in hits:
        data: dict[str, Any] = {
            "subscription": hit.subscription.id,
            "document": hit.document.id,
            "score": hit.score,
        }
        if explain:
            data["evidence"] = why(hit.subscription, hit.document, matcher.knowledge_of(hit.subscription))
        output.write(line(data) + "\n")
        matches += 1
    return matches


def tell_stats(matcher: Matcher, matches: int, seconds: float) -> None:
    """What it cost, and which subscriptions were looked at most often."""
    counts = matcher.counts
    say(f"{counts.documents:,} documents, {len(matcher.subscriptions):,} subscriptions, {matches:,} matches")
    say(f"{seconds:.1f} s, {counts.documents / max(seconds, 1e-9):,.0f} documents/s, reading and counting included")
    say(f"{counts.candidates:,} candidates were looked at one by one, {counts.checks:,} checks of atoms")
    for number, tried in counts.tried.most_common(EXPENSIVE_SHOWN):
        say(f"  {tried:>12,}  {matcher.subscriptions[number].id}")
