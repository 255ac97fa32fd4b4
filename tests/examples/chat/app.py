"""A chat page that shows what happens behind an answer: rungs, text that is taken back, lost
connections, `explain`.

    python tests/examples/chat/app.py      # then open http://localhost:8000

It plays against the embedded provider, whose two models misbehave by question, without a key;
`--model` (and `--base-url`) asks a real one. Needs Starlette and uvicorn. The page is one file,
`index.html`, without a build step.
"""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

import rungwise
from rungwise.fsm.turn.explained import explain_call, read_call

MOST_JOURNALS = 100
POLICY = rungwise.Policy.interactive(timeouts=rungwise.Timeouts(first_token=10.0, stall=2.5))


def app_of(chain: list[rungwise.core.Backend]) -> Starlette:
    """Serve the page before a chain. Whoever has an id may read its stream: a real application
    checks the user.
    """
    client = rungwise.Client(chain, policy=POLICY, health=None)
    streams = rungwise.ui.ResumableStreams()
    journals: dict[str, rungwise.Journal] = {}

    async def events(stream: rungwise.core.AsyncStream, name: str) -> AsyncIterator[object]:
        """Hand the events on, and keep the journal for `explain`."""
        try:
            async with stream:
                async for event in stream:
                    yield event
        finally:
            journals[name] = stream.result.journal
            for old in list(journals)[:-MOST_JOURNALS]:
                del journals[old]

    async def ask(request: Request) -> Response:
        asked = await request.json()
        stream = client.astream(asked["messages"], verdict=not_by_train, max_tokens=1_000)
        id = streams.start(rungwise.ui.sse(events(stream, asked["name"])))
        return shown(streams.read(id), id)

    async def resume(request: Request) -> Response:
        id = request.path_params["id"]
        return shown(streams.read(id, request.headers.get("last-event-id", "")), id)

    async def cancel(request: Request) -> Response:
        streams.cancel(request.path_params["id"])
        return Response(status_code=204)

    async def explain(request: Request) -> Response:
        journal = journals.get(request.path_params["name"])
        return (
            HTMLResponse(explain_call(read_call(journal.to_json())))
            if journal
            else Response(status_code=404)
        )

    async def page(request: Request) -> Response:
        return FileResponse(Path(__file__).with_name("index.html"))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with client, streams:
            yield

    routes = [
        Route("/", page),
        Route("/ask", ask, methods=["POST"]),
        Route("/stream/{id}", resume),
        Route("/cancel/{id}", cancel, methods=["POST"]),
        Route("/explain/{name}", explain),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def shown(frames: rungwise.ui.Frames | None, id: str) -> Response:
    """Return a stream as a response; 204 if nothing is left of it."""
    if frames is None:
        return Response(status_code=204)
    return StreamingResponse(frames, headers={**frames.headers, "x-stream": id})


def not_by_train(reply: rungwise.core.Reply) -> str | None:
    """Judge an answer: one that is wrong is taken back, and goes back to the model with the
    reason.
    """
    return "no train goes to the Moon; give the distance" if "train" in reply.text else None


SKY = (
    "Sunlight holds every colour. On its way through the air it meets molecules that are far "
    "smaller than its waves, and these scatter short waves much more than long ones. So blue light "
    "reaches your eyes from everywhere, and red light mostly from where the sun is. At sunset the "
    "light takes a longer way: most of the blue is gone by then, and what is left is orange."
)
STARS = (
    "A star is so far away that it is a point of light. The air above you moves, and its warm and "
    "cold layers bend that thin ray this way and that, many times a second, so the star seems to "
    "flicker. A planet is a small disc. Its many rays flicker too, but not together, and your eye "
    "sees their mean: planets shine with a steady light."
)
TRAIN = "The Moon is 384,400 km away. The fastest train needs about 40 days for that, so buy"
MOON = (
    "The Moon is 384,400 km away on average. Light needs 1.3 seconds for that, and Apollo "
    "11 took three days."
)
THUNDER = (
    "A lightning bolt heats the air around it to some 30,000 degrees within a few millionths of a "
    "second. The air has no time to give way, so its pressure leaps, and it bursts outwards as a "
    "shock wave. That wave is the crack that you hear; the rumble behind it comes from the far "
    "ends of the bolt."
)


def played(request: rungwise.testing.ReceivedRequest) -> rungwise.testing.ScriptedReply:
    """Answer well or badly, by the last question and by which model is asked."""
    texts = [str(message["content"]) for message in request.body["messages"]]
    question = next(
        text for text in reversed(texts) if "?" in text and "continue" not in text.lower()
    )
    said = texts[-2] if len(texts) > 1 else ""
    is_first = request.body["model"] == "swift-1"
    reply = partial(rungwise.testing.ScriptedReply, chunk_size=7, chunk_delay=0.03)
    if "star" in question:
        return reply(STARS, cut_after=6_000 if is_first else None, hang=is_first)
    if "Moon" in question:
        return reply(MOON if "train" in said or "train" in texts[-1] else TRAIN)
    if "thunder" in question:
        is_continued = any(THUNDER[:20] in text for text in texts)
        return reply(THUNDER, cut_after=None if is_continued else 5_000)
    return reply(SKY)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument("--base-url", default="https://api.openai.com/v1")
    options = parser.parse_args()
    with rungwise.testing.EmbeddedProvider(played) as provider:
        url = options.base_url if options.model else provider.base_url
        names = [options.model] if options.model else ["swift-1", "steady-2"]
        uvicorn.run(
            app_of([rungwise.OpenAIChat(name, base_url=url) for name in names]),
            timeout_graceful_shutdown=2,
        )
