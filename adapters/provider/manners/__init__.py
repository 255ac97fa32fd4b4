"""Manners: the ways in which servers say a reply otherwise than their protocol does, as data.

    events.py                                       an event of a stream, before it is framed
    places.py                                       where each protocol says what
    identity.py content.py ending.py framing.py     what the manners change: small pure functions
    catalogue.toml                                  every manner, with the servers where it was seen
    catalogue.py                                    which function each manner is
    encoder.py                                      says a reply in some of them

Whoever adds a manner writes a table in `catalogue.toml` and names its function; the script, the
fuzz kit, the property test and the table in the documentation follow from it.
"""
