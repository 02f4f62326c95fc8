"""`tocsin publish`: sends documents from files to a running site."""

from __future__ import annotations

import argparse

from tocsin.cli.console import line, progress, say
from tocsin.cli.remote import Remote, positive, site_arguments
from tocsin.files import Rejection, read_documents
from tocsin.intake import document_to_json
from tocsin.settings import DEFAULTS

NAME = "publish"
HELP = "send documents from files to a running site"
DESCRIPTION = """Reads documents (JSON lines, JSON arrays or CSV; plain, gzip or zstd) and sends them to a site, which
stores them before it answers. Prints a line {"accepted", "rejected"} for each part that was sent."""

PART = 10_000  # documents of one call


def arguments(command: argparse.ArgumentParser) -> None:
    """Its options."""
    command.add_argument(
        "-d", "--documents", metavar="DOCS", nargs="+", required=True, help="files or folders; - for standard input"
    )
    command.add_argument(
        "--part", metavar="N", type=positive, default=PART, help=f"documents of one call (default {PART:,})"
    )
    site_arguments(command)


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a document was rejected, here or by the site; the others go through."""
    refused = told = 0
    part: list[bytes] = []
    places: list[str] = []

    def reject(rejection: Rejection) -> None:
        nonlocal refused
        refused += 1
        say(f"rejected: {rejection}")

    def send() -> None:
        """Tells of the part, and of the lines before it that could not even be sent."""
        nonlocal refused, told
        accepted = 0
        if part:
            accepted, by_site = _send(site, part, places)
            refused += by_site
        print(line({"accepted": accepted, "rejected": refused - told}), flush=True)
        told = refused
        part.clear()
        places.clear()

    with Remote(given) as site:
        documents = read_documents(given.documents, DEFAULTS.document, reject, note=say)
        for located in progress(documents, "sending documents"):
            part.append(document_to_json(located.document).encode())
            places.append(f"{located.file}:{located.line}")
            if len(part) >= given.part:
                send()
        if part or refused > told:
            send()
    return 1 if refused else 0


def _send(site: Remote, part: list[bytes], places: list[str]) -> tuple[int, int]:
    """How many the site accepted, and how many it did not."""
    answer = site.send_lines("documents", part).json()
    rejected = answer["rejected"]
    for one in rejected:
        say(f"rejected: {places[one['line'] - 1]}: {one['error']['message']}")
    return answer["accepted"], len(rejected)
