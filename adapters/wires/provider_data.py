"""Keep the provider's own data, and what comes with a reply: citations, sources, log
probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.draft import count_of
from rungwise.adapters.wires.json_text import as_json, mended, weight_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of, text_in
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import CitationPart
from rungwise.fsm.values.frozen_map import sendable_copy

_MOST: Final = 2**18  # the most bytes of memory for data besides a reply, which are for diagnosis


def copy_if_sendable(value: Any) -> Any:
    """Return a read-only copy, or None if no server would accept the value: too deep, or with `NaN`
    in it.
    """
    try:
        return sendable_copy(mended(value), "the provider's own")
    except (ConfigurationError, RecursionError):
        return None


def size_of(value: Any) -> int:
    """Return roughly how many bytes of memory a value takes up."""
    return weight_of(as_json(value).encode())


@define(eq=False)
class Aside:
    """Gather what a stream brings besides the reply, in the places that a whole body has for it."""

    size: int = field(default=0, init=False)
    said: dict[str, Any] = field(factory=dict, init=False)

    def take(self, new: Mapping[str, Any], *, grows: frozenset[str] = frozenset()) -> int:
        """Take more data, up to a limit of memory, and return roughly how many bytes it takes up.

        Lists inside of a member grow, and so do the members in `grows`; of anything else the last
        version counts.
        """
        size = size_of(new) if new else 0
        if self.size + size > _MOST:
            return 0
        self.size += size
        for name, value in new.items():
            old = self.said.get(name)
            if isinstance(old, dict) and isinstance(value, dict):
                for key, inner in value.items():
                    _extend(old, key, inner)
            elif name in grows:
                _extend(self.said, name, value)
            else:
                self.said[name] = {**value} if isinstance(value, dict) else value
        return size


def _extend(members: dict[str, Any], name: str, value: Any) -> None:
    old = members.get(name)
    if isinstance(old, list) and isinstance(value, list):
        old.extend(value)
    else:
        members[name] = [*value] if isinstance(value, list) else value


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
        if not isinstance(block, Mapping):
            continue
        place, location = next(iter(mapping_of(block.get("location")).items()), ("", None))
        members = {**block, **mapping_of(block.get(str(block.get("type")))), **mapping_of(location)}
        spans = (*_POSITIONS, ("start", "end", _LOCATIONS.get(place, "characters")))
        span = next((span for span in spans if span[0] in members), None)
        yield CitationPart(
            "".join(
                [
                    text_in(each, "cited_text", "text")
                    for each in (members, *list_of(block.get("sourceContent")))
                ]
            ),
            text_in(members, "url", "uri", "source", "file_id", "document_title"),
            text_in(members, "title", "document_title", "filename"),
            span and (span[2], count_of(members[span[0]]), count_of(members.get(span[1]))),
            block,
            provider,
        )


def grounding_of(candidate: Mapping[str, Any], provider: str) -> Iterator[CitationPart]:
    """Yield what Gemini grounds an answer on: each source, with the passage of the answer that it
    supports.
    """
    grounding, cited = (
        mapping_of(candidate.get(name)) for name in ("groundingMetadata", "citationMetadata")
    )
    chunks = [[*mapping_of(each).values()] for each in list_of(grounding.get("groundingChunks"))]
    supports = [*map(mapping_of, list_of(grounding.get("groundingSupports")))]
    pairs = (
        (each.get("segment"), at)
        for each in supports
        for at in list_of(each.get("groundingChunkIndices"))
    )
    raw = [
        {
            **mapping_of(source),
            **{name: mapping_of(segment).get(name) for name in ("startIndex", "endIndex")},
        }
        for segment, at in islice(pairs, _MOST_CITATIONS)
        for source in (chunks[at][:1] if type(at) is int and 0 <= at < len(chunks) else ())
    ]
    yield from citations_of(
        [*raw, *list_of(cited.get("citationSources", cited.get("citations")))], provider
    )
