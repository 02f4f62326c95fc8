"""`tocsin lab`: re-runs experiments of the papers and sets their claims beside what is measured here."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tocsin.cli.console import say
from tocsin.errors import SettingError
from tocsin.lab import EXPERIMENTS
from tocsin.lab.result import write

NAME = "lab"
HELP = "re-run an experiment of the papers"
DESCRIPTION = "Re-runs experiments of the papers; writes result.json (claims), data.csv and plot.png."

MARKS = {True: "[green]holds[/]", False: "[red]does not hold[/]", None: "[yellow]needs --scale paper[/]"}


def arguments(command: argparse.ArgumentParser) -> None:
    """Its subcommands and their options."""
    actions = command.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the experiments", description="Lists the experiments by name.")
    run_one = actions.add_parser("run", help="run one", description="Runs one experiment and writes its results.")
    run_one.add_argument("name", metavar="NAME", help="the experiment, as `tocsin lab list` names it")
    run_one.add_argument("--scale", choices=("small", "paper"), default="small", help="a minute, or the paper's sizes")
    run_one.add_argument("--seed", metavar="N", type=int, default=1, help="another seed gives another workload")
    run_one.add_argument("--out", metavar="DIR", help="where to write (default: lab/NAME)")


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a claim does not hold."""
    if given.action == "list":
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:<24} {experiment.about}")
        return 0
    if given.name not in EXPERIMENTS:
        raise SettingError(f"there is no experiment {given.name!r}: `tocsin lab list` names them")
    result = EXPERIMENTS[given.name].run(given.scale, given.seed)
    paths = write(result, Path(given.out or f"lab/{given.name}"))
    console = Console(highlight=False, soft_wrap=True)
    for claim in result.claims:
        console.print(f"{MARKS[claim.holds]}  {escape(claim.claim)}")
        console.print(f"    paper: {escape(claim.paper)}\n    ours:  {escape(claim.ours)}")
    for path in paths:
        say(f"written: {path}")
    return 1 if any(claim.holds is False for claim in result.claims) else 0
