"""A request that brought no reply, and the reasons that there are for it."""

from __future__ import annotations

from typing import Any, Final, Literal, NoReturn, get_args

from attrs import field, fields, frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LARGEST, is_number, is_whole
from rungwise.fsm.values.label import label, short

Reason = Literal[
    "auth",
    "billing",
    "rate_limit",
    "overloaded",
    "server_error",
    "timeout",
    "connection",
    "certificate",
    "context_overflow",
    "payload_too_large",
    "output_cap",
    "prefill_unsupported",
    "parameter_unsupported",
    "reasoning_signature",
    "reasoning_missing",
    "failed_generation",
    "model_not_found",
    "content_policy",
    "format",
    "malformed",
    "unknown",
]
"""Why a request failed: the failure taxonomy."""

_REASONS: Final = get_args(Reason)


@frozen
class Failure:
    """Say why a request brought no reply.

    Arguments:
        reason: the class of the failure.
        status: the HTTP status, or None where there was none.
        code: the provider's structured error code, as a `label`: short, printable, on one line.
        message: the provider's message, verbatim; kept out of `repr` and of every log, because providers quote prompts
            and keys.
        asked_wait: seconds that the service asked us to wait, already validated (finite and above 0).
        should_retry: the service's own word (`x-should-retry`), or None.
        parameter: the request parameter that the provider named, for `parameter_unsupported`.
        available_tokens: output tokens that the provider said are available, for `output_cap`.
        is_stale: whether the request went out on a connection that had served another one, and that broke before a byte
            of an answer came: the server had closed it, so the request is sent again at once.
        exception: what was raised, if anything was.

    Raises:
        ConfigurationError: the reason is none of them, or a number is none.
    """

    reason: Reason
    status: int | None = None
    code: str | None = field(default=None, converter=label)
    message: str = field(default="", repr=False)
    asked_wait: float | None = None
    should_retry: bool | None = None
    parameter: str | None = field(default=None, converter=label)
    available_tokens: int | None = None
    is_stale: bool = False
    exception: BaseException | None = field(default=None, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        status, wait, available = self.status, self.asked_wait, self.available_tokens
        if self.reason not in _REASONS:
            self._refuse("reason", f"one of {', '.join(_REASONS)}")
        if status is not None and not is_whole(status):
            self._refuse("status", "a whole number, or None")
        if wait is not None and not is_number(wait, 0, LARGEST):
            self._refuse("asked_wait", "a number of seconds, 0 or more, or None")
        if available is not None and not is_whole(available):
            self._refuse("available_tokens", "a whole number of tokens, or None")

    def _refuse(self, name: str, form: str) -> NoReturn:
        raise ConfigurationError(f"Failure.{name} must be {form}, not {short(getattr(self, name))}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the exception behind: those of HTTP clients cannot be rebuilt elsewhere."""
        names = [attribute.name for attribute in fields(Failure) if attribute.name != "exception"]
        return Failure, tuple(getattr(self, name) for name in names)
