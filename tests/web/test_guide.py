"""The engineer's guide: its receiver is run as it stands there, against a site that calls it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.web.serving import eventually, serving
from tocsin.site.settings import DeliverySettings, SiteSettings

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide"


def test_the_receiver_of_the_guide_takes_what_the_site_sends_and_nothing_else(tmp_path: Path) -> None:
    block = re.search(r"^```python\n(.*?)^```$", (GUIDE / "engineer.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block
    (tmp_path / "receiver.py").write_text(block[1])
    port, told = free_port(), tmp_path / "told"
    with serving(
        tmp_path / "site", settings=SiteSettings(delivery=DeliverySettings(delivery_allows_private=True))
    ) as site:
        client = site.client("publisher-pager")
        body = {"id": "outages", "query": 'severity >= 3 AND (outage OR "packet loss")'}
        made = client.post("subscriptions", json={**body, "channel": f"http://127.0.0.1:{port}/hook"}).json()
        environment = {**os.environ, "WEBHOOK_SECRET": made["secret"], "PORT": str(port)}
        with (
            told.open("wb") as out,
            subprocess.Popen(
                [sys.executable, str(tmp_path / "receiver.py")], env=environment, stdout=out, stderr=subprocess.DEVNULL
            ) as receiver,
        ):
            try:
                eventually(lambda: client.post("test", params={"subscription": "outages"}).json().get("sent"))
                client.post("documents", json={"id": "t-1", "title": "Packet loss in Athens", "severity": 4})
                client.post("documents", json={"id": "t-2", "title": "Printer out of paper", "severity": 1})
                assert eventually(lambda: "match" in told.read_text() and told.read_text()).split() == [
                    "test",
                    "match",
                    "t-1",
                ]
                forged = {"webhook-id": "x", "webhook-timestamp": "0", "webhook-signature": "v1,AAAA"}
                answer = site.client(None).post(f"http://127.0.0.1:{port}/hook", json={"type": "match"}, headers=forged)
                assert answer.status_code == 401
            finally:
                receiver.kill()


@pytest.mark.parametrize("page", ["researcher.md", "engineer.md", "a-site.md"])
def test_every_picture_of_the_guide_is_there(page: str) -> None:
    found = re.findall(r"\]\((\.\./screens/[^)]+)\)", (GUIDE / page).read_text())
    assert found
    assert [name for name in found if not (GUIDE / name).is_file()] == []
