"""Ask in words for the JSON that a backend cannot be held to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any, Final

from attrs import evolve

from rungwise.fsm.call.budget.estimate import message_tokens
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.conversation.transcript import Composed
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.failures.failure import FORMAT_PARAMETER

_FORMATS_IN_WORDS: Final[Iterable[Mapping[str, Any]]] = (
    {"type": "json"},  # a type that is none
    {"type": "json_object"},
    {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}},
)


def json_format_of(link: Link, request: Request, dropped: frozenset[str]) -> Mapping[str, Any] | None:
    """Return the `response_format` that a backend is asked for in words, None where it is asked by a parameter.

    Arguments:
        link: the backend; one of the user's own may not say.
        request: what the caller asks, as far as it is meant for the backend.
        dropped: the parameters that it has rejected.
    """
    told = getattr(link, "in_words", None)
    return told(request, dropped) if callable(told) else None


def with_json_instruction(
    composed: Composed, request: Request, link: Link, hints: Hints, shapes: Shapes, dropped: frozenset[str]
) -> Composed:
    """Return the messages of an attempt with a system message that asks for JSON, where nothing else can.

    All that it says is counted, the schema too, each time that it stands there.

    Arguments:
        composed: the messages without it.
        request: what the caller asks, which is JSON.
        link: the backend; one that can be asked by a parameter, or says nothing of it, is.
        hints: the wording.
        shapes: the form in which the caller's messages are written for it.
        dropped: the parameters that it has rejected.
    """
    wanted = json_format_of(link, request, dropped)
    if wanted is None:
        return composed
    text = _words_for(wanted, hints)
    own = len([*takewhile(lambda role: role in ("system", "developer"), map(shapes.role_of, composed.messages))])
    messages = (*composed.messages[:own], Message.saying("system", text), *composed.messages[own:])
    return evolve(composed, messages=messages, added_tokens=composed.added_tokens + message_tokens(text))


def longest_json_instruction(
    links: Iterable[Link], hints: Hints, response_format: Mapping[str, Any] | None = None
) -> int:
    """Return the tokens that the wish for JSON adds to a prompt at most, where one of these backends needs it.

    Any that can be asked in words may come to need it: it may reject the parameter.

    Arguments:
        links: the backends.
        hints: the wording.
        response_format: what is asked for; without it, what a backend asks for by itself, and anything without a
            schema.
    """
    wishes = _FORMATS_IN_WORDS if response_format is None else (response_format,)
    requests = [Request("?"), *[Request("?", response_format=one) for one in wishes]]
    wanted = [json_format_of(link, request, frozenset({FORMAT_PARAMETER})) for link in links for request in requests]
    return max([0, *[message_tokens(_words_for(one, hints)) for one in wanted if one is not None]])


def _words_for(wanted: Mapping[str, Any], hints: Hints) -> str:
    schema = schema_of(wanted)
    if schema is None:
        return hints.json
    return hints.json_schema.replace("{schema}", json.dumps(schema, ensure_ascii=False))


def schema_of(wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON schema of a `response_format`, if it holds one."""
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) else wanted.get("schema")
    return schema if isinstance(schema, Mapping) else None
