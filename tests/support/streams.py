"""What a stream amounts to, and what it has shown; and replies as the embedded provider writes
them.
"""

import json
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


def followed(decoder: Any, pieces: Iterable[bytes], failure: Any = None) -> tuple[Any, str, str]:
    """Return what the pieces of a stream amount to, and the text and the reasoning that they handed
    out.
    """
    shown = {Text: "", Reasoning: ""}
    for piece in pieces:
        for delta in decoder.feed(piece):
            shown[type(delta)] += delta.text
    return decoder.close(failure), shown[Text], shown[Reasoning]
