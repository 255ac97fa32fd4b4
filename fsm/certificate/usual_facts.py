"""The facts that usually hold with an event, as the core itself finds them when it is given such a reply.

Whoever plays the machine may set every fact as they like; this is only what is set at first.
"""

from __future__ import annotations

from attrs import evolve, frozen

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.link import PlainLink
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget, Policy
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.failures.failure import Failure

EXAMPLES: tuple[Reply | Failure, ...] = (
    Reply("", stop_reason="stop"),
    Reply("", reasoning="thoughts", stop_reason="stop"),
    Reply("some text", stop_reason="length"),
    Reply("some text", stop_reason="paused"),
    Reply(tool_calls=(ToolCall("1", "read", "{"),), stop_reason="length"),
    Reply("", reasoning="thoughts", stop_reason="length"),
    Reply("some text", interrupted=True),
    Reply("text", stop_reason="unknown"),
    Reply(stop_reason="content_filter"),
    Failure("silence"),
    Failure("server_error", status=503),
    Failure("auth", status=401),
    Failure("parameter_unsupported", status=400, parameter="seed"),
    Failure("context_overflow", status=400),
)
IN_JSON: tuple[Reply | Failure, ...] = (Reply('{"some": "json', stop_reason="length"),)
"""What comes back where JSON is asked for."""


@frozen
class Usual:
    """Hold what holds with an event, and which of it still holds at the next reply."""

    now: tuple[str, ...]
    later: tuple[str, ...]


def usual_facts(policy: Policy, backends: int) -> dict[str, Usual]:
    """Return the usual facts of each event that an example brings about, by event.

    Arguments:
        policy: how the call recovers; its limits and its budget make no difference.
        backends: how many backends the chain has.
    """
    ample = evolve(policy, limits=Limits(), budget=Budget())
    found: dict[str, Usual] = {}
    for example in (*EXAMPLES, *IN_JSON):
        in_json = example in IN_JSON
        links = [PlainLink(f"backend {place}", expects_json=in_json) for place in range(1, backends + 1)]
        call = Call(Request("a prompt"), ample, links)
        try:
            call.begin()
            now = _facts_after(call, example)
            later = () if call.is_over else _facts_after(call, EXAMPLES[0])
        except IllegalEvent:  # a table of one's own need not take this event
            continue
        event = next(step.event for step in call.journal.steps if step.event not in ("sent", "skipped"))
        found[event] = Usual(now, later)
    return {**found, **_where_it_runs_out(ample, backends)}


def _where_it_runs_out(policy: Policy, backends: int) -> dict[str, Usual]:
    """Let the attempts run out at the first backend, so that those are left that are kept for the others."""
    links = [PlainLink(f"backend {place}") for place in range(1, backends + 1)]
    call = Call(Request("a prompt"), evolve(policy, budget=Budget(attempts=backends)), links)
    call.begin()
    if not policy.table.ladder("failed_transiently", policy.table.hub):
        return {}
    call.receive(Failure("server_error", status=503))
    return {step.event: Usual(step.facts, ()) for step in call.journal.steps if step.event == "ran_out"}


def _facts_after(call: Call, reply: Reply | Failure) -> tuple[str, ...]:
    call.receive(reply)
    return next(step.facts for step in reversed(call.journal.steps) if step.event not in ("sent", "skipped"))
