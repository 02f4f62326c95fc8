"""Dublin Core to documents: P2P-DIET §2 describes resources by attributes from namespaces such as this one.

An element `dc:title` becomes the field `dc.title`; elements may repeat, so fields are lists. The first
identifier is the document's id, a date that is one its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lxml import etree

from tocsin import dates
from tocsin.errors import DocumentError
from tocsin.intake import document_from_object
from tocsin.model import Document
from tocsin.settings import DEFAULTS, DocumentLimits

ELEMENTS = frozenset(
    "contributor coverage creator date description format identifier language publisher relation rights source "
    "subject title type".split()
)
NAMESPACES = ("http://purl.org/dc/elements/1.1/", "http://purl.org/dc/terms/")


def document_from_dublin_core(
    record: Mapping[str, str | Sequence[str]], limits: DocumentLimits = DEFAULTS.document
) -> Document:
    """A record with keys such as `title` or `dc:title`; DocumentError if it has no identifier or another key."""
    fields: dict[str, object] = {}
    for key, value in record.items():
        name = key.removeprefix("dc:").removeprefix("dc.")
        if name not in ELEMENTS:
            raise DocumentError(f"{key!r} is no Dublin Core element: one of {', '.join(sorted(ELEMENTS))}")
        if f"dc.{name}" in fields:
            raise DocumentError(f"the element {name!r} is given twice: write its values as one list")
        fields[f"dc.{name}"] = [value] if isinstance(value, str) else list(value)
    identifiers = fields.get("dc.identifier")
    if not isinstance(identifiers, list) or not identifiers:
        raise DocumentError("there is no dc:identifier: it becomes the document's id")
    moments = [value for value in _texts(fields.get("dc.date")) if dates.span(value)]
    return document_from_object({"id": identifiers[0], **fields, "time": moments[0] if moments else None}, limits)


def documents_from_dublin_core_xml(data: bytes, limits: DocumentLimits = DEFAULTS.document) -> Iterator[Document]:
    """Every element that has Dublin Core children is a record (`oai_dc:dc`, RDF, plain wrappers)."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise DocumentError(f"this is no XML: {error.msg}") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise DocumentError("a DOCTYPE is not accepted: leave it out")
    for element in root.iter():
        record: dict[str, list[str]] = {}
        for child in element:
            name = etree.QName(child) if isinstance(child.tag, str) else None
            if name is not None and name.namespace in NAMESPACES and name.localname in ELEMENTS:
                record.setdefault(name.localname, []).append("".join(map(str, child.itertext())).strip())
        if record:
            yield document_from_dublin_core(record, limits)


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
