"""The caller's `Request`, and the `Send` that each rung makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from attrs import Factory, evolve, field, frozen, validators

from rungwise.fsm.call.conversation.parameters import CommonOptions, with_common
from rungwise.fsm.call.conversation.plain import MARK, read_stored
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.values.checks import instance, is_whole, where
from rungwise.fsm.values.frozen_map import FrozenMap, frozen_copy, sendable_copies, sendable_copy
from rungwise.fsm.values.secret import SecretMap, hides_arguments

PlainMessage = Mapping[str, Any]
"""One message as the caller writes it: a `role`, and whatever the protocol of the backend has
beside it.
"""

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "model")
"""The roles of messages in any protocol; an item of OpenAI's Responses has a type instead."""
_SAY = ("system", "developer", "user")
"""Those whose messages are nothing but their content."""
_LISTS = ("content", "parts", "tool_calls")
"""The members of a message that may be lists of mappings."""


def _messages(value: str | Iterable[PlainMessage | Message]) -> tuple[PlainMessage | Message, ...]:
    if isinstance(value, str):
        return (FrozenMap({"role": "user", "content": value}),)
    if isinstance(value, Mapping | Message):
        raise ConfigurationError(
            "messages must be a list of messages; got one message: put it into a list"
        )
    if isinstance(value, bytes | bytearray | set | frozenset) or not isinstance(value, Iterable):
        raise ConfigurationError(
            f"messages must be a prompt or a list of messages, not {type(value).__name__}"
        )
    messages = list(value)
    for index, message in enumerate(messages):
        if isinstance(message, Message):
            continue
        if not isinstance(message, Mapping):
            raise ConfigurationError(
                f"messages[{index}] must be a mapping with 'role' and 'content', not "
                f"{_kind_of(message)}"
            )
        if MARK in message:
            messages[index] = read_stored(message, f"messages[{index}]")
            continue
        is_item = "role" not in message and isinstance(message.get("type"), str)
        if message.get("role") not in ROLES and not is_item:
            raise ConfigurationError(f"messages[{index}]['role'] must be one of {', '.join(ROLES)}")
    if not messages:
        raise ConfigurationError("messages is empty; give at least one message")
    try:
        copies = sendable_copies(messages, "messages", uncopied=Message)
    except ConfigurationError:
        for index, message in enumerate(messages):  # raises the error that names the part
            if not isinstance(message, Message):
                _check_parts(frozen_copy(message, f"messages[{index}]"), index)
        raise
    for index, message in enumerate(copies):
        if not isinstance(message, Message):
            _check_parts(message, index)
    return copies


def _check_parts(message: PlainMessage, index: int) -> None:
    """Refuse content that no protocol can read: it would be lost when the message is translated."""
    content = message.get("content")
    if message.get("role") in _SAY and "content" not in message and "parts" not in message:
        raise ConfigurationError(f"messages[{index}] has no 'content', which holds its text")
    if not (content is None or isinstance(content, str | list | tuple | Mapping)):
        raise ConfigurationError(
            f"messages[{index}]['content'] must be a text or a list of blocks, not "
            f"{_kind_of(content)}"
        )
    for name in _LISTS:
        parts = message.get(name)
        for place, part in enumerate(parts if isinstance(parts, list | tuple) else ()):
            if not isinstance(part, str | Mapping):
                raise ConfigurationError(
                    f"messages[{index}][{name!r}][{place}] must be a mapping, not {_kind_of(part)}"
                )


def _kind_of(value: object) -> str:
    """Return the name of a type, with advice for the objects of a provider's own client."""
    name = type(value).__name__
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return f"{name}: give its model_dump()"
    return name


def _mapping(name: str, value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if value is None:
        return FrozenMap()
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigurationError(
            f"Request.{name} must map names to values; it is of type {type(value).__name__}"
        )
    return sendable_copy(value, f"Request.{name}")  # type: ignore[no-any-return]


def _parameters(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return _mapping("parameters", value)


def _headers(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return SecretMap(_mapping("headers", value))


MOST_TOKENS = 10**12
"""The largest number of tokens."""

FRAMING = frozenset({"content-length", "transfer-encoding", "host", "connection"})
"""The headers that the transport sets."""


def _no_framing(instance: object, attribute: Any, value: Mapping[str, Any]) -> None:
    for name in value:
        if name.lower() in FRAMING:
            raise ConfigurationError(
                f"Request.headers must not hold {name!r}, which the transport sets"
            )


def _tools(value: Iterable[Mapping[str, Any]] | None) -> tuple[Mapping[str, Any], ...]:
    if not value and isinstance(value, tuple | None):
        return ()
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ConfigurationError(
            f"Request.tools must be a list of tool definitions, not "
            f"{type(value).__name__}{_of_turns(value)}"
        )
    tools = tuple(value)
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise ConfigurationError(
                f"Request.tools[{index}] must be a mapping, not "
                f"{type(tool).__name__}{_of_turns(tool)}"
            )
    return sendable_copies(tools, "Request.tools")


def _of_turns(value: object) -> str:
    """Return advice for callers who pass the tools of a turn to a call."""
    is_run = callable(value) or hasattr(value, "function") or hasattr(value, "executor")
    return ": a call returns the tool calls, a turn (client.turn) runs them" if is_run else ""


def token_count(instance: object, attribute: Any, value: Any) -> None:
    """Validate a number of tokens or None."""
    if value is not None and not is_whole(value, 1, MOST_TOKENS):
        form = f"a whole number of tokens above 0, at most {MOST_TOKENS}, or None"
        raise ConfigurationError(f"{where(instance, attribute)} must be {form}")


@hides_arguments
@frozen(init=False)
class Request:
    """Hold what the caller asks. Everything in it is copied: later changes to your objects change
    nothing.

    Arguments:
        messages: a prompt, or messages in the form of the first backend's protocol; a
            `rungwise.Message` may be among them.
        tools: tool definitions, passed on as they are.
        max_tokens: the output cap in tokens; only a budget or the provider lowers it. One among the
            parameters is taken from there.
        parameters: anything else for the request body, in the words of the first backend's
            protocol.
        headers: anything else for the HTTP headers. They go only to backends with the scheme, host
            and port of the first one; the others have headers of their own.
        input_tokens: your count of the prompt's tokens, used to reserve money; None estimates it.
        common: the parameters that every protocol knows: `temperature`, `top_p`, `stop`, `seed`,
            `response_format`, `reasoning_effort`, `tool_choice`, `parallel_tool_calls`. They may
            stand in `parameters` as well.

    Raises:
        ConfigurationError: a message, a tool or an option is malformed, or an option is unknown.
    """

    messages: tuple[PlainMessage | Message, ...] = field(converter=_messages, repr=False)
    tools: tuple[Mapping[str, Any], ...] = field(default=(), converter=_tools, repr=False)
    max_tokens: int | None = field(default=None, validator=token_count)
    parameters: Mapping[str, Any] = field(default=None, converter=_parameters, repr=False)
    headers: Mapping[str, str] = field(
        default=None, converter=_headers, validator=_no_framing, repr=False
    )
    input_tokens: int | None = field(default=None, validator=token_count)

    def __init__(
        self,
        messages: str | Iterable[PlainMessage | Message],
        tools: Iterable[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        input_tokens: int | None = None,
        **common: Unpack[CommonOptions],
    ) -> None:
        parameters = with_common(parameters, common)
        self.__attrs_init__(messages, tools, max_tokens, parameters, headers, input_tokens)

    def __attrs_post_init__(self) -> None:
        caps = [name for name in CAP_PARAMETERS if name in self.parameters]
        if caps and self.max_tokens is None:
            # The rungs must know the cap to raise it, and it must not go out twice.
            rest = {name: value for name, value in self.parameters.items() if name not in caps}
            changed = evolve(self, max_tokens=self.parameters[caps[0]], parameters=rest)
            object.__setattr__(self, "max_tokens", changed.max_tokens)
            object.__setattr__(self, "parameters", changed.parameters)


CAP_PARAMETERS = ("max_tokens", "max_completion_tokens")
"""The names of the output cap among the parameters of chat completions."""


@frozen
class TurnContext:
    """Describe the turn that a call is part of.

    Arguments:
        prior_answer: the text that the previous assistant message had beside its tool calls.
        only_housekeeping: whether all these tool calls were housekeeping (notes, to-do lists,
            titles), so the prior answer may replace an empty reply.
        is_shown: whether a consumer has seen the prior answer, so that no stream hands it out
            again.
        gathered: the text of a cut answer that an earlier call of the turn brought; this call
            continues it.
        runs_tools: whether the turn checks the tool calls itself, and reports what is wrong with
            them to the model.
    """

    prior_answer: str | None = field(
        default=None, repr=False, validator=validators.optional(instance(str))
    )
    only_housekeeping: bool = field(default=False, validator=instance(bool))
    is_shown: bool = field(default=False, validator=instance(bool))
    gathered: str = field(default="", repr=False, validator=instance(str))
    runs_tools: bool = field(default=False, validator=instance(bool))


@frozen(kw_only=True, eq=False)
class Send:
    """Tell the driver what to send next.

    Arguments:
        rung: the state of the machine.
        backend: index into the chain.
        wait: seconds to wait before sending.
        messages: the caller's messages as they were given, and the turns of the rungs.
        max_tokens: the output cap that must be sent; None sends none.
        request: what the caller asked.
        prefill: whether the last message is an assistant turn to be continued in the backend's own
            encoding.
        dropped: parameters to leave out because the provider rejected them.
        lower_reasoning: whether to ask for less reasoning, or none.
        portable: whether to leave out of the caller's messages what may belong to another provider:
            signatures and encrypted reasoning. A `rungwise.Message` knows whose its parts are.
        deadline: when the whole call must have ended, on the driver's clock, or None.
        needs_compaction: whether the caller's compactor must run on `messages`, the caller's own,
            first.
        added_tokens: the tokens of the turns that the rungs have added.
        must_cut: whether a stream that brings more than `max_tokens` must be cut, as no more was
            reserved.
        unsigned: whether no signature is sent, not even the backend's own: it has rejected one.
        restore_reasoning: whether each assistant turn must carry its reasoning, or a stand-in for
            it.
        continuation: the provider's token by which to continue, beside the same messages as before.
        headers, parameters, tools: what this backend gets of those of the request.
        key: index of the key, if the backend has several.
    """

    rung: str
    backend: int
    wait: float
    messages: tuple[PlainMessage | Message, ...] = field(repr=False)
    max_tokens: int | None
    request: Request
    prefill: bool = False
    dropped: frozenset[str] = frozenset()
    lower_reasoning: bool = False
    portable: bool = False
    deadline: float | None = None
    needs_compaction: bool = False
    added_tokens: int = 0
    must_cut: bool = False
    unsigned: bool = False
    restore_reasoning: bool = False
    continuation: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(
        default=Factory(lambda send: send.request.headers, takes_self=True), repr=False
    )
    parameters: Mapping[str, Any] = field(
        default=Factory(lambda send: send.request.parameters, takes_self=True), repr=False
    )
    tools: tuple[Mapping[str, Any], ...] = field(
        default=Factory(lambda send: send.request.tools, takes_self=True), repr=False
    )
    key: int = 0

    @property
    def has_tools(self) -> bool:
        """Tell whether there are tools, even if this backend gets none of them."""
        return bool(self.tools or self.request.tools)
