"""Write the body of a scripted reply in the protocol that it was asked in, before any accident happens to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from itertools import cycle
from typing import Any

from attrs import field, frozen

from rungwise.adapters.provider.languages.registry import CHAT, language_of
from rungwise.adapters.provider.script import ScriptedReply


@frozen
class Rendered:
    """Hold the body of one response as the pieces in which it is written."""

    content_type: str
    pieces: tuple[bytes, ...] = field(repr=False)
    is_stream: bool = False

    @property
    def body(self) -> bytes:
        """Return the whole body; an index into it is what `cut_after` counts."""
        return b"".join(self.pieces)


def render(
    reply: ScriptedReply, request: Mapping[str, Any], number: int = 1, path: str = "/chat/completions"
) -> Rendered:
    """Write the body of a reply, before any cut.

    Arguments:
        reply: what the script says.
        request: the body of the request.
        number: the number of the request, counted from 1, which goes into the reply's id.
        path: that of the request, which tells the protocol.
    """
    language = language_of(path) or CHAT
    asked = language.asked(path.partition("?")[0], request, number)
    pieces: Iterable[bytes]
    if reply.body is not None:
        kind, pieces = _guess_type(reply.body), [reply.body.encode()]
    elif reply.status != 200 or reply.error is not None:
        kind, pieces = "application/json", [language.error(reply.error, reply.status)]
    elif asked.streams:
        kind, pieces = language.stream_type, language.events(reply, asked)
    else:
        kind, pieces = "application/json", [language.whole(reply, asked)]
    if reply.write_sizes:
        pieces = _resized(b"".join(pieces), reply.write_sizes)
    return Rendered(kind, tuple(pieces), kind in ("text/event-stream", language.stream_type))


def _guess_type(body: str) -> str:
    start = body.lstrip()[:6]
    if start.startswith(("{", "[")):
        return "application/json"
    if start.startswith(("data:", "event:", ":")):
        return "text/event-stream"
    return "text/html" if start.startswith("<") else "text/plain"


def _resized(body: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    rest, turns = BytesIO(body), cycle(sizes)
    return iter(lambda: rest.read(next(turns)), b"")
