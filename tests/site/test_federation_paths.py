"""Paths of XML across sites, through the distributed automaton: what lxml says of documents of another site."""

from __future__ import annotations

from lxml import etree

from tests.site.federated import sites, until
from tocsin.model import Document
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.site import intake, life
from tocsin.store import documents

PATHS = {
    "any": "//author",
    "below": "/dblp/*/author",
    "value": "//article[year > 1999]",
    "branch": "/dblp/article[author = 'Gray']/year",
    "nobody": "//chapter/cite",
    "attribute": "//article[@key = 'a1']",
}
SPACES = {"m": "urn:metadata"}
XML = [
    "<dblp><article key='a1'><author>Codd</author><year>1970</year></article></dblp>",
    "<dblp><article><author>Gray</author><year>2001</year></article></dblp>",
    "<dblp><book><title>none</title></book></dblp>",
    "<thesis><author>Gray</author></thesis>",
    "<m:dblp xmlns:m='urn:metadata'><m:article/></m:dblp>",
    "<dblp><article key='a1'><year>1999</year></article></dblp>",
    "<other/>",
]
TITLES = ["relations", "transactions old", "books", "relations again", "metadata", "relations third", "other"]


def selects(path: str, xml: str) -> bool:
    return bool(etree.fromstring(xml).xpath(path, namespaces=SPACES))


def test_a_path_hears_what_lxml_finds_wherever_it_is_published(tmp_path):
    with sites(tmp_path, 3) as (home, away, third):
        for name, path in PATHS.items():
            life.create(home.site, home.account, {"id": name, "xpath": path})
        life.create(home.site, home.account, {"id": "spaces", "xpath": "//m:article", "namespaces": SPACES})
        # Both must hold, whichever of them the ring is asked for.
        both = {"words": "title:relations", "wordless": "NOT title:relations"}
        for name, query in both.items():
            life.create(home.site, home.account, {"id": name, "query": query, "xpath": "//author"})
        asked = len(PATHS) + 1 + len(both)
        until(lambda: home.standing() == asked)
        published = [
            {"id": f"d{number}", "title": title, "xml": xml}
            for number, (title, xml) in enumerate(zip(TITLES, XML, strict=True))
        ]
        away.publish(*published[::2], {"id": "plain", "title": "no xml, author"})
        third.publish(*published[1::2])
        home.publish({"id": "own", "title": "relations", "xml": XML[1]})
        every = [*published, {"id": "own", "title": "relations", "xml": XML[1]}]
        expected = {(name, one["id"], 1) for name, path in PATHS.items() for one in every if selects(path, one["xml"])}
        expected |= {("spaces", one["id"], 1) for one in every if selects("//m:article", one["xml"])}
        expected |= {
            (name, one["id"], 1)
            for name, query in both.items()
            for one in every
            if selects("//author", one["xml"])
            and holds(parse(query), Document(one["id"], {"title": (one["title"],)}), Knowledge())
        }
        assert len(expected) > 12
        until(lambda: set(home.told()) >= expected, lambda: expected - set(home.told()))
        assert sorted(home.told()) == sorted(expected)  # each once
        # "d5" has no path that is asked for but the word; "other" and "plain" have nothing, and stayed where they are.
        came = {one for one in ("d2", "d6", "plain") if documents.find(home.site.store, one) is not None}
        assert came == set()
        assert away.told() == third.told() == []

        # A new version is told again; a path that changes is another one; X2: then nothing stays.
        away.publish({"id": "d6", "title": "other", "xml": "<other><author/></other>", "version": 2})
        until(lambda: ("any", "d6", 2) in home.told())
        life.edit(home.site, home.account, "nobody", {"xpath": "//editor"})
        until(
            lambda: (
                "//editor"
                in {part.text for part in home.federation._ask(home.federation._placements.standing).values()}
            )
        )
        until(lambda: home.standing() == asked)
        intake.delete(away.site, away.account, "d6")
        until(lambda: not away.federation._ask(lambda: away.federation._placements.has("d6")))
        away.publish({"id": "d7", "title": "edited", "xml": "<a><editor/></a>"})
        until(lambda: ("nobody", "d7", 1) in home.told())
        for name in (*PATHS, "spaces", *both):
            life.delete(home.site, home.account, name)
        until(lambda: [one.copies() for one in (home, away, third)] == [[], [], []])
        assert len(home.told()) == len(set(home.told()))
