"""The versions of Anthropic's protocol: which one a request is sent in, and what it takes.

Version 2026-10-21 refuses sampling parameters, whatever they say, documents in answers, and
citations in messages of the user (400) [platform.claude.com, migrating to 2026-10-21]. Models from
4.7 on take no sampling parameters under any version. The version before is still there. So a model
that can be sampled gets that one, which loses nothing, and every later one the new. On Bedrock the
new rules hold from Claude 4.7 on, which is the same border.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from rungwise.adapters.wires.anthropic.parameters import Generation, generation_of
from rungwise.adapters.wires.plain.messages import read_message
from rungwise.adapters.wires.plain.parts import list_of, mapping_of, text_in
from rungwise.fsm.call.conversation.plain import in_words
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import MediaPart, Message, OpaquePart, Part, TextPart

AnyMessage = PlainMessage | Message
Place = Literal["anthropic", "bedrock", "vertex"]

HEADER: Final = "anthropic-version"
OLD_VERSION: Final = "2023-06-01"
VERSION: Final = "2026-10-21"
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def version_of(model: str, place: Place = "anthropic", own: Any = None) -> str:
    """Return the version that a request is sent in.

    Arguments:
        model: the id of the model.
        place: who serves it; AWS and Google's gateway take what Anthropic takes.
        own: the caller's own version, which wins.
    """
    if own:
        return str(own)
    if place == "vertex" or not generation_of(model).samples:
        return VERSION
    return OLD_VERSION


def is_new(version: str) -> bool:
    """Tell whether a version has the rules of 2026-10-21, as later ones are taken to have."""
    dates = _DATE.findall(version)
    return bool(dates) and dates[-1] >= VERSION


@lru_cache(maxsize=256)
def generation_in(model: str, version: str) -> Generation:
    """Return what a model accepts in a version of the protocol."""
    generation = generation_of(model)
    if generation.samples and is_new(version):
        return Generation(
            thinking=generation.thinking,
            samples=False,
            schemas=generation.schemas,
            refusal=f"version {version} takes none",
        )
    return generation


def fitted(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """Return messages as the new version takes them.

    Documents in answers are named in words, and the texts of the user lose their citations.
    """
    return [_fitted(message) for message in messages]


def refused_in(messages: Iterable[AnyMessage]) -> Iterator[str]:
    """Yield what the new version does not get of messages, in a short sentence each."""
    changed = Counter(type(_fitted(each)) for each in messages if _fitted(each) is not each)
    if changed[Message]:
        yield f"documents in answers, {changed[Message]} x: Claude takes none there, only words"
    if changed[dict]:
        yield f"citations of the user's, {changed[dict]} x: Claude takes none there"


def _fitted(message: AnyMessage) -> AnyMessage:
    """Return a message as the new version takes it; itself if that is the same."""
    if isinstance(message, Message):
        return _without_documents(message, message)
    if message.get("role") == "user":
        uncited = _uncited(message)
        return message if uncited == message else uncited
    is_answer = message.get("role") in ("assistant", "model")
    if is_answer and not isinstance(message.get("content"), str):
        read = read_message(message)
        if len(read) == 1:
            return _without_documents(read[0], message)
    return message


def _without_documents(message: Message, given: AnyMessage) -> AnyMessage:
    """Return an answer with its documents named in words; what was given if it has none."""
    if message.role != "assistant":
        return given
    parts = [_without_document(part) for part in message.parts]
    blocks = list_of(given.get("content")) if isinstance(given, Mapping) else []
    has_blocks = any(text_in(block, "type") == "document" for block in blocks)  # maybe of words
    if tuple(parts) == message.parts and not has_blocks:
        return given
    return Message(message.role, parts)


def _without_document(part: Part) -> Part:
    """Return a document in words; anything else as it is."""
    if isinstance(part, MediaPart) and part.kind == "file":
        return TextPart(in_words(part))
    block = part.block if isinstance(part, OpaquePart) else None
    if text_in(block, "type") != "document":
        return part
    name = text_in(block, "title") or text_in(mapping_of(block).get("source"), "file_id")
    return TextPart(f"(file: {name or 'not shown'})")


def _uncited(value: Any) -> Any:
    """Return a message, a block or several without lists of citations."""
    if isinstance(value, list | tuple):
        return [*map(_uncited, value)]
    if not isinstance(value, Mapping):
        return value
    rest: dict[str, Any] = {}
    for name, each in value.items():
        if name == "content":
            rest[name] = _uncited(each)
        elif name != "citations" or not list_of(each):
            rest[name] = each
    return rest
