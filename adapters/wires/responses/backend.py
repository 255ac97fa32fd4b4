"""The backend for OpenAI's Responses, with the body of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.chat.dialect import Dialect
from rungwise.adapters.wires.chat.dialects import dialect_of
from rungwise.adapters.wires.chat.discovery import DiscoverableBackend
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.http_backend import ARGUMENTS
from rungwise.adapters.wires.pairing import answered
from rungwise.adapters.wires.plain.messages import read_message
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import chat_choice
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.request import first_cap, leave_out
from rungwise.adapters.wires.responses.shapes import RESPONSES, with_custom_outputs
from rungwise.adapters.wires.responses.stream import ResponsesDecoder
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, PlainMessage, Send
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.values.checks import explains_names, is_flag, must
from rungwise.fsm.values.secret import hides_arguments

CAP: Final = "max_output_tokens"
"""The field of the output cap."""
RESERVED: Final = {
    **request.RESERVED,
    "input": "give the messages to the call",
    "background": "give background=True to the backend",
    CAP: "say max_tokens, as for every backend",
}

LOST: Final[Mapping[str, str]] = {
    "stop": "Responses take no stop sequences",
    "seed": "Responses take no seed",
}
"""The common parameters that are not supported, and why."""

_STATEFUL: Final = ("previous_response_id", "conversation")
"""The parameters that continue something stored at the provider."""
_ENCRYPTED: Final = "reasoning.encrypted_content"
_NEVER_DROPPED: Final = frozenset({"model", "input", "stream", CAP})
"""Fields that stay even if the server rejects them; for the cap see `_body`."""
_OWN_NAMES: Final[Mapping[str, str]] = {
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
}
_EFFORTS: Final = ("none", "minimal", "low")


def _items(send: Send, provider: str, *, is_stateful: bool) -> list[PlainMessage]:
    """Return the conversation as items.

    Arguments:
        send: the attempt.
        provider: whose own parts may go out.
        is_stateful: whether it continues a stored response, whose calls its results may answer.
    """
    if is_stateful and not send.portable:
        items = _as_they_are(send, provider)
    else:
        items = written(send.messages, RESPONSES, provider, is_portable=send.portable)
    if send.prefill and items and items[-1].get("role") == "assistant":
        content = items[-1].get("content")
        if isinstance(content, str):
            items[-1] = {**items[-1], "content": content.rstrip()}
    typed = [{"type": "message", **item} if "role" in item else item for item in items]
    return with_custom_outputs(typed)


def _as_they_are(send: Send, provider: str) -> list[PlainMessage]:
    """Return the messages as items, each for itself, with a result for each call."""
    items: list[PlainMessage] = []
    for message in answered(send.messages, RESPONSES):
        if isinstance(message, Message):
            items += RESPONSES.sent_to(provider, message)
        elif RESPONSES.is_own(message):
            items.append(message)
        else:
            for read in read_message(message):
                items += RESPONSES.sent_to(provider, read)
    return items


# the common parameters, which are called as in chat completions


def _translate(body: Body) -> None:
    """Rename the common parameters in a body; what the caller has set under the own name wins."""
    for name in LOST:
        body.pop(name, None)
    form = body.pop("response_format", None)
    effort = body.pop("reasoning_effort", None)
    text = mapping_of(body.get("text"))
    reasoning = mapping_of(body.get("reasoning"))
    if form is not None and text.get("format") is None:
        body["text"] = {**text, "format": _format(form)}
    if effort is not None and reasoning.get("effort") is None:
        body["reasoning"] = {**reasoning, "effort": effort}
    chosen = chat_choice(body.get("tool_choice"), body.get("tools"))
    if chosen is not None:
        body["tool_choice"] = _choice(chosen) if isinstance(chosen, Mapping) else chosen


def _format(value: Any) -> Any:
    """Return a `response_format`, whose schema chat completions nest one level deeper."""
    inner = mapping_of(value).get("json_schema")
    if not isinstance(inner, Mapping):
        return value
    # Chat completions hold the model to a schema only if `strict` is set.
    return {
        "type": "json_schema",
        "name": "answer",
        **inner,
        "strict": inner.get("strict") is True,
    }


def _choice(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool choice: chat completions nest the tool one level deeper."""
    kind = choice.get("type")
    inner = choice.get(kind) if isinstance(kind, str) else None
    if not isinstance(inner, Mapping):
        return choice
    chosen = {"type": kind, **inner}
    if isinstance(chosen.get("tools"), list | tuple):
        chosen["tools"] = [
            _choice(tool) if isinstance(tool, Mapping) else tool for tool in chosen["tools"]
        ]
    return chosen


REASONS: Final = re.compile(
    r"\bo[1-9]|\bgpt-(?:[5-9]|[12]\d)(?!.*chat)|\bcodex|grok-[4-9](?!.*non-reasoning)|deep-research"
)
"""The models that reason and give it encrypted. Others reject to be asked for it ("Encrypted
content is not supported with this model", 400)."""


@hides_arguments
@explains_names(ARGUMENTS)
@frozen
class OpenAIResponses(DiscoverableBackend):
    """Speak OpenAI's Responses with one model of one server.

    The provider stores nothing: each request carries the conversation, with the encrypted reasoning
    of this model's own turns. Set the parameter `previous_response_id` to continue a stored
    response instead; then pass only the new messages, and the response is stored too, unless
    `store` says otherwise. The other backends of the chain know only the messages that you pass.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`.
    The URL ends before `/responses`; a query such as `?api-version=...` is kept.

    Arguments:
        background: whether the provider continues a reply when the connection breaks, so that its
            rest is fetched (the rung `reattach`). It stores each response for that.
        server: what `Client.discover` learned about the server.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://api.openai.com/v1"
    PATH = "/responses"
    API = "responses"
    OTHER = "openai"
    DECODER = ResponsesDecoder
    FORM = RESPONSES
    RESERVED = RESERVED
    AFTER = "starting_after"

    background: bool = field(default=False, kw_only=True, validator=must("True or False", is_flag))
    _dialect: Dialect = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._set(_dialect=dialect_of(self.base_url, self.model))

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol lacks, each with the reason."""
        return {name: why for name, why in LOST.items() if parameters.get(name) is not None}

    @property
    def _reasons(self) -> bool:
        """Tell whether the model reasons; the caller's word counts first."""
        if self._own_capabilities is not None and self._own_capabilities.reasoning is not None:
            return self._own_capabilities.reasoning
        if self.capabilities.reasoning is True:
            return True
        return REASONS.search(self.model.lower()) is not None

    def _body(self, send: Send, *, stream: bool) -> Body:
        parameters = self._parameters_of(send)
        is_stateful = any(parameters.get(name) is not None for name in _STATEFUL)
        items = _items(send, self._owner(send), is_stateful=is_stateful)
        body: Body = {
            "model": self.model,
            "input": items,
            "stream": stream,
        }
        if not is_stateful:
            body["store"] = False
        body |= parameters
        if send.has_tools and "tools" not in send.parameters:
            RESPONSES.set_tools(body, send.tools)
        if self.keeps_for(send):
            body["background"] = True
            body["store"] = True
        _translate(body)
        for name in CAP_PARAMETERS:
            body.pop(name, None)
        cap = first_cap(send, parameters)
        # OpenAI takes none below 16 (400, `integer_below_min_value`), other servers do. A smaller
        # one is sent as it is: a larger one was not paid for. If a budget rests on the cap, no
        # error of a server removes it.
        if cap is not None and (CAP not in send.dropped or send.must_cut):
            body[CAP] = cap
        # so that the encrypted reasoning can be sent back
        if self._reasons and (body.get("store") is False or "background" in body):
            include = list_of(body.get("include"))
            if _ENCRYPTED not in include:
                include.append(_ENCRYPTED)
            body["include"] = include
        if not stream:  # without a stream the field is an error
            body.pop("stream_options", None)
        if send.lower_reasoning:
            self._lower_reasoning(body)
        for name in send.dropped.difference(_NEVER_DROPPED):
            leave_out(body, _OWN_NAMES.get(name, name))
        if "response_format" in send.dropped and isinstance(body.get("text"), Mapping):
            body["text"] = {name: value for name, value in body["text"].items() if name != "format"}
        if body.get("store") is False:
            body["input"] = [item for item in body["input"] if not _is_reference(item)]
        return body

    def _lower_reasoning(self, body: Body) -> None:
        reasoning = mapping_of(body.get("reasoning"))
        effort = reasoning.get("effort")
        # A model that reasons may have an effort that cannot be set, as Grok 4 has.
        if effort is None and (not self._reasons or self.capabilities.reasoning is False):
            return  # only a parameter that this model is known to take may be added
        lower = "low"
        if effort in _EFFORTS:
            lower = self._dialect.lower_efforts.get(effort, effort)
        body["reasoning"] = {**reasoning, "effort": lower}


def _is_reference(item: PlainMessage) -> bool:
    """Tell whether an item is reasoning with nothing but an id.

    Where nothing is stored, it would not be found (404).
    """
    if item.get("type") != "reasoning":
        return False
    return not (item.get("encrypted_content") or item.get("content"))
