"""Whatever tools bring, and whenever: they run in their order, no more than may, and each has its
outcome.
"""

from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Tool, ToolCall, ToolEnded, ToolStarted
from rungwise.adapters.tools.calling import ToolReturn
from rungwise.adapters.tools.scheduling import (
    CANCELLED,
    GRACE,
    LEFT,
    NOT_BEGUN,
    Job,
    Schedule,
    ToolsEnded,
    schedule_of,
)
from rungwise.core import RunTools, ToolOutcome, ToolRun

SECONDS = 10.0


@attrs.define
class Played:
    """A round on a clock of its own, played by hand."""

    alone: list[bool]
    at_once: int
    now: float = 0.0
    _told: list[ToolStarted | ToolEnded] = attrs.field(factory=list, init=False)
    cancelled: list[Job] = attrs.field(factory=list)
    schedule: Schedule = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        runs = tuple(
            ToolRun(
                ToolCall(f"c{place}", f"t{place}", "{}"),
                Tool(print, parameters={}, alone=alone),
                {},
                SECONDS,
            )
            for place, alone in enumerate(self.alone)
        )
        jobs = schedule_of(RunTools(runs, self.at_once)).jobs
        self.schedule = Schedule(jobs, self.at_once, clock=lambda: self.now)

    @property
    def told(self) -> list[ToolStarted | ToolEnded]:
        self._told += self.schedule.drain()
        return self._told

    @property
    def running(self) -> list[Job]:
        return [job for job in self.schedule.jobs if job.is_running]

    def begin(self, is_async: Callable[[], bool]) -> None:
        while (job := self.schedule.begin()) is not None:
            if is_async():
                job.cancel = lambda job=job: self.cancelled.append(job)

    def check(self) -> None:
        running = self.running
        assert len(running) <= self.at_once
        assert len(running) <= 1 or not any(job.run.tool.alone for job in running)
        begun = [job.is_begun for job in self.schedule.jobs]
        assert begun == sorted(begun, reverse=True)


@given(st.lists(st.booleans(), max_size=6), st.integers(1, 4), st.data())
def test_every_round_ends_with_an_outcome_for_each_call(
    alone: list[bool], at_once: int, data: st.DataObject
) -> None:
    played = Played(alone, at_once)
    reasons: list[BaseException] = []
    while not played.schedule.is_over:
        played.begin(lambda: data.draw(st.booleans()))
        played.check()
        running = played.running
        if not running:
            break
        match data.draw(st.sampled_from(["bring", "raise", "leave", "wait", "wait", "end"])):
            case "bring":
                played.schedule.take(data.draw(st.sampled_from(running)), ToolReturn("value"))
            case "raise":
                played.schedule.take(
                    data.draw(st.sampled_from(running)), ToolReturn(error=ValueError("no"))
                )
            case "leave":
                reasons.append(KeyboardInterrupt())
                played.schedule.take(
                    data.draw(st.sampled_from(running)), ToolReturn(error=reasons[-1])
                )
            case "wait":
                before = len(running), [job.fault for job in running]
                played.now += played.schedule.seconds_left()
                played.schedule.expire()
                # A wait until something is to be done always gets on.
                assert before != (len(played.running), [job.fault for job in running])
            case "end":
                reasons.append(KeyboardInterrupt())
                played.schedule.end(reasons[-1])
    assert played.now <= (SECONDS + GRACE) * len(alone)
    if reasons:
        with pytest.raises(ToolsEnded) as caught:
            played.schedule.finish()
        assert caught.value.reason is reasons[0]
        outcomes = caught.value.outcomes
    else:
        outcomes = played.schedule.finish()
        assert all(job.is_begun for job in played.schedule.jobs)
    assert len(outcomes) == len(alone)
    begun = [job for job in played.schedule.jobs if job.is_begun]
    assert [each.call for each in played.told if isinstance(each, ToolStarted)] == [
        job.run.call for job in begun
    ]
    ended_with = {each.call.id: each.outcome for each in played.told if isinstance(each, ToolEnded)}
    assert [
        ended_with.get(job.run.call.id, ToolOutcome(fault=NOT_BEGUN))
        for job in played.schedule.jobs
    ] == [*outcomes]
    assert len(ended_with) == len(begun)


def test_one_that_was_cancelled_has_some_time_to_end() -> None:
    played = Played([False, False], 2)
    played.begin(lambda: True)
    first, second = played.schedule.jobs
    played.now = SECONDS
    played.schedule.expire()
    assert played.cancelled == [first, second]
    played.schedule.take(first, ToolReturn("too late"))
    assert first.outcome == ToolOutcome(fault="timed out after 10 s")
    assert played.schedule.seconds_left() == GRACE
    played.now += GRACE
    played.schedule.expire()
    assert second.outcome == ToolOutcome(fault=f"timed out after 10 s; {LEFT}")
    played.schedule.take(second, ToolReturn("far too late"))
    assert len(played.told) == 4


def test_what_is_to_be_awaited_is_not_begun_once_the_tools_are_ended() -> None:
    played = Played([False], 1)
    played.begin(lambda: False)
    [job] = played.schedule.jobs
    assert played.schedule.may_go_on(job)
    played.schedule.end(KeyboardInterrupt())
    assert not played.schedule.is_over
    assert not played.schedule.may_go_on(job)
    assert job.outcome == ToolOutcome(fault=CANCELLED)
    with pytest.raises(ToolsEnded):
        played.schedule.finish()
