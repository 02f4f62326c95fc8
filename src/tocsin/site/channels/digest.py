"""Messages: what subscriptions have to tell, grouped by subscription and by near-identical text.

Every message has a plain-text form and an HTML form that say the same. Whatever comes from outside is escaped; links
lead to http and https only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.channels.telling import Telling, Told
from tocsin.site.harvest.near import grouped

SUBJECT_CHARACTERS_MAX = 200
NEAR_WORDS_MIN = 5
# Mail programs drop style sheets, so each element carries its own.
_BODY = "margin:0;padding:24px 12px;background:#f6f4f0;color:#1e1c19;font:15px/1.5 system-ui,'Segoe UI',sans-serif;"
_SHEET = "max-width:42em;margin:0 auto;"
_CARD = "background:#ffffff;border:1px solid #e2ddd3;border-radius:12px;padding:18px 22px;margin:0 0 14px;"
_BRAND = "margin:0 0 14px;font-size:14px;font-weight:700;color:#b23a1e;"
_TITLE = "margin:0 0 12px;font-size:18px;line-height:1.3;"
_SOFT = "color:#5f5a52;font-size:13px;"
_LINK = "color:#8f2d16;"


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent."""

    subject: str
    text: str
    html: str


Group = tuple[Telling, tuple[Telling, ...]]
"""The first of those that are nearly the same, and the others."""


def groups_of(told: Told, settings: ChannelSettings) -> list[Group]:
    """A subscription's documents, near-identical ones together."""
    texts = [f"{one.title}\n{one.text}" for one in told.tellings]
    places = grouped(texts, settings.digest_near_share, NEAR_WORDS_MIN)
    return [(told.tellings[first], tuple(told.tellings[at] for at in rest)) for first, *rest in places]


class Part(NamedTuple):
    """A subscription's part of a message."""

    told: Told
    groups: list[Group]
    above: list[Telling]
    """What an earlier part lists already."""


def compose(told: Sequence[Told], settings: ChannelSettings, unsubscribe: str | None = None) -> Message:
    """One message about all of them; a document that several have found is listed once."""
    parts = parts_of(told, settings)
    return Message(_subject(told), _text(parts, settings, unsubscribe), _html(parts, settings, unsubscribe))


def parts_of(told: Sequence[Told], settings: ChannelSettings) -> list[Part]:
    """By subscription, and within each by near-identical text."""
    parts, listed = [], set[tuple[str, int]]()
    for one in told:
        above = [each for each in one.tellings if (each.document, each.version) in listed]
        fresh = [each for each in one.tellings if (each.document, each.version) not in listed]
        listed |= {(each.document, each.version) for each in fresh}
        parts.append(Part(one, groups_of(one._replace(tellings=tuple(fresh)), settings), above))
    return parts


def _subject(told: Sequence[Told]) -> str:
    count = sum(one.total for one in told)
    if count == 1 and told:
        subject = f"{told[0].name}: {told[0].tellings[0].title}" if told[0].tellings else told[0].name
    elif len(told) == 1:
        subject = f"{told[0].name}: {count:,} new documents"
    else:
        subject = f"{count:,} new documents for {len(told):,} subscriptions"
    return _line(subject, SUBJECT_CHARACTERS_MAX)


def _counted(told: Told) -> str:
    return "1 new document" if told.total == 1 else f"{told.total:,} new documents"


def _line(text: str, most: int) -> str:
    """One line, printable, not longer than that."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= most else clean[: most - 1].rstrip() + "…"


def _about(one: Telling) -> str:
    return ", ".join(_line(part, 200) for part in (one.source, (one.time or "")[:10]) if part)


def _others(others: Sequence[Telling]) -> str:
    names = ", ".join(dict.fromkeys(_line(one.source or one.title, 60) for one in others[:5]))
    return f"Nearly the same: {len(others):,} more ({names}{', …' if len(others) > 5 else ''})"


def _above(above: Sequence[Telling]) -> str:
    titles = "; ".join(_line(one.title, 80) for one in above[:5])
    return f"Listed above already: {titles}{'; …' if len(above) > 5 else ''}"


# --- plain text ------------------------------------------------------------------------------------------------------


def _text(parts: Sequence[Part], settings: ChannelSettings, unsubscribe: str | None) -> str:
    lines: list[str] = []
    for told, groups, above in parts:
        title = f"{_line(told.name, SUBJECT_CHARACTERS_MAX)}: {_counted(told)}"
        lines += [title, "=" * min(len(title), 72), ""]
        for number, (one, others) in enumerate(groups, 1):
            lines.append(f"{number}. {_line(one.title, 300)}")
            excerpt = _line(one.text, settings.excerpt_characters_max)
            for line in (_about(one), one.link, excerpt, _others(others) if others else ""):
                if line:
                    lines.append(f"   {line}")
            lines.append("")
        if above:
            lines += [_above(above), ""]
        if told.more:
            lines += [f"… and {told.more:,} more.", ""]
        if told.stop is not None:
            lines += [f"Stop this one: {told.stop}", ""]
    if unsubscribe is not None:
        lines += ["-- ", f"Stop these messages: {unsubscribe}", ""]
    return "\n".join(lines)


# --- HTML ------------------------------------------------------------------------------------------------------------


def _html(parts: Sequence[Part], settings: ChannelSettings, unsubscribe: str | None) -> str:
    cards = "\n".join(f'<div style="{_CARD}">{_part(part, settings)}</div>' for part in parts)
    end = "" if unsubscribe is None else f'<p style="{_SOFT}">{_stop(unsubscribe, "Stop these messages")}</p>'
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Tocsin</title></head>'
        f'<body style="{_BODY}"><div style="{_SHEET}"><p style="{_BRAND}">Tocsin</p>{cards}{end}</div></body></html>'
    )


def _part(part: Part, settings: ChannelSettings) -> str:
    told = part.told
    lines = [f'<h2 style="{_TITLE}">{escape(_line(told.name, SUBJECT_CHARACTERS_MAX))}: {_counted(told)}</h2>']
    if part.groups:
        entries = (f'<li style="margin:0 0 14px">{_entry(*group, settings)}</li>' for group in part.groups)
        lines.append(f'<ol style="margin:0;padding-left:22px">{"".join(entries)}</ol>')
    if part.above:
        lines.append(f'<p style="{_SOFT}">{escape(_above(part.above))}</p>')
    if told.more:
        lines.append(f"<p>… and {told.more:,} more.</p>")
    if told.stop is not None:
        lines.append(f'<p style="{_SOFT}margin:10px 0 0">{_stop(told.stop, "Stop this one")}</p>')
    return "".join(lines)


def _stop(link: str, words: str) -> str:
    return f'<a style="{_LINK}" href="{escape(link, quote=True)}">{words}</a>'


def _entry(one: Telling, others: Sequence[Telling], settings: ChannelSettings) -> str:
    title = escape(_line(one.title, 300))
    if one.link is not None:
        title = f'<a style="{_LINK}" href="{escape(one.link, quote=True)}">{title}</a>'
    lines = [f"<strong>{title}</strong>"]
    if about := _about(one):
        lines.append(f'<span style="{_SOFT}">{escape(about)}</span>')
    if excerpt := _line(one.text, settings.excerpt_characters_max):
        lines.append(escape(excerpt))
    if others:
        lines.append(f'<span style="{_SOFT}">{escape(_others(others))}</span>')
    return "<br>".join(lines)
