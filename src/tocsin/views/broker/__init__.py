"""Views across brokers that lose, repeat and reorder messages, and crash (relational subscriptions §3).

messages    what brokers send each other, and the effects that a broker asks for
placement   which broker computes which part of a plan, and who feeds whom
links       the two ends of a derived relation between brokers: one fresh state instead of a log
sources     the two ends of a source relation: the log, and who reads it
guards      what a broker does not need of a relation, for good or for now
spared      what upstream makes of that: which rows it does not send
broker      a broker without I/O: publisher-hosting, intermediate and subscriber-hosting in one
"""
