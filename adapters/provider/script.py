"""The script of the embedded provider: which reply it gives to which request, well or badly
behaved.

    after = "error"               # instead of the last reply for ever

    [[replies]]
    status = 429
    headers = { retry-after = "2" }

    [[replies]]
    text = "The first half arrives, the second one does not."
    cut_after = 700               # bytes of the body

    [[replies]]
    tool_calls = [{ id = "call_1", name = "search", arguments = '{"q": "rungs"}' }]

Every field of `ScriptedReply` may stand in a reply.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from math import floor
from os import PathLike
from typing import Any, Literal, Self, get_args

import attrs
from attrs import field, frozen

from rungwise.adapters.gateway.languages.language import Completion
from rungwise.adapters.wires.endpoint import HEADER_NAME
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.checks import (
    is_flag,
    is_number,
    is_text,
    is_whole,
    must,
    must_be_one_of,
    or_none,
)
from rungwise.fsm.values.files import BARE_KEY, read_toml, text_of_file, toml_value
from rungwise.fsm.values.frozen_map import frozen_copy
from rungwise.fsm.values.label import LONGEST_QUOTE, did_you_mean, short

ReasoningField = Literal["reasoning_content", "reasoning", "reasoning_text", "reasoning_details"]
"""Where a provider puts its reasoning."""

After = Literal["repeat", "error", "loop"]
"""What follows the last reply: the last one for ever, a 500 that says so, or the first one again.
"""

ERROR_FIELDS = ("message", "type", "code", "param")
CALL_FIELDS = ("id", "name", "arguments")
FRAMING = ("content-length", "transfer-encoding")
_FINEST = 2**20  # parts of a second: a power of two, so that sums of pauses are not rounded
SURROGATE = re.compile("[\ud800-\udfff]")  # alone it fits into neither TOML nor UTF-8


def _refuse_unknown(where: str, keys: Iterable[object], names: Collection[str]) -> None:
    for key in keys:
        if key not in names:
            is_plain = (
                isinstance(key, str) and len(key) <= LONGEST_QUOTE and BARE_KEY.fullmatch(key)
            )
            name = str(key) if is_plain else short(key)
            hint = did_you_mean(name, names, f"it must be one of {', '.join(names)}")
            raise ConfigurationError(f"{where}{name} is unknown; {hint}")


def _is_writable(value: object) -> bool:
    return is_text(value) and not SURROGATE.search(value)


def _is_count(value: object, least: int = 0) -> bool:
    return is_whole(value, least, 2**63 - 1)  # as large as the integers of TOML are


def _is_size(value: object) -> bool:
    return _is_count(value, 1)


def _is_seconds(value: object) -> bool:
    # An int may be larger than any float, and is then no more a number to count with than infinity
    # is.
    return is_number(value, 0, sys.float_info.max)


def _is_counts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_writable(key)
        and (
            _is_count(count)
            or (isinstance(count, float) and _is_seconds(count))
            or _is_counts(count)
        )
        for key, count in value.items()
    )


def _check_error(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping | None):
        raise ConfigurationError(f"{attribute.name} must be a table of {', '.join(ERROR_FIELDS)}")
    _refuse_unknown(f"{attribute.name}.", value or (), ERROR_FIELDS)
    for key, part in (value or {}).items():
        if not _is_writable(part) and not (key == "code" and _is_count(part)):
            raise ConfigurationError(f"{attribute.name}.{key} must be a string, not {short(part)}")


def _check_headers(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"headers must be a table of strings, not {short(value)}")
    for name, text in value.items():
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"headers: {short(name)} is not a header name")
        if name.lower() in FRAMING:
            raise ConfigurationError(
                f"headers.{name} is set by the provider; use cut_after to end a body early"
            )
        if not isinstance(text, str) or not text.isprintable() or max(text, default="") > "\xff":
            raise ConfigurationError(
                f"headers.{name} must be one line in Latin-1, not {short(text)}"
            )


# Converters leave what they cannot convert to the validators, which know the field's name.


def _copied(value: Mapping[str, Any] | None) -> Any:
    return frozen_copy(value, "a table of a reply")


def _tuple(value: Sequence[int]) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _tool_calls(value: Sequence[ToolCall | Mapping[str, str]]) -> tuple[ToolCall, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(
            f"tool_calls must be a list of tables with {', '.join(CALL_FIELDS)}"
        )
    return tuple(
        _tool_call(f"tool_calls[{index}]", index, call) for index, call in enumerate(value)
    )


def _tool_call(where: str, index: int, value: object) -> ToolCall:
    arguments = (
        {name: getattr(value, name) for name in CALL_FIELDS}
        if isinstance(value, ToolCall)
        else value
    )
    if not isinstance(arguments, Mapping):
        raise ConfigurationError(
            f"{where} must be a table with {', '.join(CALL_FIELDS)}, not {short(value)}"
        )
    _refuse_unknown(f"{where}.", arguments, CALL_FIELDS)
    if "name" not in arguments:
        raise ConfigurationError(f"{where}.name is missing; give the tool's name")
    whole = {"id": f"call_{index + 1}", "arguments": "{}", **arguments}
    for name, part in whole.items():
        if not _is_writable(part):
            hint = "; write the JSON as one string" if name == "arguments" else ""
            raise ConfigurationError(f"{where}.{name} must be a string, not {short(part)}{hint}")
    return ToolCall(**whole)


_TEXT = must("a string", _is_writable)
_OPTIONAL_TEXT = must("a string", or_none(_is_writable))
_TEXT_OR_FLAG = must(
    "true, false or a string", or_none(lambda value: is_flag(value) or _is_writable(value))
)
_FLAG = must("true or false", is_flag)
_SECONDS = must("a number of seconds, 0 or more", _is_seconds)
_STATUS = must(
    "a status from 200 to 999 that has a body",
    lambda value: is_whole(value, 200, 999) and value not in (204, 304),
)
_USAGE = must("a table of numbers, 0 or more", or_none(_is_counts))
_CUT = must("a whole number of bytes, 0 or more", or_none(_is_count))
_SIZE = must("a whole number of characters above 0", _is_size)
_SIZES = must(
    "a list of whole numbers of bytes above 0",
    lambda value: isinstance(value, tuple) and all(map(_is_size, value)),
)


@frozen
class ScriptedReply:
    """Describe one reply and how it misbehaves.

    Arguments:
        text: the visible content.
        reasoning: the reasoning, sent before the text.
        reasoning_field: the field that carries the reasoning.
        signature: the signature of the reasoning, in protocols that sign it; "" makes up a valid
        one. tool_calls: tool calls, or mappings with `id`, `name` and `arguments` (JSON as a
        string, valid or not). finish: the finish reason; "" for none, None for the matching one
        ("tool_calls" or "stop").
        refusal: the model's refusal.
        model: the model id in the reply; "" repeats the requested one.
        usage: token counts as the provider reports them; {} for no report, None counts 4 characters
        a token. status: the HTTP status.
        error: `message`, `type`, `code` and `param` of an error body; None makes one for the
            status.
        body: the whole body; it overrides everything above except the status.
        headers: headers of the response.
        delay: seconds before the first byte.
        chunk_delay: seconds between two writes of the body.
        lasts: seconds that the body takes, its writes spread evenly over them.
        hang: whether to fall silent for ever: before the first byte, or after `cut_after` bytes if
        that is set. cut_after: bytes of the body after which the connection is closed.
        chunk_size: code points of text in one streamed delta.
        write_sizes: bytes of successive writes of the body, over and over; empty writes event by
        event. done: whether `data: [DONE]` ends a stream.
        error_event: an error like `error`, sent inside a reply of status 200 after the text, in
            place of its finish; chat completions send `usage`, if set, before it.
        final_message: whether the last chunk carries a whole `message` too: True with the text, or
            this text instead.

    Raises:
        ConfigurationError: a field is malformed.
    """

    text: str = field(default="", validator=_TEXT)
    reasoning: str = field(default="", validator=_TEXT)
    reasoning_field: ReasoningField = field(
        default="reasoning_content", validator=must_be_one_of(get_args(ReasoningField))
    )
    signature: str = field(default="", validator=_TEXT)
    tool_calls: tuple[ToolCall, ...] = field(default=(), converter=_tool_calls)
    finish: str | None = field(default=None, validator=_OPTIONAL_TEXT)
    refusal: str = field(default="", validator=_TEXT)
    model: str = field(default="", validator=_TEXT)
    usage: Mapping[str, Any] | None = field(default=None, converter=_copied, validator=_USAGE)
    status: int = field(default=200, validator=_STATUS)
    error: Mapping[str, Any] | None = field(default=None, converter=_copied, validator=_check_error)
    body: str | None = field(default=None, validator=_OPTIONAL_TEXT)
    headers: Mapping[str, str] = field(factory=dict, converter=_copied, validator=_check_headers)
    delay: float = field(default=0.0, validator=_SECONDS)
    chunk_delay: float = field(default=0.0, validator=_SECONDS)
    lasts: float = field(default=0.0, validator=_SECONDS)
    hang: bool = field(default=False, validator=_FLAG)
    cut_after: int | None = field(default=None, validator=_CUT)
    chunk_size: int = field(default=12, validator=_SIZE)
    write_sizes: tuple[int, ...] = field(default=(), converter=_tuple, validator=_SIZES)
    done: bool = field(default=True, validator=_FLAG)
    error_event: Mapping[str, Any] | None = field(
        default=None, converter=_copied, validator=_check_error
    )
    final_message: bool | str | None = field(default=None, validator=_TEXT_OR_FLAG)

    @property
    def answer(self) -> Completion:
        """Return what a protocol writes of it."""
        return Completion(
            **{
                attribute.name: getattr(self, attribute.name)
                for attribute in attrs.fields(Completion)
            }
        )

    def pauses(self, count: int) -> list[float]:
        """Return the seconds before each of so many writes of the body, whose sum is not
        rounded.
        """
        even = floor(self.lasts / count * _FINEST) / _FINEST if count else 0.0
        pauses = [even + (self.chunk_delay if index else 0.0) for index in range(count)]
        return [*pauses[:-1], pauses[-1] + self.lasts - even * count] if pauses else []

    @property
    def given(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        return {name: value for name, value in _values(self).items() if value != _DEFAULTS[name]}

    def __repr__(self) -> str:
        return (
            f"ScriptedReply({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"
        )


def _values(reply: ScriptedReply) -> dict[str, Any]:
    """Return the fields as plain values, as `ScriptedReply` takes them."""
    values = {
        attribute.name: getattr(reply, attribute.name) for attribute in attrs.fields(ScriptedReply)
    }
    calls = [{name: getattr(call, name) for name in CALL_FIELDS} for call in reply.tool_calls]
    return {
        name: dict(value)
        if isinstance(value, Mapping)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in {**values, "tool_calls": calls}.items()
    }


_DEFAULTS = _values(ScriptedReply())


def _replies(value: Iterable[ScriptedReply]) -> tuple[ScriptedReply, ...]:
    if not isinstance(value, Iterable):
        raise ConfigurationError(
            f"replies must be a list of replies, not {type(value).__name__}: put it into a list"
        )
    replies = tuple(value)
    if not replies:
        raise ConfigurationError("replies is empty; give at least one reply")
    for index, reply in enumerate(replies):
        if not isinstance(reply, ScriptedReply):
            raise ConfigurationError(
                f"replies[{index}] must be a ScriptedReply, not {type(reply).__name__}"
            )
    return replies


@frozen
class Script:
    """Hold what the embedded provider answers, request by request.

    Arguments:
        replies: the replies, at least one.
        after: what follows the last one.

    Raises:
        ConfigurationError: there is no reply, or `after` is not one of its words.
    """

    replies: tuple[ScriptedReply, ...] = field(converter=_replies)
    after: After = field(default="repeat", validator=must_be_one_of(get_args(After)))

    def reply(self, index: int) -> ScriptedReply:
        """Return the reply to the request with this index, counted from 0."""
        count = len(self.replies)
        if index < count:
            return self.replies[index]
        if self.after == "error":
            message = (
                f"The script has ended: it has {count} replies, and this is request {index + 1}."
            )
            return ScriptedReply(status=500, error={"message": message, "type": "script_ended"})
        return self.replies[index % count if self.after == "loop" else -1]

    @classmethod
    def from_toml(cls, text: str, source: str = "script") -> Self:
        """Read a script from TOML.

        Arguments:
            text: the TOML.
            source: what errors call it, usually the name of the file.

        Raises:
            ConfigurationError: the text is no TOML, or a field is unknown or not of its form.
        """
        try:
            table = read_toml(text)
            _refuse_unknown("", table, ("replies", "after"))
            replies = table.get("replies", [])
            if not isinstance(replies, list):
                raise ConfigurationError(
                    "replies must be a list of tables: start each with [[replies]]"
                )
            parsed = [
                _read_reply(f"replies[{index}]", reply) for index, reply in enumerate(replies)
            ]
            return cls(parsed, table.get("after", "repeat"))
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: {error}") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a script from a TOML file.

        Raises:
            ConfigurationError: the file cannot be read, or is not a script.
        """
        return cls.from_toml(text_of_file(path), str(path))

    def to_toml(self, notes: Sequence[str] = ()) -> str:
        """Write the script as TOML; the fields of a reply that have their default are left out.

        Arguments:
            notes: a line for each of the first replies, to stand above it as a comment.
        """
        blocks = [f"after = {toml_value(self.after)}\n"]
        for reply, comment in zip_longest(self.replies, notes[: len(self.replies)]):
            lines = (f"{name} = {toml_value(value)}\n" for name, value in reply.given.items())
            note = "" if comment is None else f"# {comment}\n"
            blocks.append(f"{note}[[replies]]\n" + "".join(lines))
        return "\n".join(blocks)


def _read_reply(where: str, table: object) -> ScriptedReply:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where} must be a table, not {short(table)}")
    _refuse_unknown(f"{where}.", table, _DEFAULTS)
    try:
        return ScriptedReply(**table)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}.{error}") from None
