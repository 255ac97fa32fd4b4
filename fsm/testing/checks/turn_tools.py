"""Whether tools run as allowed: whole calls of known tools, within limits, each with one result.

A tool call is the one thing of a turn that cannot be taken back. So what ran is compared, call by
call, with what the model asked for, and what the model reads of it with what the tool returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN
from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.replies.parts import ToolResult
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.checks.success import fault_of_arguments
from rungwise.fsm.testing.checks.turn_transcript import ANSWERED, arguments_of, results_of
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.turn_player import CallInTurn, PlayedRound
from rungwise.fsm.turn.conversation import ResultEntry
from rungwise.fsm.turn.tool_round import entry_of
from rungwise.fsm.turn.tools import ToolRun

WHOLE_CALLS = "no cut tool call is run or handed out"
ALLOWED = "only known tools are run, no more and no longer than the policy allows"
SHORTENED = "the results of one reply fit into their share of the window"
PRIOR = "an answer beside notes stands for an empty one, until another tool is called"
HANDED = "a turn is handed off with the calls of terminating tools, and with no other"

CUT = " characters left out ..."
LONGEST_MARK = 80  # bytes, at most, of the mark that says how much of a result was left out


def check_runs(seen: SeenTurn) -> None:
    """Check the runs against the tool calls of the replies."""
    for played, round in seen.rounds():
        calling = list(seen.asked_by(played))
        if not calling:
            raise Dishonest(ALLOWED, "tools ran that no call asked for")
        for run in round.runs:
            # calls that did not run may stand between those that did
            while calling and arguments_of(calling[0]) != run.call.arguments:
                calling.pop(0)
            if not calling:
                wrong = f"the tool {run.tool.name!r} ran without being called, or out of order"
                raise Dishonest(ALLOWED, wrong)
            calling.pop(0)
            _check_run(seen, run)
        if len(round.runs) > seen.policy.calls_per_reply:
            raise Dishonest(ALLOWED, f"{len(round.runs)} calls of one reply were run")


def _check_run(seen: SeenTurn, run: ToolRun) -> None:
    """Check that a run may be: of a whole call, with the right tool, and not for too long."""
    _check_whole(run.call.name, run.call.arguments)
    if seen.tools.tools.get(run.call.name) is not run.tool:
        raise Dishonest(ALLOWED, f"the call of {run.call.name!r} went to another tool")
    if run.tool.needs_approval:
        raise Dishonest(ALLOWED, f"the tool {run.tool.name!r} ran without an approval")
    most = run.tool.seconds or seen.policy.tool_seconds
    if run.seconds > most:
        wrong = f"a tool may take {run.seconds:g} s, which is more than it should"
        raise Dishonest(ALLOWED, wrong)


def _check_whole(name: str, arguments: str) -> None:
    fault = fault_of_arguments(arguments)
    if fault:
        raise Dishonest(WHOLE_CALLS, f"a call of {name!r} was run whose arguments are {fault}")


def check_results(seen: SeenTurn) -> None:
    """Check that each result belongs to its call: what the tool returned, or its fault."""
    for round, calling, results in results_of(seen):
        ids = [each.id for each in calling.tool_calls]
        answered = [each.id for each in results.tool_results]
        if ids != answered or len(set(ids)) != len(ids):
            wrong = f"{len(ids)} calls have {len(answered)} results, or in another order"
            raise Dishonest(ANSWERED, wrong)
        entries = _entries(seen, round)
        _check_size(seen, results.tool_results, entries)
        for result in results.tool_results:
            _check_result(seen, result, entries.get(result.id))


def _entries(seen: SeenTurn, round: PlayedRound) -> dict[str, ResultEntry]:
    """Return what the runs of a round came to, by the ids of their calls.

    There is none if the turn was dropped before it knew.
    """
    if not seen.run.turn.is_over and round is seen.run.doings[-1]:
        return {}
    entries: dict[str, ResultEntry] = {}
    for run, outcome in zip(round.runs, round.outcomes, strict=False):
        entries[run.call.id] = entry_of(0, outcome, seen.policy.result_tokens)
    return entries


def _check_result(seen: SeenTurn, result: ToolResult, entry: ResultEntry | None) -> None:
    """Check one result against what its run came to; None if its call was not run."""
    if entry is None:
        if not result.is_fault and not seen.tools.is_terminating(result.name):
            wrong = f"a call of {result.name!r} was not run, and its result says that it was"
            raise Dishonest(ANSWERED, wrong)
        return
    is_same = result.text == entry.text or CUT in result.text
    if result.is_fault is not entry.is_fault or not is_same:
        wrong = f"a run of {result.name!r} has another result than its tool returned"
        raise Dishonest(ANSWERED, wrong)


def _check_size(
    seen: SeenTurn, results: Sequence[ToolResult], entries: Mapping[str, ResultEntry]
) -> None:
    """Check that results are shortened if they must be, and only then."""
    room = seen.policy.result_tokens * BYTES_A_TOKEN
    size = 0  # bytes of the results
    whole = 0  # bytes of them before they were shortened
    is_measurable = True
    for each in results:
        entry = entries.get(each.id)
        size += bytes_of(each.text)
        whole += bytes_of(each.text if entry is None else entry.text)
        if entry is None and CUT in each.text:
            is_measurable = False
    if size > room + LONGEST_MARK * len(results):
        wrong = f"the results of one reply have {size} bytes, and may have {room}"
        raise Dishonest(SHORTENED, wrong)
    if is_measurable and whole <= room and size != whole:
        wrong = f"the results of one reply have {whole} bytes, and are cut to {size}"
        raise Dishonest(SHORTENED, wrong)


def check_handed_off(seen: SeenTurn) -> None:
    """Check which tool calls are handed off to the caller."""
    result = seen.result
    if result is None:
        return
    outcome = result.outcome
    handed_off = len(result.handed_off)
    if (handed_off > 0) is not (outcome == "handed_off"):
        wrong = f"the outcome is {outcome!r}, and {handed_off} calls are handed off"
        raise Dishonest(HANDED, wrong)
    awaiting = len(result.awaiting)
    may_wait = outcome in ("awaiting_approval", "handed_off")
    must_wait = outcome == "awaiting_approval"
    if (awaiting > 0 and not may_wait) or (must_wait and awaiting == 0):
        wrong = f"the outcome is {outcome!r}, and {awaiting} calls wait for approval"
        raise Dishonest(HANDED, wrong)
    for call in result.handed_off:
        _check_whole(call.name, call.arguments)
        if not seen.tools.is_terminating(call.name):
            raise Dishonest(HANDED, f"{call.name!r} does not end a turn")


def check_prior(seen: SeenTurn) -> None:
    """Check that calls know the answer that came beside housekeeping tools."""
    prior: str | None = None
    calling: CallInTurn | None = None
    for doing in seen.run.doings:
        if isinstance(doing, CallInTurn):
            context = doing.call.turn
            has_prior = prior is not None
            if context.prior_answer != prior or context.only_housekeeping is not has_prior:
                raise Dishonest(PRIOR, "a call has the wrong prior answer")
            calling = doing
        elif isinstance(doing, PlayedRound) and calling is not None:
            calls = seen.asked_by(calling)
            text = calling.call.result.text
            only_notes = all(seen.tools.is_housekeeping(call.name) for call in calls)
            if not only_notes:
                prior = None
            elif not is_blank(text):
                prior = text
