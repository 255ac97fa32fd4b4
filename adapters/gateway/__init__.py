"""Answer other programs' requests with calls of a client, in the protocols that their SDKs speak.

A request goes through these modules in order:

* `transport` (httpx), `asgi` and `proxy` receive it, and carry the answer back.
* `gateway` chooses who answers it, and `reading` makes options of a call from its `fields`.
* `call` runs the call, and `forwarded` is for what no chain can express.
* `serving` has who asks and what they may, and requests beside model calls.
* `writing` and `answers` say what the answer is, and `pump` writes that of a stream piece by piece;
  how each protocol writes it stands in `languages`.
"""
