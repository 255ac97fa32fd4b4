"""Chat completions: the protocol of OpenAI and of those who speak it."""
