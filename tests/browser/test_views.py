"""Views in a real browser: made, followed live, subscribed to; by keyboard, on a phone, in the dark."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.driving import DESKTOP, PHONE, Browser
from tests.browser.inhabited import TOKEN

WINDOWS: dict[str, dict[str, Any]] = {
    "desktop": {"size": DESKTOP},
    "phone_dark": {"size": PHONE, "dark": True},
}


def send(site: Any, *events: dict[str, Any]) -> None:
    for event in events:
        answer = httpx.post(f"{site.url}/api/v1/events", json=event, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.json() == {"accepted": 1, "rejected": []}


def cells(browser: Browser) -> list[list[str]]:
    rows = browser.driver.find_elements(By.CSS_SELECTOR, "table.relation tbody tr")
    return [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]


@pytest.mark.parametrize("window", ["desktop", pytest.param("phone_dark", marks=pytest.mark.slow)])
def test_a_view_is_made_followed_live_and_subscribed_to(site, browse, axe, window):
    """Provisional values look provisional, and become plain by themselves when they are final."""
    browser = browse(**WINDOWS[window])
    browser.sign_in(TOKEN)
    browser.sees("Overview", "h1")
    browser.press("Views")
    browser.sees("Views", "h1")
    relation, view = f"quotes_{window}", f"high_{window}"
    field = browser.field("Relations and views")
    field.send_keys(f"CREATE VIEW {view} AS SELECT nonsense")
    browser.press("Create")
    browser.sees("Line 1", "#sql-problems")
    assert browser.field("Relations and views").get_attribute("aria-invalid") == "true"
    assert browser.violations(axe) == []
    sql = (
        f"CREATE RELATION {relation} (tick BIGINT, issue TEXT, price DOUBLE); CREATE VIEW {view} AS "
        f"SELECT issue, max(price) AS high, latest(price) AS now FROM {relation} GROUP BY issue"
    )
    browser.fill("Relations and views", sql)
    browser.field("Relations and views").send_keys(Keys.TAB, Keys.ENTER)  # by keyboard
    browser.sees("created.")
    assert browser.overflow() <= 0
    browser.press(view)
    browser.sees("No rows yet")
    send(site, {"relation": relation, "tick": 1, "issue": "IBM", "price": 80})
    browser.sees("at least 80")  # by itself
    assert cells(browser) == [["IBM", "at least 80", "80 at tick 1", "can change"]]
    value = browser.driver.find_element(By.CSS_SELECTOR, "td.so-far .value")
    assert value.value_of_css_property("font-style") == "italic"
    assert "dotted" in value.value_of_css_property("text-decoration")
    assert browser.overflow() <= 0
    assert browser.violations(axe) == []
    browser.fill("Condition", "high > 90")
    browser.press("Subscribe")
    browser.sees("Subscribed")
    send(site, {"relation": relation, "tick": 2, "issue": "IBM", "price": 91}, {"relation": relation, "closed": True})
    browser.wait(lambda: cells(browser) == [["IBM", "91", "91", "final"]], lambda: str(cells(browser)))
    settled = browser.driver.find_element(By.CSS_SELECTOR, "td.settled .value")
    assert settled.value_of_css_property("font-style") == "normal"
    browser.open("/alerts")
    browser.sees(f"{view}: issue IBM")
    assert browser.overflow() <= 0
    assert [one for one in browser.complaints() if "422" not in one] == []  # that of the nonsense
