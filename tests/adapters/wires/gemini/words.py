"""What Gemini says at the end of a reply and of what went wrong, each word and error that Google
documents.
"""

import json
from typing import Any

from rungwise import Gemini

BACKEND: Any = Gemini("gemini-2.5-flash", base_url="http://localhost:1/v1beta")
COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 7}
TEXT = {"text": "In the"}
CALL = {"functionCall": {"name": "look", "args": {"bird": "heron"}}}
SAID = {"content": {"role": "model", "parts": [TEXT]}}
CALLED = {"content": {"role": "model", "parts": [CALL]}}
WITHOUT_TEXT: list[Any] = [
    *(
        {"content": each}
        for each in ({"role": "model"}, {"role": "model", "parts": []}, {"parts": [{"text": ""}]})
    ),
    {},
]
BROKEN = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
REFUSED = (
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "LANGUAGE",
    "ESCALATION",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
)
LASTING = ("OTHER", "NO_IMAGE", "TOO_MANY_TOOL_CALLS")
UNKNOWN = (
    "FINISH_REASON_UNSPECIFIED",
    "SOMETHING_NEW",
    "finish_reason_42",
)
ENDS = [
    ("STOP", SAID, "stop", "answered"),
    ("STOP", CALLED, "stop", "called_tools"),
    ("MAX_TOKENS", CALLED, "length", "tools_truncated"),
    *[(word, SAID, "length", "truncated") for word in ("MAX_TOKENS", "CONTINUATION")],
    *[(word, SAID, "content_filter", "refused") for word in REFUSED],
    *[(word, SAID, "unknown", "ended_unclearly") for word in UNKNOWN],
    *[(word, SAID, "unknown", "interrupted", "failed_generation") for word in BROKEN],
    *[(word, SAID, "unknown", "failed_permanently", "failed_generation") for word in LASTING],
    ("moderation_blocked", SAID, "content_filter", "refused"),
    ("MISSING_THOUGHT_SIGNATURE", SAID, "unknown", "interrupted", "reasoning_signature"),
    ("PUP_LIMITED_DISABLED", SAID, "unknown", "interrupted", "auth"),
    (None, SAID, None, "answered"),
    *[("STOP", each, "stop", "came_empty") for each in WITHOUT_TEXT],
    *[("MAX_TOKENS", each, "length", "reasoning_truncated") for each in WITHOUT_TEXT],
    *[("SAFETY", each, "content_filter", "refused") for each in WITHOUT_TEXT],
    *[
        (word, each, "unknown", "failed_permanently", "failed_generation")
        for word in LASTING
        for each in WITHOUT_TEXT
    ],
    *[
        (word, each, "unknown", "failed_transiently", "failed_generation")
        for word in BROKEN
        for each in WITHOUT_TEXT
    ],
    *[
        ("MISSING_THOUGHT_SIGNATURE", each, "unknown", "rejected_fixably", "reasoning_signature")
        for each in WITHOUT_TEXT
    ],
    *[
        ("PUP_LIMITED_DISABLED", each, "unknown", "failed_permanently", "auth")
        for each in WITHOUT_TEXT
    ],
]


def whole(value: Any, status: int = 200) -> Any:
    return BACKEND.decode(status, {}, json.dumps(value).encode())


def event(value: Any) -> bytes:
    return b"data: %b\r\n\r\n" % json.dumps(value).encode()


def read(*values: Any) -> Any:
    decoder = BACKEND.decoder({})
    for value in values:
        decoder.feed(event(value))
    return decoder.close()


def ended(word: str | None, said: Any) -> list[Any]:
    end = {"finishReason": word, "finishMessage": ""} if word else {}
    value = {"candidates": [{**said, **end}], "usageMetadata": COUNTS}
    came = [whole(value)]
    if word:  # a stream has no other end
        came.append(read(value))
    assert all(
        getattr(each, "usage", None) is None or each.usage.input_tokens == 9 for each in came
    )
    return came


def blocked(word: str) -> dict[str, Any]:
    return {
        "promptFeedback": {"blockReason": word, "blockReasonMessage": "Not this."},
        "usageMetadata": COUNTS,
    }


REFUSALS = [
    ("Not this.", json.dumps(blocked(word)).encode(), event(blocked(word)))
    for word in (
        "SAFETY",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "IMAGE_SAFETY",
        "MODEL_ARMOR",
        "JAILBREAK",
        "BLOCKED_REASON_UNSPECIFIED",
        "SOMETHING_NEW",
    )
]


def quota(name: str, seconds: str) -> tuple[dict[str, Any], ...]:
    violation = {"quotaMetric": "generate_content_requests", "quotaId": name}
    return {"violations": [violation]}, {"retryDelay": seconds}


INVALID = "INVALID_ARGUMENT"
TEMPERATURE = (
    'Invalid JSON payload received. Unknown name "temperature" at '
    "'generation_config': Cannot find field."
)
QUOTA = "You exceeded your current quota, please check your plan and billing details."
CAP = (
    "it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) "
    "to 65537 (exclusive)."
)
ERRORS: dict[str, list[Any]] = {
    "format": [
        (400, INVALID, "Request contains an invalid argument."),
        (400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
    ],
    "parameter_unsupported": [
        (400, INVALID, TEMPERATURE, {"parameter": "temperature"}),
        (400, INVALID, "`top_p` is not supported.", {"parameter": "top_p"}),
        (400, INVALID, "topK is no longer supported.", {"parameter": "topK"}),
        (400, INVALID, "Thinking level MINIMAL is not supported.", {"parameter": "Thinking"}),
        (
            400,
            INVALID,
            "Budget 0 is invalid. This model only works in thinking mode.",
            {"parameter": "thinking"},
        ),
    ],
    "prefill_unsupported": [(400, INVALID, "Requests ending with a model turn are not supported.")],
    "reasoning_signature": [
        (400, INVALID, "Function call is missing a thought_signature in functionCall parts."),
        (400, INVALID, "Corrupted thought signature."),
    ],
    "context_overflow": [
        (
            400,
            INVALID,
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
    ],
    "output_cap": [
        (400, INVALID, f"Unable to submit request because {CAP}", {"available_tokens": 65_536})
    ],
    "payload_too_large": [(400, INVALID, "Request payload size exceeds the limit: 20 bytes.")],
    "auth": [
        (400, INVALID, "API key not valid.", {}, {"reason": "API_KEY_INVALID"}),
        (401, "UNAUTHENTICATED", "Request had invalid authentication credentials."),
        (403, "PERMISSION_DENIED", "The caller does not have permission."),
    ],
    "model_not_found": [(404, "NOT_FOUND", "models/g is not found for API version v1beta.")],
    "rate_limit": [
        (
            429,
            "RESOURCE_EXHAUSTED",
            "It has been exhausted.",
            {"asked_wait": 14.0},
            {"retryDelay": "14s"},
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            QUOTA,
            {"asked_wait": 2.5},
            *quota("GenerateRequestsPerMinute", "2.5s"),
        ),
    ],
    "billing": [
        (
            429,
            "RESOURCE_EXHAUSTED",
            QUOTA,
            {"asked_wait": 9.0},
            *quota("GenerateRequestsPerDay", "9s"),
        )
    ],
    "unknown": [(499, "CANCELLED", "The operation was cancelled.")],
    "server_error": [(500, "INTERNAL", "An internal error has occurred.")],
    "overloaded": [
        (429, "RESOURCE_EXHAUSTED", "None left.", {}, {"reason": "MODEL_CAPACITY_EXHAUSTED"}),
        (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    ],
    "timeout": [(504, "DEADLINE_EXCEEDED", "The request timed out.")],
}


def failed(
    status: int, name: str, message: str, known: Any = (), *details: dict[str, Any]
) -> list[Any]:
    told: list[dict[str, Any]] = [
        {"@type": "type.googleapis.com/google.rpc.X", **each} for each in details
    ]
    fields: dict[str, Any] = {
        "code": status,
        "message": message,
        "status": name,
    }
    if told:
        fields["details"] = told
    error = {"error": fields}
    usual = {
        "parameter": None,
        "available_tokens": None,
        "asked_wait": None,
        **dict(known),
    }
    said = {"candidates": [SAID], "usageMetadata": COUNTS}
    found = []
    for body in (error, [error]):
        found.append((whole(body, status), {"status": status, **usual}))
        found.append((whole(body), usual))
    found.append((read(error), usual))
    for late in (whole([said, error]), read(said, error)):
        found.append((late, {"text": "In the"}))
    return found
