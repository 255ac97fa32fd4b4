"""What was seen of a fault from both sides: the calls as their caller saw them, the attempts as the
provider did.

Times are in seconds of the published benchmark, however they were scaled.
"""

from typing import Literal

from attrs import frozen

Role = Literal["primary", "fallback"]


@frozen(kw_only=True)
class Attempt:
    """Hold one request that reached the provider.

    Arguments:
        role: which of the two models was asked.
        at: seconds since the first call began.
        prompt: bytes of its messages.
        is_answered: whether it was given the whole answer.
        is_refused_prefill: whether it was refused for its trailing assistant turn.
    """

    role: Role
    at: float
    prompt: int = 0
    is_answered: bool = False
    is_refused_prefill: bool = False

    def __str__(self) -> str:
        return (
            f"attempt at {self.at:.2f} s: {self.role}, "
            f"{'answered' if self.is_answered else 'not answered'}"
        )


@frozen(kw_only=True)
class Asked:
    """Hold what a caller got of one call.

    Arguments:
        at: when it began, in seconds since the first call.
        seconds: until it ended, or was given up.
        text: what was returned as an answer; None where nothing was.
        error: the class of what was raised; None where nothing was.
        is_clean: whether that is an error of a call.
        reasons: codes and messages of the provider that the error carries.
        model: which model the caller was told of.
        has_usage: whether tokens were reported that nobody had to estimate.
        steps: the journal.
    """

    at: float = 0.0
    seconds: float = 0.0
    text: str | None = None
    error: str | None = None
    is_clean: bool = False
    reasons: tuple[str, ...] = ()
    model: str | None = None
    has_usage: bool = False
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        end = (
            f"raised {self.error}"
            if self.error
            else "hangs"
            if self.hangs
            else f"returned, by {self.model}"
        )
        return f"call at {self.at:.2f} s, {self.seconds:.2f} s long: {end}"

    @property
    def requests(self) -> int:
        """Count its requests, to whichever model."""
        return sum("sent -> " in step for step in self.steps)

    @property
    def ended_at(self) -> float:
        """Return when it ended."""
        return self.at + self.seconds

    @property
    def hangs(self) -> bool:
        """Tell whether it had neither returned nor raised when it was given up."""
        return self.text is None and self.error is None


@frozen(kw_only=True)
class Seen:
    """Hold all that was seen of one fault.

    Arguments:
        asked: the calls, in the order in which they began.
        attempts: the requests, in the order in which they came.
        alive: the healthy call behind them.
        answer: what a call returns when it is complete.
        fallback: the model of the fallback.
        dead_for: how long the primary was dead, in seconds; None where it did not recover by
            itself.
    """

    asked: tuple[Asked, ...]
    attempts: tuple[Attempt, ...]
    alive: Asked
    answer: str
    fallback: str = "fallback"
    dead_for: float | None = None

    def of(self, role: Role) -> list[Attempt]:
        """Return the attempts on one of the two models."""
        return [attempt for attempt in self.attempts if attempt.role == role]

    @property
    def times(self) -> list[float]:
        """Return when the primary was asked."""
        return [attempt.at for attempt in self.of("primary")]

    def is_complete(self, asked: Asked) -> bool:
        """Tell whether a call returned the whole answer, and nothing else."""
        return asked.text is not None and asked.text.split() == self.answer.split()
