"""Protocols of nodes that share queries and documents, without I/O: a driver carries out what they ask for.

key          positions on the ring
message      what nodes send each other, and its one codec
node         handle(message, now) -> effects; components plug in by message type
chord        the ring: who owns a key, how to get there, joining, leaving, failing
items        opaque values under keys, handed over and replicated with their keys
multicast    one message to the owners of many keys, each exactly once
"""
