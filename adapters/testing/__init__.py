"""The fuzz kit's outside: a provider without sockets, strategies for its scripts, and what `rungwise fuzz` runs.

It needs Hypothesis: `pip install 'rungwise[testing]'`.
"""

import rungwise.fsm.testing  # noqa: F401  (it raises if Hypothesis is missing)
