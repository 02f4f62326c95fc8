"""`tocsin tour`: generated papers arrive one after the other, and a few subscriptions wait for them.

Everything that is shown goes through the same matcher as `tocsin match`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from importlib.resources import files

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.match.engines import engine_named
from tocsin.match.explain import why
from tocsin.match.matcher import Hit, Matcher
from tocsin.model import Document, Subscription
from tocsin.query import Statistics, parse_subscription
from tocsin.sim.scholarly import papers
from tocsin.text import Analysis, words

NAME = "tour"
HELP = "see Tocsin at work on generated papers"
DESCRIPTION = "Generates scholarly papers, matches them against sample subscriptions, and shows what each one found."

PAPERS, SEED, EXAMPLES = 500, 7, 2


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("--papers", metavar="N", type=int, default=PAPERS, help="how many papers arrive")
    command.add_argument("--seed", metavar="N", type=int, default=SEED, help="another seed gives other papers")


def run(given: argparse.Namespace) -> int:
    """Prints what every subscription found, and two of its matches with their reasons."""
    console = Console(highlight=False, soft_wrap=True)
    subscriptions, names = sample()
    documents = list(papers(given.seed, given.papers))
    analysis = Analysis()
    statistics = Statistics.of(documents, analysis)
    matcher = Matcher(subscriptions, engine_named("auto", analysis), analysis, statistics)
    hits = list(matcher.match(documents))
    console.print(f"\n[bold]{len(documents):,} papers arrived[/], {len(subscriptions)} subscriptions were waiting.\n")
    for subscription in subscriptions:
        own = [hit for hit in hits if hit.subscription is subscription]
        console.print(f"[bold cyan]{escape(names[subscription.id])}[/]  {len(own):,} found")
        console.print(f"  [dim]{escape(subscription.text)}[/]")
        for hit in sorted(own, key=lambda hit: -hit.score)[:EXAMPLES]:
            _show(console, hit, matcher)
        console.print()
    console.print(_summary(hits, documents))
    console.print(
        "\nTry it on your own files:\n"
        "  [bold]tocsin match -s subscriptions.jsonl -d papers.jsonl[/]\n"
        "  [bold]tocsin search -d papers.jsonl 'title:(peer NEAR/3 network) AND year >= 2004'[/]\n"
        "  [bold]tocsin explain 'author:IN:(networks AND author:Bob)'[/]\n"
    )
    return 0


def sample() -> tuple[list[Subscription], dict[str, str]]:
    """The sample subscriptions, and their names for people."""
    lines = files("tocsin.cli").joinpath("tour.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if line]
    subscriptions = [Subscription(entry["id"], parse_subscription(entry["query"]), entry["query"]) for entry in entries]
    return subscriptions, {entry["id"]: entry["name"] for entry in entries}


def _show(console: Console, hit: Hit, matcher: Matcher) -> None:
    document = hit.document
    late = f" [dim](once {hit.cause.id} had arrived)[/]" if hit.cause is not document else ""
    console.print(f"  [green]{hit.score:.2f}[/] {document.id}  {_marked(hit, matcher)}{late}")
    authors = ", ".join(str(author) for author in document.fields.get("author", ()))
    console.print(f"       [dim]{escape(authors)}, {(document.time or '')[:10]}[/]")


def _marked(hit: Hit, matcher: Matcher) -> str:
    """The title, with the words that were found in it in bold."""
    found = why(hit.subscription, hit.document, matcher.knowledge_of(hit.subscription))
    wanted = {word for atom in found["atoms"] if atom.get("field") == "title" for word in atom.get("words", ())}
    title = str(hit.document.fields["title"][0])
    return " ".join(
        f"[bold]{escape(part)}[/]" if wanted.intersection(words(part)) else escape(part) for part in title.split()
    )


def _summary(hits: list[Hit], documents: list[Document]) -> Table:
    """Matches per year."""
    table = Table(title="Matches by year", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("year")
    table.add_column("papers", justify="right")
    table.add_column("matches", justify="right")
    table.add_column("")
    arrived = Counter((document.time or "")[:4] for document in documents)
    matched = Counter((hit.cause.time or "")[:4] for hit in hits)
    for year, number in sorted(arrived.items()):
        table.add_row(year, f"{number:,}", f"{matched[year]:,}", f"[cyan]{'▇' * (matched[year] // 5)}[/]")
    return table
