"""`tocsin account`: who may use a running site, for its administrator."""

from __future__ import annotations

import argparse
from typing import Any

from tocsin.cli.console import line, say
from tocsin.cli.remote import Remote, quoted, site_arguments
from tocsin.errors import SettingError

NAME = "account"
HELP = "make and look after the accounts of a running site"
DESCRIPTION = """Makes accounts and tokens, and sets what accounts may use. A token is printed once, when it is made.
`tocsin account show` without a name tells whose token this is."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Its subcommands and their options."""
    actions = command.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")

    def action(name: str, help: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=help, description=help[:1].upper() + help[1:] + ".")

    create = action("create", "make an account and its first token")
    create.add_argument("name", metavar="NAME", help="letters, digits, ., _, - and @")
    create.add_argument(
        "--role", choices=("subscriber", "publisher", "admin"), default="subscriber", help="what it may do"
    )
    show = action("show", "print an account, with the labels of its tokens")
    show.add_argument("name", metavar="NAME", nargs="?", help="the account (default: the one of the token)")
    listing = action("list", "print all accounts")
    change = action("change", "give an account another role or other quotas")
    change.add_argument("name", metavar="NAME", help="the account")
    change.add_argument("--role", choices=("subscriber", "publisher", "admin"), help="what it may do")
    for one in (create, change):
        one.add_argument(
            "--quota", metavar="NAME=N", action="append", default=[], type=_quota,
            help="a quota, such as subscriptions_max=1000; may be repeated",
        )  # fmt: skip
    disable = action("disable", "shut an account out; its subscriptions stay")
    enable = action("enable", "let a disabled account in again")
    token = action("token", "make a further token of an account")
    revoke = action("revoke", "revoke tokens of an account, by their label or mark")
    for one in (disable, enable, token, revoke):
        one.add_argument("name", metavar="NAME", help="the account")
    for one in (create, token, revoke):
        one.add_argument("--label", metavar="LABEL", default=None, help="the token's name among the account's tokens")
    token.add_argument("--expires", metavar="TIME", help="when it ends, such as 2027-01-01T00:00:00Z")
    for one in (create, show, listing, change, disable, enable, token, revoke):
        site_arguments(one)


def _quota(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value) if "." in value else int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=N") from None


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if the site refuses."""
    with Remote(given) as site:
        return _run(site, given)


def _run(site: Remote, given: argparse.Namespace) -> int:
    if given.action == "list":
        after = None
        while True:
            page = site.call("GET", "accounts", after=after, limit=1_000)
            for item in page["items"]:
                print(line(item))
            after = page["next"]
            if after is None:
                return 0
    print(line(_call(site, given)))
    if given.action in ("create", "token"):
        say("the token is shown this once: keep it")
    return 0


def _call(site: Remote, given: argparse.Namespace) -> Any:
    if given.action == "show" and given.name is None:
        return site.call("GET", "account")
    path = f"accounts/{quoted(given.name)}"
    match given.action:
        case "create":
            body: dict[str, Any] = {"name": given.name, "role": given.role, "label": given.label or ""}
            return site.call("POST", "accounts", body | ({"quotas": dict(given.quota)} if given.quota else {}))
        case "show":
            return site.call("GET", path)
        case "change":
            body = ({"role": given.role} if given.role else {}) | ({"quotas": dict(given.quota)} if given.quota else {})
            if not body:
                raise SettingError("nothing to change: give --role or --quota")
            return site.call("PATCH", path, body)
        case "disable" | "enable":
            return site.call("PATCH", path, {"disabled": given.action == "disable"})
        case "token":
            body = {"label": given.label or ""} | ({"expires": given.expires} if given.expires else {})
            return site.call("POST", f"{path}/tokens", body)
        case _:
            if given.label is None:
                raise SettingError("--label is needed: the label or the mark of the tokens, as `account show` tells it")
            return site.call("DELETE", f"{path}/tokens", label=given.label)
