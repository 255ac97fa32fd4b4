"""The health of backends, as what many calls remember of each: the third table, and what follows
from it.
"""
