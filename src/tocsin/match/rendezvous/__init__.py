"""How documents and queries meet (SmartSeer §III–V): joins, notification, architectures, and what they cost.

Everything here is pure: no I/O, no clock, no chance. The overlay carries the conversations in its messages, the
pipeline arranges the same choices as Spark stages, and both ask the same cost model.
"""
