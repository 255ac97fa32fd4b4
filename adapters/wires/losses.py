"""List what a backend does not get of a request because its protocol has no form for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any, Final

from rungwise.adapters.wires.form import Form
from rungwise.adapters.wires.plain.messages import parts_of, read_message, read_messages, readable
from rungwise.adapters.wires.plain.tools import parted
from rungwise.adapters.wires.registry import WIRES, declared
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER
from rungwise.fsm.replies.parts import (
    CitationPart,
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ToolResult,
)
from rungwise.fsm.values.label import label

MARK: Final = "cache_control"
MARKED_CALL: Final = "cache_control of a call"
MARKED_MESSAGE: Final = "cache_control of a message"
"""The names under which cache marks of parts and tools, of calls, and of messages are counted."""

_OF_MESSAGES: Final = frozenset(
    {"role", "content", "parts", "images", "type", "id", "status", "phase"}
)
_OF_ANSWERS: Final = frozenset({"tool_calls", "function_call", "refusal", "name"})
_OF_RESULTS: Final = frozenset({"name", "tool_name", "tool_call_id"})
"""What is read of any message, or belongs to an item of Responses; and what besides of an answer,
and of a result.
"""


@cache
def _read() -> Mapping[str, frozenset[str]]:
    """Return which members of each kind of part and tool Rungwise reads, in the form of any
    protocol.
    """
    kinds = {kind for wire in WIRES.values() for kind in wire.members}
    read = {kind: [wire.members.get(kind, "").split() for wire in WIRES.values()] for kind in kinds}
    untyped = frozenset(name for wire in WIRES.values() for name in wire.untyped_parts)
    return {"block": untyped, **{kind: frozenset(chain(*names)) for kind, names in read.items()}}


def unread_of_message(message: PlainMessage) -> Iterator[str]:
    """Yield the members of a message that no protocol translates, by name, and each cache mark."""
    role = message.get("role")
    is_answer = role in ("assistant", "model") or (role is None and "output" not in message)
    read = _OF_MESSAGES | _OF_RESULTS if role in ("tool", "function") else _OF_MESSAGES
    for name, value in message.items():
        if name == MARK and value:
            yield MARKED_MESSAGE
        elif name == "name" and role is not None and name not in read and value:
            yield name
        elif role is not None and name not in read and value not in (None, ""):
            is_known = name in _OF_ANSWERS or name in declared("sealed") or not value
            yield from () if is_answer and is_known else (label(name),)
    for place in ("content", "parts", "output", "tool_calls"):
        for block in _list_of(message.get(place)):
            if place != "tool_calls":
                unread = _in_block(block, "part" if place == "parts" else "")
                yield from (each for each in unread if not is_answer or each in (MARK, MARKED_CALL))
            elif isinstance(block, Mapping):
                inner = [
                    each
                    for each in (block.get("function"), block.get("custom"))
                    if isinstance(each, Mapping)
                ]
                yield from (MARKED_CALL for each in (block, *inner) if each.get(MARK))


def _in_block(block: Any, kind: str = "") -> Iterator[str]:
    if not isinstance(block, Mapping):
        return
    if not kind:
        is_untyped = "text" not in block and not _read()["block"].isdisjoint(block)
        kind = str(block.get("type") or ("block" if is_untyped else "text"))
    read = _read().get(kind, frozenset())
    if kind in declared("calls"):
        yield from (MARKED_CALL,) if block.get(MARK) else ()
    elif any(name != "type" and _camel(name) in read for name in block):
        # any other block is reported as a whole
        yield from _members(block, kind)


def _members(block: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield the members of a part or a tool that no protocol translates, by name, and each cache
    mark.
    """
    for member, value in block.items():
        name = member if member in _read()[kind] else _camel(member)
        if member == MARK:
            yield from (MARK,) if value else ()
        elif name not in _read()[kind]:
            yield from (label(member),) if value not in (None, "") else ()
        elif kind == "tool":
            yield from _in_tool(name, value)
        elif kind in declared("results") and name in ("content", "parts"):
            for each in _list_of(value):
                yield from _in_block(each, "part" if name == "parts" else "")
        elif isinstance(value, Mapping) and name in _read():
            yield from _members(value, name)


def _in_tool(name: str, value: Any) -> Iterator[str]:
    """Yield a true `strict`, and what tools within a tool hold."""
    if name == "strict" and value is True:
        yield name
    elif name in declared("definitions"):
        for each in _list_of(value):
            yield from _members(each, "tool") if isinstance(each, Mapping) else ()


def _camel(name: str) -> str:
    """Return a name in camel case; a protocol may accept both spellings."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _list_of(value: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, Mapping):
        return (value,)
    return value if isinstance(value, list | tuple) else ()


_MARKS: Final = frozenset({MARK, MARKED_CALL, MARKED_MESSAGE})
_MOST: Final = 20
"""The most kinds that are listed by name, for messages and for tools each."""


def in_words(
    parameters: Mapping[str, Any],
    unsupported: Mapping[str, str],
    form: Form,
    dropped: frozenset[str],
) -> Mapping[str, Any] | None:
    """Return the JSON format that is left out, so that the prompt must ask for it; None if there is
    none.
    """
    if FORMAT_PARAMETER in dropped:
        return form.wanted_json(parameters)
    json_format = parameters.get(FORMAT_PARAMETER)
    is_json = isinstance(json_format, Mapping) and form.asks_for_json(
        {FORMAT_PARAMETER: json_format}
    )
    return json_format if is_json and FORMAT_PARAMETER in unsupported else None


def losses(
    request: Request,
    unsupported: Mapping[str, str],
    form: Form,
    json_format: Mapping[str, Any] | None = None,
    *,
    provider: str = "",
    is_portable: bool = False,
) -> tuple[str, ...]:
    """Return what is left out, in a short sentence each; `json_format` is the JSON format that the
    prompt asks for.
    """
    if json_format is not None:
        unsupported = {
            **unsupported,
            FORMAT_PARAMETER: f"asked for in words ({unsupported[FORMAT_PARAMETER]})",
        }
    foreign: list[PlainMessage | Message] = []
    own: list[PlainMessage] = []
    for one in request.messages:
        if not isinstance(one, Message) and fits(one, form, is_portable=is_portable):
            own.append(one)
        else:
            foreign.append(one)
    if not (foreign or request.tools or unsupported or is_portable):
        return ()  # nearly always
    in_messages = _unread(foreign, form, provider)
    tools = _unread_of_tools(request.tools, form)
    lost_tools = form.lost_tools(request.tools)
    marks = sum(map(_is_mark, lost_tools)) + sum(
        (in_messages + tools)[each] for each in _MARKS - form.MARKS
    )
    if is_portable:
        marks += sum([_marks_of(one) - _marks_of(form.unsigned(one)) for one in own])
    return (
        *[f"{name}: {why}" for name, why in unsupported.items()],
        *[
            f"the tool {_name_of(tool)}: it has no form here"
            for tool in lost_tools
            if not _is_mark(tool)
        ],
        *[
            f"the grammar of the tool {name}: it has no form here"
            for name in _grammars(request.tools, form)
        ],
        *_described(tools, "of the tools"),
        *_described(in_messages, "in the messages"),
        *([f"cache marks, {marks} x: they have no form here"] if marks else []),
    )


def _is_mark(tool: Mapping[str, Any]) -> bool:
    return not declared("marks").isdisjoint(tool)


def _name_of(tool: Mapping[str, Any]) -> object:
    """Name a tool that a provider runs; it may have only a field of that name."""
    return tool.get("name") or tool.get("type") or next(iter(tool), "without a name")


def _grammars(tools: Iterable[Mapping[str, Any]], form: Form) -> Iterator[object]:
    """Name the free-text tools whose grammar is lost because they are sent as tools with an
    object.
    """
    for tool in tools:
        inner = tool.get("custom", tool) if tool.get("type") == "custom" else {}
        format = inner.get("format") if isinstance(inner, Mapping) else None
        has_grammar = isinstance(format, Mapping) and format.get("type") == "grammar"
        if has_grammar and not any(
            written.get("type") == "custom" for written in form.written_tools((tool,))
        ):
            yield inner.get("name")


def _described(counts: Counter[str], where: str) -> Iterator[str]:
    kinds = [(kind, count) for kind, count in counts.items() if kind not in _MARKS]
    yield from (f"{kind} {where}, {count} x: it has no form here" for kind, count in kinds[:_MOST])
    if len(kinds) > _MOST:
        yield f"{len(kinds) - _MOST} other things {where}: they have no form here"


def _marks_of(message: PlainMessage) -> int:
    return sum(each in _MARKS for each in unread_of_message(message))


def _unread_of_tools(tools: Iterable[Mapping[str, Any]], form: Form) -> Counter[str]:
    """Count the tool fields that the target protocol does not have, by name."""
    counted: Counter[str] = Counter()
    for tool in (each for one in tools if not form.is_own_tool(one) for each in parted(one)):
        written = form.written_tools((tool,))
        # these are sent with all members
        if written and not any(each.get("type") == "custom" for each in written):
            counted.update(each for each in _members(tool, "tool") if each not in form.SAYS)
    return counted


def _unread(messages: Iterable[PlainMessage | Message], form: Form, provider: str) -> Counter[str]:
    """Count the parts that the target protocol does not have, by type or name."""
    counted: Counter[str] = Counter()
    messages = [*messages]
    for each in messages:
        if isinstance(each, Mapping):
            counted.update((*unread_of_message(each), *_lost_in_results(each)))
        else:
            counted.update(MARK for part in each.parts if getattr(part, "cache", None))
    for message in read_messages(messages):
        for part in message.parts:
            if not (
                isinstance(part, OpaquePart | CitationPart)
                and part.provider == provider
                and provider
            ):
                counted.update(_lost_of(part, form, is_answer=message.role == "assistant"))
    return counted


def _kind_of(part: OpaquePart | CitationPart) -> Iterator[str]:
    """Yield the type of a part that only its provider can read, unless it is reasoning, or has
    words for all.
    """
    if isinstance(part, CitationPart):
        yield "citation"
        return
    block = part.block if isinstance(part.block, Mapping) else {}
    kind = label(str(block.get("type") or next(iter(block), "something"))) or "something"
    if kind in declared("marks"):
        yield MARKED_MESSAGE
    elif kind not in declared("sealed") and not (part.provider and readable(block)):
        yield kind


def _lost_in_results(message: PlainMessage) -> Iterator[str]:
    """Yield the same of parts within the results of tools, which are read as text and media."""
    for each in (message, *_list_of(message.get("content"))):
        if not isinstance(each, Mapping):
            continue
        if (
            each.get("role") in ("tool", "function")
            or str(each.get("type")) in declared("results")
            or "output" in each
        ):
            for part in parts_of(each.get("output", each.get("content"))):
                yield from _kind_of(part) if isinstance(part, OpaquePart) else ()


def fits(message: PlainMessage, form: Form, *, is_portable: bool) -> bool:
    """Tell whether a message goes out unchanged, or but for its reasoning if it may be another
    server's.
    """
    if not form.is_own(message) or not is_portable:
        return form.is_own(message)
    parts = [part for read in read_message(message) for part in read.parts]
    private = {
        kind
        for part in parts
        if isinstance(part, OpaquePart | CitationPart)
        for kind in _kind_of(part)
    }
    return form.is_common(message) and private.union(_lost_in_results(message)) <= _MARKS


def _lost_of(part: Part, form: Form, *, is_answer: bool = False) -> Iterator[str]:
    if isinstance(part, OpaquePart | CitationPart):
        yield from _kind_of(part)
    elif is_answer:
        return
    elif isinstance(part, ToolResult):
        for shown in part.media:
            yield from _lost_of(shown, form)
    elif isinstance(part, MediaPart):
        if not form.shows(part):
            yield f"{part.kind} by URL" if part.url else part.kind
        elif part.name and part.kind == "file" and "name" not in form.SAYS:
            yield "name of a file"
        if part.detail not in ("", "auto") and part.kind == "image" and "detail" not in form.SAYS:
            yield "detail of a picture"
