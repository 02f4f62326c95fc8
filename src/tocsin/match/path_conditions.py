"""The words in which conditions on elements are written: kinds of nodes, comparisons, and the columns of the arrays.

`path_guards` writes the graph of conditions, `path_masks` lays a document out for it, `path_mask_kernels` answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# What a node says; `left` and `right` are nodes but where noted
(
    NOTHING,  # nowhere
    START,  # the document
    NAMED,  # left: a label
    ATTRIBUTE,  # at an element of the label right >> 4 an attribute of the label left compares, as right & 15 says
    CONTENT,  # the string-value of an element of the label left compares
    CHILD,  # at an element of the label right >> 4 a child of the label left has such a string-value
    TEXT,  # at an element of the label right >> 4 a text compares
    ASKED,  # left: what the oracle is asked
    BOTH,
    EITHER,
    WITHOUT,  # all elements but those
    PARENTS,
    ABOVE,
    CHILDREN,
    BELOW,
    PLACED,  # right: a comparison of the position among the siblings of the set
    EVERYWHERE,  # every element, if the document is in the set
) = range(17)
EXISTS, SAME, DIFFERENT, EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(9)
"""Comparisons: of strings (by their numbers), then of numbers."""
WILDCARD, ANY_ATTRIBUTE = 1, 2
ANSWERED, MISSING, NO_ROOM = 0, 1, 2
ATTRIBUTES, CONTENTS, TEXTS = 0, 1, 2
"""Kinds of values."""
KIND_OF = {ATTRIBUTE: ATTRIBUTES, CONTENT: CONTENTS, CHILD: CONTENTS, TEXT: TEXTS}
PARENT, LAST, FIRST_CHILD, SIBLING, LABEL, SAME_LABEL = range(6)
"""Columns of `tree`; -1 for none."""
OWNER, VALUE_LABEL, STRING, NEXT, NEXT_NUMBER, NEXT_STRING = range(6)
"""Columns of `rows`: the element, the label, the number of the string (or -1), and the chains that a row is in."""
FEW = 4
"""Members of a family that are looked at one by one."""
MANY = 32
"""Members that are not even counted one by one."""
RUN, ROWS, STAMP = 0, 1, 2
"""Places in `counts`."""


class Document(NamedTuple):
    """A document as the kernel takes it. The document itself stands behind its elements: the root's parent."""

    tree: Any  # of an element: see the columns
    by_label: Any  # of a label: its first element, and the label of `p:*` that it falls under (or -1)
    rows: Any  # values of all kinds
    number: Any  # of a row
    by_kind: Any  # of a kind and a label: its first row, and its first row with a number (or -1)
    by_string: Any  # of a kind and a string: its first row
    range: Any  # of a kind: its first row (-1: not fetched) and the one after its last
    asked: Any  # of a question: its row in the pool, -1 if empty, -2 if not asked yet


class Answers(NamedTuple):
    """What is known so far: memo[n] is run << 32 | row + 1, row in `pool`; row -1 is the empty set."""

    memo: Any
    pool: Any
    counts: Any
    stack: Any
    places: Any  # of an element (for positions): last stamp, and how many children have been met
