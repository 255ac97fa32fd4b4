"""The script of the embedded provider: which reply it gives to which request.

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

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import floor
from os import PathLike
from typing import Any, Literal, Self, get_args

import attrs
from attrs import field, frozen

from rungwise.adapters.gateway.languages.language import Completion
from rungwise.adapters.provider.fields import (
    CALL_FIELDS,
    CUT,
    FLAG,
    OPTIONAL_TEXT,
    SECONDS,
    SIZE,
    SIZES,
    STATUS,
    TEXT,
    TEXT_OR_FLAG,
    USAGE,
    as_tuple,
    check_error,
    check_headers,
    copied,
    refuse_unknown,
    tool_calls_of,
)
from rungwise.adapters.provider.manners.encoder import check_manners, names_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.checks import explains_names, must_be_one_of
from rungwise.fsm.values.files import read_toml, text_of_file, toml_value
from rungwise.fsm.values.label import short

ReasoningField = Literal["reasoning_content", "reasoning", "reasoning_text", "reasoning_details"]
"""Where a provider puts its reasoning."""

After = Literal["repeat", "error", "loop"]
"""What follows the last reply: that one for ever, a 500 that says so, or the first one again."""

_FINEST = 2**20  # parts of a second: a power of two, so that sums of pauses are not rounded


@explains_names({})
@frozen
class ScriptedReply:
    """Describe one reply and how it misbehaves.

    Arguments:
        text: the visible content.
        reasoning: the reasoning, sent before the text.
        reasoning_field: the field that carries the reasoning.
        signature: the signature of the reasoning, in protocols that sign it; "" makes up a valid
            one.
        tool_calls: tool calls, or mappings with `id`, `name` and `arguments` (JSON as a string,
            valid or not).
        finish: the finish reason; "" for none, None for the matching one ("tool_calls" or "stop").
        refusal: the model's refusal.
        model: the model id in the reply; "" repeats the requested one.
        usage: token counts as the provider reports them; {} for no report, None counts 4 characters
            a token.
        status: the HTTP status.
        error: `message`, `type`, `code` and `param` of an error body; None makes one for the
            status.
        body: the whole body; it overrides everything above except the status.
        headers: headers of the response.
        delay: seconds before the first byte.
        chunk_delay: seconds between two writes of the body.
        lasts: seconds that the body takes, its writes spread evenly over them.
        hang: whether to fall silent for ever: before the first byte, or after `cut_after` bytes if
            that is set.
        cut_after: bytes of the body after which the connection is closed.
        chunk_size: code points of text in one streamed delta.
        write_sizes: bytes of successive writes of the body, over and over; empty writes event by
            event.
        done: whether `data: [DONE]` ends a stream.
        error_event: an error like `error`, sent inside a reply of status 200 after the text, in
            place of its finish; chat completions send `usage`, if set, before it.
        final_message: whether the last chunk carries a whole `message` too: True with the text, or
            this text instead.
        manner: how the reply is said otherwise than its protocol does: the name of a manner, or
            several that can be combined. One that only streams have is left out of other replies.

    Raises:
        ConfigurationError: a field is malformed.
    """

    text: str = field(default="", validator=TEXT)
    reasoning: str = field(default="", validator=TEXT)
    reasoning_field: ReasoningField = field(
        default="reasoning_content", validator=must_be_one_of(get_args(ReasoningField))
    )
    signature: str = field(default="", validator=TEXT)
    tool_calls: tuple[ToolCall, ...] = field(default=(), converter=tool_calls_of)
    finish: str | None = field(default=None, validator=OPTIONAL_TEXT)
    refusal: str = field(default="", validator=TEXT)
    model: str = field(default="", validator=TEXT)
    usage: Mapping[str, Any] | None = field(default=None, converter=copied, validator=USAGE)
    status: int = field(default=200, validator=STATUS)
    error: Mapping[str, Any] | None = field(default=None, converter=copied, validator=check_error)
    body: str | None = field(default=None, validator=OPTIONAL_TEXT)
    headers: Mapping[str, str] = field(factory=dict, converter=copied, validator=check_headers)
    delay: float = field(default=0.0, validator=SECONDS)
    chunk_delay: float = field(default=0.0, validator=SECONDS)
    lasts: float = field(default=0.0, validator=SECONDS)
    hang: bool = field(default=False, validator=FLAG)
    cut_after: int | None = field(default=None, validator=CUT)
    chunk_size: int = field(default=12, validator=SIZE)
    write_sizes: tuple[int, ...] = field(default=(), converter=as_tuple, validator=SIZES)
    done: bool = field(default=True, validator=FLAG)
    error_event: Mapping[str, Any] | None = field(
        default=None, converter=copied, validator=check_error
    )
    final_message: bool | str | None = field(default=None, validator=TEXT_OR_FLAG)
    manner: tuple[str, ...] = field(default=(), converter=names_of, validator=check_manners)

    @property
    def answer(self) -> Completion:
        """Return what a protocol writes of it."""
        names = {attribute.name for attribute in attrs.fields(Completion)}
        names -= {"commentary", "error_status"}  # which no script says
        return Completion(**{name: getattr(self, name) for name in names})

    def pauses(self, count: int) -> list[float]:
        """Return the seconds before each of so many writes of the body.

        Each gets an equal part of `lasts`, rounded down to a fraction that floats hold exactly; the
        last one gets what is left, so that the sum is exact, too.
        """
        if not count:
            return []
        even = floor(self.lasts / count * _FINEST) / _FINEST
        pauses = [even] + [even + self.chunk_delay] * (count - 1)
        pauses[-1] = pauses[-1] + self.lasts - even * count
        return pauses

    @property
    def given(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        return {name: value for name, value in _values(self).items() if value != _DEFAULTS[name]}

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"ScriptedReply({fields})"


def _values(reply: ScriptedReply) -> dict[str, Any]:
    """Return the fields as plain values, as `ScriptedReply` takes them."""
    values: dict[str, Any] = {}
    for attribute in attrs.fields(ScriptedReply):
        value = getattr(reply, attribute.name)
        if isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        values[attribute.name] = value
    values["tool_calls"] = [
        {name: getattr(call, name) for name in CALL_FIELDS} for call in reply.tool_calls
    ]
    return values


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
    """What the embedded provider answers, request by request.

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
        if self.after == "loop":
            return self.replies[index % count]
        if self.after == "repeat":
            return self.replies[-1]
        message = f"The script has ended: it has {count} replies, and this is request {index + 1}."
        return ScriptedReply(status=500, error={"message": message, "type": "script_ended"})

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
            refuse_unknown("", table, ("replies", "after"))
            replies = table.get("replies", [])
            if not isinstance(replies, list):
                raise ConfigurationError(
                    "replies must be a list of tables: start each with [[replies]]"
                )
            parsed = [_read_reply(f"replies[{at}]", reply) for at, reply in enumerate(replies)]
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
            block = "" if comment is None else f"# {comment}\n"
            block += "[[replies]]\n"
            for name, value in reply.given.items():
                block += f"{name} = {toml_value(value)}\n"
            blocks.append(block)
        return "\n".join(blocks)


def _read_reply(where: str, table: object) -> ScriptedReply:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where} must be a table, not {short(table)}")
    refuse_unknown(f"{where}.", table, _DEFAULTS)
    try:
        return ScriptedReply(**table)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}.{error}") from None
