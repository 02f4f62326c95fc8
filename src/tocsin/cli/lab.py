"""`tocsin lab`: re-runs experiments of the papers and sets their claims beside what is measured here."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markup import escape

from tocsin.cli.console import polled, progress, say, waiting
from tocsin.cli.match import LOCAL
from tocsin.errors import SettingError
from tocsin.lab import EXPERIMENTS
from tocsin.lab.result import write
from tocsin.lab.sweep import Sweep

NAME = "lab"
HELP = "re-run an experiment of the papers"
DESCRIPTION = "Re-runs experiments of the papers; writes result.json (claims), data.csv and plot.png."

T = TypeVar("T")
MARKS = {True: "[green]holds[/]", False: "[red]does not hold[/]", None: "[yellow]needs --scale paper[/]"}


def arguments(command: argparse.ArgumentParser) -> None:
    """Its subcommands and their options."""
    actions = command.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the experiments", description="Lists the experiments by name.")
    run_one = actions.add_parser("run", help="run one", description="Runs one experiment and writes its results.")
    run_one.add_argument("name", metavar="NAME", help="the experiment, as `tocsin lab list` names it")
    run_one.add_argument("--scale", choices=("small", "paper"), default="small", help="a minute, or the paper's sizes")
    run_one.add_argument("--seed", metavar="N", type=int, default=1, help="another seed gives another workload")
    run_one.add_argument(
        "--spark", metavar="MASTER", nargs="?", const=LOCAL,
        help=f"measure configurations side by side, each a task of Spark: {LOCAL} (the default, all cores of this "
        "machine) or a cluster, such as spark://HOST:7077. The results are the same",
    )  # fmt: skip
    run_one.add_argument("--out", metavar="DIR", help="where to write (default: lab/NAME)")


def shown(configurations: Sequence[Callable[[], T]]) -> list[T]:
    """One after the other, counted on a terminal."""
    return [measure() for measure in progress(configurations, "measuring configurations")]


@contextmanager
def on_spark(master: str) -> Iterator[Sweep]:
    """Each a task of Spark."""
    from tocsin.pipeline.session import SparkSettings, running, tasks_done  # Spark takes a second to import
    from tocsin.pipeline.sweep import run_tasks

    with running(SparkSettings(master=master), waiting("starting Spark …")) as spark:

        def sweep(configurations: Sequence[Callable[[], T]]) -> list[T]:
            with polled("measuring configurations", lambda: tasks_done(spark)):
                return run_tasks(spark, configurations)

        yield sweep


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a claim does not hold."""
    if given.action == "list":
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:<24} {experiment.about}")
        return 0
    if given.name not in EXPERIMENTS:
        raise SettingError(f"there is no experiment {given.name!r}: `tocsin lab list` names them")
    experiment = EXPERIMENTS[given.name]
    if given.spark and not experiment.sweeps:
        raise SettingError(f"{given.name} runs without --spark: it measures times, or has one configuration")
    with on_spark(given.spark) if given.spark else nullcontext(shown) as sweep:
        result = experiment.run(given.scale, given.seed, sweep)
    paths = write(result, Path(given.out or f"lab/{given.name}"))
    console = Console(highlight=False, soft_wrap=True)
    for claim in result.claims:
        console.print(f"{MARKS[claim.holds]}  {escape(claim.claim)}")
        console.print(f"    paper: {escape(claim.paper)}\n    ours:  {escape(claim.ours)}")
    for path in paths:
        say(f"written: {path}")
    return 1 if any(claim.holds is False for claim in result.claims) else 0
