"""`tocsin view run`: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin.cli import view
from tocsin.errors import InputError

SQL = """
CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE, volume BIGINT);
CREATE VIEW hourly AS SELECT issue, tick / 3 AS hour, max(price) AS high, min(price) AS low, latest(price) AS now,
    count(*) AS n, sum(volume) AS volume FROM quotes GROUP BY issue, tick / 3;
CREATE VIEW busy AS SELECT issue, sum(volume) AS volume FROM quotes GROUP BY issue HAVING sum(volume) BETWEEN 5 AND 9;
"""
EVENTS = [
    {"relation": "quotes", "tick": 0, "issue": "IBM", "price": 80, "volume": 3},
    {"relation": "quotes", "tick": 1, "issue": "IBM", "price": 81, "volume": 4},
    {"relation": "quotes", "silent": [2, 2]},
    {"relation": "quotes", "tick": 4, "issue": "IBM", "price": 79.5, "volume": 5},
    {"relation": "quotes", "closed": True},
]


def run(folder: Path, *options: str, sql: str = SQL, events: list | bytes = EVENTS) -> tuple[int, list[dict]]:
    data = events if isinstance(events, bytes) else b"".join(json.dumps(event).encode() + b"\n" for event in events)
    (folder / "views.sql").write_text(sql)
    (folder / "events.jsonl").write_bytes(data)
    parser = argparse.ArgumentParser()
    view.arguments(parser)
    given = parser.parse_args(["run", "-f", str(folder / "views.sql"), "-e", str(folder / "events.jsonl"), *options])
    return view.run(given), []


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict], str]:
    out, err = capsys.readouterr()
    return [json.loads(line) for line in out.splitlines()], err


def test_each_line_prints_the_rows_that_it_changes(tmp_path, capsys):
    status, _ = run(tmp_path)
    rows, err = printed(capsys)
    assert (status, err) == (0, "")
    key = {"issue": "IBM", "hour": 0}
    hourly = [row for row in rows if row["view"] == "hourly" and row["key"] == key]
    assert hourly[0] == {
        "view": "hourly", "key": key, "final": False,
        "row": {"issue": "IBM", "hour": 0, "high": {"at_least": 80}, "low": {"at_most": 80},
                "now": {"latest": 80, "tick": 0}, "n": {"between": [1, 3]}, "volume": {"so_far": 3}},
    }  # fmt: skip
    assert [row["row"]["n"] for row in hourly] == [{"between": [1, 3]}, {"between": [2, 3]}, 2]
    assert [row["row"]["high"] for row in hourly] == [{"at_least": 80}, {"at_least": 81}, 81]
    assert [row["final"] for row in hourly] == [False, False, True]
    assert hourly[2]["row"]["volume"] == 7
    busy = [(row["row"], row["final"]) for row in rows if row["view"] == "busy"]
    assert busy == [({"issue": "IBM", "volume": {"so_far": 7}}, False), (None, False)]


def test_final_prints_only_the_last_state_of_each_row(tmp_path, capsys):
    assert run(tmp_path, "--final")[0] == 0
    rows, _ = printed(capsys)
    assert [(row["view"], row["key"]["hour"], row["row"]["high"], row["final"]) for row in rows] == [
        ("hourly", 0, 81, True), ("hourly", 1, 79.5, True),
    ]  # fmt: skip


@pytest.mark.parametrize("batch", [2, 3, 1000])
def test_a_batch_coalesces(tmp_path, capsys, batch):
    run(tmp_path, "--batch", str(batch))
    rows, _ = printed(capsys)
    run(tmp_path)
    assert len(rows) < len(printed(capsys)[0])
    run(tmp_path, "--final", "--batch", str(batch))
    by_batch, _ = printed(capsys)
    run(tmp_path, "--final")
    assert by_batch == printed(capsys)[0]


def test_large_batches_go_by_column_and_give_the_same(tmp_path, capsys):
    events = [
        {"relation": "quotes", "tick": t, "issue": "ABC"[t % 3], "price": t % 17 + 0.5, "volume": t}
        for t in range(2000)
    ]
    events[700]["tick"] = 3  # one that is refused
    results = []
    for batch in ("1", "300", "5000"):
        assert run(tmp_path, "--final", "--batch", batch, events=events)[0] == 1
        rows, err = printed(capsys)
        assert "events.jsonl:701: quotes: another event is known at tick 3" in err
        results.append(rows)
    assert results[0] == results[1] == results[2]
    assert len(results[0]) > 600


def test_bad_lines_are_refused_one_by_one_and_the_status_is_1(tmp_path, capsys):
    lines = [json.dumps(event) for event in EVENTS]
    lines[1:1] = ["{", "", '{"relation": "nope", "tick": 1}', '{"relation": "quotes", "tick": 1, "price": "x"}']
    lines += ['{"relation": "quotes", "tick": 9}']
    status, _ = run(tmp_path, events="\n".join(lines).encode())
    rows, err = printed(capsys)
    assert status == 1
    assert [line.split(": ")[1].rpartition(":")[2] for line in err.splitlines()[:-1]] == ["2", "4", "5", "10"]
    assert err.endswith("4 events rejected\n")
    run(tmp_path)
    assert rows == printed(capsys)[0], "the rest goes on"


def test_a_bad_view_is_named_and_the_others_run(tmp_path, capsys):
    status, _ = run(tmp_path, sql=SQL + "CREATE VIEW worst AS SELECT max(issue) FROM quotes;")
    rows, err = printed(capsys)
    assert status == 1
    assert "worst: max(issue): issue is TEXT" in err
    assert rows


def test_gzip_is_read(tmp_path, capsys):
    packed = gzip.compress(b"".join(json.dumps(event).encode() + b"\n" for event in EVENTS))
    assert run(tmp_path, events=packed)[0] == 0
    assert len(printed(capsys)[0]) == 7


def test_a_missing_file_is_named(tmp_path):
    parser = argparse.ArgumentParser()
    view.arguments(parser)
    with pytest.raises(InputError, match=r"absent\.sql"):
        view.run(parser.parse_args(["run", "-f", str(tmp_path / "absent.sql"), "-e", "-"]))
    for wrong in ("0", "-3", "x"):
        with pytest.raises(SystemExit):
            parser.parse_args(["run", "-f", "a", "-e", "b", "--batch", wrong])


def test_rows_are_printed_before_the_next_line_is_read(tmp_path):
    (tmp_path / "views.sql").write_text(SQL)
    code = (
        "import argparse; from tocsin.cli import view; p = argparse.ArgumentParser(); view.arguments(p);"
        f"view.run(p.parse_args(['run', '-f', {str(tmp_path / 'views.sql')!r}, '-e', '-']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=dict(os.environ)) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for event, rows in zip(EVENTS, (1, 2, 1, 2, 1), strict=True):
            process.stdin.write(json.dumps(event).encode() + b"\n")
            process.stdin.flush()
            for _ in range(rows):
                assert json.loads(process.stdout.readline())["view"] in ("hourly", "busy")
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(timeout=60) == 0
