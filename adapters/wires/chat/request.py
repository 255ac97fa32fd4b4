"""Write the body of a chat-completions request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from rungwise.adapters.wires.chat.dialects import (
    FOREIGN_FIELDS,
    FOREIGN_PARTS,
    STEERING,
    CapField,
    Dialect,
    PrefillMode,
)
from rungwise.adapters.wires.chat.reply import contents
from rungwise.adapters.wires.chat.shapes import CHAT
from rungwise.adapters.wires.json_text import mended
from rungwise.fsm.call.parts import Message
from rungwise.fsm.call.request import PlainMessage, Send
from rungwise.fsm.errors import ConfigurationError

Body = dict[str, Any]

RESERVED: Final[Mapping[str, str]] = {
    "model": "give it to the backend",
    "messages": "give them to the call",
    "stream": "choose the method that streams, or the one that does not",
}
"""What a parameter cannot set, and what to do instead."""

_KEPT: Final = RESERVED.keys() - {"stream"}
"""What no provider's word takes out of a body."""

OTHER_CAP: Final[Mapping[str, CapField]] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
STAND_IN: Final = "(the reasoning of this turn was not kept)"
"""What goes in the place of reasoning that a provider wants back and that was not kept."""


def write_body(
    send: Send, *, stream: bool, model: str, parameters: Mapping[str, Any], dialect: Dialect, provider: str
) -> bytes:
    """Return the JSON body of one attempt.

    Arguments:
        send: what to send.
        stream: whether the answer is to be streamed.
        model: the model id.
        parameters: the backend's own parameters; the caller's win.
        dialect: what the server wants to be told in its own way.
        provider: whose parts of earlier replies go back as they are.

    Raises:
        ConfigurationError: a parameter has its own place, or a value has no form in JSON.
    """
    asked = send.request.parameters
    refuse_reserved(asked, "Request.parameters")
    own = "" if send.unsigned else provider
    messages: list[PlainMessage] = []
    for message in send.messages:
        written = _written(message, own, is_portable=send.portable)
        messages += [reasoned(each, message) for each in written] if send.restore_reasoning else written
    body: Body = {"model": model, "messages": messages, "stream": stream, **parameters, **asked}
    if send.request.tools and "tools" not in asked:
        body["tools"] = send.request.tools
    _set_cap(body, send, dialect.cap_field)
    _set_stream_options(body, stream)
    if send.prefill:
        _set_prefill(body, dialect.prefill)
    if send.lower_reasoning:
        _lower_reasoning(body, dialect)
    for name in send.dropped.difference(_KEPT):
        body.pop(name, None)
    return _dump(body)


def refuse_reserved(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse parameters that set what has its own place.

    Raises:
        ConfigurationError: one of them does.
    """
    for name, instead in RESERVED.items():
        if name in parameters:
            raise ConfigurationError(f"{where} cannot set {name!r}: {instead}")
    if parameters.get("n") not in (None, 1):
        raise ConfigurationError(
            f"{where} cannot set 'n' above 1: a call has one answer, and a cap would count for each"
        )


def _set_cap(body: Body, send: Send, cap: CapField) -> None:
    given = [body.pop(name, None) for name in OTHER_CAP]
    asked = [send.request.parameters.get(name) for name in OTHER_CAP]
    value = next((number for number in (send.max_tokens, *asked, *given) if number is not None), None)
    if cap in send.dropped:
        cap = OTHER_CAP[cap]
    if value is not None and cap not in send.dropped:
        body[cap] = value


def _set_stream_options(body: Body, stream: bool) -> None:
    options = body.pop("stream_options", None)
    if stream:  # without a stream the field is an error
        body["stream_options"] = {"include_usage": True, **(options if isinstance(options, Mapping) else {})}


def _set_prefill(body: Body, mode: PrefillMode) -> None:
    last = body["messages"][-1]
    if last.get("role") != "assistant":
        return
    last = dict(last)
    content = last.get("content")
    # Some servers reject trailing whitespace here; the core keeps it for the seam.
    if isinstance(content, str):
        last["content"] = content.rstrip()
    elif isinstance(content, Sequence) and content and isinstance(content[-1], Mapping):
        text = content[-1].get("text")
        if isinstance(text, str):
            last["content"] = [*content[:-1], {**content[-1], "text": text.rstrip()}]
    if mode in ("prefix", "partial"):
        last[mode] = True
    elif mode == "continue_final_message":
        body.update(continue_final_message=True, add_generation_prompt=False)
    body["messages"] = [*body["messages"][:-1], last]


def _lower_reasoning(body: Body, dialect: Dialect) -> None:
    is_steered = any(name in body for name in STEERING)
    if isinstance(body.get("reasoning_effort"), str):
        body["reasoning_effort"] = _lower_effort(body["reasoning_effort"], dialect)
    reasoning = body.get("reasoning")
    if isinstance(reasoning, Mapping):
        # OpenRouter takes an effort or a number of tokens, not both.
        rest = {name: value for name, value in reasoning.items() if name != "max_tokens"}
        body["reasoning"] = {**rest, "effort": _lower_effort(str(reasoning.get("effort") or "high"), dialect)}
    if "enable_thinking" in body:
        body["enable_thinking"] = False
    kwargs = body.get("chat_template_kwargs")
    if isinstance(kwargs, Mapping):
        off = {name: False for name in ("enable_thinking", "thinking") if name in kwargs}
        body["chat_template_kwargs"] = {**kwargs, **off}
    if isinstance(body.get("thinking"), Mapping):
        body["thinking"] = {"type": "disabled"}
    if not is_steered:  # then only a parameter that this model is known to take may be added
        body.update(dialect.less_reasoning)


def _lower_effort(effort: str, dialect: Dialect) -> str:
    return dialect.lower_efforts.get(effort, effort) if effort in ("none", "minimal", "low") else "low"


def _written(message: PlainMessage | Message, own: str, *, is_portable: bool) -> Sequence[PlainMessage]:
    if isinstance(message, Message):
        return CHAT.sent_to(own, message)
    return (portable(message) if is_portable else message,)


def portable(message: PlainMessage) -> PlainMessage:
    """Return a message without other providers' signatures and reasoning; the message itself where it has none."""
    if message.get("role") != "assistant":
        return message
    kept = {key: value for key, value in message.items() if key not in FOREIGN_FIELDS}
    if isinstance(kept.get("content"), list | tuple):
        kept["content"] = _portable_parts(kept["content"]) or ""
    if isinstance(kept.get("tool_calls"), list | tuple):
        kept["tool_calls"] = [_portable_call(call) for call in kept["tool_calls"]]
    return kept


def reasoned(message: PlainMessage, original: PlainMessage | Message) -> PlainMessage:
    """Return an assistant message with the reasoning that a provider wants back; any other message as it is.

    Arguments:
        message: the message as it would go out.
        original: the same with all the reasoning that the caller gave, in whatever field.
    """
    known = message.get("reasoning_content")
    if message.get("role") != "assistant" or (isinstance(known, str) and known):
        return message
    if isinstance(original, Message):
        reasoning = original.reasoning
    else:
        reasoning = contents(original)[1] or contents({"content": original.get("thinking_blocks")})[1]
    return {**message, "reasoning_content": reasoning or STAND_IN}


def _portable_parts(parts: Sequence[Any]) -> list[Any]:
    own = [part for part in parts if not (isinstance(part, Mapping) and part.get("type") in FOREIGN_PARTS)]
    return [_unsigned(part) for part in own]


def _portable_call(call: Any) -> Any:
    call = _unsigned(call)
    if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
        call = {**call, "function": _unsigned(call["function"])}
    return call


def _unsigned(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: part for key, part in value.items() if key not in FOREIGN_FIELDS}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _dump(body: Body) -> bytes:
    try:
        return orjson.dumps(body, default=_plain)
    except TypeError:
        pass  # lone surrogates, most likely, and they are rare enough to look for only now
    try:
        return orjson.dumps(mended(body), default=_plain)
    except (TypeError, RecursionError) as error:
        # The text of orjson names a type or a limit, never a value.
        raise ConfigurationError(f"the request has no form in JSON: {error}") from None
