"""Count what a streamed chat completion contains that no delta shows: it costs as much as any other text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.dialects import REASONING_FIELDS
from rungwise.adapters.wires.chat.reply import contents
from rungwise.adapters.wires.chat.tools import calls_in
from rungwise.adapters.wires.json_text import HeldText
from rungwise.adapters.wires.reading.decoding import SPARE

_MOST: Final = 10_000  # the most values of a chunk that are read; no real chunk has as many
_SHOWN: Final = frozenset({"role", "content", "reasoning_content", "refusal", "tool_calls", "function_call"})
_WRITTEN: Final = (
    *("content", "text", "refusal", "summary", "transcript", "arguments", "input", "reasoning_text"),
    *("thinking_blocks", *REASONING_FIELDS),
    *("delta", "message", "audio", "tool_calls", "function_call", "function", "custom", "provider_specific_fields"),
)
"""Members that a model writes, and members that hold such members; citations, log probabilities and other
data from the server are not among them, nor are pictures and sounds."""

_SEALED: Final = ("reasoning.encrypted", "redacted_thinking")


@define(eq=False)
class Beside:
    """Count the characters of a stream that its deltas did not gather."""

    _letters: int = field(default=0, init=False)
    _loose: int = field(default=0, init=False)
    _calls: str = field(default="", init=False)
    _said: tuple[str, str, str] = field(default=("", "", ""), init=False)

    @property
    def letters(self) -> int:
        """Return the characters so far; encrypted reasoning and stray lines count only beyond `SPARE`."""
        return self._letters + max(0, self._loose - SPARE)

    def stray(self, data: bytes) -> None:
        """Count bytes that are not part of a chunk."""
        self._loose += len(data)

    def take(self, choices: object, own: Mapping[str, Any]) -> None:
        """Count what a chunk holds besides the delta of `own`, the reply's choice; `replace` counts messages."""
        if not isinstance(choices, list):
            return
        seen: set[str] = set()
        values: list[object] = [choice for choice in choices if choice is not own]
        if own:
            delta = own.get("delta")
            if isinstance(delta, dict) and not delta.keys() <= _SHOWN:
                seen.update(contents(delta))  # several fields often say the same
                values.append({name: delta[name] for name in delta if name not in ("tool_calls", "function_call")})
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
            again = len(last) if new.startswith(last) else 0  # a server may have stripped the text of its deltas
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
