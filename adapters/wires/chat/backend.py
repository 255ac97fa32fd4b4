"""The backend for chat completions: OpenAI's own and those of other servers.

The body of a request is written here; how servers differ stands in `dialects.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, get_args

from attrs import evolve, field, frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.chat.dialect import CapField, Dialect, PrefillMode
from rungwise.adapters.wires.chat.dialects import STEERING, dialect_of
from rungwise.adapters.wires.chat.discovery import DiscoverableBackend
from rungwise.adapters.wires.chat.reasoned import ReasonedChat, reasoned
from rungwise.adapters.wires.chat.shapes import CHAT, FORMATS, ChatShapes
from rungwise.adapters.wires.chat.stream import ChatDecoder
from rungwise.adapters.wires.endpoint import is_token, optional
from rungwise.adapters.wires.form import Body, Form, Rules
from rungwise.adapters.wires.http_backend import ARGUMENTS
from rungwise.adapters.wires.pairing import is_own_call
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.parameters import known_parameters
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import chat_choice
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.request import leave_out, without_end
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.values.checks import explains_names, must_be_one_of
from rungwise.fsm.values.secret import Secret, hides_arguments

RESERVED: Final = {
    **request.RESERVED,
    "max_output_tokens": "it is called 'max_tokens'",
    "extra_body": "put what is in it into the parameters themselves",
}

_NEVER_DROPPED: Final = RESERVED.keys() - {"stream"}
"""Fields that stay even if the server rejects them."""

OTHER_CAP: Final[dict[str, CapField]] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_CHOICES: Final = ("function", "custom", "allowed_tools")
"""The types of tool choices in the protocol."""
_EFFORTS: Final = frozenset({"reasoning_effort", "reasoning"})
"""Other parameters that ask for thinking.

Ollama answers "does not support thinking" to any of them.
"""

_EFFORT: Final = "reasoning_effort"
NO_EFFORT: Final = "none"
"""The effort of a model that is not to reason."""


def type_not_sent(choice: Any, tools: Any) -> str | None:
    """Return the type of tool that a choice selects although no such tool is sent.

    None if the choice is in order.
    """
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if not isinstance(kind, str) or kind in _CHOICES:
        return None
    for tool in list_of(tools):
        if isinstance(tool, Mapping) and tool.get("type") == kind:
            return None
    return kind


def _has_other_ids(
    messages: Iterable[PlainMessage | Message],
    rules: Rules,
    provider: str,
) -> bool:
    """Tell whether a tool call has an id that the server does not accept."""
    if rules.call_id is CHAT.rules.call_id:
        return False
    for message in read_messages(messages):
        for call in message.tool_calls:
            is_known = rules.takes_own_ids and is_own_call(call, provider)
            if not is_known and not rules.call_id.fullmatch(call.id):
                return True
    return False


def _set_cap(body: Body, send: Send, cap: CapField) -> None:
    """Put the output cap into the field that the server knows.

    The attempt's cap wins over the request's, and that over the backend's. If the server has
    rejected the field, the other one is tried.
    """
    value = send.max_tokens
    for caps in (send.parameters, body):
        for name in OTHER_CAP:
            if value is None:
                value = caps.get(name)
    for name in OTHER_CAP:
        body.pop(name, None)
    if cap in send.dropped:
        cap = OTHER_CAP[cap]
    if value is not None and cap not in send.dropped:
        body[cap] = value


def _set_prefill(body: Body, mode: PrefillMode) -> None:
    """Mark the trailing assistant turn as one to be continued, in the server's own way."""
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
    """Ask for less reasoning, in each way that the body already steers it."""
    is_steered = any(name in body for name in STEERING)
    if isinstance(body.get("reasoning_effort"), str):
        body["reasoning_effort"] = _lower_effort(body["reasoning_effort"], dialect)
    reasoning = body.get("reasoning")
    if isinstance(reasoning, Mapping):
        # OpenRouter takes an effort or a number of tokens, not both.
        lower = {name: value for name, value in reasoning.items() if name != "max_tokens"}
        lower["effort"] = _lower_effort(str(reasoning.get("effort") or "high"), dialect)
        body["reasoning"] = lower
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
    """Return "low", or for an effort as low as that the one that this server has below it."""
    if effort not in ("none", "minimal", "low"):
        return "low"
    return dialect.lower_efforts.get(effort, effort)


@hides_arguments
@explains_names(ARGUMENTS)
@frozen
class OpenAIChat(DiscoverableBackend):
    """Speak chat completions with one model of one server.

    How servers of this protocol differ from OpenAI's stands in
    [one table](https://github.com/rungwise/rungwise/blob/main/adapters/wires/chat/dialects.py), by
    host and model.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`.
    The URL goes up to `/chat/completions`, and a query such as `?api-version=...` is kept.

    Arguments:
        api_key: the key, sent as a bearer token; as `api-key` to Azure's APIs before v1.
        cap_field: the field that holds the output cap in tokens; "auto" decides by the host.
        prefill: how a trailing assistant turn is continued; "auto" asks the table of dialects,
            whose default is no.
        echoes: whether the server repeats a continued assistant turn at the start of its answer;
            None asks that table, and otherwise recognises an echo that is long enough to be
            certain.
        server: what `Client.discover` learned about the server.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://api.openai.com/v1"
    PATH = "/chat/completions"
    API = "openai"
    OTHER = "responses"
    DECODER = ChatDecoder
    FORM = CHAT
    RESERVED = RESERVED
    REFUSES = (request.refuse_above_one,)

    cap_field: Literal["auto"] | CapField = field(
        default="auto", kw_only=True, validator=must_be_one_of(("auto", *get_args(CapField)))
    )
    prefill: Literal["auto"] | PrefillMode = field(
        default="auto", kw_only=True, validator=must_be_one_of(("auto", *get_args(PrefillMode)))
    )
    _echoes: bool | None = field(
        default=None, alias="echoes", kw_only=True, repr=False, validator=optional(bool)
    )
    _dialect: Dialect = field(init=False, eq=False, repr=False)
    _shapes: ChatShapes = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        dialect = dialect_of(self.base_url, self.model)
        prefill = self.prefill
        if prefill == "auto":
            prefill = self._prefill_mode(dialect.prefill)
        echoes = self._echoes
        if echoes is None:
            echoes = dialect.echoes
        cap = self._cap_field_for(dialect)
        dialect = evolve(
            dialect,
            cap_field=cap,
            prefill=prefill,
            echoes=echoes,
        )
        self._set(_dialect=dialect, _shapes=ChatShapes(dialect))
        if prefill != "no" or self.capabilities.prefill:  # the dialect has the last word
            self._set(capabilities=evolve(self.capabilities, prefill=prefill != "no"))

    @property
    def echoes(self) -> bool:
        """Tell whether the server repeats a continued assistant turn at the start of its answer."""
        return self._dialect.echoes

    @property
    def shapes(self) -> Form:
        """Return the form of its conversations and tools."""
        return self._shapes

    @property
    def known_parameters(self) -> frozenset[str]:
        """Return the names of the parameters that this server is known to take."""
        return known_parameters(self.API, with_extensions=self._dialect.takes_other_tools)

    def _credentials(self, key: Secret) -> dict[str, str]:
        """Return the headers that carry the key; an Entra token is always a bearer token."""
        header = dialect_of(self.base_url, self.model).key_header
        if header and not is_token(key):
            return {header: key.reveal()}
        return super()._credentials(key)

    def _cap_field_for(self, dialect: Dialect) -> CapField:
        """Return the field that holds the output cap.

        A caller's parameters go to each backend of a chain; the backend's own show what its server
        accepts.
        """
        if self.cap_field != "auto":
            return self.cap_field
        for name in OTHER_CAP.values():
            if self.parameters.get(name) is not None:
                return name
        return dialect.cap_field

    def _prefill_mode(self, usual: PrefillMode) -> PrefillMode:
        """Return how a turn is continued; the caller's capabilities say whether it is."""
        if usual == "no" and self.server is not None and self.server.prefill is not None:
            usual = self.server.prefill
        if self._own_capabilities is None or self._own_capabilities.prefill is None:
            return usual
        if not self._own_capabilities.prefill:
            return "no"
        return "trailing" if usual == "no" else usual

    def _with_advice(self, failure: Failure) -> Failure:
        """Return what to do; tools may also go without reasoning, where the model allows that."""
        advised = super()._with_advice(failure)
        effort = self.parameters.get(_EFFORT)
        is_set = self._dialect.effort_with_tools is not None and effort is None
        if is_set or effort == NO_EFFORT or _EFFORT not in failure.message:
            return advised
        return evolve(advised, parameter=_EFFORT, instead=NO_EFFORT)

    def refused(self, request: Request) -> tuple[str, ...]:
        """Return what of a request the server is known to refuse, in a short sentence each."""
        has_tools = bool(request.tools or self._parameters_of(request).get("tools"))
        if has_tools and self._dialect.effort_with_tools == "":
            return (f"tools, which this model takes in Responses alone: {self._advice}",)
        return ()

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what is left out of a request: beside tools, some models do not reason here."""
        lost = super().lost(request, is_portable=is_portable)
        if not self._dialect.effort_with_tools or _EFFORT in self.parameters:
            return lost
        parameters = self._parameters_of(request)
        has_tools = request.tools or parameters.get("tools")
        if not has_tools or parameters.get(_EFFORT) == NO_EFFORT:
            return lost
        why = f"beside tools this model takes only none here: {self._advice}"
        return (*lost, f"{_EFFORT}: {why}")

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        parameters = self._parameters_of(request)
        tools = parameters.get("tools")
        if request.tools and "tools" not in request.parameters:
            tools = self._shapes.written_tools(request.tools)
        unsupported = super()._unsupported(request)
        kind = type_not_sent(chat_choice(parameters.get("tool_choice")), tools)
        if kind is None:
            return unsupported
        return {**unsupported, "tool_choice": f"no tool of the type {kind} is sent"}

    def _messages(self, send: Send) -> list[PlainMessage]:
        """Return the conversation as this server takes it, with ids that it accepts."""
        dialect = self._dialect
        owner = self._owner(send)
        form = self._shapes
        history = send.messages
        if send.restore_reasoning:
            form = ReasonedChat(dialect)
            history = tuple(map(reasoned, history))
        rules = form.rules
        if dialect.id_length is not None:
            ids = re.compile(rf"[A-Za-z0-9]{{{dialect.id_length}}}")
            rules = evolve(rules, call_id=ids, id_length=dialect.id_length)
        elif dialect.longest_id is not None:
            ids = re.compile(rf".{{1,{dialect.longest_id}}}", re.DOTALL)
            rules = evolve(rules, call_id=ids, takes_own_ids=True)
        is_portable = send.portable or _has_other_ids(history, rules, owner)
        return written(history, form, owner, is_portable=is_portable, rules=rules)

    def _body(self, send: Send, *, stream: bool) -> Body:
        dialect = self._dialect
        body: Body = {
            "model": self.model,
            "messages": self._messages(send),
            "stream": stream,
        }
        body |= self._parameters_of(send)
        if send.has_tools and "tools" not in send.parameters:
            self._shapes.set_tools(body, send.tools)
        if "tool_choice" in body:
            body["tool_choice"] = chat_choice(body["tool_choice"], body.get("tools"))
            if type_not_sent(body["tool_choice"], body.get("tools")):
                del body["tool_choice"]
        _set_cap(body, send, dialect.cap_field)
        options = body.pop("stream_options", None)
        if stream:  # without a stream the field is an error
            body["stream_options"] = {"include_usage": True, **mapping_of(options)}
        if send.prefill:
            _set_prefill(body, dialect.prefill)
        if send.lower_reasoning:
            _lower_reasoning(body, dialect)
        dropped = send.dropped
        if "thinking" in dropped:
            dropped |= _EFFORTS
        if "response_format" in dropped:
            dropped |= {name for name in FORMATS if CHAT.asks_for_json({name: body.get(name)})}
        if dialect.effort_with_tools and body.get("tools") and _EFFORT not in self.parameters:
            body[_EFFORT] = dialect.effort_with_tools
        for name in dropped.difference(_NEVER_DROPPED):
            leave_out(body, name)
        return body
