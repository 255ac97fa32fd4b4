"""A real server before a provider in trouble: its answers in each protocol of `rungwise.ui`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import rungwise
from rungwise.testing import ReceivedRequest, ScriptedReply

WRONG = "The sky is green, as everybody knows."
RIGHT = "The sky is blue, for its air scatters the short waves most."
RECORDED = Path(__file__).with_name("ui_recorded.json")
"""Bodies, and what the official readers made of them."""
LOOK = rungwise.ToolCall("call_1", "look", '{"at": "sky"}')
TROUBLES = ("taken back", "fallback", "cut")


def provider_reply(request: ReceivedRequest) -> ScriptedReply:
    """Answer as the first model should badly, by the trouble that the question names, and as the
    second one well.
    """
    question = request.body["messages"][0]["content"]
    if "tools" in question and not any(
        message["role"] == "tool" for message in request.body["messages"]
    ):
        return ScriptedReply("Let me look.", reasoning="I should look.", tool_calls=(LOOK,))
    is_first = request.body["model"] == "first"
    if "taken back" in question or "tools" in question:
        asked_again = any(
            "green" in str(message["content"]) for message in request.body["messages"][1:]
        )
        return ScriptedReply(RIGHT if asked_again else WRONG, chunk_size=5)
    if "fallback" in question and is_first:
        return ScriptedReply(status=500)
    if "cut" in question and is_first:
        return ScriptedReply(RIGHT[:30], chunk_size=5, cut_after=1_200)
    if "slow" in question:
        return ScriptedReply(RIGHT, chunk_size=5, chunk_delay=0.05)
    if "endless" in question:
        return ScriptedReply(RIGHT * 10, chunk_size=5, chunk_delay=0.05)
    return ScriptedReply(RIGHT, chunk_size=5)


def look(at: str) -> dict[str, str]:
    """Look at something."""
    return {at: "blue"}


def not_green(reply: Any) -> str | None:
    """Say what is wrong with an answer."""
    return "the sky is not green" if "green" in reply.text else None


def app_of(base_url: str) -> Starlette:
    """Serve a chain of two models in each protocol."""
    chain = [rungwise.OpenAIChat(name, base_url=base_url) for name in ("first", "second")]
    client = rungwise.Client(chain, health=None)
    streams = rungwise.ui.ResumableStreams()

    def stream(question: str) -> AsyncIterator[object]:
        if "tools" in question:
            return client.astream_turn(question, tools=[look], verdict=not_green)
        return client.astream(question, verdict=not_green)

    def response(frames: rungwise.ui.Frames | None, **headers: str) -> Response:
        return (
            Response(status_code=204)
            if frames is None
            else StreamingResponse(frames, headers=frames.headers | headers)
        )

    async def plain(request: Request) -> Response:
        return response(rungwise.ui.sse(stream(request.query_params["question"])))

    def threads(request: Request) -> Response:
        return response(
            rungwise.ui.sse(client.stream(request.query_params["question"], verdict=not_green))
        )

    async def kept(request: Request) -> Response:
        if id := request.query_params.get("id"):
            return response(streams.read(id, int(request.headers.get("last-event-id", -1))))
        id = streams.start(rungwise.ui.sse(stream(request.query_params["question"])))
        return response(streams.read(id), **{"x-id": id})

    async def vercel(request: Request) -> Response:
        body = await request.json()
        question = body["messages"][-1]["parts"][0]["text"]
        return response(
            rungwise.ui.vercel(
                stream(question), resets=body.get("resets", True), hold=body.get("hold", False)
            )
        )

    async def ag_ui(request: Request) -> Response:
        body = await request.json()
        named = {"thread_id": body["threadId"], "run_id": body["runId"]}
        return response(
            rungwise.ui.ag_ui(stream(body["messages"][-1]["content"]), body["messages"], **named)
        )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with client, streams:
            yield

    async def recorded(request: Request) -> Response:
        scene = json.loads(RECORDED.read_text(encoding="utf-8"))[request.path_params["scene"]]
        return Response(scene[request.path_params["protocol"]], media_type="text/event-stream")

    posts = [
        Route("/vercel", vercel, methods=["POST"]),
        Route("/ag-ui", ag_ui, methods=["POST"]),
        Route("/recorded/{scene}/{protocol}", recorded, methods=["POST"]),
    ]
    return Starlette(
        routes=[Route("/sse", plain), Route("/threads", threads), Route("/kept", kept), *posts],
        lifespan=lifespan,
    )


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an app on a thread, and return its URL; what arrives before it has started waits in the
    socket.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
