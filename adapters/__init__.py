"""Rungwise's outside: wire formats, the client that runs calls over HTTP, and the command line."""
