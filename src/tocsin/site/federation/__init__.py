"""A site as a node of a ring: its subscriptions and its documents travel to the other sites, theirs come here.

    site.federation = Federation(site, HostSettings(folder / "node", listen, contacts=("example.org:8048",)), say)

federation   the site's node, and what goes between the two
placements   the three placements that it runs on one member of the ring
asking       what of a subscription the ring is asked for, and by which placement
owed         notices whose publisher did not answer
"""

from tocsin.site.federation.federation import JOB, Fare, Federation

__all__ = ["JOB", "Fare", "Federation"]
