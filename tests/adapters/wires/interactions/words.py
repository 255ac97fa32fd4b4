"""What Interactions say at the end of a reply and of what went wrong."""

import json
from typing import Any

from rungwise import GeminiInteractions

BACKEND: Any = GeminiInteractions("gemini-3-pro", base_url="http://localhost:1/v1beta")
COUNTS = {"total_input_tokens": 9, "total_output_tokens": 7}
SAID = {"type": "model_output", "content": [{"type": "text", "text": "In the reeds, mostly."}]}
CALL = {"type": "function_call", "id": "c1", "name": "look", "arguments": {"bird": "heron"}}
ACTION = {"type": "computer_use_call", "id": "c2", "arguments": {"action": "click"}}
ENDS: list[Any] = [
    ("completed", (SAID,), "stop", "answered"),
    ("completed", (SAID, CALL), "tool_calls", "called_tools"),
    ("requires_action", (CALL,), "tool_calls", "called_tools"),
    ("requires_action", (ACTION,), "tool_calls", "answered"),
    ("incomplete", (SAID,), "length", "truncated"),
    ("incomplete", (CALL,), "length", "tools_truncated"),
    ("budget_exceeded", (SAID,), "length", "truncated"),
    ("requires_continuation", (SAID,), "length", "truncated"),
    ("queued", (SAID,), "unknown", "ended_unclearly"),
    ("in_progress", (SAID,), "unknown", "ended_unclearly"),
    ("idle", (SAID,), "unknown", "ended_unclearly"),
    ("gremlins", (SAID,), "unknown", "ended_unclearly"),
    (None, (SAID,), None, "answered"),
    ("completed", (), "stop", "came_empty"),
    ("incomplete", (), "length", "reasoning_truncated"),
    ("failed", (SAID,), "error", "interrupted", "server_error"),
    ("cancelled", (SAID,), "error", "interrupted", "server_error"),
]


def interaction(status: str | None, *steps: Any, **members: Any) -> dict[str, Any]:
    told = {"id": "v1_a", "object": "interaction", "model": "g", "steps": [*steps]}
    if status is not None:
        told["status"] = status
    return {**told, **members}


def whole(value: Any, status: int = 200) -> Any:
    return BACKEND.decode(status, {}, json.dumps(value).encode())


def event(value: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (value["event_type"].encode(), json.dumps(value).encode())


def read(*values: dict[str, Any]) -> Any:
    decoder = BACKEND.decoder({})
    for value in values:
        decoder.feed(event(value))
    return decoder.close()


CREATED = {"event_type": "interaction.created", "interaction": interaction("in_progress")}


def completed(value: dict[str, Any]) -> dict[str, Any]:
    return {"event_type": "interaction.completed", "interaction": value}


def ended(word: str | None, steps: Any) -> list[Any]:
    value = interaction(word, *steps, usage=COUNTS)
    came = [whole(value)]
    if word not in (None, "queued", "in_progress", "idle"):  # which end no stream
        came.append(read(CREATED, completed(value)))
    assert all(
        getattr(each, "usage", None) is None or each.usage.input_tokens == 9 for each in came
    )
    return came


def refused(error: dict[str, Any]) -> tuple[str, bytes, bytes]:
    value = interaction("failed", {"type": "model_output", "error": error})
    return "Not this.", json.dumps(value).encode(), event(completed(value))


REFUSALS = [
    refused({"code": 3, "message": "Not this.", "details": [{"reason": "SAFETY"}]}),
    refused({"code": "PROHIBITED_CONTENT", "message": "Not this."}),
]

ERRORS: dict[str, list[Any]] = {
    "format": [(400, "INVALID_ARGUMENT", "Request contains an invalid argument.")],
    "auth": [
        (401, "UNAUTHENTICATED", "Request had invalid authentication credentials."),
        (403, "PERMISSION_DENIED", "The caller does not have permission."),
    ],
    "model_not_found": [(404, "NOT_FOUND", "models/g is not found for API version v1beta.")],
    "rate_limit": [(429, "RESOURCE_EXHAUSTED", "It has been exhausted.")],
    "server_error": [(500, "INTERNAL", "An internal error has occurred.")],
    "overloaded": [(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")],
    "timeout": [(504, "DEADLINE_EXCEEDED", "The request timed out.")],
    "content_policy": [(400, "SAFETY", "Not this.")],
}
_NUMBERS = {"INTERNAL": 13, "UNAVAILABLE": 14, "DEADLINE_EXCEEDED": 4, "RESOURCE_EXHAUSTED": 8}


def failed(status: int, name: str, message: str) -> list[Any]:
    told = {"code": status, "message": message, "status": name}
    found: list[Any] = [(whole({"error": told}, status), {"status": status})]
    said = {
        "event_type": "step.delta",
        "index": 0,
        "delta": {"type": "text", "text": "In the"},
    }
    codes: list[Any] = [name, f"https://ai.google.dev/gemini-api/errors/{name}"]
    if name in _NUMBERS:
        codes.append(_NUMBERS[name])
    for code in codes:
        error = {"event_type": "error", "error": {"code": code, "message": message}}
        found.append((read(CREATED, error), {}))
        found.append((read(CREATED, said, error, said), {"text": "In the"}))
    value = interaction("failed", errors=[{"code": name, "message": message}])
    if name != "SAFETY":  # which is a refusal there
        found.append((whole(value), {}))
        found.append((read(CREATED, completed(value)), {}))
    return found
