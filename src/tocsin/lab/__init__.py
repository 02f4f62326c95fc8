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
    "dhtrie-latency": Experiment("dhtrie_latency", "DHTrie, Figure 2(b): latency of six variants of multicast"),
    "dhtrie-traffic": Experiment("dhtrie_traffic", "DHTrie, Figure 2(a): traffic of six variants of multicast"),
    "smartseer-architectures": Experiment(
        "smartseer_architectures", "SmartSeer §III-A: pull, mirroring, partition by id and by word"
    ),
    "smartseer-join": Experiment("smartseer_join", "SmartSeer §V-A, Figure 1: joins against the length of lists"),
    "smartseer-lists": Experiment("smartseer_lists", "SmartSeer §V, Figure 5: how long lists of queries are"),
    "smartseer-notification": Experiment(
        "smartseer_notification", "SmartSeer §V-D, Figure 4: naive, clustered, broadcast"
    ),
    "smartseer-scaling": Experiment("smartseer_scaling", "SmartSeer §III-C: β, and the example's 1 or 10 MB"),
    "smartseer-selectivity": Experiment(
        "smartseer_selectivity", "SmartSeer §V-B, Figure 2: joins against words per query"
    ),
    "smartseer-skew": Experiment("smartseer_skew", "SmartSeer §V-C, Figure 3: queries of other skews"),
    "smartseer-throughput": Experiment("smartseer_throughput", "SmartSeer §V, the deployment: documents a day by join"),
    "p2p-diet": Experiment("p2p_diet", "P2P-DIET §4.1, Figures 2 and 3: filtering time of four algorithms"),
    "xml-automaton": Experiment("xml_automaton", "XML filtering §5 and §6, Figures 4 and 5(c): the shared automaton"),
}
