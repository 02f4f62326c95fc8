"""The engines of P2P-DIET §4: SWIN, PrefixTrie and BestFitTrie, and the sequential scan they are measured against.

All of them index conjunctions in AWP (`awp`) and differ only in how they keep the word sets of one field:
`plain` says what the three algorithms do, `flat` does the same over arrays, `engine` counts formulas.
"""

from tocsin.match.tries.engine import AwpEngine, BestFitTrie, PrefixTrie, Sequential, Swin

__all__ = ["AwpEngine", "BestFitTrie", "PrefixTrie", "Sequential", "Swin"]
