"""MAPS: queries live at promising publishers, and a publication travels nowhere (MAPS, "The MAPS Architecture").

settings     exact or approximate(ρ, α), and how MAPS works
messages     what its nodes say to each other
directory    who publishes which word: on the ring, with copies at the successors
posting      how statistics get there: in batches, and on the back of other messages
correlation  sets of words that are asked for together
prediction   what a publisher will publish: double exponential smoothing
selection    which publishers are best: CORI and prediction, added up
publisher    documents, and the queries that wait for them
subscriber   choosing publishers, and choosing again
audit        how much is missed: a sample, and an interval
placement    all of these on a node
"""
