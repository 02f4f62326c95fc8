"""An Atom feed (RFC 4287) of what an account's subscriptions found, under an address that is secret."""

from __future__ import annotations

from hashlib import blake2b

from lxml import etree

from tocsin.site.channels import links
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.channels.telling import Telling, telling_of
from tocsin.site.harvest.opml import valid
from tocsin.site.moments import stamp
from tocsin.store import Store, channels
from tocsin.store.channels import AtomFeed

ATOM = "http://www.w3.org/2005/Atom"
TYPE = "application/atom+xml; charset=utf-8"
TEXT_CHARACTERS_MAX = 10_000


def feed_text(store: Store, settings: ChannelSettings, secret: str) -> bytes:
    """The feed with this secret; NotFound."""
    return render(store, settings, links.find_feed(store, secret))


def render(store: Store, settings: ChannelSettings, feed: AtomFeed) -> bytes:
    """A feed as it is now, the newest first."""
    root = etree.Element(f"{{{ATOM}}}feed", nsmap={None: ATOM})
    found = channels.newest(store, feed, settings.atom_items_max)
    _put(root, "id", f"urn:tocsin:{store.id}:feed:{feed.mark.hex()}")
    what = feed.subscription or (f"tag {feed.tag}" if feed.tag else "all subscriptions")
    names = channels.about_of(store, feed.account, sorted({one.subscription for one in found}))
    _put(root, "title", f"Tocsin: {names.get(what, {}).get('name') or what}")
    _put(root, "updated", stamp(max((one.made for one in found), default=feed.created)) or "")
    _put(etree.SubElement(root, f"{{{ATOM}}}author"), "name", "Tocsin")
    if settings.public_url is not None:
        address = links.feed_link(store, settings, feed)
        etree.SubElement(root, f"{{{ATOM}}}link", rel="self", type="application/atom+xml", href=valid(address))
    for one in found:
        name = str(names.get(one.subscription, {}).get("name") or one.subscription)
        told = [store.id, feed.account, one.subscription, one.document, str(one.version)]
        _entry(root, telling_of(store, one), name, _urn(told))
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8"))


def _urn(parts: list[str]) -> str:
    return f"urn:tocsin:{blake2b(chr(0).join(parts).encode(), digest_size=16).hexdigest()}"


def _entry(root: etree._Element, one: Telling, subscription: str, urn: str) -> None:
    entry = etree.SubElement(root, f"{{{ATOM}}}entry")
    _put(entry, "id", urn)
    _put(entry, "title", one.title)
    _put(entry, "updated", stamp(one.made) or "")
    if one.link is not None:
        etree.SubElement(entry, f"{{{ATOM}}}link", rel="alternate", href=valid(one.link))
    if one.source:
        _put(etree.SubElement(entry, f"{{{ATOM}}}author"), "name", one.source)
    etree.SubElement(entry, f"{{{ATOM}}}category", term=valid(subscription))
    # Without a link an entry must have a content (RFC 4287 §4.1.2); it is text, so nothing in it is markup.
    _put(entry, "content", one.text[:TEXT_CHARACTERS_MAX], type="text")


def _put(parent: etree._Element, name: str, text: str, **attributes: str) -> None:
    etree.SubElement(parent, f"{{{ATOM}}}{name}", **attributes).text = valid(text)
