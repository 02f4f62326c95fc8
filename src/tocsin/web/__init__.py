"""A site over HTTP: everything under /api/v1/ that an account may do, and what an operator looks at.

    routes          every route, who may call it, and what it means: the table that tests are made from
    app             the application: the routes of the table, on one site
    subscriptions, preview, documents, notifications, accounts, operation, later
                    what the routes do, by what they are about
    schemas         how calls and answers look, for OpenAPI
    limits          what one caller may ask of the server
    caller          who calls: bearer tokens, roles
    bodies          what is sent, read as a stream and never beyond its limit
    answers         what is answered: one shape for every error
    repeats         Idempotency-Key: the same call again gets the same answer
    stream          server-sent events
    guard           what surrounds every call: headers, HEAD and OPTIONS, counting, no traceback
    metrics         what /metrics shows
    pages           the same in a browser, with sessions instead of tokens
    server          a port, and a server that does not wait for ever for a slow caller

Nothing here decides anything about documents or subscriptions: that is the site's.
"""
