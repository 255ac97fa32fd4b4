"""The tour of the demo: its opening, its scenes one after the other, and what they came to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby
from typing import Final

import httpx
from attrs import frozen
from rich.text import Text

from rungwise.adapters.cli.output import counted
from rungwise.adapters.cli.words import plain
from rungwise.adapters.client import Client
from rungwise.adapters.demo.scene import Scenery
from rungwise.adapters.demo.scenes import Scene
from rungwise.adapters.demo.screen import STYLES, Stage
from rungwise.adapters.demo.servers import PIPED, PRICES, WATCHED, Clock, Pace, casting
from rungwise.fsm.call.policy import Budget, Policy
from rungwise.fsm.call.result import Result
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.errors import CallError

POLICY: Final = Policy(budget=Budget(seconds=120.0, output_tokens=4000, money=0.25))
SEED: Final = 7
"""Of the jitter: the tour is the same each time."""


@frozen
class Played:
    """Hold how a scene ended.

    Arguments:
        scene: the scene.
        result: the end of its call.
        arrived: how many requests the servers received.
        was_followed: whether the pieces that the stream handed out, less what it took back, are the result's text.
    """

    scene: Scene
    result: Result
    arrived: int
    was_followed: bool


def tour(scenes: Sequence[Scene], *, is_watched: bool) -> None:
    """Play scenes and show them on stdout."""
    stage, pace = Stage(), WATCHED if is_watched else PIPED
    _open(stage, pace, len(scenes))
    played = []
    # Nothing of the environment, such as a proxy, may stand between the demo and its own servers.
    with httpx.Client(timeout=None, trust_env=False) as http:
        for number, scene in enumerate(scenes, start=1):
            played.append(_play(stage, pace, http, number, scene))
    _close(stage, played)


def _open(stage: Stage, pace: Pace, count: int) -> None:
    budget = POLICY.budget
    stage.print(f"Rungwise: {counted(count, 'call')} to providers that misbehave on purpose", "bold")
    stage.print()
    stage.paragraph(
        "Real HTTP servers on 127.0.0.1 play the providers, the real client calls them: no key, no network. "
        f"Waits are shortened to {pace.shorten:.0%} and at most {pace.longest:g} s; the clock of a call counts them "
        f"in full. Prices are made up: ${PRICES.input:g} for a million tokens in, ${PRICES.output:g} for as many out."
    )
    stage.print()
    stage.paragraph(
        f"The policy is the default, with a budget for each call: {budget.attempts} attempts, {budget.seconds:g} s, "
        f"{budget.output_tokens} tokens out, ${budget.money:g}. On the left stand the rungs, in which something is "
        "sent. And a line such as"
    )
    stage.print(Text.assemble("    ", ("came_empty", "magenta"), (" [may_nudge]", "yellow"), f" {stage.arrow} nudge"))
    stage.paragraph("says: this came back, this guard was the first to hold, so this comes next.")


def _play(stage: Stage, pace: Pace, http: httpx.Client, number: int, scene: Scene) -> Played:
    clock = Clock(pace)
    stage.print()
    stage.print(Text.assemble((f"{number:2}  ", "bold cyan"), (scene.title, "bold")))
    stage.paragraph(scene.says, "italic", indent=4)
    stage.print()
    with casting(scene, pace) as cast:
        scenery = Scenery(stage, clock, cast)
        client = Client(
            cast.chain,
            policy=POLICY,
            http=http,
            clock=clock.now,
            sleep=clock.sleep,
            jitter=random.Random(SEED).random,
        )
        stream = client.stream(scene.messages, tools=scene.tools, max_tokens=scene.max_tokens)
        with stream:
            try:
                for event in stream:
                    scenery.follow(event)
                error = None
            except CallError as raised:
                error = raised
        was_followed = scenery.end(stream.result, error)
        _show_cost(stage, stream.result)
        clock.pause(pace.scene)
        return Played(scene, stream.result, cast.arrived, was_followed)


def _show_cost(stage: Stage, result: Result) -> None:
    budget, usage = POLICY.budget, result.usage
    about = "~" if usage.estimated else ""
    stage.label("spent", "dim")
    stage.say(
        f"{result.attempts}/{budget.attempts} attempts, {result.seconds:.1f}/{budget.seconds:g} s, "
        f"{about}{usage.output_tokens}/{budget.output_tokens} tokens out, "
        f"{about}${result.cost or 0:.4f}/${budget.money:g}",
        "dim",
    )


def path_of(result: Result) -> str:
    """Return the rungs that a call took, in order; repeats are counted."""
    rungs = [step.source for step in result.journal.steps if step.event == "sent"]
    runs = [(rung, len(list(run))) for rung, run in groupby(rungs)]
    return " > ".join(f"{rung} x{count}" if count > 1 else rung for rung, count in runs)


def _close(stage: Stage, played: Sequence[Played]) -> None:
    stage.print()
    rows: list[tuple[str | Text, ...]] = [
        (
            one.scene.name,
            path_of(one.result),
            Text(plain(one.result.outcome), STYLES[one.result.outcome]),
            str(one.result.attempts),
        )
        for one in played
    ]
    stage.table(("scene", "path", "outcome", "attempts"), rows)
    stage.print()
    answered = sum(one.result.is_success for one in played)
    sent, arrived = sum(one.result.attempts for one in played), sum(one.arrived for one in played)
    followed = sum(one.was_followed for one in played)
    failed = ", and every other one with an error that says why" if answered < len(played) else ""
    stage.paragraph(
        f"{answered} of {counted(len(played), 'call')} ended with an answer{failed}. Of "
        f"{counted(sent, 'request')}, {arrived} arrived. In {followed} of {len(played)}, whoever followed "
        f"the stream, and what it took back, held exactly the text of the result."
    )
    _compare(stage, played)
    stage.print()
    stage.print("Next: rungwise ask --help, rungwise diagram, rungwise verify")


def _compare(stage: Stage, played: Sequence[Played]) -> None:
    """Set the worst that the calls took beside the worst that is proved."""
    certificate = verify(POLICY, 2)
    stage.print()
    if not certificate.ok:
        stage.paragraph("rungwise verify finds a property of this policy that does not hold: run it to see which.")
        return
    worst = {case.name: case.value for case in certificate.worst}
    attempts, seconds = max(one.result.attempts for one in played), max(one.result.seconds for one in played)
    stage.paragraph(
        "rungwise verify, run just now on this policy with two backends: everything holds. At worst, it says, a call "
        f"takes {worst['attempts']} attempts and waits {worst['waiting seconds']:g} s; the most seen here: "
        f"{counted(attempts, 'attempt')} and {seconds:.1f} s, all in all."
    )
