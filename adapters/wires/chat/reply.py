"""Read a chat completion: messages, finish reasons and usage in every spelling that servers of this
protocol use.

What a streamed one contains that no delta shows is counted: it costs as much as any other text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.dialects import (
    COUNTS,
    ERRORS,
    REASONING_FIELDS,
    REFUSALS,
    USAGE,
    Count,
    found_at,
)
from rungwise.adapters.wires.chat.tools import calls_in, index_of
from rungwise.adapters.wires.draft import count_of
from rungwise.adapters.wires.json_text import HeldText, as_json
from rungwise.adapters.wires.reading.decoding import SPARE
from rungwise.fsm.values.usage import Usage

_MOST: Final = 10_000  # the most values of a chunk that are read; no real chunk has as many
_SHOWN: Final = frozenset(
    {"role", "content", "reasoning_content", "refusal", "tool_calls", "function_call"}
)
_WRITTEN: Final = (
    "content",
    "text",
    "refusal",
    "summary",
    "transcript",
    "arguments",
    "input",
    "reasoning_text",
    "thinking_blocks",
    *REASONING_FIELDS,
    "delta",
    "message",
    "audio",
    "tool_calls",
    "function_call",
    "function",
    "custom",
    "provider_specific_fields",
)
"""Members that a model writes, and members that hold such members; citations, log probabilities and
other data from the server are not among them, nor are pictures and sounds."""

_SEALED: Final = ("reasoning.encrypted", "redacted_thinking")
_REFUSED: Final = frozenset(path[0] for path in REFUSALS)
"""Other members of a message or a choice than `refusal` that may hold a refusal."""


@define(eq=False)
class Beside:
    """Count the characters of a stream that its deltas did not gather."""

    _letters: int = field(default=0, init=False)
    _loose: int = field(default=0, init=False)
    _calls: str = field(default="", init=False)
    _said: tuple[str, str, str] = field(default=("", "", ""), init=False)

    @property
    def letters(self) -> int:
        """Return the characters so far; encrypted reasoning and stray lines count only beyond
        `SPARE`.
        """
        return self._letters + max(0, self._loose - SPARE)

    def stray(self, data: bytes) -> None:
        """Count bytes that are not part of a chunk."""
        self._loose += len(data)

    def take(self, choices: object, own: Mapping[str, Any]) -> None:
        """Count what a chunk holds besides the delta of `own`, the reply's choice; `replace` counts
        messages.
        """
        if not isinstance(choices, list):
            return
        seen: set[str] = set()
        values: list[object] = [choice for choice in choices if choice is not own]
        if own:
            delta = own.get("delta")
            if isinstance(delta, dict) and not delta.keys() <= _SHOWN:
                seen.update(contents(delta))  # several fields often say the same
                values.append(
                    {
                        name: delta[name]
                        for name in delta
                        if name not in ("tool_calls", "function_call")
                    }
                )
            if "text" in own:
                values.append(own["text"])
        for text, is_sealed in _texts(values) if values else ():
            if text in seen:
                continue
            seen.add(text)
            if is_sealed:
                self._loose += len(text)
            else:
                self._letters += len(text)

    def replace(self, message: Mapping[str, Any], *buffers: HeldText) -> None:
        """Count the new text of a whole message; some servers send all of it again each time."""
        texts = contents(message)
        for new, old, last in zip(texts, buffers, self._said, strict=True):
            # Anything longer cannot be a prefix of this; do not copy it.
            goes_on = old.tell() <= len(new) and new.startswith(old.getvalue())
            # a server may have stripped the text of its deltas
            again = len(last) if new.startswith(last) else 0
            self._letters += len(new) - max(again, old.tell() if goes_on else 0)
        self._said = texts
        calls = "".join([text for text, _ in _texts(calls_in(message))])
        self._letters += len(calls) - (len(self._calls) if calls.startswith(self._calls) else 0)
        self._calls = calls


def _texts(values: Sequence[object]) -> Iterator[tuple[str, bool]]:
    """Yield the texts in these values, each with whether it is encrypted."""
    pending: list[Any] = [*reversed(values)]
    for _ in range(_MOST):
        if not pending:
            return
        value = pending.pop()
        if isinstance(value, str):
            yield value, False
        elif isinstance(value, list):
            pending += value[:_MOST][::-1]
        elif isinstance(value, dict):
            if value.get("type") in _SEALED and isinstance(value.get("data"), str):
                yield value["data"], True
            pending += [value[name] for name in _WRITTEN if name in value]


ABOUT: Final = ("id", "created", "model", "citations")
"""Members that distinguish one reply from others; the last one holds the sources of Perplexity's.
"""


def first_choice(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice with index 0 or no index; an empty mapping if there is none."""
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not index_of(choice):
            return choice
    return {}


def error_in(value: Mapping[str, Any], choice: Mapping[str, Any], body: bytes) -> bytes | None:
    """Return the error body in a response of status 200, or None."""
    for path, what in ERRORS:
        value_there = path[0] in value and found_at(path, value)
        if value_there and what in (None, value_there):
            return as_json({"error": value_there}).encode() if path[1:] == ("error",) else body
    error = choice.get("error")
    return as_json({"error": error}).encode() if error else None


def contents(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the text, the reasoning and the refusal of a message or a delta."""
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    refusal = message.get("refusal")
    refusal = refusal if refusal and isinstance(refusal, str) else refused_beside(message)
    thoughts = ""
    for name in REASONING_FIELDS:
        if name in message and (thoughts := _text_of(message[name])):
            break
    if not isinstance(content, list):
        return text, thoughts, refusal
    kinds: dict[str, list[str]] = {"text": [], "thinking": [], "refusal": []}
    for part in content:
        kind = str(part.get("type", "text")) if isinstance(part, dict) else "text"
        kind = {"reasoning": "thinking", "output_text": "text"}.get(kind, kind)
        if kind in kinds:
            kinds[kind].append(_text_of(part))
    text, thinking, refused = ("".join(pieces) for pieces in kinds.values())
    return text, thoughts or thinking, refusal or refused


def refused_beside(value: Mapping[str, Any]) -> str:
    """Return the refusal that a proxy puts into a message, or beside one, in a member of its
    own.
    """
    if _REFUSED.isdisjoint(value):
        return ""
    refusals = (found_at(path, value) for path in REFUSALS)
    return next((refusal for refusal in refusals if isinstance(refusal, str)), "")


def _text_of(value: object, depth: int = 4) -> str:
    """Return the text of a string, of a part, or of a list of either."""
    if isinstance(value, str):
        return value
    if depth and isinstance(value, list):
        return "".join([_text_of(part, depth - 1) for part in value])
    if depth and isinstance(value, dict):
        for name in ("text", "thinking", "summary", "refusal", "content", "reasoning"):
            if name in value:
                return _text_of(value[name], depth - 1)
    return ""


def usage_in(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the usage of a completion or a chunk unchanged, or None."""
    for path in USAGE:
        if path[0] in value and (usage := found_at(path, value)):
            return usage if isinstance(usage, dict) else None
    return None


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Return the reported token counts, or None if there are none; anything malformed counts as
    0.
    """
    total_input = _count(raw, "input")
    output = _count(raw, "output")
    reasoning = _count(raw, "reasoning")
    read = _count(raw, "cache_read")
    creation = _count(raw, "cache_creation")
    total_input = total_input or read + _count(raw, "cache_miss")
    if not total_input and not output:
        return None
    total = _count(raw, "total")
    agrees = total == total_input + output
    if reasoning > output or (reasoning and total == total_input + output + reasoning):
        # some servers count the reasoning beside the output, all others within it
        output += reasoning
    if agrees or total == total_input + output:
        read = min(read, total_input)
        creation = min(creation, total_input - read)
    elif read + creation > total_input or total == total_input + output + read + creation:
        total_input += read + creation  # counted beside the input, likewise
    return Usage(
        input_tokens=total_input,
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=creation,
        reasoning_tokens=reasoning,
    )


def _count(raw: Mapping[str, Any], what: Count) -> int:
    for path in COUNTS[what]:
        if path[0] in raw and (count := count_of(found_at(path, raw))):
            return count
    return 0
