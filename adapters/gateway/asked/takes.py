"""Take what several protocols write alike: messages, tools, a system prompt, how much to reason."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from rungwise.adapters.gateway.fields import Asked
from rungwise.adapters.wires.plain.parts import list_of
from rungwise.adapters.wires.registry import declared
from rungwise.fsm.errors import ConfigurationError


def ignore(asked: Asked, value: Any) -> None:
    """Take nothing: the gateway has read it, or it changes no answer of ours."""


def take_tools(asked: Asked, value: Any) -> None:
    """Take tools; free-text tools are called in a form of their own."""
    tools = list_of(value)
    if len(tools) != len(value) or not all(isinstance(tool, Mapping) for tool in tools):
        raise ConfigurationError("tools must be a list of objects")
    if any(tool.get("type") == "custom" and "input_schema" not in tool for tool in tools):
        asked.unknown.append("tools")
    else:
        asked.options["tools"] = tools


def put_before(asked: Asked, system: Any) -> None:
    """Put a system prompt before the messages."""
    message = {"role": "system", "content": system}
    if isinstance(system, Mapping):  # Gemini's
        message = {"role": "system", "parts": system.get("parts")}
    asked.messages = [message, *(asked.messages or ())]


def take_messages(asked: Asked, value: Any) -> None:
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


STREAM: Final = {"model": ignore, "stream": ignore}


def take_budget(asked: Asked, tokens: Any) -> None:
    """Translate a number of tokens for reasoning; none, and what is no positive number, leave it to
    the model.
    """
    if not isinstance(tokens, int) or tokens < 0:
        return
    effort = next(effort for most, effort in _EFFORTS if tokens <= most)
    asked.options.setdefault("reasoning_effort", effort)


_EFFORTS: Final = ((0, "none"), (4_096, "low"), (16_384, "medium"), (inf, "high"))
"""The most tokens of each level of effort, ascending."""


def take_effort(asked: Asked, value: Any) -> None:
    """Take how much a model should reason."""
    asked.options["reasoning_effort"] = value
