"""Dublin Core records become documents (P2P-DIET §2)."""

from __future__ import annotations

import pytest

from tocsin import DocumentError, Knowledge, holds, parse
from tocsin.dublin_core import document_from_dublin_core, documents_from_dublin_core_xml

RECORD = b"""<?xml version="1.0"?>
<records xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/">
  <oai_dc:dc><dc:title>Information dissemination in P2P systems</dc:title><dc:creator>John Smith</dc:creator>
    <dc:creator>Tom Fox</dc:creator><dc:date>2004-03-01</dc:date><dc:identifier>doi:1</dc:identifier></oai_dc:dc>
  <oai_dc:dc><dc:title>Grids</dc:title><dc:identifier>doi:2</dc:identifier></oai_dc:dc>
</records>"""


@pytest.mark.row("P1")
def test_records_in_xml_are_imported() -> None:
    first, second = documents_from_dublin_core_xml(RECORD)
    assert (first.id, first.time, second.id) == ("doi:1", "2004-03-01", "doi:2")
    query = 'dc.creator = "Tom Fox" AND dc.title:(information NEAR[0,0] dissemination) AND time < 2005-01-01'
    assert holds(parse(query), first, Knowledge())
    assert not holds(parse(query), second, Knowledge())


@pytest.mark.row("P1")
def test_an_attribute_given_twice_is_refused() -> None:
    with pytest.raises(DocumentError, match="twice"):
        document_from_dublin_core({"title": "a", "dc:title": "b", "identifier": "1"})


def test_what_is_no_dublin_core_is_refused_with_its_reason() -> None:
    with pytest.raises(DocumentError, match="no Dublin Core element"):
        document_from_dublin_core({"identifier": "1", "colour": "red"})
    with pytest.raises(DocumentError, match="identifier"):
        document_from_dublin_core({"title": "a"})
    with pytest.raises(DocumentError, match="no XML"):
        list(documents_from_dublin_core_xml(b"<a>"))
    with pytest.raises(DocumentError, match="DOCTYPE"):
        list(documents_from_dublin_core_xml(b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'))
