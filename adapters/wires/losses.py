"""List what a backend does not get of a request because its protocol has no form for it.

The sentences name kinds and members, and never what is in them: they end in logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
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
"""The members that are read of any message, or belong to an item of Responses."""
_OF_ANSWERS: Final = frozenset({"tool_calls", "function_call", "refusal", "name"})
"""Those that are read of an answer besides."""
_OF_RESULTS: Final = frozenset({"name", "tool_name", "tool_call_id"})
"""Those that are read of the result of a tool besides."""


@lru_cache(maxsize=1)
def _read() -> Mapping[str, frozenset[str]]:
    """Return which members of each kind of part and tool Rungwise reads, in any protocol's form.

    Parts without a type are of the kind "block".
    """
    members: dict[str, set[str]] = {}
    untyped: set[str] = set()
    for wire in WIRES.values():
        untyped.update(wire.untyped_parts)
        for kind, names in wire.members.items():
            members.setdefault(kind, set()).update(names.split())
    read = {"block": frozenset(untyped)}
    for kind, names_of_kind in members.items():
        read[kind] = frozenset(names_of_kind)
    return read


# what of a message and of a tool nobody reads


def unread_of_message(message: PlainMessage) -> Iterator[str]:
    """Yield the members of a message that no protocol translates, by name, and each cache mark.

    Members within the parts of an answer do not count: a model wrote them, not the caller.
    """
    role = message.get("role")
    # an item of Responses has no role, and an output if it is a result
    is_answer = role in ("assistant", "model") or (role is None and "output" not in message)
    yield from _unread_members(message, role, is_answer=is_answer)
    for place in ("content", "parts", "output"):
        kind = "part" if place == "parts" else ""
        for block in _list_of(message.get(place)):
            for name in _in_block(block, kind):
                if not is_answer or name in (MARK, MARKED_CALL):
                    yield name
    for call in _list_of(message.get("tool_calls")):
        if isinstance(call, Mapping):
            yield from _marks_of_call(call)


def _unread_members(message: PlainMessage, role: Any, *, is_answer: bool) -> Iterator[str]:
    """Yield the unread members of the message itself.

    Those of an answer that a provider adds for itself do not count. An item of Responses, which has
    no role, is read as a whole.
    """
    read = _OF_MESSAGES
    if role in ("tool", "function"):
        read = _OF_MESSAGES | _OF_RESULTS
    for name, value in message.items():
        if name == MARK and value:
            yield MARKED_MESSAGE
        elif role is None or name in read or value in (None, ""):
            continue
        elif name == "name" and value:
            yield name
        elif is_answer and (name in _OF_ANSWERS or name in declared("sealed") or not value):
            continue
        else:
            yield label(name)


def _marks_of_call(call: Mapping[str, Any]) -> Iterator[str]:
    """Yield each cache mark of a tool call in the form of chat completions."""
    for each in (call, call.get("function"), call.get("custom")):
        if isinstance(each, Mapping) and each.get(MARK):
            yield MARKED_CALL


def _in_block(block: Any, kind: str = "") -> Iterator[str]:
    """Yield the unread members of a part of a message; `kind` is "" if the part itself tells."""
    if not isinstance(block, Mapping):
        return
    if not kind:
        is_untyped = "text" not in block and not _read()["block"].isdisjoint(block)
        kind = str(block.get("type") or ("block" if is_untyped else "text"))
    if kind in declared("calls"):
        if block.get(MARK):
            yield MARKED_CALL
        return
    read = _read().get(kind, frozenset())
    if any(name != "type" and _camel(name) in read for name in block):
        # any other block is reported as a whole
        yield from _members(block, kind)


def _members(block: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield the members of a part or a tool that no protocol translates, by name.

    Each cache mark counts as well.
    """
    read = _read()[kind]
    for member, value in block.items():
        name = member if member in read else _camel(member)
        if member == MARK:
            if value:
                yield MARK
        elif name not in read:
            if value not in (None, ""):
                yield label(member)
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
            if isinstance(each, Mapping):
                yield from _members(each, "tool")


def _camel(name: str) -> str:
    """Return a name in camel case; a protocol may accept both spellings."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _list_of(value: Any) -> list[Any] | tuple[Any, ...]:
    """Return what may be one thing or a list of things as a list."""
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
    """Return the JSON format that is left out, so that the prompt must ask for it.

    None if there is none.

    Arguments:
        parameters: those of the backend and of the request.
        unsupported: the common parameters that are left out, each with the reason.
        form: the form of the backend's conversations.
        dropped: the parameters that the server has rejected in this call.
    """
    if FORMAT_PARAMETER in dropped:
        return form.wanted_json(parameters)
    json_format = parameters.get(FORMAT_PARAMETER)
    if FORMAT_PARAMETER not in unsupported or not isinstance(json_format, Mapping):
        return None
    if not form.asks_for_json({FORMAT_PARAMETER: json_format}):
        return None
    return json_format


def losses(
    request: Request,
    unsupported: Mapping[str, str],
    form: Form,
    json_format: Mapping[str, Any] | None = None,
    *,
    provider: str = "",
    is_portable: bool = False,
) -> tuple[str, ...]:
    """Return what is left out of a request, in a short sentence each.

    Arguments:
        request: what the caller asks.
        unsupported: the common parameters that are left out, each with the reason.
        form: the form of the backend's conversations.
        json_format: the JSON format that the prompt asks for instead.
        provider: the backend's own; its parts go back to it unchanged.
        is_portable: whether plain messages may hold another server's own parts.
    """
    if json_format is not None:
        why = f"asked for in words ({unsupported[FORMAT_PARAMETER]})"
        unsupported = {**unsupported, FORMAT_PARAMETER: why}
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
    in_tools = _unread_of_tools(request.tools, form)
    marks = sum((in_messages + in_tools)[mark] for mark in _MARKS - form.MARKS)
    lost = [f"{name}: {why}" for name, why in unsupported.items()]
    for tool in form.lost_tools(request.tools):
        if _is_mark(tool):
            marks += 1
        else:
            lost.append(f"the tool {_name_of(tool)}: it has no form here")
    for name in _grammars(request.tools, form):
        lost.append(f"the grammar of the tool {name}: it has no form here")
    lost += _described(in_tools, "of the tools")
    lost += _described(in_messages, "in the messages")
    if is_portable:
        for one in own:
            marks += _marks_of(one) - _marks_of(form.unsigned(one))
    if marks:
        lost.append(f"cache marks, {marks} x: they have no form here")
    return tuple(lost)


def _is_mark(tool: Mapping[str, Any]) -> bool:
    return not declared("marks").isdisjoint(tool)


def _name_of(tool: Mapping[str, Any]) -> object:
    """Name a tool that a provider runs; it may have only a field of that name."""
    return tool.get("name") or tool.get("type") or next(iter(tool), "without a name")


def _grammars(tools: Iterable[Mapping[str, Any]], form: Form) -> Iterator[object]:
    """Name the free-text tools whose grammar is lost.

    They are sent as tools that take an object.
    """
    for tool in tools:
        if tool.get("type") != "custom":
            continue
        inner = tool.get("custom", tool)
        format = inner.get("format") if isinstance(inner, Mapping) else None
        if not isinstance(format, Mapping) or format.get("type") != "grammar":
            continue
        written = form.written_tools((tool,))
        if not any(each.get("type") == "custom" for each in written):
            yield inner.get("name")


def _described(counts: Counter[str], where: str) -> Iterator[str]:
    kinds = [(kind, count) for kind, count in counts.items() if kind not in _MARKS]
    for kind, count in kinds[:_MOST]:
        yield f"{kind} {where}, {count} x: it has no form here"
    if len(kinds) > _MOST:
        yield f"{len(kinds) - _MOST} other things {where}: they have no form here"


def _marks_of(message: PlainMessage) -> int:
    return sum(each in _MARKS for each in unread_of_message(message))


def _unread_of_tools(tools: Iterable[Mapping[str, Any]], form: Form) -> Counter[str]:
    """Count the tool fields that the target protocol does not have, by name."""
    counted: Counter[str] = Counter()
    for one in tools:
        if form.is_own_tool(one):
            continue
        for tool in parted(one):
            written = form.written_tools((tool,))
            is_free_text = any(each.get("type") == "custom" for each in written)
            if written and not is_free_text:  # those are sent with all members
                counted.update(each for each in _members(tool, "tool") if each not in form.SAYS)
    return counted


def _unread(messages: Iterable[PlainMessage | Message], form: Form, provider: str) -> Counter[str]:
    """Count the parts that the target protocol does not have, by type or name."""
    counted: Counter[str] = Counter()
    messages = [*messages]
    for each in messages:
        if isinstance(each, Mapping):
            counted.update(unread_of_message(each))
            counted.update(_lost_in_results(each))
        else:
            counted.update(MARK for part in each.parts if getattr(part, "cache", None))
    for message in read_messages(messages):
        is_answer = message.role == "assistant"
        for part in message.parts:
            if not _goes_back(part, provider):
                counted.update(_lost_of(part, form, is_answer=is_answer))
    return counted


def _goes_back(part: Part, provider: str) -> bool:
    """Tell whether a part is the backend's own, which goes back to it unchanged."""
    if not isinstance(part, OpaquePart | CitationPart):
        return False
    return part.provider == provider and provider != ""


def _kind_of(part: OpaquePart | CitationPart) -> Iterator[str]:
    """Yield the type of a part that only its provider can read.

    Nothing if it is reasoning, which no other provider wants, or if it has words for all.
    """
    if isinstance(part, CitationPart):
        yield "citation"
        return
    block = part.block if isinstance(part.block, Mapping) else {}
    named = block.get("type") or next(iter(block), "something")
    kind = label(str(named)) or "something"
    if kind in declared("marks"):
        yield MARKED_MESSAGE
    elif kind not in declared("sealed") and not (part.provider and readable(block)):
        yield kind


def _lost_in_results(message: PlainMessage) -> Iterator[str]:
    """Yield the same of parts within the results of tools, which are read as text and media."""
    for each in (message, *_list_of(message.get("content"))):
        if not isinstance(each, Mapping):
            continue
        is_message = each.get("role") in ("tool", "function") or "output" in each
        if is_message or str(each.get("type")) in declared("results"):
            for part in parts_of(each.get("output", each.get("content"))):
                if isinstance(part, OpaquePart):
                    yield from _kind_of(part)


def fits(message: PlainMessage, form: Form, *, is_portable: bool) -> bool:
    """Tell whether a message goes out unchanged.

    If it may be another server's (`is_portable`), it may lose its reasoning and its cache marks,
    and nothing else.
    """
    if not form.is_own(message):
        return False
    if not is_portable:
        return True
    private: set[str] = set(_lost_in_results(message))
    for read in read_message(message):
        for part in read.parts:
            if isinstance(part, OpaquePart | CitationPart):
                private.update(_kind_of(part))
    return form.is_common(message) and private <= _MARKS


def _lost_of(part: Part, form: Form, *, is_answer: bool = False) -> Iterator[str]:
    """Yield what the target protocol does not have of one part, by type or name."""
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
