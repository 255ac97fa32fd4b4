"""The google-genai SDK: the transport goes into the options of both its HTTP clients; it does not
retry by itself.
"""

from chain import client
from google import genai
from google.genai import types

import rungwise

transport = rungwise.Transport(client)
options = types.HttpOptions(
    client_args={"transport": transport}, async_client_args={"transport": transport}
)
sdk = genai.Client(http_options=options)


def whole() -> str:
    return sdk.models.generate_content(
        model="gemini-2.5-flash", contents="What should a caller expect?"
    ).text


def stream() -> str:
    chunks = sdk.models.generate_content_stream(
        model="gemini-2.5-flash", contents="What should a caller expect?"
    )
    return "".join(chunk.text or "" for chunk in chunks)


async def awhole() -> str:
    answer = await sdk.aio.models.generate_content(
        model="gemini-2.5-flash", contents="What should a caller expect?"
    )
    return answer.text


async def astream() -> str:
    chunks = await sdk.aio.models.generate_content_stream(
        model="gemini-2.5-flash", contents="What should a caller expect?"
    )
    return "".join([chunk.text or "" async for chunk in chunks])


if __name__ == "__main__":
    print(whole())
