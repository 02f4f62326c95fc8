"""Write docs/reference/commands.md and settings.md from the code, or check that they are up to date.

The pages are made from the parser's own list of arguments and from the settings' dataclasses, never from the text of
`--help`: argparse lays that out differently from one Python to the next, and by the width of the terminal.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
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


def settings(module: ModuleType, root: str = "Settings") -> dict[str, list[Setting]]:
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

    holder = getattr(module, root)
    visit(holder, holder(), "")
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


def settings_page(module: ModuleType) -> str:
    """The whole page of settings."""
    lines = ["# Settings", "", MADE.format(source="tocsin.settings"), ""]
    lines += ["Every limit has its unit in its name. A refusal names the setting that caused it."]
    for title, group in settings(module).items():
        lines += ["", f"## {title.rstrip('.')}", "", "| setting | default | meaning |", "|---|---|---|"]
        lines += [f"| `{one.path}` ({one.kind}) | {_cell(one.default)} | {_cell(one.meaning)} |" for one in group]
    return "\n".join(lines) + "\n"


# --- pages -----------------------------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Every generated page and what it should hold."""
    from tocsin import cli
    from tocsin import settings as module

    return {FOLDER / "commands.md": commands_page(cli.parser()), FOLDER / "settings.md": settings_page(module)}


def stale(wanted: dict[Path, str]) -> list[Path]:
    """The pages that are missing or differ from the code."""
    return [page for page, text in wanted.items() if not page.exists() or page.read_text(encoding="utf-8") != text]


def main(given: list[str] | None = None) -> int:
    """Write the pages; with --check, only compare them."""
    parser = argparse.ArgumentParser(prog="tools.reference", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if a page differs, and write nothing")
    check = parser.parse_args(given).check
    wanted = pages()
    changed = stale(wanted)
    for page in changed:
        name = page.relative_to(ROOT)
        if check:
            print(f"{name} differs from what the code says: run 'make docs' and commit the page.", file=sys.stderr)
        else:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(wanted[page], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
