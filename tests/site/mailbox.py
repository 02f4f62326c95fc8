"""A mail server on this machine that keeps what it is given."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default


@dataclass
class Mailbox:
    """What came."""

    port: int = 0
    letters: list[tuple[str, list[str], EmailMessage]] = field(default_factory=list)
    """(from, to, message)."""
    refuses: bool = False


@contextmanager
def receiving_mail() -> Iterator[Mailbox]:
    """A server of RFC 5321's plain commands on a free port."""
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            sender, to = "", list[str]()
            while line := self.rfile.readline().decode().strip():
                word = line.split(":", 1)[0].upper()
                if word == "MAIL FROM":
                    sender, to = line.split(":", 1)[1].strip("<> ").split(">")[0], []
                elif word == "RCPT TO":
                    if box.refuses:
                        self._say("550 nobody of that name")
                        continue
                    to.append(line.split(":", 1)[1].strip("<> "))
                elif word == "DATA":
                    self._say("354 go on")
                    box.letters.append((sender, to, self._letter()))
                elif word == "QUIT":
                    self._say("221 bye")
                    return
                self._say("250 good")

        def _letter(self) -> EmailMessage:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line.removeprefix(b"."))
            found = message_from_bytes(b"".join(lines), policy=default)
            assert isinstance(found, EmailMessage)
            return found

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
