"""A web endpoint that streams an answer as server-sent events, and stops the call when the reader
leaves.

    python tests/examples/web_endpoint.py
    curl -N "http://localhost:8000/answer?question=Why+is+the+sky+blue"      # Ctrl-C ends the call,
    too

It plays against the embedded provider, without a key; `--model` (and `--base-url`) asks a real one.
Needs Starlette and uvicorn. An `x-deadline` header of the reader's is kept, and passed on to the
provider.
"""

import argparse
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import rungwise

DEADLINE = "x-deadline"
UNBUFFERED = {"cache-control": "no-store", "x-accel-buffering": "no"}  # the second one is for nginx


class Answer(StreamingResponse):
    """Stream a call; it ends with this response, be that because the reader has left or because all
    was said.
    """

    def __init__(self, stream: rungwise.core.AsyncStream) -> None:
        super().__init__(events(stream), media_type="text/event-stream", headers=UNBUFFERED)
        self.stream = stream

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        async with self.stream:
            await super().__call__(scope, receive, send)


async def events(stream: rungwise.core.AsyncStream) -> AsyncIterator[str]:
    """Write what comes as events: `text`, `discard` (as many characters to take back), and last
    `done` or `error`.
    """
    try:
        async for event in stream:
            match event:
                case rungwise.Text(text):
                    yield sse("text", text)
                case rungwise.Discard(text):
                    yield sse("discard", len(text))
                case rungwise.Result():
                    yield sse("done", event.outcome)
    except rungwise.CallError as error:
        # the whole of it names our backends: that is for our own log
        yield sse("error", error.result.outcome)


def sse(event: str, data: object) -> str:
    """Write one event."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


def app_of(backend: rungwise.core.Backend) -> Starlette:
    """Serve a backend; one client, and its connections, for as long as the server runs."""
    client = rungwise.Client(
        backend, policy=rungwise.Policy.interactive(), deadline_header=DEADLINE
    )

    async def answer(request: Request) -> Response:
        question = request.query_params.get("question")
        if not question:
            return PlainTextResponse("Ask a question.", 400)
        # and no cookie
        passed_on = {name: value for name, value in request.headers.items() if name == DEADLINE}
        try:
            return Answer(client.astream(question, headers=passed_on, max_tokens=1_000))
        except rungwise.ConfigurationError as error:  # the deadline is none
            return PlainTextResponse(str(error), 400)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    return Starlette(routes=[Route("/answer", answer)], lifespan=lifespan)


SKY = (
    "The air scatters the short waves of the light most, and so the sky is blue wherever no sun "
    "is. " * 3
)
PLAYED = rungwise.testing.Script(
    [
        rungwise.testing.ScriptedReply(status=503),
        rungwise.testing.ScriptedReply(SKY, chunk_delay=0.1),
    ]
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument("--base-url", default="https://api.openai.com/v1")
    options = parser.parse_args()
    with rungwise.testing.EmbeddedProvider(PLAYED) as provider:
        url = options.base_url if options.model else provider.base_url
        backend = rungwise.OpenAIChat(options.model or "played", base_url=url)
        uvicorn.run(app_of(backend), timeout_graceful_shutdown=2)
