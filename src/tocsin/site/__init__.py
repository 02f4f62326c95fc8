"""One installation: accounts, the life of subscriptions, documents coming in, notifications going out, audit."""
