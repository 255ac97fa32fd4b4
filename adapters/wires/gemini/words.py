"""What Gemini's words mean: how a reply ended, and what was counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.composing import count_of, estimated
from rungwise.fsm.call.conversation.parts import Part, calls_of, reasoning_of, text_of
from rungwise.fsm.call.conversation.reply import StopReason
from rungwise.fsm.failures.failure import Reason
from rungwise.fsm.values.usage import Usage

_REFUSALS: Final = (
    *("safety", "recitation", "blocklist", "prohibited_content", "spii", "language", "escalation", "model_armor"),
    *("image_safety", "image_prohibited_content", "image_recitation", "image_other"),
)
STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "stop",
    "max_tokens": "length",
    "continuation": "length",  # a limit of the server's own, and there is more to say
    **dict.fromkeys(_REFUSALS, "content_filter"),
}
"""The finish reasons, in lower case. OTHER, NO_IMAGE, TOO_MANY_TOOL_CALLS and FINISH_REASON_UNSPECIFIED are not among
them: they say that the reply is none, and not why."""

FAILURES: Final[Mapping[str, Reason]] = {
    # What the model wrote could not be read as a call of one of the functions, or at all: it need not do so again.
    **dict.fromkeys(("malformed_function_call", "unexpected_tool_call", "malformed_response"), "failed_generation"),
    "missing_thought_signature": "reasoning_signature",
    "pup_limited_disabled": "auth",
}
"""The finish reasons that are failures."""
ENDS: Final[Mapping[str, StopReason]] = {**STOP_REASONS, **dict.fromkeys(FAILURES, "error")}
"""All finish reasons that say why."""


def is_usage(value: Any) -> bool:
    """Tell whether a report of usage counts anything; at the end of some streams one says only who pays."""
    return isinstance(value, dict) and ("promptTokenCount" in value or "candidatesTokenCount" in value)


def usage_of(raw: Mapping[str, Any], parts: Sequence[Part]) -> Usage | None:
    """Return the token counts that the provider reported, None where it reported none; garbage counts as none.

    The thoughts are counted beside the answer, and what server-side tools read beside the prompt; what came from a
    cache is a part of the prompt.

    Arguments:
        raw: its report.
        parts: what came, from which the answer is counted where only the prompt was, as at the start of some streams.
    """
    prompt = count_of(raw.get("promptTokenCount")) + count_of(raw.get("toolUsePromptTokenCount"))
    thoughts = count_of(raw.get("thoughtsTokenCount"))
    output = count_of(raw.get("candidatesTokenCount")) + thoughts
    if not prompt and not output:
        return None
    if not output:
        guessed = estimated(text_of(parts), reasoning_of(parts), calls_of(parts))
        if guessed.output_tokens:
            return evolve(guessed, input_tokens=prompt)
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=min(prompt, count_of(raw.get("cachedContentTokenCount"))),
        reasoning_tokens=thoughts,
    )
