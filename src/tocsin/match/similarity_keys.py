"""`~` as a key: an index asks once per document which texts are near, and queries wait for the answer like for a word.

Each distinct atom is one key as long as some query asks for it. The texts are compared together (`similarity`), so a
hundred thousand of them cost a document little more than the few that it comes near to; what stands beside `~` in a
query, and how often the same text is asked for, costs what words cost. Texts of a saved index are read when the first
document comes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.match.lexicon import KeyCounter
from tocsin.match.requirement import PRESENT
from tocsin.match.similarity import SimilarityIndex
from tocsin.model import Document
from tocsin.query.ast import Exists, Query, Similar, mapped
from tocsin.query.normal import Key
from tocsin.query.score import Statistics
from tocsin.text import Analysis
