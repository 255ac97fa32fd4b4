"""Answer other people's requests with calls of a client, in the protocols that their SDKs speak."""
