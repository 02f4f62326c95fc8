"""`tocsin sources` and `tocsin harvest`, on the store of a site."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.site.source_server import Reply, item, rss, serving
from tocsin.cli import harvest, sources
from tocsin.errors import TocsinError
from tocsin.store import Store, documents


@pytest.fixture
def data(tmp_path: Path) -> str:
    folder = tmp_path / "site"
    Store(folder).close()
    return str(folder)


def run(module: ModuleType, *words: str) -> int:
    parser = argparse.ArgumentParser()
    module.arguments(parser)
    status: int = module.run(parser.parse_args(words))
    return status


def test_a_feed_is_added_harvested_listed_exported_and_removed(data, capsys):
    with serving({"feed": rss(item("a"), item("b"))}) as served:
        url = served.url("feed")
        assert run(sources, "add", url, "--name", "News", "--tag", "x", "--data", data, "--allow-private") == 0
        assert json.loads(capsys.readouterr().out)["health"] == "new"
        assert run(harvest, "--data", data, "--allow-private") == 0
        shown = json.loads(capsys.readouterr().out)
        assert (shown["source"], shown["new"], shown["twins"]) == (1, 2, 0)
        assert run(harvest, "1", "--data", data, "--allow-private") == 0
        assert json.loads(capsys.readouterr().out)["repeated"] == 2
    assert run(sources, "list", "--data", data) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["health"], listed["documents"], listed["name"]) == ("ok", 2, "News")
    assert run(sources, "export", "--data", data) == 0
    opml = capsys.readouterr().out
    assert url in opml
    Path(data, "list.opml").write_text(opml, encoding="utf-8")
    assert run(sources, "import", f"{data}/list.opml", "--data", data, "--allow-private") == 0
    assert "1 were there already" in capsys.readouterr().err
    for action in ("pause", "resume"):
        assert run(sources, action, "1", "--data", data) == 0
    assert run(sources, "change", "1", "--interval", "120", "--data", data) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["interval"] == 120
    assert run(sources, "remove", "1", "--data", data) == 0
    assert run(sources, "list", "--data", data) == 0
    assert capsys.readouterr().out == ""


def test_a_visit_that_fails_is_status_1_with_its_reason(data, capsys):
    with serving(lambda path, headers: Reply(status=404)) as served:
        run(sources, "add", served.url("feed"), "--data", data, "--allow-private")
        capsys.readouterr()
        assert run(harvest, "--data", data, "--allow-private") == 1
    assert json.loads(capsys.readouterr().out)["problem"] == "answered 404"


def test_a_folder_is_a_source(data, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    assert run(sources, "add", str(tmp_path / "in"), "--data", data) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "folder"
    assert run(harvest, "--data", data) == 0
    store = Store(data)
    assert documents.last_position(store) == 0
    store.close()


@pytest.mark.parametrize(
    "words",
    [
        ("add", "http://127.0.0.1/feed"), ("add", "https://example.org/", "--set", "x"), ("change", "1"),
        ("change", "7", "--name", "x"), ("remove", "7"), ("import", "/nowhere/at/all.opml"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(data, words):
    with pytest.raises(TocsinError):
        run(sources, *words, "--data", data)


def test_a_source_that_is_not_there_cannot_be_harvested(data):
    with pytest.raises(TocsinError, match="there is no source 7"):
        run(harvest, "7", "--data", data)
