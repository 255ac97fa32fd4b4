"""Write neutral parts as the parts of a content."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.gemini.models import Traits
from rungwise.adapters.wires.json_text import object_of
from rungwise.adapters.wires.plain.media import in_words
from rungwise.fsm.call.conversation.parts import (
    MediaPart,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

MADE_UP: Final = "call_gemini_"
"""How the ids begin that are made up for calls that have none; they are for this library alone, and are not sent."""

_URL: Final = re.compile(r"https?://|gs://", re.IGNORECASE)
_OWN_URL: Final = re.compile(
    r"gs://|https://(generativelanguage\.googleapis\.com|storage\.googleapis\.com"
    r"|(www\.)?youtube\.com|youtu\.be)/",
    re.IGNORECASE,
)
"""Where files are that every model can read: Google's own places."""
_TYPES: Final = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4"}


@define
class Writer:
    """Write the parts of one message, in their order.

    Arguments:
        provider: whose own parts may go out.
        traits: what the model does in its own way.
    """

    provider: str
    traits: Traits
    _parts: list[Body] = field(factory=list, init=False)
    _members: Mapping[str, Any] = field(factory=dict, init=False)
    """What belongs to the part that comes next, such as its signature."""
    _beside: list[Body] = field(factory=list, init=False)

    def written(self) -> list[Body]:
        """Return what was written."""
        if self._members:
            self._put({"text": ""})  # what it had signed was blank
        return [*self._parts, *self._beside]

    def add(self, part: Part) -> None:
        """Write a part; what is another provider's own is left out."""
        if isinstance(part, TextPart):
            if part.text or self._members:
                self._put({"text": part.text})
        elif isinstance(part, MediaPart):
            self._put(media(part, self.traits))
        elif isinstance(part, ToolCall):
            self._put(self._call(part))
        elif isinstance(part, ToolResult):
            self._put(self._result(part))
        elif self.provider and part.provider == self.provider:
            self._add_own(part)

    def _put(self, written: Body) -> None:
        self._parts.append({**written, **self._members})
        self._members = {}

    def _add_own(self, part: ReasoningPart | OpaquePart) -> None:
        if isinstance(part, OpaquePart):
            if isinstance(part.block, Mapping):
                self._put(dict(part.block))
        elif not isinstance(part.signature, Mapping):
            signed = {"thoughtSignature": part.signature} if part.signature else {}
            self._put({"text": part.text, "thought": True, **signed})
        elif "text" in part.signature:  # a part that is nothing but a signature
            self._put(dict(part.signature))
        else:
            self._members = part.signature

    def _call(self, call: ToolCall) -> Body:
        is_own = bool(self.provider) and call.provider == self.provider
        extras = dict(call.extras) if is_own else {}
        own_id = extras.pop("id", None)
        id = own_id if is_own else sent_id(call.id)
        return {
            "functionCall": {**({"id": id} if id else {}), "name": call.name, "args": object_of(call.arguments)},
            **extras,
        }

    def _result(self, result: ToolResult) -> Body:
        id = sent_id(result.id)
        said: Body = {**({"id": id} if id else {}), "name": result.name or "unknown"}
        said["response"] = {"error" if result.is_fault else "output": result.text}
        shown = [media(each, self.traits) for each in result.media]
        if self.traits.nests_media:
            said |= {"parts": nested} if (nested := [each for each in shown if "text" not in each]) else {}
            shown = [each for each in shown if "text" in each]
        self._beside += shown
        return {"functionResponse": said}


def sent_id(id: str) -> str:
    """Return the id of a call as it is sent: "" for one that was made up here."""
    return "" if id.startswith(MADE_UP) else id


def media(part: MediaPart, traits: Traits) -> Body:
    """Return a picture or a file; one that the model cannot be sent is named in its place, so that it can say so."""
    if part.data:
        return {"inlineData": {"mimeType": _type_of(part), "data": part.data}}
    if (_URL if traits.fetches else _OWN_URL).match(part.url):
        kind = _type_of(part)
        return {"fileData": {**({"mimeType": kind} if kind else {}), "fileUri": part.url}}
    return {"text": in_words(part)}


def _type_of(part: MediaPart) -> str:
    if part.media_type:
        return part.media_type
    path = re.sub(r"[?#].*", "", part.url)
    guessed = mimetypes.guess_type(path if path else part.name)[0]
    return guessed or _TYPES.get(part.kind, "" if part.url else "application/octet-stream")
