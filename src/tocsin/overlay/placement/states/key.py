"""Where a state lives (XML filtering paper §4).

The key of a state is the path of labels that leads to it from the start, with `$` for ε: `start + dblp + phdthesis`.
Its owner is the successor of the hashed key. The paper hashes with SHA-1, as Chord did; here it is the ring's own
`hashed` (BLAKE2b cut to 64 bits, see `overlay.key`): states share the ring with nodes and words, SHA-1 is broken, and
which hash it is changes no claim. So whoever knows a query knows the owners of all its states, without asking.

An overloaded state has copies, numbered from 1, at keys of their own (§6.4: load shedding).
"""

from __future__ import annotations

from tocsin.overlay.key import Key, hashed
from tocsin.query.xpath.routes import EPSILON, Linear

START: Linear = ()
STATE_KIND = 80


def state_key(state: Linear) -> str:
    """The key as the paper writes it, and as `Automaton.key` does."""
    return " + ".join(("start", *state))


def ring_key(state: Linear, copy: int = 0) -> Key:
    """Its place on the ring, or that of a copy."""
    return hashed("state", state_key(state)) if not copy else hashed("state copy", f"{copy} {state_key(state)}")


def prefixes(path: Linear) -> tuple[Linear, ...]:
    """The states of a linear path, the start first."""
    return tuple([path[:length] for length in range(len(path) + 1)])


def is_loop(state: Linear) -> bool:
    """Whether it was reached by ε, and so stays active below."""
    return state[-1:] == (EPSILON,)


def weight(labels: Linear) -> int:
    """How many elements the labels take: ε takes none."""
    return sum(label != EPSILON for label in labels)


def tail(path: Linear, depth: int, length: int) -> Linear:
    """What the owner of the state at a depth knows of a path: the labels up to the first that it does not keep.

    It keeps what `length` labels lead to, and the transitions from there; so it can follow one label more.
    """
    found: list[str] = []
    left = length + 1
    for label in path[depth:]:
        left -= label != EPSILON
        if left < 0:
            break
        found.append(label)
    while found and found[-1] == EPSILON:  # ε leads nowhere without the label behind it
        found.pop()
    return tuple(found)
