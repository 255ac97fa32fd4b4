"""The checker of any table: it proves that every path ends, walks over the machine that runs, and finds worst cases.

`structure` names mistakes in the rows; `proof` argues row by row, for all limits; `walk` looks at every configuration
of small ones; `longest` finds the heaviest path by weights of your own; `check` refuses a table that cannot be proved.
"""
