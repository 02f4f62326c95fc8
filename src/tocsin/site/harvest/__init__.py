"""Documents from elsewhere: feeds, OAI-PMH repositories and watched folders, visited politely and on time.

sources     which sources there are, who may change them, how each fares
harvester   visits those that are due, in a thread of its own
fetch       one request, guarded and bounded          politeness  one at a time per host, not too often
feeds       RSS and Atom to items (apart, feed_child: in a process that may be killed)
oaipmh      OAI-PMH to items, page by page            folders     files to documents
near        sketches that find near-identical text    opml        lists of feeds, in and out
"""
