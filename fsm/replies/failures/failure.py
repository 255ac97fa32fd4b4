"""A request that brought no reply: why, and which event of the machine that is."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from attrs import field, fields, frozen

from rungwise.fsm.values.checks import LARGEST, is_number, is_whole, must, must_be_one_of, or_none
from rungwise.fsm.values.label import label

Reason = Literal[
    "auth",  # the key is missing, rejected, or not for this model
    "billing",  # the account has no credit left
    "rate_limit",  # too many requests or tokens; waiting helps
    "overloaded",  # the provider has no capacity now
    "server_error",  # the provider failed
    "timeout",  # no answer within the time of the attempt
    "connection",  # the connection broke
    "unreachable",  # no connection could be opened
    "certificate",  # the certificate of the server cannot be trusted
    "context_overflow",  # the conversation is longer than the context of the model
    "payload_too_large",  # the body is larger than the server takes
    "output_cap",  # the output cap is larger than the model allows
    "prefill_unsupported",  # the model does not continue an assistant turn
    "parameter_unsupported",  # the server does not take a parameter
    "reasoning_signature",  # a signature of earlier reasoning is not accepted
    "reasoning_missing",  # the reasoning of earlier turns is wanted back
    "wrong_endpoint",  # the server takes it in another protocol alone, or lacks this one
    "failed_generation",  # the server could not parse what the model wrote
    "model_not_found",  # there is no such model, or not for this key
    "not_found",  # the server has nothing at this address
    "content_policy",  # a filter has refused the prompt or the answer
    "format",  # the request is not of the form that the server reads
    "malformed",  # something came that is no reply
    "silence",  # nothing came for longer than the clocks allow
    "crashed",  # the process of the call died while it waited
    "unknown",  # nothing tells
]
"""Why a request failed."""

_MUST_BE_SECONDS = must(
    "a number of seconds, 0 or more, or None",
    or_none(lambda value: is_number(value, 0, LARGEST)),
    names_class=True,
)
_MUST_BE_TOKENS = must("a whole number of tokens, or None", or_none(is_whole), names_class=True)

_UNHEARD: Final = ("timeout", "silence", "connection", "crashed")
"""The reasons for which nobody heard what came of a request."""

NEVER_SENT: Final = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "UnsupportedProtocol",
        "InvalidURL",
        "KeyFunctionError",
    }
)
"""The exceptions that come before anything was sent."""


@frozen
class Failure:
    """Say why a request brought no reply.

    Arguments:
        reason: the class of the failure.
        status: the HTTP status, or None.
        code: the provider's structured error code, as a `label`: short, printable, on one line;
            never in `repr`, as it may repeat a prompt or a key.
        message: the provider's message, verbatim; never in `repr` or a log, because providers quote
            prompts and keys.
        asked_wait: seconds that the service asks to wait, finite and above 0.
        should_retry: the service's own word (`x-should-retry`), or None.
        parameter: the request parameter that the provider named, for `parameter_unsupported`; the
            one to set, for `wrong_endpoint`.
        instead: the value to set it to, if the provider takes one.
        available_tokens: output tokens that the provider said are available, for `output_cap`.
        largest_output: the same, if it is the most that the model ever writes, whatever the prompt.
        is_stale: whether a reused connection broke before a byte of an answer came: the server had
            closed it, so the request is sent again at once.
        found: what came in place of a reply, for `malformed`; what to do, for `wrong_endpoint` and
            `not_found`; which part of connecting failed. In our words, never the provider's.
        quote: the provider's message as errors quote it: cut, and without what it repeats of the
            prompt, of a key or of a reply. A call sets it when it ends; "" for nothing.
        generation: the id under which the provider continues the reply and keeps it, if it does.
        exception: what was raised, if anything.

    Raises:
        ConfigurationError: the reason is unknown, or a field has the wrong type.
    """

    reason: Reason = field(validator=must_be_one_of(get_args(Reason), names_class=True))
    status: int | None = field(
        default=None, validator=must("a whole number, or None", or_none(is_whole), names_class=True)
    )
    code: str | None = field(default=None, repr=False, converter=label)
    message: str = field(default="", repr=False)
    asked_wait: float | None = field(default=None, validator=_MUST_BE_SECONDS)
    should_retry: bool | None = None
    parameter: str | None = field(default=None, repr=False, converter=label)
    instead: str | None = field(default=None, converter=label)
    available_tokens: int | None = field(default=None, validator=_MUST_BE_TOKENS)
    is_stale: bool = False
    largest_output: int | None = field(default=None, validator=_MUST_BE_TOKENS)
    found: str | None = field(default=None, converter=label)
    quote: str = field(default="", repr=False)
    generation: str | None = field(default=None, repr=False, converter=label)
    exception: BaseException | None = field(default=None, repr=False, eq=False)

    @property
    def words(self) -> str:
        """What is known of it in words: what the provider said, or else what was found."""
        if self.quote:
            return f'"{self.quote}"'
        return self.found or ""

    @property
    def may_be_billed(self) -> bool:
        """Whether the provider may have worked on the request, although no usable answer came."""
        if self.reason == "malformed":
            # an error has a shape and a status; what has neither may have been an answer
            return True
        if self.status is not None or self.reason not in _UNHEARD or self.is_stale:
            return False
        return self.exception is None or not any(
            kind.__name__ in NEVER_SENT for kind in type(self.exception).__mro__
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the exception: those of HTTP clients cannot be pickled."""
        names = [attribute.name for attribute in fields(Failure) if attribute.name != "exception"]
        return Failure, tuple(getattr(self, name) for name in names)


KEY_HINT_REASONS: Final[frozenset[Reason]] = frozenset({"auth"})
"""The reasons that suggest a look at the API key."""

_REASONS: Final[dict[str, tuple[Reason, ...]]] = {
    "failed_transiently": (
        "rate_limit",
        "overloaded",
        "server_error",
        "timeout",
        "connection",
        "unreachable",
        "failed_generation",
        "crashed",
        "unknown",
    ),
    "failed_permanently": (
        "auth",
        "billing",
        "certificate",
        "model_not_found",
        "not_found",
        "format",
    ),
    "overflowed": ("context_overflow", "payload_too_large"),
    "rejected_fixably": (
        "output_cap",
        "prefill_unsupported",
        "parameter_unsupported",
        "reasoning_signature",
        "reasoning_missing",
        "wrong_endpoint",
    ),
    "refused": ("content_policy",),
    "malformed": ("malformed",),
    "fell_silent": ("silence",),
}
_EVENTS: Final = {reason: event for event, reasons in _REASONS.items() for reason in reasons}
_BY_CAUSE: Final[dict[str, str]] = {
    "content_policy": "refused",
    "silence": "fell_silent",
}
"""The event of a reply that broke off, by the reason of its failure; `interrupted` for any other.
"""
CANCELLED: Final = "cancelled"
"""The code of a reply that its provider ended by itself. Another request may mend that, once."""
_EVENT_IF_RETRYABLE: Final = {True: "failed_transiently", False: "failed_permanently"}


def event_of_failure(failure: Failure) -> str:
    """Return the machine's event for a failure; the service's own word decides between transient
    and permanent.
    """
    event = _EVENTS[failure.reason]
    if failure.generation is not None:
        return event_of_cut(failure)  # of a reply that goes on
    if failure.code == CANCELLED:
        return "rejected_fixably"
    if failure.should_retry is None or event not in _EVENT_IF_RETRYABLE.values():
        return event
    return _EVENT_IF_RETRYABLE[failure.should_retry]


def event_of_cut(failure: Failure | None) -> str:
    """Return the event of a reply that broke off.

    What the model cannot write here, another request does not bring: its text stands if nothing
    better comes.
    """
    if failure is None:
        return "interrupted"
    if failure.reason == "failed_generation" and failure.should_retry is False:
        return event_of_failure(failure)
    return _BY_CAUSE.get(failure.reason, "interrupted")


def repair_of(failure: Failure) -> str | None:
    """Name the one thing to repair, with its detail after a colon; each name is repaired at most
    once.
    """
    if failure.reason == "output_cap" and failure.available_tokens is not None:
        return f"output_cap:{failure.available_tokens}"
    if failure.reason == "parameter_unsupported" and failure.parameter:
        return f"parameter_unsupported:{failure.parameter}"
    if failure.reason == "wrong_endpoint" and failure.instead:
        return f"wrong_endpoint:{failure.parameter}={failure.instead}"
    if failure.code == CANCELLED:
        return CANCELLED  # the same request mends it
    if failure.reason in ("prefill_unsupported", "reasoning_signature", "reasoning_missing"):
        return failure.reason
    return None


FORMAT_PARAMETER: Final = "response_format"
"""The name in a failure of the parameter that asks for JSON, whatever the provider calls it."""
