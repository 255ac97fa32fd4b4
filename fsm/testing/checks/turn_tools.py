"""Whether tools run as allowed: whole calls of known tools, within the limits, each with one
result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN
from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.replies.parts import ToolCall, ToolResult
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.checks.success import fault_of_arguments
from rungwise.fsm.testing.checks.turn_transcript import ANSWERED, results_of
from rungwise.fsm.testing.checks.turns import SeenTurn
from rungwise.fsm.testing.turn_player import CallInTurn, PlayedRound
from rungwise.fsm.turn.tool_round import entry_of

WHOLE_CALLS = "no cut tool call is run or handed out"
ALLOWED = "only known tools are run, no more and no longer than the policy allows"
SHORTENED = "the results of one reply fit into their share of the window"
PRIOR = "an answer beside notes stands for an empty one, until another tool is called"
HANDED = "a turn is handed off with the calls of terminating tools, and with no other"

CUT = " characters left out ..."
LONGEST_MARK = 80  # characters that say of one result how much of it was left out, at most


def check_runs(seen: SeenTurn) -> None:
    """Check the runs against the tool calls of the replies."""
    for played, round in seen.rounds():
        calling = list(seen.asked_by(played))
        if not calling:
            raise Dishonest(ALLOWED, "tools ran that no call asked for")
        for run in round.runs:
            while calling and _arguments(calling[0]) != run.call.arguments:
                calling.pop(0)
            if not calling:
                raise Dishonest(
                    ALLOWED, f"the tool {run.tool.name!r} ran without being called, or out of order"
                )
            calling.pop(0)
            _check_whole(run.call.name, run.call.arguments)
            if seen.tools.tools.get(run.call.name) is not run.tool:
                raise Dishonest(ALLOWED, f"the call of {run.call.name!r} went to another tool")
            if run.tool.needs_approval:
                raise Dishonest(ALLOWED, f"the tool {run.tool.name!r} ran without an approval")
            if run.seconds > (run.tool.seconds or seen.policy.tool_seconds):
                raise Dishonest(
                    ALLOWED, f"a tool may take {run.seconds:g} s, which is more than it should"
                )
        if len(round.runs) > seen.policy.calls_per_reply:
            raise Dishonest(ALLOWED, f"{len(round.runs)} calls of one reply were run")


def _arguments(call: ToolCall) -> str:
    return "{}" if is_blank(call.arguments) else call.arguments


def _check_whole(name: str, arguments: str) -> None:
    if fault := fault_of_arguments(arguments):
        raise Dishonest(WHOLE_CALLS, f"a call of {name!r} was run whose arguments are {fault}")


def check_results(seen: SeenTurn) -> None:
    """Check that each result belongs to its call: what the tool returned, or its fault."""
    for round, calling, results in results_of(seen):
        calls = calling.tool_calls
        texts = results.tool_results
        if [each.id for each in calls] != [each.id for each in texts] or len(
            {each.id for each in calls}
        ) != len(calls):
            raise Dishonest(
                ANSWERED, f"{len(calls)} calls have {len(texts)} results, or in another order"
            )
        # or it was dropped before it knew
        has_results = seen.run.turn.is_over or round is not seen.run.doings[-1]
        finished = zip(round.runs, round.outcomes if has_results else (), strict=False)
        entries = {
            run.call.id: entry_of(0, each, seen.policy.result_tokens) for run, each in finished
        }
        words = {id: (entry.text, entry.is_fault) for id, entry in entries.items()}
        _check_size(seen, texts, words)
        for result in texts:
            if result.id not in words:
                if not result.is_fault and not seen.tools.is_terminating(result.name):
                    raise Dishonest(
                        ANSWERED,
                        f"a call of {result.name!r} was not run, and its result says that it was",
                    )
                continue
            text, is_fault = words[result.id]
            if result.is_fault is not is_fault or (result.text != text and CUT not in result.text):
                raise Dishonest(
                    ANSWERED, f"a run of {result.name!r} has another result than its tool returned"
                )


def _check_size(
    seen: SeenTurn, texts: Sequence[ToolResult], words: Mapping[str, tuple[str, bool]]
) -> None:
    """Check that results are shortened if they must be, and only then."""
    room = seen.policy.result_tokens * BYTES_A_TOKEN
    whole = sum(bytes_of(words.get(each.id, (each.text, False))[0]) for each in texts)
    size = sum(bytes_of(each.text) for each in texts)
    if size > room + LONGEST_MARK * len(texts):
        raise Dishonest(
            SHORTENED, f"the results of one reply have {size} bytes, and may have {room}"
        )
    is_measurable = not any(CUT in each.text for each in texts if each.id not in words)
    if is_measurable and whole <= room and size != whole:
        raise Dishonest(
            SHORTENED, f"the results of one reply have {whole} bytes, and are cut to {size}"
        )


def check_handed_off(seen: SeenTurn) -> None:
    """Check which tool calls are handed off to the caller."""
    result = seen.result
    if result is None:
        return
    if bool(result.handed_off) is not (result.outcome == "handed_off"):
        raise Dishonest(
            HANDED,
            f"the outcome is {result.outcome!r}, and {len(result.handed_off)} calls are handed off",
        )
    may_wait = ("awaiting_approval", "handed_off")
    must_wait = result.outcome == "awaiting_approval"
    if (result.awaiting and result.outcome not in may_wait) or (must_wait and not result.awaiting):
        count = len(result.awaiting)
        raise Dishonest(
            HANDED, f"the outcome is {result.outcome!r}, and {count} calls wait for approval"
        )
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
            if context.prior_answer != prior or context.only_housekeeping is not (
                prior is not None
            ):
                raise Dishonest(PRIOR, "a call has the wrong prior answer")
            calling = doing
        elif isinstance(doing, PlayedRound) and calling is not None:
            calls = seen.asked_by(calling)
            text = calling.call.result.text
            if not all(seen.tools.is_housekeeping(call.name) for call in calls):
                prior = None
            elif not is_blank(text):
                prior = text
