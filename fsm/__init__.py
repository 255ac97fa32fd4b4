"""Rungwise's core: each model call as an explicit, provably bounded state machine. It does no I/O.

How calls and turns behave, whoever does the I/O, is written down in the reference: budgets, time
and silence, reading a reply, checked answers, ladders of your own, turns.
https://github.com/rungwise/rungwise/blob/main/docs/pages/reference/calls-behave.md
"""
