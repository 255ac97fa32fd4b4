"""Translate the parameters of chat completions to Gemini's, and put Gemini's own into their places.

Most of them are members of `generationConfig`. The API takes names in snake case as well; here all
become camel case, so that each is found once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from attrs import Factory, field, frozen

from rungwise.adapters.wires import request
from rungwise.adapters.wires.capabilities.capability import ANY, pattern
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.gemini import CONFIG
from rungwise.adapters.wires.plain.parts import inner_of, list_of, mapping_of
from rungwise.adapters.wires.plain.tools import chat_choice, name_of
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.patterns import Pattern


@frozen(kw_only=True)
class Traits:
    """Describe how one generation of models differs."""

    model: Pattern = field(default=ANY, converter=pattern)
    # The `thinkingConfig` for each reasoning effort; empty if the model accepts none.
    thinking: Mapping[str, Mapping[str, Any]] = Factory(dict)
    # The `thinkingConfig` for less reasoning, by its current level or budget; "" if none is set.
    lower: Mapping[str, Mapping[str, Any]] = Factory(dict)
    wants_signatures: bool = True  # whether the first function call of each step must be signed
    nests_media: bool = True  # whether the result of a function holds pictures itself
    fetches: bool = True  # whether a public URL is fetched


def _levels(**efforts: str) -> dict[str, dict[str, Any]]:
    """Return the `thinkingConfig` of each effort, for models that think on levels."""
    return {effort: {"thinkingLevel": level} for effort, level in efforts.items()}


def _budgets(**efforts: int) -> dict[str, dict[str, Any]]:
    """Return the `thinkingConfig` of each effort, for models that take a number of tokens."""
    return {effort: {"thinkingBudget": budget} for effort, budget in efforts.items()}


_LOW: Final = {"thinkingLevel": "LOW"}
_MINIMAL: Final = {"thinkingLevel": "MINIMAL"}
_TO_LOW: Final = dict.fromkeys(("", "MEDIUM", "HIGH", "XHIGH"), _LOW)

# No model of the third generation can be told not to think at all.
# There is a level XHIGH, which no model is documented to take: 4 Argon takes none above HIGH.
_FROM_LOW: Final = _levels(
    none="LOW",
    minimal="LOW",
    low="LOW",
    medium="MEDIUM",
    high="HIGH",
    xhigh="HIGH",
    max="HIGH",
)
_WITH_MINIMAL: Final = {**_FROM_LOW, **_levels(none="MINIMAL", minimal="MINIMAL")}
_LOW_OR_HIGH: Final = {**_FROM_LOW, **_levels(medium="HIGH")}

# The tokens of each effort are those of Google's endpoint for chat completions
# [ai.google.dev/gemini-api/docs/openai].
_TOKENS: Final = {
    "minimal": 1024,
    "low": 1024,
    "medium": 8192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
_LEAST: Final = 128  # tokens that 2.5 Pro thinks at least
_TO_BUDGET: Final = {"": {"thinkingBudget": 1024}, "-1": {"thinkingBudget": 1024}}

# As surveyed in November 2026 [ai.google.dev/gemini-api/docs/thinking, /thought-signatures,
# /file-input-methods]; the first row that fits counts.
_GENERATIONS: Final = (
    Traits(
        model=r"gemini~[01]\b|gemini~2~0|gemma|learnlm",
        wants_signatures=False,
        nests_media=False,
        fetches=False,
    ),
    Traits(
        model=r"gemini~2~5~pro",
        thinking=_budgets(none=_LEAST, **_TOKENS),
        lower={**_TO_BUDGET, "1024": {"thinkingBudget": _LEAST}},
        wants_signatures=False,
        nests_media=False,
    ),
    Traits(
        model=r"gemini~2~5~flash(?!.*(image|tts|live))",
        thinking=_budgets(none=0, **_TOKENS),
        lower={**_TO_BUDGET, "1024": {"thinkingBudget": 0}},
        wants_signatures=False,
        nests_media=False,
    ),
    Traits(model=r"gemini~2", wants_signatures=False, nests_media=False),
    Traits(model=r"gemini~3~pro", thinking=_LOW_OR_HIGH, lower=_TO_LOW),
    Traits(
        model=r"gemini~3(~1|~5|~6)?~flash(?!.*image)",
        thinking=_WITH_MINIMAL,
        lower={**_TO_LOW, "LOW": _MINIMAL},
    ),
    Traits(
        # Gemini 4 Argon has these three levels [google-genai 3.6.1; its page, November 2026]
        model=r"gemini~(?:[3-9]|\d\d)(?!.*(image|tts|live))|gemini~(pro|flash)~",
        thinking=_FROM_LOW,
        lower=_TO_LOW,
    ),
)

NEWEST: Final = Traits()
"""The default for unknown models: like the newest, but without thinking."""


@lru_cache(maxsize=256)
def traits_of(model: str) -> Traits:
    """Return the traits of a model, by its id."""
    return next((row for row in _GENERATIONS if row.model.search(model.lower())), NEWEST)


_CAP: Final = "max_tokens is its name everywhere in this library"
_SYSTEM: Final = "give it as a message of role 'system'"
RESERVED: Final = {
    **request.RESERVED,
    "contents": "give the messages to the call",
    "systemInstruction": _SYSTEM,
    "system_instruction": _SYSTEM,
    "maxOutputTokens": _CAP,
    "max_output_tokens": _CAP,
}

_CONFIG: Final = ("generationConfig", "generation_config")
_OF_CONFIG: Final = frozenset(CONFIG.split())
"""The members of `generationConfig`; those given outside of it are moved into it."""
_COMMON: Final = {
    "stop": "stopSequences",
    "response_format": "responseMimeType",
    "reasoning_effort": "thinkingConfig",
}
"""The common parameters that have another name here."""
_MODES: Final = {
    "auto": "AUTO",
    "none": "NONE",
    "required": "ANY",
    "any": "ANY",
    "validated": "VALIDATED",
}
_NOT_SENT: Final = ("parallel_tool_calls", "n", "stream_options", *CAP_PARAMETERS)


def camel(name: str) -> str:
    """Return a name in camel case; the API accepts both spellings."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


_PLACES: Final = {
    "stop": "stopSequences",
    "responseFormat": "responseMimeType",
    "reasoningEffort": "thinkingConfig",
    "toolChoice": "toolConfig",
}
"""Where the common parameters go, by their names in camel case."""


def refuse_own(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse reserved members of `generationConfig`, and more than one answer.

    Raises:
        ConfigurationError: there is one; the message says where.
    """
    places = {where: parameters}
    for name in _CONFIG:
        places[f"{where}[{name!r}]"] = parameters.get(name, {})
    for place, config in places.items():
        if not isinstance(config, Mapping):
            continue
        for name in ("maxOutputTokens", "max_output_tokens"):
            if name in config:
                raise ConfigurationError(f"{place} cannot set {name!r}: {_CAP}")
        request.refuse_above_one(config, place, ("n", "candidateCount", "candidate_count"))


def sent_effort(effort: Any, model: str) -> str | None:
    """Return what an effort is sent as: a level, or the plainest effort with as many tokens; None
    if the model does not take it.
    """
    thinking = traits_of(model).thinking
    if not isinstance(effort, str) or effort not in thinking:
        return None
    sent = thinking[effort]
    if "thinkingLevel" in sent:
        return str(sent["thinkingLevel"]).lower()
    if effort == "none" and sent["thinkingBudget"]:
        return f"{sent['thinkingBudget']} tokens"
    return next(each for each in ("low", "medium", "high", effort) if thinking[each] == sent)


def placed(parameters: Mapping[str, Any], traits: Traits) -> Body:
    """Return the parameters in their places in a body.

    Gemini's own form wins over that of chat completions.
    """
    body: Body = {}
    config: Body = {}
    own: Body = {}
    for name in _CONFIG:
        for key, value in mapping_of(parameters.get(name)).items():
            config[camel(key)] = value
    for name, value in parameters.items():
        if name in _CONFIG or name in _NOT_SENT or value is None:
            continue
        if name in _COMMON:
            config = {**_config_of(name, value, traits), **config}
        elif name == "tool_choice":
            choice = choice_of(value)
            if choice:
                body["toolConfig"] = {"functionCallingConfig": choice}
        elif camel(name) in _OF_CONFIG:
            config[camel(name)] = value
        else:
            own[camel(name)] = value
    body |= own
    if config:
        body[_CONFIG[0]] = config
    return body


def merged(first: Mapping[str, Any], second: Mapping[str, Any], place: str = _CONFIG[0]) -> Body:
    """Return the parameters of two bodies; the second wins, also within the `generationConfig`,
    which stands at a place.
    """
    both = {**first, **second}
    config = {**mapping_of(first.get(place)), **mapping_of(second.get(place))}
    if config:
        both[place] = config
    return both


def _config_of(name: str, value: Any, traits: Traits) -> Body:
    """Return a common parameter as members of `generationConfig`."""
    if name == "stop":
        return {"stopSequences": [value] if isinstance(value, str) else value}
    if name == "response_format":
        return format_of(value) or {}
    thinking = traits.thinking.get(value) if isinstance(value, str) else None
    if not thinking:
        return {}
    return {"thinkingConfig": thinking}


def format_of(value: Any) -> Body | None:
    """Return the parameters that ask for an answer format, or None if the format is unknown."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind == "text":
        return {"responseMimeType": "text/plain"}
    if kind not in ("json_object", "json_schema"):
        return None
    schema = inner_of(value, "json_schema").get("schema")
    json = {"responseMimeType": "application/json"}
    if kind == "json_schema" and schema is not None:
        json["responseJsonSchema"] = schema
    return json


def choice_of(value: Any) -> Body | None:
    """Return which functions may or must be called, or None if the choice does not say."""
    value = chat_choice(value)
    if isinstance(value, str):
        return {"mode": _MODES[value]} if value in _MODES else None
    if not isinstance(value, Mapping):
        return None
    kind = str(value.get("type", "function"))
    if kind in _MODES:
        return {"mode": _MODES[kind]}
    if kind == "allowed_tools":
        inner = value["allowed_tools"]
        names = [*filter(None, map(name_of, list_of(inner.get("tools"))))]
        mode = "ANY" if inner.get("mode") == "required" else "VALIDATED"
    else:
        names = [*filter(None, [name_of(value)])]
        mode = "ANY"
    if not names:
        return None
    return {"mode": mode, "allowedFunctionNames": names}


def without(body: Body, names: Iterable[str], retained: Iterable[str]) -> None:
    """Remove parameters from a body.

    Arguments:
        body: the body.
        names: the parameters, by either of their names.
        retained: the fields that stay all the same.
    """
    for name in map(camel, names):
        own = _PLACES.get(name, name)
        if name.lower().startswith("thinking") and "." not in name:
            own = "thinkingConfig"
        config = dict(body.get(_CONFIG[0], {}))
        request.leave_out(config, own)
        if own == "responseMimeType":
            for schema in ("responseJsonSchema", "responseSchema"):
                config.pop(schema, None)
        if own == _CONFIG[0]:
            config = {key: value for key, value in config.items() if key in retained}
        if own in retained:
            continue
        request.leave_out(body, own)
        if config or _CONFIG[0] in body:
            body[_CONFIG[0]] = config
