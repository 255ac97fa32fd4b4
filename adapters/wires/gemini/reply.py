"""Read a reply of Gemini's: its finish reason, its tokens and its function calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field, frozen

from rungwise.adapters.wires.counts import billed
from rungwise.adapters.wires.draft import COMMON, beyond, count_of, estimated, known_word
from rungwise.adapters.wires.json_text import as_json, input_in, mended
from rungwise.adapters.wires.plain.parts import blocks_in, list_of, text_in
from rungwise.adapters.wires.provider_data import copy_if_sendable
from rungwise.adapters.wires.reading.events import Events
from rungwise.fsm.replies.assembly.assembly import Kind
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.replies.parts import (
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    calls_of,
    reasoning_of,
    text_of,
)
from rungwise.fsm.replies.reply import Reasoning, Reply, StopReason
from rungwise.fsm.replies.text.contents import json_in
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


_CALLS: Final = ("functionCall", "function_call")
_STEP: Final = re.compile(r"\.([^.\[\]]{1,200})|\['([^']{1,200})'\]|\[(\d{1,6})\]")
"""A step of a JSON path: `.name`, `['name']` or `[index]`."""
_LONGEST_PATH: Final = 50
_VALUES: Final = ("stringValue", "numberValue", "boolValue")
"""The members of a piece of arguments that may hold its value; null has none."""


@define(eq=False)
class GatheredCall:
    """Hold one call while it arrives."""

    id: str
    name: str
    extras: dict[str, Any]  # other members of its part, and the server's own id
    is_open: bool = False  # whether more of it is to come
    letters: int = 0  # of the texts in its arguments
    _args: Any = None  # its arguments, without the texts that arrive in pieces
    _texts: dict[str, list[str]] = field(factory=dict)  # those, by their JSON path

    @classmethod
    def of(cls, part: Mapping[str, Any], function_call: Mapping[str, Any]) -> GatheredCall:
        """Start from the part that holds a call, and its `functionCall`."""
        extras = {name: value for name, value in part.items() if name not in _CALLS}
        if function_call.get("id"):
            extras["id"] = function_call["id"]
        call = cls(text_in(function_call, "id"), text_in(function_call, "name"), extras)
        call.take(function_call)
        return call

    def goes_on_with(self, function_call: Mapping[str, Any]) -> bool:
        """Tell whether a call is the next piece of this one."""
        if function_call.get("name") not in (None, "", self.name):
            return False
        return self.is_open and function_call.get("id") in (None, "", self.id)

    def take(self, function_call: Mapping[str, Any]) -> None:
        """Take a call, or the next piece of one."""
        self.is_open = function_call.get("willContinue") is True
        args = input_in(function_call, "args")
        if isinstance(args, str):
            opened, _ = json_in(args)
            if isinstance(opened, dict):
                args = opened
        if args is not None:
            self._args = args
        for piece in list_of(function_call.get("partialArgs")):
            if isinstance(piece, dict):
                self._take_piece(piece)

    def _take_piece(self, piece: Mapping[str, Any]) -> None:
        """Take a value, or a piece of a text, with its place in the arguments."""
        path = text_in(piece, "jsonPath")
        value = next((piece[name] for name in _VALUES if name in piece), None)
        if isinstance(value, str):
            self.letters += len(value)
            pieces = self._texts.setdefault(path, [])
            pieces.append(value)
            value = None
        elif path in self._texts:
            return
        if self._args is None:
            self._args = {}
        _put(self._args, path, value)

    def written(self, provider: str) -> ToolCall:
        """Return the call so far; the arguments of one that broke off lack their end."""
        args = {} if self._args is None else self._args
        for path, pieces in self._texts.items():
            _put(args, path, "".join(pieces))
        arguments = as_json(args)
        if self.is_open:
            arguments = arguments[:-1]
        id = str(mended(self.id))
        name = str(mended(self.name))
        return ToolCall(id, name, arguments, copy_if_sendable(self.extras) or {}, provider)


def calls_of_pieces(pieces: Iterable[tuple[str, Mapping[str, Any]]]) -> list[ToolCall]:
    """Return the calls that pieces add up to, in one reply or in several.

    Arguments:
        pieces: the parts that hold them, each behind the name of its provider.
    """
    calls: list[tuple[GatheredCall, str]] = []
    for provider, part in pieces:
        piece = call_in(part) or {}
        if calls and calls[-1][0].goes_on_with(piece):
            calls[-1][0].take(piece)
        else:
            calls.append((GatheredCall.of(part, piece), provider))
    return [call.written(provider) for call, provider in calls]


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

    The reply has the index 0, which may be left out; only others have another one.
    """
    own: list[Mapping[str, Any]] = []
    letters = 0
    for candidate in blocks_in(value.get("candidates")):
        if candidate.get("index") in (None, 0):
            own.append(candidate)
        else:
            letters += len(as_json(candidate.get("content")))
    return own, letters


def _put(root: Any, path: str, value: Any) -> None:
    """Put a value at a JSON path, as far as the path can be followed.

    What the path leads through is made where it is missing: a list if its next step is an index,
    else an object. A list only grows at its end. A path without a step leads nowhere.
    """
    steps = [name or quoted or int(index) for name, quoted, index in _STEP.findall(path)]
    steps = steps[:_LONGEST_PATH]
    following = [*steps[1:], None]
    for step, after in zip(steps, following, strict=False):
        is_last = after is None
        new = value
        if not is_last:
            new = [] if isinstance(after, int) else {}
        if isinstance(root, list) and isinstance(step, int) and step <= len(root):
            if step == len(root):
                root.append(new)
            elif is_last:
                root[step] = value
        elif isinstance(root, dict) and isinstance(step, str):
            if is_last or step not in root:
                root[step] = new
        else:
            return
        root = root[step]


def call_in(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the call in a part, or None."""
    calls = [part[name] for name in _CALLS if isinstance(part.get(name), dict)]
    return calls[0] if calls else None


def is_thought(part: Mapping[str, Any]) -> bool:
    """Tell whether a part is reasoning; some gateways write that as text."""
    return str(part.get("thought")).lower() in ("true", "1")


def is_again(parts: Sequence[Mapping[str, Any]], came: Sequence[Part], provider: str) -> bool:
    """Tell whether the parts of a last event are the whole reply over again.

    One call alone may be meant twice; with another one, or with a text, it is not.

    Arguments:
        parts: the parts of the event.
        came: the reply so far.
        provider: whose reply it is.
    """
    if len(parts) < 2:
        return False
    found = [call for call in map(call_in, parts) if call is not None]
    calls = [GatheredCall.of({}, call).written(provider) for call in found]
    texts = [text_in(part, "text") for part in parts if not is_thought(part)]
    said = [(call.name, call.arguments) for call in calls]
    are_same = said == [(call.name, call.arguments) for call in calls_of(came)]
    return are_same and "".join(texts) == text_of(came)
