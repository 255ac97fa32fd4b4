"""A finish reason in two words: one behind a colon, or one of the server behind a gateway in a
field of its own. The one that is known counts, and of two that differ the cut or refusal.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.core import Reply
from rungwise.testing import ScriptedReply
from support import protocols
from support.protocols import backend
from support.streams import rendered

TEXT: Final = "Herons nest in the reeds."
ODD: Final = "gremlins"
BODIES: Final = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "openai": {"clean": "stop", "cut": "max_tokens", "refused": "SAFETY"},
    "responses": {"clean": "completed", "cut": "max_output_tokens", "refused": "content_filter"},
    "anthropic": {"clean": "end_turn", "cut": "max_tokens", "refused": "refusal"},
    "gemini": {"clean": "STOP", "cut": "MAX_TOKENS", "refused": "SAFETY"},
    "interactions": {"clean": "completed", "cut": "incomplete"},
    "ollama": {"clean": "stop", "cut": "length"},
    "bedrock": {"clean": "end_turn", "cut": "max_tokens", "refused": "content_filtered"},
}
"""What each protocol says of three ends. Two have no word for a refusal."""

MEANS: Final = {"clean": "stop", "cut": "length", "refused": "content_filter", "odd": "unknown"}
FIELDS: Final = (
    b'"finish_reason":',
    b'"stop_reason":',
    b'"finishReason":',
    b'"done_reason":',
    b'"stopReason":',
    b'"background":',  # a response of OpenAI's has a status and details, so that any place will do
    b'"object":"interaction"',
)


def read(api: str, body: bytes, *, stream: bool) -> Reply:
    asked = backend(api, "http://localhost:1/v1")
    decoder = asked.decoder({})
    if stream:
        decoder.feed(body)
        reply = decoder.close()
    else:
        reply = asked.decode(200, {}, body)
    assert isinstance(reply, Reply)
    assert reply.text == TEXT
    return reply


def body_of(api: str, word: str, *, native: str | None = None, stream: bool) -> bytes:
    """Return a body whose finish reason is a word, with one of the server behind beside it."""
    if api == "bedrock" and stream:
        said = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": TEXT}})
        end = {"stopReason": word}
        if native is not None:
            end["native_finish_reason"] = native
        return said + frame("messageStop", end)
    asked = backend(api, "http://localhost:1/v1")
    finish = None if word == "completed" else word
    body = rendered(asked, ScriptedReply(TEXT, finish=finish, usage={}), streams=stream)
    if native is not None:
        beside = b'"native_finish_reason":"%b",' % native.encode()
        for name in FIELDS:
            body = body.replace(name, beside + name)
    return body


def word_of(api: str, end: str) -> str:
    return ODD if end == "odd" else WORDS[api][end]


def with_protocols(*cases: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return each case for each protocol that has its words."""
    of_all = []
    for api in protocols.PROTOCOLS:
        for case in cases:
            if "refused" in WORDS[api] or "refused" not in case:
                of_all.append((api, *case))
    return of_all


@BODIES
@pytest.mark.parametrize(
    ("api", "own", "native", "counts"),
    with_protocols(
        ("clean", "cut", "cut"),
        ("clean", "refused", "refused"),
        ("odd", "cut", "cut"),
        ("odd", "refused", "refused"),
        ("odd", "clean", "clean"),
        ("odd", "odd", "odd"),
        ("clean", "odd", "clean"),
        ("cut", "clean", "cut"),
        ("cut", "odd", "cut"),
        ("refused", "cut", "refused"),
    ),
)
def test_of_two_that_differ_the_known_and_the_worse_counts(
    api: str, own: str, native: str, counts: str, stream: bool
) -> None:
    body = body_of(api, word_of(api, own), native=word_of(api, native), stream=stream)
    assert read(api, body, stream=stream).stop_reason == MEANS[counts]


@BODIES
@pytest.mark.parametrize(
    ("api", "written", "counts"),
    with_protocols(
        ("{refused}: violence", "refused"),
        ("function_call_filter: {cut}", "cut"),
        ("{clean}: {cut}", "cut"),
        ("gremlins: seven", "odd"),
        # what nobody knows beside a clean end may take it back
        ("{clean}: gremlins", "odd"),
    ),
)
def test_a_known_word_behind_or_before_a_colon_counts(
    api: str, written: str, counts: str, stream: bool
) -> None:
    word = written.format(**WORDS[api])
    reply = read(api, body_of(api, word, stream=stream), stream=stream)
    assert reply.stop_reason == MEANS[counts]
    assert reply.stop_raw == word


@BODIES
@pytest.mark.parametrize(
    ("api", "word", "reason"),
    [
        ("openai", "function_call_filter: MALFORMED_FUNCTION_CALL", "server_error"),
        ("gemini", "function_call_filter: MALFORMED_FUNCTION_CALL", "failed_generation"),
        ("bedrock", "filter: malformed_tool_use", "failed_generation"),
    ],
)
def test_a_call_that_the_server_could_not_read_is_a_failure(
    api: str, word: str, reason: str, stream: bool
) -> None:
    reply = read(api, body_of(api, word, stream=stream), stream=stream)
    assert reply.failure is not None
    assert (reply.failure.reason, reply.failure.code) == (reason, word)


@pytest.mark.parametrize("native", [None, "", [], {"type": "max_tokens"}, 7, "native", "stop"])
def test_what_is_no_word_of_a_server_takes_nothing_away(native: Any) -> None:
    decoder = backend("openai", "http://localhost:1/v1").decoder({})
    choice = {"message": {"content": TEXT}, "finish_reason": "stop", "native_finish_reason": native}
    assert decoder.read_object({"choices": [choice]}, b"").stop_reason == "stop"


def test_the_word_of_the_server_behind_ends_nothing_by_itself() -> None:
    decoder = backend("openai", "http://localhost:1/v1").decoder({})
    choice = {"index": 0, "delta": {"content": TEXT}, "native_finish_reason": "stop"}
    decoder.feed(b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode())
    reply = decoder.close()
    assert (reply.text, reply.stop_reason, reply.interrupted) == (TEXT, None, True)
