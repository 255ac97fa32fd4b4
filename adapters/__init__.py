"""Rungwise's outside: wire formats, the client that runs calls over HTTP, and the command line.

How clients behave is written down in the reference: messages, the chain, time and cancelling,
sharing, secrets, SDKs on the transport, HTTP clients of your own.
https://github.com/rungwise/rungwise/blob/main/docs/pages/reference/clients-behave.md
"""
