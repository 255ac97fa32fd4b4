"""Answers in another medium, whole and streamed, in every protocol: they are answers, kept as
parts, with a transcript as text; and so is what nobody has heard of, if it carries media.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from rungwise import MediaPart, OpenAIChat, Text
from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.core import OpaquePart, Reply
from support.modes import EVERY, streams
from support.protocols import backend
from support.runs import Run, Stage

pytestmark = pytest.mark.sampled(4)

HALF: Final = base64.b64encode(b"herons, in one").decode()
REST: Final = base64.b64encode(b" medium or another").decode()
DATA: Final = base64.b64encode(b"herons, in one medium or another").decode()
PNG: Final = "iVBORw0KGgoAAAANSUhEUg=="
SAID: Final = "Herons nest in the reeds."
END: Final = {"finish_reason": "stop", "index": 0}


def chat(message: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{**END, "message": {"role": "assistant", **message}}]}


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


def bedrock(*content: dict[str, Any]) -> dict[str, Any]:
    return {"output": {"message": {"content": content}}, "stopReason": "end_turn"}


def ollama(**message: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "", **message}
    return {"model": "m", "message": message, "done": True, "done_reason": "stop"}


def response(*output: dict[str, Any]) -> dict[str, Any]:
    return {"object": "response", "status": "completed", "output": output}


def anthropic(*content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "content": content, "stop_reason": "end_turn"}


AUDIO: Final = {"id": "audio_1", "data": DATA, "transcript": SAID, "expires_at": 9}
SOURCE: Final = {"source": {"bytes": DATA}}
URL: Final = "https://lake.example/heron"
UNHEARD: Final = {"type": "hologram", "media_type": "model/gltf-binary", "data": DATA}
UNHEARD_TOO: Final = {"type": "scent", "scent": {"mimeType": "x-scent/reed", "uri": URL}}
WHOLE: Final[Mapping[str, tuple[str, dict[str, Any], str, str]]] = {
    "audio": ("openai", chat({"content": None, "audio": AUDIO}), "audio", SAID),
    "audio of a gateway": ("openai", chat({"content": "", "audio": {"data": DATA}}), "audio", ""),
    "a picture": (
        "openai",
        chat({"content": [{"type": "image_url", "image_url": {"url": URL}}]}),
        "image",
        "",
    ),
    "inline": (
        "gemini",
        gemini({"inlineData": {"mimeType": "audio/wav", "data": DATA}}),
        "audio",
        "",
    ),
    "a file": (
        "gemini",
        gemini({"fileData": {"mimeType": "video/mp4", "fileUri": URL}}),
        "video",
        "",
    ),
    "image": ("bedrock", bedrock({"image": {"format": "png", **SOURCE}}), "image", ""),
    "sound": ("bedrock", bedrock({"audio": {"format": "opus", **SOURCE}}), "audio", ""),
    "video": ("bedrock", bedrock({"video": {"format": "mp4", **SOURCE}}), "video", ""),
    "beside text": (
        "bedrock",
        bedrock({"text": SAID}, {"image": {"format": "png", **SOURCE}}),
        "image",
        SAID,
    ),
    "images": ("ollama", ollama(images=[PNG]), "image", ""),
    "a drawing": (
        "anthropic",
        anthropic(
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
        ),
        "image",
        "",
    ),
}
OWN: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "filmed": ("anthropic", anthropic({"type": "video", "source": {"type": "url", "url": URL}})),
    "drawn": ("responses", response({"type": "image_generation_call", "result": DATA})),
    "generated": ("responses", response({"type": "film_generation_call", "result": DATA})),
    "unheard of, an item": ("responses", response(UNHEARD)),
    "unheard of, in a message": ("responses", response({"type": "message", "content": [UNHEARD]})),
    "unheard of, a block": ("anthropic", anthropic(UNHEARD_TOO)),
    "unheard of, a part": ("gemini", gemini({"hologram": {"mimeType": "x/y", "data": DATA}})),
    "unheard of, in chat": ("openai", chat({"content": [UNHEARD]})),
    "unheard of, at Bedrock": ("bedrock", bedrock({"scent": {"mediaType": "x/y", "url": URL}})),
}


@pytest.fixture
def play(stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture, api: str, mode: str) -> Run:
    return Run(mode, stages, caplog, api)


def decoded(api: str, body: dict[str, Any]) -> Any:
    at: Any = backend(api, "http://localhost:1")
    return at.decode(200, {"content-type": "application/json"}, json.dumps(body).encode())


def event_of(reply: Any) -> str:
    from support.classified import settled

    backend_: Any = OpenAIChat("m", base_url="http://localhost/v1", name="primary")
    return str(settled(backend_, reply).event)


@pytest.mark.parametrize("case", WHOLE)
def test_a_whole_reply_in_another_medium_is_an_answer(case: str) -> None:
    api, body, kind, text = WHOLE[case]
    reply = decoded(api, body)
    assert isinstance(reply, Reply)
    [media] = [part for part in reply.parts if isinstance(part, MediaPart)]
    assert (media.kind, reply.text) == (kind, text)
    assert DATA in (media.data, DATA if media.url or media.data == PNG else "")
    assert event_of(reply) == "answered"


@pytest.mark.parametrize("case", OWN)
def test_what_only_its_provider_reads_is_an_answer_too(case: str) -> None:
    api, body = OWN[case]
    reply = decoded(api, body)
    assert reply.has_own_answer
    assert [part.is_answer for part in reply.parts if isinstance(part, OpaquePart)][-1]
    assert event_of(reply) == "answered"


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("anthropic", anthropic({"type": "web_fetch_tool_result", "content": {"url": URL}})),
        ("gemini", gemini({"executableCode": {"language": "PYTHON", "code": "1"}})),
        ("bedrock", bedrock({"cachePoint": {"type": "default"}})),
        ("responses", response({"type": "web_search_call", "action": {"url": URL}})),
        ("openai", chat({"content": [], "audio": {"id": "a", "data": ""}})),
    ],
)
def test_what_carries_no_media_is_none(api: str, body: dict[str, Any]) -> None:
    assert event_of(decoded(api, body)) == "came_empty"


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def delta(**members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members}]}


STREAMS: Final[Mapping[str, tuple[str, bytes, str]]] = {
    "audio": (
        "openai",
        sse(
            delta(role="assistant", audio={"id": "audio_1", "transcript": SAID[:7]}),
            delta(audio={"transcript": SAID[7:]}),
            delta(audio={"data": HALF}),
            delta(audio={"data": REST}),
            delta(audio={"expires_at": 9}),
            {"choices": [{**END, "delta": {}}]},
        ),
        SAID,
    ),
    "transcribed": (
        "gemini",
        sse(
            gemini({"audioTranscription": {"text": SAID[:7]}}),
            gemini({"audio_transcription": {"text": SAID[7:], "finished": True}}),
            gemini({"inlineData": {"mimeType": "audio/wav", "data": DATA}}),
        ),
        SAID,
    ),
    "images": ("ollama", json.dumps(ollama(images=[DATA])).encode() + b"\n", ""),
    "converse": (
        "bedrock",
        b"".join(
            frame(name, event)
            for name, event in [
                ("messageStart", {"role": "assistant"}),
                (
                    "contentBlockStart",
                    {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}},
                ),
                *[
                    (
                        "contentBlockDelta",
                        {"contentBlockIndex": 0, "delta": {"image": {"source": {"bytes": piece}}}},
                    )
                    for piece in (HALF, REST)
                ],
                ("contentBlockStop", {"contentBlockIndex": 0}),
                ("messageStop", {"stopReason": "end_turn"}),
            ]
        ),
        "",
    ),
}


@pytest.mark.parametrize("case", STREAMS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_streamed_one_is_joined(case: str, size: int) -> None:
    api, body, text = STREAMS[case]
    at: Any = backend(api, "http://localhost:1")
    decoder = at.decoder({})
    shown = ""
    for start in range(0, len(body), size):
        deltas = decoder.feed(body[start : start + size])
        shown += "".join(each.text for each in deltas if isinstance(each, Text))
    assert decoder.size < 20_000 + len(DATA)
    reply = decoder.close()
    [media] = [part for part in reply.parts if isinstance(part, MediaPart)]
    assert (media.data, reply.text, shown) == (DATA, text, text)
    assert not reply.interrupted
    assert event_of(reply) == "answered"


@pytest.mark.parametrize("api", ["openai"])
@pytest.mark.parametrize("mode", EVERY)
def test_it_is_asked_for_once(play: Run) -> None:
    from rungwise.testing import ScriptedReply

    headers = {"content-type": "application/json"}
    body = json.dumps(chat({"content": None, "audio": AUDIO}))
    ended = play([ScriptedReply(body=body, headers=headers)])
    ended.was("done", SAID, counts=[1])
    assert any(isinstance(part, MediaPart) for part in ended.result.message.parts)
    assert not streams(play.mode) or ended.events
