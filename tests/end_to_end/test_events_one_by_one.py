"""What a stream costs whose events come one by one, as providers send them: counted in functions called for each."""

import threading
from functools import partial
from typing import Any

import rungwise
from support.growth import calls_made
from support.raw_server import STREAM_HEAD, RawServer, chunk, event
from support.ways import backend, client_for

EVENT = chunk(event("nest "))


def test_an_event_that_comes_by_itself_asks_little_of_each_layer() -> None:
    """Each event is sent when the one before was handed out, so that no reading brings two of them."""
    taken = threading.Semaphore(0)

    def play(peer: Any) -> None:
        for request in peer.requests():
            peer.send(STREAM_HEAD + b"\r\n")
            for _ in range(int(request["messages"][0]["content"])):
                peer.send(EVENT)
                taken.acquire()
            peer.send(chunk(event(finish="stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n")

    def read(client: rungwise.Client, events: int) -> None:
        for each in client.stream(str(events)):
            if isinstance(each, rungwise.Text):
                taken.release()

    with RawServer(play) as server:
        client = client_for("own sync", backend(server.base_url))
        read(client, 5)
        few, many = (calls_made(partial(read, client, events)) for events in (40, 140))
        client.close()
    assert many - few < 100 * 115
