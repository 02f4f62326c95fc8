"""Write docs/reference/commands.md, settings.md and http.md from the code, or check that they are up to date.

The pages are made from the parser's own list of arguments, from the settings' dataclasses and from the table of routes,
never from the text of `--help`: argparse lays that out differently from one Python to the next, and by the width of
the terminal. A setting or a route that says nothing about itself fails the check.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
MADE = "<!-- Made by `make docs` from {source}: edit that, not this page. -->"


# --- commands --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """One command of the command line, as its parser knows it."""

    words: str  # tocsin lab run
    parser: argparse.ArgumentParser
    summary: str  # the line beside it in the list of commands


def commands(parser: argparse.ArgumentParser, words: str = "", summary: str = "") -> Iterator[Command]:
    """The command of this parser, then those below it, in the order in which they were added."""
    words = words or parser.prog
    yield Command(words, parser, summary)
    for group in parser._actions:
        if isinstance(group, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in group._choices_actions}
            for name, sub in group.choices.items():
                if name in summaries and summaries[name] != argparse.SUPPRESS:  # an alias, or hidden, has no entry
                    yield from commands(sub, f"{words} {name}", summaries[name])


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a user may write after the command, hidden arguments and `--help` left out."""
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    return [a for a in shown if not isinstance(a, argparse._HelpAction | argparse._SubParsersAction)]


def metavars(action: argparse.Action) -> str:
    """The argument's value as a user reads it: `FILE`, `{a,b}`, `[FILE …]`; empty for a switch."""
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        name = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
    elif action.choices is not None:
        name = "{" + ",".join(str(choice) for choice in action.choices) + "}"
    else:
        name = action.dest.upper() if action.option_strings else action.dest
    forms: dict[Any, str] = {"?": f"[{name}]", "*": f"[{name} …]", "+": f"{name} [{name} …]", "...": f"{name} …"}
    return forms.get(action.nargs, name)


def usage(command: Command) -> str:
    """One line: the command with its arguments; in brackets what may be left out."""
    parts = [command.words]
    for action in sorted(arguments(command.parser), key=lambda action: not action.option_strings):
        value = metavars(action)
        if action.option_strings:
            part = f"{action.option_strings[0]} {value}".rstrip()
            parts.append(part if action.required else f"[{part}]")
        else:
            parts.append(value)
    if any(isinstance(action, argparse._SubParsersAction) for action in command.parser._actions):
        parts.append("COMMAND …")
    return " ".join(parts)


def explanation(action: argparse.Action, program: str) -> str:
    """The argument's help with its `%(default)s` filled in, its choices and its default if the text leaves them out."""
    known = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS}
    known |= {"prog": program, "choices": ", ".join(map(str, action.choices or ()))}
    sentences = [_sentence((action.help or "") % known)]
    if action.choices is not None and action.metavar is not None and "%(choices)s" not in (action.help or ""):
        sentences.append(f"One of {', '.join(f'`{choice}`' for choice in action.choices)}.")
    if _has_default(action) and "default" not in sentences[0].lower():
        sentences.append(f"Default: `{action.default}`.")
    return " ".join(sentences)


def _has_default(action: argparse.Action) -> bool:
    return action.nargs != 0 and action.default not in (None, argparse.SUPPRESS, "", [], ())


def commands_page(parser: argparse.ArgumentParser) -> str:
    """The whole page of commands."""
    listed = list(commands(parser))
    lines = ["# Commands", "", MADE.format(source="tocsin.cli"), ""]
    lines += ["Every command has `--help`, writes data to standard output and messages to standard error, and exits"]
    lines += ["0 (done), 1 (some input was rejected, or a check failed) or 2 (usage).", ""]
    for command in listed[1:]:
        anchor = command.words.replace(" ", "-")
        lines.append(f"- [`{command.words}`](#{anchor}): {_cell(_sentence(command.summary))}")
    for command in listed:
        lines += ["", f"## {command.words}", ""]
        described = _prose(command.parser.description or command.summary)
        lines += [described, ""] if described else []
        lines += ["```", *_wrap(usage(command)), "```"]
        table = [
            f"| {_name(action)} | {_cell(explanation(action, command.words))} |" for action in arguments(command.parser)
        ]
        if table:
            lines += ["", "| argument | meaning |", "|---|---|", *table]
        if command.parser.epilog:
            lines += ["", _prose(command.parser.epilog)]
    return "\n".join(lines) + "\n"


def _name(action: argparse.Action) -> str:
    value = metavars(action)
    if not action.option_strings:
        return f"`{_cell(value)}`"
    return ", ".join(f"`{option}`" for option in action.option_strings) + (f" `{_cell(value)}`" if value else "")


def _wrap(line: str) -> list[str]:
    """A usage line, broken between arguments and indented from the second line on."""
    pieces = re.findall(r"\[[^\]]*\]+|\S+", line)
    unbroken = " ".join(piece.replace(" ", "\0") for piece in pieces)
    wrapped = textwrap.wrap(unbroken, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [part.replace("\0", " ") for part in wrapped]


def _prose(text: str) -> str:
    """A description as it was written, paragraphs kept; indented lines become a block of code."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(
        f"```\n{textwrap.dedent(block)}\n```" if block.startswith("  ") else _sentence(block) for block in blocks
    )


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".:!?`…" else ".")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# --- settings --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting: where it is, what it is worth by default, what it means."""

    path: str  # query.query_characters_max
    kind: str
    default: str
    meaning: str


def settings(root: type[Any], path: str = "") -> dict[str, list[Setting]]:
    """The settings below one dataclass, under the docstring of the class that holds them."""
    found: dict[str, list[Setting]] = {}

    def visit(holder: type[Any], value: Any, path: str) -> None:
        title = (inspect.getdoc(holder) or holder.__name__).partition("\n")[0]
        meanings = _meanings(holder)
        for field in dataclasses.fields(holder):
            here = getattr(value, field.name)
            if dataclasses.is_dataclass(here):
                visit(type(here), here, f"{path}{field.name}.")
            else:
                kind = field.type if isinstance(field.type, str) else field.type.__name__
                setting = Setting(path + field.name, kind, _value(here), meanings.get(field.name, ""))
                found.setdefault(title, []).append(setting)

    visit(root, root(), path)
    return found


def _value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _meanings(holder: type[Any]) -> dict[str, str]:
    """The string under each field of the class: Python forgets these, its source does not."""
    body = ast.parse(textwrap.dedent(inspect.getsource(holder))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def settings_page(file: type[Any], code: list[type[Any]]) -> str:
    """The whole page: what a settings file may say, and what only code may."""
    lines = ["# Settings", "", MADE.format(source="the settings' dataclasses"), ""]
    lines += ["Every limit has its unit in its name. A refusal names the setting that caused it.", ""]
    lines += [
        "`tocsin up` reads `settings.toml` in the site's folder, or the file after `--settings`. A setting's group"
    ]
    lines += ["is its table: `site.channels.public_url` is `public_url` under `[site.channels]`. The file may hold"]
    lines += ["passwords: let only the site's user read it."]
    lines += _tables(settings(file))
    lines += ["", "The following are given in Python, to the parts that they are named after."]
    for root in code:
        lines += _tables(settings(root, f"{root.__name__}."))
    return "\n".join(lines) + "\n"


def _tables(groups: dict[str, list[Setting]]) -> Iterator[str]:
    for title, group in groups.items():
        yield from ("", f"## {title.rstrip('.')}", "", "| setting | default | meaning |", "|---|---|---|")
        for one in group:
            yield f"| `{one.path}` ({_cell(one.kind)}) | {_cell(one.default)} | {_cell(one.meaning)} |"


# --- routes ----------------------------------------------------------------------------------------------------------


def http_page(rows: Iterable[Any], openapi: dict[str, Any]) -> str:
    """The whole page of routes: the table that guards them, told with what the API says of each."""
    lines = ["# HTTP API", "", MADE.format(source="tocsin.web"), ""]
    lines += ["A call carries its token as `Authorization: Bearer TOKEN`. An error is a status and"]
    lines += ['`{"error": {"code", "message", "position"?}}`. `GET /openapi.json` has the schemas.', ""]
    lines += [
        "Any call may answer 401 (no token, or an unknown one), 403 (the role may not), 404 (there is none, or it is"
    ]
    lines += [
        "another account's), 422 (the message names what cannot be used), 429 (`Retry-After` says when to come back),"
    ]
    lines += ["500 and 503 (the site is not ready, or its store is busy). Others are listed with each call."]
    for row in rows:
        told = openapi["paths"].get(row.path, {}).get(row.method.lower(), {})
        roles = "anybody, without a token" if row.reach == "open" else ", ".join(sorted(row.roles))
        lines += ["", f"## {row.method} {row.path}", "", _prose(_about(row, told))]
        lines += ["", f"For: {roles}. Reaches: {REACHES[row.reach]}."]
        parameters = [one for one in told.get("parameters", ()) if one["in"] in ("query", "header")]
        if parameters:
            lines += ["", "| parameter | meaning |", "|---|---|"]
            lines += [f"| `{one['name']}` | {_cell(_sentence(_told_of(one)))} |" for one in parameters]
        answers = {status: one for status, one in told.get("responses", {}).items() if status not in COMMON}
        if answers:
            lines += ["", "| answer | when |", "|---|---|"]
            lines += [
                f"| {status} | {_cell(_sentence(answers[status]['description']))} |" for status in sorted(answers)
            ]
    return "\n".join(lines) + "\n"


COMMON = {"401", "403", "404", "422", "429", "500", "503"}
"""What nearly every call may answer: said once, at the top of the page."""
REACHES = {"open": "nothing of anybody", "common": "what is everybody's", "own": "the caller's own", "site": "the site"}


def _about(row: Any, told: dict[str, Any]) -> str:
    if row.path == "/openapi.json":  # which does not tell of itself
        return "This API for programs: every call, its parameters, its answers."
    return str(told.get("description") or told.get("summary") or "")


def _told_of(parameter: dict[str, Any]) -> str:
    return str(parameter.get("description") or parameter.get("schema", {}).get("description") or "")


# --- pages -----------------------------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Every generated page and what it should hold."""
    from tocsin import cli
    from tocsin.cli.installation import Installation
    from tocsin.net.limits import NetLimits
    from tocsin.overlay.chord import ChordSettings
    from tocsin.overlay.multicast import MulticastSettings
    from tocsin.overlay.placement.publishers.settings import PublishersSettings
    from tocsin.overlay.placement.settings import PlacementSettings
    from tocsin.overlay.placement.states.settings import StateSettings
    from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
    from tocsin.views.broker.broker import BrokerSettings
    from tocsin.views.limits import ViewLimits
    from tocsin.web.routes import TABLE

    placements = [PlacementSettings, PublishersSettings, StateSettings, SuperpeerSettings]
    code = [ViewLimits, BrokerSettings, ChordSettings, MulticastSettings, *placements, NetLimits]
    return {
        FOLDER / "commands.md": commands_page(cli.parser()),
        FOLDER / "settings.md": settings_page(Installation, code),
        FOLDER / "http.md": http_page(TABLE, _openapi()),
    }


def _openapi() -> dict[str, Any]:
    """What a site's application says of itself."""
    from tocsin.site.site import Site
    from tocsin.store import Store
    from tocsin.web.app import Application

    with TemporaryDirectory() as folder, closing(Store(Path(folder))) as store:
        return Application(Site(store)).api.openapi()


UNTOLD = re.compile(r"^\| (`[^|]*`(?: \([^|]*\))?) \|(?:[^|]*\|)?  \|$|^(## [A-Z]+ /\S+)\n\n\n", re.MULTILINE)


def untold(text: str) -> list[str]:
    """Settings, parameters and routes that say nothing about themselves."""
    return [name or route for name, route in UNTOLD.findall(text)]


def stale(wanted: dict[Path, str]) -> list[Path]:
    """The pages that are missing or differ from the code."""
    return [page for page, text in wanted.items() if not page.exists() or page.read_text(encoding="utf-8") != text]


def main(given: list[str] | None = None) -> int:
    """Write the pages; with --check, only compare them."""
    parser = argparse.ArgumentParser(prog="tools.reference", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if a page differs, and write nothing")
    check = parser.parse_args(given).check
    wanted = pages()
    silent = [(page, name) for page, text in wanted.items() for name in untold(text)]
    for page, what in silent:
        print(f"{page.relative_to(ROOT)}: {what} has no explanation: write one in the code.", file=sys.stderr)
    changed = stale(wanted)
    for page in changed:
        name = page.relative_to(ROOT)
        if check:
            print(f"{name} differs from what the code says: run 'make docs' and commit the page.", file=sys.stderr)
        else:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(wanted[page], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if silent or (check and changed) else 0


if __name__ == "__main__":
    sys.exit(main())
