"""Documents over HTTP. Accepted means stored: it will be matched even if the process dies now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from lxml import etree
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin.errors import DocumentError
from tocsin.intake import document_from_object, too_large
from tocsin.markup import read_markup
from tocsin.markup.encodings import to_utf8
from tocsin.model import Document
from tocsin.site import intake
from tocsin.site.intake import Offered
from tocsin.site.problems import Problem, TooFast, problem_of
from tocsin.site.site import Site
from tocsin.store import documents
from tocsin.web.answers import NDJSON, json_answer, not_found, refusal_of
from tocsin.web.bodies import JSON_TYPES, LINE_TYPES, XML_TYPES, Line, batches, content_type, whole
from tocsin.web.caller import Admitted, Caller, TheLimits, TheMetrics, TheSite
from tocsin.web.metrics import Metrics
from tocsin.web.repeats import once
from tocsin.web.routes import BASE
from tocsin.web.schemas import BODY, ERROR, FOUND, answer, answers, bodies, key_parameter, ref

router = APIRouter(prefix=BASE, tags=["documents"], responses=ERROR)

Id = Annotated[str, Path(description="The document's id, percent-encoded, slashes too.", min_length=1)]
DERIVED_START = "xml-"


class Told:
    """What is answered of a call, gathered chunk by chunk."""

    def __init__(self, most: int) -> None:
        self.accepted = self.more = 0
        self.rejected: list[dict[str, Any]] = []
        self._most = most

    def reject(self, line: int, problem: Problem) -> None:
        """A line was refused."""
        if len(self.rejected) >= self._most:
            self.more += 1
        else:
            self.rejected.append({"line": line, "error": refusal_of(problem).body()})

    def answer(self) -> Response:
        """All of it."""
        found: dict[str, Any] = {"accepted": self.accepted, "rejected": self.rejected}
        return json_answer(found | ({"rejected_more": self.more} if self.more else {}), 202)


@router.post(
    "/documents",
    status_code=202,
    summary="Publish documents",
    responses=answers({202: answer(ref("Accepted"), "How many are stored, and which are not, by line.")}, BODY),
    openapi_extra=bodies(
        {"application/json": ref("Document"), NDJSON: {"type": "string"}, "application/xml": {"type": "string"}},
        "One document as JSON, one a line as NDJSON, or one as XML.",
    )
    | key_parameter(),
)
async def publish(
    request: Request,
    *,
    caller: Admitted,
    site: TheSite,
    limits: TheLimits,
    metrics: TheMetrics,
    id: Annotated[
        str | None, Query(description="Of an XML document; without it: its root's id, or one from its content.")
    ] = None,
    source: Annotated[str | None, Query(description="Of an XML document: who published it.")] = None,
    time: Annotated[str | None, Query(description="Of an XML document: RFC 3339.")] = None,
    version: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="Of an XML document.")] = None,
) -> Response:
    """Stores documents; what cannot be stored is named by its line, and the others go through."""
    kind = content_type(request, JSON_TYPES, LINE_TYPES, XML_TYPES)
    about = {"id": id, "source": source, "time": time, "version": version}

    async def do(body: AsyncIterator[bytes], _key: str | None) -> Response:
        told = Told(limits.rejections_max)
        if kind in LINE_TYPES:
            most = site.settings.base.document.document_bytes_max
            async for batch in batches(body, most, limits.chunk_documents_max, limits):
                await run_in_threadpool(_store, site, caller, batch, told)
        else:
            raw = await whole(body)
            one = await run_in_threadpool(_xml, site, raw, about) if kind in XML_TYPES else raw
            await run_in_threadpool(_offer, site, caller, [one], [1], told)
        _count(metrics, told)
        return told.answer()

    most = limits.bulk_bytes_max if kind in LINE_TYPES else limits.body_bytes_max
    return await once(request, site, caller.account.name, do, bytes_max=most, limits=limits)


def _store(site: Site, caller: Caller, batch: list[Line], told: Told) -> None:
    most = site.settings.base.document.document_bytes_max
    problem = problem_of(DocumentError(too_large(most)))
    offered: list[Offered] = [problem if raw is None else raw for _, raw in batch]
    _offer(site, caller, offered, [number for number, _ in batch], told)


def _offer(site: Site, caller: Caller, offered: list[Offered], numbers: list[int], told: Told) -> None:
    try:
        published = intake.publish(site, caller.account, offered)
    except TooFast as too_fast:
        if not told.accepted:
            raise
        for number in numbers:  # what came before is stored: say so, and which lines to send again
            told.reject(number, too_fast)
        return
    told.accepted += published.accepted
    for place, problem in published.rejected:
        told.reject(numbers[place - 1], problem)


def _count(metrics: Metrics, told: Told) -> None:
    metrics.documents.add(told.accepted, result="accepted")
    metrics.documents.add(len(told.rejected) + told.more, result="rejected")


def _xml(site: Site, raw: bytes, about: dict[str, Any]) -> Document | Problem:
    """An XML document: bytes in the encoding that they declare become text that needs none."""
    try:
        data = to_utf8(raw, site.settings.base.markup)
        read_markup(data.decode(), site.settings.base.markup)
        given = {key: value for key, value in about.items() if value is not None}
        given.setdefault("id", _root_id(data) or DERIVED_START + blake2b(data, digest_size=16).hexdigest())
        return document_from_object(given | {"xml": data.decode()}, site.settings.base.document)
    except UnicodeDecodeError as error:
        return problem_of(DocumentError(f"the bytes are not UTF-8 at byte {error.start}: declare their encoding"))
    except DocumentError as error:
        return problem_of(error)


def _root_id(data: bytes) -> str | None:
    """What the root element calls itself: its attribute `id` or `xml:id`. The document was read before: it is safe."""
    parser = etree.XMLPullParser(events=("start",), resolve_entities=False, no_network=True, load_dtd=False)
    for start in range(0, len(data), 1 << 16):
        parser.feed(data[start : start + (1 << 16)])
        for _, root in parser.read_events():
            return root.get("id") or root.get("{http://www.w3.org/XML/1998/namespace}id") or None
    return None


@router.get(
    "/documents/{id:path}",
    summary="A document",
    responses=answers({200: answer(ref("Document"), "As it was published.")}, FOUND),
)
async def get_document(
    id: Id,
    caller: Admitted,
    site: TheSite,
    version: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="Default: the current one.")] = None,
) -> Response:
    """The document of this id: its current version, or the one that is asked for."""
    found = None if "\0" in id else await run_in_threadpool(documents.find, site.store, id, version)
    if found is None:
        raise not_found("document", id)
    return Response(found.body.encode(), media_type="application/json")


@router.delete(
    "/documents/{id:path}",
    status_code=202,
    summary="Delete a document",
    responses=answers({202: answer(ref("Accepted"), "What was accepted is matched all the same.")}, FOUND),
)
async def delete_document(id: Id, caller: Admitted, site: TheSite) -> Response:
    """Deletes it, all versions. A higher version brings it back."""
    if "\0" in id:
        raise not_found("document", id)
    await run_in_threadpool(intake.delete, site, caller.account, id)
    return json_answer({"accepted": 1, "rejected": []}, 202)
