"""Write the replies of a worst case as a script, for clients that speak chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

import orjson

from rungwise.adapters.gateway.languages.language import event
from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.fsm.analysis.certificate.path_answers import EnactedAttempt
from rungwise.fsm.analysis.certificate.shown.scripts import WorstScript
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import Usage

ERRORS: Final[Mapping[Reason, Mapping[str, str]]] = {
    "server_error": {"type": "server_error"},
    "overloaded": {"type": "overloaded_error"},
    "connection": {"type": "connection_error"},
    "auth": {"code": "invalid_api_key"},
    "model_not_found": {"code": "model_not_found"},
    "rate_limit": {"code": "rate_limit_exceeded"},
    "content_policy": {"code": "content_policy_violation"},
    "parameter_unsupported": {"code": "unsupported_parameter"},
}
"""A provider's own error for each reason of a failure."""

FINISHES: Final = {
    "length": "length",
    "paused": "pause_turn",
    "overflow": "model_context_window_exceeded",
}
STOPS: Final = ("stop", "end_turn")
"""Clean finish reasons, used in turns so that no two empty replies are the same."""

UNREADABLE: Final = b"{and so on"
PIECE: Final = 2_000
"""Characters of a long text in one event, for replies without a duration."""

EARLY: Final = 0.1
"""How many seconds a reply arrives before the client would end its attempt, so that it can be read.
"""

THOUGHT: Final = "Still thinking. "


def model_of(backend: int) -> str:
    """Return the model id of a backend of the chain, counted from 0."""
    return f"backend-{backend + 1}"


def script_of(worst: WorstScript) -> Script:
    """Write a worst case that a server can cause as a script, which starts over after its last
    reply.
    """
    if worst.unseen is not None:
        raise ConfigurationError(f"no script can play {worst.case.name} at worst: {worst.unseen}")
    replies = [
        _scripted(attempt, STOPS[at % 2], worst.longest_pause)
        for at, attempt in enumerate(worst.attempts)
    ]
    return Script(replies, after="loop")


def notes_of(worst: WorstScript) -> list[str]:
    """Return a line for each reply of the script that says which request it answers."""
    return [
        f"{number}. {rung} of {model_of(attempt.backend)}"
        + (f", after {attempt.wait:g} s" if attempt.wait else "")
        for number, (rung, attempt) in enumerate(zip(worst.rungs, worst.attempts, strict=True), 1)
    ]


def _scripted(attempt: EnactedAttempt, stop: str, longest_pause: float | None) -> ScriptedReply:
    came = (
        attempt.came
        if isinstance(attempt.came, Reply)
        else Reply(interrupted=True, failure=attempt.came)
    )
    content: dict[str, Any] = {
        "text": came.text,
        "reasoning": came.reasoning,
        "tool_calls": came.tool_calls,
    }
    lasts = attempt.seconds
    if attempt.closing and not attempt.is_late:
        lasts = max(lasts - EARLY, lasts / 2)
    if len(came.text) + len(came.reasoning) > PIECE:
        content["chunk_size"] = PIECE
    ending = _ending(came, stop)
    usage = _usage(came.usage)
    if lasts and came.failure is None and not any(content.values()):
        # Silence would end an empty stream, but not a reply in one piece.
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": ""},
            "finish_reason": ending["finish"],
        }
        body = orjson.dumps({"choices": [choice], "usage": usage}).decode()
        return ScriptedReply(model=model_of(attempt.backend), body=body, lasts=lasts)
    if came.failure is not None and came.failure.reason == "malformed":
        # A stream with its usage, and then an unreadable event.
        begun = {
            "choices": [
                {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            ]
        }
        body = b"".join(map(event, (begun, {"choices": [], "usage": usage}, UNREADABLE))).decode()
        return ScriptedReply(model=model_of(attempt.backend), body=body, lasts=lasts)
    if lasts and longest_pause is not None:  # a piece of reasoning for each pause
        thoughts = THOUGHT * ceil(lasts / longest_pause)
        content |= {"reasoning": thoughts + content["reasoning"], "chunk_size": len(THOUGHT)}
    return ScriptedReply(
        model=model_of(attempt.backend), **content, **ending, usage=usage, lasts=lasts
    )


def _ending(came: Reply, stop: str) -> dict[str, Any]:
    """Return how a reply ends: by an error inside it, or by a finish reason."""
    failure = came.failure
    if failure is None or failure.reason == "malformed":
        return {"finish": FINISHES.get(came.stop_reason or "stop", stop)}
    error = {"message": f"{failure.reason.replace('_', ' ')}, by script", **ERRORS[failure.reason]}
    if failure.reason == "parameter_unsupported":
        error["param"] = failure.parameter or ""
    headers = {}
    if failure.asked_wait is not None:
        headers["retry-after-ms"] = f"{failure.asked_wait * 1000:.10f}".rstrip("0").rstrip(".")
    return {"error_event": error, "headers": headers}


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = usage.input_tokens
    output = usage.output_tokens
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    if usage.cache_read_tokens:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cache_read_tokens}
    if usage.cache_creation_tokens:
        counts["cache_creation_input_tokens"] = usage.cache_creation_tokens
    return counts
