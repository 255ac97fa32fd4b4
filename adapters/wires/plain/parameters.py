"""Translate parameters that were written for another protocol, by what each protocol declares.

Theory
------

**Whose a parameter is.** A caller writes parameters in the words of the first backend's protocol,
or of another one: a program on the transport has its own, and a chain may lack it. Each wire
declares the names that its protocol knows (`Wire.parameters`), so a name tells whose it is. A few
names are shared by protocols that mean different things; there the value tells (`_is_foreign`).

**What becomes of it**, for one backend:

1. Its protocol knows the name: it goes out as it is.
2. Nobody knows the name: it is newer than these tables, and goes out as it is where the protocol is
   that of the first backend.
3. Others know the name, and its meaning has a form here: it is translated. Meanings are called as
   in chat completions, and in snake case (`_meaning`); `_PLACES` says where each stands where that
   is not its own name.
4. Else it is lost, and named.

So what is lost is whatever has no form: no list says it, and nothing can be forgotten there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final

from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.registry import APIS, WIRES
from rungwise.fsm.call.chain.link import FOREIGN_PARAMETER
from rungwise.fsm.call.conversation.parameters import COMMON_PARAMETERS

NO_FORM: Final = "its value has no form here"


def _pairs(text: str) -> Mapping[str, str]:
    """Return pairs in the form "name=value"."""
    pairs = [word.partition("=") for word in text.split()]
    return {name: value for name, _, value in pairs}


_HOLDERS: Final = frozenset(
    {
        "additional_model_request_fields",
        "generation_config",
        "inference_config",
        "metadata",
        "options",
        "output_config",
        "reasoning",
        "service_tier",
        "text",
        "thinking_config",
    }
)
"""Objects with members that have a meaning by themselves."""

_MEANINGS: Final = _pairs(
    "effort=reasoning_effort thinking_level=reasoning_effort think=reasoning_effort"
    " stop_sequences=stop"
    " user=safety_identifier user_id=safety_identifier request_metadata=metadata"
    " response_logprobs=logprobs response_modalities=modalities type=service_tier"
    " response_format="  # Gemini's, which is another thing
)
"""The meaning of names that are not called as in chat completions."""

_SHARED: Final = COMMON_PARAMETERS | frozenset(
    {
        "frequency_penalty",
        "logprobs",
        "metadata",
        "min_p",
        "modalities",
        "presence_penalty",
        "safety_identifier",
        "service_tier",
        "top_k",
        "top_logprobs",
        "verbosity",
    }
)
"""The meanings that several protocols have a form for."""

_PLACES: Final = {
    "anthropic": _pairs("safety_identifier=metadata.user_id metadata="),
    "bedrock": _pairs("metadata=requestMetadata service_tier=serviceTier.type"),
    "gemini": _pairs(
        "logprobs=responseLogprobs top_logprobs=logprobs modalities=responseModalities"
    ),
    "interactions": _pairs("modalities=response_modalities"),
    "responses": _pairs("verbosity=text.verbosity logprobs=include"),
}
"""Where a meaning stands in a body, if not under its own name; a dot stands before a member.

"" is nowhere: the name means something else there.
"""

_LOGPROBS: Final = ["message.output_text.logprobs"]
_OPENAIS: Final = _pairs(
    "auto=auto default=default flex=flex priority=priority scale=scale fast=fast"
    " ultrafast=ultrafast"
)
_TIERS: Final = {
    "openai": _OPENAIS,
    "responses": _OPENAIS,
    "anthropic": _pairs("auto=auto default=standard_only"),
    "bedrock": _pairs("default=default flex=flex priority=priority"),
    "gemini": _pairs("default=STANDARD flex=FLEX priority=PRIORITY"),
    "interactions": _pairs("default=standard flex=flex priority=priority"),
}
"""The word of each service tier."""


@cache
def known_parameters(api: str, *, with_extensions: bool = True) -> frozenset[str]:
    """Return the names that a protocol knows, with those that only some of its servers take."""
    names = WIRES[api].parameters.split()
    if with_extensions:
        names += WIRES[api].extensions.split()
    if api == "gemini":  # which takes both spellings
        names += [_snake(name) for name in names]
    return frozenset(names)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def translated(
    parameters: Mapping[str, Any],
    api: str,
    first: str,
    known: Collection[str],
    of_first: Collection[str],
    own: Mapping[str, Any],
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the parameters of a request in a protocol's words, and why others are left out.

    Arguments:
        parameters: those of the request, in anybody's words.
        api: the protocol of the backend.
        first: that of the first backend of the chain.
        known: the names that the backend knows.
        of_first: those that the first one knows.
        own: the backend's own parameters, whose objects get members beside theirs.
    """
    sent: dict[str, Any] = {}
    foreign: dict[str, Any] = {}
    for name, value in parameters.items():
        if _goes_out(name, api, first, known, of_first) and not _is_foreign(name, parameters, api):
            sent[name] = value
        elif value is not None and value is not False:  # which ask for nothing
            foreign[name] = value
    if not foreign:
        return parameters, {}
    lost: dict[str, str] = {}
    for name, meaning, value in _meanings_in(foreign):
        place = _place_of(meaning, api, known)
        written = _written(meaning, value, api) if place else None
        if written is not None:
            _put(sent, place, written, own)
        else:
            lost[name] = NO_FORM if place else FOREIGN_PARAMETER
    return sent, lost


def _goes_out(
    name: str,
    api: str,
    first: str,
    known: Collection[str],
    of_first: Collection[str],
) -> bool:
    """Tell whether a parameter goes out as it is: its name is known here, or to nobody.

    Arguments:
        name: its name.
        api, first, known, of_first: as for `translated`.
    """
    if name in COMMON_PARAMETERS:
        return True
    if name not in known:
        return api == first and not any(name in known_parameters(each) for each in APIS)
    if api == first or first not in APIS or name not in of_first:
        return True
    # OpenAI's two protocols mean the same by a name
    is_pair = {api, first} == {"openai", "responses"}
    return is_pair and name in known_parameters(api, with_extensions=False)


def _is_foreign(name: str, parameters: Mapping[str, Any], api: str) -> bool:
    """Tell whether a name that several protocols know has the value of another one."""
    value = parameters[name]
    fields = mapping_of(value)
    match _snake(name):
        case "metadata" if api == "anthropic":
            return "user_id" not in fields
        case "metadata":
            return fields.keys() == {"user_id"} and not parameters.get("store")
        case "logprobs":
            return isinstance(value, bool) is (api == "gemini")
        case "context_management":
            return bool(fields) is (api == "responses")
        case "output_config":
            return api == "gemini" and "effort" in fields
        case "service_tier":
            if fields or api == "bedrock":
                return not (fields and api == "bedrock")
            return _tier(value) in _OPENAIS and _written("service_tier", value, api) != value
    return False


def _tier(value: Any) -> str:
    word = str(value).lower()
    return "default" if word in ("standard", "standard_only") else word


def _meanings_in(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the meaning and the value of each parameter, and of members of objects."""
    for name in sorted(parameters):  # so that a `safety_identifier` comes before a `user`
        value = parameters[name]
        meaning = _snake(name)
        fields = mapping_of(value)
        if meaning in _HOLDERS and fields and (meaning != "metadata" or "user_id" in fields):
            for member, inner, each in _meanings_in(fields):
                yield f"{name}.{member}", inner, each
        elif value is not None:
            if meaning == "logprobs" and not isinstance(value, bool):  # Gemini's is a number
                meaning = "top_logprobs"
            yield name, _MEANINGS.get(meaning, meaning), value


def _place_of(meaning: str, api: str, known: Collection[str]) -> str:
    """Return where a meaning stands in a body; "" if nowhere."""
    places = _PLACES.get(api, {})
    if meaning in places:
        return places[meaning]
    is_known = meaning in COMMON_PARAMETERS or meaning in known
    return meaning if is_known and meaning in _SHARED else ""


def _written(meaning: str, value: Any, api: str) -> Any:
    """Return a value in a protocol's words; None if it has none."""
    if meaning == "service_tier":
        return _TIERS[api].get(_tier(value))
    if meaning == "modalities":
        case = str.upper if api == "gemini" else str.lower
        return [case(str(each)) for each in list_of(value)]
    if meaning == "logprobs" and api == "responses":
        return _LOGPROBS
    if meaning == "reasoning_effort":
        return value.lower() if isinstance(value, str) else None
    return value


def _put(
    body: dict[str, Any],
    place: str,
    value: Any,
    own: Mapping[str, Any],
) -> None:
    """Put a value into its place in a body; what the caller has written there wins.

    Arguments:
        body: what is sent.
        place: as in `_PLACES`.
        value: in the words of the protocol.
        own: the backend's own parameters.
    """
    name, _, member = place.partition(".")
    there = body.get(name, own.get(name))
    if member:
        body[name] = {member: value, **mapping_of(there)}
    elif name == "include":
        body[name] = [*list_of(there), *value]
    else:
        body.setdefault(name, value)
