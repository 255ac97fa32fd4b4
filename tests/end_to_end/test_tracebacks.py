"""No traceback, rendered with its variables, shows a key; the caller's own variables stay in it."""

import asyncio
import io
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import rich.console
import rich.traceback

import rungwise
from rungwise import Cancellation, Client, ConfigurationError, OpenAIChat
from rungwise.core import Request
from rungwise.testing import ScriptedReply
from support.plain import user
from support.sampling import sampled

# Put together here, so that no quoted line of source holds them.
KEY = "-".join(["sk", "canary" * 3])
HEADER = "-".join(["header", "canary" * 3])
PROMPT = "-".join(["prompt", "canary" * 3])
SECRETS = (KEY, HEADER)

ANSWER = ScriptedReply("In the reeds.")
TOO_LONG = ScriptedReply(status=413)
FAST = rungwise.Policy(
    limits=rungwise.Limits(retries=0),
    timeouts=rungwise.Timeouts(
        connect=0.2,
        first_token=0.2,
        stall=0.2,
        total=0.4,
    ),
)


def backend(url: str, kind: type[OpenAIChat] = OpenAIChat) -> OpenAIChat:
    return kind(
        "model",
        base_url=url,
        api_key=KEY,
        headers={"x-api-key": HEADER, "x-team": HEADER},
    )


def rendered(error: BaseException) -> dict[str, str]:
    kind = type(error)
    trace = error.__traceback__
    texts = {
        "traceback": "".join(
            traceback.TracebackException(kind, error, trace, capture_locals=True).format()
        )
    }
    console = rich.console.Console(file=io.StringIO(), width=300)
    many = {
        "locals_max_string": None,
        "locals_max_length": None,
        "extra_lines": 0,
    }
    console.print(
        rich.traceback.Traceback.from_exception(kind, error, trace, show_locals=True, **many)
    )
    texts["rich"] = console.file.getvalue()
    if trace is None:  # an error of the HTTP layer has none at all
        return texts
    info: pytest.ExceptionInfo[Any] = pytest.ExceptionInfo.from_exception(error)
    texts["pytest"] = str(info.getrepr(showlocals=True, style="long"))
    # it fails on those
    if sys.version_info < (3, 13) and not isinstance(error, (httpx.RequestError, OSError)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import cgitb
        texts["cgitb"] = cgitb.text((kind, error, trace))
    return texts


def assert_silent(error: BaseException) -> None:
    kept = getattr(getattr(error, "result", None), "failures", ())
    for each in (
        error,
        *(failure.exception for _, failure in kept if failure.exception is not None),
    ):
        for name, text in rendered(each).items():
            assert type(each).__name__ in text, name
            for secret in SECRETS:
                assert secret not in text, f"{name}\n{text}"
        request = getattr(each, "_request", None)
        if request is not None:
            assert not request.headers
    assert not any(secret in repr(error) for secret in SECRETS)


def message() -> dict[str, Any]:
    return user(PROMPT)


class Stopped(BaseException):
    """An exception that no handler of errors takes, as a KeyboardInterrupt is."""


def stop(*_: Any) -> Any:
    raise Stopped


class Undecodable(OpenAIChat):
    def decode(self, *args: Any) -> Any:
        raise TypeError("a bug")

    def decoder(self, *args: Any) -> Any:
        raise TypeError("a bug")


class Unsendable(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Break inside the HTTP client, where the request stands in every frame."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        told = [*request.headers.raw, request.content]
        raise Stopped(len(told))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


MODES = pytest.mark.parametrize("mode", sampled(["call", "stream", "acall", "astream"], one_in=4))
BOTH = pytest.mark.parametrize("mode", sampled(["call", "stream", "astream", "acall"], one_in=2))


def no_json() -> dict[str, Any]:
    return {"x": {PROMPT: object()}}


def asked(given: Callable[[], Any]) -> Any:
    value = given()
    return value if isinstance(value, Request) else [value]


def run(mode: str, client: Client, given: Callable[[], Any] = message, **options: Any) -> None:
    """Make a call from a frame that holds nothing private itself."""
    if mode == "call":
        client.call(asked(given), **options)
    elif mode == "stream":
        with client.stream(asked(given), **options) as stream:
            for _ in stream:
                pass
    else:
        asyncio.run(run_async(mode, client, given, **options))


async def run_async(mode: str, client: Client, given: Callable[[], Any], **options: Any) -> None:
    async with client:
        if mode == "acall":
            await client.acall(asked(given), **options)
            return
        async with client.astream(asked(given), **options) as stream:
            async for _ in stream:
                pass


def unserialisable() -> dict[str, Any]:
    return user([PROMPT, object()])


def nameless() -> dict[str, Any]:
    return {"role": PROMPT, "content": PROMPT}


def caught(
    mode: str, client: Client, given: Callable[[], Any] = message, **options: Any
) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011  (each place raises its own)
        run(mode, client, given, **options)
    return raised.value


WRONG: list[tuple[Callable[[], Any], dict[str, Any]]] = [
    (unserialisable, {}),
    (nameless, {}),
    (message, {"max_token": 1}),
    (lambda: Request([message()], headers={"x": f"{HEADER}\n"}), {}),
    (lambda: Request([message()], parameters=no_json()), {}),
]


@pytest.mark.full
@MODES
@pytest.mark.parametrize(("given", "options"), WRONG)
def test_of_what_cannot_be_sent(
    serve: Any,
    mode: str,
    given: Any,
    options: Any,
) -> None:
    with Client(backend(serve(ANSWER).base_url)) as client:
        error = caught(mode, client, given, **options)
    assert isinstance(error, ConfigurationError)
    assert_silent(error)


@MODES
def test_of_a_bug_in_a_backend(serve: Any, mode: str) -> None:
    with Client(backend(serve(ANSWER).base_url, Undecodable)) as client:
        error = caught(mode, client)
    assert isinstance(error, TypeError)
    assert_silent(error)


@MODES
def test_of_a_refused_connection_a_timeout_and_a_body_that_breaks(
    serve: Any, mode: str, dead_url: str
) -> None:
    hangs = serve(ScriptedReply(hang=True))
    breaks = serve(ScriptedReply("x" * 99, cut_after=40))
    for url in (dead_url, hangs.base_url, breaks.base_url):
        with Client(backend(url), policy=FAST) as client:
            error = caught(mode, client)
        assert isinstance(error, rungwise.Failed)
        assert error.result.failures[0][1].exception is not None
        assert_silent(error)


@pytest.mark.full
@BOTH
def test_of_an_observer_and_a_compactor_that_raise(serve: Any, mode: str) -> None:
    with Client(backend(serve(ANSWER).base_url), observer=stop) as client:
        assert_silent(caught(mode, client))

    def compact(messages: Any) -> Any:
        mine = len(messages)
        raise ValueError(mine)

    with Client(backend(serve(TOO_LONG).base_url), compactor=compact) as client:
        error = caught(mode, client)
    assert isinstance(error, ValueError)
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert frames[-1]["mine"] == 1, "the caller's own variables stay"
    assert any(frame.get("client") is client for frame in frames)
    assert_silent(error)


@pytest.mark.full
@MODES
def test_of_an_interruption_inside_the_http_client(mode: str) -> None:
    transport = Unsendable()
    with Client(
        backend("http://127.0.0.1:1/v1"),
        http=httpx.Client(transport=transport),
        async_http=httpx.AsyncClient(transport=transport),
    ) as client:
        error = caught(mode, client)
    assert isinstance(error, Stopped)
    assert not any(
        frame.name == "handle_request" for frame in traceback.extract_tb(error.__traceback__)
    )
    assert_silent(error)


@pytest.mark.parametrize("mode", ["call", "stream"])
def test_of_a_cancelled_call(serve: Any, mode: str) -> None:
    cancellation = Cancellation()
    timer = threading.Timer(0.1, cancellation.cancel)
    timer.start()
    with Client(backend(serve(ScriptedReply(hang=True)).base_url)) as client:
        error = caught(mode, client, cancellation=cancellation)
    timer.join()
    assert isinstance(error, rungwise.Cancelled)
    assert_silent(error)


@pytest.mark.parametrize("mode", ["acall", "astream"])
def test_of_a_cancelled_task(serve: Any, mode: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(0.1):
            await run_async(
                mode, Client(backend(serve(ScriptedReply(hang=True)).base_url)), message
            )

    with pytest.raises(TimeoutError) as raised:
        asyncio.run(main())
    assert isinstance(raised.value.__cause__, asyncio.CancelledError)
    assert_silent(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prices": 3},
        {"base_url": 3},
        {"cap_field": "x"},
        {"headers": {"x": f"{HEADER}\n"}},
        {"api_key": f"{KEY}\n"},
    ],
)
def test_of_a_backend_that_cannot_be_built(wrong: Any) -> None:
    given = {"api_key": KEY, "headers": {"x-api-key": HEADER}, **wrong}
    with pytest.raises(ConfigurationError) as raised:
        OpenAIChat("model", **given)
    given.clear()
    wrong = {}
    assert_silent(raised.value)


def test_what_the_caller_was_handling_stays_as_it_was(dead_url: str) -> None:
    def fails() -> None:
        mine = [1, 2, 3]
        raise LookupError(len(mine))

    with Client(backend(dead_url), policy=FAST) as client:
        try:
            fails()
        except LookupError as own:
            assert_silent(caught("call", client))
            frames = [frame.f_locals for frame, _ in traceback.walk_tb(own.__traceback__)]
    assert frames[-1] == {"mine": [1, 2, 3]}


@MODES
def test_of_headers_of_one_call(serve: Any, mode: str, dead_url: str) -> None:
    with Client(backend(dead_url), policy=FAST) as client:
        assert_silent(
            caught(mode, client, lambda: Request([message()], headers={"x-api-key": HEADER}))
        )
        for headers in ({"x-api-key": HEADER}, {"x-api-key": f"{HEADER}\n"}):
            error = caught(mode, client, headers=headers)
            frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
            ours = [frame.f_locals for frame in frames if "adapters" in frame.f_code.co_filename]
            assert ours
            assert not any(
                HEADER in repr(value) for variables in ours for value in variables.values()
            )


def test_of_a_chain_with_something_else_in_it() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Client([backend("http://localhost:1/v1"), "a text"])  # type: ignore[list-item]
    assert_silent(raised.value)
