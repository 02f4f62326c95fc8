"""`tocsin view create`, `send`, `show` and `drop` against a running site."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.web.serving import serving
from tocsin.cli import main


def test_create_send_show_and_drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "views.sql").write_text(
        "CREATE RELATION q (tick BIGINT, x BIGINT);\nCREATE VIEW top AS SELECT max(x) AS x FROM q;\n"
        "CREATE VIEW bad AS SELECT y FROM q;"
    )
    events = [{"relation": "q", "tick": tick, "x": tick % 7} for tick in range(1, 30)] + [{"relation": "q", "tick": 3}]
    with gzip.open(tmp_path / "events.jsonl.gz", "wb") as file:
        file.write(b"".join(json.dumps(one).encode() + b"\n" for one in events))
    with serving(tmp_path / "site") as served:
        monkeypatch.setenv("TOCSIN_URL", served.url)
        monkeypatch.setenv("TOCSIN_TOKEN", served.token("publisher-1"))

        def run(*words: str) -> tuple[int, list[dict], str]:
            status = main(["view", *words])
            told = capsys.readouterr()
            return status, [json.loads(line) for line in told.out.splitlines()], told.err

        status, out, err = run("create", "-f", str(tmp_path / "views.sql"))
        assert (status, out) == (1, [{"accepted": 2, "rejected": 1}])
        assert "views.sql:3: bad: " in err
        status, out, err = run("send", "-e", str(tmp_path / "events.jsonl.gz"), "--part", "20")
        assert (status, out) == (1, [{"accepted": 20, "rejected": 0}, {"accepted": 9, "rejected": 1}])
        assert "events.jsonl.gz:30: q: another event is known at tick 3" in err
        assert run("show", "top") == (
            0, [{"view": "top", "key": {}, "row": {"x": {"at_least": 6}}, "final": False}], "")  # fmt: skip
        assert [one["name"] for one in run("show")[1]] == ["q", "top"]
        assert run("drop", "q")[0] == 1
        assert [run("drop", name)[0] for name in ("top", "q")] == [0, 0]
        assert run("show")[1] == []


def test_subscribe_to_the_rows_of_a_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    (tmp_path / "views.sql").write_text(
        "CREATE RELATION q (tick BIGINT, k TEXT, x BIGINT);\n"
        "CREATE VIEW top AS SELECT k, max(x) AS x FROM q GROUP BY k;"
    )
    with serving(tmp_path / "site") as served:
        monkeypatch.setenv("TOCSIN_URL", served.url)
        monkeypatch.setenv("TOCSIN_TOKEN", served.token("publisher-1"))

        def run(*words: str) -> tuple[int, list[dict], str]:
            status = main([*words])
            told = capsys.readouterr()
            return status, [json.loads(line) for line in told.out.splitlines()], told.err

        assert run("view", "create", "-f", str(tmp_path / "views.sql"))[0] == 0
        assert run("subscribe", "--view", "top", "--id", "all")[1][0]["view"] == {"name": "top"}
        status, out, _ = run("subscribe", "--view", "top", "--when", "x > 5", "--id", "high")
        assert (status, out[0]["view"]) == (0, {"name": "top", "when": "x > 5"})
        status, _, err = run("subscribe", "--view", "nope")
        assert (status, "nope" in err) == (1, True)
        status, _, err = run("subscribe", "--where", "x > 5")
        assert status != 0
        assert "--view" in err
        events = [{"relation": "q", "tick": at, "k": "ab"[at % 2], "x": at} for at in range(1, 8)]
        (tmp_path / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
        assert run("view", "send", "-e", str(tmp_path / "events.jsonl"), "--part", "3")[0] == 0
        told = run("notifications")[1]
        assert [one["row"]["x"]["at_least"] for one in told if one["subscription"] == "high"] == [6, 7]
        assert sorted(one["key"]["k"] for one in told if one["subscription"] == "all") == ["a", "b"]
