"""Read a chat completion: messages, errors and usage in every spelling that servers use.

What a streamed one contains that no delta shows is counted: it costs as much as any other text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.dialect import Count
from rungwise.adapters.wires.chat.dialects import (
    COUNTS,
    ERRORS,
    REASONING_FIELDS,
    REFUSALS,
    STOP_REASONS,
    USAGE,
    found_at,
)
from rungwise.adapters.wires.chat.tools import calls_in, index_of
from rungwise.adapters.wires.counts import billed, lifetimes
from rungwise.adapters.wires.draft import beyond, count_of, finish_in
from rungwise.adapters.wires.json_text import as_json
from rungwise.adapters.wires.plain.parts import block_in, blocks_in, is_marked_as_thought, text_in
from rungwise.adapters.wires.reading.decoding import SPARE
from rungwise.fsm.replies.assembly.gathered import GatheredText
from rungwise.fsm.replies.assembly.origin import FOREIGN_ROLES
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
"""Members that a model writes, and members that hold such members.

Citations, log probabilities and other data from the server are not among them, nor are pictures and
sounds."""

_SEALED: Final = ("reasoning.encrypted", "redacted_thinking")
"""The types of blocks that hold encrypted reasoning."""
_KINDS: Final = {"reasoning": "thinking", "output_text": "text"}
"""Other types of the parts of a content, with the usual ones."""
_REFUSED: Final = frozenset(path[0] for path in REFUSALS)
"""Other members of a message or a choice than `refusal` that may hold a refusal."""


@define(eq=False)
class Beside:
    """Count the characters of a stream that its deltas did not gather."""

    _letters: int = field(default=0, init=False)
    _loose: int = field(default=0, init=False)  # characters that may be no text of a model's
    # the last whole message: its calls, and its text, reasoning and refusal
    _calls: str = field(default="", init=False)
    _last_texts: tuple[str, str, str] = field(default=("", "", ""), init=False)

    @property
    def letters(self) -> int:
        """Return the characters so far.

        Encrypted reasoning and stray lines count only beyond `SPARE`.
        """
        return self._letters + max(0, self._loose - SPARE)

    def stray(self, data: bytes) -> None:
        """Count bytes that are not part of a chunk."""
        self._loose += len(data)

    def take(self, choices: object, own: Mapping[str, Any]) -> None:
        """Count what a chunk holds besides the delta of the reply's choice.

        Arguments:
            choices: all choices of the chunk.
            own: that of the reply. Its message, if it has one, is for `replace`.
        """
        if not isinstance(choices, list):
            return
        seen: set[str] = set()
        values: list[object] = [choice for choice in choices if choice is not own]
        if own:
            delta = own.get("delta")
            if isinstance(delta, dict) and not delta.keys() <= _SHOWN:
                seen.update(contents(delta))  # several fields often say the same
                calls = ("tool_calls", "function_call")
                values.append({name: delta[name] for name in delta if name not in calls})
            if "text" in own:
                values.append(own["text"])
        if not values:
            return
        for text, is_sealed in _texts(values):
            if text in seen:
                continue
            seen.add(text)
            if is_sealed:
                self._loose += len(text)
            else:
                self._letters += len(text)

    def replace(self, message: Mapping[str, Any], gathered: Sequence[GatheredText]) -> None:
        """Count the new text of a whole message; some servers send all of it again each time.

        Arguments:
            message: the message.
            gathered: the text, the reasoning and the refusal that deltas have brought.
        """
        texts = contents(message)
        for new, before, last in zip(texts, gathered, self._last_texts, strict=True):
            repeated = 0
            # Anything longer cannot be a prefix of this; do not copy it.
            if before.size <= len(new) and new.startswith(before.text):
                repeated = before.size
            # a server may have stripped the text of its deltas
            if new.startswith(last):
                repeated = max(repeated, len(last))
            self._letters += len(new) - repeated
        self._last_texts = texts
        calls = "".join([text for text, _ in _texts(calls_in(message))])
        self._letters += len(calls)
        if calls.startswith(self._calls):
            self._letters -= len(self._calls)
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


BILLED: Final = ("service_tier", "tool_usage")
"""Members that say what is billed beside the tokens."""
ABOUT: Final = ("id", "created", "model", "citations")
"""Members that distinguish one reply from others; the last holds the sources of Perplexity's."""


def first_choice(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice with index 0 or no index; an empty mapping if there is none."""
    for choice in blocks_in(value.get("choices")):
        if not index_of(choice):
            return choice  # type: ignore[no-any-return]
    return {}


def message_in(choice: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the first message or delta under some names of a choice; an empty one for none.

    Some servers write a bare text in place of it, or a list. One of another role than the model's
    says nothing of the reply.
    """
    for name in names:
        said = choice.get(name)
        if not said:
            continue
        if isinstance(said, dict):
            is_foreign = "role" in said and said["role"] in FOREIGN_ROLES
            return {} if is_foreign else said
        if said := block_in(said):
            return said
    return {}


def role_in(choice: Mapping[str, Any]) -> object:
    """Return the role of the message or the delta of a choice, or None."""
    said = choice.get("delta") or choice.get("message")
    return said.get("role") if isinstance(said, dict) else None


def others_in(value: Mapping[str, Any], own: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all choices but the reply's own."""
    choices = value.get("choices")
    if choices == [own]:
        return []
    return [choice for choice in blocks_in(choices) if choice is not own]


def error_in(
    value: Mapping[str, Any],
    choice: Mapping[str, Any],
    body: bytes,
) -> bytes | None:
    """Return the error body in a response of status 200, or None.

    Arguments:
        value: the object of the body.
        choice: the reply's choice in it.
        body: the bytes, which are the error body unless the error is in a member of its own.
    """
    for path, what in ERRORS:
        error = path[0] in value and found_at(path, value)
        if not error or what not in (None, error) or not _says(error):
            continue
        if path[1:] == ("error",):
            return as_json({"error": error}).encode()
        return body
    for place in (choice, choice.get("delta"), choice.get("message")):
        if isinstance(place, dict) and "error" in place and _says(place["error"]):
            return as_json({"error": place["error"]}).encode()
    return None


def _says(error: object) -> bool:
    """Tell whether a member for errors holds any; gateways fill it with empty texts, too."""
    return any(error.values()) if isinstance(error, dict) else bool(error)


def finish_in_any(*places: Any) -> object:
    """Return the finish reason of the first of some objects that has one, or None."""
    for place in places:
        if isinstance(place, dict):
            finish = finish_in(place, "finish_reason", STOP_REASONS)
            if finish is not None:
                return finish
    return None


def contents(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the text, the reasoning and the refusal of a message or a delta."""
    refusal = message.get("refusal")
    if not refusal or not isinstance(refusal, str):
        refusal = refused_beside(message)
    reasoning = ""
    for name in REASONING_FIELDS:
        if name in message and (reasoning := _text_of(message[name])):
            break
    content = message.get("content") or message.get("text")
    content = content or text_in(message.get("audio"), "transcript")
    if isinstance(content, str):
        if is_marked_as_thought(message):
            return "", reasoning or content, refusal
        return content, reasoning, refusal
    texts: dict[str, list[str]] = {
        "text": [],
        "thinking": [],
        "refusal": [],
    }
    for part in blocks_in(content):
        kind = str(part.get("type", "text"))
        kind = _KINDS.get(kind, kind)
        if kind in texts:
            texts[kind].append(_text_of(part))
    text = "".join(texts["text"])
    thinking = "".join(texts["thinking"])
    refused = "".join(texts["refusal"])
    return text, reasoning or thinking, refusal or refused


def refused_beside(value: Mapping[str, Any]) -> str:
    """Return the refusal that a proxy puts into a member of its own.

    The member is in the message, or beside it.
    """
    if _REFUSED.isdisjoint(value):
        return ""
    for path in REFUSALS:
        refusal = found_at(path, value)
        if isinstance(refusal, str):
            return refusal
    return ""


def _text_of(value: object, depth: int = 4) -> str:
    """Return the text of a string, of a part, or of a list of either."""
    if isinstance(value, str):
        return value
    if depth and isinstance(value, list):
        return "".join([_text_of(part, depth - 1) for part in value])
    if depth and isinstance(value, dict):
        for name in ("text", "thinking", "summary", "refusal", "content", "reasoning", "value"):
            if name in value:
                return _text_of(value[name], depth - 1)
    return ""


_NOTHING: Final[Mapping[str, Any]] = {}
_PLAIN: Final = {path[0] for paths in COUNTS.values() for path in paths if len(path) == 1}
"""The members of a report that count tokens, and state nothing else."""


def usage_in(value: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the usage of a completion or a chunk unchanged, or None.

    Moonshot puts it into the last choice [earendil-works/pi#2017].
    """
    own = choice.get("usage")
    if own and isinstance(own, dict):
        return own
    for path in USAGE:
        if path[0] in value and (usage := found_at(path, value)):
            return usage if isinstance(usage, dict) else None
    return None


def usage_of(
    raw: Mapping[str, Any],
    around: Mapping[str, Any] = _NOTHING,
) -> Usage | None:
    """Return the reported token counts, or None if there are none.

    Anything malformed counts as 0. Servers disagree whether the input contains the cached tokens,
    and the output the reasoning; where they report a total, it decides.

    Arguments:
        raw: the report.
        around: the body that it stands in, which may say what else is billed.
    """
    total_input = _count(raw, "input")
    output = _count(raw, "output")
    reasoning = _count(raw, "reasoning")
    read = _count(raw, "cache_read")
    is_plain = raw.keys() <= _PLAIN and around.keys().isdisjoint(BILLED)
    by_lifetime, long = (0, 0) if is_plain else lifetimes(raw)
    creation = max(_count(raw, "cache_creation"), by_lifetime)
    total_input = total_input or read + _count(raw, "cache_miss")
    if not total_input and not output:
        return None
    total = _count(raw, "total")
    total_input = total_input or beyond(total, output)
    agrees = total == total_input + output
    if reasoning > output or (reasoning and total == total_input + output + reasoning):
        # some servers count the reasoning beside the output, all others within it
        output += reasoning
    if agrees or total == total_input + output:
        read = min(read, total_input)
        creation = min(creation, total_input - read)
    elif read + creation > total_input or total == total_input + output + read + creation:
        total_input += read + creation  # counted beside the input, likewise
    output += beyond(total, total_input + output)
    usage = Usage(
        input_tokens=total_input,
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=creation,
        cache_creation_long_tokens=min(long, creation),
        reasoning_tokens=reasoning,
    )
    return usage if is_plain else billed(usage, raw, around)


def _count(raw: Mapping[str, Any], what: Count) -> int:
    """Return the first count above 0 in the places where servers put it; 0 if there is none."""
    for path in COUNTS[what]:
        if path[0] in raw and (count := count_of(found_at(path, raw))):
            return count
    return 0


def aside_of(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the log probabilities and annotations of a chunk, placed as in a whole body."""
    members: dict[str, Any] = {}
    if isinstance(choice.get("logprobs"), dict):
        members["logprobs"] = choice["logprobs"]
    for name in ("delta", "message"):
        said = choice.get(name)
        if said and "annotations" in said:
            annotations = message_in(choice, name).get("annotations")
            if isinstance(annotations, list):
                members["message"] = {"annotations": annotations}
    return members
