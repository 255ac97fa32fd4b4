"""The backend for Ollama's native chat.

The parameters of sampling are members of `options` there; a few, such as `think` and `format`,
stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.http_backend import ARGUMENTS, HttpBackend
from rungwise.adapters.wires.ollama import OPTIONS as MEMBERS
from rungwise.adapters.wires.ollama.shapes import OLLAMA, REASONED
from rungwise.adapters.wires.ollama.stream import OllamaDecoder
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.plain.tools import chat_choice
from rungwise.adapters.wires.portability import written
from rungwise.adapters.wires.request import first_cap, leave_out, without_end
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.checks import explains_names
from rungwise.fsm.values.secret import hides_arguments

CAP: Final = "num_predict"
"""The option that is the output cap."""
RESERVED: Final = {**request.RESERVED, CAP: "it is called max_tokens here"}

_NEVER_DROPPED: Final = frozenset({"model", "messages", "options"})
"""Fields that stay even if the server rejects them."""

OPTIONS: Final = frozenset(MEMBERS.split())
"""The members of `options`: anywhere else, the server silently ignores them."""

_EFFORTS: Final[Mapping[str, bool | str]] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "max",
}
"""The value of `think` for each effort; models without efforts take any word for a yes."""

_ALSO: Final[Mapping[str, str]] = {
    "thinking": "think",
    "reasoning_effort": "think",
    "response_format": "format",
}
"""The server's field for other names of a parameter."""

_COMMON: Final = ("response_format", "reasoning_effort", "tool_choice", "parallel_tool_calls")
"""The common parameters that are no options, and stand in no request as they are."""


def translated(parameters: Mapping[str, Any]) -> Body:
    """Return the parameters outside of `options`, translated to Ollama's.

    Those that are in Ollama's form already win.
    """
    body: Body = {}
    if chat_choice(parameters.get("tool_choice")) == "none":  # `_body` leaves out the tools then
        body["tool_choice"] = "none"
    body |= _effort(parameters.get("reasoning_effort"))
    body |= _format(parameters.get("response_format")) or {}
    for name, value in parameters.items():
        is_option = name in OPTIONS or name in CAP_PARAMETERS or name == "options"
        if not is_option and name not in _COMMON:
            body[name] = value
    return body


def refuse_options(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse malformed options, and an output cap among them.

    Raises:
        ConfigurationError: there is one; the message says where.
    """
    options = parameters.get("options")
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise ConfigurationError(
            f"{where}['options'] must be a mapping, not {type(options).__name__}"
        )
    if CAP in options:
        raise ConfigurationError(
            f"{where}['options'] cannot set {CAP!r}: it is called max_tokens here"
        )


def _options_of(parameters: Mapping[str, Any]) -> Body:
    """Return the options among parameters: those under `options`, and those outside of it."""
    options: Body = {}
    for name, value in parameters.items():
        if name in OPTIONS and value is not None:
            options[name] = value
    options |= parameters.get("options") or {}
    if isinstance(options.get("stop"), str):  # the server takes a list alone
        options["stop"] = [options["stop"]]
    return options


def _format(value: Any) -> Body | None:
    """Return a `response_format` in Ollama's form; None if it is of no known type."""
    kind = mapping_of(value).get("type")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"format": "json"}
    if kind != "json_schema":
        return None
    schema = mapping_of(value.get("json_schema")).get("schema")
    return {"format": schema} if isinstance(schema, Mapping) else None


def _effort(value: Any) -> Body:
    if not isinstance(value, str) or value not in _EFFORTS:
        return {}
    return {"think": _EFFORTS[value]}


@hides_arguments
@explains_names(ARGUMENTS)
@frozen
class Ollama(HttpBackend):
    """Speak Ollama's own chat with one model of one server.

    A prompt that exceeds the model's context (`num_ctx`, 4096 tokens by default on small machines)
    is not an error for the server: it silently drops the oldest messages, or continues in a shifted
    context. Set the option `num_ctx` to what your conversations need, or the parameters `truncate`
    and `shift` to False, with which recent servers answer with an error that leads to a compaction.

    The variable OLLAMA_HOST is not read: for the server it is the address to listen on, such as
    0.0.0.0.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`.
    The URL ends before `/api/chat`. Options such as `num_ctx` may stand in the parameters
    themselves or under `options`. Whether a trailing assistant turn is continued depends on the
    template of the model, so only `capabilities` can allow it.

    Arguments:
        api_key: the key for ollama.com or a proxy, sent as a bearer token; your own server needs
            none.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "http://localhost:11434"
    PATH = "/api/chat"
    API = "ollama"
    DECODER = OllamaDecoder
    FORM = OLLAMA
    RESERVED = RESERVED
    REFUSES = (refuse_options,)

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol lacks, each with the reason."""
        losses: dict[str, str] = {}
        if chat_choice(parameters.get("tool_choice")) not in (None, "auto", "none"):
            losses["tool_choice"] = (
                "Ollama leaves it to the model whether a tool is called, and which"
            )
        if parameters.get("parallel_tool_calls") is False:
            losses["parallel_tool_calls"] = (
                "Ollama leaves it to the model how many tools are called at once"
            )
        effort = parameters.get("reasoning_effort")
        if effort is not None and not _effort(effort):
            losses["reasoning_effort"] = f"Ollama knows the efforts {', '.join(_EFFORTS)}"
        elif effort is not None and _EFFORTS[effort] not in (effort, False):
            losses[f"reasoning_effort {effort}"] = f"it is sent as {_EFFORTS[effort]}"
        format = parameters.get("response_format")
        if format is not None and _format(format) is None:
            losses["response_format"] = "Ollama knows the types text, json_object and json_schema"
        return losses

    def _body(self, send: Send, *, stream: bool) -> Body:
        parameters = self.parameters
        form = REASONED if send.restore_reasoning else OLLAMA
        members = {**translated(parameters), **translated(send.parameters)}
        options = {**_options_of(parameters), **_options_of(send.parameters)}
        calls_none = chat_choice(members.pop("tool_choice", None)) == "none"
        messages = written(send.messages, form, self._owner(send), is_portable=send.portable)
        body: Body = {
            "model": self.model,
            "messages": messages,
            "stream": stream,
            **members,
        }
        if send.has_tools and "tools" not in members and not calls_none:
            OLLAMA.set_tools(body, send.tools)
        cap = first_cap(send, parameters)
        if cap is not None:
            options[CAP] = cap
        if send.prefill:
            body["messages"] = [*messages[:-1], without_end(messages[-1])]
        if send.lower_reasoning:
            body["think"] = self._less_thinking(body.get("think"))
        dropped = {_ALSO.get(name, name) for name in send.dropped} - _NEVER_DROPPED
        if send.must_cut:  # if a budget rests on the cap, no error of a server removes it
            dropped.discard(CAP)
        elif not dropped.isdisjoint(CAP_PARAMETERS):
            dropped.add(CAP)
        for name in dropped:
            leave_out(body, name)
            leave_out(options, name)
        if options:
            body["options"] = options
        return body

    def _less_thinking(self, think: Any) -> Any:
        """Return the value of `think` for less reasoning.

        gpt-oss has efforts and cannot switch thinking off; other models can.
        """
        if think in ("medium", "high", "max"):
            return "low"
        if think is not False and "gpt-oss" in self.model.lower():
            return "low"
        return False

    def _read(self, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        # streamed even if nobody asked for it, or one object in many lines
        if b"\n" in body.strip():
            return self._read_stream(headers, body)
        return super()._read(headers, body)
