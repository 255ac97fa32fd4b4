"""Translate the parameters of chat completions to Converse's, or name those that have no
equivalent.
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


def lost_parameters(
    parameters: Mapping[str, Any], generation: Generation | None, cap: int | None = None
) -> dict[str, str]:
    """Return the common parameters that this model does not support, each with the reason."""
    losses: dict[str, str] = {}
    choice = parameters.get("tool_choice")
    if generation is None:
        losses = anthropic.lowered_sampling(parameters) | anthropic.blank_stops(
            parameters.get("stop")
        )
    else:
        own = thinking_in(parameters)
        is_forced = not mapping_of(choice_of(choice)).keys().isdisjoint(("any", "tool"))
        known = {
            **parameters,
            "tool_choice": "any" if is_forced else None,
            **({"thinking": own} if own else {}),
        }
        losses = anthropic.lost_parameters(known, generation, cap)
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
    """Return the parameters in Converse's form, which wins; those without an equivalent are left
    out.
    """
    body: Body = {
        name: each
        for name, each in parameters.items()
        if name not in COMMON_PARAMETERS | {*CAP_PARAMETERS}
    }
    inference: Body = {} if cap is None else {"maxTokens": cap}
    if generation is None or generation.samples:
        inference |= {
            INFERENCE[name]: each for name, each in anthropic.sampling(parameters).items()
        }
    if sequences := anthropic.stops(parameters.get("stop")):
        inference["stopSequences"] = sequences
    if inference:
        body["inferenceConfig"] = {**inference, **mapping_of(body.get("inferenceConfig"))}
    json_format = _format(parameters.get("response_format"))
    if json_format is not None and (generation is None or generation.schemas):
        body["outputConfig"] = {"textFormat": json_format, **mapping_of(body.get("outputConfig"))}
    effort = parameters.get("reasoning_effort")
    if generation is not None:
        _set_thinking(body, effort, generation, cap)
    elif isinstance(effort, str):
        body["outputConfig"] = {"effort": effort, **mapping_of(body.get("outputConfig"))}
    return body


def choice_of(choice: Any) -> Body | None:
    """Return a tool choice in this form, or None if there is no equivalent."""
    if isinstance(choice, Mapping) and "type" not in choice:
        return dict(choice) if choice.keys() <= {"auto", "any", "tool"} else None
    word_or_tool = chat_choice(choice)
    name = forced_name(choice)
    if isinstance(word_or_tool, str):
        word = {"auto": "auto", "required": "any", "any": "any"}.get(word_or_tool)
        return {word: {}} if word else None
    return {"tool": {"name": name}} if name else None


def forbids_tools(choice: Any) -> bool:
    """Tell whether a tool choice forbids tools."""
    return choice == "none" or mapping_of(choice).get("type") == "none"


def thinking_in(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return Claude's `thinking` from Converse's own parameters."""
    return mapping_of(mapping_of(parameters.get("additionalModelRequestFields")).get("thinking"))


def thinks(parameters: Mapping[str, Any], generation: Generation | None) -> bool:
    """Tell whether parameters in either form switch reasoning on."""
    if generation is None:
        return parameters.get("reasoning_effort") not in (None, "none")
    own = thinking_in(parameters)
    return anthropic.thinks({**parameters, **({"thinking": own} if own else {})}, generation)


def lower_reasoning(body: Body, generation: Generation | None) -> None:
    """Lower the reasoning that a body asks for, or switch it off."""
    fields = mapping_of(body.get("additionalModelRequestFields"))
    config = mapping_of(body.get("outputConfig"))
    lowered: Body = {"thinking": fields.get("thinking"), "output_config": config}
    if generation is None:
        if config.get("effort"):
            body["outputConfig"] = {**config, "effort": "low"}
        return
    anthropic.lower_reasoning(lowered, generation)
    if lowered["thinking"]:
        body["additionalModelRequestFields"] = {**fields, "thinking": lowered["thinking"]}
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
    fields = {**mapping_of(body.pop("additionalModelRequestFields", None)), "thinking": thinking}
    if thinking is None:
        del fields["thinking"]
    if fields:
        body["additionalModelRequestFields"] = fields


def _set_thinking(body: Body, effort: Any, generation: Generation, cap: int | None) -> None:
    """Set an effort in the form that Claude accepts."""
    own = thinking_in(body)
    settings = {"reasoning_effort": effort, **({"thinking": own} if own else {})}
    written = anthropic.translated(settings, generation, cap=cap or anthropic.LEAST_BUDGET * 4)
    if written.get("thinking") and not own:
        set_thinking(body, written["thinking"])
    if written.get("output_config"):
        body["outputConfig"] = {**written["output_config"], **mapping_of(body.get("outputConfig"))}


def _format(value: Any) -> Body | None:
    schema = schema_of(value) if mapping_of(value).get("type") == "json_schema" else None
    if schema is None:
        return None
    inner = mapping_of(value.get("json_schema")) or value
    described = {
        name: inner[name] for name in ("name", "description") if isinstance(inner.get(name), str)
    }
    return {
        "type": "json_schema",
        "structure": {"jsonSchema": {"schema": dump(schema).decode(), **described}},
    }
