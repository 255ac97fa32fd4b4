"""Each stop reason and each error of Converse, and what a call makes of it."""

import json
from typing import Any

import pytest

from rungwise import Bedrock
from rungwise.adapters.provider.languages.bedrock import frame
from rungwise.core import Failure
from rungwise.fsm.failures.failure import event_of_failure
from support.classified import settled

BACKEND: Any = Bedrock("anthropic.claude-opus-5-5", region="eu-north-1", base_url="http://localhost/v1", api_key="k9d2")
TEXT = {"text": "In the reeds."}
USE = {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"bird": "heron"}}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}
USAGE = {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}


def whole(stop: Any, *content: Any) -> bytes:
    told = {"output": {"message": {"role": "assistant", "content": [*content]}}, "stopReason": stop, "usage": USAGE}
    return json.dumps(told).encode()


def streamed(stop: Any, *content: Any) -> bytes:
    pieces = [frame("messageStart", {"role": "assistant"})]
    for index, block in enumerate(content):
        at = {"contentBlockIndex": index}
        if "toolUse" in block:
            use = block["toolUse"]
            pieces.append(frame("contentBlockStart", {**at, "start": {"toolUse": {**use, "input": None}}}))
            block = {"toolUse": {"input": json.dumps(use["input"])}}
        elif "reasoningContent" in block:
            pieces.append(frame("contentBlockDelta", {**at, "delta": {"reasoningContent": {"text": "Hm."}}}))
            block = {"reasoningContent": {"signature": "s"}}
        pieces += [frame("contentBlockDelta", {**at, "delta": block, "p": "abc"}), frame("contentBlockStop", at)]
    pieces.append(frame("messageStop", {"stopReason": stop}))
    return b"".join([*pieces, frame("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}})])


def read_stream(body: bytes) -> Any:
    decoder = BACKEND.decoder({})
    decoder.feed(body)
    return decoder.close()


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("stop", "content", "meaning", "event"),
    [
        ("end_turn", [TEXT], "stop", "answered"),
        ("end_turn", [], "stop", "came_empty"),
        ("stop_sequence", [TEXT], "stop", "answered"),
        ("max_tokens", [TEXT], "length", "truncated"),
        ("max_tokens", [USE], "length", "tools_truncated"),
        ("max_tokens", [THOUGHT], "length", "reasoning_truncated"),
        ("tool_use", [TEXT, USE], "tool_calls", "called_tools"),
        ("guardrail_intervened", [TEXT], "content_filter", "refused"),
        ("content_filtered", [], "content_filter", "refused"),
        ("model_context_window_exceeded", [TEXT], "overflow", "overflowed"),
        ("malformed_model_output", [], "error", "failed_transiently"),
        ("malformed_tool_use", [USE], "error", "failed_transiently"),
        ("malformed_tool_use", [TEXT, USE], "error", "interrupted"),
        ("gremlins", [TEXT], "unknown", "malformed"),
        (7, [TEXT], "unknown", "malformed"),
        (None, [TEXT], None, "interrupted"),
    ],
)
def test_each_stop_reason_is_an_event_and_stands_in_the_journal(
    streams: bool, stop: Any, content: list[Any], meaning: Any, event: str
) -> None:
    came = read_stream(streamed(stop, *content)) if streams else BACKEND.decode(200, {}, whole(stop, *content))
    assert came.stop_reason == meaning
    step = settled(BACKEND, came)
    assert step.event == event
    assert step.stop_raw == (None if stop is None else str(stop)) or step.code == stop
    if meaning == "error":
        assert not came.tool_calls
        assert (step.reason, step.code) == ("failed_generation", stop)


ERRORS = [
    (400, "ValidationException", "The model returned the following errors: bad", "format"),
    (400, "ValidationException", "Input is too long for requested model.", "context_overflow"),
    (400, "ValidationException", "prompt is too long: 210000 tokens > 200000 maximum", "context_overflow"),
    (400, "ValidationException", "The provided model identifier is invalid.", "model_not_found"),
    (
        400,
        "ValidationException",
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "prefill_unsupported",
    ),
    (
        400,
        "ValidationException",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "reasoning_signature",
    ),
    (400, "ServiceQuotaExceededException", "Your request exceeds the service quota.", "rate_limit"),
    (403, "AccessDeniedException", "You don't have access to the model.", "auth"),
    (403, "UnrecognizedClientException", "The security token included in the request is invalid.", "auth"),
    (403, "ExpiredTokenException", "The security token included in the request is expired", "auth"),
    (404, "ResourceNotFoundException", "Model not found.", "model_not_found"),
    (408, "ModelTimeoutException", "Model has timed out.", "timeout"),
    (424, "ModelErrorException", "The model had an error.", "server_error"),
    (429, "ThrottlingException", "Too many requests, please wait before trying again.", "rate_limit"),
    (429, "ThrottlingException", "Too many tokens, please wait before trying again.", "rate_limit"),
    (429, "ModelNotReadyException", "The model is not ready for inference.", "overloaded"),
    (500, "InternalServerException", "The server had an internal error.", "server_error"),
    (503, "ServiceUnavailableException", "Bedrock is unable to process your request.", "overloaded"),
]


@pytest.mark.parametrize("where", ["header", "body"])
@pytest.mark.parametrize(("status", "kind", "message", "reason"), ERRORS)
def test_each_error_has_its_reason(status: int, kind: str, message: str, reason: str, where: str) -> None:
    headers = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/"} if where == "header" else {}
    body = {"message": message, **({"__type": f"com.amazon#{kind}"} if where == "body" else {})}
    failure = BACKEND.decode(status, headers, json.dumps(body).encode())
    assert (failure.reason, failure.code, failure.status) == (reason, kind, status)
    step = settled(BACKEND, failure)
    assert (step.event, step.reason, step.code, step.status) == (event_of_failure(failure), reason, kind, status)


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        ("internalServerException", "Sorry.", "server_error"),
        ("modelStreamErrorException", "The model broke off.", "server_error"),
        ("validationException", "Input is too long for requested model.", "context_overflow"),
        ("throttlingException", "Too many tokens, please wait before trying again.", "rate_limit"),
        ("serviceUnavailableException", "Try again.", "overloaded"),
        ("modelTimeoutException", "The model has timed out.", "timeout"),
    ],
)
@pytest.mark.parametrize("text", ["", "In the"])
def test_exceptions_are_events(kind: str, message: str, reason: str, text: str) -> None:
    start = frame("messageStart", {"role": "assistant"})
    if text:
        start += frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}})
    came = read_stream(start + frame(kind, {"message": message}, is_exception=True))
    failure = came if isinstance(came, Failure) else came.failure
    assert (failure.reason, failure.code) == (reason, kind)
    step = settled(BACKEND, came)
    assert (step.reason, step.code) == (reason, kind)
    if text:
        assert (came.text, step.event) == (text, "interrupted")
