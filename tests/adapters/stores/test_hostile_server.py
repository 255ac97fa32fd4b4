"""A store whose server is broken or hostile: each operation ends in its time, reads no more than it
may, and takes what is not ours for nothing.
"""

import contextlib
import logging
import re
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from rungwise import Budget, Health, OpenAIChat, Quota, SharedBudget
from rungwise.adapters.stores import redis_connection
from rungwise.adapters.stores.redis_overview import RedisOverview
from rungwise.adapters.stores.redis_store import AWAY
from rungwise.adapters.stores.store import perform
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.health.health import HealthChoice, Symptom
from rungwise.fsm.health.quota import Claim, Settlement

BACKEND = OpenAIChat("m", api_key="sk-1f3870be274f6c49b3e31a0c")
RULES = Health()
QUOTA = Quota(requests_per_minute=10, concurrent=2)
HELLO = b"%1\r\n$5\r\nproto\r\n:3\r\n"

Answer = Callable[[socket.socket], None]


class Server:
    """Answer each command of a script in one way, and everything else as Redis does."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listening.getsockname()[1]}/0"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listening.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            while data := sock.recv(65536):
                if b"EVALSHA" in data or b"SCAN" in data:
                    self.answer(sock)
                    continue
                for command in re.findall(rb"\*\d+\r\n\$\d+\r\n(\w+)", data):
                    sock.sendall(HELLO if command == b"HELLO" else b"+OK\r\n")


@pytest.fixture
def store_of() -> Iterator[Callable[[Answer], RedisOverview]]:
    servers = []

    def make(answer: Answer) -> RedisOverview:
        servers.append(Server(answer))
        return RedisOverview(servers[-1].url, time.monotonic)

    yield make
    for server in servers:
        server.listening.close()


def saying(data: bytes) -> Answer:
    return lambda sock: sock.sendall(data)


def dripping(sock: socket.socket) -> None:
    """Send a byte now and then, each sooner than any timeout of a read."""
    for byte in b"*3\r\n$10\r\n" + b"1" * 1_000:
        sock.sendall(bytes([byte]))
        time.sleep(0.1)


def flooding(sock: socket.socket) -> None:
    """Send a value without end."""
    sock.sendall(b"$4000000000\r\n")
    while True:
        sock.sendall(b"x" * 2**20)


def array(*members: bytes) -> bytes:
    return b"*%d\r\n" % len(members) + b"".join(members)


def text(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def number(value: int) -> bytes:
    return b":%d\r\n" % value


STRANGE: dict[str, Answer] = {
    "drips": dripping,
    "floods": flooding,
    "says nothing": lambda sock: None,
    "closes": lambda sock: sock.close(),
    "nested arrays": saying(b"*1\r\n" * 100_000),
    "bad bytes": saying(text(b"\xff\xfe")),
    "no protocol": saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "a huge count": saying(b"*999999999\r\n"),
    "a negative count": saying(b"*-5\r\n"),
    "no number": saying(b":x\r\n"),
    "a long number": saying(b":" + b"9" * 5_000 + b"\r\n"),
    "a text": saying(text(b"hello")),
    "nothing": saying(b"$-1\r\n"),
    "an empty array": saying(array()),
    "odd numbers": saying(array(text(b"nan"), number(1), number(1))),
    "infinity": saying(array(text(b"inf"), number(0), number(1))),
    "a negative wait": saying(array(text(b"-5"), number(0), number(1))),
    "a wait of years": saying(array(text(b"1e300"), number(0), number(1))),
    "a huge number of processes": saying(array(text(b"0"), number(1), number(10**18))),
    "arrays as values": saying(array(array(), array(), array())),
    "an error": saying(b"-ERR what\r\n"),
}


def operations(store: RedisOverview) -> list[object]:
    """Do what calls do with a store, and return what they hear."""
    key = store.key_of(BACKEND)
    budget = SharedBudget(Budget(attempts=5), name="all")
    claim = Claim("a", 0, longest=5.0, lease=60.0)
    return [
        perform(store, store.choose([key], RULES, 60.0))[0],
        perform(store, store.note(key, Symptom("failed"), RULES, sent_at=0.0, was_probe=False)),
        perform(store, store.take(key, QUOTA, claim)),
        perform(store, store.pay(key, QUOTA, Settlement("a"))),
        perform(store, store.hold("a", 60.0, Paid(1), budget._ledgers)),
        perform(store, store.paid("a", Paid(1), budget._ledgers)),
        perform(store, store.listed()),
        perform(store, store.metered()),
        perform(store, store.opened_by_hand()),
        perform(store, store.close("m")),
    ]


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_not_ours_counts_as_nothing(
    name: str, store_of: Callable[[Answer], RedisOverview], caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of(STRANGE[name])
    for _ in range(3):
        with caplog.at_level(logging.WARNING, "rungwise"):
            chosen, _, taken, _, held, _, *listed, is_closed = operations(store)
        assert chosen == HealthChoice(0)
        assert taken == (0, True)
        assert (held, listed, is_closed) == (None, [[], [], {}], False)
        store._away_until = 0.0
    assert 1 <= len(caplog.records) <= 2, "each thing is said once"


def test_a_server_that_drips_costs_one_deadline(
    store_of: Callable[[Answer], RedisOverview],
) -> None:
    store = store_of(dripping)
    began = time.monotonic()
    for _ in range(4):
        operations(store)
    assert time.monotonic() - began < 10.0, "it was 45 s; half a second, and more on a busy machine"
    assert store.is_away or time.monotonic() - began > AWAY


def test_a_flood_is_read_up_to_a_bound(
    store_of: Callable[[Answer], RedisOverview], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_connection, "LARGEST_ANSWER", 2**20)
    store = store_of(flooding)
    operations(store)
    store._away_until = 0.0
    tracemalloc.start()
    operations(store)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**24


def test_a_name_that_is_never_found_costs_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    found = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found.wait(60.0))
    store = RedisOverview("redis://never.example:6379/0", time.monotonic)
    began = time.monotonic()
    assert perform(store, store.choose([store.key_of(BACKEND)], RULES, 60.0))[0] == HealthChoice(0)
    found.set()
    assert time.monotonic() - began < 10.0
    assert store.is_away
