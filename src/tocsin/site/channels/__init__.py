"""The ways alerts reach people: mail and chat through Apprise, Atom feeds, digests.

address    where a subscription's channel leads, with its secrets kept out of sight
telling    notifications with the titles and links of their documents
digest     tellings as plain text and as HTML, near-identical ones together
sender     sends messages (send_child: in a process that reaches only the open network)
atom       a feed of a subscription, a tag or an account
saved      channels that an account keeps; mailboxes confirm before they are told anything; test sends
links      what cannot be guessed: addresses of feeds, links that end messages
"""
