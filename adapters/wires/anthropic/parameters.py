"""Translate the parameters of chat completions to Anthropic's, or name those that have no
equivalent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from attrs import field, frozen

from rungwise.adapters.wires.capabilities.capability import ANY, pattern
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.plain.tools import chat_choice, forced_name
from rungwise.fsm.call.chain.for_backend import schema_of
from rungwise.fsm.call.conversation.parameters import COMMON_PARAMETERS
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.patterns import Pattern

ThinkingKind = Literal["none", "budget", "adaptive"]
"""How a request asks for reasoning: not at all, by a number of tokens, or by an effort."""


@frozen(kw_only=True)
class Generation:
    """Hold how some models reason, and whether they accept sampling parameters and JSON schemas."""

    model: Pattern = field(default=ANY, converter=pattern)
    thinking: ThinkingKind
    samples: bool = True
    schemas: bool = True


# As surveyed in November 2026; the first row whose pattern is found in a model's id counts. The
# official client of that month knows neither `temperature` nor `top_p` any more, and later models
# refuse both.
_GENERATIONS: Final = (
    Generation(
        model=r"claude~(2|instant|3~5|3~(haiku|sonnet|opus)|(haiku|sonnet|opus)~3(?!~7))",
        thinking="none",
        schemas=False,
    ),
    Generation(
        model=r"claude~(3~7|(sonnet|opus)~3~7|(sonnet|opus)~4(~0)?(?!~\d{1,2}(?!\d)))",
        thinking="budget",
        schemas=False,
    ),
    Generation(model=r"claude~(opus~4~1|(haiku|sonnet|opus)~4~5)(?!\d)", thinking="budget"),
    Generation(model=r"claude~(sonnet|opus)~4~6(?!\d)", thinking="adaptive"),
    Generation(model="claude", thinking="adaptive", samples=False),
    Generation(thinking="budget"),  # models of other makers that are served with this protocol
)


@lru_cache(maxsize=256)
def generation_of(model: str) -> Generation:
    """Return what a model accepts, by its id."""
    return next(each for each in _GENERATIONS if each.model.search(model.lower()))


LEAST_BUDGET: Final = 1024
"""The smallest reasoning budget that the API accepts, in tokens."""
_SHARES: Final = {"minimal": 0.0, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.9, "max": 0.95}
"""The share of the output cap that each effort gives to reasoning, for models that take a number of
tokens.
"""
_EFFORTS: Final = {
    "minimal": "low",
    **{effort: effort for effort in ("low", "medium", "high", "xhigh", "max")},
}
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any", "any": "any"}
FORCED: Final = ("any", "tool")
"""The tool choices that cannot be combined with reasoning."""
_THINKING_ON: Final = ("enabled", "adaptive")
_FORCES: Final = "this model does not reason where a tool is forced"
_REASONING: Final = ("thinking", "reasoning_effort")
SAMPLING: Final = ("temperature", "top_p")
MOST_SAMPLING: Final = 1
"""The largest value of either here; other providers allow 2."""


def lost_parameters(
    parameters: Mapping[str, Any], generation: Generation, cap: int | None = None
) -> dict[str, str]:
    """Return the common parameters that this model does not support, each with the reason."""
    losses: dict[str, str] = {}
    if parameters.get("seed") is not None:
        losses["seed"] = "Anthropic has none"
    value = parameters.get("response_format")
    is_text = value is None or mapping_of(value).get("type") == "text"
    if not is_text and _format(value, generation) is None:
        why = (
            "Anthropic has JSON by a schema alone"
            if generation.schemas
            else "this model cannot be held to JSON"
        )
        losses["response_format"] = why
    is_forced = (_choice(parameters.get("tool_choice")) or {}).get("type") in FORCED
    losses |= _lost_effort(parameters.get("reasoning_effort"), generation, cap, is_forced=is_forced)
    losses |= _lost_thinking(parameters, cap, is_forced=is_forced)
    reasons = (
        thinks(parameters, generation) and not is_forced and losses.keys().isdisjoint(_REASONING)
    )
    if reasons or not generation.samples:
        why = (
            "this model takes none"
            if not generation.samples
            else "this model takes none while it reasons"
        )
        losses |= {name: why for name in SAMPLING if parameters.get(name) is not None}
    else:
        losses |= lowered_sampling(parameters)
    losses |= blank_stops(parameters.get("stop"))
    if parameters.get("tool_choice") is not None and _choice(parameters["tool_choice"]) is None:
        losses["tool_choice"] = "it has no form here"
    return losses


def lowered_sampling(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the sampling parameters that are lowered to the largest value allowed."""
    return {
        f"{name} above {MOST_SAMPLING}": f"it is sent as {MOST_SAMPLING}"
        for name in SAMPLING
        if is_number(parameters.get(name), MOST_SAMPLING) and parameters[name] > MOST_SAMPLING
    }


def blank_stops(stop: Any) -> dict[str, str]:
    """Return the blank stop sequences, which are left out."""
    sequences = [stop] if isinstance(stop, str) else stop if isinstance(stop, list | tuple) else []
    sendable = stops(stop)
    blank = len(sequences) - len(sendable)
    if not stop or (sendable and not blank):
        return {}
    return {
        f"blank sequences in stop, {blank} x" if sendable else "stop": "no blank sequence is taken"
    }


def _lost_effort(
    effort: Any, generation: Generation, cap: int | None, *, is_forced: bool
) -> dict[str, str]:
    why = ""
    if effort is None or effort == "none":
        return {}
    if generation.thinking == "none" or effort not in _EFFORTS:
        why = "this model does not reason" if effort in _EFFORTS else "it is not a known effort"
    elif generation.thinking == "adaptive":
        sent = _EFFORTS[effort]
        return {} if sent == effort else {f"reasoning_effort {effort}": f"it is sent as {sent}"}
    elif is_forced:
        why = _FORCES
    elif cap is not None and cap <= LEAST_BUDGET:
        why = f"this model reasons under an output cap above {LEAST_BUDGET} tokens alone"
    return {"reasoning_effort": why} if why else {}


def _lost_thinking(
    parameters: Mapping[str, Any], cap: int | None, *, is_forced: bool
) -> dict[str, str]:
    """Return what is left out of Anthropic's own `thinking` parameter."""
    if mapping_of(parameters.get("thinking")).get("type") not in _THINKING_ON:
        return {}
    if is_forced:
        return {"thinking": _FORCES}
    if cap is None or budget_in(parameters) < cap:
        return {}
    less = _lower_budget(cap)
    if less is None:
        return {"thinking": f"there is none under an output cap of {cap} tokens"}
    return {"thinking above the output cap": f"{less} tokens are sent"}


def translated(parameters: Mapping[str, Any], generation: Generation, *, cap: int) -> Body:
    """Return the parameters in Anthropic's form, which wins; those without an equivalent are left
    out.
    """
    body: Body = {
        name: each
        for name, each in parameters.items()
        if name not in COMMON_PARAMETERS | {*CAP_PARAMETERS}
    }
    body |= sampling(parameters) if generation.samples else {}
    if sequences := stops(parameters.get("stop")):
        body.setdefault("stop_sequences", sequences)
    json_format = _format(parameters.get("response_format"), generation)
    if json_format is not None and "output_format" not in body:
        body["output_config"] = {"format": json_format, **mapping_of(body.get("output_config"))}
    _set_effort(body, parameters.get("reasoning_effort"), generation, cap)
    _set_choice(body, parameters.get("tool_choice"), parameters.get("parallel_tool_calls"))
    return body


def sampling(parameters: Mapping[str, Any]) -> Body:
    """Return the sampling parameters, lowered to the largest value allowed."""
    values = {name: parameters[name] for name in SAMPLING if parameters.get(name) is not None}
    return {
        name: min(value, MOST_SAMPLING) if is_number(value, 0) else value
        for name, value in values.items()
    }


def thinks(parameters: Mapping[str, Any], generation: Generation) -> bool:
    """Tell whether parameters in either form switch reasoning on."""
    thinking = parameters.get("thinking")
    if isinstance(thinking, Mapping):
        return thinking.get("type") in _THINKING_ON
    return generation.thinking != "none" and parameters.get("reasoning_effort") in _EFFORTS


def budget_in(parameters: Mapping[str, Any]) -> int:
    """Return the reasoning budget in Anthropic's own parameters, in tokens; 0 if there is none."""
    thinking = mapping_of(parameters.get("thinking"))
    budget = thinking.get("budget_tokens")
    return budget if thinking.get("type") == "enabled" and type(budget) is int and budget > 0 else 0


def fit_budget(body: Body, cap: int) -> None:
    """Lower a reasoning budget that fills the output cap, which the API refuses; remove it under a
    low cap.
    """
    if budget_in(body) >= cap:
        less = _lower_budget(cap)
        if less is not None:
            body["thinking"] = {**body["thinking"], "budget_tokens": less}
        else:
            del body["thinking"]


def _lower_budget(cap: int) -> int | None:
    """Return the reasoning budget that fits under an output cap, in tokens; None if not even the
    smallest fits.
    """
    return max(LEAST_BUDGET, cap // 2) if cap > LEAST_BUDGET else None


def lower_reasoning(body: Body, generation: Generation) -> None:
    """Lower the reasoning that a body asks for, or switch it off."""
    config = mapping_of(body.get("output_config"))
    thinking = mapping_of(body.get("thinking"))
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
        body["output_config"] = {
            "effort": _EFFORTS[effort],
            **mapping_of(body.get("output_config")),
        }
    elif cap > LEAST_BUDGET and "thinking" not in body:
        budget = min(cap - 1, max(LEAST_BUDGET, int(cap * _SHARES[effort])))
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _set_choice(body: Body, choice: Any, parallel: Any) -> None:
    written = None if choice is None else _choice(choice)
    if parallel is False and (written is None or written["type"] != "none"):
        written = {**(written or {"type": "auto"}), "disable_parallel_tool_use": True}
    if written is not None:
        body["tool_choice"] = written


def _choice(choice: Any) -> Body | None:
    if isinstance(choice, Mapping) and choice.get("type") in ("auto", "any", "none", "tool"):
        return dict(choice)
    word = chat_choice(choice)
    name = forced_name(choice)
    if isinstance(word, str):
        return {"type": _CHOICES[word]} if word in _CHOICES else None
    return {"type": "tool", "name": name} if name else None


def _format(value: Any, generation: Generation) -> Body | None:
    is_schema = generation.schemas and mapping_of(value).get("type") == "json_schema"
    schema = schema_of(value) if is_schema else None
    return {"type": "json_schema", "schema": schema} if schema is not None else None


def stops(stop: Any) -> list[str]:
    """Return the stop sequences that are not blank; the API refuses blank ones."""
    sequences = [stop] if isinstance(stop, str) else stop if isinstance(stop, list | tuple) else []
    return [each for each in sequences if isinstance(each, str) and each.strip()]
