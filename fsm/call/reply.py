"""What came back: a `Reply` or a `Failure`, in one shape for every provider."""

from __future__ import annotations

from typing import Any, Final, Literal, NoReturn, get_args

from attrs import field, fields, frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.forms import LARGEST, short
from rungwise.fsm.values.label import label

StopReason = Literal["stop", "length", "tool_calls", "content_filter", "paused", "overflow", "error", "unknown"]
"""Why a reply ended, normalised. `unknown` is a word that no table lists; no word at all is `None`, never invented."""

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


def _is_seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@frozen
class Usage:
    """Count the tokens of one attempt, or of several added up.

    `input_tokens` includes the cached ones; `output_tokens` includes the reasoning. `estimated` marks counts that no
    provider reported: an aborted stream is counted from the text that had arrived.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        """Add input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
        )


NO_USAGE = Usage()


@frozen
class ToolCall:
    """Hold one tool call; `arguments` is the JSON text exactly as the provider sent it."""

    id: str
    name: str
    arguments: str = field(repr=False)


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
        if status is not None and not _is_whole(status):
            self._refuse("status", "a whole number, or None")
        if wait is not None and not _is_seconds(wait):
            self._refuse("asked_wait", "a number of seconds, 0 or more, or None")
        if available is not None and not _is_whole(available):
            self._refuse("available_tokens", "a whole number of tokens, or None")

    def _refuse(self, name: str, form: str) -> NoReturn:
        raise ConfigurationError(f"Failure.{name} must be {form}, not {short(getattr(self, name))}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the exception behind: those of HTTP clients cannot be rebuilt elsewhere."""
        names = [attribute.name for attribute in fields(Failure) if attribute.name != "exception"]
        return Failure, tuple(getattr(self, name) for name in names)


@frozen
class Reply:
    """Hold one reply of a provider, normalised.

    Arguments:
        text: the visible content with every text block joined, inline think tags still in it.
        final_text: the last text block after the last tool call; None where blocks are not told apart.
        tool_calls: the tool calls, complete or not; `classify_reply` decides.
        usage: what the provider reported for this attempt.
        model: the model id that the provider reported, as a `label`.
        interrupted: whether the stream ended before its terminal event.
        halted: whether the caller's own outer budget stopped the stream.
        reasoning: reasoning from structured fields (inline reasoning stays in `text`).
        stop_reason: the normalised stop reason, None where the provider gave none.
        stop_raw: the provider's own word for it, as a `label`.
        refusal: the provider's refusal text, if it sent one.
        failure: what cut the stream, where a cause is known.
        raw: the provider's decoded body; for diagnosis only, nothing decides by it.

    Raises:
        ConfigurationError: a text, the tool calls or the usage are of another type.
    """

    text: str = field(default="", repr=False)
    final_text: str | None = field(default=None, repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    model: str | None = field(default=None, converter=label)
    interrupted: bool = False
    halted: bool = False
    reasoning: str = field(default="", repr=False)
    stop_reason: StopReason | None = None
    stop_raw: str | None = field(default=None, converter=label)
    refusal: str | None = field(default=None, repr=False)
    failure: Failure | None = None
    raw: Any = field(default=None, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        # One comparison for nearly all of them: replies are built on the hot path.
        if (type(self.text), type(self.reasoning), type(self.usage), type(self.tool_calls)) != _USUAL:
            self._check()
        for call in self.tool_calls:
            if not isinstance(call, ToolCall):
                raise ConfigurationError(f"Reply.tool_calls must hold ToolCalls, not {type(call).__name__}")

    def _check(self) -> None:
        if isinstance(self.tool_calls, list):
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        for name, kind in zip(("text", "reasoning", "usage", "tool_calls"), _USUAL, strict=True):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ConfigurationError(f"Reply.{name} must be of type {kind.__name__}, not {type(value).__name__}")


_USUAL: Final = (str, str, Usage, tuple)
