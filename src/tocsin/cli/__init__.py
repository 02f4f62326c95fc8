"""The command line: builds everything, owns nothing.

Data goes to standard output, messages to standard error. Exit status: 0 done, 1 some input was
rejected or a check failed, 2 usage.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

from tocsin.cli import (
    account,
    audit,
    backup,
    explain,
    harvest,
    lab,
    match,
    node,
    notifications,
    preview,
    publish,
    restore,
    search,
    sources,
    subscribe,
    tour,
    up,
    view,
)
from tocsin.cli.console import say
from tocsin.errors import InputError, QueryError, SettingError, TocsinError

COMMANDS = (
    *(match, search, explain, view),
    *(up, subscribe, publish, preview, notifications, sources, harvest, account, audit, backup, restore),
    *(node, lab, tour),
)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="tocsin", description="Standing queries over streams of documents: write a query once, be told of matches."
    )
    commands = top.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.DESCRIPTION)
        module.arguments(command)
        command.set_defaults(run=module.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    given = parser().parse_args(arguments)
    try:
        status: int = given.run(given)
        sys.stdout.flush()  # what cannot be written is told here, not by the interpreter as it ends
    except QueryError as error:
        say(f"tocsin {given.command}: {error}")
        return 1
    except (SettingError, InputError) as error:
        say(f"tocsin {given.command}: {error}")
        return 2
    except TocsinError as error:
        say(f"tocsin {given.command}: {error}")
        return 1
    except KeyboardInterrupt:
        say(f"tocsin {given.command}: stopped")
        return 130
    except BrokenPipeError:
        # Whoever reads our output has seen enough; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        say(f"tocsin {given.command}: {error.filename or 'standard output'} cannot be written: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
