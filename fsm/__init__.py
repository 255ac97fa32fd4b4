"""Rungwise's core: each model call as an explicit, provably bounded state machine. It does no I/O."""
