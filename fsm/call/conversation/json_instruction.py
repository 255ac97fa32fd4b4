"""The instruction that asks for JSON in words, for backends that have no parameter for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any, Final

from attrs import evolve

from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, estimate_tokens
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.conversation.transcript import Composed
from rungwise.fsm.call.hints import Hints
from rungwise.fsm.failures.failure import FORMAT_PARAMETER

_FORMATS_IN_WORDS: Final[Iterable[Mapping[str, Any]]] = (
    {"type": "json"},  # an unknown type
    {"type": "json_object"},
    {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}},
)


def json_format_of(link: Link, request: Request, dropped: frozenset[str]) -> Mapping[str, Any] | None:
    """Return the `response_format` that a backend must be asked for in words; None if a parameter asks for it."""
    in_words = getattr(link, "in_words", None)
    return in_words(request, dropped) if callable(in_words) else None


def with_json_instruction(
    composed: Composed, request: Request, link: Link, hints: Hints, shapes: Shapes, dropped: frozenset[str]
) -> Composed:
    """Add a system message that asks for JSON, if the backend has no parameter for it or has rejected that."""
    response_format = json_format_of(link, request, dropped)
    if response_format is None:
        return composed
    text = _wording(response_format, hints)
    own = len([*takewhile(lambda role: role in ("system", "developer"), map(shapes.role_of, composed.messages))])
    messages = (*composed.messages[:own], Message.saying("system", text), *composed.messages[own:])
    return evolve(composed, messages=messages, added_tokens=composed.added_tokens + _tokens_of(text))


def longest_json_instruction(
    links: Iterable[Link], hints: Hints, response_format: Mapping[str, Any] | None = None
) -> int:
    """Return the most tokens that the instruction adds to a prompt; any backend may reject the parameter and need it.

    Arguments:
        response_format: what is asked for; None for what a backend asks for by itself, and anything without a schema.
    """
    formats = _FORMATS_IN_WORDS if response_format is None else (response_format,)
    requests = [Request("?"), *[Request("?", response_format=one) for one in formats]]
    needed = [json_format_of(link, request, frozenset({FORMAT_PARAMETER})) for link in links for request in requests]
    return max([0, *[_tokens_of(_wording(one, hints)) for one in needed if one is not None]])


def _tokens_of(text: str) -> int:
    """Count the instruction, which is mostly the caller's schema, as messages of the caller's are."""
    return estimate_tokens(text) + MESSAGE_TOKENS


def _wording(response_format: Mapping[str, Any], hints: Hints) -> str:
    schema = schema_of(response_format)
    if schema is None:
        return hints.json
    return hints.json_schema.replace("{schema}", json.dumps(schema, ensure_ascii=False))


def schema_of(response_format: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON schema of a `response_format`, if it holds one."""
    inner = response_format.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, Mapping) else response_format.get("schema")
    return schema if isinstance(schema, Mapping) else None
