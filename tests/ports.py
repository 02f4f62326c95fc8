"""Ports for servers that tests start as processes of their own, and so must choose before somebody listens there."""

from __future__ import annotations

import os
import socket
from itertools import count

FIRST, OF_A_PROCESS, PROCESSES = 12_000, 1_250, 16
"""Below the ports that the operating system lends to whoever connects; each process of the tests has its own."""
_next = count(os.getpid())


def free_port() -> int:
    """A port that nobody uses now, and nobody else is told of soon."""
    mine = FIRST + OF_A_PROCESS * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % PROCESSES)
    while True:
        port = mine + next(_next) % OF_A_PROCESS
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
