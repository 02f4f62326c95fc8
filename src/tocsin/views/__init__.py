"""Views over event histories that never say anything false, after "Relational Subscriptions" (Jin, Strom).

ticks        sets of ticks as ranges
value        monotonic types and their laws
aggregate    aggregates over rows of which some are unknown
expression   typed expressions
window       which ticks can still change a row
plan         the subscription graph
relation     operators as steps on increments; group, best and without are the larger ones
knowledge    ticks, silence, gaps, horizon, curiosity: what passes between nodes, without I/O
compile      SQL to a plan
events       lines to events
engine       runs a plan over events
"""
