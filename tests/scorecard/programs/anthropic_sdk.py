"""The anthropic SDK with its defaults, streamed."""

import anthropic

with anthropic.Anthropic().messages.stream(
    model="claude-sonnet-5",
    max_tokens=1024,
    messages=[{"role": "user", "content": "What should a caller expect?"}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
