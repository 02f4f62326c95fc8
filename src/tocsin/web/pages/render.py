"""Templates to HTML: everything that is put into one is escaped, and nothing but this site's own files is loaded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
STATIC = {"tocsin.css": "text/css", "tocsin.js": "text/javascript", "icon.svg": "image/svg+xml"}
STATIC_SECONDS = 31_536_000  # a file's address changes with its content
MINUTE, HOUR, DAY = 60, 3_600, 86_400
ROLES = {"admin": "administrator"}
NOBODY: Mapping[str, Any] = {"account": None, "may_administer": False, "seal": "", "path": "", "note": ""}
"""What every template may use, for somebody who is not signed in."""


@lru_cache(maxsize=len(STATIC))
def static(name: str) -> tuple[bytes, str]:
    """A file that pages load, and the mark of its content."""
    raw = files("tocsin.web.pages").joinpath("static", name).read_bytes()
    return raw, blake2b(raw, digest_size=6).hexdigest()


def static_address(name: str) -> str:
    """Where a page finds the file, as it is now."""
    return f"/static/{name}?{static(name)[1]}"


def ago(moment: float | None, now: float | None = None) -> str:
    """How long ago, or how long until, as people say it."""
    if moment is None:
        return "never"
    seconds = (time.time() if now is None else now) - moment
    size = abs(seconds)
    if size < 45:
        return "just now" if seconds >= 0 else "in a moment"
    for unit, name, most in ((MINUTE, "min", 60), (HOUR, "h", 36), (DAY, "d", 45)):
        count = round(size / unit)
        if count < most:
            return f"{count} {name} ago" if seconds > 0 else f"in {count} {name}"
    return datetime.fromtimestamp(moment, UTC).strftime("%-d %b %Y")


def clock(moment: float) -> str:
    """A moment in full, in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def stamped(moment: float) -> str:
    """A moment for machines."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def number(value: float) -> str:
    """A number with its thousands apart; a small one with what is behind the point."""
    if value and abs(value) < 10 and value != int(value):
        return f"{value:.1f}" if abs(value) >= 0.1 else "< 0.1"
    return f"{round(value):,}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """1 document, 2 documents."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def role(value: object) -> str:
    """What an account is, in a word that people know."""
    return ROLES.get(str(value), str(value))


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tocsin.web.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"ago": ago, "clock": clock, "stamped": stamped, "number": number, "plural": plural}
    made.filters |= {"role": role}
    made.globals |= {"static": static_address}
    return made


_templates = _environment()


def html(template: str, status: int, values: Mapping[str, Any]) -> Response:
    """A page."""
    text = _templates.get_template(template).render(values)
    return Response(text.encode("utf-8", "replace"), status, dict(HEADERS), media_type="text/html")
