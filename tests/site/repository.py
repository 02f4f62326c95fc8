"""An OAI-PMH repository for tests: resumption tokens, deleted records, errors and slow answers (OAI-PMH 2.0)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from tests.site.source_server import Reply

SECONDS, DAYS = "YYYY-MM-DDThh:mm:ssZ", "YYYY-MM-DD"


@dataclass
class Kept:
    """A record."""

    name: str
    changed: datetime
    title: str
    is_deleted: bool = False


@dataclass
class Repository:
    """Records by name, in the order in which they changed."""

    page: int = 10
    granularity: str = SECONDS
    ahead_seconds: float = 0.0
    records: dict[str, Kept] = field(default_factory=dict)
    asked: list[Mapping[str, str]] = field(default_factory=list)
    fault: Callable[[Mapping[str, str], int], Reply | None] = lambda asked, number: None
    """(question, its number) -> an answer instead of the right one."""
    generation: int = 0
    """Tokens of another one are not known any more."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, name: str, title: str, changed: datetime, is_deleted: bool = False) -> None:
        with self.lock:
            self.records.pop(name, None)
            self.records[name] = Kept(name, changed, title, is_deleted)

    def answer(self, path: str, _headers: Mapping[str, str]) -> Reply:
        """For the server."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        with self.lock:
            self.asked.append(asked)
            wrong = self.fault(asked, len(self.asked))
            if wrong is not None:
                return wrong
            return Reply(self._answer(asked).encode(), headers={"content-type": "text/xml"})

    def _answer(self, asked: Mapping[str, str]) -> str:
        if asked.get("verb") == "Identify":
            return self._said(f"<Identify><granularity>{self.granularity}</granularity></Identify>")
        if asked.get("verb") != "ListRecords":
            return self.error("badVerb")
        if "resumptionToken" in asked:
            generation, since, first = asked["resumptionToken"].split("|")
            if generation != str(self.generation):
                return self.error("badResumptionToken")
        else:
            since, first = asked.get("from", ""), "0"
            if since and (len(since) > 10) != (self.granularity == SECONDS):
                return self.error("badArgument")
        chosen = [one for one in self.records.values() if self._stamp(one.changed) >= since]
        if not chosen:
            return self.error("noRecordsMatch")
        start = int(first)
        shown = "".join(map(self._record, chosen[start : start + self.page]))
        more = start + self.page < len(chosen)
        token = f"{self.generation}|{since}|{start + self.page}" if more else ""
        return self._said(f"<ListRecords>{shown}<resumptionToken>{token}</resumptionToken></ListRecords>")

    def error(self, code: str) -> str:
        return self._said(f'<error code="{code}">said the repository</error>')

    def _said(self, inside: str) -> str:
        now = datetime.fromtimestamp(datetime.now(UTC).timestamp() + self.ahead_seconds, UTC)
        return (
            '<?xml version="1.0"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
            f"<responseDate>{now:%Y-%m-%dT%H:%M:%SZ}</responseDate><request/>{inside}</OAI-PMH>"
        )

    def _record(self, one: Kept) -> str:
        status = ' status="deleted"' if one.is_deleted else ""
        stamp = f"<datestamp>{self._stamp(one.changed)}</datestamp>"
        head = f"<header{status}><identifier>{one.name}</identifier>{stamp}</header>"
        if one.is_deleted:
            return f"<record>{head}</record>"
        return (
            f'<record>{head}<metadata><oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" '
            f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{escape(one.title)}</dc:title>'
            f"<dc:creator>Ann</dc:creator><dc:creator>Bob</dc:creator><dc:identifier>https://example.org/{one.name}"
            "</dc:identifier><dc:date>2004-05-31</dc:date></oai_dc:dc></metadata></record>"
        )

    def _stamp(self, moment: datetime) -> str:
        return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if self.granularity == SECONDS else f"{moment:%Y-%m-%d}"


def filled(count: int, **more: object) -> Repository:
    """With so many records of the past."""
    repository = Repository(**more)  # type: ignore[arg-type]
    for number in range(count):
        moment = datetime.fromtimestamp(1_700_000_000 + number, UTC)
        repository.put(f"oai:x:{number}", f"Paper {number} about subject{number}", moment)
    return repository
