"""OPML: the list of feeds that readers exchange, read and written. Folders of the list become tags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from lxml import etree

from tocsin.site.harvest.feeds import clean, is_web
from tocsin.site.problems import Invalid, TooLarge
from tocsin.store.sources import Source

OPML_BYTES_MAX = 10_485_760
OUTLINES_MAX = 100_000
DEPTH_MAX = 64


class Outline(NamedTuple):
    """One feed of a list."""

    address: str
    name: str
    tags: tuple[str, ...]


def read_opml(data: bytes) -> list[Outline]:
    """The feeds of a list, each address once; Invalid if it is no OPML."""
    if len(data) > OPML_BYTES_MAX:
        raise TooLarge(f"the list has more than {OPML_BYTES_MAX:,} bytes")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise Invalid(f"the list is no XML: {error.msg}"[:300], code="opml") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise Invalid("the list has a DOCTYPE, which is not accepted", code="opml")
    if etree.QName(root).localname.lower() != "opml":
        raise Invalid(f"the list is no OPML but <{etree.QName(root).localname[:60]}>", code="opml")
    found: dict[str, Outline] = {}
    stack: list[tuple[Any, tuple[str, ...]]] = [(child, ()) for child in reversed(root.findall("body/outline"))]
    seen = 0
    while stack:
        element, tags = stack.pop()
        seen += 1
        if seen > OUTLINES_MAX or len(tags) > DEPTH_MAX:
            raise TooLarge(f"the list has more than {OUTLINES_MAX:,} entries, or they are nested too deeply")
        given = {str(name).lower(): clean(str(value)) for name, value in element.attrib.items()}
        name = given.get("title") or given.get("text") or ""
        address = given.get("xmlurl", "")
        if address:
            found.setdefault(address, Outline(address, name or address, tuple(tag[:1_000] for tag in tags)))
        below = tags if address or not name or name in tags else (*tags, name)
        stack += [(child, below) for child in reversed(element.findall("outline"))]
    return list(found.values())


def write_opml(sources: Iterable[Source], title: str = "Tocsin") -> bytes:
    """The feeds among the sources as a list; a feed stands in the folder of its first tag."""
    root = etree.Element("opml", version="2.0")
    etree.SubElement(etree.SubElement(root, "head"), "title").text = valid(title)
    body = etree.SubElement(root, "body")
    folders: dict[str, etree._Element] = {}
    for source in sources:
        if source.kind != "feed" or not is_web(source.address):
            continue
        parent = body
        if source.tags:
            tag = source.tags[0]
            if tag not in folders:
                folders[tag] = etree.SubElement(body, "outline", text=valid(tag), title=valid(tag))
            parent = folders[tag]
        name = valid(source.name)
        etree.SubElement(parent, "outline", type="rss", text=name, title=name, xmlUrl=valid(source.address))
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True))


def valid(text: str) -> str:
    """Without characters that XML 1.0 cannot hold."""
    return "".join(
        c for c in text if c in "\t\n\r" or (" " <= c < "\ud800") or (c >= "\ue000" and c not in "\ufffe\uffff")
    )
