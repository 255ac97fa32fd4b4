"""The part of the fuzz kit with adapters: a provider without sockets, scripts, `rungwise fuzz`.

It needs Hypothesis: `pip install 'rungwise[testing]'`.
"""

import rungwise.fsm.testing  # noqa: F401  (it raises if Hypothesis is missing)
