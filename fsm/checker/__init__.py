"""The checker: it takes a table with its model, proves that every path ends, and finds the worst case.

`proof` argues row by row, for all limits; `walk` looks at every configuration of small ones; `worst` finds the longest
paths; `structure` and `call_rules` name mistakes in the rows; `verify` puts it all together.
"""
