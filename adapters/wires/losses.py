"""Say what of a request is never told to a backend, because its protocol has no form for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.form import Form
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.tools import parted
from rungwise.adapters.wires.unread import MARK, MARKED_CALL, MARKED_MESSAGE, unread_of_message, unread_of_tool
from rungwise.fsm.call.conversation.parts import MediaPart, Message, OpaquePart, Part, TextPart, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.failures.failure import FORMAT_PARAMETER
from rungwise.fsm.values.label import label

_MARKS: Final = frozenset({MARK, MARKED_CALL, MARKED_MESSAGE})
_POINT: Final = "cachePoint"
"""Bedrock's mark: a block of its own."""
_REFERENCE: Final = "item_reference"
"""What stands in the place of an item of Responses that its server keeps."""
_MOST: Final = 20
"""Kinds of things that are told by their names, of messages and of tools."""


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
    request: Request,
    unsaid: Mapping[str, str],
    form: Form,
    wish: Mapping[str, Any] | None = None,
    *,
    is_portable: bool = False,
) -> tuple[str, ...]:
    """Return what is left out, in a short sentence each.

    Arguments:
        request: what the caller asks.
        unsaid: the parameters that are left out, each with the reason.
        form: that of the protocol.
        wish: the format that is asked for in words.
        is_portable: whether it was written for another backend, so that what is a provider's own is left out.
    """
    if wish is not None:
        unsaid = {**unsaid, FORMAT_PARAMETER: f"asked for in words ({unsaid[FORMAT_PARAMETER]})"}
    foreign: list[PlainMessage | Message] = []
    own: list[PlainMessage] = []
    for one in request.messages:
        if not isinstance(one, Message) and form.is_own(one):
            own.append(one)
        else:
            foreign.append(one)
    if not (foreign or request.tools or unsaid or is_portable):
        return ()  # nearly always
    said, tools = _unread(foreign, form), _unread_of_tools(request.tools, form)
    lost_tools = form.lost_tools(request.tools)
    marks = sum(_POINT in tool for tool in lost_tools) + sum((said + tools)[each] for each in _MARKS - form.MARKS)
    if is_portable:
        marks += sum([_marks_of(one) - _marks_of(form.unsigned(one)) for one in own])
        said.update(_REFERENCE for one in own if one.get("type") == _REFERENCE)
    return (
        *[f"{name}: {why}" for name, why in unsaid.items()],
        *[f"the tool {_name_of(tool)}: it has no form here" for tool in lost_tools if _POINT not in tool],
        *[f"the grammar of the tool {name}: it has no form here" for name in _grammars(request.tools, form)],
        *_told(tools, "of the tools"),
        *_told(said, "in the messages"),
        *([f"cache marks, {marks} x: they have no form here"] if marks else []),
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


def _told(found: Counter[str], where: str) -> Iterator[str]:
    kinds = [(kind, count) for kind, count in found.items() if kind not in _MARKS]
    for kind, count in kinds[:_MOST]:
        yield f"{kind} {where}, {count} x: it has no form here"
    if len(kinds) > _MOST:
        yield f"{len(kinds) - _MOST} other things {where}: they have no form here"


def _marks_of(message: PlainMessage) -> int:
    return sum(each in _MARKS for each in unread_of_message(message))


def _unread_of_tools(tools: Iterable[Mapping[str, Any]], form: Form) -> Counter[str]:
    """Count what is read by nobody of the tools that are translated, by its name."""
    found: Counter[str] = Counter()
    for tool in (each for one in tools if not form.is_own_tool(one) for each in parted(one)):
        written = form.written_tools((tool,))
        if written and not any(each.get("type") == "custom" for each in written):  # which goes out with all it has
            found.update(each for each in unread_of_tool(tool) if each not in form.SAYS)
    return found


def _unread(messages: Iterable[PlainMessage | Message], form: Form) -> Counter[str]:
    """Count what nobody can read, or what has no place in a form, by its type or its name."""
    found: Counter[str] = Counter()
    messages = [*messages]
    for given in messages:
        found.update(_marks(given) if isinstance(given, Message) else unread_of_message(given))
    for message in read_messages(messages):
        for part in message.parts:
            found.update(_lost_of(part, form, is_answer=message.role == "assistant"))
    return found


def _marks(message: Message) -> Iterator[str]:
    return (MARK for part in message.parts if isinstance(part, TextPart | MediaPart | ToolResult) and part.cache)


def _lost_of(part: Part, form: Form, *, is_answer: bool = False) -> Iterator[str]:
    if isinstance(part, OpaquePart):
        block = part.block if isinstance(part.block, Mapping) else {}
        kind = label(str(block.get("type") or next(iter(block), "something"))) or "something"
        # What an assistant has besides is its provider's own, but for what stands in the place of something said.
        if not part.provider and (not is_answer or kind in (_REFERENCE, _POINT)):
            yield MARKED_MESSAGE if kind == _POINT else kind
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
