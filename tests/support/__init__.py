"""Helpers shared by tests of several rooms; import them as `support`, since pytest has `tests` on
its path.
"""
