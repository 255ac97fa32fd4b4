"""Classify a response that is a failure, or an exception: by its class's name, so that no HTTP
client is imported.

Theory

A status does not say enough: a 400 may be a context that is too long, a parameter that one provider
does not know, a filter, or a bug of the caller; a 429 may be a rate to wait out, or a quota that is
spent for the month. The reason decides what the call does next, so it is read from three kinds of
evidence, the strongest first:

* *Structured codes* (`error.code`, `error.type`) are a provider's promise, and count on any status.
* *Business numbers and prose* count on the statuses of their rule alone: the same words stand in
  other errors too.
* *The status* decides where nothing else does (`STATUSES`, then its class of hundred).

The rules are tried in order, the specific before the general. Providers quote prompts in their
prose, and a prompt may say anything. So no wording leads to a compaction, a refusal or a repair
against a code that names another reason (`_contradicts`). Where a rule would need a detail that the
body does not have, such as the parameter to leave out, it does not count.

What a wrong reason costs: a retry that was in vain, or a fallback that was not needed. It never
costs text, and the budgets hold whatever the reason is.
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


def classify_response(
    status: int | None,
    headers: Mapping[str, str],
    body: object,
) -> Failure:
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
    message = ""
    if error.prose:
        message = without_halves(error.prose[0])
    parameter = available_tokens = largest_output = None
    if reason == "parameter_unsupported":
        parameter = error.parameter
    elif reason == "output_cap":
        available_tokens = error.available_tokens
        largest_output = error.largest_output
    found = "check base_url and model" if reason == "not_found" else None
    should_retry = names.get("x-should-retry", "").lower()
    return Failure(
        reason,
        status=status,
        code=error.code,
        message=message,
        asked_wait=asked_wait(names, decoded, error.text),
        should_retry={"true": True, "false": False}.get(should_retry),
        parameter=parameter,
        available_tokens=available_tokens,
        largest_output=largest_output,
        found=found,
    )


def _reason_of(error: ErrorBody, status: int | None, *, is_object: bool) -> Reason:
    effective = status
    if status is None or 200 <= status < 300:
        effective = error.status
    # a repair needs to know what to repair
    details = {"output_cap": error.available_tokens, "parameter_unsupported": error.parameter}
    rules = [rule for rule in RULES if details.get(rule.reason, "") is not None]
    by_name = None
    for rule in rules:
        if rule.is_named(error, effective):
            by_name = rule
            break
    for rule in rules:
        if rule is by_name:
            return rule.reason
        if rule.is_worded(error, effective) and not _contradicts(rule, by_name):
            return rule.reason
    if effective is not None:
        return STATUSES.get(effective) or STATUS_CLASSES.get(effective // 100, "unknown")
    has_words = bool(error.words or error.prose)
    if status is None or (is_object and has_words):
        return "unknown"
    return "malformed"


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

# Which part of connecting failed, by the names of classes and their wordings. They come from four
# HTTP clients and three systems.
_PHASES: Final = {
    "the proxy refused it": r"\bproxyerror\b",
    "the name was not found": r"\bgaierror\b|\bname of the host cannot be found"
    r"|\bname or service not known|getaddrinfo failed|\bname resolution\b|\bnodename nor",
    "the connection was refused": r"\bconnectionrefusederror\b|\b(connection|actively) refused",
    "TLS failed": r"\bssl\w*error\b|\[ssl\b|\btls\b",
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


def classify_exception(exception: BaseException, outer: BaseException | None = None) -> Failure:
    """Classify what a transport raised, by its causes too, to a depth of 5.

    Arguments:
        exception: what was raised.
        outer: what the caller was handling already, which is no cause of it.

    Raises:
        BaseException: `exception` itself, if it is a local bug or no error (a cancellation, an
            interrupt).
    """
    reason = None
    if isinstance(exception, Exception):
        reason = _transport_reason(exception)
    if reason is None:
        raise exception
    found = None
    if reason in ("connection", "unreachable"):
        found = _phase_of(exception, outer)
    elif type(exception).__name__ == _NAMES["auth"]:  # it quotes nothing
        found = str(exception)
    return Failure(reason, message=str(exception), found=found, exception=exception)


def _phase_of(exception: BaseException, outer: BaseException | None) -> str | None:
    """Say which part of connecting failed, if that is known; see `classify_exception`."""
    link: BaseException | None = exception
    for _ in range(2 * _DEPTH):
        if link is None or link is outer:
            break
        text = f"{type(link).__name__}: {link}"
        for what, words in _PHASES.items():
            if re.search(words, text, re.IGNORECASE):
                return what
        if isinstance(link, BaseExceptionGroup):  # of several addresses
            link = link.exceptions[0]
        else:  # even what was suppressed: httpcore suppresses what the socket has raised
            link = link.__cause__ or link.__context__
    return None


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
    for wording, underlying in _UNDERLYING.items():
        if re.search(wording, text, re.IGNORECASE):
            return underlying
    return reason


def _named_reason(exception: BaseException) -> Reason | None:
    for kind in type(exception).__mro__:
        if kind.__name__ in _TRANSPORT:
            return _TRANSPORT[kind.__name__]
    return None


def _chain(exception: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = exception
    for _ in range(_DEPTH + 1):
        if link is None:
            return
        yield link
        before = None if link.__suppress_context__ else link.__context__
        link = link.__cause__ or before
