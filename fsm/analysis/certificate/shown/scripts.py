"""What backends do in a worst case, request by request, so that a server can play it."""

from __future__ import annotations

from itertools import pairwise

from attrs import field, frozen

from rungwise.fsm.analysis.certificate.certificate import WorstCase
from rungwise.fsm.analysis.certificate.path_answers import EnactedAttempt
from rungwise.fsm.analysis.certificate.turn_enactment import WORKS
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.turn.policy import TurnPolicy


@frozen
class WorstScript:
    """Describe the replies of a chain in one worst case, and what the client needs.

    Arguments:
        case: the worst case.
        policy: of the call or turn.
        backends: how many there are.
    """

    case: WorstCase
    policy: Policy | TurnPolicy = field(repr=False)
    backends: int

    @property
    def attempts(self) -> tuple[EnactedAttempt, ...]:
        """Return what comes back from each request, in order; empty if no path is known."""
        return self.case.enacted.attempts

    @property
    def calls(self) -> Policy:
        """Return the policy of its calls."""
        return self.policy.of_calls if isinstance(self.policy, TurnPolicy) else self.policy

    @property
    def requests(self) -> tuple[int, ...]:
        """Count the requests to each backend."""
        backends = [attempt.backend for attempt in self.attempts]
        return tuple(backends.count(number) for number in range(self.backends))

    @property
    def rungs(self) -> tuple[str, ...]:
        """Name the rung of each request; for a turn, only `request`."""
        if isinstance(self.policy, TurnPolicy):
            return ("request",) * len(self.attempts)
        return self.case.rungs

    @property
    def takes(self) -> float:
        """Return the seconds of all waits and attempts."""
        return sum(each.wait + each.seconds for each in self.attempts) + self.closing

    @property
    def closing(self) -> float:
        """Return the seconds in which connections close."""
        return sum(each.closing for each in self.attempts)

    @property
    def longest_pause(self) -> float | None:
        """Return the longest pause within a reply, in seconds, that silence does not end.

        None for no limit.
        """
        timeouts = self.calls.timeouts
        clocks = [each for each in (timeouts.first_token, timeouts.stall) if each is not None]
        return min(clocks) / 2 if clocks else None

    @property
    def drawn(self) -> float:
        """Return the seconds of the waits with jitter: those that no reply requests."""
        if not self.calls.waits.jitter:
            return 0.0
        seconds: float = 0
        for before, after in pairwise(self.attempts):
            failure = _failure_of(before)
            if failure is None or failure.asked_wait is None:
                seconds += after.wait
        return seconds

    @property
    def follows_tool(self) -> bool:
        """Tell whether the prompt must end with a tool result."""
        return len(self.case.enacted.messages) > 1

    @property
    def needs_compactor(self) -> bool:
        """Tell whether the client must have a compactor."""
        return any(step.target == "compact" for step in self.case.enacted.steps)

    @property
    def rejected(self) -> tuple[str, ...]:
        """Name the parameters that the request must have, since the provider rejects them: a
        repair leaves one out.
        """
        named = []
        for failure in map(_failure_of, self.attempts):
            if failure is not None and failure.reason == "parameter_unsupported":
                named.append(failure.parameter or "")
        return tuple(dict.fromkeys(named))

    @property
    def tool(self) -> str | None:
        """Name the tool that the client must have; None if none runs.

        Its argument is a number.
        """
        replies = [each.came for each in self.attempts if isinstance(each.came, Reply)]
        for reply in replies:
            if any(call.name == WORKS.name for call in reply.tool_calls):
                return WORKS.name
        return None

    @property
    def tool_seconds(self) -> float:
        """Return how long each run of that tool takes."""
        is_timed = self.case.name in ("seconds", "tool seconds")
        if is_timed and isinstance(self.policy, TurnPolicy):
            return self.policy.tool_seconds
        return 0.0

    @property
    def unseen(self) -> str | None:
        """Return why no server can play the worst case; None if one can."""
        if self.case.value is None:
            return self.case.note
        if not self.attempts:
            return "no path to it is known"
        for attempt in self.attempts:
            failure = _failure_of(attempt)
            if failure is None:
                continue
            if failure.is_stale:
                return (
                    "it needs a connection that breaks before its answer, at a moment that "
                    "no script can choose"
                )
            if failure.reason == "malformed" and failure.asked_wait is not None:
                return "it needs a wait that an unreadable reply requests"
        return None


def _failure_of(attempt: EnactedAttempt) -> Failure | None:
    """Return the failure that came back; None for a whole reply."""
    return attempt.came.failure if isinstance(attempt.came, Reply) else attempt.came
