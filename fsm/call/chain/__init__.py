"""The backends of a call: prices, links, lessons, the chain, and what each backend gets of a
request.
"""
