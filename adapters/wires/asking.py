"""How a backend is asked for an answer that fits a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rungwise.fsm.call.conversation.for_backend import AsksBy
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.failures.failure import FORMAT_PARAMETER
from rungwise.fsm.schemas.narrowed import narrowed

if TYPE_CHECKING:
    from rungwise.adapters.wires.http_backend import HttpBackend

Way = tuple[AsksBy, Mapping[str, Any], bool]
"""How to ask, the schema to send, and whether it can be strict."""

_FORCES_TOOL: Final = Request("?", tool_choice={"type": "function", "function": {"name": "answer"}})
_ASKS_JSON: Final = Request("?", response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {}}})


def way_of(
    backend: HttpBackend,
    schema: Mapping[str, Any],
    parameters: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    unsupported: Callable[[Request], Mapping[str, str]],
    *,
    may_force: bool,
) -> Way:
    """Return how to ask, the schema to send, and whether it can be strict: natively, by a forced tool, or in words.

    The parameters are those of the request and of the backend; `unsupported` returns what it leaves out of a request.
    """
    known, form = backend.capabilities, backend.FORM
    narrow = narrowed(schema, form.refused_keywords)
    is_held = (narrow.is_closed and not narrow.is_recursive) or not form.needs_closed
    is_held = is_held and (form.has_schema_beside_tools or not tools)
    if known.json_schema is True and is_held and FORMAT_PARAMETER not in unsupported(_ASKS_JSON):
        return "schema", narrow.schema, narrow.is_strict
    if known.tools is True and may_force and not tools and "tools" not in parameters and not unsupported(_FORCES_TOOL):
        return "tool", narrow.schema, False
    return "words", schema, False
