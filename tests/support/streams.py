"""What a stream amounts to, and what it has shown."""

from collections.abc import Iterable
from typing import Any

from rungwise import Reasoning, Text


def followed(decoder: Any, pieces: Iterable[bytes], failure: Any = None) -> tuple[Any, str, str]:
    """Return what the pieces of a stream amount to, and the text and the reasoning that they handed
    out.
    """
    shown = {Text: "", Reasoning: ""}
    for piece in pieces:
        for delta in decoder.feed(piece):
            shown[type(delta)] += delta.text
    return decoder.close(failure), shown[Text], shown[Reasoning]
