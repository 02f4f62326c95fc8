"""The commands against a running site, and `tocsin up` up to the point where Spark would start."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.serving import ADMIN_TOKEN, Serving, eventually, serving
from tocsin.cli import main
from tocsin.errors import SettingError
from tocsin.web.server import listen


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture
def run(served, monkeypatch, capsys):
    """Runs a command as an account: (status, lines of output, messages)."""

    def run_as(account: str, *words: str):
        monkeypatch.setenv("TOCSIN_URL", served.url)
        monkeypatch.setenv("TOCSIN_TOKEN", served.token(account))
        status = main(list(words))
        told = capsys.readouterr()
        return status, [json.loads(line) for line in told.out.splitlines()], told.err

    return run_as


def test_subscribe_publish_and_read(run, tmp_path):
    assert run("publisher-1", "subscribe", "title:(peer NEAR/3 network)", "--id", "peers", "--tag", "p2p")[0] == 0
    documents = tmp_path / "papers.jsonl"
    documents.write_text(
        '{"id": "d1", "title": "peer to peer network"}\n{"title": "no id"}\n{"id": "d2", "title": "x"}\n'
    )
    status, out, err = run("publisher-1", "publish", "-d", str(documents))
    assert status == 1
    assert out == [{"accepted": 2, "rejected": 1}]
    assert "papers.jsonl" in err  # the bad one was found before it was sent
    found = eventually(lambda: run("publisher-1", "notifications")[1])
    assert [(one["subscription"], one["document"]) for one in found] == [("peers", "d1")]
    assert run("publisher-1", "notifications", "--after", found[-1]["cursor"])[:2] == (0, [])


def test_what_the_site_rejects_is_named_by_file_and_line(run, tmp_path):
    file = tmp_path / "versions.jsonl"
    file.write_text('{"id": "v", "version": 2}\n\n{"id": "v", "version": 1}\n')
    status, out, err = run("publisher-1", "publish", "-d", str(file), "--part", "1")
    assert status == 1
    assert out == [{"accepted": 1, "rejected": 0}, {"accepted": 0, "rejected": 1}]
    assert f"{file}:3" in err
    assert "version 2 came before" in err


def test_a_file_of_subscriptions(run, tmp_path):
    file = tmp_path / "subscriptions.jsonl"
    file.write_text('{"id": "f1", "query": "x"}\n{"id": "f2", "query": "("}\n{"id": "f3", "xpath": "//a"}\n')
    status, out, err = run("subscriber-file", "subscribe", "-s", str(file))
    assert status == 1
    assert [one.get("id") or one["error"]["position"] for one in out] == ["f1", 1, "f3"]
    assert "rejected" in err
    status, out, _ = run("subscriber-file", "subscribe", "--list")
    assert [one["id"] for one in out] == ["f1", "f3"]
    assert run("subscriber-file", "subscribe", "--pause", "f1")[1][0]["state"] == "paused"
    assert run("subscriber-file", "subscribe", "--resume", "f1")[1][0]["state"] == "active"
    assert run("subscriber-file", "subscribe", "--delete", "f1")[:2] == (0, [])
    status, out, err = run("subscriber-file", "subscribe", "--show", "f1")
    assert (status, out) == (1, [])
    assert "not_found" in err


def test_thumbs_move_a_subscription_that_learns(run, tmp_path):
    def words(found):
        return {row["word"] for text in found["feedback"]["texts"] for row in text["words"]}

    learns = run("publisher-2", "subscribe", 'about ~ "jaguar" >= 0.1', "--id", "cats", "--feedback")
    assert learns[0] == 0
    assert learns[1][0]["feedback"] is True
    file = tmp_path / "cats.jsonl"
    file.write_text('{"id": "cat", "about": "jaguar in the forest"}\n{"id": "car", "about": "jaguar on the road"}\n')
    assert run("publisher-2", "publish", "-d", str(file))[0] == 0
    eventually(lambda: len(run("publisher-2", "notifications")[1]) == 2)
    assert "forest" in words(run("publisher-2", "subscribe", "--thumb", "cats", "cat", "up")[1][0])
    moved = run("publisher-2", "subscribe", "--thumb", "cats", "car", "down")[1][0]
    assert {one["document"]: one["thumb"] for one in moved["feedback"]["thumbs"]} == {"cat": "up", "car": "down"}
    taken = run("publisher-2", "subscribe", "--thumb", "cats", "cat", "none")[1][0]
    assert [one["document"] for one in taken["feedback"]["thumbs"]] == ["car"]
    assert run("publisher-2", "subscribe", "--show", "cats")[1] == [taken]
    status, out, err = run("publisher-2", "subscribe", "--thumb", "cats", "nothing", "up")
    assert (status, out) == (1, [])
    assert "nothing" in err
    assert main(["subscribe", "--thumb", "cats", "cat", "sideways"]) == 2


def test_a_bad_query_exits_1_and_shows_where(run):
    status, out, err = run("subscriber-file", "subscribe", "--", "-")
    assert (status, out) == (1, [])
    assert "^" in err


def test_following_prints_each_once(run, served, capsys):
    client = served.client("publisher-follow")
    client.post("subscriptions", json={"id": "s", "query": "follow"})
    client.post("documents", json={"id": "first", "t": "follow"})
    publisher = served.client("publisher-follow")
    later = threading.Timer(0.5, lambda: publisher.post("documents", json={"id": "second", "t": "follow"}))
    later.start()
    status, out, _ = run("publisher-follow", "notifications", "--follow", "--limit", "2")
    later.join()
    assert status == 0
    assert [one["document"] for one in out] == ["first", "second"]


def test_accounts(run):
    status, out, err = run("admin", "account", "create", "bob", "--role", "publisher", "--quota", "subscriptions_max=5")
    assert status == 0
    assert out[0]["token"].startswith("toc_")
    assert out[0]["quotas"]["subscriptions_max"] == 5
    assert "once" in err
    assert run("admin", "account", "token", "bob", "--label", "laptop")[1][0]["label"] == "laptop"
    shown = run("admin", "account", "show", "bob")[1][0]
    assert "laptop" in [one["label"] for one in shown["tokens"]]
    assert not [one for one in shown["tokens"] if "token" in one]
    assert run("admin", "account", "revoke", "bob", "--label", "laptop")[1] == [{"revoked": 1}]
    assert run("admin", "account", "revoke", "bob", "--label", "laptop")[0] == 1
    assert run("admin", "account", "change", "bob", "--role", "subscriber")[1][0]["role"] == "subscriber"
    assert run("admin", "account", "disable", "bob")[1][0]["disabled"] is True
    assert run("admin", "account", "enable", "bob")[1][0]["disabled"] is False
    assert "bob" in [one["name"] for one in run("admin", "account", "list")[1]]
    assert run("subscriber-who", "account", "show")[1][0]["name"] == "subscriber-who"
    assert run("subscriber-who", "account", "list")[0] == 1


def test_audit(run, served):
    client = served.client()
    client.post("documents", json={"id": "audited", "t": "x"})
    eventually(lambda: served.site.progress().lag == 0)
    status, out, _ = run("admin", "audit")
    assert status == 0
    assert out[0]["complete"] is True
    assert out[0]["looked_at"] > 0
    assert run("admin", "audit", "--receipts", "--fill")[1][0]["looked_at"] == 0
    assert run("subscriber-who", "audit")[0] == 1


def test_a_gap_is_named_and_filled(served, run):
    """A notification that was lost behind the site's back is found by the audit, and told."""
    from sqlalchemy import delete

    from tocsin.store import schema

    client = served.client("publisher-gap")
    client.post("subscriptions", json={"id": "s", "query": "vanishing"})
    client.post("documents", json={"id": "vanished", "t": "vanishing"})
    eventually(lambda: client.get("notifications").json()["items"])
    with served.site.store.write() as transaction:
        gone = schema.notifications.c.document == "vanished"
        transaction.execute(delete(schema.notifications).where(gone))
    status, out, _ = run("admin", "audit")
    assert (status, out[0]["complete"], out[0]["missing"]) == (1, False, 1)
    status, out, _ = run("admin", "audit", "--fill")
    assert (status, out[0]["complete"], out[0]["filled"]) == (0, True, 1)
    assert [one["document"] for one in client.get("notifications").json()["items"]] == ["vanished"]
    assert run("admin", "audit")[0] == 0


# --- tokens and addresses --------------------------------------------------------------------------------------------


def test_the_token_may_be_in_a_file(run, served, tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"{served.token('subscriber-file')}\n")
    _, out, _ = run("admin", "account", "show", "--token-file", str(file))
    assert out[0]["name"] == "subscriber-file"


def test_usage_errors_exit_2(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("TOCSIN_TOKEN", raising=False)
    assert main(["notifications"]) == 2
    assert "TOCSIN_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("TOCSIN_TOKEN", "x")
    assert main(["notifications", "--url", "nonsense"]) == 2
    assert main(["subscribe", "--url", "http://127.0.0.1:1"]) == 2
    assert main(["notifications", "--token-file", str(tmp_path / "none")]) == 2
    with pytest.raises(SystemExit, match="2"):
        main(["notifications", "--limit", "0"])


def test_a_site_that_is_not_there_is_named(monkeypatch, capsys):
    monkeypatch.setenv("TOCSIN_TOKEN", "x")
    assert main(["notifications", "--url", "http://127.0.0.1:1"]) == 1
    assert "tocsin up" in capsys.readouterr().err


def test_a_wrong_token_is_told(served, monkeypatch, capsys):
    monkeypatch.setenv("TOCSIN_TOKEN", "toc_wrong")
    assert main(["notifications", "--url", served.url]) == 1
    assert "unauthenticated" in capsys.readouterr().err


def test_no_command_takes_a_token_as_an_argument():
    from tocsin.cli import parser

    for action in parser()._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
        assert "--token" not in action._option_string_actions


# --- back-up and restore ---------------------------------------------------------------------------------------------


def test_a_back_up_of_a_running_site_is_restored(run, served, tmp_path):
    client = served.client("publisher-kept")
    client.post("subscriptions", json={"id": "kept", "query": "kept"})
    client.post("documents", json={"id": "kept", "t": "kept"})
    items = eventually(lambda: client.get("notifications").json()["items"])
    folder = Path(str(served.site.store.engine.url.database)).parent
    file = tmp_path / "site.backup"
    status, out, _ = run("admin", "backup", str(file), "--data", str(folder))
    assert status == 0
    assert out[0]["rows"] > 5
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    new = tmp_path / "new"
    assert run("admin", "restore", str(file), "--data", str(new))[:2] == (0, out)
    with serving(new) as again:
        again.tokens = dict(served.tokens)
        other = again.client("publisher-kept")
        assert other.get("notifications").json()["items"] == items
        assert other.get("subscriptions/kept").json()["query"] == "kept"
        other.post("documents", json={"id": "newer", "t": "kept"})
        eventually(lambda: len(other.get("notifications").json()["items"]) == 2)
    assert run("admin", "restore", str(file), "--data", str(new))[0] == 1  # not empty
    (tmp_path / "half").write_bytes(file.read_bytes()[:500])
    assert run("admin", "restore", str(tmp_path / "half"), "--data", str(tmp_path / "third"))[0] == 1
    assert run("admin", "restore", str(tmp_path / "none"), "--data", str(tmp_path / "third"))[0] == 2
    assert run("admin", "backup", str(file), "--data", str(tmp_path / "nothing"))[0] == 1


# --- up --------------------------------------------------------------------------------------------------------------


def test_a_named_port_that_is_taken_is_an_error_and_no_port_is_the_next_free_one():
    first = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    with pytest.raises(SettingError, match=str(port)):
        listen("127.0.0.1", port)
    second, third = listen("127.0.0.1", None), listen("127.0.0.1", None)
    assert 8047 <= second.getsockname()[1] < third.getsockname()[1]
    for one in (first, second, third):
        one.close()


def test_up_says_what_is_wrong(tmp_path, capsys):
    taken = socket.create_server(("127.0.0.1", 0))
    port = str(taken.getsockname()[1])
    assert main(["up", "--data", str(tmp_path / "a"), "--port", port]) == 2
    assert port in capsys.readouterr().err
    taken.close()
    (tmp_path / "file").write_text("")
    assert main(["up", "--data", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["up", "--port", "many"])


def test_a_folder_belongs_to_one_process(tmp_path, capsys):
    holder = "import sys, time; from pathlib import Path; from tocsin.cli.up import owned\n"
    holder += "with owned(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    environment = os.environ | {"TOCSIN_ADMIN_TOKEN": ADMIN_TOKEN}
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert main(["up", "--data", str(tmp_path)]) == 2
        told = capsys.readouterr()
        assert str(process.pid) in told.err
        assert "in use" in told.err
        assert "Tocsin is at" not in told.out
    finally:
        process.kill()
        process.communicate()
