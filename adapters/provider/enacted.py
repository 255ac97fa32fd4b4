"""Write the replies of a worst case as a script, for clients that speak chat completions.

`rungwise verify` proves a worst case and enacts it in memory. Served by `rungwise serve`, the same
replies make any client pay it: with the same texts, usages and errors, in the same seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
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
    "unknown": "by_script",
}
STOPS: Final = ("stop", "end_turn")
"""Clean finish reasons, used in turns so that no two empty replies are the same."""

UNREADABLE: Final = b"{and so on"
PIECE: Final = 2_000
"""Characters of a long text in one event, for replies without a duration."""

EARLY: Final = 0.1
"""Seconds that a reply arrives before the client would end its attempt, so that it is read."""

THOUGHT: Final = "Still thinking. "


def model_of(backend: int) -> str:
    """Return the model id of a backend of the chain, counted from 0."""
    return f"backend-{backend + 1}"


def script_of(worst: WorstScript) -> Script:
    """Write a worst case as a script, which starts over after its last reply.

    Raises:
        ConfigurationError: no server can cause it.
    """
    if worst.unseen is not None:
        raise ConfigurationError(f"no script can play {worst.case.name} at worst: {worst.unseen}")
    replies: list[ScriptedReply] = []
    for attempt, stop in zip(worst.attempts, cycle(STOPS), strict=False):
        replies.append(_scripted(attempt, stop, worst.longest_pause))
    return Script(replies, after="loop")


def notes_of(worst: WorstScript) -> list[str]:
    """Return a line for each reply of the script that says which request it answers."""
    notes: list[str] = []
    for number, (rung, attempt) in enumerate(zip(worst.rungs, worst.attempts, strict=True), 1):
        note = f"{number}. {rung} of {model_of(attempt.backend)}"
        if attempt.wait:
            note = f"{note}, after {attempt.wait:g} s"
        notes.append(note)
    return notes


def _scripted(attempt: EnactedAttempt, stop: str, longest_pause: float | None) -> ScriptedReply:
    """Write what came of an attempt.

    Arguments:
        attempt: the attempt.
        stop: the finish reason of a clean end.
        longest_pause: seconds between two pieces, after which a client would give up.
    """
    model = model_of(attempt.backend)
    came = attempt.came
    if not isinstance(came, Reply):
        came = Reply(interrupted=True, failure=came)
    lasts = attempt.seconds
    if attempt.closing and not attempt.is_late:
        lasts = max(lasts - EARLY, lasts / 2)
    ending = _ending(came, stop)
    usage = _usage(came.usage)
    if came.failure is not None and came.failure.reason == "malformed":
        return ScriptedReply(model=model, body=_unreadable(usage), lasts=lasts)
    is_empty = not (came.text or came.reasoning or came.tool_calls)
    if lasts and came.failure is None and is_empty:
        # Silence would end an empty stream, but not a reply in one piece.
        body = _empty_body(ending["finish"], usage)
        return ScriptedReply(model=model, body=body, lasts=lasts)
    contents: dict[str, Any] = {"text": came.text, "tool_calls": came.tool_calls}
    reasoning = came.reasoning
    if len(came.text) + len(reasoning) > PIECE:
        contents["chunk_size"] = PIECE
    if lasts and longest_pause is not None:  # a piece of reasoning for each pause
        reasoning = THOUGHT * ceil(lasts / longest_pause) + reasoning
        contents["chunk_size"] = len(THOUGHT)
    contents["reasoning"] = reasoning
    return ScriptedReply(
        model=model,
        **contents,
        **ending,
        usage=usage,
        lasts=lasts,
    )


def _empty_body(finish: str, usage: Mapping[str, Any]) -> str:
    """Write a whole reply without contents."""
    message = {"role": "assistant", "content": ""}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return orjson.dumps({"choices": [choice], "usage": usage}).decode()


def _unreadable(usage: Mapping[str, Any]) -> str:
    """Write a stream with its usage, and then an unreadable event."""
    delta = {"role": "assistant", "content": ""}
    begun = {
        "choices": [
            {
                "index": 0,
                "delta": delta,
                "finish_reason": None,
            }
        ]
    }
    counted = {"choices": [], "usage": usage}
    return b"".join(map(event, (begun, counted, UNREADABLE))).decode()


def _ending(came: Reply, stop: str) -> dict[str, Any]:
    """Return how a reply ends: by an error inside it, or by a finish reason."""
    failure = came.failure
    if failure is None or failure.reason == "malformed":
        return {"finish": FINISHES.get(came.stop_reason or "stop", stop)}
    words = failure.reason.replace("_", " ")
    error = {"message": f"{words}, by script", **ERRORS[failure.reason]}
    if failure.reason == "parameter_unsupported":
        error["param"] = failure.parameter or ""
    headers = {}
    if failure.asked_wait is not None:
        milliseconds = f"{failure.asked_wait * 1000:.10f}"
        headers["retry-after-ms"] = milliseconds.rstrip("0").rstrip(".")
    return {"error_event": error, "headers": headers}


def _usage(usage: Usage) -> dict[str, Any]:
    """Write the counts of a reply, and what it costs; none where the client is to estimate them."""
    if usage.estimated:
        return {}
    prompt = usage.input_tokens
    output = usage.output_tokens
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }
    if usage.cost is not None:
        counts["cost"] = usage.cost
    return counts
