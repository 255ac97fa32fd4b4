"""Streams of calls and turns in the protocols of user interfaces."""
