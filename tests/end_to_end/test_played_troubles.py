"""What a review says of each trouble is what a call does: the same responses over HTTP lead along
the same path.
"""

from itertools import count
from typing import Any

import pytest

import rungwise
from rungwise import Policy
from rungwise.core import Failure, Reply
from rungwise.fsm.analysis.certificate.courses import Scene, course_of, reported, scenes_of
from rungwise.fsm.analysis.certificate.enactment import ANSWER
from rungwise.fsm.analysis.certificate.troubles import Response, Trouble, troubles_of
from rungwise.testing import ScriptedReply

DEFAULT = Policy()
POOR = Policy(budget=rungwise.Budget(attempts=9, money=0.031, output_tokens=2600))
PRICES = rungwise.Prices(1, 10)
SHORT = Policy(
    timeouts=rungwise.Timeouts(
        connect=5,
        first_token=0.4,
        stall=0.4,
        total=1.0,
    )
)
REJECTED = {f"parameter_{number}": 1 for number in range(1, 25)}
"""What a request must have, for a repair to leave it out."""
NOBODY = "http://127.0.0.1:1/v1"
FINISHES = {"unknown": "odd", "paused": "pause_turn"}
TROUBLES = {each.name: each for each in troubles_of(DEFAULT, DEFAULT)}
HANGING = [each.name for each in TROUBLES.values() if each.lasts != "no time"]


def scripted(
    came: Reply | Failure | Response, body: dict[str, Any], prompt: int | None
) -> ScriptedReply:
    """Return the reply of the embedded provider that is the same on the wire."""
    if isinstance(came, Response):
        return ScriptedReply(status=came.status, body=came.body, headers=came.headers)
    if isinstance(came, Failure):
        return ScriptedReply(hang=True)
    if came.interrupted:
        return ScriptedReply(came.text * 3, cut_after=900 if came.text else 0)
    usage = reported(came, body.get("max_completion_tokens", body.get("max_tokens")), prompt).usage
    return ScriptedReply(
        came.text,
        reasoning=came.reasoning,
        tool_calls=came.tool_calls,
        finish=FINISHES.get(str(came.stop_reason), came.stop_reason),
        usage={"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens},
    )


def over_http(
    policy: Policy,
    trouble: Trouble,
    scene: Scene,
    provider: Any,
    client: Any,
    **asked: Any,
) -> tuple[list[tuple[str, float]], str]:
    """Make the call over HTTP; return its rungs with their waits, and its outcome."""
    numbers = count(1)

    def responder(backend: int) -> Any:
        def respond(request: Any) -> ScriptedReply:
            number = next(numbers)
            came = trouble.comes(number) if scene.takes(number, backend) else ANSWER
            return scripted(came, request.body, asked.get("input_tokens"))

        return respond

    kind = rungwise.Anthropic if "pauses" in trouble.name else rungwise.OpenAIChat
    refuses = [
        trouble.name == "a refused connection" and scene.takes(1, backend)
        for backend in range(scene.backends)
    ]
    chain = [
        kind(
            f"model-{backend}",
            base_url=NOBODY if refuses[backend] else provider(responder(backend)).base_url,
            api_key="sk-1f3870be274f6c49",
            name=f"backend {backend + 1}",
            prices=PRICES,
        )
        for backend in range(scene.backends)
    ]
    try:
        parameters = REJECTED if "different parameter" in trouble.name else {}
        request = rungwise.core.Request(trouble.messages, parameters=parameters, **asked)
        result = client(*chain, policy=policy).call(request)
    except rungwise.CallError as error:
        result = error.result
    steps = result.journal.steps
    rungs = [
        (step.source, before.wait) for before, step in zip((steps[0], *steps), steps, strict=False)
    ]
    sent = [each for each, step in zip(rungs, steps, strict=True) if step.event == "sent"]
    return sent, result.outcome


@pytest.mark.parametrize("name", [name for name in TROUBLES if name not in HANGING])
@pytest.mark.parametrize("policy", [DEFAULT, POOR], ids=["defaults", "poor"])
def test_each_trouble_leads_over_http_where_the_review_says(
    rungwise_provider: Any,
    rungwise_client: Any,
    name: str,
    policy: Policy,
) -> None:
    trouble = TROUBLES[name]
    asked = {"max_tokens": 1000, "input_tokens": 100}
    for scene in scenes_of(2):
        if name == "a refused connection" and scene.fails == "the first attempt":
            continue  # nobody listens there later either
        course = course_of(policy, trouble, scene, prices=PRICES, **asked)
        assert course is not None
        seen = over_http(policy, trouble, scene, rungwise_provider, rungwise_client, **asked)
        assert seen == ([*course.least.rungs], course.least.outcome), str(scene)


@pytest.mark.parametrize("name", HANGING)
def test_what_takes_time_leads_where_the_review_says(
    rungwise_provider: Any, rungwise_client: Any, name: str
) -> None:
    trouble = TROUBLES[name]
    scene = Scene("the first backend", 2)
    course = course_of(SHORT, trouble, scene, prices=PRICES)
    assert course is not None
    seen = over_http(SHORT, trouble, scene, rungwise_provider, rungwise_client)
    assert seen == ([*course.least.rungs], course.least.outcome)
