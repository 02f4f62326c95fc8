"""The tools behind `make rows` and `make docs`."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass

import pytest

from tools import reference, rows
from tools.rows import PAPERS, ROWS, MarkError, Shown

# --- rows ------------------------------------------------------------------------------------------------------------


def test_the_mission_has_87_rows():
    counts = Counter(row[0] for row in ROWS)
    assert counts == {"S": 21, "D": 9, "M": 7, "P": 16, "Y": 14, "G": 16, "X": 4}
    assert list(ROWS) == [f"{letter}{n}" for letter in PAPERS for n in range(1, counts[letter] + 1)]


def test_every_marker_in_the_tests_names_a_known_row():
    assert {one.row for one in rows.shown()} <= set(ROWS)


@pytest.fixture
def scan(tmp_path):
    """Write a test file and read its rows."""

    def scan(source: str) -> list[Shown]:
        file = tmp_path / "tests" / "test_planted.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)
        return rows.shown(tmp_path)

    return scan


def test_rows_are_read_from_functions_classes_modules_and_parameters(scan):
    found = scan(
        "import pytest\n"
        "pytestmark = [pytest.mark.slow, pytest.mark.row('X3')]\n"
        "@pytest.mark.row('S12', 'S13')\n"
        "def test_function(): ...\n"
        "@pytest.mark.row('D1')\n"
        "class TestClass:\n"
        "    @pytest.mark.row('D1')\n"
        "    def test_method(self): ...\n"
        "@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.row('P2'))])\n"
        "def test_parameters(n): ...\n"
        "def helper(): ...\n"
    )
    assert [(one.test.partition("::")[2], one.row) for one in found] == [
        ("test_function", "X3"),
        ("test_function", "S12"),
        ("test_function", "S13"),
        ("TestClass::test_method", "X3"),
        ("TestClass::test_method", "D1"),
        ("test_parameters", "X3"),
        ("test_parameters", "P2"),
    ]
    assert all(one.slow for one in found)


@pytest.mark.parametrize("marker", ["row", "row_part"])
@pytest.mark.parametrize("ids", ["'S22'", "'s1'", "", "NAME", "id='S1'"])
def test_a_marker_that_names_no_row_is_refused_with_its_line(scan, ids, marker):
    with pytest.raises(MarkError, match=r"tests/test_planted.py:2"):
        scan(f"import pytest\n@pytest.mark.{marker}({ids})\ndef test_planted(): ...\n")


def test_the_report_lists_each_row_once():
    lines = list(rows.report([Shown("S13", "tests/a.py::test_b", slow=True)]))
    assert sum("none" in line.split() for line in lines) == 86
    assert any("tests/a.py::test_b  (slow)" in line for line in lines)
    assert lines[-1] == "1 of 87 rows are shown by a test, 0 more are shown partly."


def test_a_row_that_one_test_shows_partly_is_not_counted(scan):
    found = scan(
        "import pytest\n"
        "@pytest.mark.row('S1', 'D7')\n"
        "def test_one(): ...\n"
        "@pytest.mark.row_part('D7')\n"
        "def test_other(): ...\n"
    )
    assert [(one.row, one.partly) for one in found] == [("S1", False), ("D7", False), ("D7", True)]
    lines = list(rows.report(found))
    assert [line.split()[0] for line in lines if line.endswith("partly")] == ["D7"]
    assert lines[-1] == "1 of 87 rows are shown by a test, 1 more are shown partly."


# --- reference -------------------------------------------------------------------------------------------------------


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bell")
    below = parser.add_subparsers(dest="command")
    ring = below.add_parser("ring", help="ring it", description="Ring.\n\n  bell ring -n 3 north", aliases=["r"])
    ring.add_argument("-n", "--times", type=int, default=1, metavar="N", help="how often")
    ring.add_argument("--tone", choices=["low", "high"], help="pitch, %(choices)s")
    ring.add_argument("--loud", action="store_true", help="as loud as 100 %% of it goes")
    ring.add_argument("--secret", help=argparse.SUPPRESS)
    ring.add_argument("bell", nargs="+", metavar="BELL", help="which bell | bells")
    below.add_parser("melt", help=argparse.SUPPRESS)
    return parser


def test_commands_page_holds_what_the_parser_knows(parser):
    page = reference.commands_page(parser)
    assert "bell ring [-n N] [--tone {low,high}] [--loud] BELL [BELL …]" in page
    assert "| `-n`, `--times` `N` | How often. Default: `1`. |" in page
    assert "| `--tone` `{low,high}` | Pitch, low, high. |" in page
    assert "| `--loud` | As loud as 100 % of it goes. |" in page
    assert "Which bell \\| bells." in page
    assert "secret" not in page
    assert "melt" not in page
    assert page.count("## bell ring") == 1, "an alias has no section of its own"


def test_commands_page_does_not_depend_on_the_terminal(parser, monkeypatch):
    page = reference.commands_page(parser)
    monkeypatch.setenv("COLUMNS", "40")
    assert reference.commands_page(parser) == page


@dataclass(frozen=True)
class Limits:
    """What a bell may do."""

    strokes_max: int = 1_000
    """Strokes of one alarm,
    counted from the first."""
    name: str = "north"


@dataclass(frozen=True)
class Settings:
    """All of it."""

    limits: Limits = Limits()


def test_settings_page_takes_meanings_from_the_source():
    page = reference.settings_page(Settings, [Limits])
    assert "## What a bell may do\n" in page
    assert "| `limits.strokes_max` (int) | 1,000 | Strokes of one alarm, counted from the first. |" in page
    assert "| `limits.name` (str) | 'north' |  |" in page
    assert "| `Limits.strokes_max` (int) | 1,000 | Strokes of one alarm, counted from the first. |" in page


def test_check_names_a_page_that_differs(monkeypatch, tmp_path, capsys):
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("old")
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "pages", lambda: {page: "new"})
    assert reference.main(["--check"]) == 1
    assert "docs/page.md differs from what the code says: run 'make docs'" in capsys.readouterr().err
    assert page.read_text() == "old"
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0


def test_what_does_not_explain_itself_fails_the_check(monkeypatch, tmp_path, capsys):
    page = tmp_path / "page.md"
    text = "| `a.b` (int) | 1 |  |\n| `c.d` (int) | 1 | Told. |\n| `limit` |  |\n"
    text += "\n## GET /x\n\n\n\n## GET /y\n\nTold.\n"
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "pages", lambda: {page: text})
    assert reference.untold(text) == ["`a.b` (int)", "`limit`", "## GET /x"]
    assert reference.main([]) == 1
    assert "page.md: `a.b` (int) has no explanation" in capsys.readouterr().err
