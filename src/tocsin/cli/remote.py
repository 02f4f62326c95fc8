"""Calls of a running site, for the commands that need one: where it is, with which token, and what it answers.

The token comes from TOCSIN_TOKEN or from a file, never from the command line, which other users of the machine
can see and shells remember.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tocsin.errors import InputError, SettingError, TocsinError

URL = "http://127.0.0.1:8047"
SECONDS_MAX = 60.0
NDJSON = "application/x-ndjson"


class RemoteError(TocsinError):
    """The site refused a call, or cannot be reached."""


def site_arguments(command: argparse.ArgumentParser) -> None:
    """--url and --token-file."""
    command.add_argument(
        "--url", metavar="URL", help=f"where the site is (default: the environment's TOCSIN_URL, or {URL})"
    )
    command.add_argument(
        "--token-file", metavar="FILE", help="a file with the account's token (default: the environment's TOCSIN_TOKEN)"
    )


def positive(text: str) -> int:
    """A number from 1 on."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return number


def token_of(given: argparse.Namespace) -> str:
    """The token, from where it was put."""
    if given.token_file:
        try:
            token = Path(given.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{given.token_file} cannot be read: {getattr(error, 'strerror', None) or error}"
            ) from None
    else:
        token = os.environ.get("TOCSIN_TOKEN", "").strip()
    if not token:
        raise SettingError("a token is needed: set TOCSIN_TOKEN, or name a file that holds it by --token-file")
    if not token.isascii() or not token.isprintable():
        raise SettingError("this is no token: it is one line of letters, digits, _ and -")
    return token


class Remote:
    """A site at a URL, called with an account's token."""

    def __init__(self, given: argparse.Namespace) -> None:
        url = (given.url or os.environ.get("TOCSIN_URL") or URL).rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise SettingError(f"--url {url!r} is no address such as {URL}")
        self.url = url
        headers = {"Authorization": f"Bearer {token_of(given)}"}
        timeout = httpx.Timeout(SECONDS_MAX, read=None)
        self._client = httpx.Client(base_url=f"{url}/api/v1/", headers=headers, timeout=timeout)

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        content: Any = None,
        headers: dict[str, str] | None = None,
        **parameters: str | int | None,
    ) -> Any:
        """One call; its JSON, or RemoteError with what the site said."""
        asked = {name: value for name, value in parameters.items() if value is not None}
        answer = self._sent(lambda: self._client.request(method, path, json=content, params=asked, headers=headers))
        return answer.json() if answer.content else None

    def send_lines(self, path: str, lines: Iterable[bytes]) -> httpx.Response:
        """Lines of JSON, streamed as they are read."""
        body = (line + b"\n" for line in lines)
        return self._sent(lambda: self._client.post(path, content=body, headers={"Content-Type": NDJSON}))

    def events(self, path: str, after: str | None) -> Iterator[tuple[str, str]]:
        """(id, data) of server-sent events, until the connection ends."""
        parameters = {"after": after} if after is not None else {}
        quiet = httpx.Timeout(SECONDS_MAX)
        try:
            with self._client.stream("GET", path, params=parameters, timeout=quiet) as answer:
                if answer.status_code != httpx.codes.OK:
                    answer.read()
                    raise _refused(answer)
                id, data = "", list[str]()
                for line in answer.iter_lines():
                    if line.startswith("id:"):
                        id = line[3:].strip()
                    elif line.startswith("data:"):
                        data.append(line[5:].removeprefix(" "))
                    elif not line and data:
                        yield id, "\n".join(data)
                        data.clear()
        except httpx.TransportError as error:
            raise ConnectionError(str(error)) from None

    def _sent(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        try:
            answer = send()
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise RemoteError(f"the site at {self.url} cannot be reached ({reason}): is `tocsin up` running?") from None
        except httpx.InvalidURL as error:
            raise SettingError(f"{self.url} is no address: {error}") from None
        if answer.is_success:
            return answer
        raise _refused(answer)


def _refused(answer: httpx.Response) -> RemoteError:
    try:
        error = answer.json()["error"]
        return RemoteError(f"{error['message']} ({error['code']})")
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"the site answered {answer.status_code} {answer.reason_phrase}: is this a Tocsin site?")


def quoted(id: str) -> str:
    """An id as a part of a path."""
    return quote(id, safe="")


def decoded(line: str) -> Any:
    """A line of an answer."""
    return json.loads(line)
