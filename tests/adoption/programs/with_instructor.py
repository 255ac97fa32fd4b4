"""instructor, over the openai SDK with the transport.

Rungwise checks the answer against the schema already. `hold=True` keeps a streamed answer until it
is final: one that was cut is asked for anew, since half of an object cannot be continued.
"""

import instructor
import openai
from chain import client
from pydantic import BaseModel

import rungwise


class Advice(BaseModel):
    answer: str


transport = rungwise.Transport(client, hold=True)
sdk = openai.OpenAI(http_client=openai.DefaultHttpxClient(transport=transport), max_retries=0)
async_sdk = openai.AsyncOpenAI(
    http_client=openai.DefaultAsyncHttpxClient(transport=transport), max_retries=0
)
structured = instructor.from_openai(sdk, mode=instructor.Mode.JSON_SCHEMA)
async_structured = instructor.from_openai(async_sdk, mode=instructor.Mode.JSON_SCHEMA)

ASKED = {
    "model": "gpt-5",
    "messages": [{"role": "user", "content": "What should a caller expect?"}],
    "response_model": Advice,
    "max_retries": 0,
}


def whole() -> str:
    return structured.chat.completions.create(**ASKED).answer


def stream() -> str:
    return [*structured.chat.completions.create_partial(**ASKED)][-1].answer


async def awhole() -> str:
    return (await async_structured.chat.completions.create(**ASKED)).answer


async def astream() -> str:
    partial = [each async for each in async_structured.chat.completions.create_partial(**ASKED)]
    return partial[-1].answer


if __name__ == "__main__":
    print(whole())
