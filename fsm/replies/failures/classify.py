"""Classify a response that is a failure, or an exception: by its class's name, so that no HTTP
client is imported.

`ErrorBody` reads the body, the first of the `RULES` that fits names the reason, and `STATUSES`
decides for the rest. A structured code counts on any status; numbers and prose only on the statuses
of their rule. Providers quote prompts in their prose, so no wording leads to a compaction, a
refusal or a repair against a code that names another reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from rungwise.fsm.errors import RungwiseError
from rungwise.fsm.replies.failures.asked_wait import asked_wait, plain_headers
from rungwise.fsm.replies.failures.body import ErrorBody, decoded_body
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.replies.failures.rules import (
    BY_CODE_FIRST,
    REFINED_BY_PROSE,
    RULES,
    STATUS_CLASSES,
    STATUSES,
    Rule,
)
from rungwise.fsm.replies.text.contents import without_halves


def classify_response(status: int | None, headers: Mapping[str, str], body: object) -> Failure:
    """Classify a response that is a failure; never raises.

    Arguments:
        status: the HTTP status; None for an error event inside a stream that began with 200.
    """
    names = plain_headers(headers)
    decoded = decoded_body(body)
    error = ErrorBody()
    error.read(decoded)
    error.add_words([names.get("x-amzn-errortype", "").partition(":")[0]])
    reason = _reason_of(error, status, is_object=not isinstance(decoded, str))
    return Failure(
        reason,
        status=status,
        code=error.code,
        message=without_halves(error.prose[0]) if error.prose else "",
        asked_wait=asked_wait(names, decoded, error.text),
        should_retry={"true": True, "false": False}.get(names.get("x-should-retry", "").lower()),
        parameter=error.parameter if reason == "parameter_unsupported" else None,
        available_tokens=error.available_tokens if reason == "output_cap" else None,
        largest_output=error.largest_output if reason == "output_cap" else None,
    )


def _reason_of(error: ErrorBody, status: int | None, *, is_object: bool) -> Reason:
    effective = error.status if status is None or 200 <= status < 300 else status
    details = {"output_cap": error.available_tokens, "parameter_unsupported": error.parameter}
    rules = [rule for rule in RULES if details.get(rule.reason, "") is not None]
    by_name = next((rule for rule in rules if rule.is_named(error, effective)), None)
    for rule in rules:
        if rule is by_name or (
            rule.is_worded(error, effective) and not _contradicts(rule, by_name)
        ):
            return rule.reason
    if effective is not None:
        return STATUSES.get(effective) or STATUS_CLASSES.get(effective // 100, "unknown")
    return (
        "unknown" if status is None or (is_object and (error.words or error.prose)) else "malformed"
    )


def _contradicts(rule: Rule, by_name: Rule | None) -> bool:
    """Tell whether a structured code rules out what a wording says."""
    if by_name is None or rule.reason not in BY_CODE_FIRST or rule.reason == by_name.reason:
        return False
    if by_name.reason == "rate_limit" and rule.prose is None:
        return True  # a 413 may be a rate limit: only words make it a request that is too large
    return rule.reason not in REFINED_BY_PROSE.get(by_name.reason, frozenset())


# The classes of httpx, httpx2, httpcore and the standard library; None marks files, which are no
# network.
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

# The real cause of a failed connection. A header that cannot be sent is nearly always a key with a
# line break.
_UNDERLYING: Final[dict[str, Reason]] = {
    "certificate.verify.failed": "certificate",
    "illegal header value": "auth",
}

# These are bugs of ours or of the caller, even if a failure of the network was handled before them.
_NEVER_WRAPPERS: Final = (
    RungwiseError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    OSError,
    TypeError,
    ValueError,
)
_DEPTH: Final = 5


def classify_exception(exception: BaseException) -> Failure:
    """Classify what a transport raised, by its causes too, to a depth of 5.

    Raises:
        BaseException: `exception` itself, if it is a local bug or no error (a cancellation, an
            interrupt).
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
    underlying = (
        why for wording, why in _UNDERLYING.items() if re.search(wording, text, re.IGNORECASE)
    )
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
