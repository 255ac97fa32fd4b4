"""Write the body of a chat-completions request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.chat.dialects import STEERING, CapField, Dialect, PrefillMode
from rungwise.adapters.wires.chat.reply import contents
from rungwise.adapters.wires.chat.shapes import CHAT, FORMATS, ChatShapes
from rungwise.adapters.wires.form import Body, Rules
from rungwise.adapters.wires.pairing import is_own_call
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import chat_choice
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.request import BodyWriter, without_end
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import PlainMessage, Send

RESERVED: Final = {
    **request.RESERVED,
    "max_output_tokens": "it is called 'max_tokens'",
    "extra_body": "put what is in it into the parameters themselves",
}

_NEVER_DROPPED: Final = RESERVED.keys() - {"stream"}
"""Fields that stay even if the server rejects them."""

OTHER_CAP: Final[Mapping[str, CapField]] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_CHOICES: Final = ("function", "custom", "allowed_tools")
"""The types of tool choices in the protocol."""
_EFFORTS: Final = frozenset({"reasoning_effort", "reasoning"})
"""Other parameters that ask for thinking; Ollama answers "does not support thinking" to any of them."""

STAND_IN: Final = "(the reasoning of this turn was not kept)"
"""The stand-in for reasoning that a provider wants back and that is not available."""


class _ReasonedChat(ChatShapes):
    """Write chat completions for a provider that wants the reasoning of earlier turns back, from any model."""

    __slots__ = ()

    rules = Rules(keeps_reasoning=True)

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message as plain messages, with its reasoning or a stand-in."""
        sent = super().sent_to(provider, message)
        if message.role == "assistant" and not sent[0].get("reasoning_content"):
            sent[0]["reasoning_content"] = message.reasoning or STAND_IN
        return sent

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a message without other providers' own members, but with its readable reasoning."""
        portable, reasoning = super().unsigned(message), message.get("reasoning_content")
        return {**portable, "reasoning_content": reasoning} if reasoning else portable


@frozen(kw_only=True)
class ChatBody(BodyWriter):
    """Write the body of a chat-completions request."""

    dialect: Dialect

    def body(self) -> Body:
        """Return the body."""
        send, dialect, parameters = self.send, self.dialect, self.send.parameters
        form, history = ChatShapes(dialect), send.messages
        if send.restore_reasoning:
            form, history = _ReasonedChat(dialect), tuple(map(reasoned, history))
        rules = form.rules
        if dialect.id_length is not None:
            ids = re.compile(rf"[A-Za-z0-9]{{{dialect.id_length}}}")
            rules = evolve(rules, call_id=ids, id_length=dialect.id_length)
        elif dialect.longest_id is not None:
            ids = re.compile(rf".{{1,{dialect.longest_id}}}", re.DOTALL)
            rules = evolve(rules, call_id=ids, takes_own_ids=True)
        is_portable = send.portable or _has_other_ids(history, rules, self.own)
        messages = written(history, form, self.own, is_portable=is_portable, rules=rules)
        body: Body = {"model": self.model, "messages": messages, "stream": self.stream, **self.all_parameters}
        if send.has_tools and "tools" not in parameters:
            form.set_tools(body, send.tools)
        if "tool_choice" in body:
            body["tool_choice"] = chat_choice(body["tool_choice"], body.get("tools"))
            if type_not_sent(body["tool_choice"], body.get("tools")):
                del body["tool_choice"]
        _set_cap(body, send, dialect.cap_field)
        options = body.pop("stream_options", None)
        if self.stream:  # without a stream the field is an error
            body["stream_options"] = {"include_usage": True, **mapping_of(options)}
        if send.prefill:
            _set_prefill(body, dialect.prefill)
        if send.lower_reasoning:
            _lower_reasoning(body, dialect)
        dropped = send.dropped | _EFFORTS if "thinking" in send.dropped else send.dropped
        if "response_format" in dropped:
            dropped |= {name for name in FORMATS if CHAT.asks_for_json({name: body.get(name)})}
        for name in dropped.difference(_NEVER_DROPPED):
            body.pop(name, None)
        return body


def type_not_sent(choice: Any, tools: Any) -> str | None:
    """Return the type of tool that a choice selects although no such tool is sent; otherwise None."""
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if not isinstance(kind, str) or kind in _CHOICES:
        return None
    sent = [tool.get("type") for tool in list_of(tools) if isinstance(tool, Mapping)]
    return None if kind in sent else kind


def _has_other_ids(messages: Iterable[PlainMessage | Message], rules: Rules, provider: str) -> bool:
    """Tell whether a tool call has an id that the server does not accept."""
    if rules.call_id is CHAT.rules.call_id:
        return False
    calls = [call for message in read_messages(messages) for call in message.tool_calls]
    if rules.takes_own_ids:
        calls = [call for call in calls if not is_own_call(call, provider)]
    return not all(rules.call_id.fullmatch(call.id) for call in calls)


def refuse_many(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse parameters that ask for more than one answer."""
    request.refuse_above_one(parameters, ("n", "best_of"), where)


def _set_cap(body: Body, send: Send, cap: CapField) -> None:
    caps = [body.pop(name, None) for name in OTHER_CAP]
    requested = [send.parameters.get(name) for name in OTHER_CAP]
    value = next((number for number in (send.max_tokens, *requested, *caps) if number is not None), None)
    if cap in send.dropped:
        cap = OTHER_CAP[cap]
    if value is not None and cap not in send.dropped:
        body[cap] = value


def _set_prefill(body: Body, mode: PrefillMode) -> None:
    last = body["messages"][-1]
    if last.get("role") != "assistant":
        return
    last = dict(without_end(last))  # the core keeps the blanks for the seam
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


def reasoned(message: PlainMessage | Message) -> PlainMessage | Message:
    """Return an assistant message with the reasoning that a provider wants back; other messages unchanged."""
    if isinstance(message, Message) or message.get("role") != "assistant":
        return message
    own = message.get("reasoning_content")
    if isinstance(own, str) and own:
        return message
    reasoning = contents(message)[1] or contents({"content": message.get("thinking_blocks")})[1]
    return {**message, "reasoning_content": reasoning or STAND_IN}
