"""One call of a page: who calls, what was sent, and how it is answered.

Everything that protects a page happens here, by what its row in the table says, before its handler runs: the session,
the role, the form's seal. A handler is a plain function from a View to a Response.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tocsin.errors import TocsinError
from tocsin.site.accounts import Account, Right
from tocsin.site.site import Site
from tocsin.web.answers import Refusal, refusal_of
from tocsin.web.bodies import chunks, whole
from tocsin.web.pages.render import NOBODY, html
from tocsin.web.pages.session import BEFORE, COOKIE, Session, Sessions, drop_cookie
from tocsin.web.pages.tally import Tally
from tocsin.web.sending import run_sending

SIGN_IN = "/sign-in"
FORM_BYTES_MAX, FORM_FIELDS_MAX = 1 << 20, 100
FORM_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Page:
    """One row of the table of pages."""

    method: str
    path: str
    handler: Callable[[View], Response]
    right: Right | None = Right.SUBSCRIBE
    """What the account must be allowed to; None: it needs no session."""
    is_file: bool = False
    """The same for everybody."""
    form_bytes_max: int = FORM_BYTES_MAX
    is_sending: Callable[[View], bool] | None = None
    """Does the handler wait for somebody else's server? Then it gets a thread for that."""


@dataclass(slots=True)
class View:
    """What a handler gets."""

    request: Request
    site: Site
    sessions: Sessions
    tally: Tally
    account: Account | None
    session: Session | None
    cookie: str
    form: dict[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> Account:
        """The account that is signed in; of a page that needs a session."""
        assert self.account is not None
        return self.account

    @property
    def seal(self) -> str:
        """What this page's forms carry."""
        return self.sessions.seal(self.cookie)

    def asked(self, name: str, default: str = "") -> str:
        """A parameter of the address."""
        return _clean(self.request.query_params.get(name, default))

    def given(self, name: str) -> str:
        """A field of the form, without spaces at its ends; "" if it is not there."""
        return self.form.get(name, "").strip()

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page from its template."""
        return html(template, status, {**self.common(), **values})

    def common(self) -> dict[str, Any]:
        """What every template may use."""
        return {
            "account": self.account,
            "may_administer": self.account is not None and self.account.may(Right.ADMINISTER),
            "seal": self.seal,
            "path": self.request.url.path,
            "note": self.asked("note"),
        }

    def go(self, path: str, **parameters: str) -> Response:
        """To another page, after a form was taken."""
        return RedirectResponse(address(path, **parameters), 303)


def address(path: str, **parameters: str) -> str:
    """A page's address with parameters."""
    return path + ("?" + urlencode(parameters) if parameters else "")


def local(path: str) -> str:
    """An address on this site; anything else becomes the overview."""
    is_local = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if is_local else "/"


async def answer(page: Page, request: Request) -> Response:
    """Answers a call of the page, or says why not."""
    try:
        view = await _view(page, request)
        if isinstance(view, Response):
            return view
        try:
            run = run_sending if page.is_sending is not None and page.is_sending(view) else run_in_threadpool
            return await run(page.handler, view)
        except TocsinError as error:
            return failed(view, refusal_of(error))
        except Refusal as refusal:
            return failed(view, refusal)
    except Refusal as refusal:
        return failed(None, refusal)


async def _view(page: Page, request: Request) -> View | Response:
    site: Site = request.app.state.site
    sessions: Sessions = request.app.state.sessions
    id = "" if page.is_file else request.cookies.get(COOKIE, "")
    session = sessions.find(id) if id else None
    account: Account | None = None
    if session is not None:
        account = await run_in_threadpool(site.authenticate, session.token)
        if account is None:
            sessions.end(id)
            session = None
    cookie = id if session is not None else request.cookies.get(BEFORE, "")
    view = View(request, site, sessions, request.app.state.tally, account, session, cookie)
    if page.right is not None and account is None:
        return _to_sign_in(page, request)
    if account is not None:
        site.take(account, "calls")
    if page.method == "POST":
        await _take_form(view, page.form_bytes_max)
    if page.right is not None and account is not None and not account.may(page.right):
        raise Refusal(403, "forbidden", f"this page is for those who may {page.right}")
    return view


def _to_sign_in(page: Page, request: Request) -> Response:
    wants_page = "text/html" in request.headers.get("accept", "")
    if page.method != "GET" or (page.path != "/" and not wants_page):
        raise Refusal(401, "unauthenticated", "your session is over: sign in again")
    if not wants_page:  # a program at the door
        return Refusal(404, "not_found", "pages are for browsers; the calls are listed at /openapi.json").response()
    here = request.url.path + ("?" + request.url.query if request.url.query else "")
    found = RedirectResponse(SIGN_IN if here == "/" else f"{SIGN_IN}?next={quote(here, safe='')}", 303)
    if request.cookies.get(COOKIE):
        drop_cookie(found, COOKIE)
    return found


async def _take_form(view: View, bytes_max: int) -> None:
    """Reads the form, and refuses one that this site did not make for this browser."""
    request = view.request
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise Refusal(415, "unsupported_type", "a page takes forms only")
    raw = await whole(chunks(request, bytes_max, request.app.state.limits))
    try:
        pairs = parse_qsl(
            raw.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, encoding="utf-8", errors="strict"
        )
    except ValueError:
        raise Refusal(400, "bad_form", "this form cannot be read") from None
    view.form = {name: _clean(value) for name, value in pairs}
    # Browsers say where a call comes from; a form of another site is refused even if it knew the seal.
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refusal(403, "forged", "this form came from another site")
    if not view.sessions.is_ours(view.cookie, view.form.get("seal", "")):
        raise Refusal(403, "forged", "this form is not from here, or is too old: open the page again, then send it")


def _clean(text: str) -> str:
    """Line breaks as everybody else writes them, and nothing that no store can hold."""
    return text.replace("\r\n", "\n").replace("\0", "").encode("utf-8", "replace").decode()


def failed(view: View | None, refusal: Refusal) -> Response:
    """A page that says what went wrong."""
    common = view.common() if view is not None else NOBODY
    found = html("problem.html", refusal.status, {**common, "status": refusal.status, "message": refusal.message})
    found.headers.update(refusal.headers)
    return found
