"""Super-peers: an arbitrary graph of equal nodes, each the access point of some clients (P2P-DIET §3).

messages         what super-peers and clients say to each other
graph            shortest paths and their trees, cycles or not
routes           are you alive? link states, healing, sealed messages along shortest paths
sheet            what every super-peer must know of every other: forwarded queries, advertisements
streams          in order, each thing once, from one super-peer to another
desk             an access point's clients: connecting, moving, what is stored for them
poset            which queries are forwarded, and which another one covers
table            an index over continuous queries
filtering        continuous queries and publications
advertisements   what clients will publish, and which queries that rules out
fields           an inverted file for each field
one_time         one-time queries by reverse path forwarding
rendezvous       resources of owners that are away
superpeer        all of these as one node
client           the node at the other end; belongings is what it keeps, errands are its searches and fetches
sealing          what a driver must give a node, so that others cannot read or forge
"""
