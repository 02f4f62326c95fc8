"""Messages: what subscriptions have to tell, grouped by subscription and by near-identical text.

Every message has a plain-text form and an HTML form that say the same. Whatever comes from outside is escaped; links
lead to http and https only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.channels.telling import Telling, Told
from tocsin.site.harvest.near import grouped

SUBJECT_CHARACTERS_MAX = 200
NEAR_WORDS_MIN = 5
_STYLE = "font-family:system-ui,sans-serif;font-size:15px;line-height:1.45;max-width:42em;margin:0 auto;padding:1em;"


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


def compose(told: Sequence[Told], settings: ChannelSettings, unsubscribe: str | None = None) -> Message:
    """One message about all of them."""
    parts = [(one, groups_of(one, settings)) for one in told]
    return Message(_subject(told), _text(parts, settings, unsubscribe), _html(parts, settings, unsubscribe))


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


# --- plain text ------------------------------------------------------------------------------------------------------


def _text(parts: Sequence[tuple[Told, list[Group]]], settings: ChannelSettings, unsubscribe: str | None) -> str:
    lines: list[str] = []
    for told, groups in parts:
        title = f"{_line(told.name, SUBJECT_CHARACTERS_MAX)}: {_counted(told)}"
        lines += [title, "=" * min(len(title), 72), ""]
        for number, (one, others) in enumerate(groups, 1):
            lines.append(f"{number}. {_line(one.title, 300)}")
            excerpt = _line(one.text, settings.excerpt_characters_max)
            for line in (_about(one), one.link, excerpt, _others(others) if others else ""):
                if line:
                    lines.append(f"   {line}")
            lines.append("")
        if told.more:
            lines += [f"… and {told.more:,} more.", ""]
    if unsubscribe is not None:
        lines += ["-- ", f"Stop these messages: {unsubscribe}", ""]
    return "\n".join(lines)


# --- HTML ------------------------------------------------------------------------------------------------------------


def _html(parts: Sequence[tuple[Told, list[Group]]], settings: ChannelSettings, unsubscribe: str | None) -> str:
    body: list[str] = []
    for told, groups in parts:
        name = _line(told.name, SUBJECT_CHARACTERS_MAX)
        body.append(f'<h2 style="font-size:18px">{escape(name)}: {_counted(told)}</h2><ol>')
        for one, others in groups:
            body.append(f'<li style="margin-bottom:1em">{_entry(one, others, settings)}</li>')
        body.append("</ol>")
        if told.more:
            body.append(f"<p>… and {told.more:,} more.</p>")
    if unsubscribe is not None:
        link = escape(unsubscribe, quote=True)
        body.append(f'<hr><p style="font-size:13px"><a href="{link}">Stop these messages</a></p>')
    inside = "\n".join(body)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Tocsin</title></head>'
        f'<body style="{_STYLE}">{inside}</body></html>'
    )


def _entry(one: Telling, others: Sequence[Telling], settings: ChannelSettings) -> str:
    title = escape(_line(one.title, 300))
    if one.link is not None:
        title = f'<a href="{escape(one.link, quote=True)}">{title}</a>'
    lines = [f"<strong>{title}</strong>"]
    if about := _about(one):
        lines.append(f'<span style="color:#666">{escape(about)}</span>')
    if excerpt := _line(one.text, settings.excerpt_characters_max):
        lines.append(escape(excerpt))
    if others:
        lines.append(f"<em>{escape(_others(others))}</em>")
    return "<br>".join(lines)
