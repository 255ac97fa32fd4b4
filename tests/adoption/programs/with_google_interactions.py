"""google-genai's `client.interactions`: the transport goes into the options of both its HTTP
clients, and its own retries are turned off.
"""

from chain import client
from google import genai
from google.genai import types

import rungwise

transport = rungwise.Transport(client)
options = types.HttpOptions(
    client_args={"transport": transport},
    async_client_args={"transport": transport},
    retry_options=types.HttpRetryOptions(attempts=1),
)
sdk = genai.Client(http_options=options)


def whole() -> str:
    return sdk.interactions.create(
        model="gemini-3-flash", input="What should a caller expect?"
    ).output_text


def stream() -> str:
    events = sdk.interactions.create(
        model="gemini-3-flash", input="What should a caller expect?", stream=True
    )
    return "".join(event.delta.text for event in events if event.event_type == "step.delta")


async def awhole() -> str:
    answer = await sdk.aio.interactions.create(
        model="gemini-3-flash", input="What should a caller expect?"
    )
    return answer.output_text


async def astream() -> str:
    events = await sdk.aio.interactions.create(
        model="gemini-3-flash", input="What should a caller expect?", stream=True
    )
    return "".join([each.delta.text async for each in events if each.event_type == "step.delta"])


if __name__ == "__main__":
    print(whole())
