"""A wire of the caller's own that raises when it reads: the call ends at once, and the error names
the wire.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import frozen

from rungwise.adapters.wires.backend import Backend, Decoder, HttpRequest
from rungwise.core import PlainLink, Reply
from support.raw_server import RawServer, answer, answering
from support.ways import BOTH, ask, client_for


class Breaking(Decoder):
    """Break in one of the methods of a decoder."""

    def __init__(self, breaks_in: str) -> None:
        self.breaks_in = breaks_in

    def feed(self, data: bytes) -> list[Any]:
        if self.breaks_in == "feed":
            raise KeyError("choices")
        return []

    def close(self, failure: Any = None) -> Reply:
        raise KeyError("choices")


@frozen(kw_only=True)
class Broken(PlainLink, Backend):
    """Send nothing, and break in one of the methods that read."""

    url: str
    breaks_in: str
    model: str = "m"
    streams: bool = True

    def encode(self, send: Any, *, stream: bool) -> HttpRequest:
        return HttpRequest(self.url, {"content-type": "application/json"}, b"{}")

    def decode(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply:
        raise KeyError("choices")

    def decoder(self, headers: Mapping[str, str]) -> Breaking:
        if self.breaks_in == "decoder":
            raise KeyError("choices")
        return Breaking(self.breaks_in)


@BOTH
@pytest.mark.parametrize("breaks_in", ["decode", "decoder", "feed", "close"])
def test_a_wire_that_raises_when_it_reads_ends_the_call_with_an_error_that_names_it(
    way: str, breaks_in: str
) -> None:
    with RawServer(answering(answer("Herons."))) as server:
        wire = Broken(url=server.base_url, breaks_in=breaks_in)
        with pytest.raises(KeyError, match="choices") as caught:
            ask(way, client_for(way, wire), streams=breaks_in != "decode")  # type: ignore[arg-type]
    assert len(server.requests) == 1
    assert caught.value.result.outcome == "cancelled"  # type: ignore[attr-defined]
    (note,) = caught.value.__notes__
    assert note.startswith(f"The wire {__name__}.Broken raised this.")
