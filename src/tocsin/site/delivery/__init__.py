"""From the outbox to the subscriber: webhooks, called until they take what is theirs, in order."""
