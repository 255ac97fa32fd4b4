"""What a caller builds a client, a request or a provider of: it works, or a clear error says what
would be right.
"""

import re
import socket
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

import rungwise
from rungwise import Client, OpenAIChat, testing
from rungwise.adapters.http.own import CERTIFICATES, PROXIES
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.call.policy import LARGEST_JITTER, SWITCH_AFTER
from rungwise.fsm.values.checks import LONGEST_SECONDS
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.clocked import clocked
from support.command_line import invoke
from support.modes import ask

LOCAL = OpenAIChat("model", base_url="http://localhost:1/v1")
ANSWER, BUSY = ScriptedReply(text="Yes."), ScriptedReply(status=503)


# numbers of seconds


@pytest.mark.parametrize("kind", [rungwise.Waits, rungwise.Timeouts, rungwise.Budget])
@pytest.mark.parametrize("seconds", [1e10, 10**400, float("inf"), float("nan"), -1, True, "5", [5]])
def test_seconds_that_no_clock_takes_are_refused(kind: type, seconds: Any) -> None:
    names = [
        field.name
        for field in attrs.fields(kind)
        if field.name not in ("attempts", "output_tokens", "money")
    ]
    for name in names:
        with pytest.raises(
            rungwise.ConfigurationError, match=rf"^{kind.__name__}\.{name} must be a finite number"
        ) as caught:
            kind(**{name: seconds})
        assert len(str(caught.value)) < 300


UNTIMED = rungwise.Budget(seconds=None)


@pytest.mark.parametrize("seconds", [LONGEST_SECONDS, 1e-3])
def test_the_longest_and_the_shortest_seconds_are_waited_for(
    serve: Any,
    backend_of: Any,
    mode: str,
    seconds: float,
) -> None:
    """A `Timeouts` of a millisecond may end the call; what it may not do is raise anything but an
    error of ours.
    """
    timeouts = rungwise.Timeouts(
        connect=seconds,
        first_token=seconds,
        stall=seconds,
        total=seconds,
    )
    policy = rungwise.Policy(timeouts=timeouts, budget=rungwise.Budget(seconds=seconds, attempts=2))
    short = suppress(rungwise.CallError) if seconds == 1e-3 else nullcontext()
    with (
        Client(
            backend_of(serve(ANSWER)),
            policy=policy,
            testing=rungwise.testing.Clocks(sleep=lambda seconds: None),
        ) as client,
        short,
    ):
        assert ask(client, mode).text == "Yes."


def test_the_longest_wait_is_one_that_a_clock_takes() -> None:
    longest = LONGEST_SECONDS * (1 + LARGEST_JITTER)
    waits = rungwise.Waits(
        retry_base=LONGEST_SECONDS, retry_cap=LONGEST_SECONDS, jitter=LARGEST_JITTER
    )
    call = Call(Request("?"), rungwise.Policy(waits=waits, budget=UNTIMED), jitter=lambda: 1.0)
    call.begin()
    send = call.receive(Failure("server_error"))
    assert send is not None
    # milliseconds in 32 bits, as the strictest of them counts
    assert send.wait == longest < 2**32 / 1000


def test_a_policy_keeps_the_defaults_that_it_does_not_name() -> None:
    named = rungwise.Policy(switch_after={"rate_limit": 1})
    assert dict(named.switch_after) == {
        **SWITCH_AFTER,
        "rate_limit": 1,
        "rate_limit_without_wait": 1,
    }
    assert rungwise.Policy.from_toml("[switch_after]\nrate_limit = 1\n") == named
    assert (
        rungwise.Policy(switch_after={})
        == rungwise.Policy.from_toml("[switch_after]\n")
        == rungwise.Policy()
    )
    assert attrs.evolve(named, base_cap=100).switch_after == named.switch_after


@pytest.mark.parametrize(
    ("given", "requests"), [({"rate_limit": 5}, 2), ({"rate_limit": 5, "overloaded": 1000}, 4)]
)
def test_a_default_of_switch_after_can_be_switched_off(
    run: Any, given: dict[str, int], requests: int
) -> None:
    policy = rungwise.Policy(switch_after=given)
    ended = run([ScriptedReply(status=529)], [ANSWER], policy=policy)
    assert ended.counts == [requests, 1]


# clients, chains and options


@pytest.mark.parametrize(
    "chain",
    [
        "gpt-5",
        b"gpt-5",
        ["gpt-5"],
        5,
        None,
        [],
        {},
        [None],
        OpenAIChat,
        [OpenAIChat],
        [LOCAL, "x"],
        object(),
    ],
)
def test_a_chain_of_anything_but_backends_is_refused(chain: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="chain"):
        Client(chain)


@pytest.mark.parametrize("value", ["x", 5])
@pytest.mark.parametrize(
    "name",
    [
        "policy",
        "http",
        "async_http",
        "observer",
        "compactor",
        "testing",
    ],
)
def test_an_option_of_a_client_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError, match=name):
        Client(LOCAL, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("turn", 5),
        ("within", 5),
        ("tools", 5),
        ("tools", ["x"]),
        ("tools", {}),
        ("max_tokens", "x"),
        ("max_tokens", 0),
        ("max_tokens", True),
        ("max_tokens", 10**400),
        ("max_tokens", 1.5),
        ("input_tokens", -1),
        ("input_tokens", 10**400),
        ("parameters", 5),
        ("parameters", {5: 5}),
        ("parameters", {"x": object()}),
        ("parameters", {"x": 10**5_000}),
        ("parameters", {"x": {1: 2}}),
        ("headers", 5),
        ("headers", {"a": 5}),
        ("headers", {"a": "\n"}),
        ("headers", {"a b": "c"}),
        ("nope", 1),
        ("messages", 5),
        ("messages", None),
        ("messages", b"x"),
        ("messages", [5]),
        ("messages", [{}]),
        *(
            ("messages", wrong)
            for wrong in ({}, [], [{"role": ["user"]}], [{"role": "user", 1: 2}])
        ),
    ],
)
def test_an_option_of_a_call_that_is_none_is_refused_and_nothing_is_sent(
    serve: Any,
    backend_of: Any,
    mode: str,
    name: str,
    value: Any,
) -> None:
    provider = serve(ANSWER)
    asked, given = ([value], {}) if name == "messages" else ([], {name: value})
    backend = backend_of(provider, prices=rungwise.Prices(1, 1))
    with (
        Client(backend, policy=rungwise.Policy(budget=rungwise.Budget(money=1.0))) as client,
        pytest.raises(rungwise.ConfigurationError) as caught,
    ):
        ask(client, mode, *asked, **given)
    assert len(str(caught.value)) < 300
    assert provider.requests == []


@pytest.mark.parametrize(
    "build",
    [
        lambda: Client(LOCAL).call("?", cancellation=5),  # type: ignore[arg-type]
        lambda: Client(LOCAL).stream("?", cancellation=5),  # type: ignore[arg-type]
        lambda: PlainLink(5),  # type: ignore[arg-type]
        lambda: PlainLink(problem=5),  # type: ignore[arg-type]
        lambda: PlainLink(max_tokens=0),
        lambda: PlainLink(prices=5),  # type: ignore[arg-type]
        lambda: rungwise.Prices(10**400, 1),
        lambda: rungwise.Prices(1, float("inf")),
        lambda: rungwise.Budget(money=10**400),
        lambda: rungwise.replay("journal"),  # type: ignore[arg-type]
        lambda: rungwise.Policy(hints=rungwise.Hints(rungs={1: "x"})),  # type: ignore[dict-item]
        lambda: Script(5),  # type: ignore[arg-type]
        lambda: Script(ANSWER),  # type: ignore[arg-type]
        lambda: ScriptedReply(usage={"a": "b"}),
        lambda: ScriptedReply(error={5: "b"}),  # type: ignore[dict-item]
        lambda: EmbeddedProvider([ANSWER]),  # type: ignore[arg-type]
        lambda: EmbeddedProvider(Script([ANSWER]), port=70_000),
        lambda: EmbeddedProvider(Script([ANSWER]), host=5),  # type: ignore[arg-type]
        lambda: ScriptedReply(error={10**5000: "x"}),  # type: ignore[dict-item]
        lambda: ScriptedReply(tool_calls=[{10**5000: "x"}]),  # type: ignore[dict-item]
        lambda: rungwise.verify("policy.toml"),  # type: ignore[arg-type]
        lambda: rungwise.verify(None),  # type: ignore[arg-type]
        lambda: rungwise.verify(5),  # type: ignore[arg-type]
        lambda: rungwise.verify(rungwise.Policy(), chain=[1]),  # type: ignore[list-item]
        lambda: testing.calls_of("x"),  # type: ignore[arg-type]
        lambda: testing.calls_of(rungwise.Policy(), chain=0),
        lambda: testing.calls_of(rungwise.Policy(), chain=[1]),  # type: ignore[list-item]
        lambda: testing.calls_of(rungwise.Policy(), most=0),
        lambda: Reply(text=None),  # type: ignore[arg-type]
        lambda: Reply(reasoning=None),  # type: ignore[arg-type]
        lambda: Reply(tool_calls=None),  # type: ignore[arg-type]
        lambda: Reply(tool_calls=("a",)),  # type: ignore[arg-type]
        lambda: Reply(usage={}),  # type: ignore[arg-type]
        lambda: Failure("nonsense"),  # type: ignore[arg-type]
        lambda: Failure(["rate_limit"]),  # type: ignore[arg-type]
        lambda: Failure("rate_limit", status="429"),  # type: ignore[arg-type]
        lambda: Failure("rate_limit", asked_wait="5"),  # type: ignore[arg-type]
        lambda: Failure("rate_limit", asked_wait=-5),
        lambda: Failure("rate_limit", asked_wait=float("nan")),
        lambda: Failure("rate_limit", asked_wait=float("inf")),
        lambda: Failure("output_cap", available_tokens="x"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_of_its_form_is_refused(build: Callable[[], object]) -> None:
    with pytest.raises(rungwise.ConfigurationError):
        build()


def test_tool_calls_may_come_as_a_list() -> None:
    call = rungwise.ToolCall("1", "look", "{}")
    assert Reply(tool_calls=[call]) == Reply(tool_calls=(call,))  # type: ignore[arg-type]


async def awaited(*given: Any) -> float:
    return 0.0


@pytest.mark.parametrize("value", ["x", 5, None])
@pytest.mark.parametrize("name", ["clock", "sleep", "async_sleep", "wall_clock", "jitter"])
def test_a_clock_that_is_none_is_refused(name: str, value: Any) -> None:
    if (name, value) == ("sleep", None):
        assert rungwise.testing.Clocks(sleep=None).sleep is None  # the thread waits
        return
    with pytest.raises(rungwise.ConfigurationError, match=f"^{name} must be a function, not"):
        rungwise.testing.Clocks(**{name: value})


@pytest.mark.parametrize("name", ["clock", "sleep", "async_sleep", "wall_clock", "jitter"])
def test_an_argument_that_clocks_have_now_says_so(name: str) -> None:
    instead = re.escape(f"write Client(..., testing=rungwise.testing.Clocks({name}=...))")
    with pytest.raises(TypeError, match=instead):
        Client(LOCAL, **{name: lambda: 0.0})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'clocks'"):
        Client(LOCAL, clocks=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["observer", "clock", "sleep", "wall_clock", "jitter"])
def test_a_coroutine_function_in_the_place_of_a_function_is_refused(name: str) -> None:
    with pytest.raises(
        rungwise.ConfigurationError, match=f"{name} must be a function, not a coroutine function"
    ):
        Client(LOCAL, **clocked({name: awaited}))


@pytest.mark.parametrize("mode", ["call", "astream"])
@pytest.mark.parametrize("draw", [None, "x", -5, 1.5, float("nan"), True])
def test_a_draw_that_is_none_is_named(
    serve: Any,
    backend_of: Any,
    mode: str,
    draw: Any,
) -> None:
    with (
        Client(
            backend_of(serve(BUSY)), testing=rungwise.testing.Clocks(jitter=lambda: draw)
        ) as client,
        pytest.raises(rungwise.ConfigurationError, match="jitter must return a number from 0 to 1"),
    ):
        ask(client, mode)


@pytest.mark.parametrize(
    ("mode", "name"), [("call", "sleep"), ("acall", "async_sleep"), ("astream", "async_sleep")]
)
def test_a_sleep_of_the_other_kind_is_named(
    serve: Any,
    backend_of: Any,
    mode: str,
    name: str,
) -> None:
    sleep = (lambda seconds: awaited()) if name == "sleep" else (lambda seconds: None)
    with (
        Client(backend_of(serve(BUSY)), **clocked({name: sleep})) as client,
        pytest.raises(rungwise.ConfigurationError, match=f"^{name} must "),
    ):
        ask(client, mode)


ONE_BY_ONE = r"one by one|must be a ScriptedReply"
NO_CHAIN = r"one by one|the chain must hold"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("fixture", "given", "options", "says"),
    [
        *(
            ("rungwise_provider", given, {}, ONE_BY_ONE)
            for given in [
                ([ANSWER],),
                ((),),
                (5,),
                ("x",),
                (ANSWER, "x"),
                (Script([ANSWER]), ANSWER),
            ]
        ),
        *(
            ("rungwise_provider", (), options, "after")
            for options in [{"port": 5}, {"afer": "error"}, {"after": 5}]
        ),
        # which says that itself
        ("rungwise_provider", (Script([ANSWER]),), {"after": "error"}, "one by one"),
        *(
            ("rungwise_client", (given,), {}, NO_CHAIN)
            for given in [[ANSWER], [LOCAL], None, 5, "x", object]
        ),
        *(
            ("rungwise_client", (LOCAL,), options, "policy")
            for options in [{"polcy": 5}, {"chain": LOCAL}]
        ),
    ],
)
def test_a_fixture_that_is_given_nonsense_refuses_it(
    request: pytest.FixtureRequest,
    fixture: str,
    given: tuple[Any, ...],
    options: dict[str, Any],
    says: str,
) -> None:
    with pytest.raises(rungwise.ConfigurationError, match=says):
        request.getfixturevalue(fixture)(*given, **options)


# the environment


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *CERTIFICATES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def closed_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


SECRET = "hunter2"
REFUSED = (
    ("HTTP_PROXY", "://"),
    ("http_proxy", "http://"),
    ("HTTPS_PROXY", f"http://u:{SECRET}@a..b"),
    ("HTTP_PROXY", f"http://u:{SECRET}@h:b"),
    ("HTTP_PROXY", f"http://u:{SECRET}@127.0.0.1:99999"),
    ("ALL_PROXY", f"socks5://u:{SECRET}@h"),
    ("ALL_PROXY", "socks4://h"),
    ("all_proxy", f"ftp://u:{SECRET}@h"),
    ("NO_PROXY", "[::"),
    ("HTTP_PROXY", "http://\x7f"),
    ("HTTP_PROXY", "http://" + "a" * 64),
    ("SSL_CERT_FILE", "/there/is/none.pem"),
    ("SSL_CERT_FILE", __file__),
)


@pytest.mark.own_connections
@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_variable_that_no_client_can_be_made_of_is_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    name: str,
    value: str,
) -> None:
    if value.startswith("socks5"):
        monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    monkeypatch.setenv(name, value)
    if name == "NO_PROXY":
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    # What is on this machine is reached without a proxy, and without TLS no certificates are read.
    scheme = "https" if name.startswith(("SSL", "HTTPS")) else "http"
    backend = OpenAIChat("model", base_url=f"{scheme}://models.example/v1", api_key="sk-4c1b")
    with (
        Client(backend) as client,
        pytest.raises(rungwise.ConfigurationError, match=name) as caught,
    ):
        ask(client, mode)
    assert SECRET not in str(caught.value)
    assert value not in str(caught.value)


@pytest.mark.parametrize("value", ["garbage.invalid", "127.0.0.1:{}", " ", "http://[::1]:{}"])
def test_a_proxy_that_cannot_be_reached_fails_the_call(
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    value: str,
    closed_port: int,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", value.format(closed_port))
    policy = rungwise.Policy(limits=rungwise.Limits(retries=0))
    backend = OpenAIChat("model", base_url=f"http://127.0.0.1:{closed_port}/v1")
    with Client(backend, policy=policy) as client, pytest.raises(rungwise.Failed):
        ask(client, mode)


@pytest.mark.parametrize(
    "url",
    ["http://a..b", "http://" + "a" * 64, "http://[v1.x]", "http://256.1.1.1", "http://xn--a"],
)
def test_a_host_that_is_none_makes_a_backend_unusable(url: str) -> None:
    problem = OpenAIChat("model", base_url=url, api_key="sk-9d2f6b1c44e07a35").problem
    assert problem == "base_url has a host, or a length, that no request can have"
    with pytest.raises(rungwise.ConfigurationError, match="base_url has a host"):
        Client(OpenAIChat("model", base_url=url, api_key="sk-9d2f6b1c44e07a35"))


# the command line


def files(directory: Path) -> dict[str, Path]:
    """Write files that no reader can take."""
    digits = "9" * 5_000
    levels = "[" * 5_000
    for name, text in {
        "digits.toml": f"retries = {digits}",
        "levels.toml": f"limits = {levels}",
        "digits.json": f'{{"version": {digits}}}',
        "levels.json": levels,
        "odd.json": '{"version": 1, "steps": 5}',
    }.items():
        (directory / name).write_text(text)
    (directory / "bytes.toml").write_bytes(b"\xff\xfe")
    (directory / "bytes.json").write_bytes(b"\xff\xfe")
    return {path.name: path for path in directory.iterdir()}


@pytest.mark.parametrize(
    "name", ["digits.toml", "levels.toml", "bytes.toml", "digits.json", "levels.json", "odd.json"]
)
def test_a_file_that_no_command_can_read_is_one_line_and_code_2(tmp_path: Path, name: str) -> None:
    path = str(files(tmp_path)[name])
    ask = ["ask", "?", "--model", "m", "--base-url", "http://localhost:1", "--policy", path]
    commands = [["explain", path]]
    if name.endswith(".toml"):
        commands = [
            ["verify", path],
            ["diff", path, path],
            ["serve", path],
            ["explain", "--play", path],
            ask,
        ]
        commands.append(["fuzz", path, "--examples", "1"])
    for command in commands:
        ended = invoke(*command)
        assert ended.exit_code == 2, (command, ended.output, ended.exception)
        # What other tests have left behind may be collected while the stack is full, and cannot say
        # why it fails there.
        said = ended.stderr.replace("Exception ignored in sys.unraisablehook", "")
        assert len(said.splitlines()) == 1
        assert len(said) < 500
