"""Translate the parameters of chat completions to those of Interactions, and put each into its
place.

Most of them are members of `generation_config`. Models differ as they do in generateContent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rungwise.adapters.wires import request
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.gemini import parameters as gemini
from rungwise.adapters.wires.interactions import CONFIG
from rungwise.adapters.wires.plain.parts import inner_of, mapping_of
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.errors import ConfigurationError

PLACE: Final = "generation_config"
CAP: Final = "max_output_tokens"
"""The member of `generation_config` with the output cap."""
_CAP: Final = "max_tokens is its name everywhere in this library"
_STORED: Final = "give all messages to the call, which stores nothing at the provider"
RESERVED: Final = {
    **request.RESERVED,
    "agent": "a call asks a model",
    "background": "give background=True to the backend",
    "continuation_token": "a call goes on by itself",
    "input": "give the messages to the call",
    "previous_interaction_id": _STORED,
    "system_instruction": "give it as a message of role 'system'",
    CAP: _CAP,
}

_OF_CONFIG: Final = frozenset(CONFIG.split())
"""The members of `generation_config`; those given outside of it are moved into it."""
_COMMON: Final = {"stop": "stop_sequences", "reasoning_effort": "thinking_level"}
"""The common parameters that have another name here."""
_NOT_SENT: Final = ("parallel_tool_calls", "n", "stream_options", PLACE, *CAP_PARAMETERS)
_NEVER_DROPPED: Final = ("input", "system_instruction", CAP)
"""Fields that stay even if the server rejects them: the cap alone bounds the answer."""
_LEVELS: Final = {
    "none": "minimal",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
"""The level of each effort, for models that take a number of tokens in generateContent."""
_MEDIA: Final = ("image", "audio", "video")


def refuse_own(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse an output cap in `generation_config`, and more than one answer.

    Raises:
        ConfigurationError: there is one; the message says where.
    """
    request.refuse_above_one(parameters, where)
    if CAP in mapping_of(parameters.get(PLACE)):
        raise ConfigurationError(f"{where}[{PLACE!r}] cannot set {CAP!r}: {_CAP}")


def sent_effort(effort: Any, model: str) -> str | None:
    """Return the level at which a model thinks for an effort; None if it does not take it."""
    thinking = gemini.traits_of(model).thinking
    if not isinstance(effort, str) or effort not in thinking:
        return None
    level = thinking[effort].get("thinkingLevel", _LEVELS[effort])
    return str(level).lower()


def lowered(body: Body, model: str) -> None:
    """Ask for less reasoning than the body does, where the model can."""
    config = mapping_of(body.get(PLACE))
    now = str(config.get("thinking_level", "")).lower()
    effort = "minimal" if now in ("low", "minimal") else "low"
    level = sent_effort(effort, model)
    if level is not None:
        body[PLACE] = {**config, "thinking_level": level}


def placed(parameters: Mapping[str, Any], model: str) -> Body:
    """Return the parameters in their places in a body.

    The protocol's own form wins over that of chat completions.
    """
    body: Body = {}
    config: Body = {}
    own = dict(mapping_of(parameters.get(PLACE)))
    for name, value in parameters.items():
        if value is None or name in _NOT_SENT:
            continue
        if name == "stop":
            config["stop_sequences"] = [value] if isinstance(value, str) else value
        elif name == "reasoning_effort":
            level = sent_effort(value, model)
            if level is not None:
                config["thinking_level"] = level
        elif name == "tool_choice":
            choice = choice_of(value)
            if choice is not None:
                config[name] = choice
        elif name == "response_format":
            format = format_of(value)
            if format is not None:
                body[name] = format
        elif name in _OF_CONFIG:
            own.setdefault(name, value)
        else:
            body[name] = value
    config |= own
    if config:
        body[PLACE] = config
    return body


def format_of(value: Any) -> Any:
    """Return what form the answer must have, or None if that is unknown."""
    if isinstance(value, list | tuple):  # several, as only this protocol has them
        return [*value]
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind in _MEDIA:
        return value
    if kind == "text":
        return {"mime_type": "text/plain", **value}
    if kind not in ("json_object", "json_schema"):
        return None
    form = {"type": "text", "mime_type": "application/json"}
    schema = inner_of(value, "json_schema").get("schema")
    if kind == "json_schema" and schema is not None:
        form["schema"] = schema
    return form


def choice_of(value: Any) -> Any:
    """Return which functions may or must be called, or None if the choice does not say."""
    if isinstance(value, Mapping) and "type" not in value and "allowed_tools" in value:
        return value
    choice = gemini.choice_of(value)
    if choice is None:
        return None
    mode = choice["mode"].lower()
    names = choice.get("allowedFunctionNames")
    return {"allowed_tools": {"mode": mode, "tools": names}} if names else mode


def without(body: Body, names: Iterable[str]) -> None:
    """Remove parameters from a body, by either of their names; what bounds the answer stays."""
    for name in names:
        own = name.removeprefix(f"{PLACE}.")
        own = _COMMON.get(own, own)
        if own.lower().startswith("thinking") and own not in _OF_CONFIG:
            own = "thinking_level"  # as Google's errors name it
        if own in _NEVER_DROPPED:
            continue
        config = dict(mapping_of(body.get(PLACE)))
        if own == PLACE:
            config = {key: value for key, value in config.items() if key == CAP}
        request.leave_out(config, own)
        request.leave_out(body, own)
        if config:
            body[PLACE] = config
        else:
            body.pop(PLACE, None)
