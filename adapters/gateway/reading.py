"""Read the requests that SDKs write: what a chain can express of them, and the names of what it
cannot.

A request is expressible if each of its fields is known: those of chat completions that every
protocol translates, and those that shape the reply but not the form of its answer (`own`), which a
backend of the same protocol gets as they are. Messages and tools stay in the form in which they
came; each wire reads all forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from rungwise.adapters.gateway.deciding import take_questions, take_state
from rungwise.adapters.gateway.fields import Asked, Fields, Take
from rungwise.adapters.wires.gemini.parameters import camel
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import ToolDefinition, json_schema_of, read_tools
from rungwise.adapters.wires.registry import declared
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import OpaquePart


def read(api: str, body: Mapping[str, Any], *, is_own: bool, may_forward: bool = True) -> Asked:
    """Read a request, or raise a ConfigurationError for a field that is not of its form.

    Arguments:
        api: the protocol of the request.
        body: its body.
        is_own: whether the first backend of the chain speaks the protocol.
        may_forward: whether any does.
    """
    fields = _FIELDS[api]
    if api == "gemini":  # which takes both spellings
        body = {camel(name): value for name, value in body.items()}
    asked = fields.read(body, Asked(may_forward=may_forward))
    if not is_own:
        own = asked.own
        asked.own = {}
        fields.leave(asked, own)
        known = [each for each in list_of(asked.messages) if isinstance(each, Mapping)]
        parts = (part for message in read_messages(known) for part in message.parts)
        # which only their provider can read
        if any(isinstance(part, OpaquePart) for part in parts):
            asked.unknown.append("messages")
    tools = read_tools(asked.options.get("tools", ()))
    if not all(isinstance(tool, ToolDefinition) for tool in tools):
        asked.unknown.append("tools")
    if asked.own:
        asked.options["parameters"] = asked.own
    return asked


def _ignore(asked: Asked, value: Any) -> None:
    """Take nothing: the gateway has read it, or it changes no answer of ours."""


def _take_tools(asked: Asked, value: Any) -> None:
    """Take tools; free-text tools are called in a form of their own."""
    tools = list_of(value)
    if len(tools) != len(value) or not all(isinstance(tool, Mapping) for tool in tools):
        raise ConfigurationError("tools must be a list of objects")
    if any(tool.get("type") == "custom" and "input_schema" not in tool for tool in tools):
        asked.unknown.append("tools")
    else:
        asked.options["tools"] = tools


def _before(asked: Asked, system: Any) -> None:
    """Put a system prompt before the messages."""
    message = {"role": "system", "content": system}
    if isinstance(system, Mapping):  # Gemini's
        message = {"role": "system", "parts": system.get("parts")}
    asked.messages = [message, *(asked.messages or ())]


def _messages(asked: Asked, value: Any) -> None:
    """Take the messages, behind a system prompt that may have come first."""
    before = list_of(asked.messages)
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise ConfigurationError("the messages must be a list")
    turns = []
    for each in value:
        if isinstance(each, Mapping) and "parts" in each:  # Gemini's first one may lack its role
            each = {"role": "user", **each}
        turns.append(each)
    kinds = [each.get("type") for each in value if isinstance(each, Mapping)]
    if any(kind in declared("references") for kind in kinds):
        asked.unknown.append("input")
    asked.messages = [*before, *turns]


_STREAM: Final = {"model": _ignore, "stream": _ignore}
_SAMPLING: Final = {
    name: name for name in ("temperature", "top_p", "seed", "tool_choice", "parallel_tool_calls")
}


def _think(asked: Asked, tokens: Any) -> None:
    """Translate a number of tokens for reasoning; none, and what is no positive number, leave it to
    the model.
    """
    if not isinstance(tokens, int) or tokens < 0:
        return
    effort = next(effort for most, effort in _EFFORTS if tokens <= most)
    asked.options.setdefault("reasoning_effort", effort)


_EFFORTS: Final = ((0, "none"), (4_096, "low"), (16_384, "medium"), (inf, "high"))
"""The most tokens of each level of effort, ascending."""


def _parts(name: str, own: str = "", **takes: Take) -> Take:
    """Return what takes the members of a field; a backend of the same protocol gets those in
    `own`.
    """

    def take(asked: Asked, value: Any) -> None:
        for member, each in mapping_of(value).items():
            if each is None:
                continue
            if member in takes:
                takes[member](asked, each)
            elif member in own.split():
                asked.own[name] = {**asked.own.get(name, {}), member: each}
            else:
                asked.unknown.append(f"{name}.{member}")

    return take


def _effort(asked: Asked, value: Any) -> None:
    """Take how much a model should reason."""
    asked.options["reasoning_effort"] = value


def _format(name: str) -> Take:
    """Return what takes the form of the answer from a field of this name."""
    return lambda asked, value: asked.take_format(value, name)


# Chat completions. Source: platform.openai.com/docs/api-reference/chat/create. What other servers
# of the protocol have of their own (`top_k`, `thinking`, `provider`, ...) goes to one of theirs.

_CHAT: Final = Fields(
    common={
        **_SAMPLING,
        "stop": "stop",
        "reasoning_effort": "reasoning_effort",
        **dict.fromkeys(("max_tokens", "max_completion_tokens"), "max_tokens"),
    },
    special={
        **_STREAM,
        "stream_options": _ignore,
        "messages": _messages,
        "tools": _take_tools,
        "response_format": _format("response_format"),
    },
    own="frequency_penalty presence_penalty logit_bias verbosity prediction top_k min_p "
    "repetition_penalty thinking chat_template_kwargs enable_thinking provider models transforms "
    "user metadata store service_tier prompt_cache_key prompt_cache_options "
    "prompt_cache_retention safety_identifier",
    answers="logprobs top_logprobs modalities audio",
    plain={
        "n": (1,),
        "logprobs": (False,),
        "modalities": (["text"],),
        "store": (False,),
        "logit_bias": ({},),
        **dict.fromkeys(("frequency_penalty", "presence_penalty"), (0,)),
    },
)

# Responses. Source: platform.openai.com/docs/api-reference/responses/create. Nothing is stored
# here, so a field that refers to what was stored (`previous_response_id`, ...) is unknown.


def _include(asked: Asked, value: Any) -> None:
    """Take what else a response must have; the signature of reasoning others do without."""
    if value != ["reasoning.encrypted_content"]:
        asked.unknown.append("include")


_RESPONSES: Final = Fields(
    common={**_SAMPLING, "max_output_tokens": "max_tokens"},
    special={
        **_STREAM,
        **dict.fromkeys(("stream_options", "store"), _ignore),  # nothing is stored
        "input": _messages,
        "instructions": _before,
        "tools": _take_tools,
        "reasoning": _parts("reasoning", "summary generate_summary mode context", effort=_effort),
        "text": _parts("text", "verbosity", format=_format("text.format")),
    },
    own="access_programs include text truncation max_tool_calls reasoning metadata user "
    "service_tier prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier",
    answers="top_logprobs",
    plain={
        "background": (False,),
        "truncation": ("disabled",),
        "top_logprobs": (0,),
        "metadata": ({},),
        "include": ([],),
    },
    foreign={"include": _include},
)

# Anthropic's messages. Source: docs.anthropic.com/en/api/messages.


def _choice(asked: Asked, value: Any) -> None:
    """Take which tools must be called, and whether several may be at once."""
    choice = dict(mapping_of(value))
    if choice.pop("disable_parallel_tool_use", None) is True:
        asked.options["parallel_tool_calls"] = False
    asked.options["tool_choice"] = choice


def _turns(asked: Asked, value: Any) -> None:
    """Take the turns, without reasoning that another provider's model had and that nobody has
    signed.
    """
    turns = []
    for turn in list_of(value):
        if isinstance(turn, Mapping) and isinstance(turn.get("content"), list):
            blocks = turn["content"]
            signed = [
                each
                for each in blocks
                if mapping_of(each).get("type") != "thinking" or each.get("signature")
            ]
            turn = {**turn, "content": signed}
        turns.append(turn)
    _messages(asked, turns if isinstance(value, list) else value)


_ANTHROPIC: Final = Fields(
    common={
        "temperature": "temperature",
        "top_p": "top_p",
        "stop_sequences": "stop",
        "max_tokens": "max_tokens",
    },
    special={
        **_STREAM,
        "system": _before,
        "messages": _turns,
        "tools": _take_tools,
        "tool_choice": _choice,
        "output_config": _parts(
            "output_config", effort=_effort, format=_format("output_config.format")
        ),
    },
    own="top_k thinking metadata service_tier cache_control inference_geo speed",
    plain={"thinking": ({"type": "disabled"},)},
    foreign={
        "thinking": lambda asked, value: _think(asked, mapping_of(value).get("budget_tokens"))
    },
)

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
        _think(asked, budget)


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
_GEMINI: Final = Fields(
    common={},
    special={
        **_STREAM,
        "contents": _messages,
        "systemInstruction": _before,
        "tools": _take_tools,
        "toolConfig": _tool_config,
        "generationConfig": _config,
    },
    own="safetySettings generationConfig labels serviceTier",
    essential="safetySettings",
    plain={"safetySettings": ([],), "labels": ({},)},  # as LangChain always writes them
    foreign={"generationConfig": lambda asked, value: _CONFIG.leave(asked, value)},
)

_DECISIONS: Final = Fields(
    common={},
    special={
        "model": _ignore,
        "input": _messages,
        "state": take_state,
        "questions": take_questions,
    },
    own="prompt_cache_key prompt_cache_options safety_identifier",
)

_FIELDS: Final = {
    "openai": _CHAT,
    "responses": _RESPONSES,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "decisions": _DECISIONS,
}
