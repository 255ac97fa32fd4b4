"""A request that brought no reply."""

from __future__ import annotations

from typing import Any, get_args

from attrs import field, fields, frozen

from rungwise.fsm.failures.reasons import Reason
from rungwise.fsm.values.checks import LARGEST, is_number, is_whole, must, must_be_one_of, or_none
from rungwise.fsm.values.label import label

_MUST_BE_SECONDS = must(
    "a number of seconds, 0 or more, or None", or_none(lambda value: is_number(value, 0, LARGEST)), names_class=True
)


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
        largest_output: the same where it is the most that the model ever writes, whatever the prompt.
        is_stale: whether the request went out on a connection that had served another one, and that broke before a byte
            of an answer came: the server had closed it, so the request is sent again at once.
        found: what came in the place of a reply, for `malformed`: in words of our own, never the provider's.
        exception: what was raised, if anything was.

    Raises:
        ConfigurationError: the reason is none of them, or a number is none.
    """

    reason: Reason = field(validator=must_be_one_of(get_args(Reason), names_class=True))
    status: int | None = field(
        default=None, validator=must("a whole number, or None", or_none(is_whole), names_class=True)
    )
    code: str | None = field(default=None, converter=label)
    message: str = field(default="", repr=False)
    asked_wait: float | None = field(default=None, validator=_MUST_BE_SECONDS)
    should_retry: bool | None = None
    parameter: str | None = field(default=None, converter=label)
    available_tokens: int | None = field(
        default=None, validator=must("a whole number of tokens, or None", or_none(is_whole), names_class=True)
    )
    is_stale: bool = False
    largest_output: int | None = field(
        default=None, validator=must("a whole number of tokens, or None", or_none(is_whole), names_class=True)
    )
    found: str | None = field(default=None, converter=label)
    exception: BaseException | None = field(default=None, repr=False, eq=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the exception behind: those of HTTP clients cannot be rebuilt elsewhere."""
        names = [attribute.name for attribute in fields(Failure) if attribute.name != "exception"]
        return Failure, tuple(getattr(self, name) for name in names)
