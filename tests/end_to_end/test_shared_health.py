"""What one process has met, the others know: through a real Redis server, by the provider's own
count.
"""

import re
import subprocess
import sys
import threading
import time
from typing import Any

import attrs
import pytest
import redis
from attrs import define, field

import rungwise
from rungwise import Client, ConfigurationError, Health, OpenAIChat
from rungwise.adapters.stores.redis_overview import RedisOverview
from rungwise.adapters.stores.store import perform
from rungwise.testing import Clocks, ReceivedRequest, ScriptedReply
from support.command_line import invoke, refused
from support.modes import Caller, waits_into
from support.redis_server import RedisServer

pytestmark = [pytest.mark.sampled(1), pytest.mark.usefixtures("redis_server")]

DOWN, ANSWER, OTHER = (
    ScriptedReply(status=503),
    ScriptedReply("In the reeds."),
    ScriptedReply("Elsewhere."),
)

CALLS = """
import sys
from rungwise import Client, Health, OpenAIChat
from rungwise.adapters.stores import redis_store
from rungwise.testing import Clocks
redis_store.TIMEOUT = 20.0  # the machine may be busy
primary, second, store, calls = sys.argv[1:]
chain = [OpenAIChat("m", base_url=url, name=name) for name, url in (("primary", primary), ("second", second))]
client = Client(chain, store=store, health=Health(first=0.2, longest=0.2), testing=Clocks(sleep=lambda seconds: None))
print(sum(client.call("Where?").outcome == "done" for _ in range(int(calls))))
"""  # noqa: E501


@define
class Lake:
    """Two servers, of which the first counts how many requests it has at once."""

    reply: ScriptedReply = DOWN
    at_once: list[int] = field(factory=list)
    _under_way: int = 0
    _lock: Any = field(factory=threading.Lock)
    chain: Any = None
    primary: Any = None

    def answer(self, request: ReceivedRequest) -> ScriptedReply:
        with self._lock:
            self._under_way += 1
            self.at_once.append(self._under_way)
        time.sleep(0.02)
        with self._lock:
            self._under_way -= 1
        return self.reply


@pytest.fixture
def lake(serve: Any, backend_of: Any) -> Lake:
    lake = Lake()
    lake.primary, second = serve(lake.answer), serve(OTHER)
    lake.chain = [backend_of(lake.primary), backend_of(second, name="second")]
    return lake


def test_the_first_call_of_another_process_sends_nothing_to_a_backend_that_is_down(
    mode: str, lake: Lake, redis_url: str
) -> None:
    options = {"store": redis_url, **waits_into([])}
    with Caller(mode, lake.chain, **options) as one, Caller(mode, lake.chain, **options) as other:
        assert one.ask().text == OTHER.text
        asked = len(lake.primary.requests)
        assert other.ask().text == OTHER.text
        assert len(lake.primary.requests) == asked == 2
        assert other.client.health()["primary"].why == "503, 2 in a row"
        with redis.Redis.from_url(redis_url) as client:
            client.flushall()
        lake.reply = ANSWER
        assert other.ask().text == ANSWER.text


@pytest.mark.full
def test_of_eight_processes_one_at_a_time_tries_it(lake: Lake, redis_url: str) -> None:
    urls = [each.base_url for each in lake.chain]
    chain = [OpenAIChat("m", base_url=url, name=url) for url in urls]
    Client(
        chain,
        store=redis_url,
        health=Health(first=0.2, longest=0.2),
        testing=Clocks(sleep=lambda seconds: None),
    ).call("Where?")
    before = len(lake.primary.requests)
    command = [sys.executable, "-c", CALLS, *urls, redis_url, "100"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert [process.communicate()[0].strip() for process in processes] == ["100"] * 8
    tried = lake.at_once[before:]
    assert 1 <= len(tried) < 60
    assert max(tried) == 1


def test_calls_go_on_when_the_server_dies_and_when_it_is_back(mode: str, lake: Lake) -> None:
    with RedisServer() as server:
        options = {"store": server.url, **waits_into([])}
        with Caller(mode, lake.chain, **options) as caller:
            assert caller.ask().text == OTHER.text
            server.kill()
            assert caller.ask().text == OTHER.text
            assert len(lake.primary.requests) == 2
            server.start()
            assert caller.ask().text == OTHER.text


def test_a_store_that_does_not_answer_costs_a_call_little(lake: Lake) -> None:
    lake.reply = ANSWER
    began = time.monotonic()
    with Client(lake.chain, store="redis://127.0.0.1:1/0") as client:
        for _ in range(5):
            assert client.call("Where?").text == ANSWER.text
    assert time.monotonic() - began < 5.0


def test_a_store_needs_its_extra(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'rungwise\[redis\]'"):
        Client(lake.chain, store="redis://localhost:6379/0")


@pytest.mark.parametrize("store", [6379, True, b"redis://localhost"])
def test_anything_but_a_url_is_refused(lake: Lake, store: Any) -> None:
    with pytest.raises(ConfigurationError, match="store must be a URL"):
        Client(lake.chain, store=store)


# the command


def test_the_command_shows_what_is_remembered(lake: Lake, redis_url: str) -> None:
    assert invoke("health", "--store", redis_url).stdout == "nothing is remembered of any backend\n"
    chain = [attrs.evolve(lake.chain[0], api_key="sk-1f3870be274f6c49"), lake.chain[1]]
    Client(chain, store=redis_url, testing=Clocks(sleep=lambda seconds: None)).call("Where?")
    told = invoke("health", "--store", redis_url)
    head, line = told.stdout.splitlines()
    assert (told.exit_code, head.split()) == (
        1,
        ["backend", "key", "state", "asked", "again", "why", "quota"],
    )
    name, key, state, _, why = line.split(maxsplit=4)
    assert (name, len(key), state, why) == ("primary", 4, "open", "503, 2 in a row")
    assert "sk-1f3870be274f6c49" not in line
    assert '"state": "open"' in invoke("health", "--store", redis_url, "--json").stdout


def test_the_command_shows_what_is_used_of_a_quota(lake: Lake, redis_url: str) -> None:
    lake.reply = ANSWER
    chain = [attrs.evolve(lake.chain[0], quota=rungwise.Quota(requests_per_minute=4, concurrent=2))]
    Client(chain, store=redis_url).call("Where?")
    told = invoke("health", "--store", redis_url)
    assert told.exit_code == 0
    assert re.match(r"primary +\w+ +closed +2[345]% of the requests$", told.stdout.splitlines()[1])


@pytest.mark.parametrize(
    "meter", ["3", '{"requests": "x", "leases": 3, "queue": {}}', '{"requests": 1e99, "name": []}']
)
def test_a_meter_that_somebody_else_wrote_is_shown_as_nothing(redis_url: str, meter: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("rungwise:quota:x", meter)
    told = invoke("health", "--store", redis_url)
    assert (told.exit_code, told.stdout.splitlines()[1].split()[2:]) == (0, ["closed"])


def test_a_backend_is_drained_by_hand_and_no_answer_ends_that(
    serve: Any, backend_of: Any, redis_url: str
) -> None:
    command = ("health", "--store", redis_url)
    asked: list[ReceivedRequest] = []

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if not asked:  # while the first call is in flight
            store = RedisOverview(redis_url, time.monotonic)
            perform(store, store.open("primary", 600.0))
        asked.append(request)
        return ANSWER

    chain = [backend_of(serve(answer)), backend_of(serve(OTHER), name="second")]
    with Client(chain, store=redis_url) as client:
        assert client.call("Where?").text == ANSWER.text
        passed, *_ = client.call("Where?").journal.steps
        assert (passed.event, passed.backend) == ("found_open", "primary")
        assert str(passed.note).endswith(": by hand")
        assert client.health()["primary"].state == "open"
        told = invoke(*command)
        assert told.exit_code == 1
        assert re.match(r"primary +all +open +\S+Z +by hand$", told.stdout.splitlines()[1])
        closed = invoke(*command, "--close", "primary")
        assert (closed.exit_code, closed.stderr) == (0, "primary is closed\n")
        assert client.call("Where?").text == ANSWER.text
        assert len(asked) == 2
        assert invoke(*command).exit_code == 0


def test_the_command_opens_for_a_time_and_closes_what_attempts_have_opened(
    lake: Lake, redis_url: str
) -> None:
    command = ("health", "--store", redis_url)
    opened = invoke(*command, "--open", "second", "--for", "10m")
    assert (opened.exit_code, opened.stdout) == (0, "")
    assert opened.stderr.startswith("second is open until 20")
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        [key] = client.keys("*")
        assert 500_000 < client.pttl(key) <= 600_000
    with Client(lake.chain, store=redis_url, testing=Clocks(sleep=lambda seconds: None)) as caller:
        # whose other backends are all open, the first to come due is asked
        assert caller.call("Where?").text == OTHER.text
        assert caller.health()["primary"].state == "open"
        assert invoke(*command, "--close", "primary").exit_code == 0
        lake.reply = ANSWER
        assert caller.call("Where?").text == ANSWER.text
    assert "second" in invoke(*command, "--json").stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--open x", "give either"),
        ("--for 10m", "give either"),
        ("--open x --for 0s", "give either"),
        ("--open x --for 10m --close x", "give either"),
        ("--open x --for soon", "not a duration"),
        ("--close x", "the store cannot be reached"),
    ],
)
def test_what_cannot_be_done_by_hand_is_refused(options: str, says: str) -> None:
    assert says in refused("health", "--store", "redis://127.0.0.1:1/0", *options.split())


def test_the_command_says_what_is_wrong(redis_url: str) -> None:
    assert "nothing is remembered of x" in refused("health", "--store", redis_url, "--close", "x")
    away = invoke("health", "--store", "redis://127.0.0.1:1/0")
    assert away.exit_code == 2
    assert "the store cannot be reached" in away.stderr
    assert invoke("health", "--store", "localhost").exit_code == 2
    assert "--store" in invoke("health").stderr


def test_a_value_that_somebody_else_wrote_cannot_break_the_terminal(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        name = "\x1b]0;owned\x07" * 50
        client.set(
            "rungwise:health:x",
            f'{{"state": "open", "spent": [0, 0], "until": 1e14, "name": "{name}"}}',
        )
        client.set(
            "rungwise:health:y",
            '{"state": "open", "spent": [0, 0], "until": 1e14, "name": "\\u001b]0;x"}',
        )
    told = invoke("health", "--store", redis_url)
    assert "\x1b" not in told.stdout
    assert len(told.stdout.splitlines()) == 3
