"""One module per experiment of the papers; results as tables and plots.

Experiments are loaded when they run: they bring libraries that nothing else needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from tocsin.lab.result import Result
from tocsin.lab.sweep import Sweep, in_turn


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment by the module that holds it."""

    module: str
    about: str
    sweeps: bool = True
    """Has it configurations that can be measured side by side? Not if it measures times, or has one only."""

    def run(self, scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
        """Runs it at this scale ("small" or "paper")."""
        run = import_module(f"tocsin.lab.{self.module}").run
        found: Result = run(scale, seed, sweep) if self.sweeps else run(scale, seed)
        return found


EXPERIMENTS = {
    "dhtrie-latency": Experiment("dhtrie_latency", "DHTrie, Figure 2(b): latency of six variants of multicast"),
    "dhtrie-traffic": Experiment("dhtrie_traffic", "DHTrie, Figure 2(a): traffic of six variants of multicast"),
    "maps-recall": Experiment(
        "maps_recall", "MAPS, Figure 4: recall against ρ for several α, while topics shift", sweeps=False
    ),
    "maps-tradeoff": Experiment("maps_tradeoff", "MAPS, Table 1: messages and recall against DHTrie, by rate"),
    "smartseer-architectures": Experiment(
        "smartseer_architectures", "SmartSeer §III-A: pull, mirroring, partition by id and by word"
    ),
    "smartseer-join": Experiment("smartseer_join", "SmartSeer §V-A, Figure 1: joins against the length of lists"),
    "smartseer-lists": Experiment(
        "smartseer_lists", "SmartSeer §V, Figure 5: how long lists of queries are", sweeps=False
    ),
    "smartseer-notification": Experiment(
        "smartseer_notification", "SmartSeer §V-D, Figure 4: naive, clustered, broadcast"
    ),
    "smartseer-scaling": Experiment("smartseer_scaling", "SmartSeer §III-C: β, and the example's 1 or 10 MB"),
    "smartseer-selectivity": Experiment(
        "smartseer_selectivity", "SmartSeer §V-B, Figure 2: joins against words per query"
    ),
    "smartseer-skew": Experiment("smartseer_skew", "SmartSeer §V-C, Figure 3: queries of other skews"),
    "smartseer-throughput": Experiment(
        "smartseer_throughput", "SmartSeer §V, the deployment: documents a day by join", sweeps=False
    ),
    "p2p-diet": Experiment(
        "p2p_diet", "P2P-DIET §4.1, Figures 2 and 3: filtering time of four algorithms", sweeps=False
    ),
    "superpeer-pruning": Experiment(
        "superpeer_pruning", "P2P-DIET §3: what advertisements and the poset of queries save"
    ),
    "xml-automaton": Experiment(
        "xml_automaton", "XML filtering §5 and §6, Figures 4 and 5(c): the shared automaton", sweeps=False
    ),
    "xml-balance": Experiment("xml_balance", "XML filtering §6.4, Figure 7: storage and filtering load of peers"),
    "xml-iterative-recursive": Experiment(
        "xml_iterative_recursive", "XML filtering §6.1, Figure 3: iterative against recursive execution"
    ),
    "xml-network": Experiment("xml_network", "XML filtering §6.3, Figure 6: 1,000 to 5,000 peers"),
    "xml-nondeterminism": Experiment("xml_nondeterminism", "XML filtering, promised: more '*' and '//', other l"),
    "xml-queries": Experiment("xml_queries", "XML filtering §6.2, Figure 5: traffic, latency, states against queries"),
}
