"""Bytes of a hostile server, a kind of hostility to a file."""
