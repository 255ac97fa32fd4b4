"""An exam without processes: which cases are played, in what time, and what a stage does."""

import time

import pytest

from rungwise import ConfigurationError
from rungwise.adapters.exam.answer import ANSWER
from rungwise.adapters.exam.cases import QUICK, catalogue
from rungwise.adapters.exam.examining import Exam, examine
from rungwise.adapters.exam.programs import ProgramEnd
from rungwise.adapters.exam.stage import Stage
from rungwise.testing import ReceivedRequest
from support.command_line import printed_by


class Recorded:
    """A program of one request, which takes two seconds by its own account."""

    def __init__(self, **body: object) -> None:
        self.body = {"model": "m", "messages": [], **body}
        self.limits: list[float] = []

    def __call__(self, stage: Stage, limit: float) -> ProgramEnd:
        self.limits.append(limit)
        came = stage.respond(ask(**self.body))
        code = 0 if came.status == 200 else 1
        return ProgramEnd(output=came.text, errors="", code=code, seconds=2.0)

    def examined(self, **options: object) -> Exam:
        return examine(self, **options)  # type: ignore[arg-type]


def ask(**body: object) -> ReceivedRequest:
    return ReceivedRequest("/v1/chat/completions", {}, body, time.monotonic())


def test_an_exam_needs_no_extra():
    rooms = "command examinees examining journal report walks"
    names = ", ".join(f"rungwise.adapters.exam.{name}" for name in rooms.split())
    line = f"import {names}, sys; print('hypothesis' in sys.modules, 'openai' in sys.modules)"
    assert printed_by(line).split() == ["False", "False"]


def test_a_limit_leaves_time_to_start():
    program = Recorded()
    assert program.examined(names=["overloaded"]).of("safe") == ["overloaded"]
    assert program.limits == [60.0, catalogue()["overloaded"].limit + 6.0]


def test_the_first_cases_that_fit_are_played():
    came = Recorded().examined()
    assert [each.case.name for each in came.outcomes] == list(catalogue())[:QUICK]
    every = Recorded(stream=True).examined(count=100)
    names = {each.case.name for each in every.outcomes}
    assert {"json_for_events", "no_end"} <= names
    assert not names & {"cut_call", "not_json", "events_for_json"}


def test_nothing_waits_in_what_takes_two_seconds_as_ever():
    came = Recorded().examined(names=["overloaded", "cut"])
    assert [each.seen.waited for each in came.outcomes] == [0.0, 0.0]


def test_the_primary_is_whom_a_healthy_run_asks_first():
    stage = Stage(catalogue()["overloaded"], ("openai", "m"))
    replies = [stage.respond(ask(model=model)) for model in ("other", "m", "other", "m")]
    assert [reply.status for reply in replies] == [200, 503, 200, 503]
    assert [each.is_primary for each in stage.asked] == [False, True, False, True]


def test_a_beginning_that_is_given_back_is_gone_on_from():
    stage = Stage(None)
    said = ANSWER[:100]
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": said}]
    came = stage.respond(ask(model="m", messages=messages))
    assert said + came.text == ANSWER
    assert stage.asked[0].is_whole


def test_a_share_of_the_body_comes_before_a_cut():
    case = catalogue()["cut"]
    stage = Stage(case)
    came = stage.respond(ask(model="m", messages=[], stream=True))
    assert came.cut_after
    assert came.text == ANSWER
    assert stage.asked[0].tokens > 0


def test_a_case_that_does_not_fit_is_refused_by_its_name():
    with pytest.raises(ConfigurationError, match="the case cut_call does not fit"):
        Recorded().examined(names=["cut_call"])


def test_a_healthy_run_that_never_ends_is_told():
    def play(stage: Stage, limit: float) -> ProgramEnd:
        return ProgramEnd(output="", errors="", code=None, seconds=limit)

    with pytest.raises(ConfigurationError, match="had to be killed"):
        examine(play)
