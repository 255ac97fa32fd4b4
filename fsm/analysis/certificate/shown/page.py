"""Write the page on which a reviewer plays a policy's machine.

A reviewer chooses events; the page proposes the facts that usually hold with each. They are not
declared anywhere: examples are played to real calls and turns, and the facts are read off their
journals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from attrs import asdict, evolve, frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.certificate.enactment import ANSWER, links_of
from rungwise.fsm.analysis.certificate.shown.settings import settings_of, table_of
from rungwise.fsm.analysis.certificate.troubles import EVENTS, reply_of
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import PlainLink
from rungwise.fsm.call.clocks.waiting import BROKEN, RAISING
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.play import Answers, Arrival, PlayClock, play
from rungwise.fsm.call.policy import DEFAULT_POLICY, SWITCH_EVENTS, Budget, Policy
from rungwise.fsm.call.run.facts import FAILED_PROBE
from rungwise.fsm.call.run.outcome import LAST_RESORTS
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.call.run.sending import FULL, OPEN, PROBE
from rungwise.fsm.call.table import CALL, IGNORES_WAIT, MAY_ASK, UNSENT
from rungwise.fsm.diagram.page import Setup, play_page
from rungwise.fsm.engine.journal.path import words_of
from rungwise.fsm.engine.journal.record import OF_EVIDENCE, Step
from rungwise.fsm.errors import IllegalEvent, TableError
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.replies.decisions.questions import YesNo
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.turn.actions import Compact, RunTools, ToolOutcome
from rungwise.fsm.turn.play import TurnAnswers, play_turn
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool
from rungwise.fsm.turn.turn import Turn

EMPTY = reply_of("came_empty", 1)
UNCERTAIN = Reply('{"a": {"probabilities": {"yes": 0.4, "no": 0.6}}}', stop_reason="stop")
EXAMPLES: tuple[Reply | Failure, ...] = (
    *(reply_of(event, 1) for event in EVENTS if event not in ("answered", "called_tools")),
    Reply("some text", interrupted=True),
    Reply(tool_calls=(ToolCall("1", "read", "[]"),), stop_reason="tool_calls"),
    Failure("silence"),
    Failure("rate_limit", status=429),
    Failure("rate_limit", status=429, asked_wait=5.0),
    Failure("connection"),
    Failure("server_error", status=503),
    Failure("auth", status=401),
    Failure("parameter_unsupported", status=400, parameter="seed"),
    Failure("context_overflow", status=400),
)
IN_JSON = (Reply('{"some": "json', stop_reason="length"), Reply("no JSON", stop_reason="stop"))
"""What comes back if the request asks for JSON."""

SHORT: tuple[PlainMessage, ...] = ({"role": "user", "content": "a prompt"},)
LONG: tuple[PlainMessage, ...] = ({"role": "user", "content": "a prompt " * 100},)

NO_RECOVERY = Limits(**dict.fromkeys(CALL.counters, 0))
TOO_LONG = Failure("context_overflow", status=400)
TURN_EXAMPLES: tuple[tuple[Reply | Failure, Sequence[PlainMessage]], ...] = (
    (ANSWER, SHORT),
    (Reply(tool_calls=(ToolCall("1", "read", "{}"),), stop_reason="tool_calls"), SHORT),
    (Reply("some text", stop_reason="length"), SHORT),
    (Reply("some text", interrupted=True), SHORT),
    (Reply(stop_reason="content_filter"), SHORT),
    (Failure("auth", status=401), SHORT),
    (TOO_LONG, LONG),
    (TOO_LONG, SHORT),
)
"""What comes back first, before answers, and what the compactor makes of a long prompt."""


UNCAUSED = ("sent", "skipped")
"""Steps of a journal that no reply causes."""


@frozen
class Usual:
    """Hold the facts that usually hold with an event.

    Arguments:
        now: those that hold with it.
        later: those that still hold at the next reply.
        replies: what exactly may have come, and the facts that hold with each; the last is usual.
    """

    now: tuple[str, ...]
    later: tuple[str, ...]
    replies: tuple[Mapping[str, Any], ...] = ()


def play_policy(policy: Policy | TurnPolicy = DEFAULT_POLICY, backends: int = 1) -> str:
    """Write the page on which a reviewer plays a policy's machine.

    Raises:
        TableError: the table of the policy cannot be proved.
    """
    table = table_of(policy)
    certificate = verify(policy, backends)
    if not certificate.ok:
        failed = "; ".join(each.detail for each in certificate.failed)
        raise TableError(f"the table {table.name!r} cannot be proved: {failed}")
    settings = settings_of(policy)
    if isinstance(policy, TurnPolicy):
        usual = usual_facts_of_turn()
        return play_page(
            table,
            Setup(limits=certificate.limits),  # its budget counts requests, its page actions
            heading=_turn_at_worst(certificate),
            facts={event: asdict(each) for event, each in usual.items()},
            unit="action",
            settings=settings,
        )
    usual = usual_facts(policy, backends)
    caused = [each.now for event, each in usual.items() if event not in UNSENT]
    return play_page(
        table,
        Setup(limits=certificate.limits, budget=asdict(policy.budget)),
        heading=_at_worst(certificate),
        at_first=min(caused, key=len, default=()),
        facts={event: asdict(each) for event, each in usual.items()},
        settings=settings,
        around=_around(policy, backends),
    )


def _around(policy: Policy, backends: int) -> dict[str, Any]:
    """Return what a script needs to play a call with its clock and chain, and write its journal.

    A budget of money needs prices, which the page does not have, so it is left out.
    """
    unpriced = evolve(policy, budget=evolve(policy.budget, money=None))
    call = Call(Request("a prompt"), unpriced, links_of([None] * backends), observer=silent)
    table = policy.table
    sets = {
        "may_ask": MAY_ASK,
        "ignores_wait": IGNORES_WAIT,
        "broken": BROKEN,
        "failed_probe": FAILED_PROBE,
        "last_resorts": LAST_RESORTS,
    }
    data: dict[str, Any] = {name: sorted(names) for name, names in sets.items()}
    data["journal"] = call.journal.to_json()
    data["facts"] = table.found_facts
    data["waits"] = {rung.name: rung.wait for rung in table.declared_rungs}
    data["switch_events"] = dict(SWITCH_EVENTS)
    data["raising"] = RAISING
    data["left"] = (OPEN, FULL)
    data["probe"] = PROBE
    return data


def _turn_at_worst(certificate: Certificate) -> str:
    worst = {each.name: each.value or 0 for each in certificate.worst}
    return (
        f"A turn makes at most {worst['calls']:,} calls with {worst['attempts']:,} requests, and "
        f"runs at most {worst['tool runs']:,} tools. An action is a call, a round of tools or a "
        "compaction. Choose what comes back, and see which guard decides. You can choose any "
        "event, even one that the last action cannot cause."
    )


def _at_worst(certificate: Certificate) -> str:
    worst = {each.name: each.value for each in certificate.worst}
    seconds = ""
    if worst["seconds"] is not None:
        seconds = f" and takes at most {worst['seconds']:,g} s"
    chain = "one backend"
    if len(certificate.chain) > 1:
        chain = f"a chain of {len(certificate.chain)} backends"
    return (
        f"With {chain}, a call makes at most {worst['attempts']:,} attempts{seconds}. Choose what "
        "comes back, and see which guard decides."
    )


def usual_facts(policy: Policy, backends: int) -> dict[str, Usual]:
    """Return the usual facts of each event that an example causes, by event."""
    ample = evolve(policy, limits=Limits(), budget=Budget())
    usual: dict[str, Usual] = {}
    for example in (*EXAMPLES, *IN_JSON):
        in_json = example in IN_JSON
        links = [
            PlainLink(f"backend {place}", expects_json=in_json) for place in range(1, backends + 1)
        ]
        call = Call(Request("a prompt"), ample, links, observer=silent)
        try:
            play(call, _Examples([example, EMPTY]), PlayClock())
        except IllegalEvent:  # a user's table may lack this event
            continue
        first, *others = [step for step in call.journal.steps if step.event not in UNCAUSED]
        before = usual[first.event].replies if first.event in usual else ()
        replies = (*before, _reply_data(first))
        usual[first.event] = Usual(first.facts, others[0].facts if others else (), replies)
    usual |= _where_it_runs_out(ample, backends)
    usual |= _where_it_decides(ample, backends)
    usual["found_open"] = Usual(("has_next_backend",) if backends > 1 else (), ())
    return usual


def _reply_data(step: Step) -> dict[str, Any]:
    """Return what came back at a step, as a script plays it again."""
    says = words_of(step)
    if step.asked_wait is not None:
        says += f", wait {step.asked_wait:g} s"
    evidence = {name: getattr(step, name) for name in OF_EVIDENCE if name != "usage"}
    return {"says": says, "now": step.facts, **evidence}


def _where_it_runs_out(policy: Policy, backends: int) -> dict[str, Usual]:
    """Let the attempts run out at the first backend, except for those reserved for the others."""
    if not policy.table.ladder("failed_transiently", policy.table.hub):
        return {}
    once = evolve(policy, budget=Budget(attempts=backends))
    call = Call(Request("a prompt"), once, links_of([None] * backends), observer=silent)
    play(call, _Examples([Failure("server_error", status=503)]), PlayClock())
    out = [step for step in call.journal.steps if step.event == "ran_out"]
    return {step.event: Usual(step.facts, ()) for step in out}


def _where_it_decides(policy: Policy, backends: int) -> dict[str, Usual]:
    """Let a decision be answered uncertainly."""
    if not policy.table.ladder("answered_uncertainly", policy.table.hub):
        return {}
    links = [PlainLink(f"backend {place}", measures=True) for place in range(1, backends + 1)]
    returns = OpenQuestions.of({"a": YesNo("Is it so?")})
    sure = evolve(policy, confidence=0.8)
    call = Call(Request("a prompt"), sure, links, returns=returns, observer=silent)
    play(call, _Examples([UNCERTAIN]), PlayClock())
    doubts = [step for step in call.journal.steps if step.event not in UNCAUSED]
    return {doubts[0].event: Usual(doubts[0].facts, doubts[-1].facts)}


def usual_facts_of_turn() -> dict[str, Usual]:
    """Return the usual facts of each event of a turn that an example causes, by event."""
    usual: dict[str, Usual] = {}
    for first, shortened in TURN_EXAMPLES:
        turn = _played(first, shortened)
        steps = [step for step in turn.journal.steps if step.event != "sent"]
        later = [step.facts for step in steps[1:]] + [()]
        for step, facts in zip(steps, later, strict=True):
            if step.event not in usual:
                usual[step.event] = Usual(step.facts, facts)
    return usual


def _played(first: Reply | Failure, shortened: Sequence[PlainMessage]) -> Turn:
    """Play a turn to its end; no call in it recovers."""
    policy = TurnPolicy(call=Policy(limits=NO_RECOVERY))
    tool = Tool(lambda: "done", name="read", parameters={"type": "object"})
    turn = Turn(
        Request(LONG),
        policy,
        [PlainLink("backend 1")],
        tools=[tool],
        has_compactor=True,
        observer=silent,
    )
    answers = _TurnExamples(_Examples(chain([first], repeat(ANSWER))), shortened)
    return play_turn(turn, answers, PlayClock())


class _Examples(Answers):
    """Answer with some replies, each at once, and stop behind the last."""

    def __init__(self, replies: Iterable[Reply | Failure]) -> None:
        self.replies = iter(replies)
        self.reply: Reply | Failure | None = None

    def proposed(self, call: Call, send: Send) -> Send | None:
        """Send only what is answered."""
        self.reply = next(self.replies, None)
        return None if self.reply is None else send

    def answer(self, call: Call, sent: Send, now: float) -> Arrival:
        """Return the next reply."""
        return Arrival(self.reply, now)


@frozen
class _TurnExamples(TurnAnswers):
    """Answer the calls of a turn with examples; its tool works, its compactor shortens."""

    calls: Answers
    shortened: Sequence[PlainMessage]

    def of_call(self, call: Call) -> Answers:
        """Return the examples."""
        return self.calls

    def outcomes(self, action: RunTools) -> Iterable[ToolOutcome]:
        """Let every tool work."""
        return [ToolOutcome("done") for _ in action.runs]

    def compacted(self, action: Compact) -> Sequence[PlainMessage]:
        """Return the shortened conversation."""
        return self.shortened
