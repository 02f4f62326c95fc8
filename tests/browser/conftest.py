"""What the tests with a real browser share. Where there is no Chromium they are skipped, and say so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

selenium = pytest.importorskip("selenium", reason="Selenium is not installed: pip install selenium")

from tests.browser.driving import Browser, axe_core, programs  # noqa: E402
from tests.browser.inhabited import inhabit  # noqa: E402
from tests.site.mailbox import Mailbox, receiving_mail  # noqa: E402
from tests.web.serving import Serving, serving  # noqa: E402
from tocsin.site.channels.settings import ChannelSettings  # noqa: E402
from tocsin.site.harvest.settings import HarvestSettings  # noqa: E402
from tocsin.site.settings import DeliverySettings, SiteSettings  # noqa: E402

GUIDE = frozenset(
    "desktop-sign-in desktop-mistake desktop-preview desktop-alert desktop-overview desktop-subscriptions "
    "dark-overview dark-preview phone-overview phone-preview phone-alert phone-dark-subscriptions "
    "desktop-sources desktop-channels desktop-digest desktop-mail desktop-confirm phone-sources phone-channels "
    "desktop-threshold dark-channels".split()
)
MISSING = "there is no Chromium with its chromedriver on this machine: install chromium and chromium-driver"


@pytest.fixture(scope="session")
def found() -> tuple[str, str]:
    """The browser and its driver."""
    there = programs()
    if there is None:
        pytest.skip(MISSING)
    return there


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    source = axe_core()
    if source is None:
        pytest.skip("axe-core could not be fetched: it needs npm and a registry")
    return source


@pytest.fixture(scope="module")
def box() -> Iterator[Mailbox]:
    """The mail server of the site."""
    with receiving_mail() as received:
        yield received


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, found: tuple[str, str], box: Mailbox) -> Iterator[Serving]:
    """A site that has been in use for two weeks."""
    folder = tmp_path_factory.mktemp("site")
    inhabit(folder)
    mail = f"mailto://127.0.0.1:{box.port}?from=alerts@tocsin.example"
    settings = SiteSettings(
        channels=ChannelSettings(mail_url=mail, public_url="https://tocsin.example"),
        harvest=replace(HarvestSettings(), harvest_allows_private=True, harvest_host_delay_seconds=0.0),
        delivery=DeliverySettings(delivery_allows_private=True),
    )
    with serving(folder, settings=settings) as served:
        yield served


@pytest.fixture
def browse(site: Serving, found: tuple[str, str]) -> Iterator[Callable[..., Browser]]:
    """Opens windows on the site."""
    opened: list[Browser] = []

    def make(**options: Any) -> Browser:
        opened.append(Browser(site.url, found, **options))
        return opened[-1]

    yield make
    for browser in opened:
        browser.close()


@pytest.fixture(scope="session")
def picture() -> Callable[[Browser, str], None]:
    """Takes a picture: TOCSIN_SCREENS=docs/screens renews those of the guide."""
    wanted = os.environ.get("TOCSIN_SCREENS")

    def take(browser: Browser, name: str) -> None:
        if wanted and name in GUIDE:
            browser.screen(Path(wanted).resolve() / f"{name}.png")

    return take
