"""Say what of a request is never told to a backend, because its protocol has no form for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.form import Form
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.fsm.call.parts import MediaPart, Message, OpaquePart, Part, ToolResult
from rungwise.fsm.call.request import PlainMessage, Request
from rungwise.fsm.failures.body import FORMAT_PARAMETER
from rungwise.fsm.values.label import label

_READ: Final = frozenset({"role", "content", "parts", "images", "type", "id", "status", "phase"})
_READ_OF_RESULTS: Final = frozenset({"name", "tool_name", "tool_call_id"})
"""What is read of a message, or belongs to an item of Responses alone; and what besides of the result of a tool."""


def in_words(
    asked: Mapping[str, Any], unsaid: Mapping[str, str], form: Form, dropped: frozenset[str]
) -> Mapping[str, Any] | None:
    """Return the format of JSON that is left out, and so is to be asked for in words; None where there is none.

    Arguments:
        asked: the parameters that count.
        unsaid: those that are left out.
        form: that of the protocol.
        dropped: those that the server has rejected.
    """
    if FORMAT_PARAMETER in dropped:
        return form.wanted_json(asked)
    wanted = asked.get(FORMAT_PARAMETER)
    is_json = isinstance(wanted, Mapping) and form.asks_for_json({FORMAT_PARAMETER: wanted})
    return wanted if is_json and FORMAT_PARAMETER in unsaid else None


def losses(
    request: Request, unsaid: Mapping[str, str], form: Form, wish: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return what is left out, in a short sentence each.

    Arguments:
        request: what the caller asks.
        unsaid: the parameters that are left out, each with the reason.
        form: that of the protocol.
        wish: the format that is asked for in words.
    """
    if wish is not None:
        unsaid = {**unsaid, FORMAT_PARAMETER: f"asked for in words ({unsaid[FORMAT_PARAMETER]})"}
    foreign = [one for one in request.messages if isinstance(one, Message) or not form.is_own(one)]
    return (
        *[f"{name}: {why}" for name, why in unsaid.items()],
        *[f"the tool {_name_of(tool)}: it has no form here" for tool in form.lost_tools(request.tools)],
        *[f"the grammar of the tool {name}: it has no form here" for name in _grammars(request.tools, form)],
        *[f"{kind} in the messages, {count} x: it has no form here" for kind, count in _unread(foreign, form).items()],
    )


def _name_of(tool: Mapping[str, Any]) -> object:
    """Name a tool that a provider runs; Gemini's have nothing but a field of that name."""
    return tool.get("name") or tool.get("type") or next(iter(tool), "without a name")


def _grammars(tools: Iterable[Mapping[str, Any]], form: Form) -> Iterator[object]:
    """Name the tools whose free text is to fit a grammar, and that are written as tools of objects."""
    for tool in tools:
        inner = tool.get("custom", tool) if tool.get("type") == "custom" else {}
        given = inner.get("format") if isinstance(inner, Mapping) else None
        has_grammar = isinstance(given, Mapping) and given.get("type") == "grammar"
        if has_grammar and not any(written.get("type") == "custom" for written in form.written_tools((tool,))):
            yield inner.get("name")


def _unread(messages: Iterable[PlainMessage | Message], form: Form) -> Counter[str]:
    """Count what nobody can read, or what has no place in a form, of what a user or a tool says, by its type."""
    found: Counter[str] = Counter()
    messages = [*messages]
    for given in messages:
        if not isinstance(given, Message):
            found.update(_unread_members(given))
    for message in read_messages(messages):
        if message.role != "assistant":
            for part in message.parts:
                found.update(_lost_of(part, form))
    return found


def _unread_members(message: PlainMessage) -> Iterator[str]:
    """Yield what stands in a message beside what is read of it; of an assistant's, that may be its provider's own."""
    role = message.get("role")
    if role in ("assistant", "model"):
        if message.get("name"):
            yield "name"
    elif isinstance(role, str):
        read = _READ | _READ_OF_RESULTS if role in ("tool", "function") else _READ
        yield from (label(name) for name, value in message.items() if name not in read and value not in (None, ""))


def _lost_of(part: Part, form: Form) -> Iterator[str]:
    if isinstance(part, ToolResult):
        for shown in part.media:
            yield from _lost_of(shown, form)
    elif isinstance(part, MediaPart) and not form.shows(part):
        yield f"{part.kind} by URL" if part.url else part.kind
    elif isinstance(part, OpaquePart) and not part.provider:
        block = part.block if isinstance(part.block, Mapping) else {}
        yield label(str(block.get("type") or next(iter(block), "something"))) or "something"
