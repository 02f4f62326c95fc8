"""Calls that wait for somebody else's server: test sends, and the mail that asks a mailbox.

They have a few threads of their own. Every other call needs one of those that all calls share, if only to learn whose
token it is: so nobody can hold these by naming places that answer slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

THREADS = 4  # each may start a process that sends
NAME = "tocsin-sending"

P = ParamSpec("P")
T = TypeVar("T")

_threads = ThreadPoolExecutor(THREADS, NAME)


async def run_sending(do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As starlette's run_in_threadpool, in the threads for sending."""
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(do, *args, **kwargs))
