"""A healthy backend anywhere in a chain is asked in time, whatever the others do, within what is certified."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from rungwise import Call, Policy
from rungwise.fsm.certificate.worst import worst_cases
from support.healthy import ANSWER, Scene, Stage, scenes


def told(call: Call) -> str:
    return f"{call.result.outcome} ({call.result.cause})\n" + "\n".join(map(str, call.journal.steps))


@given(scenes())
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_others_do_the_call_is_done(scene: Scene) -> None:
    stage = Stage(scene)
    call = stage.play()
    assert call.result.outcome == "done", told(call)
    text = call.result.text
    assert text.endswith(ANSWER)
    assert text.count(ANSWER) == 1
    places = [text.find(part.strip()) for part in stage.said]
    kept = [place for place in places if place >= 0]
    assert kept == sorted(set(kept))
    assert all(text.count(part.strip()) <= 1 for part in stage.said)
    assert stage.now - 100.0 <= bound(scene.policy, len(scene.troubles)) + 1e-6, told(call)


def bound(policy: Policy, backends: int) -> float:
    found = worst_cases(policy, {**policy.limits, "fallbacks": backends - 1}, [None] * backends, None, None)
    value = next(each.value for each in found if each.name == "seconds")
    assert value is not None
    return value
