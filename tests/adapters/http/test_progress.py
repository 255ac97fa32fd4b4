"""What is done to the socket of an attempt on a client that was passed in, which others use after
it or beside it.
"""

import socket
from typing import Any

import attrs
import httpx
import httpx2
import pytest

from rungwise.adapters.http.borrowed import Progress
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply


@attrs.frozen
class Stream:
    """The stream of a client's connection."""

    socket: socket.socket

    def get_extra_info(self, name: str) -> Any:
        return getattr(self, name)


@pytest.mark.parametrize(
    ("events", "is_shut"),
    [
        ([], True),
        (["http11.send_request_headers.started", "http11.receive_response_body.started"], True),
        (["http11.response_closed.started"], False),
        (["http2.send_connection_init.started"], False),
    ],
)
def test_a_socket_is_shut_down_while_no_other_request_can_be_on_it(
    events: list[str], is_shut: bool
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        progress = Progress(AttemptLimits())
        progress.use_stream(Stream(ours))
        for event in events:
            progress.note(event, {})
        progress.shut()
        theirs.setblocking(False)
        if is_shut:
            assert theirs.recv(1) == b""
        else:
            with pytest.raises(BlockingIOError):
                theirs.recv(1)


def test_a_socket_that_others_share_is_not_taken() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        progress = Progress(AttemptLimits())
        progress.note("http2.send_request_headers.started", {})
        progress.is_abandoned = True
        progress.use_stream(Stream(ours))
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_an_attempt_that_is_left_at_its_very_end_cuts_no_other_call(library: Any) -> None:
    """The client's pool has the connection back by then, and another thread may be using it."""
    with (
        EmbeddedProvider(Script([ScriptedReply("Yes.")])) as provider,
        library.Client(trust_env=False) as http,
    ):
        asked = {
            "url": f"{provider.base_url}/chat/completions",
            "json": {"model": "m", "messages": []},
        }
        progress = Progress(AttemptLimits())
        addresses = []
        # at each event of the other call
        for trace in (progress.note, lambda name, info: progress.shut()):
            request = http.build_request("POST", **asked, extensions={"trace": trace})
            response = http.send(request, stream=True)
            stream = response.extensions["network_stream"]
            if not addresses:
                progress.use_stream(stream)
            addresses.append(stream.get_extra_info("client_addr"))
            assert b"Yes." in response.read()
        assert addresses[0] == addresses[1]
