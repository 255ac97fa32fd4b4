"""The facts that usually hold with an event of a turn, as a turn itself finds them when such a thing comes back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rungwise.fsm.call.conversation.link import PlainLink
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import CALL
from rungwise.fsm.certificate.usual_facts import Usual
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.turn.actions import Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool
from rungwise.fsm.turn.turn import Turn

SHORT: tuple[PlainMessage, ...] = ({"role": "user", "content": "a prompt"},)
LONG: tuple[PlainMessage, ...] = ({"role": "user", "content": "a prompt " * 100},)

NO_RECOVERY = Limits(**dict.fromkeys(CALL.counters, 0))
ANSWER = Reply("An answer.", stop_reason="stop")
TOO_LONG = Failure("context_overflow", status=400)
EXAMPLES: tuple[tuple[Reply | Failure, Sequence[PlainMessage]], ...] = (
    (ANSWER, SHORT),
    (Reply(tool_calls=(ToolCall("1", "read", "{}"),), stop_reason="tool_calls"), SHORT),
    (Reply("some text", stop_reason="length"), SHORT),
    (Reply("some text", interrupted=True), SHORT),
    (Reply(stop_reason="content_filter"), SHORT),
    (Failure("auth", status=401), SHORT),
    (TOO_LONG, LONG),
    (TOO_LONG, SHORT),
)
"""What comes back first, and what the compactor leaves of a long prompt; answers follow."""


def usual_facts_of_turn() -> dict[str, Usual]:
    """Return the usual facts of each event that an example brings about, by event."""
    found: dict[str, Usual] = {}
    for first, left in EXAMPLES:
        turn = _played(first, left)
        steps = [step for step in turn.journal.steps if step.event != "sent"]
        for step, after in pairwise([*steps, None]):
            if step is not None and step.event not in found:
                found[step.event] = Usual(step.facts, after.facts if after is not None else ())
    return found


def _played(first: Reply | Failure, left: Sequence[PlainMessage]) -> Turn:
    """Play a turn to its end in which no call recovers by itself."""
    policy = TurnPolicy(call=Policy(limits=NO_RECOVERY))
    tool = Tool(lambda: "done", name="read", parameters={"type": "object"})
    turn = Turn(Request(LONG), policy, [PlainLink("backend 1")], tools=[tool], has_compactor=True)
    action, replies = turn.begin(), iter([first])
    while action is not None:
        match action:
            case MakeCall(call):
                call.begin()
                call.sending()
                call.receive(next(replies, ANSWER))
                action = turn.called(call.result)
            case RunTools(runs):
                action = turn.tools_ran([ToolOutcome("done")] * len(runs))
            case Compact():
                action = turn.compacted(left)
    return turn
