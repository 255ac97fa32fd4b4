"""The table of a turn, declared: what can come back from its calls, its tools and its compactor,
and what is done then.

Each time the turn goes on by itself it takes one unit of one counter, `auto_continues`, whatever
the reason; nothing refills it. A round of tools takes a unit of `faults`, which comes back when one
of its calls has worked.

Warning: the order of a ladder is the behaviour. Moving a line changes what a turn does, what it may
cost, the diagrams and the certificate.
"""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.engine.machine.build import build_table
from rungwise.fsm.engine.machine.declare import Ending, Event, Fact, Rung
from rungwise.fsm.engine.machine.table import ship

AWAIT = "await"
OUTCOMES = (
    "finished",
    "handed_off",
    "awaiting_approval",
    "limit_reached",
    "failed",
    "cancelled",
    "over_budget",
)

EVENTS = (
    Event("answered", "the model answered"),
    Event("called_tools", "the model called tools"),
    Event("truncated", "the answer was cut at the output cap", " and is not gone on from"),
    Event("overflowed", "the conversation does not fit the model's context"),
    Event("interrupted", "the call failed with a part of the answer"),
    Event("refused", "the provider or the model refused"),
    Event("call_failed", "the call failed"),
    Event("tools_ran", "the tools have run"),
    Event("compacted", "the conversation was shortened"),
    Event("stayed_long", "the compactor did not help"),
    Event("cancelled", "the caller ended the turn"),
    Event("ran_out", "the budget is spent"),
)
"""What can come back, and what the caller and the budget can do, each with its sentence."""

CALLS = frozenset({"ask", "go_on", "summarize"})
"""The states in which a call is made."""

FACTS = (
    Fact("tool_worked", says="one of the calls of this round brought what it was called for"),
    Fact(
        "may_fail_again", says="fewer rounds of tools in a row have failed than may", lasts="faults"
    ),
    Fact(
        "has_patience",
        says="not too many rounds in a row have failed",
        any_holds=("tool_worked", "may_fail_again"),
    ),
    Fact("may_go_on_later", says="the turn may go on by itself once more", lasts="auto_continues"),
    Fact(
        "repeats_calls",
        says="the same call has brought the same result as often as the policy allows",
    ),
    Fact(
        "over_tool_limit",
        says="the reply called more tools than the policy allows, and the rest were not run",
    ),
    Fact("was_handed_off", says="a terminating tool was called, and took it"),
    Fact("awaits_approval", says="a tool was called that may run only once the caller approves"),
    Fact(
        "is_hopeless",
        says="the cut text runs in circles, is as short as was asked for, or passed its cap",
    ),
    Fact("has_compactor", says="the caller gave a compactor"),
    Fact("is_summary", says="this was the last call, which asked for a summary"),
    Fact(
        "has_no_text",
        says="this was the summary, and the model has shown no text in the whole turn",
    ),
)

USE_TOOLS = Rung(
    "use_tools",
    limit=3,
    lacks="is_summary",
    unit="fault",
    says="tools may be run: fewer rounds of them in a row have failed than may",
    does="running them",
)
GO_ON = Rung(
    "go_on",
    limit=25,
    lacks="is_summary",
    refills="faults",
    refills_on="tool_worked",
    unit="auto_continue",
    says="the turn may go on by itself",
    does="going on",
)
COMPACT = Rung(
    "compact",
    limit=3,
    holds=("has_compactor", "may_go_on_later"),
    lacks="is_summary",
    unit="compaction",
    says="the caller's compactor may run, and the turn go on with what it leaves",
    does="shortening the conversation",
)
SUMMARIZE = Rung(
    "summarize",
    limit=1,
    lacks=("is_summary", "over_tool_limit"),
    unit="summary",
    says="a last call without tools may ask for a summary",
    does="asking for a summary",
)
RUNGS = (USE_TOOLS, GO_ON, COMPACT, SUMMARIZE)

REPORT = GO_ON.when(
    "may_report",
    holds="has_patience",
    lacks=("repeats_calls", "over_tool_limit"),
    says="the model may be told what the tools brought: they do not only fail, and do not go "
    "round in circles",
)
EXTEND = GO_ON.when("may_extend", lacks="is_hopeless", says="the cut answer may be gone on from")

FINISHED = Ending("finished")
LIMIT_REACHED = Ending("limit_reached")
FAILED = Ending("failed")
HAND_OFF = Ending("handed_off", holds="was_handed_off")
AWAIT_APPROVAL = Ending("awaiting_approval", holds="awaits_approval")
SUMMED_UP = Ending("limit_reached", holds="is_summary")
NOTHING_SHOWN = Ending("failed", holds="has_no_text")

_TABLE = build_table(
    name="turn",
    start="ask",
    hub=AWAIT,
    outcomes=OUTCOMES,
    answers=("finished", "handed_off"),
    lesser=("awaiting_approval", "limit_reached"),
    rungs=RUNGS,
    facts=FACTS,
    events=EVENTS,
    ladders={
        "answered": (SUMMED_UP, FINISHED),
        "called_tools": (USE_TOOLS, NOTHING_SHOWN, LIMIT_REACHED),
        "truncated": (EXTEND, LIMIT_REACHED),
        "overflowed": (NOTHING_SHOWN, SUMMED_UP, COMPACT, FAILED),
        "interrupted": (SUMMED_UP, FAILED),
        "refused": (NOTHING_SHOWN, SUMMED_UP, FAILED),
        "call_failed": (NOTHING_SHOWN, SUMMED_UP, FAILED),
        "tools_ran": (HAND_OFF, AWAIT_APPROVAL, REPORT, SUMMARIZE, LIMIT_REACHED),
        "compacted": (GO_ON, LIMIT_REACHED),
        "stayed_long": (FAILED,),
    },
    everywhere={"cancelled": "cancelled", "ran_out": "over_budget"},
)

TURN = ship(evolve(_TABLE, resumes=USE_TOOLS.name))
"""The machine that every turn runs on. One that goes on after an approval begins with the tools."""
