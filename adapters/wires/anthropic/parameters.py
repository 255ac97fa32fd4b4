"""Translate the parameters of chat completions to Anthropic's, or name those that have none.

What Anthropic takes depends on the generation of the model: how reasoning is asked for, whether
sampling can be set, whether a schema is held. `lost_parameters` says what is lost, `translated`
writes the rest; both read the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from attrs import field, frozen

from rungwise.adapters.wires.capabilities.capability import ANY, pattern
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
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
    samples: bool = True  # whether `temperature` and `top_p` can be set
    schemas: bool = True  # whether they can be held to a JSON schema
    takes_xhigh: bool = True  # whether they know that effort
    refusal: str = "this model takes none"  # why sampling cannot be set, if it cannot


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
    Generation(model=r"claude~(sonnet|opus)~4~6(?!\d)", thinking="adaptive", takes_xhigh=False),
    Generation(model="claude", thinking="adaptive", samples=False),
    Generation(thinking="budget"),  # models of other makers that are served with this protocol
)


@lru_cache(maxsize=256)
def generation_of(model: str) -> Generation:
    """Return what a model accepts, by its id."""
    return next(each for each in _GENERATIONS if each.model.search(model.lower()))


LEAST_BUDGET: Final = 1024
"""The smallest reasoning budget that the API accepts, in tokens."""
_SHARES: Final = {
    "minimal": 0.0,
    "low": 0.2,
    "medium": 0.5,
    "high": 0.8,
    "xhigh": 0.9,
    "max": 0.95,
}
"""The share of the output cap that each effort gives to reasoning.

It counts for models that take a number of tokens."""
_EFFORTS: Final = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
"""The efforts of chat completions, with Anthropic's word for each."""
_CHOICES: Final = {
    "auto": "auto",
    "none": "none",
    "required": "any",
    "any": "any",
}
"""The tool choices that are one word, with Anthropic's type for each."""
FORCED: Final = ("any", "tool")
"""The tool choices that cannot be combined with reasoning."""
_FORCES: Final = "this model does not reason where a tool is forced"
_REASONING: Final = ("thinking", "reasoning_effort")
SAMPLING: Final = ("temperature", "top_p")
MOST_SAMPLING: Final = 1
"""The largest value of either here; other providers allow 2."""
EVERY_SAMPLING: Final = (*SAMPLING, "top_k")


def is_on(thinking: Any) -> bool:
    """Tell whether a `thinking` switches reasoning on, in whatever way."""
    return mapping_of(thinking).get("type") not in (None, "disabled")


def lost_parameters(
    parameters: Mapping[str, Any], generation: Generation, cap: int | None = None
) -> dict[str, str]:
    """Return the common parameters that this model does not support, each with the reason.

    Arguments:
        parameters: in the form of chat completions, or in Anthropic's own.
        generation: what the model accepts.
        cap: the output cap, in tokens.
    """
    losses: dict[str, str] = {}
    if parameters.get("seed") is not None:
        losses["seed"] = "Anthropic has none"
    value = parameters.get("response_format")
    is_text = value is None or mapping_of(value).get("type") == "text"
    if not is_text and _format(value, generation) is None:
        if generation.schemas:
            losses["response_format"] = "Anthropic has JSON by a schema alone"
        else:
            losses["response_format"] = "this model cannot be held to JSON"
    choice = _choice(parameters.get("tool_choice"))
    is_forced = choice is not None and choice["type"] in FORCED
    losses |= _lost_effort(parameters.get("reasoning_effort"), generation, cap, is_forced=is_forced)
    losses |= _lost_thinking(parameters, cap, is_forced=is_forced)
    is_off = is_forced or not losses.keys().isdisjoint(_REASONING)
    why = ""
    if not generation.samples:
        why = generation.refusal
    elif not is_off and thinks(parameters, generation):
        why = "this model takes none while it reasons"
    if why:
        losses |= {name: why for name in EVERY_SAMPLING if parameters.get(name) is not None}
    else:
        losses |= lowered_sampling(parameters)
    losses |= blank_stops(parameters.get("stop"))
    if choice is None and parameters.get("tool_choice") is not None:
        losses["tool_choice"] = "it has no form here"
    return losses


def lowered_sampling(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the sampling parameters that are lowered to the largest value allowed."""
    lowered: dict[str, str] = {}
    for name in SAMPLING:
        value = parameters.get(name)
        if is_number(value, MOST_SAMPLING) and value > MOST_SAMPLING:
            lowered[f"{name} above {MOST_SAMPLING}"] = f"it is sent as {MOST_SAMPLING}"
    return lowered


def blank_stops(stop: Any) -> dict[str, str]:
    """Return the blank stop sequences, which are left out."""
    sendable = stops(stop)
    blank = len(_sequences(stop)) - len(sendable)
    if not stop or (sendable and not blank):
        return {}
    name = f"blank sequences in stop, {blank} x" if sendable else "stop"
    return {name: "no blank sequence is taken"}


def _lost_effort(
    effort: Any,
    generation: Generation,
    cap: int | None,
    *,
    is_forced: bool,
) -> dict[str, str]:
    """Return the effort of reasoning if it is not sent as it is, with the reason.

    Arguments:
        effort: in the words of chat completions.
        generation: what the model accepts.
        cap: the output cap, in tokens.
        is_forced: whether the request forces a tool.
    """
    if effort is None or effort == "none":
        return {}
    if effort not in _EFFORTS:
        return {"reasoning_effort": "it is not a known effort"}
    if generation.thinking == "none":
        return {"reasoning_effort": "this model does not reason"}
    if generation.thinking == "adaptive":
        sent = _effort_of(effort, generation)
        if sent == effort:
            return {}
        return {f"reasoning_effort {effort}": f"it is sent as {sent}"}
    if is_forced:
        return {"reasoning_effort": _FORCES}
    if cap is not None and cap <= LEAST_BUDGET:
        why = f"this model reasons under an output cap above {LEAST_BUDGET} tokens alone"
        return {"reasoning_effort": why}
    return {}


def _lost_thinking(
    parameters: Mapping[str, Any], cap: int | None, *, is_forced: bool
) -> dict[str, str]:
    """Return what is left out of Anthropic's own `thinking` parameter."""
    if not is_on(parameters.get("thinking")):
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
    """Return the parameters in Anthropic's form.

    Those that are in this form already win; those without an equivalent are left out.

    Arguments:
        parameters: in the form of chat completions, or in Anthropic's own.
        generation: what the model accepts.
        cap: the output cap, in tokens.
    """
    common = COMMON_PARAMETERS | {*CAP_PARAMETERS}
    body: Body = {name: each for name, each in parameters.items() if name not in common}
    if generation.samples:
        body |= sampling(parameters)
    else:
        body.pop("top_k", None)
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
    values: Body = {}
    for name in SAMPLING:
        value = parameters.get(name)
        if is_number(value, 0):
            value = min(value, MOST_SAMPLING)
        if value is not None:
            values[name] = value
    return values


def thinks(parameters: Mapping[str, Any], generation: Generation) -> bool:
    """Tell whether parameters in either form switch reasoning on."""
    thinking = parameters.get("thinking")
    if isinstance(thinking, Mapping):
        return is_on(thinking)
    return generation.thinking != "none" and parameters.get("reasoning_effort") in _EFFORTS


def budget_in(parameters: Mapping[str, Any]) -> int:
    """Return the reasoning budget in Anthropic's own parameters, in tokens; 0 if there is none."""
    thinking = mapping_of(parameters.get("thinking"))
    if thinking.get("type") != "enabled":
        return 0
    budget = thinking.get("budget_tokens")
    return budget if type(budget) is int and budget > 0 else 0


def fit_budget(body: Body, cap: int) -> None:
    """Lower a reasoning budget that fills the output cap, which the API refuses.

    Under a low cap, remove it.
    """
    if budget_in(body) >= cap:
        less = _lower_budget(cap)
        if less is not None:
            body["thinking"] = {**body["thinking"], "budget_tokens": less}
        else:
            del body["thinking"]


def _lower_budget(cap: int) -> int | None:
    """Return the reasoning budget that fits under an output cap, in tokens.

    None if not even the smallest fits.
    """
    if cap <= LEAST_BUDGET:
        return None
    return max(LEAST_BUDGET, cap // 2)


def lower_reasoning(body: Body, generation: Generation) -> None:
    """Lower the reasoning that a body asks for, or switch it off."""
    config = mapping_of(body.get("output_config"))
    thinking = mapping_of(body.get("thinking"))
    if thinking.get("type") == "enabled" and budget_in(body) > LEAST_BUDGET:
        body["thinking"] = {**thinking, "budget_tokens": LEAST_BUDGET}
    elif thinking.get("type") == "enabled" or config.get("effort") == "low":
        body["thinking"] = {"type": "disabled"}
    elif generation.thinking == "adaptive" and thinking.get("type") != "disabled":
        body["output_config"] = {**config, "effort": "low"}


def _set_effort(
    body: Body,
    effort: Any,
    generation: Generation,
    cap: int,
) -> None:
    """Ask for reasoning with an effort, in the way that the model understands.

    Arguments:
        body: the body, whose own parameters win.
        effort: in the words of chat completions.
        generation: what the model accepts.
        cap: the output cap, in tokens, of which reasoning gets a share.
    """
    if effort == "none" and generation.thinking == "adaptive":
        body.setdefault("thinking", {"type": "disabled"})
    if effort not in _EFFORTS or generation.thinking == "none":
        return
    if generation.thinking == "adaptive":
        body.setdefault("thinking", {"type": "adaptive"})
        config = mapping_of(body.get("output_config"))
        body["output_config"] = {"effort": _effort_of(effort, generation), **config}
    elif cap > LEAST_BUDGET and "thinking" not in body:
        budget = min(cap - 1, max(LEAST_BUDGET, int(cap * _SHARES[effort])))
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _effort_of(effort: str, generation: Generation) -> str:
    """Return an effort in the words of a model that takes efforts."""
    if effort == "xhigh" and not generation.takes_xhigh:
        return "high"
    return _EFFORTS[effort]


def _set_choice(body: Body, choice: Any, parallel: Any) -> None:
    """Write a tool choice, which also says whether the model may call several tools at once."""
    written = None if choice is None else _choice(choice)
    if parallel is False and (written is None or written["type"] != "none"):
        written = {**(written or {"type": "auto"}), "disable_parallel_tool_use": True}
    if written is not None:
        body["tool_choice"] = written


def _choice(choice: Any) -> Body | None:
    """Return a tool choice of any form in Anthropic's; None if it has no form there."""
    if isinstance(choice, Mapping) and choice.get("type") in ("auto", "any", "none", "tool"):
        return dict(choice)
    word = chat_choice(choice)
    if isinstance(word, str):
        return {"type": _CHOICES[word]} if word in _CHOICES else None
    name = forced_name(choice)
    if not name:
        return None
    return {"type": "tool", "name": name}


def _format(value: Any, generation: Generation) -> Body | None:
    """Return a `response_format` in Anthropic's form; None if the model cannot be held to it."""
    if not generation.schemas or mapping_of(value).get("type") != "json_schema":
        return None
    schema = schema_of(value)
    if schema is None:
        return None
    return {"type": "json_schema", "schema": schema}


def stops(stop: Any) -> list[str]:
    """Return the stop sequences that are not blank; the API refuses blank ones."""
    return [each for each in _sequences(stop) if isinstance(each, str) and each.strip()]


def _sequences(stop: Any) -> list[Any]:
    """Return one stop sequence or several as a list."""
    if isinstance(stop, str):
        return [stop]
    return list_of(stop)
