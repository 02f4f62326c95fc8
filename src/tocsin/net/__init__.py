"""The real world: the nodes of `overlay` as processes that speak TLS over TCP.

identity    who a node is: an Ed25519 key; its address names the key, so whoever has the address can check it
envelope    every message signed, numbered, addressed; what is not exactly right is refused
claims      a message may say only what its sender may say
link        from here to one peer: a queue, a connection, a pause after a failure
door        from everybody to here: frames, limits, refusals
disk        items in a journal, safe before anybody is told so
driver      does the effects of nodes, as `sim.world` does in the false world
complaints  what an operator is told of refusals
equipment   the three placements, which every member of a ring has
host        a folder and a process for one node; control is its local socket
"""
