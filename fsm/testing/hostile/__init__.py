"""Bytes of a hostile server, one kind of hostility per file."""
