"""Read the requests that SDKs write: what a chain can express of them, and the names of what it
cannot.

A request is expressible if each of its fields is known: those of chat completions that every
protocol translates, and those that shape the reply but not the form of its answer (`own`), which a
backend of the same protocol gets as they are. Messages and tools stay in the form in which they
came; each wire reads all forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.gateway.asked.deciding import take_questions, take_state
from rungwise.adapters.gateway.asked.google import GEMINI, INTERACTIONS
from rungwise.adapters.gateway.asked.takes import (
    STREAM,
    ignore,
    put_before,
    take_budget,
    take_effort,
    take_messages,
    take_tools,
)
from rungwise.adapters.gateway.fields import Asked, Fields, Take
from rungwise.adapters.wires.gemini.parameters import camel
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import ToolDefinition, read_tools
from rungwise.fsm.replies.parts import OpaquePart


def read(
    api: str,
    body: Mapping[str, Any],
    *,
    is_own: bool,
    may_forward: bool = True,
) -> Asked:
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
        # Opaque parts can be read by their provider alone.
        if any(isinstance(part, OpaquePart) for part in parts):
            asked.unknown.append("messages")
    tools = read_tools(asked.options.get("tools", ()))
    if not all(isinstance(tool, ToolDefinition) for tool in tools):
        asked.unknown.append("tools")
    if asked.own:
        asked.options["parameters"] = asked.own
    return asked


_SAMPLING: Final = {
    name: name for name in ("temperature", "top_p", "seed", "tool_choice", "parallel_tool_calls")
}


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
        **STREAM,
        "stream_options": ignore,
        "messages": take_messages,
        "tools": take_tools,
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
        **STREAM,
        **dict.fromkeys(("stream_options", "store"), ignore),  # nothing is stored
        "input": take_messages,
        "instructions": put_before,
        "tools": take_tools,
        "reasoning": _parts(
            "reasoning", "summary generate_summary mode context", effort=take_effort
        ),
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
    take_messages(asked, turns if isinstance(value, list) else value)


_ANTHROPIC: Final = Fields(
    common={
        "temperature": "temperature",
        "top_p": "top_p",
        "stop_sequences": "stop",
        "max_tokens": "max_tokens",
    },
    special={
        **STREAM,
        "system": put_before,
        "messages": _turns,
        "tools": take_tools,
        "tool_choice": _choice,
        "output_config": _parts(
            "output_config", effort=take_effort, format=_format("output_config.format")
        ),
    },
    own="top_k thinking metadata service_tier cache_control inference_geo speed",
    plain={"thinking": ({"type": "disabled"},)},
    foreign={
        "thinking": lambda asked, value: take_budget(asked, mapping_of(value).get("budget_tokens"))
    },
)

_DECISIONS: Final = Fields(
    common={},
    special={
        "model": ignore,
        "input": take_messages,
        "state": take_state,
        "questions": take_questions,
    },
    own="prompt_cache_key prompt_cache_options safety_identifier",
)

_FIELDS: Final = {
    "openai": _CHAT,
    "responses": _RESPONSES,
    "anthropic": _ANTHROPIC,
    "gemini": GEMINI,
    "interactions": INTERACTIONS,
    "decisions": _DECISIONS,
}
