"""A real Chromium, driven as a person would: by what is written on buttons and beside fields."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache"
AXE_VERSION = "4.14.0"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_SECONDS = 60.0
DESKTOP, PHONE = (1280, 860), (390, 844)


def programs() -> tuple[str, str] | None:
    """The browser and its driver, if this machine has both."""
    browser = next((found for name in NAMES if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """One window."""

    def __init__(
        self, url: str, found: tuple[str, str], *, size: tuple[int, int] = DESKTOP, dark: bool = False
    ) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = found[0]
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                     "--force-prefers-reduced-motion", "--lang=en"):  # fmt: skip
            options.add_argument(word)
        self.url = url
        self.driver = webdriver.Chrome(options=options, service=Service(found[1]))
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.console: list[dict[str, Any]] = []

    def close(self) -> None:
        self.driver.quit()

    # --- what a person does ---

    def open(self, path: str) -> None:
        self.driver.get(self.url + path)

    def sign_in(self, token: str) -> None:
        self.open("/")
        self.fill("Your token", token)
        self.press("Sign in")

    def field(self, label: str) -> WebElement:
        """The field beside this label."""
        path = f"//label[starts-with(normalize-space(.), {_quoted(label)})]"
        name = self.wait(lambda: self.driver.find_elements(By.XPATH, path))[0].get_attribute("for")
        return self.driver.find_element(By.ID, name)

    def fill(self, label: str, text: str) -> None:
        field = self.field(label)
        field.clear()
        field.send_keys(text)

    def choose(self, label: str, words: str) -> None:
        """The choice that says so."""
        Select(self.field(label)).select_by_visible_text(words)

    def press(self, words: str, within: str = "") -> None:
        """The button or link that says so; `within` a card that says something else."""
        where = f"//*[contains(@class, 'card')][contains(., {_quoted(within)})]" if within else ""
        path = (
            f"{where}//*[self::a or self::button or self::summary][starts-with(normalize-space(.), {_quoted(words)})]"
        )
        visible = self.wait(lambda: [one for one in self.driver.find_elements(By.XPATH, path) if one.is_displayed()])
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", visible[0])
        seen: list[dict[str, Any]] = [{}]

        def rests() -> bool:
            """What comes in above a button moves it, and a click would go beside it."""
            seen.append(dict(visible[0].rect))
            return seen[-1] == seen[-2]

        self.wait(rests)
        visible[0].click()

    def text(self, selector: str = "main") -> str:
        return str(self.driver.find_element(By.CSS_SELECTOR, selector).text)

    def texts(self, selector: str) -> list[str]:
        return [str(one.text) for one in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def sees(self, words: str, selector: str = "main") -> None:
        """Waits until the words are there."""
        self.wait(lambda: words in self.text(selector), lambda: f"{words!r} is not in {self.text(selector)!r}")

    def wait(self, holds: Callable[[], Any], why: Callable[[], str] = lambda: "it is not there") -> Any:
        start = time.monotonic()
        while True:
            try:
                if found := holds():
                    return found
            except (NoSuchElementException, StaleElementReferenceException):  # a page is being left
                pass
            assert time.monotonic() - start < WAIT_SECONDS, why()
            time.sleep(0.05)

    # --- what a tester looks at ---

    def complaints(self) -> list[str]:
        """What the browser's console complains about."""
        self.console += self.driver.get_log("browser")
        return [entry["message"] for entry in self.console if entry["level"] in ("SEVERE", "WARNING")]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth"))

    def screen(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))

    def violations(self, axe: str) -> list[str]:
        """Serious problems of accessibility that axe-core finds on this page."""
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})  # not bound by the page's policy
        run = "const done = arguments[0]; axe.run(document).then(found => done(found.violations))"
        found = self.driver.execute_async_script(run)
        return [
            f"{one['id']}: {node.get('html', '')[:160]} {node.get('failureSummary', '')[:300]}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"] or [{}]
        ]


def _quoted(text: str) -> str:
    assert '"' not in text
    return f'"{text}"'


def axe_core() -> str | None:
    """The source of axe-core, fetched by npm into the project's cache; None where that cannot be done."""
    source = CACHE / "axe" / "package" / "axe.min.js"
    npm, tar = shutil.which("npm"), shutil.which("tar")
    if not source.exists() and npm and tar:
        folder = CACHE / "axe"
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "npm_config_update_notifier": "false"}
        packed = subprocess.run([npm, "pack", f"axe-core@{AXE_VERSION}"], cwd=folder, env=environment,
                                capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        if packed.returncode == 0:
            subprocess.run([tar, "-xzf", packed.stdout.strip().splitlines()[-1]], cwd=folder, check=True)
    return source.read_text(encoding="utf-8") if source.exists() else None
