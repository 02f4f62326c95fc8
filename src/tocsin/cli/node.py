"""`tocsin node`: makes this machine a node of a ring, and shows how it is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tocsin.cli.collection import analysis_argument
from tocsin.cli.console import say
from tocsin.errors import SettingError
from tocsin.net import control
from tocsin.net.host import HostSettings, paced, read_contacts, run_host
from tocsin.net.identity import endpoint
from tocsin.net.limits import DEFAULT_LIMITS, NetLimits
from tocsin.net.superpeers import SuperpeerHostSettings, run_superpeer
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.text import Analysis

NAME = "node"
HELP = "run a node of the overlay, or ask one how it is"
DESCRIPTION = """Nodes of different organisations share queries and documents over a ring. A node's folder holds its
identity and what it keeps; its address, NAME@HOST:PORT, names its key, so that others can check it."""

FOLDER = "tocsin-node"
LISTEN = "127.0.0.1:8048"


def arguments(command: argparse.ArgumentParser) -> None:
    """Its subcommands and their options."""
    actions = command.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    start = actions.add_parser(
        "run", help="found a ring, or go on in the one it was in",
        description="Founds a ring; a node that has been in one finds it again by the nodes that it knew.",
    )  # fmt: skip
    _running(start)
    start.add_argument("--found", action="store_true", help="found a new ring, whatever it was in before")
    join = actions.add_parser(
        "join", help="join a ring", description="Joins the ring of any of the nodes that are named, and stays in it."
    )
    join.add_argument("contacts", nargs="*", metavar="NODE", help="HOST:PORT or NAME@HOST:PORT of a node of the ring")
    join.add_argument("--bootstrap", metavar="FILE", type=Path, help="a file with such nodes, one in each line")
    _running(join)
    _superpeer(actions)
    status = actions.add_parser("status", help="how a node is", description="Shows how the node in a folder is.")
    status.add_argument("--data", metavar="DIR", type=Path, default=Path(FOLDER), help=f"its folder (default {FOLDER})")
    status.add_argument("--json", action="store_true", help="everything, as one line of JSON")


def _superpeer(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """A node of another kind: no ring, but links that operators make."""
    start = actions.add_parser(
        "superpeer", help="run a super-peer: the access point of clients, linked with others",
        description="Runs a super-peer. It has the links that are named here, and those that `tocsin node link` made.",
    )  # fmt: skip
    start.add_argument("links", nargs="*", metavar="SUPERPEER", help="NAME@HOST:PORT of a neighbour")
    start.add_argument("--data", metavar="DIR", type=Path, default=Path(FOLDER), help=f"its folder (default {FOLDER})")
    start.add_argument(
        "--listen", metavar="HOST:PORT", default=LISTEN, help=f"where to listen (default {LISTEN}; port 0: any)"
    )
    start.add_argument("--advertise", metavar="HOST:PORT", help="where others reach it, if not there")
    start.add_argument(
        "--probe", metavar="SECONDS", type=float, default=SuperpeerSettings().probe_seconds,
        help=f'time between two "are you alive?" (default {SuperpeerSettings().probe_seconds:g})',
    )  # fmt: skip
    link = actions.add_parser(
        "link", help="link a running super-peer with another",
        description="Gives a super-peer a neighbour. The neighbour needs the same link the other way round.",
    )  # fmt: skip
    link.add_argument("superpeer", metavar="SUPERPEER", help="NAME@HOST:PORT of the neighbour")
    retire = actions.add_parser(
        "retire", help="say that a super-peer is gone for good",
        description="Tells all super-peers, through a running one, that another will never come back: nothing waits "
        "for it any more, and what only it had stored is lost.",
    )  # fmt: skip
    retire.add_argument("superpeer", metavar="SUPERPEER", help="NAME@HOST:PORT of who is gone")
    retire.add_argument("--data", metavar="DIR", type=Path, default=Path(FOLDER), help="the running one's folder")
    link.add_argument("--data", metavar="DIR", type=Path, default=Path(FOLDER), help=f"its folder (default {FOLDER})")


def _running(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data", metavar="DIR", type=Path, default=Path(FOLDER), help=f"the node's folder (default {FOLDER})"
    )
    command.add_argument(
        "--listen", metavar="HOST:PORT", default=LISTEN, help=f"where to listen (default {LISTEN}; port 0: any)"
    )
    command.add_argument("--advertise", metavar="HOST:PORT", help="where others reach it, if not there")
    command.add_argument(
        "--tick",
        metavar="SECONDS",
        type=float,
        default=1.0,
        help="time between two looks at the neighbours (default 1)",
    )
    command.add_argument(
        "--clock-seconds-max", metavar="SECONDS", type=float, default=DEFAULT_LIMITS.clock_seconds_max,
        help=f"how far clocks may differ (default {DEFAULT_LIMITS.clock_seconds_max:g})",
    )  # fmt: skip
    command.add_argument(
        "--disk-bytes-max", metavar="N", type=int, default=DEFAULT_LIMITS.disk_bytes_max,
        help=f"what the journal may take (default {DEFAULT_LIMITS.disk_bytes_max})",
    )  # fmt: skip
    analysis_argument(command)  # that of the sites of the ring


def run(given: argparse.Namespace) -> int:
    """Exit status 1 if a node had to leave."""
    if given.action == "status":
        return _show(given)
    if given.action == "superpeer":
        return _run_superpeer(given)
    if given.action in {"link", "retire"}:
        answer = control.ask(given.data, {"do": given.action, "with": given.superpeer, "superpeer": given.superpeer})
        if "error" in answer:
            raise SettingError(answer["error"])
        said = f"links: {', '.join(answer['links'])}" if given.action == "link" else f"{answer['retired']} is retired"
        say(said)
        return 0
    contacts: tuple[str, ...] = ()
    if given.action == "join":
        contacts = (*given.contacts, *(read_contacts(given.bootstrap) if given.bootstrap else ()))
        if not contacts:
            raise SettingError("join needs a node of the ring: HOST:PORT, or --bootstrap FILE")
    if given.tick <= 0 or given.clock_seconds_max <= 0 or given.disk_bytes_max <= 0:
        raise SettingError("--tick, --clock-seconds-max and --disk-bytes-max must be more than 0")
    settings = HostSettings(
        folder=given.data, listen=endpoint(given.listen),
        advertise=endpoint(given.advertise) if given.advertise else None, contacts=contacts,
        founds=given.action == "run" and given.found, chord=paced(given.tick),
        limits=NetLimits(clock_seconds_max=given.clock_seconds_max, disk_bytes_max=given.disk_bytes_max),
    )  # fmt: skip
    return run_host(settings, say, Analysis.parse(given.analysis))


def _run_superpeer(given: argparse.Namespace) -> int:
    if given.probe <= 0:
        raise SettingError("--probe must be more than 0")
    settings = SuperpeerHostSettings(
        folder=given.data, listen=endpoint(given.listen),
        advertise=endpoint(given.advertise) if given.advertise else None, links=tuple(given.links),
        superpeers=SuperpeerSettings(probe_seconds=given.probe, again_seconds=2 * given.probe),
    )  # fmt: skip
    try:
        return run_superpeer(settings, say)
    except ValueError as error:
        raise SettingError(str(error)) from error


def _show(given: argparse.Namespace) -> int:
    status = control.ask(given.data, {"do": "status"})
    if given.json:
        print(json.dumps(status))
        return 0
    print(f"{status['address']}\nstate        {status.get('state', 'super-peer')}")
    if "links" in status:
        print(f"links        {', '.join(status['links']) or 'none'}")
        print(f"unreachable  {', '.join(status['unreachable']) or 'none'}")
        print(f"clients      {len(status['clients'])}, {sum(status['clients'].values())} of them connected")
        print(f"queries      {status['queries']}, {status['forwarded']} of them forwarded")
        for name, number in status["refused"].items():
            print(f"  refused: {name:<9} {number}")
    if "key" in status:
        print(f"key          {status['key']:016x}, {'owns its range' if status['ready'] else 'owns nothing now'}")
        print(f"predecessor  {status['predecessor'] or 'none'}")
        for number, successor in enumerate(status["successors"]):
            print(f"{'successors' if number == 0 else '':<11}  {successor}")
        print(f"items        {status['items']} in {status['journal_bytes']} bytes")
    sent, size = sum(status["sent"].values()), sum(status["sent_bytes"].values())
    print(f"messages     {sent} sent ({size} bytes), {status['received']} received")
    print(f"connections  {status['connections']} in, {sum(one['connected'] for one in status['peers'].values())} out")
    for name, number in status["counts"].items():
        print(f"  {name:<18} {number}")
    return 0
