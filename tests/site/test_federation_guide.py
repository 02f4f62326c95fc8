"""The guide's page on rings: its commands are given as they stand there, each to the site that it names.

The sites are those of its `tocsin up` lines, in this process and matched without Spark; only their ports are others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.site.federated import PACE, QUICK, Joined, until
from tests.web.serving import Serving, serving
from tocsin import cli
from tocsin.net.host import HostSettings
from tocsin.net.identity import endpoint
from tocsin.site import accounts
from tocsin.site.federation import Federation

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "federation.md"
BLOCK = re.compile(r"^```sh\n# at the (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITTEN = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)


class Play:
    """The organisations of the page, and what they do."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._monkeypatch, self._capsys = folder, monkeypatch, capsys
        self.sites: dict[str, tuple[Serving, Joined]] = {}
        self._ports: dict[str, str] = {}
        self.open = ExitStack()
        self.told = 0

    def start(self, who: str, words: list[str]) -> None:
        """`tocsin up`, with its own options."""
        given = cli.parser().parse_args(
            [re.sub(r"(?<=:)\d+$", lambda port: self._port(port[0]), word) for word in words]
        )
        assert given.data == who
        served = self.open.enter_context(serving(self.folder / who, settings=QUICK))
        settings = HostSettings(
            self.folder / who / "node", endpoint(given.listen), contacts=tuple(given.join), chord=PACE
        )
        served.site.federation = Federation(served.site, settings, lambda text: None)
        served.site.federation.start()
        self.sites[who] = served, Joined(served.site, served.site.federation, accounts.find(served.site.store, "admin"))
        until(self.sites[who][1].is_begun)

    def _port(self, written: str) -> str:
        return self._ports.setdefault(written, str(free_port()))

    def say(self, who: str, words: list[str]) -> str:
        """Any other command, which must do well; what it printed."""
        served, joined = self.sites[who]
        self._monkeypatch.setenv("TOCSIN_URL", served.url)
        self._monkeypatch.setenv("TOCSIN_TOKEN", served.token("admin"))
        self._monkeypatch.chdir(self.folder)
        self._capsys.readouterr()
        assert cli.main(words) == 0, words
        if words[0] == "subscribe" and "--show" not in words:
            count = len(json.loads(served.client().get("subscriptions").text)["items"])
            until(lambda: joined.standing() == count)
        return self._capsys.readouterr().out

    def act(self, who: str, block: str) -> None:
        for name, text in WRITTEN.findall(block):
            (self.folder / name).write_text(text)
        lines = WRITTEN.sub("", block).splitlines()
        for place, line in enumerate(lines):
            if line.startswith("#"):
                continue
            top, *words = shlex.split(line)
            assert top == "tocsin", line
            if words[0] == "up":
                self.start(who, words)
                continue
            parts = [part.strip("… ") for one in _comments(lines[place + 1 :]) for part in one.split(" … ")]
            wanted = [part for part in parts if part]
            said = self.until_said(who, words, wanted) if wanted else self.say(who, words)
            if words[0] == "notifications":
                self.told += len(wanted)
                assert len(said.splitlines()) == self.told, said

    def until_said(self, who: str, words: list[str], wanted: list[str]) -> str:
        """A command that looks something up is given again until it says what the page shows."""

        def attempt() -> str | None:
            said = self.say(who, words)
            return said if all(any(part in line for line in said.splitlines()) for part in wanted) else None

        found: str = until(attempt)
        return found


def _comments(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("# "):
            return
        yield line.removeprefix("# ")


def test_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == len(re.findall(r"^```sh$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) >= 9
    play = Play(tmp_path, monkeypatch, capsys)
    with play.open:
        for who, block in blocks:
            play.act(who, block)
        assert play.told == 4  # each once, and nothing else
        _, library = play.sites["library"]
        _, institute = play.sites["institute"]
        assert library.told() == []
        assert {document for _, document, _ in institute.told()} == {"lib-1", "lib-3", "lib-4"}
