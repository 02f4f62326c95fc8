"""Protocols of nodes that share queries and documents, without I/O: a driver carries out what they ask for.

key          positions on the ring
message      what nodes send each other, and its one codec
node         handle(message, now) -> effects; components plug in by message type
table        the nodes that a node knows
chord        the ring: who owns a key, how a message gets there
membership   joining, leaving, failing; ranges change hands
items        opaque values under keys, handed over and replicated with their keys
fcache       which node answered for a key the last time
multicast    one message to the owners of many keys, each exactly once
member       all of these as one node
"""
