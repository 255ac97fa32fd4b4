"""A policy or a journal, looked at from outside a call."""
