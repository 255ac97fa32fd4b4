"""Classify the exceptions of a transport by the names of their classes, so that no HTTP client is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rungwise.fsm.errors import RungwiseError
from rungwise.fsm.failures.failure import Failure, Reason

# The classes of httpx, httpx2, httpcore and the standard library; None marks files, which are no network.
_NAMES: Final[dict[Reason | None, str]] = {
    "timeout": "TimeoutException ConnectTimeout ReadTimeout WriteTimeout PoolTimeout TimeoutError",
    "certificate": "SSLCertVerificationError",
    "auth": "KeyFunctionError",
    "unreachable": "ConnectError ConnectionRefusedError gaierror",
    "connection": "NetworkError ReadError WriteError CloseError ProtocolError LocalProtocolError "
    "RemoteProtocolError ProxyError TransportError RequestError OSError",
    "malformed": "DecodingError",
    "format": "UnsupportedProtocol InvalidURL TooManyRedirects",
    None: "FileNotFoundError FileExistsError IsADirectoryError NotADirectoryError",
}
_TRANSPORT: Final = {name: reason for reason, names in _NAMES.items() for name in names.split()}

# The real cause of a failed connection. A header that cannot be sent is nearly always a key with a line break.
_UNDERLYING: Final[dict[str, Reason]] = {"certificate.verify.failed": "certificate", "illegal header value": "auth"}

# These are bugs of ours or of the caller, even if a failure of the network was handled before them.
_NEVER_WRAPPERS: Final = (
    *(RungwiseError, ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError),
    *(NotImplementedError, RecursionError, OSError, TypeError, ValueError),
)
_DEPTH: Final = 5


def classify_exception(exception: BaseException) -> Failure:
    """Classify what a transport raised, by its causes too, to a depth of 5.

    Raises:
        BaseException: `exception` itself, if it is a local bug or no error (a cancellation, an interrupt).
    """
    reason = _transport_reason(exception) if isinstance(exception, Exception) else None
    if reason is None:
        raise exception
    return Failure(reason, message=str(exception), exception=exception)


def _transport_reason(exception: BaseException) -> Reason | None:
    links = tuple(_chain(exception))
    reasons: list[Reason] = [reason for reason in map(_named_reason, links) if reason is not None]
    reason = _named_reason(exception)
    if reason is None and reasons and not isinstance(exception, _NEVER_WRAPPERS):
        reason = reasons[0]
    if reason == "auth" and len(reasons) > 1:  # what the function met on its way to the key
        reason = reasons[1]
    if reason not in ("connection", "unreachable"):
        return reason
    if "certificate" in reasons:
        return "certificate"
    text = "\n".join(map(str, links))
    underlying = (why for wording, why in _UNDERLYING.items() if re.search(wording, text, re.IGNORECASE))
    return next(underlying, reason)


def _named_reason(exception: BaseException) -> Reason | None:
    names = (kind.__name__ for kind in type(exception).__mro__)
    return next((_TRANSPORT[name] for name in names if name in _TRANSPORT), None)


def _chain(exception: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = exception
    for _ in range(_DEPTH + 1):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
