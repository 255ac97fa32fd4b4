"""The openai SDK with its defaults, streamed."""

import openai

stream = openai.OpenAI().chat.completions.create(
    model="gpt-5",
    messages=[{"role": "user", "content": "What should a caller expect?"}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
