"""SQL to a plan, by sqlglot: every column typed, what cannot be kept monotone refused, equal parts shared.

    statements    text to CREATE RELATION and CREATE VIEW, each on its own
    shape         what a part of SQL may carry
    expressions   SQL expressions to typed ones; functions and types are parts of it
    select        SELECT, UNION, EXCEPT to nodes of the plan; aggregates, joins and unions are parts of it
    views         names to nodes, in any order of definition; circles refused
    conditions    what somebody waits for in the rows of a view

The relational subscriptions paper had a JavaCC compiler do this (§3).
"""

from tocsin.views.compile.conditions import compile_condition
from tocsin.views.compile.views import Compiled, compile_views

__all__ = ["Compiled", "compile_condition", "compile_views"]
