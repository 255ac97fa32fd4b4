"""Replay a journal through a new call: the same steps and the same result, or an error that names the difference."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from fsm.call import Call
from fsm.errors import IllegalEvent, JournalMismatch
from fsm.journal import Evidence, Journal, Step
from fsm.observe import Heard
from fsm.policy import Policy
from fsm.reply import Failure, Reply, ToolCall
from fsm.request import Request, TurnContext
from fsm.result import Result
from fsm.transcript import Cue


def replay(journal: Journal, policy: Policy | None = None) -> Result:
    """Run a recorded call again and return its result; its text is there only if the journal holds contents.

    Arguments:
        journal: what was recorded, complete or not; a call that had not ended is cancelled where the journal ends.
        policy: the policy to replay under; the recorded one where None. A table of your own is not recorded and must
            be passed.

    Raises:
        JournalMismatch: a step differs; the message names the first one and what differs in it.
    """
    recorded, setting = journal.steps, journal.setting
    policy = policy or setting.policy
    if setting.table not in (None, policy.table.name):
        raise JournalMismatch(f"the journal is of the table {setting.table!r}, the policy holds {policy.table.name!r}")
    prompts = _prompts(recorded)
    draws: Iterator[float] = iter([step.draw for step in recorded if step.draw is not None])
    call = Call(
        Request("(not recorded)", max_tokens=setting.max_tokens, input_tokens=setting.input_tokens),
        policy,
        setting.chain,
        turn=_turn(recorded),
        jitter=lambda: next(draws, 0.0),
        contents=journal.contents,
        has_compactor=setting.has_compactor,
        estimate=lambda value: next(prompts, 0) if value else 0,
    )
    call.begin(0.0)
    for step in recorded:
        try:
            _take(call, step)
        except IllegalEvent as error:
            raise JournalMismatch(f"step {step.number}: {error}") from None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # Nothing but the contents of a step is used here without its form having been checked.
            raise JournalMismatch(f"step {step.number}: its content is not of its form ({error})") from None
        if step.event != "skipped":  # it is written down together with the row that follows
            _compare(call.journal, recorded, step.number)
    if not call.is_over:
        call.cancel()
    _compare(call.journal, recorded, len(recorded))
    if journal.outcome is not None and call.result.outcome != journal.outcome:
        raise JournalMismatch(f"the journal ends in {journal.outcome!r}, the replay in {call.result.outcome!r}")
    return call.result


def _prompts(recorded: tuple[Step, ...]) -> Iterator[int]:
    """Give back the count of each prompt that was sent, or could not be."""
    return iter([step.input_tokens or 0 for step in recorded if step.event in ("sent", "ran_out")])


def _turn(recorded: tuple[Step, ...]) -> TurnContext:
    """Give back the prior answer that a recorded result was salvaged from."""
    content = recorded[-1].content if recorded else None
    prior = (content or {}).get("prior_answer")
    return TurnContext(prior, only_housekeeping=prior is not None)


def _take(call: Call, step: Step) -> None:
    """Do what the recorded step did; steps that follow from others by themselves are only compared."""
    if len(call.journal.steps) >= step.number or step.event == "skipped":
        return
    if step.event in ("sent", "ran_out"):
        call.sending(step.at)
    elif step.event == "cancelled":
        call.cancel(step.at, Reply(usage=step.usage), delivered=(step.content or {}).get("delivered", ""))
    else:
        call.take(_heard(step, call.backend), step.at)


def _heard(step: Step, backend: int) -> Heard:
    content = step.content or {}
    failure = None
    if step.reason is not None:
        failure = Failure(
            step.reason,  # type: ignore[arg-type] # the journal holds what a Failure held
            status=step.status,
            code=step.code,
            asked_wait=step.asked_wait,
        )
    repair = step.note if "repair_known" in step.facts else None
    evidence = Evidence(
        step.event,
        step.facts,
        step.usage,
        step.stop_raw,
        step.status,
        step.reason,
        step.code,
        step.asked_wait,
        repair,
        dict(content) if step.content is not None else None,
    )
    calls = tuple(ToolCall(*call) for call in content.get("tool_calls", ()))
    reply = None
    if "tool_calls" in content:
        reply = Reply(
            content["part"] or content["delivered"],
            final_text=content.get("final_text"),
            tool_calls=calls,
            usage=step.usage,
            reasoning=content.get("reasoning", ""),
            stop_raw=step.stop_raw,
        )
    return Heard(
        evidence,
        part=content.get("part", ""),
        new=content.get("new", ""),
        spare=content.get("spare", ""),
        unsays=content.get("unsays", False),
        reasoning=content.get("reasoning", ""),
        cue=Cue(
            backend,
            content.get("reasoning", ""),
            "thinks_inline" in step.facts,
            step.event == "paused",
            step.event == "reasoning_truncated",
            repair,
        ),
        reply=reply,
        failure=failure,
        delivered=content.get("delivered", ""),
    )


def _compare(replayed: Journal, recorded: tuple[Step, ...], number: int) -> None:
    """Compare the replay with the journal up to a step."""
    steps = replayed.steps
    if len(steps) < number:
        raise JournalMismatch(f"step {number}: the journal has {recorded[number - 1]}, the replay took no step")
    for was, now in zip(recorded[:number], steps, strict=False):
        if was == now:
            continue
        for attribute in attrs.fields(Step):
            before, after = getattr(was, attribute.name), getattr(now, attribute.name)
            if before != after and attribute.name != "content":
                raise JournalMismatch(
                    f"step {was.number}: {attribute.name} is {before!r} in the journal and {after!r} in the replay"
                )
        raise JournalMismatch(f"step {was.number}: the contents differ")
