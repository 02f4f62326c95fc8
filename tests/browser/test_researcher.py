"""A researcher with a real browser: from a journal's feed to a daily digest in the mailbox; an engineer's webhook."""

from __future__ import annotations

import base64
import re
import time

import pytest

from tests.browser.driving import DESKTOP, PHONE
from tests.browser.inhabited import TOKEN
from tests.site.receiver import receiving
from tests.site.source_server import Reply, item, rss, serving

TEXTS = (
    "Anti-entropy in the open sea: how buoys agree on salinity with three messages an hour and no shore station.",
    "A field study of gossip between gliders under ice, where a message may wait for eleven days before it is heard.",
    "Forty buoys for the price of one, and what they measure in a harbour where the wind turns every evening.",
)


@pytest.mark.slow
def test_a_researcher_gets_a_daily_digest_of_new_papers(site, box, browse, picture, axe):
    published = [item("p1", title="Gossip in the open sea", text=TEXTS[0])]
    with serving(lambda path, headers: Reply(rss(*published, title="Ocean Letters"))) as feed:
        browser = browse(size=DESKTOP)
        browser.sign_in(TOKEN)
        browser.sees("Overview", "h1")

        browser.press("Channels")
        browser.fill("Mailbox", "researcher@institute.example")
        browser.press("Add the mailbox")
        browser.sees("got a mail")
        part = box.letters[-1][2].get_body(["plain"])
        assert part is not None
        link = re.search(r"https://tocsin\.example(/confirm/\S+)", part.get_content())
        assert link
        browser.open(link[1])
        browser.sees("May alerts come here?")
        assert browser.violations(axe) == []
        picture(browser, "desktop-confirm")
        browser.press("Yes, send them")
        browser.sees("Thank you")
        browser.open("/channels")
        browser.press("Send a test researcher@institute.example")
        browser.sees("The test was taken by researcher@institute.example")
        assert box.letters[-1][1] == ["researcher@institute.example"]

        browser.press("Sources")
        browser.fill("Follow a source", "ftp://ocean.example/feed")
        browser.press("Follow")
        browser.sees("The source's address must start with https://")
        browser.fill("Follow a source", feed.url("ocean.xml"))
        browser.press("More: name")
        browser.fill("Name", "Ocean Letters")
        browser.press("Follow")
        browser.sees("Ocean Letters is followed from now on")
        browser.wait(lambda: browser.open("/sources") or "1 document" in card(browser, "Ocean Letters"))

        browser.press("New query")
        browser.fill("What do you look for", "gossip AND (sea OR ice)")
        browser.fill("Name", "Gossip at sea")
        browser.choose("When you are told", "Every day, together")
        browser.choose("Where, besides here", "researcher@institute.example")
        browser.press("Preview")
        browser.sees("It would have found 1 document", "#trial")
        assert browser.violations(axe) == []
        browser.driver.execute_script("window.scrollTo(0, 0)")
        picture(browser, "desktop-digest")
        browser.press("Save")
        browser.sees("It sees every document that is accepted from now on")

        browser.press("New query")
        browser.fill("What do you look for", "gliders OR buoys")
        browser.fill("Name", "Instruments")
        browser.choose("When you are told", "Every day, together")
        browser.choose("Where, besides here", "researcher@institute.example")
        browser.press("Save")
        browser.sees("It sees every document that is accepted from now on")

        published.append(item("p3", title="Cheap buoys for shallow water", text=TEXTS[2]))
        published.append(item("p2", title="Gliders that gossip under ice", text=TEXTS[1]))
        browser.press("Sources")
        browser.press("Harvest now", within="Ocean Letters")
        browser.sees("Ocean Letters is visited in a moment")
        browser.wait(lambda: "3 documents" in card(browser, "Ocean Letters"))  # by itself
        browser.wait(lambda: site.site.progress().lag == 0)
        before = len(box.letters)
        assert site.site.make_digests(now=time.time() + 2 * 86_400) >= 2  # the morning after
        browser.wait(lambda: [one for one in box.letters[before:] if one[1] == ["researcher@institute.example"]])
        (letter,) = (one[2] for one in box.letters[before:] if one[1] == ["researcher@institute.example"])
        assert letter["Subject"] == "3 new documents for 2 subscriptions"
        shown = letter.get_body(["html"])
        assert shown is not None
        encoded = base64.b64encode(shown.get_content().encode()).decode()
        assert [one for one in browser.complaints() if "422" not in one] == []  # that of the wrong address
        browser.driver.get(f"data:text/html;base64,{encoded}")
        assert "Stop these messages" in browser.text("body")
        picture(browser, "desktop-mail")

        browser.open("/sources")
        browser.press("Remove …", within="Ocean Letters")
        browser.press("Remove it", within="Ocean Letters")
        browser.sees("Ocean Letters is removed. Its documents stay.")


def card(browser, words: str) -> str:
    return next((" ".join(text.split()) for text in browser.texts("article") if words in text), "")


def test_an_engineer_gives_a_query_a_webhook_and_tests_it(browse):
    with receiving() as received:
        browser = browse(size=PHONE)
        browser.sign_in(TOKEN)
        browser.sees("Overview", "h1")
        browser.press("New query")
        browser.fill("What do you look for", "incident AND overlay")
        browser.choose("Where, besides here", "A webhook")
        browser.fill("Webhook", f"{received.url}/hook")
        browser.fill("Name", "Incidents")
        browser.press("Save")
        browser.sees("The webhook’s secret, shown this once:")
        assert browser.text(".secret code").startswith("whsec_")
        browser.press("More")
        browser.press("Channels")
        assert browser.overflow() <= 0
        browser.press("Send a test Incidents")
        browser.sees("The test was taken by")
        (path, _, body) = received.taken[0]
        assert (path, body["type"]) == ("/hook", "test")
        assert browser.complaints() == []


def test_a_threshold_is_drawn_to_where_it_finds_what_is_meant(browse, picture):
    browser = browse(size=DESKTOP)
    browser.sign_in(TOKEN)
    browser.sees("Overview", "h1")
    browser.open("/editor")
    assert not browser.driver.find_element("id", "alike").is_displayed()
    browser.fill("What do you look for", 'abstract ~ "churn in peer networks" >= 0.10')
    browser.press("Preview")
    browser.sees("It would have found", "#trial h2")
    many = found(browser)
    browser.driver.execute_script(
        "const one = document.getElementById('threshold'); one.value = '0.2';"
        "one.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert browser.field("What do you look for").get_attribute("value") == 'abstract ~ "churn in peer networks" >= 0.20'
    browser.wait(lambda: found(browser) < many)
    picture(browser, "desktop-threshold")
    assert browser.complaints() == []


def found(browser) -> int:
    number = re.search(r"found ([\d,]+) doc", browser.text("#trial h2"))
    assert number
    return int(number[1].replace(",", ""))
