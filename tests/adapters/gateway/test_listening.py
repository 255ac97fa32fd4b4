"""What the proxy listens on."""

import socket

from rungwise.adapters.cli.workers.http_server import listen


def test_the_proxys_connections_wait_for_no_acknowledgement():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
