"""The errors of aiohttp as those of httpx, which are classified; no message of theirs shows what was sent or came."""

from __future__ import annotations

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError

from rungwise.adapters.http.aiohttp_protocol import NotHttp

UNANSWERED = "Server disconnected without sending a response."


def as_ours(error: Exception) -> Exception:
    """Return what an error of aiohttp's amounts to; what is no error of the network is returned as it is.

    Only what the system or TLS said is its cause: aiohttp's own errors hold the request with its key. They are kept by
    what raised them, too, so their tracebacks are taken off, which would be cycles.
    """
    told = error if isinstance(error, httpx.HTTPError) else _as_ours(error)
    if told is not error:
        link: BaseException | None = error
        while link is not None:
            link.__traceback__ = None
            link = link.__cause__
    return told


def _as_ours(error: Exception) -> Exception:
    if isinstance(error, aiohttp.ClientConnectorError):
        return _from(error, httpx.ConnectError)
    if isinstance(error, NotHttp):
        return httpx.RemoteProtocolError(str(error))
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return httpx.RemoteProtocolError(UNANSWERED)
    if isinstance(error, aiohttp.ClientPayloadError):
        broken = _system(error)
        if broken is not None:
            return _from(error, httpx.ReadError)
        return httpx.RemoteProtocolError(f"the body is broken or incomplete ({_kind(error)})")
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        what, quotes, _ = error.message.partition(":\n")  # behind that it shows what came
        return httpx.RemoteProtocolError(f"the answer is not HTTP: {what if quotes else _kind(error)}")
    if isinstance(error, OSError):
        return _from(error, httpx.ReadError)
    if isinstance(error, aiohttp.ClientError):
        return httpx.ReadError(f"the connection broke ({_kind(error)})")
    return error


def _from(error: Exception, kind: type[httpx.TransportError]) -> httpx.TransportError:
    """Return an error of a kind that has what the system said as its cause."""
    cause = _system(error)
    told = kind(str(cause or error))
    told.__cause__ = cause
    return told


def _system(error: BaseException) -> OSError | None:
    """Return what the system or TLS said: it lies under what aiohttp made of it."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and not isinstance(link, aiohttp.ClientError):
            return link
        link = link.__cause__
    return None


def _kind(error: BaseException) -> str:
    return type(error.__cause__ or error).__name__
