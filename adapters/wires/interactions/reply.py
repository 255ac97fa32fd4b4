"""Read an interaction: the parts in its steps, why it ended, its usage, and the error in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.counts import billed
from rungwise.adapters.wires.draft import (
    NATIVE,
    Draft,
    beyond,
    classified,
    count_of,
    decisive,
    malformed,
    raw_of,
    stop_of,
)
from rungwise.adapters.wires.interactions.plain import media_in, summary_of
from rungwise.adapters.wires.json_text import arguments_of, as_json, input_in, mended
from rungwise.adapters.wires.plain.parts import blocks_in, list_of, mapping_of, text_in
from rungwise.adapters.wires.provider_data import citations_of, copy_if_sendable, media_parts
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall, text_of
from rungwise.fsm.replies.reply import Reply, StopReason
from rungwise.fsm.values.usage import Usage

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "completed": "stop",
    "requires_action": "tool_calls",
    "incomplete": "length",
    "budget_exceeded": "length",
    "requires_continuation": "length",  # a limit of the server's own, and there is more to say
    "failed": "error",
    "cancelled": "error",
}
"""The values of `status`. Those in `UNFINISHED` are missing: such an interaction has not ended."""
UNFINISHED: Final = ("queued", "in_progress", "idle")
"""The values of `status` of an interaction that is not there yet."""
ECHOED: Final = ("user_input", "function_result")
"""The steps that the caller sent."""
_CALL: Final = frozenset({"type", "id", "name", "arguments"})
"""The members of a call that a neutral call has as well."""
_CODES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""The names of gRPC's status codes, by their numbers."""


# the parts


def parts_of_step(step: Mapping[str, Any], provider: str) -> Iterator[Part]:
    """Yield the parts of a whole step; nothing of one that the caller sent.

    Texts that stand together are one: a stream does not say where one ends.
    """
    kind = step.get("type")
    if kind == "model_output":
        for text, annotations, block in contents_of(step):
            if block is not None:
                yield from content_parts(block, provider)
            elif text:
                yield from text_parts(text, annotations, provider)
    elif kind == "thought":
        yield from thought_parts(step, summary_of(step), provider)
    elif kind == "function_call":
        yield call_of(step, arguments_of(input_in(step, "arguments")), provider)
    elif isinstance(kind, str) and kind not in ECHOED:
        block = copy_if_sendable(step)
        if block is not None:
            yield OpaquePart(provider, block)


def contents_of(step: Mapping[str, Any]) -> Iterator[tuple[str, list[Any], Any]]:
    """Yield each text of a step with its annotations, and each other block."""
    text = ""
    annotations: list[Any] = []
    for block in blocks_in(step.get("content"), type="text"):
        if isinstance(block.get("text"), str):
            text += block["text"]
            annotations += list_of(block.get("annotations"))
            continue
        if text:
            yield text, annotations, None
        text = ""
        annotations = []
        yield "", [], block
    if text:
        yield text, annotations, None


def text_parts(text: str, annotations: Sequence[Any], provider: str) -> Iterator[Part]:
    """Yield a text, then its sources."""
    if text:
        yield TextPart(str(mended(text)))
        yield from citations_of([*annotations], provider)


def content_parts(block: Mapping[str, Any], provider: str) -> Iterator[Part]:
    """Yield what a block of the model's output holds besides text.

    A block of a kind that Rungwise does not know goes back to its provider within an output.
    """
    own = copy_if_sendable(block)
    if own is None:
        return
    shown = media_in(own)
    if shown is not None:
        yield shown
        return
    is_answer = any(media_parts(block, provider))
    yield OpaquePart(provider, {"type": "model_output", "content": [own]}, is_answer)


def thought_parts(step: Mapping[str, Any], text: str, provider: str) -> Iterator[Part]:
    """Yield a thought; one with a signature goes back as it came."""
    own = copy_if_sendable(step) if provider and step.get("signature") else None
    text = str(mended(text))
    if own:
        yield ReasoningPart(text, own, provider)
    elif text:
        yield ReasoningPart(text)


def call_of(step: Mapping[str, Any], arguments: str, provider: str) -> ToolCall:
    """Return the call of a function."""
    rest = {name: value for name, value in step.items() if name not in _CALL}
    id = str(mended(text_in(step, "id")))
    name = str(mended(text_in(step, "name")))
    return ToolCall(id, name, str(mended(arguments)), copy_if_sendable(rest) or {}, provider)


# what is known of all of it


def draft_of(about: Mapping[str, Any], parts: Sequence[Part], usage: Usage | None) -> Draft:
    """Return the draft of a reply.

    Arguments:
        about: the interaction, without its steps.
        parts: those of its steps.
        usage: what it has counted.
    """
    end = decisive(about.get("status"), about.get(NATIVE), STOP_REASONS)
    reason, word = stop_of(end, STOP_REASONS)
    if reason == "stop" and any(isinstance(part, ToolCall) for part in parts):
        reason = "tool_calls"
    if word == "requires_action":
        parts = _with_actions(parts)
    refusal = ""
    failure = error_of(about, {})
    if failure is not None and failure.reason == "content_policy":
        reason = "content_filter"
        refusal = failure.message or f"{failure.code}"
    identity = [about.get("id"), about.get("created")]
    return Draft(
        parts=parts,
        stop=(reason, word),
        usage=usage,
        model=about.get("model"),
        refusal=refusal,
        about=identity,
    )


def _with_actions(parts: Sequence[Part]) -> list[Part]:
    """Return parts in which the last step that only its provider can read is an answer.

    The caller is to take an action, and no call of a function says which.
    """
    marked = [*parts]
    last = marked[-1] if marked else None
    if isinstance(last, OpaquePart) and not any(isinstance(part, ToolCall) for part in parts):
        marked[-1] = evolve(last, is_answer=True)
    return marked


def usage_of(report: Any, around: Mapping[str, Any]) -> Usage | None:
    """Return the reported token counts, or None if there are none.

    Thoughts are counted beside the output, and the input of tools that the server runs beside the
    input; cached tokens are part of the input.

    Arguments:
        report: of the tokens.
        around: the interaction.
    """
    counts = mapping_of(report)
    prompt = count_of(counts.get("total_input_tokens"))
    prompt += count_of(counts.get("total_tool_use_tokens"))
    thoughts = count_of(counts.get("total_thought_tokens"))
    output = count_of(counts.get("total_output_tokens")) + thoughts
    total = count_of(counts.get("total_tokens"))
    if prompt:
        output += beyond(total, prompt + output)
    else:
        prompt = beyond(total, output)
    if not prompt and not output:
        return None
    usage = Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=min(prompt, count_of(counts.get("total_cached_tokens"))),
        reasoning_tokens=thoughts,
    )
    uses: dict[str, Any] = {}
    for each in map(mapping_of, list_of(counts.get("grounding_tool_count"))):
        uses[str(each.get("type"))] = each.get("count")
    return billed(usage, {"tool_usage": uses}, {"service_tier": around.get("service_tier")})


def error_of(about: Mapping[str, Any], headers: Mapping[str, str]) -> Failure | None:
    """Return the error that an interaction holds, or None."""
    error = about.get("error")
    if not error and text_in(about, "status") == "failed":
        error = next(iter(list_of(about.get("errors"))), None)
    return failure_of(error, headers) if error else None


def error_in(steps: Sequence[Any]) -> Any:
    """Return the error of an output among some steps, or None."""
    errors = [mapping_of(step).get("error") for step in steps]
    return next(filter(None, errors), None)


def failure_of(error: Any, headers: Mapping[str, str]) -> Failure:
    """Classify an error, whose code may be a number of gRPC's or a URI that ends in its name."""
    code = mapping_of(error).get("code")
    if type(code) is int and 0 < code < len(_CODES):
        error = {**error, "code": _CODES[code]}
    elif isinstance(code, str) and "/" in code:
        error = {**error, "code": code.rpartition("/")[2]}
    return classified(None, headers, as_json({"error": error}).encode())


def unfinished(about: Mapping[str, Any], parts: Sequence[Part]) -> Failure | None:
    """Return that an interaction without a text has not ended, which may pass; else None."""
    status = text_in(about, "status")
    if status not in UNFINISHED or text_of(parts):
        return None
    message = "the interaction has not ended"
    return Failure("server_error", status=200, code=status, message=message)


# going on


def may_go_on(about: Mapping[str, Any]) -> bool:
    """Tell whether an interaction that has ended has more to say."""
    return about.get("status") in ("requires_continuation", "incomplete")


def going_on(reply: Reply | Failure, about: Mapping[str, Any], token: str) -> Reply | Failure:
    """Return a reply with the token by which it goes on; "" is none.

    The id of a stored interaction belongs to its token.
    """
    if not token or isinstance(reply, Failure):
        return reply
    stop: StopReason = "length" if reply.stop_raw == "incomplete" else "paused"
    continuation = f"{token}\n{text_in(about, 'id')}"
    return evolve(reply, continuation=continuation, stop_reason=stop)


def interaction_in(
    value: dict[str, Any], body: bytes, provider: str, headers: Mapping[str, str]
) -> Reply | Failure:
    """Return the reply in a whole body.

    Arguments:
        value: the object that the body is.
        body: its bytes.
        provider: who signs its thoughts.
        headers: those of the response.
    """
    steps = value.get("steps")
    status = text_in(value, "status")
    is_interaction = status in STOP_REASONS or status in UNFINISHED
    if not (isinstance(steps, list) or value.get("error") or is_interaction):
        return malformed("the body is no interaction")
    steps = list_of(steps)
    parts: list[Part] = []
    for step in steps:
        parts += parts_of_step(mapping_of(step), provider)
    about = {**value, "error": value.get("error") or error_in(steps)}
    draft = draft_of(about, parts, usage_of(value.get("usage"), value))
    error = None
    if not draft.refusal:
        error = error_of(about, headers) or unfinished(value, parts)
    reply = draft.reply(error=error, raw=raw_of(value, body))
    token = text_in(value, "continuation_token") if may_go_on(value) else ""
    return going_on(reply, value, token)
