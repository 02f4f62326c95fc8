"""`tocsin notifications`: what a site has found for an account, now or as it comes."""

from __future__ import annotations

import argparse
import time

from tocsin.cli.console import line, say
from tocsin.cli.remote import Remote, decoded, positive, site_arguments

NAME = "notifications"
HELP = "print what a running site has found for an account"
DESCRIPTION = """Prints a line {"cursor", "subscription", "document", "version", "score", "evidence"} for each
notification of the account, in order. To go on later, give the last cursor to --after."""

PAGE = 1_000
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 0.5, 30.0


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument("--after", metavar="CURSOR", help="only those after this one")
    command.add_argument("--limit", metavar="N", type=positive, help="at most N (default: all)")
    command.add_argument("--follow", action="store_true", help="wait for further ones, until it is stopped")
    site_arguments(command)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if the site refuses."""
    with Remote(given) as site:
        if given.follow:
            return _follow(site, given.after, given.limit)
        after, left = given.after, given.limit
        while left is None or left > 0:
            page = site.call("GET", "notifications", after=after, limit=min(PAGE, left or PAGE))
            for item in page["items"]:
                print(line(item), flush=False)
            if not page["items"]:
                break
            after = page["next"]
            left = None if left is None else left - len(page["items"])
    return 0


def _follow(site: Remote, after: str | None, left: int | None) -> int:
    """Each one once, however often the connection breaks: the next begins after the last that was printed."""
    pause = AGAIN_SECONDS
    while True:
        try:
            for id, data in site.events("stream", after):
                print(line(decoded(data)), flush=True)
                after, pause = id, AGAIN_SECONDS
                if left is not None:
                    left -= 1
                    if left <= 0:
                        return 0
        except ConnectionError as error:
            say(f"the connection broke ({error}); trying again in {pause:g} s")
        time.sleep(pause)
        pause = min(2 * pause, AGAIN_SECONDS_MAX)
