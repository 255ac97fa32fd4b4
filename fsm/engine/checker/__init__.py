"""A checker for any table: it proves that every path ends, walks over the machine that runs, and
finds worst cases.

`structure` finds mistakes in the rows; `proof` argues row by row, for all limits; `walk` visits
every configuration under small limits; `longest` finds the heaviest path by your weights, over the
counters that `tracking` chooses; `check` refuses a table that cannot be proved.
"""
