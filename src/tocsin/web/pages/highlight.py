"""Where in a text the words are that a match names: positions of words, back to characters.

`text` says what a word is; here the same folding is done letter by letter, to know which letters a word came from. A
text whose folding crosses letters (rare scripts) is shown without highlights rather than with wrong ones.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator
from typing import NamedTuple

from tocsin.text import KEYWORD, spaced

AROUND = 90  # characters that are shown on both sides of what was found
SHOWN_MAX = 360


class Part(NamedTuple):
    """A piece of a text: found, or between."""

    text: str
    is_hit: bool


def spans(text: str, analysis: str) -> list[tuple[int, int]] | None:
    """Where each word begins and ends, by position; None if that cannot be told."""
    if analysis == KEYWORD:
        return [(0, len(text))] if text else []
    if text.isascii():
        return list(_runs(spaced(text), range(len(text) + 1)))
    folded, origins = _letter_by_letter(text)
    return list(_runs(folded, origins)) if folded.split() == spaced(text).split() else None


def _letter_by_letter(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters (and its end) the place in the text that it came from."""
    pieces: list[str] = []
    origins: list[int] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and unicodedata.combining(text[end]):
            continue  # an accent belongs to the letter before it
        piece = spaced(text[start:end])
        pieces.append(piece)
        origins += [start] * len(piece)
        start = end
    return "".join(pieces), [*origins, len(text)]


def _runs(folded: str, origins: Collection[int]) -> Iterator[tuple[int, int]]:
    places = list(origins)
    start: int | None = None
    for at, character in enumerate(f"{folded} "):
        if character.isspace():
            if start is not None:
                last = places[at - 1]
                following = next((place for place in places[at:] if place > last), places[-1])
                yield places[start], following
                start = None
        elif start is None:
            start = at


def marked(text: str, analysis: str, positions: Collection[int]) -> list[Part]:
    """The text in pieces, the words at these positions as hits; neighbours are one hit."""
    found = spans(text, analysis)
    if found is None:
        return [Part(text, False)]
    wanted = sorted({position for position in positions if 0 <= position < len(found)})
    parts: list[Part] = []
    at = 0
    for position in wanted:
        start, end = found[position]
        if start < at:  # two words of one letter
            continue
        between = text[at:start]
        if parts and parts[-1].is_hit and position - 1 in wanted and len(between) <= 2:
            parts[-1] = Part(parts[-1].text + text[at:end], True)
        else:
            if between:
                parts.append(Part(between, False))
            parts.append(Part(text[start:end], True))
        at = end
    if text[at:]:
        parts.append(Part(text[at:], False))
    return parts


def shortened(parts: list[Part]) -> list[Part]:
    """What was found with a little around it: long stretches between are left out."""
    if sum(len(part.text) for part in parts) <= SHOWN_MAX:
        return parts
    found: list[Part] = []
    for place, part in enumerate(parts):
        if part.is_hit:
            found.append(part)
            continue
        is_first, is_last = place == 0, place == len(parts) - 1
        text = part.text
        if is_first and is_last:
            found.append(Part(text[:SHOWN_MAX].rstrip() + " …", False))
        elif is_first and len(text) > AROUND:
            found.append(Part("… " + text[-AROUND:].partition(" ")[2], False))
        elif is_last and len(text) > AROUND:
            found.append(Part(text[:AROUND].rpartition(" ")[0] + " …", False))
        elif not is_first and not is_last and len(text) > 2 * AROUND:
            found.append(Part(text[:AROUND].rpartition(" ")[0] + " … " + text[-AROUND:].partition(" ")[2], False))
        else:
            found.append(part)
    return found
