"""Reading from TLS: what it holds is taken at once, and what it does not is waited for without a
look in vain.
"""

import os
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.sockets import read
from rungwise.adapters.http.waiting import WaitFor
from support.raw_server import CERTIFICATE

Pair = tuple[ssl.SSLSocket, ssl.SSLSocket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return both ends of an encrypted connection; the first does not block."""
    mine, peer = socket.socketpair()
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(CERTIFICATE)
    ended: list[ssl.SSLSocket] = []
    thread = threading.Thread(
        target=lambda: ended.append(of_server.wrap_socket(peer, server_side=True))
    )
    thread.start()
    ours = ssl.create_default_context(cafile=str(CERTIFICATE)).wrap_socket(
        mine, server_hostname="localhost"
    )
    thread.join()
    ended[0].sendall(b"hello")
    assert ours.recv(5) == b"hello"  # behind the tickets of the session
    ours.setblocking(False)
    with ours, ended[0]:
        yield ours, ended[0]


def test_what_tls_holds_is_not_waited_for(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"a record")
    assert ours.recv(2) == b"a "
    reading = read(ours, AttemptLimits(), waits_first=True)
    assert next(reading) is None  # others may run
    with pytest.raises(StopIteration, match="b'record'"):
        next(reading)


def test_each_record_is_waited_for_once(pair: Pair) -> None:
    ours, theirs = pair
    for number in range(3):
        reading = read(ours, AttemptLimits(), waits_first=True)
        assert isinstance(next(reading), WaitFor)
        theirs.sendall(b"%d" % number)
        with pytest.raises(StopIteration, match=f"b'{number}'"):
            next(reading)


def test_a_part_of_a_record_is_waited_for_again(pair: Pair) -> None:
    ours, theirs = pair
    reading = read(ours, AttemptLimits(), waits_first=True)
    assert isinstance(next(reading), WaitFor)
    os.write(theirs.fileno(), b"\x17\x03\x03")  # the first bytes of a record, below TLS
    assert isinstance(next(reading), WaitFor)
    reading.close()
