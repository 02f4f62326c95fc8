"""What the pages show is what happens.

Every ```console block is run, those of a page one after the other in one empty folder, and must print what the page
shows. A table with the columns need, query, finds is checked against the documents that its page writes. After a
change that is meant, `.venv/bin/python -m tests.test_docs` writes the pages anew: read the difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tocsin import Analysis, Document, Knowledge, Statistics, holds, parse
from tocsin.intake import document_from_json

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HERE_DOCUMENT = re.compile(r"<<'(\w+)'")
WRITTEN = re.compile(r"^\$ cat > papers\.jsonl <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)
RECIPE = re.compile(r"^\| (?P<need>[^|]+) \| `(?P<query>[^`]+)` \| (?P<finds>[^|]*) \|$", re.MULTILINE)
END = "\x1e"  # printed after each command, so that outputs can be told apart

GUIDE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in GUIDE if BLOCK.search(page.read_text(encoding="utf-8"))]


def commands(block: str) -> Iterator[str]:
    """The commands of a block, each with the lines that it reads; what they printed is left out."""
    command, delimiter = "", ""
    for line in block.splitlines():
        if delimiter or command.endswith("\\"):
            command += f"\n{line}"
            delimiter = "" if line == delimiter else delimiter
        elif line.startswith("$ "):
            if command:
                yield command
            command = line.removeprefix("$ ")
            here = HERE_DOCUMENT.search(line)
            delimiter = here[1] if here else ""
    if command:
        yield command


def printed(session: list[str]) -> list[str]:
    """What each command prints, messages included, as on a terminal."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8", "COLUMNS": "100"}
    script = "".join(f"{command}\nstatus=$?; printf '{END}'; (exit $status)\n" for command in session)
    script += "exit 0"  # the last command may fail, the script may not
    with TemporaryDirectory() as folder:
        run = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=True,
        )
    return run.stdout.split(END)[:-1]


def fresh(page: str) -> str:
    """The page as it would be if it were written now."""
    blocks = [list(commands(block)) for block in BLOCK.findall(page)]
    outputs = iter(printed([command for block in blocks for command in block]))
    sessions = iter(["".join(f"$ {command}\n{next(outputs)}" for command in block) for block in blocks])
    page = BLOCK.sub(lambda _: f"```console\n{next(sessions)}```", page)
    written = WRITTEN.search(page)
    if not written:
        return page
    documents = [document_from_json(line) for line in written[1].splitlines()]
    return RECIPE.sub(lambda row: f"| {row['need']} | `{row['query']}` | {found(row['query'], documents)} |", page)


def found(query: str, documents: list[Document]) -> str:
    """The ids of the documents that match."""
    wanted = parse(query.replace("\\|", "|"))
    knowledge = Knowledge(Analysis(), Statistics.of(documents, Analysis()), documents)
    return " ".join(document.id for document in documents if holds(wanted, document, knowledge)) or "nothing"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_shows_what_happens(page):
    text = page.read_text(encoding="utf-8")
    assert fresh(text) == text, "mend it, or write it anew: .venv/bin/python -m tests.test_docs"


def test_a_session_keeps_its_files_its_messages_and_its_exit_status():
    block = "$ cat > x <<'END'\n$ not a command\nEND\n$ cat x; \\\nls\nold output\n$ false\n$ echo $? >&2\n"
    session = list(commands(block))
    assert session == ["cat > x <<'END'\n$ not a command\nEND", "cat x; \\\nls", "false", "echo $? >&2"]
    assert printed(session) == ["", "$ not a command\nx\n", "", "1\n"]


def test_a_page_that_lies_is_noticed():
    lie = "```console\n$ echo true\nfalse\n```\n"
    assert fresh(lie) == lie.replace("false", "true")


if __name__ == "__main__":
    for each in PAGES:
        before = each.read_text(encoding="utf-8")
        after = fresh(before)
        if after != before:
            each.write_text(after, encoding="utf-8")
            sys.stdout.write(f"written: {each.relative_to(ROOT)}\n")
