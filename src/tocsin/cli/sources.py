"""`tocsin sources`: the feeds, repositories and folders that a site harvests."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.cli.backup import place_arguments
from tocsin.cli.console import line, say
from tocsin.errors import InputError, SettingError

if TYPE_CHECKING:
    from tocsin.site.accounts import Account
    from tocsin.site.harvest.settings import HarvestSettings
    from tocsin.store import Store
    from tocsin.store.sources import Source

NAME = "sources"
HELP = "add and look after the feeds, repositories and folders that a site harvests"
DESCRIPTION = """Works on the store of a site, as its administrator; the site may run meanwhile and visits a new source
at once. Prints one line of JSON for each source, with its health: when it was last visited, and why that failed."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its subcommands and their options."""
    actions = command.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")

    def action(name: str, help: str) -> argparse.ArgumentParser:
        found = actions.add_parser(name, help=help, description=help[:1].upper() + help[1:] + ".")
        place_arguments(found)
        return found

    add = action("add", "add a feed, an OAI-PMH repository or a folder")
    add.add_argument("address", metavar="ADDRESS", help="its http(s) address, or the path of a folder")
    add.add_argument("--kind", choices=("feed", "oai", "folder"), help="what it is (default: a folder or a feed)")
    add.add_argument("--set", metavar="SET", help="of a repository: only the records of this set")
    add.add_argument("--from", metavar="DATE", dest="since", help="of a repository: only what changed since then")
    action("list", "print all sources and their health")
    change = action("change", "change a source's name, tags, interval or address")
    change.add_argument("--address", metavar="ADDRESS", help="where it has moved to")
    for one in (add, change):
        one.add_argument("--name", metavar="NAME", help="what documents say they come from (default: its host)")
        one.add_argument("--tag", metavar="TAG", action="append", help="a tag; may be repeated")
        one.add_argument("--interval", metavar="SECONDS", type=float, help="between two visits")
    pause = action("pause", "stop visiting a source")
    resume = action("resume", "visit a paused source again")
    remove = action("remove", "forget a source; its documents stay")
    for one in (change, pause, resume, remove):
        one.add_argument("number", metavar="NUMBER", type=int, help="the source, as `sources list` numbers it")
    bring = action("import", "add the feeds of an OPML file")
    bring.add_argument("file", metavar="FILE", help="the OPML file; - for standard input")
    action("export", "print the feeds as OPML")
    for one in (add, change, bring):
        private_argument(one)


def private_argument(command: argparse.ArgumentParser) -> None:
    """--allow-private."""
    command.add_argument(
        "--allow-private", action="store_true", help="allow addresses in the site's own network, such as 127.0.0.1"
    )


@contextmanager
def opened(given: argparse.Namespace) -> Iterator[tuple[Store, HarvestSettings, Account]]:
    """The store, the settings, and the administrator, whom the owner of the store is."""
    # Tables are known before the store is opened, so that a new one has them.
    from tocsin.site.accounts import ADMIN, Account, Role
    from tocsin.site.harvest.settings import HarvestSettings
    from tocsin.store import Store

    store = Store(given.store or given.data, create=False)
    settings = HarvestSettings(harvest_allows_private=bool(getattr(given, "allow_private", False)))
    try:
        yield store, settings, Account(ADMIN, Role.ADMIN)
    finally:
        store.close()


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if something is refused."""
    from tocsin.site.harvest import sources

    with opened(given) as (store, settings, account):
        match given.action:
            case "list":
                _list(store, account)
            case "add":
                _show(sources.add(store, settings, account, _body(given)), account)
            case "change":
                body = _described(given) | ({"address": given.address} if given.address else {})
                if not body:
                    raise SettingError("nothing to change: give --name, --tag, --interval or --address")
                _show(sources.change(store, settings, account, given.number, body), account)
            case "pause" | "resume":
                state = {"state": "paused" if given.action == "pause" else "active"}
                _show(sources.change(store, settings, account, given.number, state), account)
            case "remove":
                sources.remove(store, account, given.number)
            case "import":
                return _import(store, settings, account, given.file)
            case _:
                sys.stdout.write(sources.export_opml(store, account).decode())
    return 0


def _list(store: Store, account: Account) -> None:
    from tocsin.site.harvest import sources

    after = 0
    while page := sources.listed(store, after):
        for source in page:
            _show(source, account)
        after = page[-1].number


def _show(source: Source, account: Account) -> None:
    from tocsin.site.harvest import sources

    print(line(sources.as_json(source, account)))


def _described(given: argparse.Namespace) -> dict[str, Any]:
    found = {"name": given.name, "tags": given.tag, "interval": given.interval}
    return {key: value for key, value in found.items() if value is not None}


def _body(given: argparse.Namespace) -> dict[str, Any]:
    is_folder = "://" not in given.address and Path(given.address).is_dir()
    kind = given.kind or ("folder" if is_folder else "feed")
    address = str(Path(given.address).absolute()) if kind == "folder" else given.address
    oai = {key: value for key, value in (("set", given.set), ("from", given.since)) if value is not None}
    if oai and kind != "oai":
        raise SettingError("--set and --from belong to --kind oai")
    return {"address": address, "kind": kind, **oai, **_described(given)}


def _import(store: Store, settings: HarvestSettings, account: Account, file: str) -> int:
    from tocsin.site.harvest import sources

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    result = sources.import_opml(store, settings, account, data)
    for source in result.added:
        _show(source, account)
    for name, problem in result.refused:
        say(f"rejected: {name}: {problem.message}")
    if result.repeated:
        say(f"{result.repeated:,} were there already")
    return 1 if result.refused else 0
