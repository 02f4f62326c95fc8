"""Sends one message through Apprise, in a process of its own that connects to the open network only.

Apprise's services make their connections by themselves, so the guard stands where every connection begins: at the
socket, which is told an address, not a name. Nothing here is logged; what fails is told without the address.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import format_datetime
from ipaddress import ip_address
from typing import Any

import apprise
from apprise.plugins.email.base import NotifyEmail
from apprise.plugins.email.smtp import AppriseSMTPController

from tocsin.site.addresses import is_open
from tocsin.site.harvest.apart import serve

log = logging.getLogger("apprise")


class Refused(OSError):
    """The address is not in the open network."""


def guard() -> None:
    """From now on this process connects to addresses of the open network only."""
    connect, connect_ex, sendto = socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto

    def checked(do: Callable[..., Any], at: int) -> Callable[..., Any]:
        def guarded(self: socket.socket, *given: Any) -> Any:
            _check(self.family, given[at])
            return do(self, *given)

        return guarded

    for name, do, at in (("connect", connect, 0), ("connect_ex", connect_ex, 0), ("sendto", sendto, -1)):
        setattr(socket.socket, name, checked(do, at))


def _check(family: int, address: Any) -> None:
    if family not in (socket.AF_INET, socket.AF_INET6):
        raise Refused("no connection within this machine")
    try:
        found = ip_address(address[0])
    except ValueError:
        raise Refused("an address is needed, not a name") from None
    if not is_open(found):
        raise Refused("the address is not in the open network")


class _Heard(logging.Handler):
    """Remembers what Apprise says of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def send(request: dict[str, Any], _data: bytes) -> dict[str, Any]:
    """`{"sent": true}`, or `{"sent": false, "why": …}`."""
    heard = _Heard()
    log.handlers = [heard]
    log.propagate = False
    log.setLevel(logging.WARNING)
    try:
        plugin = apprise.Apprise.instantiate(request["url"], asset=_asset())
        if plugin is None:
            return {"sent": False, "why": "Apprise cannot read the address"}
        if isinstance(plugin, NotifyEmail):
            sent = _send_mail(plugin, request)
        else:
            sent = bool(plugin.notify(body=request["text"], title=request["subject"], body_format="text"))
    except OSError as error:
        heard.said.append(str(error))
        sent = False
    return {"sent": True} if sent else {"sent": False, "why": _why(heard.said, request["url"])}


def _asset() -> apprise.AppriseAsset:
    return apprise.AppriseAsset(
        app_id="Tocsin", app_desc="Tocsin", app_url="", secure_logging=True, http_redirects=False, storage_mode="memory"
    )


def _send_mail(plugin: NotifyEmail, request: dict[str, Any]) -> bool:
    """Apprise knows the server; the message is ours, with both forms and an id that a repeat keeps."""
    from datetime import UTC, datetime

    name, sender = (str(part or "") for part in plugin.from_addr)
    with AppriseSMTPController(
        host=plugin.smtp_host,
        port=plugin.port or 25,
        secure_mode=plugin.secure_mode or "insecure",
        user=plugin.user,
        password=plugin.password,
        verify_certificate=plugin.verify_certificate,
        socket_connect_timeout=plugin.socket_connect_timeout,
    ) as server:
        is_sent = bool(plugin.targets)
        for _, to in plugin.targets:
            message = EmailMessage()
            message["Subject"] = request["subject"]
            message["From"] = f"{name} <{sender}>" if name else sender
            message["To"] = to
            message["Date"] = format_datetime(datetime.now(UTC))
            message["Message-ID"] = f"<{request['id']}@{sender.rpartition('@')[2] or 'tocsin'}>"
            message["Auto-Submitted"] = "auto-generated"
            if request.get("unsubscribe"):
                message["List-Unsubscribe"] = f"<{request['unsubscribe']}>"
                message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
            message.set_content(request["text"])
            message.add_alternative(request["html"], subtype="html")
            is_sent = bool(server.sendmail(sender, [to], message.as_string())) and is_sent
    return is_sent


def _why(said: list[str], url: str) -> str:
    """The last that was said, without any part of the address that could be secret."""
    text = " ".join(" ".join(said[-2:]).split()) or "it was not taken"
    secrets = {part for part in re.split(r"[/?&=#:@]+", url) if len(part) >= 4}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "…")
    return text[:300]


if __name__ == "__main__":
    import sys

    if sys.argv[2:] != ["private"]:
        guard()
    serve(send)
