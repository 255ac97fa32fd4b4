"""Read a reply of Gemini's: its finish reason, its tokens and its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, frozen

from rungwise.adapters.wires.counts import billed
from rungwise.adapters.wires.draft import COMMON, beyond, count_of, estimated, known_word
from rungwise.adapters.wires.gemini.calls import GatheredCall, call_in, listed
from rungwise.adapters.wires.json_text import as_json, mended
from rungwise.adapters.wires.plain.parts import block_in, blocks_in, text_in
from rungwise.adapters.wires.reading.events import Events
from rungwise.fsm.replies.assembly.assembly import Kind
from rungwise.fsm.replies.assembly.origin import FOREIGN_ROLES
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.replies.parts import (
    Part,
    ReasoningPart,
    TextPart,
    calls_of,
    reasoning_of,
    text_of,
)
from rungwise.fsm.replies.reply import Reasoning, Reply, StopReason
from rungwise.fsm.values.usage import Usage

_REFUSALS: Final = (
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "language",
    "escalation",
    "model_armor",
    "image_safety",
    "image_prohibited_content",
    "image_recitation",
    "image_other",
)
STOP_REASONS: Final[Mapping[str, StopReason]] = {
    **COMMON,
    "continuation": "length",  # a limit of the server's own, and there is more to say
    **dict.fromkeys(_REFUSALS, "content_filter"),
}
"""The finish reasons, in lower case. FINISH_REASON_UNSPECIFIED is not among them: it says that
there is no reply, but not why."""
LASTING: Final = (
    "too_many_tool_calls",
    "no_image",
    "other",
)
"""The finish reasons that the same request to the same model meets again."""

FAILURES: Final[Mapping[str, Reason]] = {
    # The model's output could not be read as a call of one of the functions, or at all; another
    # attempt may succeed.
    **dict.fromkeys(
        ("malformed_function_call", "unexpected_tool_call", "malformed_response", *LASTING),
        "failed_generation",
    ),
    "missing_thought_signature": "reasoning_signature",
    "pup_limited_disabled": "auth",
}
"""The finish reasons that are failures."""
ENDS: Final[Mapping[str, StopReason]] = {**STOP_REASONS, **dict.fromkeys(FAILURES, "error")}
"""All finish reasons with a known meaning."""

EVENTS: Final = Events(
    frozenset({"candidates", "promptFeedback"}),
    around=(
        ("content", frozenset({"parts", "text"})),
        ("candidates", frozenset({"content", "finishReason"})),
    ),
)
"""What events and bodies look like."""
ABOUT: Final = frozenset(
    {"candidates", "usageMetadata", "modelVersion", "responseId", "createTime"}
)
"""All members of an event with a piece of text."""
_OF_REPLY: Final = (
    "content",
    "finishReason",
    "index",
    "tokenCount",
    "finishMessage",
    "continuationToken",
)
"""Members of a candidate that the reply holds elsewhere."""


def failure_of(word: str | None, message: str) -> Failure | None:
    """Return the failure that a finish reason is, or None."""
    known = known_word(word or "", ENDS)
    if known is None or known not in FAILURES:
        return None
    should_retry = False if known in LASTING else None
    return Failure(
        FAILURES[known],
        status=200,
        code=word,
        message=message,
        should_retry=should_retry,
    )


def is_usage(value: Any) -> bool:
    """Tell whether a usage report counts anything.

    The last one of some streams says only who pays.
    """
    if not isinstance(value, dict):
        return False
    return "promptTokenCount" in value or "candidatesTokenCount" in value


def usage_of(raw: Mapping[str, Any], parts: Sequence[Part]) -> Usage | None:
    """Return the reported token counts, or None if there are none; anything malformed counts as 0.

    Thoughts are counted separately from the answer, and the input of server-side tools from the
    prompt; cached tokens are part of the prompt. If only the prompt was counted, the answer is
    estimated from the parts.
    """
    prompt = count_of(raw.get("promptTokenCount")) + count_of(raw.get("toolUsePromptTokenCount"))
    thoughts = count_of(raw.get("thoughtsTokenCount"))
    output = count_of(raw.get("candidatesTokenCount")) + thoughts
    total = count_of(raw.get("totalTokenCount"))
    if prompt or not output:
        output += beyond(total, prompt + output)
    if not prompt and not output:
        return None
    prompt = prompt or beyond(total, output)
    if not output:
        guessed = estimated(text_of(parts), reasoning_of(parts), calls_of(parts))
        if guessed.output_tokens:
            return evolve(guessed, input_tokens=prompt)
    usage = Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=min(prompt, count_of(raw.get("cachedContentTokenCount"))),
        reasoning_tokens=thoughts,
    )
    return billed(usage, raw, {})


@frozen
class Checkpoint:
    """Hold the token from which a reply can go on, and how far it had come by then."""

    token: str
    parts: int  # the parts before it
    letters: int  # those of the last of them, if it is a text
    pieces: int  # those of calls

    def before(self, parts: Sequence[Part]) -> list[Part]:
        """Return what came before it; the rest comes again."""
        kept = list(parts[: self.parts])
        if kept and isinstance(kept[-1], TextPart | ReasoningPart):
            kept[-1] = evolve(kept[-1], text=kept[-1].text[: self.letters])
        return kept


def going_on(
    reply: Reply,
    pieces: Sequence[tuple[str, Any]],
    checkpoint: Checkpoint | None,
) -> Reply:
    """Return a reply with what it takes to go on from it, or to join it to the one before."""
    if checkpoint is not None:
        is_length = known_word(reply.stop_raw or "", ENDS) == "max_tokens"
        return evolve(
            reply,
            continuation=checkpoint.token,
            pieces=tuple(mended([*pieces[: checkpoint.pieces]])),
            stop_reason="length" if is_length else "paused",
        )
    # the rest of a call that began in the reply before
    is_rest = any(not text_in(call_in(part), "name") for _, part in pieces[:1])
    return evolve(reply, pieces=tuple(mended([*pieces]))) if is_rest else reply


@define
class TextBlock:
    """Hold the place of a text among the other parts."""

    kind: Kind  # of its text in the assembly
    signature: Any = None


def parts_of(
    order: Iterable[TextBlock | GatheredCall | Part],
    text_of: Callable[[Kind], str],
    provider: str,
) -> tuple[Part, ...]:
    """Return the parts of a reply so far, in order."""
    parts: list[Part] = []
    for each in order:
        if isinstance(each, GatheredCall):
            if not each.is_replaced:
                parts.append(each.written(provider))
        elif not isinstance(each, TextBlock):
            parts.append(each)
        elif each.kind[0] is Reasoning:
            parts.append(ReasoningPart(text_of(each.kind), each.signature, provider))
        else:
            parts.append(TextPart(text_of(each.kind)))
    return tuple(parts)


def own_candidates(value: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], int]:
    """Return the candidates of the reply, and the characters of the others.

    The reply has the index 0, which may be left out. Others have another one, or a text of their
    own beside that of the first.
    """
    own: list[Mapping[str, Any]] = []
    letters = 0
    for candidate in blocks_in(value.get("candidates")):
        is_second = _has_text(candidate) and any(map(_has_text, own))
        if candidate.get("index") in (None, 0) and not is_second:
            own.append(candidate)
        else:
            letters += len(as_json(candidate.get("content")))
    return own, letters


def _has_text(candidate: Mapping[str, Any]) -> bool:
    return any(text_in(part, "text") for part in blocks_of(candidate))


def blocks_of(candidate: Mapping[str, Any]) -> list[Any]:
    """Return the parts of a candidate; one of another role than the model's has none."""
    content = block_in(candidate.get("content"))
    if content.get("role") in FOREIGN_ROLES:
        return []
    return blocks_in(content.get("parts") or content.get("text"))


def aside_of(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a candidate that the reply does not hold elsewhere."""
    return {name: value for name, value in candidate.items() if name not in _OF_REPLY}


def is_thought(part: Mapping[str, Any]) -> bool:
    """Tell whether a part is reasoning; some gateways write that as text."""
    return str(part.get("thought")).lower() in ("true", "1")


def is_again(parts: Sequence[Mapping[str, Any]], came: Sequence[Part]) -> bool:
    """Tell whether the parts of a last event are the whole reply over again.

    One call alone may be meant twice; with another one, or with a text, it is not.

    Arguments:
        parts: the parts of the event.
        came: the reply so far.
    """
    if len(parts) < 2:
        return False
    found = [call for call in map(call_in, parts) if call is not None]
    texts = [text_in(part, "text") for part in parts if not is_thought(part)]
    said = [listed(call)[1:] for call in found]
    are_same = said == [(call.name, call.arguments) for call in calls_of(came)]
    return are_same and "".join(texts) == text_of(came)
