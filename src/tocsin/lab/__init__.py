"""One module per experiment of the papers; results as tables and plots.

Experiments are loaded when they run: they bring libraries that nothing else needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from tocsin.lab.result import Result


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment by the module that holds it."""

    module: str
    about: str

    def run(self, scale: str, seed: int) -> Result:
        """Runs it at this scale ("small" or "paper")."""
        found: Result = import_module(f"tocsin.lab.{self.module}").run(scale, seed)
        return found


EXPERIMENTS = {
    "p2p-diet": Experiment("p2p_diet", "P2P-DIET §4.1, Figures 2 and 3: filtering time of four algorithms"),
    "xml-automaton": Experiment("xml_automaton", "XML filtering §5 and §6, Figures 4 and 5(c): the shared automaton"),
}
