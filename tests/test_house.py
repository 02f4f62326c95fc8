"""What the project promises about itself: its public names, its documented surface, and how it sets itself up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tocsin import cli
from tocsin.cli.installation import Installation
from tools import bench, reference

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMMANDS = list(reference.commands(cli.parser()))
SETTINGS = [setting for group in reference.settings(Installation).values() for setting in group]

# Adding a name is a promise to keep it; changing this list is a line in the change log.
PUBLIC = [
    "Analysis",
    "Document",
    "DocumentError",
    "Knowledge",
    "Match",
    "QueryError",
    "Statistics",
    "Subscription",
    "TocsinError",
    "covers",
    "holds",
    "parse",
    "parse_subscription",
    "score",
    "show",
]


def test_the_public_surface_is_this_and_no_more():
    assert sorted(tocsin.__all__) == sorted(PUBLIC)
    assert all(hasattr(tocsin, name) for name in PUBLIC)


# --- documented ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS[1:], ids=lambda command: command.words)
def test_every_command_and_argument_says_what_it_does(command):
    assert command.summary, f"{command.words} has no help="
    for action in reference.arguments(command.parser):
        assert action.help, f"{command.words}: {action.dest} has no help="


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_every_setting_says_what_it_means(setting):
    assert setting.meaning, f"{setting.path} has no string under it in its class"


DECLARED = re.compile(r"^class (\w+(?:Settings|Limits))\b", re.MULTILINE)
NOT_AN_OPERATORS = {
    "HostSettings", "SuperpeerHostSettings",  # made from the options of `tocsin node`
    "CacheLimits", "DialogueSettings", "Settings", "SiteSettings",  # inner workings; groups of those that are listed
}  # fmt: skip


def test_no_settings_are_left_out_of_the_page():
    """Those of the simulator describe experiments: the lab's results name them."""
    files = [path for path in (ROOT / "src").rglob("*.py") if path.parent.name != "sim"]
    declared = {name for path in files for name in DECLARED.findall(path.read_text(encoding="utf-8"))}
    page = (reference.FOLDER / "settings.md").read_text(encoding="utf-8")
    told = {name for name in declared if f"`{name}." in page}
    groups = {type(value).__name__ for value in _holders(Installation())}
    assert declared - told - groups - NOT_AN_OPERATORS == set()


def _holders(root: Any) -> list[Any]:
    inner = [getattr(root, field.name) for field in fields(root)]
    return [root, *(one for value in inner if is_dataclass(value) for one in _holders(value))]


def test_every_setting_has_its_own_name():
    # An account's quota narrows the limit of the same name.
    names = [one.path.rpartition(".")[2] for one in SETTINGS if one.path != "site.quotas.query_cost_max"]
    assert len(set(names)) == len(names), "messages name a setting by its last part"


@pytest.mark.parametrize("page", reference.pages(), ids=lambda page: page.name)
def test_generated_pages_are_up_to_date(page):
    assert reference.stale({page: reference.pages()[page]}) == [], "run 'make docs'"


def test_every_command_is_on_the_page_of_commands():
    page = (reference.FOLDER / "commands.md").read_text(encoding="utf-8")
    assert [f"## {command.words}" for command in COMMANDS] == re.findall(r"^## .*", page, re.MULTILINE)


LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)]*)?\)")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_is_dead(page):
    targets = [target for target, _ in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (page.parent / target).exists()] == []


# --- set up ----------------------------------------------------------------------------------------------------------


def make(*words: str) -> str:
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_ci_runs_check_and_test():
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    assert "make check test" in ci.read_text(encoding="utf-8")


def test_make_alone_lists_every_target():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert targets
    listed = re.findall(r"^  make (\S+)", make(), re.MULTILINE)
    assert sorted(listed) == sorted(set(targets[1].split()) - {"FORCE"})


def wanted() -> list[str]:
    """Every requirement, those of extras included; an extra that names this project's own extra adds nothing."""
    project = PROJECT["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    return [one for one in project["dependencies"] + extras if not one.startswith("tocsin[")]


def test_constraints_are_plain_pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []
    pinned = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
    assert {re.match(r"[\w.-]+", one)[0].lower() for one in wanted()} <= pinned  # type: ignore[index]


def test_every_dependency_has_a_lower_and_an_upper_bound():
    assert [one for one in wanted() if not re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+,<[\d.]+", one)] == []


def test_an_old_python_is_named(tmp_path):
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\ncase "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac\n')
    old.chmod(0o755)
    result = subprocess.run(
        [ROOT / "tools" / "find-python"], env={"PYTHON": str(old), "PATH": os.environ["PATH"]}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "Python 3.11 or newer" in result.stderr
    assert "3.9.2" in result.stderr


def test_a_python_without_venv_is_named(tmp_path):
    bare = tmp_path / "python3"
    bare.write_text('#!/bin/sh\ncase "$2" in *platform*) echo 3.12.0;; *venv*) exit 1;; esac\n')
    bare.chmod(0o755)
    result = subprocess.run(
        [ROOT / "tools" / "find-python"], env={"PYTHON": str(bare), "PATH": os.environ["PATH"]}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "python3-venv" in result.stderr


def test_the_installed_command_starts():
    result = subprocess.run(
        [sys.executable, "-c", "from tocsin.cli import main; raise SystemExit(main(['--help']))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


# --- benchmarks ------------------------------------------------------------------------------------------------------


def test_a_benchmark_gives_one_line_of_json(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("import sys, json; print(json.dumps({'size': sys.argv[2]}))")
    bad.write_text("raise SystemExit('no documents')")
    assert bench.run(good, "small")["result"] == {"size": "small"}
    assert bench.run(bad, "small")["error"] == "no documents"
