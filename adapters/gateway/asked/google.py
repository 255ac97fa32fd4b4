"""Read the requests of Google's SDK: those of generateContent, and of Interactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.gateway.asked.takes import (
    STREAM,
    ignore,
    put_before,
    take_budget,
    take_effort,
    take_messages,
    take_tools,
)
from rungwise.adapters.gateway.fields import Asked, Fields
from rungwise.adapters.wires.gemini.parameters import camel
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import json_schema_of

# Gemini's generateContent. Source: ai.google.dev/api/generate-content.


def _config(asked: Asked, value: Any) -> None:
    """Take the parameters of Gemini, which stand in one object; a schema comes in two dialects."""
    config = {}
    for name, each in mapping_of(value).items():
        if each is not None:
            config[camel(name)] = each
    in_openapi = config.pop("responseSchema", None)
    schema = config.pop("responseJsonSchema", None) or json_schema_of(in_openapi)
    if config.pop("responseMimeType", "text/plain") == "application/json":
        asked.options["response_format"] = {"type": "json_object"}
    if schema is not None:
        asked.options.pop("response_format", None)
        asked.returns = schema
    own = asked.own
    asked.own = {}
    _CONFIG.read(config, asked)
    if asked.own:
        own = {**own, "generationConfig": asked.own}
    asked.own = own


def _tool_config(asked: Asked, value: Any) -> None:
    """Take which tools must be called: one, any of some, any, or none."""
    config = {camel(name): each for name, each in mapping_of(value).items()}
    calling_config = mapping_of(config.pop("functionCallingConfig", None))
    calling = {camel(name): each for name, each in calling_config.items()}
    mode = str(calling.get("mode", "AUTO")).upper()
    names = list_of(calling.get("allowedFunctionNames"))
    if mode not in _MODES or any(each is not None for each in config.values()):
        asked.unknown.append("toolConfig")
    elif names:
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        must_call = mode == "ANY"
        if must_call and len(tools) == 1:
            asked.options["tool_choice"] = tools[0]
            return
        allowed = {"mode": "required" if must_call else "auto", "tools": tools}
        asked.options["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
    else:
        asked.options["tool_choice"] = _MODES[mode]


def _thinking_config(asked: Asked, value: Any) -> None:
    """Take how much Gemini should reason: a level, or a number of tokens in older models."""
    config = {camel(name): each for name, each in mapping_of(value).items()}
    level = config.get("thinkingLevel")
    budget = config.get("thinkingBudget")
    if isinstance(level, str):
        asked.options.setdefault("reasoning_effort", level.lower())
    else:
        take_budget(asked, budget)


_MODES: Final = {
    "AUTO": "auto",
    "ANY": "required",
    "NONE": "none",
    "VALIDATED": "auto",
}
_CONFIG: Final = Fields(
    common={
        "temperature": "temperature",
        "topP": "top_p",
        "seed": "seed",
        "stopSequences": "stop",
        "maxOutputTokens": "max_tokens",
    },
    special={},
    own="topK presencePenalty frequencyPenalty thinkingConfig mediaResolution",
    answers="responseLogprobs logprobs",
    plain={
        "candidateCount": (1,),
        "responseModalities": (["TEXT"],),
        "responseLogprobs": (False,),
    },
    foreign={"thinkingConfig": _thinking_config},
)
GEMINI: Final = Fields(
    common={},
    special={
        **STREAM,
        "contents": take_messages,
        "systemInstruction": put_before,
        "tools": take_tools,
        "toolConfig": _tool_config,
        "generationConfig": _config,
    },
    own="safetySettings generationConfig labels serviceTier",
    essential="safetySettings",
    plain={"safetySettings": ([],), "labels": ({},)},  # as LangChain always writes them
    foreign={"generationConfig": lambda asked, value: _CONFIG.leave(asked, value)},
)

# Gemini's Interactions. Source: google-genai, createmodelinteraction.py. Nothing is stored here, so
# a field that refers to what was stored (`previous_interaction_id`, ...) is unknown.

_CONTENTS: Final = ("text", "image", "audio", "video", "document")
"""The types of what may stand in a step, or be the whole input."""


def _input(asked: Asked, value: Any) -> None:
    """Take the steps, or what the user puts in alone."""
    if isinstance(value, Mapping):
        value = [value]
    if any(mapping_of(each).get("type") in _CONTENTS for each in list_of(value)):
        value = [{"type": "user_input", "content": value}]
    take_messages(asked, value)


def _generation_config(asked: Asked, value: Any) -> None:
    """Take the parameters of Interactions, most of which stand in one object."""
    own = asked.own
    asked.own = {}
    _GENERATION.read(mapping_of(value), asked)
    if asked.own:
        own = {**own, "generation_config": asked.own}
    asked.own = own


def _tool_mode(asked: Asked, value: Any) -> None:
    """Take which tools must be called: a mode, or one for some of the tools."""
    allowed = mapping_of(mapping_of(value).get("allowed_tools"))
    calling = {"mode": allowed.get("mode", value), "allowedFunctionNames": allowed.get("tools")}
    _tool_config(asked, {"functionCallingConfig": calling})


def _response_format(asked: Asked, value: Any) -> None:
    """Take what form the answer must have: a text, JSON of a schema, or only the schema."""
    form = mapping_of(value)
    kind = form.get("type")
    if not form or kind in _CONTENTS[1:]:
        asked.unknown.append("response_format")
    elif kind != "text":
        asked.returns = value
    elif form.get("schema") is not None:
        asked.returns = form["schema"]
    elif form.get("mime_type") == "application/json":
        asked.options["response_format"] = {"type": "json_object"}


_GENERATION: Final = Fields(
    common={
        "temperature": "temperature",
        "top_p": "top_p",
        "seed": "seed",
        "stop_sequences": "stop",
        "max_output_tokens": "max_tokens",
    },
    special={"tool_choice": _tool_mode},
    own="thinking_level thinking_summaries",
    plain={"thinking_summaries": ("none",)},
    foreign={"thinking_level": take_effort},
)
INTERACTIONS: Final = Fields(
    common={},
    special={
        **STREAM,
        "store": ignore,
        "input": _input,
        "system_instruction": put_before,
        "tools": take_tools,
        "response_format": _response_format,
        "response_mime_type": ignore,  # the format says it, too
        "generation_config": _generation_config,
    },
    own="safety_settings generation_config labels service_tier",
    essential="safety_settings",
    plain={
        "background": (False,),
        "safety_settings": ([],),
        "labels": ({},),
        "response_modalities": (["text"],),
    },
    foreign={"generation_config": lambda asked, value: _GENERATION.leave(asked, value)},
)
