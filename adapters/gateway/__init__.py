"""Answer other programs' requests with calls of a client, in the protocols that their SDKs speak.

`reading` makes options of a request, `gateway` chooses who answers it, `call` runs the call and
writes the answer with `languages`. `transport` (httpx), `asgi` and `proxy` carry both to and fro.
`forwarded` is for what no chain can express.
"""
