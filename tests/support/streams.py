"""What a stream amounts to, and what it has shown; and replies as the embedded provider writes
them.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from rungwise import Reasoning, Text
from rungwise.adapters.provider.server import render
from rungwise.testing import ScriptedReply
from support import protocols


def rendered(backend: Any, reply: ScriptedReply, *, streams: bool) -> bytes:
    """Return the body of a reply to what a backend asks."""
    request = protocols.encoded(backend, stream=streams)
    path = "/" + request.url.split("/", 3)[3]
    return render(reply, json.loads(request.body), path=path).body


def events_in(api: str, reply: ScriptedReply) -> list[bytes]:
    """Return the events of a streamed reply in a protocol; those of Responses without numbers."""
    data = rendered(protocols.backend(api, "http://host/v1"), reply, streams=True)
    if api == "ollama":
        return data.splitlines(keepends=True)
    if api == "responses":
        data = re.sub(rb'"sequence_number": ?\d+,?', b"", data)
    if api != "bedrock":
        return [event + b"\n\n" for event in data.split(b"\n\n") if event.strip()]
    frames = []
    while data:
        length = int.from_bytes(data[:4], "big")
        frames.append(data[:length])
        data = data[length:]
    return frames


def followed(decoder: Any, pieces: Iterable[bytes], failure: Any = None) -> tuple[Any, str, str]:
    """Return what the pieces of a stream amount to, and the text and the reasoning that they handed
    out.
    """
    shown = {Text: "", Reasoning: ""}
    for piece in pieces:
        for delta in decoder.feed(piece):
            shown[type(delta)] += delta.text
    return decoder.close(failure), shown[Text], shown[Reasoning]
