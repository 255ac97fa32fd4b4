"""Keep the provider's own data, and what comes with a reply.

That is citations, sources, log probabilities, and whatever else a provider adds.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.draft import count_of
from rungwise.adapters.wires.json_text import as_json, mended, weight_of
from rungwise.adapters.wires.plain.messages import readable
from rungwise.adapters.wires.plain.parts import list_of, mapping_of, media, text_in
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import CitationPart, MediaPart, OpaquePart, Part
from rungwise.fsm.values.frozen_map import sendable_copy

_MEDIA_MEMBERS: Final = frozenset(
    {
        "audio",
        "images",
    }
)
_MEDIA_TYPES: Final = (
    "mime_type",
    "mimeType",
    "media_type",
    "mediaType",
    "content_type",
)
_MEDIA_PLACES: Final = (
    "data",
    "bytes",
    "base64",
    "b64_json",
    "url",
    "uri",
    "file_uri",
    "fileUri",
)
_MEDIA_KIND: Final = re.compile("(image|audio|video)(_|$)")
"""How the types of blocks begin that need no media type."""
_MOST: Final = 2**18  # the most bytes of memory for data besides a reply, which are for diagnosis


def copy_if_sendable(value: Any) -> Any:
    """Return a read-only copy, or None if no server would accept the value.

    That is one that is nested too deeply, or that has `NaN` in it.
    """
    try:
        return sendable_copy(mended(value), "the provider's own")
    except (ConfigurationError, RecursionError):
        return None


def size_of(value: Any) -> int:
    """Return roughly how many bytes of memory a value takes up."""
    return weight_of(as_json(value).encode())


def media_parts(block: Any, provider: str) -> list[Part]:
    """Return what of a block is an answer in another medium: a picture, a recording, a file.

    A block of a form that nobody declares is one if it has a media type beside data or a URL; it
    stays its provider's own.
    """
    own = copy_if_sendable(block)
    found: list[Part] = [part for part in readable(own) if isinstance(part, MediaPart)]
    if not found and _carries_media(mapping_of(own)):
        found.append(OpaquePart(provider, own, is_answer=True))
    return found


def _carries_media(block: Mapping[str, Any]) -> bool:
    """Tell whether a block, or a member of it, has data or a URL, and a media type beside it.

    The type of the block may say as much.
    """
    is_media = _MEDIA_KIND.match(text_in(block, "type")) is not None
    for each in (block, *map(mapping_of, block.values())):
        has_type = is_media or "/" in text_in(each, *_MEDIA_TYPES)
        if has_type and text_in(each, *_MEDIA_PLACES):
            return True
    return False


def joined_base64(pieces: Iterable[str]) -> str:
    """Join pieces of base64, each of which may have been encoded by itself."""
    try:
        data = b"".join([base64.b64decode(piece, validate=True) for piece in pieces])
    except ValueError:
        return "".join(pieces)
    return base64.b64encode(data).decode()


@define(eq=False)
class MediaSoFar:
    """Gather the pictures and recordings of messages or deltas in the common form."""

    size: int = field(default=0, init=False)  # bytes of memory, roughly
    _parts: list[Part] = field(factory=list, init=False)
    _audio: list[str] = field(factory=list, init=False)  # a recording, in pieces

    def take(self, message: Mapping[str, Any], provider: str) -> None:
        """Take what a message or a delta has of them."""
        if _MEDIA_MEMBERS.isdisjoint(message) and type(message.get("content")) is str:
            return
        if data := text_in(message.get("audio"), "data"):
            self._audio.append(data)
            self.size += len(data)
        found: list[Part] = []
        for part in list_of(message.get("content")):
            found += media_parts(part, provider)
        for image in list_of(message.get("images")):
            if picture := media("image", data=image):
                found.append(picture)
        if found:
            self._parts += found
            self.size += size_of(message)

    @property
    def parts(self) -> list[Part]:
        """Return them so far."""
        if not self._audio:
            return self._parts
        return [*self._parts, MediaPart("audio", joined_base64(self._audio))]


@define(eq=False)
class Aside:
    """Gather what a stream brings besides the reply, in the places that a whole body has for it."""

    size: int = field(default=0, init=False)  # bytes of memory, roughly
    members: dict[str, Any] = field(factory=dict, init=False)  # by member of the whole body

    def take(self, new: Mapping[str, Any], *, grows: frozenset[str] = frozenset()) -> int:
        """Take more data, up to a limit of memory, and return roughly how many bytes it takes up.

        Lists inside of a member grow, and so do the members in `grows`; of anything else the last
        version counts.

        Arguments:
            new: members of one event.
            grows: the names of members that are lists, of which each event brings some items.
        """
        size = size_of(new) if new else 0
        if self.size + size > _MOST:
            return 0
        self.size += size
        for name, value in new.items():
            old = self.members.get(name)
            if isinstance(old, dict) and isinstance(value, dict):
                for key, inner in value.items():
                    _extend(old, key, inner)
            elif name in grows:
                _extend(self.members, name, value)
            elif isinstance(value, dict):
                self.members[name] = {**value}
            else:
                self.members[name] = value
        return size


def _extend(members: dict[str, Any], name: str, value: Any) -> None:
    """Append a list to the list that a member holds; set it to anything else."""
    old = members.get(name)
    if not isinstance(value, list):
        members[name] = value
    elif isinstance(old, list):
        old.extend(value)
    else:
        members[name] = [*value]


_MOST_CITATIONS: Final = 1_000
"""The most citations that are read of one text: each takes many times the memory of its JSON."""
_POSITIONS: Final = (
    ("start_index", "end_index", "answer"),  # OpenAI's
    ("startIndex", "endIndex", "answer bytes"),  # Gemini's
    ("start_char_index", "end_char_index", "characters"),  # Anthropic's
    ("start_page_number", "end_page_number", "pages"),
    ("start_block_index", "end_block_index", "blocks"),
)
"""The members that hold where a passage starts and ends, and what they count."""
_LOCATIONS: Final = {
    "documentPage": "pages",
    "documentChunk": "chunks",
    "searchResultLocation": "blocks",
}
"""What Bedrock's locations count, if not characters."""


def citations_of(raw: object, provider: str = "") -> Iterator[CitationPart]:
    """Yield the citations in a list, which stay with their provider."""
    for each in list_of(raw)[:_MOST_CITATIONS]:
        block = copy_if_sendable({"url": each} if isinstance(each, str) else each)
        if isinstance(block, Mapping):
            yield _citation(block, provider)


def _citation(block: Mapping[str, Any], provider: str) -> CitationPart:
    """Read one citation.

    Its members may be in the block itself (Anthropic, Responses), in a member of its type's name
    (chat completions), or in the one member of its location, whose name says what is counted
    (Bedrock).
    """
    members = dict(block)
    members |= mapping_of(block.get(str(block.get("type"))))
    counted_there = "characters"
    for place, location in mapping_of(block.get("location")).items():
        counted_there = _LOCATIONS.get(place, "characters")
        members |= mapping_of(location)
        break
    passages = [text_in(members, "cited_text", "text")]
    for content in list_of(block.get("sourceContent")):
        passages.append(text_in(content, "cited_text", "text"))
    position = None
    for start, end, counted in (*_POSITIONS, ("start", "end", counted_there)):
        if start in members:
            position = (counted, count_of(members[start]), count_of(members.get(end)))
            break
    source = text_in(members, "url", "uri", "source", "file_id", "document_title")
    return CitationPart(
        text="".join(passages),
        source=source,
        title=text_in(members, "title", "document_title", "filename"),
        position=position,
        block=block,
        provider=provider,
    )


def grounding_of(candidate: Mapping[str, Any], provider: str) -> Iterator[CitationPart]:
    """Yield what Gemini grounds an answer on.

    That is each source, with the passage of the answer that it supports.
    """
    grounding = mapping_of(candidate.get("groundingMetadata"))
    chunks = [[*mapping_of(each).values()] for each in list_of(grounding.get("groundingChunks"))]
    raw: list[Any] = []
    for segment, at in islice(_supports(grounding), _MOST_CITATIONS):
        is_known = type(at) is int and 0 <= at < len(chunks)
        if is_known and chunks[at]:
            # a chunk has one member, whose name says where it comes from, such as "web"
            source = mapping_of(chunks[at][0])
            start = segment.get("startIndex")
            end = segment.get("endIndex")
            raw.append(
                {
                    **source,
                    "startIndex": start,
                    "endIndex": end,
                }
            )
    cited = mapping_of(candidate.get("citationMetadata"))
    raw += list_of(cited.get("citationSources", cited.get("citations")))
    yield from citations_of(raw, provider)


def _supports(grounding: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Yield each passage of an answer with the index of each chunk that supports it."""
    for support in map(mapping_of, list_of(grounding.get("groundingSupports"))):
        segment = mapping_of(support.get("segment"))
        for at in list_of(support.get("groundingChunkIndices")):
            yield segment, at
