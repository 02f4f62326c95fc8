"""A site in a browser: pages made on the server, with a little script on top and none that is needed.

    table       every page, who may see it: the routes
    view        one call: session, role, seal of the form; then a handler
    session     who is signed in, and what forms carry
    render      templates to HTML, and the policy of what a page may load
    sign, overview, alerts, listed, editor, harvested, channels, trouble, own
                what the pages show and do, by what they are about
    shown       a match as a person reads it
    highlight   where in a text the words are that were found
    tally       how much came in and matched, hour by hour
    charts      pictures as numbers

Pages know only their cookie, the API only its tokens: no page can be used to call the API from elsewhere.
"""
