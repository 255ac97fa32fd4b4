"""What came back, read once: verdicts judge it before the call takes it."""

from __future__ import annotations

from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.delivery import Delivery
from rungwise.fsm.call.run.observe import observe
from rungwise.fsm.call.run.sending import Sender
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.failures.failure import Failure


class ReplyReader:
    """Observe each reply of a call."""

    __slots__ = ("_context", "_counter", "_delivery", "last")

    def __init__(self, context: CallContext, counter: TokenCounter, delivery: Delivery) -> None:
        self._context, self._counter, self._delivery = context, counter, delivery
        self.last: tuple[Reply | Failure, Observation] | None = None  # what came back last, until the call has taken it

    def read(self, reply: Reply | Failure, sender: Sender) -> Observation:
        """Observe what came back of what is in flight, once; an answer is checked. It raises as `Call.receive` does."""
        if not isinstance(reply, (Reply, Failure)):
            raise ConfigurationError(f"reply must be a Reply or a Failure, not {type(reply).__name__}")
        proposal, transcript = sender.ensure_sent(), self._context.transcript
        if self.last is None or self.last[0] is not reply:
            observation = observe(reply, proposal, transcript, self._counter, self._delivery.close())
            self.last = reply, self._context.judge.checked(observation, proposal, transcript.answer.gathered)
        return self.last[1]
