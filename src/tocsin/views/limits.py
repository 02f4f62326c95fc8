"""How much one set of views may ask for. Each limit refuses with a sentence; none cuts anything off silently."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.errors import ViewError
from tocsin.views.plan import Plan


@dataclass(frozen=True, slots=True)
class ViewLimits:
    """Of one text of relations and views."""

    text_bytes_max: int = 262_144
    """Size of the text."""
    views_max: int = 1_000
    """Views that it makes."""
    nodes_max: int = 10_000
    """Operators of the plan, equal ones counted once."""
    columns_max: int = 256
    """Of one relation or view."""
    inputs_max: int = 32
    """Of one operator: how many relations a merge may have."""

    def check_text(self, text: str) -> None:
        """Before it is compiled; ViewError if it is too long."""
        size = len(text.encode())
        if size > self.text_bytes_max:
            raise ViewError(f"the text has {size:,} bytes, and {self.text_bytes_max:,} are allowed: use several sets")

    def check_plan(self, plan: Plan) -> None:
        """After it is compiled; ViewError names what is too much."""
        if len(plan.views) > self.views_max:
            raise ViewError(f"there are {len(plan.views):,} views, and {self.views_max:,} are allowed")
        nodes = plan.nodes()
        if len(nodes) > self.nodes_max:
            raise ViewError(f"the plan has {len(nodes):,} operators, and {self.nodes_max:,} are allowed")
        for node in nodes:
            if len(node.columns) > self.columns_max:
                raise ViewError(f"{node}: it has {len(node.columns)} columns, and {self.columns_max} are allowed")
            if len(node.inputs) > self.inputs_max:
                raise ViewError(f"{node}: it reads {len(node.inputs)} relations, and {self.inputs_max} are allowed")


LIMITS = ViewLimits()
