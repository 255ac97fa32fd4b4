"""Each finish reason and each error that Gemini documents: what a call makes of it, and its word in the journal."""

import json
from typing import Any

import pytest

from rungwise import Gemini, Policy
from rungwise.core import Call, Reply, Request
from rungwise.fsm.failures.failure import event_of_failure

GEMINI: Any = Gemini("gemini-2.5-flash", base_url="http://localhost:1/v1beta")
TEXT = [{"text": "Herons nest in the reeds of the lake."}]
COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 7}


def body(*, parts: Any = TEXT, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, **candidate}], "usageMetadata": COUNTS}


def ended(value: Any, *, streamed: bool, status: int = 200) -> Call:
    """Return a call after one reply, and an answer to whatever it asks next."""
    call = Call(Request("Where?"), Policy(), (GEMINI,))
    send = call.begin()
    told = read(value, streamed=streamed, status=status)
    for reply in (told, Reply("In the reeds, mostly.", stop_reason="stop")):
        if send is not None:
            send = call.receive(reply)
    return call


def read(value: Any, *, streamed: bool, status: int = 200) -> Any:
    data = json.dumps(value).encode()
    if not streamed or status != 200:
        return GEMINI.decode(status, {}, data)
    decoder = GEMINI.decoder({})
    decoder.feed(b"data: %b\n\n" % data)
    return decoder.close()


FINISHES = {
    "STOP": "answered",
    "MAX_TOKENS": "truncated",
    "CONTINUATION": "truncated",
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "ESCALATION"),
            *("MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"),
        ),
        "refused",
    ),
    **dict.fromkeys(
        (
            *("FINISH_REASON_UNSPECIFIED", "OTHER", "NO_IMAGE", "TOO_MANY_TOOL_CALLS", "SOMETHING_NEW"),
            "finish_reason_42",
        ),
        "malformed",
    ),
    **dict.fromkeys(
        (
            *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"),
            *("MISSING_THOUGHT_SIGNATURE", "PUP_LIMITED_DISABLED"),
        ),
        "interrupted",
    ),
    None: "interrupted",
}
BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@BOTH
@pytest.mark.parametrize(("word", "event"), FINISHES.items())
def test_each_finish_reason_behind_text(word: str | None, event: str, streamed: bool) -> None:
    call = ended(body(finishReason=word) if word else body(), streamed=streamed)
    step = call.journal.steps[1]
    assert (step.event, step.stop_raw) == (event, word)
    assert (call.result.outcome == "done") is (event != "refused")


WITHOUT_TEXT = {
    "STOP": ("came_empty", None),
    "MAX_TOKENS": ("reasoning_truncated", None),
    "SAFETY": ("refused", None),
    "OTHER": ("malformed", None),
    "MALFORMED_FUNCTION_CALL": ("failed_transiently", "failed_generation"),
    "UNEXPECTED_TOOL_CALL": ("failed_transiently", "failed_generation"),
    "MALFORMED_RESPONSE": ("failed_transiently", "failed_generation"),
    "MISSING_THOUGHT_SIGNATURE": ("rejected_fixably", "reasoning_signature"),
    "PUP_LIMITED_DISABLED": ("failed_permanently", "auth"),
}


@BOTH
@pytest.mark.parametrize(
    "content", [{"role": "model"}, {"role": "model", "parts": []}, {"parts": [{"text": ""}]}, None]
)
@pytest.mark.parametrize("word", WITHOUT_TEXT)
def test_each_finish_reason_without_text(word: str, content: Any, streamed: bool) -> None:
    candidate = {"finishReason": word, "finishMessage": "", **({} if content is None else {"content": content})}
    call = ended({"candidates": [candidate], "usageMetadata": COUNTS}, streamed=streamed)
    step = call.journal.steps[1]
    assert (step.event, step.reason) == WITHOUT_TEXT[word]
    assert word in (step.stop_raw, step.code)
    assert step.usage.input_tokens == 9


@BOTH
def test_stop_ends_tool_calls_too(streamed: bool) -> None:
    call = {"functionCall": {"name": "look", "args": {"bird": "heron"}}}
    assert ended(body(parts=[call], finishReason="STOP"), streamed=streamed).journal.last.event == "called_tools"
    cut = body(parts=[call], finishReason="MAX_TOKENS")
    assert ended(cut, streamed=streamed).journal.steps[1].event == "tools_truncated"


@BOTH
@pytest.mark.parametrize(
    "word",
    [
        *("SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK"),
        *("BLOCKED_REASON_UNSPECIFIED", "SOMETHING_NEW"),
    ],
)
def test_a_blocked_prompt_is_a_refusal_whatever_the_word(word: str, streamed: bool) -> None:
    value = {"promptFeedback": {"blockReason": word, "blockReasonMessage": "Not this."}, "usageMetadata": COUNTS}
    call = ended(value, streamed=streamed)
    assert (call.result.outcome, call.journal.last.stop_raw) == ("refused", word)
    assert call.result.reply.refusal == "Not this."


def google(status: int, name: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    told = [{"@type": "type.googleapis.com/google.rpc.X", **each} for each in details]
    return {"error": {"code": status, "message": message, "status": name, **({"details": told} if told else {})}}


def quota(name: str) -> dict[str, Any]:
    return {"violations": [{"quotaMetric": "generate_content_requests", "quotaId": name}]}


TEMPERATURE = "Invalid JSON payload received. Unknown name \"temperature\" at 'generation_config': Cannot find field."
QUOTA = "You exceeded your current quota, please check your plan and billing details."
ERRORS: list[tuple[dict[str, Any], str, Any]] = [
    (google(400, "INVALID_ARGUMENT", "Request contains an invalid argument."), "format", None),
    (google(400, "INVALID_ARGUMENT", TEMPERATURE), "parameter_unsupported", "temperature"),
    (google(400, "INVALID_ARGUMENT", "`top_p` is not supported."), "parameter_unsupported", "top_p"),
    (google(400, "INVALID_ARGUMENT", "topK is no longer supported."), "parameter_unsupported", "topK"),
    (google(400, "INVALID_ARGUMENT", "Thinking level MINIMAL is not supported."), "parameter_unsupported", "Thinking"),
    (
        google(400, "INVALID_ARGUMENT", "Budget 0 is invalid. This model only works in thinking mode."),
        "parameter_unsupported",
        "thinking",
    ),
    (google(400, "INVALID_ARGUMENT", "Requests ending with a model turn are not supported."), "prefill_unsupported", 0),
    (
        google(400, "INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts."),
        "reasoning_signature",
        None,
    ),
    (google(400, "INVALID_ARGUMENT", "Corrupted thought signature."), "reasoning_signature", None),
    (
        google(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        "context_overflow",
        None,
    ),
    (
        google(
            400,
            "INVALID_ARGUMENT",
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is "
            "from 1 (inclusive) to 65537 (exclusive).",
        ),
        "output_cap",
        65_536,
    ),
    (google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20 bytes."), "payload_too_large", None),
    (google(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}), "auth", None),
    (google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "format", None),
    (google(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), "auth", None),
    (google(403, "PERMISSION_DENIED", "The caller does not have permission."), "auth", None),
    (google(404, "NOT_FOUND", "models/g is not found for API version v1beta."), "model_not_found", None),
    (google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", {"retryDelay": "14s"}), "rate_limit", 14.0),
    (
        google(429, "RESOURCE_EXHAUSTED", QUOTA, quota("GenerateRequestsPerMinute"), {"retryDelay": "2.5s"}),
        "rate_limit",
        2.5,
    ),
    (google(429, "RESOURCE_EXHAUSTED", QUOTA, quota("GenerateRequestsPerDay"), {"retryDelay": "9s"}), "billing", 9.0),
    (google(429, "RESOURCE_EXHAUSTED", "None left.", {"reason": "MODEL_CAPACITY_EXHAUSTED"}), "overloaded", None),
    (google(499, "CANCELLED", "The operation was cancelled."), "unknown", None),
    (google(500, "INTERNAL", "An internal error has occurred."), "server_error", None),
    (google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), "overloaded", None),
    (google(504, "DEADLINE_EXCEEDED", "The request timed out."), "timeout", None),
]


@pytest.mark.parametrize("listed", [False, True], ids=["object", "list"])
@pytest.mark.parametrize(("error", "reason", "detail"), ERRORS)
def test_each_error(error: dict[str, Any], reason: str, detail: Any, listed: bool) -> None:
    status = error["error"]["code"]
    failure = read([error] if listed else error, streamed=False, status=status)
    assert (failure.reason, failure.status) == (reason, status)
    assert (failure.parameter or failure.available_tokens or failure.asked_wait or None) == (detail or None)
    call = ended([error] if listed else error, streamed=False, status=status)
    step = call.journal.steps[1]
    assert (step.event, step.reason, step.status) == (event_of_failure(failure), reason, status)
    assert step.code


@pytest.mark.parametrize("listed", [False, True], ids=["object", "list"])
@BOTH
def test_an_error_in_a_200_is_the_same_error(streamed: bool, listed: bool) -> None:
    for error, reason, _ in ERRORS:
        if streamed:
            decoder = GEMINI.decoder({})
            decoder.feed(b"data: %b\n\n" % json.dumps(error).encode())
            failure = decoder.close()
        else:
            failure = read([error] if listed else error, streamed=False)
        assert failure.reason == reason


@BOTH
def test_text_before_an_error_stays(streamed: bool) -> None:
    """A stream may break off with an error, as an event or, where nobody asked for events, as the last in the list."""
    chunks = [body(), google(503, "UNAVAILABLE", "The model is overloaded.")]
    if streamed:
        decoder = GEMINI.decoder({})
        for chunk in chunks:
            decoder.feed(b"data: %b\r\n\r\n" % json.dumps(chunk).encode())
        reply = decoder.close()
    else:
        reply = read(chunks, streamed=False)
    assert (reply.text, reply.interrupted) == (TEXT[0]["text"], True)
    assert reply.failure.reason == "overloaded"


def test_a_refusal_in_mid_stream_has_its_words() -> None:
    decoder = GEMINI.decoder({})
    decoder.feed(b"data: %b\n\n" % json.dumps(body()).encode())
    last = {"candidates": [{"finishReason": "PROHIBITED_CONTENT", "finishMessage": "Not this.", "index": 0}]}
    decoder.feed(b"data: %b\n\n" % json.dumps(last).encode())
    reply = decoder.close()
    assert (reply.text, reply.refusal, reply.stop_raw) == (TEXT[0]["text"], "Not this.", "PROHIBITED_CONTENT")
