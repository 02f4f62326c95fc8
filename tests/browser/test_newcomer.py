"""A newcomer with a real browser: from the door to the first alert, at a desk, on a phone, in the dark."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.driving import DESKTOP, PHONE
from tests.browser.inhabited import TOKEN

WINDOWS: dict[str, dict[str, Any]] = {
    "desktop": {"size": DESKTOP},
    "phone": {"size": PHONE},
    "dark": {"size": DESKTOP, "dark": True},
    "phone-dark": {"size": PHONE, "dark": True},
}
PAGES = ("/", "/alerts", "/subscriptions", "/editor", "/sources", "/channels", "/dead-letters", "/settings")


@pytest.fixture(
    params=["desktop", "phone-dark", *(pytest.param(one, marks=pytest.mark.slow) for one in ("phone", "dark"))]
)
def window(request):
    return request.param


def test_no_page_complains_or_runs_over_the_edge(browse, picture, window):
    browser = browse(**WINDOWS[window])
    browser.sign_in(TOKEN)
    browser.sees("Overview", "h1")
    for path in PAGES:
        browser.open(path)
        assert browser.overflow() <= 0, path
        picture(browser, f"{window}-{path.strip('/') or 'overview'}")
    assert browser.complaints() == []


def test_a_newcomer_finds_what_they_look_for(site, browse, picture, window):
    browser, name = browse(**WINDOWS[window]), f"Gossip about the sea ({window})"
    browser.open("/")
    browser.sees("Say once what you look for")
    picture(browser, f"{window}-sign-in")
    browser.fill("Your token", "a wrong one")
    browser.press("Sign in")
    browser.sees("This token is not known")
    browser.fill("Your token", TOKEN)
    browser.press("Sign in")
    browser.sees("Overview", "h1")

    browser.press("New query")
    browser.fill("What do you look for", 'gossip AND ("open sea" OR')
    browser.sees("Expected a word, a phrase or '(' here", "#verdict")
    line, caret = browser.text("#verdict pre").split("\n")
    assert line == 'gossip AND ("open sea" OR'
    assert browser.driver.execute_script("return document.querySelector('#verdict pre b').textContent").index("^") == 25
    assert caret.strip() == "^"
    assert browser.field("What do you look for").get_attribute("aria-invalid") == "true"
    picture(browser, f"{window}-mistake")
    browser.field("What do you look for").send_keys(" salt* )")
    browser.sees("Good. Read as", "#verdict")
    assert browser.field("What do you look for").get_attribute("aria-invalid") is None

    browser.press("Preview")
    browser.sees("It would have found 0 documents")
    browser.fill("What do you look for", "churn* OR latency")
    browser.sees("Good. Read as churn*", "#verdict")  # it moves the button
    browser.press("Preview")
    browser.wait(lambda: "It would have found 0" not in browser.text("#trial") and browser.texts("#trial mark"))
    assert len(browser.texts("#trial article")) == 10
    assert set(browser.texts("#trial mark")) <= {"churn", "Churn", "latency", "Latency"}
    assert browser.texts("#trial figure .fill")
    assert "alerts a day" in browser.text("#trial")
    led = "return document.getElementById('trial').getBoundingClientRect().top < window.innerHeight / 2"
    assert browser.driver.execute_script(led)  # on a phone it is below the form
    if WINDOWS[window]["size"] == DESKTOP:
        browser.driver.execute_script("window.scrollTo(0, 0)")
    picture(browser, f"{window}-preview")

    browser.fill("What do you look for", 'gossip AND ("open sea" OR salt*)')
    browser.sees("Good. Read as gossip", "#verdict")
    browser.fill("Name", name)
    browser.press("Save")
    browser.sees("It sees every document that is accepted from now on")
    assert "Read as" in browser.text()

    browser.press("To the alerts")
    browser.wait(lambda: browser.texts("article"))
    document = {
        "id": f"sea-{window}",
        "title": "Gossip in the open sea",
        "abstract": "How buoys tell each other of salty water, and why gossip is the cheapest way to do so.",
        "author": ["Maren Dahl"],
        "link": "https://papers.example/sea",
    }
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.post(f"{site.url}/api/v1/documents", json=document, headers=headers)
    assert answer.json()["accepted"] == 1
    browser.sees("Gossip in the open sea")  # by itself: nobody pressed anything
    first = browser.driver.find_element(By.CSS_SELECTOR, "article")
    assert name in first.text
    hits = [mark.text for mark in first.find_elements(By.TAG_NAME, "mark")]
    assert hits == ["Gossip", "open sea"]
    first.find_element(By.TAG_NAME, "summary").click()
    browser.sees("“open sea” in title, words 4 to 5")
    picture(browser, f"{window}-alert")

    browser.press("Subscriptions")
    browser.press("Pause", within=name)
    browser.sees(f"{name} is paused")
    browser.press("Delete …", within=name)
    assert browser.overflow() <= 0
    browser.press("Delete it", within=name)
    browser.sees(f"{name} is deleted")
    assert name not in "".join(browser.texts("article"))
    httpx.delete(f"{site.url}/api/v1/documents/{document['id']}", headers=headers)  # the next window starts anew
    assert [one for one in browser.complaints() if "403" not in one] == []  # that of the wrong token


def test_axe_finds_no_serious_violation(browse, axe, window):
    browser = browse(**WINDOWS[window])
    browser.open("/sign-in")
    assert browser.violations(axe) == []
    browser.sign_in(TOKEN)
    browser.sees("Overview", "h1")
    for path in PAGES:
        browser.open(path)
        browser.driver.execute_script("document.querySelectorAll('details').forEach((one, n) => { one.open = n < 2 })")
        assert browser.violations(axe) == [], path
    browser.open("/editor")
    browser.fill("What do you look for", "churn AND")
    browser.sees("Expected a word", "#verdict")
    assert browser.violations(axe) == []
    browser.fill("What do you look for", "churn")
    browser.press("Preview")
    browser.sees("It would have found", "#trial")
    assert browser.violations(axe) == []


def test_axe_would_find_a_field_without_a_label(browse, axe):
    """The canary: what looks for mistakes finds one that is put there."""
    browser = browse()
    browser.open("/sign-in")
    browser.driver.execute_script(
        "document.querySelector('label').remove(); document.querySelector('#token').placeholder = ''"
    )
    assert any(one.startswith("label:") for one in browser.violations(axe))


def test_everything_can_be_reached_by_keyboard(browse):
    browser = browse()
    browser.open("/sign-in")

    def focused() -> str:
        return str(
            browser.driver.execute_script("return document.activeElement.textContent.trim().replace(/\\s+/g, ' ')")
        )

    def press(*keys: str) -> None:
        browser.driver.switch_to.active_element.send_keys(*keys)

    press(TOKEN, Keys.ENTER)  # the field has the focus from the start
    browser.sees("Overview", "h1")
    press(Keys.TAB)
    assert focused() == "Skip to the content"
    press(Keys.ENTER)
    assert browser.driver.execute_script("return document.activeElement.id") == "content"
    browser.open("/subscriptions")
    seen = []
    for _ in range(18):
        press(Keys.TAB)
        seen.append(focused())
        ring = browser.driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", seen[-1]
    assert [one for one in seen if one.startswith("Pause")]
    while not focused().startswith("Mute"):
        press(Keys.TAB)
    press(Keys.ENTER)
    assert browser.driver.find_elements(By.CSS_SELECTOR, "details.drop[open]")
    press(Keys.ESCAPE)
    assert not browser.driver.find_elements(By.CSS_SELECTOR, "details.drop[open]")
    browser.open("/editor")
    press("churn")
    press(Keys.CONTROL, Keys.ENTER)
    browser.sees("It would have found", "#trial")


def test_text_that_would_be_a_script_does_not_run(site, browse):
    api = httpx.Client(base_url=f"{site.url}/api/v1/", headers={"Authorization": f"Bearer {TOKEN}"})
    attack = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    with api:
        api.post("subscriptions", json={"id": "attack", "query": "zebrafish", "name": attack})
        api.post("documents", json={"id": "attack", "title": f"zebrafish {attack}", "abstract": attack})
    browser = browse()
    browser.sign_in(TOKEN)
    browser.open("/alerts")
    browser.sees("zebrafish")
    for path in (*PAGES, "/editor?id=attack"):
        browser.open(path)
        assert "owned" not in browser.driver.title
    browser.fill("What do you look for", f"zebrafish AND ({attack}")
    browser.wait(lambda: browser.texts("#verdict .mistake"))
    browser.fill("What do you look for", "zebrafish")
    browser.press("Preview")
    browser.wait(lambda: browser.texts("#trial article"))
    assert "owned" not in browser.driver.title
    assert browser.driver.find_elements(By.CSS_SELECTOR, "main img, main script") == []
    with httpx.Client(base_url=f"{site.url}/api/v1/", headers={"Authorization": f"Bearer {TOKEN}"}) as api:
        api.delete("subscriptions/attack")


def test_scripts_cannot_read_the_session_and_cannot_be_planted(browse):
    browser = browse()
    browser.sign_in(TOKEN)
    browser.sees("Overview", "h1")
    assert browser.driver.execute_script("return document.cookie") == ""
    browser.driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.planted = 1'; document.body.append(s)"
    )
    assert browser.driver.execute_script("return window.planted") is None
    assert any("Content Security Policy" in one for one in browser.complaints())
