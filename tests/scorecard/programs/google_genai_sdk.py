"""The google-genai SDK with its defaults, streamed."""

import os

from google import genai

client = genai.Client(api_key=os.environ["GEMINI_API_KEY"])
for chunk in client.models.generate_content_stream(
    model="gemini-2.5-pro", contents="What should a caller expect?"
):
    print(chunk.text or "", end="", flush=True)
