"""Translate the parameters of chat completions to Converse's, or name those that have none.

Claude's own parameters go through Converse in `additionalModelRequestFields`, and keep Anthropic's
form there. So for Claude most of the work is `anthropic/parameters.py`'s; a model of another maker
has no `Generation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.anthropic import parameters as anthropic
from rungwise.adapters.wires.anthropic.parameters import Generation
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.json_text import dump
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.plain.tools import chat_choice, forced_name
from rungwise.fsm.call.chain.for_backend import schema_of
from rungwise.fsm.call.conversation.parameters import COMMON_PARAMETERS
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS

INFERENCE: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}
"""The names of the inference parameters."""
_SAMPLING: Final = ("temperature", "topP", "top_k")
_FIELDS: Final = "additionalModelRequestFields"
_CHOICES: Final = {"auto": "auto", "required": "any", "any": "any"}
"""The tool choices that are one word, with Converse's member for each."""


def lost_parameters(
    parameters: Mapping[str, Any], generation: Generation | None, cap: int | None = None
) -> dict[str, str]:
    """Return the common parameters that this model does not support, each with the reason.

    Arguments:
        parameters: in the form of chat completions, or in Converse's own.
        generation: what a Claude accepts; None for any other model.
        cap: the output cap, in tokens; None if there is none.
    """
    choice = parameters.get("tool_choice")
    if generation is None:
        losses = anthropic.lowered_sampling(parameters)
        losses |= anthropic.blank_stops(parameters.get("stop"))
    else:
        is_forced = not mapping_of(choice_of(choice)).keys().isdisjoint(("any", "tool"))
        claudes = _with_own_thinking(parameters)
        claudes["tool_choice"] = "any" if is_forced else None
        losses = anthropic.lost_parameters(claudes, generation, cap)
    if parameters.get("seed") is not None:
        losses["seed"] = "Converse has none"
    if choice is not None and choice_of(choice) is None and not forbids_tools(choice):
        losses["tool_choice"] = "it has no form here"
    if parameters.get("parallel_tool_calls") is False:
        losses["parallel_tool_calls"] = "Converse has none"
    value = parameters.get("response_format")
    asks = value is not None and mapping_of(value).get("type") != "text"
    if asks and _format(value) is None and "response_format" not in losses:
        losses["response_format"] = "Converse has JSON by a schema alone"
    return losses


def translated(
    parameters: Mapping[str, Any], generation: Generation | None, *, cap: int | None
) -> Body:
    """Return the parameters in Converse's form.

    Those that are in this form already win; those without an equivalent are left out.

    Arguments:
        parameters: in the form of chat completions, or in Converse's own.
        generation: what a Claude accepts; None for any other model.
        cap: the output cap, in tokens; None if there is none.
    """
    common = COMMON_PARAMETERS | {*CAP_PARAMETERS}
    body: Body = {name: each for name, each in parameters.items() if name not in common}
    inference: Body = {}
    if cap is not None:
        inference["maxTokens"] = cap
    top_k = body.pop("top_k", None)
    samples = generation is None or generation.samples
    if samples:
        for name, value in anthropic.sampling(parameters).items():
            inference[INFERENCE[name]] = value
        if top_k is not None:
            fields = mapping_of(body.get(_FIELDS))
            body[_FIELDS] = {"top_k": top_k, **fields}
    if sequences := anthropic.stops(parameters.get("stop")):
        inference["stopSequences"] = sequences
    if inference:
        body["inferenceConfig"] = {**inference, **mapping_of(body.get("inferenceConfig"))}
    if not samples:
        leave_sampling(body)
    json_format = _format(parameters.get("response_format"))
    if json_format is not None and (generation is None or generation.schemas):
        body["outputConfig"] = {"textFormat": json_format, **mapping_of(body.get("outputConfig"))}
    effort = parameters.get("reasoning_effort")
    if generation is not None:
        _set_thinking(body, effort, generation, cap)
    elif isinstance(effort, str):
        body["outputConfig"] = {"effort": effort, **mapping_of(body.get("outputConfig"))}
    return body


def leave_sampling(body: Body) -> None:
    """Remove the sampling parameters from their places in a body."""
    for place in ("inferenceConfig", _FIELDS):
        fields = mapping_of(body.pop(place, None))
        rest = {name: each for name, each in fields.items() if name not in _SAMPLING}
        if rest:
            body[place] = rest


def choice_of(choice: Any) -> Body | None:
    """Return a tool choice in this form, or None if there is no equivalent."""
    if isinstance(choice, Mapping) and "type" not in choice:
        return dict(choice) if choice.keys() <= {"auto", "any", "tool"} else None
    word = chat_choice(choice)
    if isinstance(word, str):
        return {_CHOICES[word]: {}} if word in _CHOICES else None
    name = forced_name(choice)
    return {"tool": {"name": name}} if name else None


def forbids_tools(choice: Any) -> bool:
    """Tell whether a tool choice forbids tools."""
    return choice == "none" or mapping_of(choice).get("type") == "none"


def thinking_in(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return Claude's `thinking` from Converse's own parameters."""
    return mapping_of(mapping_of(parameters.get(_FIELDS)).get("thinking"))


def _with_own_thinking(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with `thinking` and sampling where Anthropic's own have them."""
    claudes = dict(parameters)
    for place in ("inferenceConfig", _FIELDS):
        fields = mapping_of(parameters.get(place))
        for name in ("temperature", "top_p", "top_k", "thinking"):
            own = INFERENCE.get(name, name)
            if fields.get(own) is not None:
                claudes[name] = fields[own]
    return claudes


def thinks(parameters: Mapping[str, Any], generation: Generation | None) -> bool:
    """Tell whether parameters in either form switch reasoning on."""
    if generation is None:
        return parameters.get("reasoning_effort") not in (None, "none")
    return anthropic.thinks(_with_own_thinking(parameters), generation)


def lower_reasoning(body: Body, generation: Generation | None) -> None:
    """Lower the reasoning that a body asks for, or switch it off."""
    config = mapping_of(body.get("outputConfig"))
    if generation is None:
        if config.get("effort"):
            body["outputConfig"] = {**config, "effort": "low"}
        return
    fields = mapping_of(body.get(_FIELDS))
    lowered: Body = {"thinking": fields.get("thinking"), "output_config": config}
    anthropic.lower_reasoning(lowered, generation)
    if lowered["thinking"]:
        body[_FIELDS] = {**fields, "thinking": lowered["thinking"]}
    if lowered["output_config"]:
        body["outputConfig"] = lowered["output_config"]


def fit_budget(body: Body, cap: int | None) -> None:
    """Lower Claude's reasoning budget if it fills the output cap, which the API refuses."""
    fitted: Body = {"thinking": thinking_in(body)}
    if cap is None or not fitted["thinking"]:
        return
    anthropic.fit_budget(fitted, cap)
    set_thinking(body, fitted.get("thinking"))


def set_thinking(body: Body, thinking: Any) -> None:
    """Set Claude's `thinking` in a body; None removes it."""
    fields = dict(mapping_of(body.pop(_FIELDS, None)))
    if thinking is None:
        fields.pop("thinking", None)
    else:
        fields["thinking"] = thinking
    if fields:
        body[_FIELDS] = fields


def _set_thinking(
    body: Body,
    effort: Any,
    generation: Generation,
    cap: int | None,
) -> None:
    """Set an effort in the form that Claude accepts.

    Arguments:
        body: the body, whose own parameters win.
        effort: in the words of chat completions.
        generation: what the model accepts.
        cap: the output cap, in tokens, of which reasoning gets a share; None takes four times the
            smallest budget.
    """
    own = thinking_in(body)
    settings = {"reasoning_effort": effort}
    if own:
        settings["thinking"] = own
    written = anthropic.translated(settings, generation, cap=cap or anthropic.LEAST_BUDGET * 4)
    if written.get("thinking") and not own:
        set_thinking(body, written["thinking"])
    if written.get("output_config"):
        body["outputConfig"] = {**written["output_config"], **mapping_of(body.get("outputConfig"))}


def _format(value: Any) -> Body | None:
    """Return a `response_format` in this form; None if it is not a schema."""
    if mapping_of(value).get("type") != "json_schema":
        return None
    schema = schema_of(value)
    if schema is None:
        return None
    inner = mapping_of(value.get("json_schema")) or value
    json_schema: Body = {"schema": dump(schema).decode()}
    for name in ("name", "description"):
        if isinstance(inner.get(name), str):
            json_schema[name] = inner[name]
    return {"type": "json_schema", "structure": {"jsonSchema": json_schema}}
