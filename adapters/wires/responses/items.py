"""The items of a response as neutral parts, and back.

The provider's own items go back unchanged. `ResponseItem` holds one item while it arrives in a
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.draft import classified
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.json_text import arguments_of, as_json, input_in, load, mended
from rungwise.adapters.wires.plain.parts import blocks_in, list_of, mapping_of, text_in
from rungwise.adapters.wires.provider_data import citations_of, copy_if_sendable, media_parts
from rungwise.fsm.replies.assembly.assembly import Kind
from rungwise.fsm.replies.assembly.gathered import GatheredText
from rungwise.fsm.replies.assembly.items import Item
from rungwise.fsm.replies.parts import (
    CommentaryPart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    is_answer_by_itself,
)
from rungwise.fsm.replies.reply import Commentary, Reasoning, Text

CUSTOM: Final = "custom_tool_call"
"""The call of a free-text tool. As for all tools its arguments are an object, `{"input": text}`."""

COMMENTARY: Final = "commentary"
"""The phase of a message that is no part of the answer."""
_FINAL: Final = "final_answer"
"""The phase of a message beside which no other is part of the answer."""
TEXTS: Final = ("output_text", "text")
"""The types of the parts of a message that are text; gateways use that of chat completions, too."""
_TOOL_CALLS: Final = ("function_call", CUSTOM)
_UNFINISHED: Final = ("in_progress", "incomplete")
_CALL: Final = frozenset({"type", "call_id", "name", "arguments"})
_CUSTOM: Final = frozenset({"call_id", "name", "input"})
"""The members of calls that a neutral call has as well."""


# what came


def parts_of_items(items: Sequence[Any], provider: str) -> tuple[tuple[Part, ...], str]:
    """Return items in neutral parts, and the text of a refusal in them.

    A message becomes a provider's own part with everything but its texts (its id, citations, log
    probabilities), followed by the texts.

    Arguments:
        items: the items, as the server sent them.
        provider: the owner of its own parts; "" keeps none of them.
    """
    parts: list[Part] = []
    refusals: list[str] = []
    blocked: list[str] = []
    # the actions that the provider took itself, as their outputs show
    ran: set[str] = set()
    for item in items:
        if text_in(item, "type").endswith("_output"):
            ran.add(text_in(item, "call_id"))
    has_final = any(text_in(item, "phase") == _FINAL for item in items)
    for item in items:
        kind = item.get("type")
        phase = text_in(item, "phase")
        if kind == "message" and (phase == COMMENTARY or (has_final and phase != _FINAL)):
            parts += _commentary(item, provider, refusals)
        elif kind == "message":
            parts += _message(item, provider, refusals)
        elif kind in _TOOL_CALLS:
            parts.append(_call(item, provider))
        elif kind == "reasoning":
            parts += _reasoning(item, provider)
        elif isinstance(kind, str) and provider:
            own = copy_if_sendable(item)
            if own:
                is_answer = _is_answer(item) and text_in(item, "call_id") not in ran
                parts.append(OpaquePart(provider, own, is_answer))
            if item.get("error"):
                blocked += _refusal_in(item)
    if blocked and not any(map(is_answer_by_itself, parts)):
        refusals += blocked
    return tuple(parts), "".join(refusals)


def _refusal_in(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield why an item failed, such as a picture, if a filter refused it."""
    failure = classified(None, {}, as_json({"error": item["error"]}).encode())
    if failure.reason == "content_policy":
        yield failure.message or f"{failure.code}"


def _is_answer(item: Mapping[str, Any]) -> bool:
    """Tell whether an item is a picture or the like, or an action that the caller is to take.

    Only calls that the caller is to answer have a `call_id`, but for those that say who executes
    them.
    """
    kind = item["type"]
    if kind.endswith("_generation_call"):
        return bool(text_in(item, "result"))
    is_call = kind.endswith("_call") and text_in(item, "call_id") != ""
    is_for_caller = item.get("execution") in (None, "client")
    if (is_call and is_for_caller) or kind == "mcp_approval_request":
        return item.get("status") != "incomplete"
    return bool(media_parts(item, ""))


def _message(item: Mapping[str, Any], provider: str, refusals: list[str]) -> Iterator[Part]:
    """Yield the parts of a message, and append its refusals to a list."""
    texts: list[Part] = []
    for part in contents_of(item):
        text = text_in(part, "text")
        if part.get("type") in TEXTS and text:
            texts.append(TextPart(str(mended(text))))
            texts += citations_of(part.get("annotations"), provider)
        elif part.get("type") == "refusal":
            refusals.append(str(mended(text_in(part, "refusal"))))
        else:
            texts += media_parts(part, provider)
            if spoken := text_in(part, "transcript"):
                texts.append(TextPart(str(mended(spoken))))
    if texts and provider and (own := copy_if_sendable(envelope_of(item))):
        yield OpaquePart(provider, own)
    yield from texts


def _commentary(item: Mapping[str, Any], provider: str, refusals: list[str]) -> Iterator[Part]:
    """Yield a message that is no answer; half of one must not go back, so only its text counts.

    Arguments:
        item, provider, refusals: as for `_message`.
    """
    parts = _message(item, "", refusals)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    for message in item_of_message(envelope_of(item), texts):
        own = None
        if provider and item.get("status") not in _UNFINISHED:
            own = copy_if_sendable(message)
        yield CommentaryPart("".join(texts), own, provider if own else "")


def contents_of(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a message."""
    return blocks_in(item.get("content") or item.get("text"), type=TEXTS[0])


def envelope_of(item: Mapping[str, Any]) -> Body:
    """Return a message without its texts, each of which becomes a part of its own after it."""
    content: list[Body] = []
    for part in contents_of(item):
        if part.get("type") in TEXTS and text_in(part, "text"):
            part = _without(part, "text")
        content.append(part)
    return {**item, "content": content}


def _call(item: Mapping[str, Any], provider: str) -> ToolCall:
    """Read the call of a tool, which takes an object or free text."""
    if item.get("type") == CUSTOM:
        text = str(mended(arguments_of(item.get("input"))))
        arguments = as_json({"input": text})
        common = _CUSTOM
    else:
        arguments = str(mended(arguments_of(input_in(item, "arguments"))))
        common = _CALL
    extras: Mapping[str, Any] = {}
    if provider:
        own = {name: value for name, value in item.items() if name not in common}
        extras = copy_if_sendable(own) or {}
    name = str(mended(text_in(item, "name")))
    id = str(mended(text_in(item, "call_id", "id")))
    return ToolCall(id, name, arguments, extras, provider)


def _reasoning(item: Mapping[str, Any], provider: str) -> Iterator[Part]:
    """Yield reasoning; half an item must not go back, so only its text counts."""
    texts = (*thoughts_in(item, "summary"), *thoughts_in(item, "content"))
    text = "\n\n".join([str(mended(each)) for each in texts if each])
    is_whole = item.get("status") not in _UNFINISHED
    own = copy_if_sendable(item) if provider and is_whole else None
    if own:
        yield ReasoningPart(text, own, provider)
    elif text:
        yield ReasoningPart(text)


def thoughts_in(item: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of reasoning, or of its summary."""
    return [text_in(part, "text") for part in list_of(item.get(name))]


def as_item(role: str, content: str | list[Body]) -> Body:
    """Return a message as an item.

    llama.cpp takes no assistant's without its type (400) [ggml-org/llama.cpp].
    """
    return {"type": "message", "role": role, "content": content}


def items_in(response: Mapping[str, Any]) -> list[Any]:
    """Return the items of a response; a bare text, also in `output_text` alone, is a message."""
    return items_of(response.get("output") or response.get("output_text"))


def items_of(output: Any) -> list[Any]:
    """Return the items in an output, which may be one alone. What has a content is a message if it
    does not say what it is.
    """
    items: list[Any] = []
    for each in list_of(output) or [output]:
        if each and isinstance(each, str):
            each = as_item("assistant", each)
        if isinstance(each, dict):
            item = {"type": "message", **each} if "content" in each else each
            if not each.get("id") or items[-1:] != [item]:  # nor a copy of the last one
                items.append(item)
    return items


def item_of_message(envelope: Mapping[str, Any] | None, texts: Sequence[str]) -> Iterator[Body]:
    """Yield the message of some texts, if there are any.

    Arguments:
        envelope: what is known of the message besides its texts (`envelope_of`). It is not used if
            it has another number of texts: then the caller has changed them.
        texts: the texts.
    """
    if not texts:
        return
    content = list_of(mapping_of(envelope).get("content"))
    parts = [part for part in content if isinstance(part, Mapping)]
    if envelope is None or sum(map(_is_open, parts)) != len(texts):
        yield as_item("assistant", "".join(texts))
        return
    rest = iter(texts)
    filled: list[Mapping[str, Any]] = []
    for part in parts:
        if _is_open(part):
            # The log probabilities are for the reader: many times the text, and useless to the
            # model.
            part = {
                "annotations": [],
                **_without(part, "logprobs"),
                "text": next(rest),
            }
        filled.append(part)
    yield {**envelope, "content": filled}


def _is_open(part: Mapping[str, Any]) -> bool:
    """Tell whether a part of an envelope had a text."""
    return part.get("type") in TEXTS and "text" not in part


def _without(part: Mapping[str, Any], member: str) -> Body:
    return {name: value for name, value in part.items() if name != member}


def item_of_call(call: ToolCall, extras: Mapping[str, Any]) -> Body:
    """Return the item of a tool call."""
    if extras.get("type") == CUSTOM:
        try:
            text = text_in(load(call.arguments.encode("utf-8", "surrogatepass")), "input")
        except ValueError:
            text = call.arguments
        return {
            **extras,
            "call_id": call.id,
            "name": call.name,
            "input": text,
        }
    return {
        "type": "function_call",
        **extras,
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


@define(eq=False)
class ResponseItem(Item):
    """Hold one item of a streamed response; `about` is its latest version, without its texts."""

    weight: int = field(default=0, init=False)  # roughly how many bytes that takes up
    # For each part of a message, its refusal, its annotations and its log probabilities.
    refusals: dict[int, GatheredText] = field(factory=dict, init=False)
    annotations: dict[int, list[Any]] = field(factory=dict, init=False)
    logprobs: dict[int, list[Any]] = field(factory=dict, init=False)
    # what its text is, once a piece of it has come
    shown_as: type[Text] | type[Reasoning] | None = field(default=None, init=False)
    # its texts in the order of arrival: their member, and the index there
    places: dict[tuple[str, int], None] = field(factory=dict, init=False)

    def whole(
        self,
        text_of: Callable[[Kind], str],
        *,
        is_done: bool,
    ) -> dict[str, Any] | None:
        """Return the item so far; None for an unfinished item that cannot be continued.

        Arguments:
            text_of: returns a text of the stream.
            is_done: whether the response has ended.
        """
        item = self.about or {"type": self.kind, "id": self.id}
        if not self.is_over and not is_done:
            item = {**item, "status": "incomplete"}
        if self.kind == "message":
            return {**item, "content": self._contents(text_of)}
        if self.kind in _TOOL_CALLS:
            if not self.arguments.size:
                return item
            if self.kind == CUSTOM:
                return {**item, "input": self.arguments.written}
            return {**item, "arguments": self.arguments.text}
        if self.kind == "reasoning":
            return {**item, **self._thoughts(text_of)}
        return item if self.is_over else None

    def is_another(
        self, version: Mapping[str, Any], index: object, text_of: Callable[[Kind], str]
    ) -> bool:
        """Tell whether a version under the id of this item, which some servers give to all, is that
        of another one.

        Arguments:
            version: the version.
            index: where it stands.
            text_of: returns a text of the stream.
        """
        place = (index, text_in(version, "call_id"))
        if not self.is_over or place == (self.index, self.call_id):
            return False
        own = parts_of_items([self.whole(text_of, is_done=True)], "")
        return own != parts_of_items([version], "")

    def kind_of(self, key: str, index: int) -> Kind:
        """Return the kind of one of its texts.

        Arguments:
            key: what the text is here: "text", "summary" or "content".
            index: its index among those.
        """
        if self.shown_as is None:
            self.shown_as = Commentary if self.about.get("phase") == COMMENTARY else Text
        return (self.shown_as if key == "text" else Reasoning), (self.number, key, index)

    def _contents(self, text_of: Callable[[Kind], str]) -> list[dict[str, Any]]:
        """Return the parts of a message: those of the item, and those that only deltas brought."""
        parts = contents_of(self.about)
        places = {*range(len(parts)), *self.refusals}
        places.update(index for key, index in self.places if key == "text")
        contents = []
        for index in sorted(places):
            part = parts[index] if index < len(parts) else {}
            if index in self.refusals:
                part = {"type": "refusal", "refusal": self.refusals[index].text}
            elif part.get("type", "output_text") in TEXTS:
                part = self._text_part(index, part)
                part["text"] = text_of(self.kind_of("text", index))
            contents.append(part)
        return contents

    def _text_part(self, index: int, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return a text with its annotations and log probabilities.

        Those of the item win over those of deltas.
        """
        whole: dict[str, Any] = {"type": "output_text", "annotations": []}
        if self.annotations.get(index):
            whole["annotations"] = self.annotations[index]
        if self.logprobs.get(index):
            whole["logprobs"] = self.logprobs[index]
        for name, value in part.items():
            if value or not whole.get(name):
                whole[name] = value
        return whole

    def _thoughts(self, text_of: Callable[[Kind], str]) -> dict[str, Any]:
        """Return the texts of reasoning that the item itself does not hold."""
        members: dict[str, Any] = {}
        for key, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
            if any(thoughts_in(self.about, key)):
                continue
            places = sorted(index for name, index in self.places if name == key)
            texts = [{"type": kind, "text": text_of(self.kind_of(key, index))} for index in places]
            if texts:
                members[key] = texts
        return members
