"""A healthy backend anywhere in a chain is asked in time, whatever the others do, within what is certified."""

import pytest
from hypothesis import HealthCheck, given, settings

import rungwise
from rungwise import Policy
from rungwise.core import Call
from rungwise.fsm.certificate.worst import worst_cases
from support.healthy import ANSWER, BEGAN, Scene, Stage, scenes


def told(call: Call) -> str:
    return f"{call.result.outcome} ({call.result.cause})\n" + "\n".join(map(str, call.journal.steps))


def bound(policy: Policy, backends: int) -> float:
    found = worst_cases(policy, {**policy.limits, "fallbacks": backends - 1}, [None] * backends, None, None)
    return next(each.value for each in found if each.name == "seconds")


@pytest.mark.parametrize("examples", [30, pytest.param(1000, marks=pytest.mark.full)])
def test_whatever_the_others_do_the_call_is_done(examples: int) -> None:
    @given(scenes())
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    def check(scene: Scene) -> None:
        stage = Stage(scene)
        call = stage.play()
        assert call.result.outcome == "done", told(call)
        text, parts = call.result.text, [part.strip() for part in stage.said]
        assert text.endswith(ANSWER)
        assert text.count(ANSWER) == 1
        assert [text.count(part) for part in parts] == [1] * len(parts), "something is lost, or said twice"
        assert sorted(parts, key=text.index) == parts
        assert stage.now - BEGAN <= bound(scene.policy, len(scene.troubles)) + 1e-6, told(call)
        assert rungwise.replay(rungwise.Journal.from_json(call.journal.to_json())).journal.steps == call.journal.steps

    check()
