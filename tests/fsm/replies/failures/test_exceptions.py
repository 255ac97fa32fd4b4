"""What an exception of an HTTP client says went wrong."""

import asyncio
import socket
import ssl

import httpcore
import httpx
import pytest

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.classify import classify_exception
from rungwise.fsm.replies.failures.failure import Reason


def raised(exception: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise exception from cause
    except BaseException as caught:
        return caught


CERTIFICATE = ssl.SSLCertVerificationError(
    1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"
)


KINDS: dict[Reason, tuple[type[Exception], ...]] = {
    "timeout": (
        httpx.ConnectTimeout,
        httpx.ReadTimeout,
        httpx.WriteTimeout,
        httpx.PoolTimeout,
        httpcore.ReadTimeout,
        httpcore.PoolTimeout,
        TimeoutError,
        asyncio.TimeoutError,
    ),
    "unreachable": (
        httpx.ConnectError,
        httpcore.ConnectError,
        ConnectionRefusedError,
        socket.gaierror,
    ),
    "connection": (
        httpx.ReadError,
        httpx.WriteError,
        httpx.CloseError,
        httpx.RemoteProtocolError,
        httpx.LocalProtocolError,
        httpx.ProxyError,
        httpcore.RemoteProtocolError,
        ConnectionResetError,
        BrokenPipeError,
        OSError,
        ssl.SSLError,
    ),
}


class WrappedByAnSdk(Exception):
    pass


@pytest.mark.parametrize(
    ("reason", "exception"),
    [
        *((reason, kind("x")) for reason, kinds in KINDS.items() for kind in kinds),
        ("format", httpx.UnsupportedProtocol("no scheme")),
        ("format", httpx.InvalidURL("x")),
        ("malformed", httpx.DecodingError("x")),
        ("certificate", CERTIFICATE),
        (
            "certificate",
            raised(httpx.ConnectError("x"), raised(httpcore.ConnectError("x"), CERTIFICATE)),
        ),
        (
            "certificate",
            httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"),
        ),
        ("auth", httpx.LocalProtocolError("Illegal header value b'Bearer sk-1\\n'")),
        ("unreachable", raised(WrappedByAnSdk("x"), httpx.ConnectError("x"))),
        ("certificate", raised(ConnectionRefusedError("x"), CERTIFICATE)),
        ("certificate", raised(WrappedByAnSdk("x"), raised(httpx.ConnectError("x"), CERTIFICATE))),
    ],
)
def test_names_what_the_transport_raised(reason: Reason, exception: BaseException) -> None:
    failure = classify_exception(exception)
    assert (failure.reason, failure.status) == (reason, None)
    assert failure.exception is exception
    assert failure.message == str(exception)


def test_a_client_unknown_here_is_recognised_by_its_names() -> None:
    class TransportError(Exception): ...

    class ReadTimeout(Exception): ...

    assert classify_exception(TransportError()).reason == "connection"
    assert classify_exception(ReadTimeout()).reason == "timeout"


def test_the_chain_is_walked_to_a_depth_of_five() -> None:
    def wrapped(times: int) -> BaseException:
        exception: BaseException = CERTIFICATE
        for _ in range(times):
            exception = raised(httpx.ConnectError("x"), exception)
        return exception

    assert classify_exception(wrapped(5)).reason == "certificate"
    assert classify_exception(wrapped(6)).reason == "unreachable"


def test_a_chain_without_end_is_left() -> None:
    first = WrappedByAnSdk("a")
    second = WrappedByAnSdk("b")
    first.__cause__ = second
    second.__cause__ = first
    with pytest.raises(WrappedByAnSdk):
        classify_exception(first)


def test_an_earlier_certificate_does_not_colour_a_timeout() -> None:
    assert classify_exception(raised(httpx.ReadTimeout("x"), CERTIFICATE)).reason == "timeout"


@pytest.mark.parametrize(
    "exception",
    [
        *(
            kind("x")
            for kind in (
                TypeError,
                AttributeError,
                ValueError,
                KeyError,
                IndexError,
                NameError,
                AssertionError,
                RuntimeError,
                RecursionError,
                ZeroDivisionError,
                ImportError,
                FileNotFoundError,
            )
        ),
        ConfigurationError("x"),
        WrappedByAnSdk("x"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "x"),
        raised(TypeError("x"), httpx.ConnectError("handled before")),
        raised(FileNotFoundError("x"), httpx.ConnectError("handled before")),
        httpx.StreamConsumed(),
    ],
)
def test_bugs_are_raised_again(exception: Exception) -> None:
    with pytest.raises(type(exception)) as caught:
        classify_exception(exception)
    assert caught.value is exception


@pytest.mark.parametrize(
    "exception", [KeyboardInterrupt(), asyncio.CancelledError(), SystemExit(), GeneratorExit()]
)
def test_what_is_no_error_is_raised_again(exception: BaseException) -> None:
    with pytest.raises(type(exception)):
        classify_exception(exception)
