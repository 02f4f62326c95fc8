"""LIKE: % stands for any text, _ for one character.

The pieces between two % are found from left to right, each at its first place: nothing is ever tried again, so a
pattern costs at most its length times that of the text, whatever somebody writes.
"""

from __future__ import annotations

from functools import lru_cache

ANY = None  # one character, whichever
Piece = tuple[str | None, ...]


def is_like(text: str, pattern: str, escape: str = "") -> bool:
    """Whether the whole text has the form."""
    first, *others = _pieces(pattern, escape)
    if not others:
        return len(text) == len(first) and _stands(first, text, 0)
    last = others.pop()
    end = len(text) - len(last)
    if end < len(first) or not _stands(first, text, 0) or not _stands(last, text, end):
        return False
    at = len(first)
    for piece in others:
        place = next((one for one in range(at, end - len(piece) + 1) if _stands(piece, text, one)), None)
        if place is None:
            return False
        at = place + len(piece)
    return True


def is_ilike(text: str, pattern: str, escape: str = "") -> bool:
    """The same, without regard to upper and lower case."""
    return is_like(text.lower(), pattern.lower(), escape.lower())


def _stands(piece: Piece, text: str, at: int) -> bool:
    return all(one is ANY or one == text[at + place] for place, one in enumerate(piece))


@lru_cache(maxsize=1_000)
def _pieces(pattern: str, escape: str) -> tuple[Piece, ...]:
    """What stands between the %, at least one piece; a character after the escape means itself."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            pieces[-1].append(next(characters, escape))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(ANY if character == "_" else character)
    return tuple(tuple(piece) for piece in pieces)
