"""Say the parameters of chat completions in Anthropic's words, or name those that it has no words for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.anthropic.models import Generation
from rungwise.adapters.wires.form import Body
from rungwise.fsm.call.options import COMMON_PARAMETERS
from rungwise.fsm.call.request import CAP_PARAMETERS
from rungwise.fsm.values.checks import is_number

LEAST_BUDGET: Final = 1024
"""Tokens of reasoning that the API takes at least."""
_SHARES: Final[Mapping[str, float]] = {
    "minimal": 0.0,
    "low": 0.2,
    "medium": 0.5,
    "high": 0.8,
    "xhigh": 0.9,
    "max": 0.95,
}
"""How much of the output cap an effort lets the reasoning have, where that is asked for as a number of tokens."""
_EFFORTS: Final = {"minimal": "low", **{effort: effort for effort in ("low", "medium", "high", "xhigh", "max")}}
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
FORCED: Final = ("any", "tool")
"""The choices of tools that reasoning rules out."""
_THINKING_ON: Final = ("enabled", "adaptive")


def lost_parameters(parameters: Mapping[str, Any], generation: Generation, cap: int | None = None) -> dict[str, str]:
    """Return which of these common parameters a model cannot be told, each with the reason.

    Arguments:
        parameters: of a request, called as in chat completions.
        generation: what the model takes.
        cap: the output cap in tokens, of which reasoning would take a share; None where it is not known.
    """
    told: dict[str, str] = {}
    if parameters.get("seed") is not None:
        told["seed"] = "Anthropic has none"
    wanted = parameters.get("response_format")
    is_text = wanted is None or (isinstance(wanted, Mapping) and wanted.get("type") == "text")
    if not is_text and _format(wanted, generation) is None:
        told["response_format"] = (
            "Anthropic has JSON by a schema alone" if generation.schemas else "this model cannot be held to JSON"
        )
    effort = parameters.get("reasoning_effort")
    if effort is not None and effort != "none" and (generation.thinking == "none" or effort not in _EFFORTS):
        told["reasoning_effort"] = "this model does not reason" if effort in _EFFORTS else "it is not a known effort"
    is_forced = (_choice(parameters.get("tool_choice")) or {}).get("type") in FORCED
    if effort in _EFFORTS and generation.thinking == "budget" and "reasoning_effort" not in told:
        if is_forced:
            told["reasoning_effort"] = "this model does not reason where a tool is forced"
        elif cap is not None and cap <= LEAST_BUDGET:
            told["reasoning_effort"] = f"this model reasons under an output cap above {LEAST_BUDGET} tokens alone"
    reasons = thinks(parameters, generation) and not is_forced and "reasoning_effort" not in told
    if reasons or not generation.samples:
        why = "this model takes none" if not generation.samples else "this model takes none while it reasons"
        told |= {name: why for name in ("temperature", "top_p") if parameters.get(name) is not None}
    if parameters.get("stop") and not _stops(parameters["stop"]):
        told["stop"] = "Anthropic takes no blank sequence"
    if parameters.get("tool_choice") is not None and _choice(parameters["tool_choice"]) is None:
        told["tool_choice"] = "it has no form here"
    return told


def translated(given: Mapping[str, Any], generation: Generation, *, cap: int) -> Body:
    """Return parameters in Anthropic's words; what it has none for is left out.

    Arguments:
        given: the parameters, in chat completions' words or in Anthropic's, which win.
        generation: what the model takes.
        cap: the output cap in tokens, of which reasoning takes a share.
    """
    body: Body = {name: each for name, each in given.items() if name not in COMMON_PARAMETERS | {*CAP_PARAMETERS}}
    for name in ("temperature", "top_p") if generation.samples else ():
        value = given.get(name)
        if value is not None:
            body[name] = min(value, 1) if is_number(value, 0) else value  # 2 is the most elsewhere
    stops = _stops(given.get("stop"))
    if stops:
        body.setdefault("stop_sequences", stops)
    wanted = _format(given.get("response_format"), generation)
    if wanted is not None and "output_format" not in body:
        body["output_config"] = {"format": wanted, **_mapping(body.get("output_config"))}
    _set_effort(body, given.get("reasoning_effort"), generation, cap)
    _set_choice(body, given.get("tool_choice"), given.get("parallel_tool_calls"))
    return body


def thinks(given: Mapping[str, Any], generation: Generation) -> bool:
    """Tell whether parameters, in either words, switch reasoning on."""
    thinking = given.get("thinking")
    if isinstance(thinking, Mapping):
        return thinking.get("type") in _THINKING_ON
    return generation.thinking != "none" and given.get("reasoning_effort") in _EFFORTS


def budget_in(given: Mapping[str, Any]) -> int:
    """Return the tokens that parameters of Anthropic's own give to reasoning; 0 where they say none."""
    thinking = _mapping(given.get("thinking"))
    budget = thinking.get("budget_tokens")
    return budget if thinking.get("type") == "enabled" and type(budget) is int and budget > 0 else 0


def fit_budget(body: Body, cap: int) -> None:
    """Lower the tokens of reasoning where they fill the output cap, which the API refuses; under a low cap, to none."""
    if budget_in(body) >= cap:
        if cap > LEAST_BUDGET:
            body["thinking"] = {**body["thinking"], "budget_tokens": max(LEAST_BUDGET, cap // 2)}
        else:
            del body["thinking"]


def lower_reasoning(body: Body, generation: Generation) -> None:
    """Ask for less reasoning than a body does, or for none."""
    config, thinking = _mapping(body.get("output_config")), _mapping(body.get("thinking"))
    if thinking.get("type") == "enabled":
        less = {**thinking, "budget_tokens": LEAST_BUDGET}
        body["thinking"] = less if budget_in(body) > LEAST_BUDGET else {"type": "disabled"}
    elif config.get("effort") == "low":
        body["thinking"] = {"type": "disabled"}
    elif generation.thinking == "adaptive" and thinking.get("type") != "disabled":
        body["output_config"] = {**config, "effort": "low"}


def _set_effort(body: Body, effort: Any, generation: Generation, cap: int) -> None:
    if effort == "none" and generation.thinking == "adaptive":
        body.setdefault("thinking", {"type": "disabled"})
    if effort not in _EFFORTS or generation.thinking == "none":
        return
    if generation.thinking == "adaptive":
        body.setdefault("thinking", {"type": "adaptive"})
        body["output_config"] = {"effort": _EFFORTS[effort], **_mapping(body.get("output_config"))}
    elif cap > LEAST_BUDGET and "thinking" not in body:
        budget = min(cap - 1, max(LEAST_BUDGET, int(cap * _SHARES[effort])))
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _set_choice(body: Body, choice: Any, parallel: Any) -> None:
    found = None if choice is None else _choice(choice)
    if parallel is False and (found is None or found["type"] != "none"):
        found = {**(found or {"type": "auto"}), "disable_parallel_tool_use": True}
    if found is not None:
        body["tool_choice"] = found


def _choice(choice: Any) -> Body | None:
    """Return a choice of tools in this form, whether it came in that or in one of OpenAI's."""
    if isinstance(choice, str):
        return {"type": _CHOICES[choice]} if choice in _CHOICES else None
    if not isinstance(choice, Mapping):
        return None
    kind = choice.get("type")
    if kind in ("auto", "any", "none", "tool"):
        return dict(choice)
    inner = choice.get("function") if isinstance(choice.get("function"), Mapping) else choice
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return {"type": "tool", "name": name} if kind == "function" and isinstance(name, str) else None


def _format(wanted: Any, generation: Generation) -> Body | None:
    if not isinstance(wanted, Mapping) or wanted.get("type") != "json_schema" or not generation.schemas:
        return None
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) else wanted.get("schema")
    return {"type": "json_schema", "schema": schema} if isinstance(schema, Mapping) else None


def _stops(stop: Any) -> list[str]:
    found = [stop] if isinstance(stop, str) else stop if isinstance(stop, list | tuple) else []
    return [each for each in found if isinstance(each, str) and each.strip()]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
