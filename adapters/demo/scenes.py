"""The demo from start to end: its introduction, its scenarios, and their summary."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from typing import Any, Final

import httpx
from attrs import frozen
from rich.text import Text

from rungwise.adapters.cli.output import counted
from rungwise.adapters.client import Client
from rungwise.adapters.client_clocks import Clocks
from rungwise.adapters.demo.crash import show_crash
from rungwise.adapters.demo.scenarios import SCENARIOS, Scenario
from rungwise.adapters.demo.servers import PIPED, PRICES, WATCHED, DemoClock, Pace, started_servers
from rungwise.adapters.demo.view import STYLES, ScenarioView, Screen
from rungwise.adapters.http.streams import SyncStream
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.call.policy import Budget, Policy, Timeouts
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.engine.journal.amounts import plain
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnError, TurnResult
from rungwise.fsm.turn.table import CALLS

POLICY: Final = Policy(
    budget=Budget(seconds=120.0, output_tokens=4000, money=0.25),
    timeouts=Timeouts(stall=1.0),  # the default would be boring to watch
)
SEED: Final = 7  # the seed of the jitter, so that each run of the demo is the same


@frozen
class ScenarioEnd:
    """Hold how a scenario ended."""

    scenario: Scenario
    result: Result | TurnResult  # the end of its call, or of its turn
    arrived: int  # how many requests the servers received
    # whether the streamed text, minus what was taken back, is the text of the result
    was_followed: bool


def run_demo(scenarios: Sequence[Scenario], api: str, *, is_watched: bool) -> None:
    """Run scenarios in a protocol and show them on stdout."""
    screen = Screen()
    pace = WATCHED if is_watched else PIPED
    turns = sum(scenario.auto_continues is not None for scenario in scenarios)
    counts = ((len(scenarios) - turns, "call"), (turns, "turn"))
    _open(screen, pace, " and ".join(counted(number, what) for number, what in counts if number))
    # The environment, such as a proxy, must not come between the demo and its own servers.
    with httpx.Client(timeout=None, trust_env=False) as http:
        ends = [
            _run(screen, pace, http, number, each, api)
            for number, each in enumerate(scenarios, start=1)
        ]
    if len(scenarios) == len(SCENARIOS):
        show_crash(screen)
    _close(screen, ends)


def _open(screen: Screen, pace: Pace, what: str) -> None:
    budget = POLICY.budget
    screen.print(f"Rungwise: {what} with providers that misbehave on purpose", "bold")
    screen.print()
    screen.paragraph(
        "Real HTTP servers on 127.0.0.1 play the providers, and the real client calls them: no "
        "key, no network. "
        f"Waits are shortened to {pace.shorten:.0%} and at most {pace.longest:g} s; the clock of "
        f"a call counts them "
        f"in full. Prices are made up: ${PRICES.input:g} per million tokens in, "
        f"${PRICES.output:g} per million out."
    )
    screen.print()
    screen.paragraph(
        f"The policy is the default, with a budget for each call or turn: {budget.attempts} "
        f"attempts, "
        f"{budget.seconds:g} s, {budget.output_tokens} tokens out, ${budget.money:g}. A stream "
        f"that stalls is "
        f"abandoned after {POLICY.timeouts.stall:g} s. The left column names the rungs, where "
        f"something is sent "
        "or tools run. A line such as"
    )
    screen.print(
        Text.assemble(
            "    ", ("came_empty", "magenta"), (" [may_nudge]", "yellow"), f" {screen.arrow} nudge"
        )
    )
    screen.paragraph("means: this came back, this guard was the first to hold, so this comes next.")


def _run(
    screen: Screen, pace: Pace, http: httpx.Client, number: int, scenario: Scenario, api: str
) -> ScenarioEnd:
    clock = DemoClock(pace)
    jitter = random.Random(SEED).random
    screen.print()
    screen.print(Text.assemble((f"{number:2}  ", "bold cyan"), (scenario.title, "bold")))
    screen.paragraph(scenario.says, "italic", indent=4)
    screen.print()
    with started_servers(scenario, pace, api) as servers:
        view = ScenarioView(screen, clock, servers)
        client = Client(
            servers.chain,
            policy=POLICY,
            http=http,
            testing=Clocks(clock=clock.now, sleep=clock.sleep, jitter=jitter),
        )
        for _ in range(scenario.calls_before):
            client.call(scenario.messages)
        error = None
        arrived_before = servers.arrived
        with _stream(client, scenario) as stream:
            try:
                for event in stream:
                    view.follow(event)
            except (CallError, TurnError) as raised:
                error = raised
        was_followed = view.end(stream.result, error)
        _show_cost(screen, stream.result)
        clock.pause(pace.scenario)
        return ScenarioEnd(scenario, stream.result, servers.arrived - arrived_before, was_followed)


def _stream(client: Client, scenario: Scenario) -> SyncStream[Any, Any]:
    options: dict[str, Any] = {"tools": scenario.tools, "max_tokens": scenario.max_tokens}
    if scenario.auto_continues is None:
        return client.stream(scenario.messages, **options)
    return client.stream_turn(scenario.messages, policy=_turn_policy(scenario), **options)


def _turn_policy(scenario: Scenario) -> TurnPolicy:
    return TurnPolicy(
        call=POLICY, budget=POLICY.budget, auto_continues=scenario.auto_continues or 0
    )


def _show_cost(screen: Screen, result: Result | TurnResult) -> None:
    budget = POLICY.budget
    usage = result.usage
    about = "~" if usage.estimated else ""
    screen.label("spent", "dim")
    screen.say(
        f"{result.attempts}/{budget.attempts} attempts, {result.seconds:.1f}/{budget.seconds:g} s, "
        f"{about}{usage.output_tokens}/{budget.output_tokens} tokens out, "
        f"{about}${result.cost or 0:.4f}/${budget.money:g}",
        "dim",
    )


def path_of(result: Result | TurnResult) -> str:
    """Return the rungs in which a call sent something, or a turn made a call, in order; repeats are
    counted.
    """
    is_turn = isinstance(result, TurnResult)
    sent = [step.source for step in result.journal.steps if step.event == "sent"]
    rungs = [rung for rung in sent if rung in CALLS] if is_turn else sent
    runs = [(rung, len(list(run))) for rung, run in groupby(rungs)]
    return " > ".join(f"{rung} x{count}" if count > 1 else rung for rung, count in runs)


def _close(screen: Screen, ends: Sequence[ScenarioEnd]) -> None:
    screen.print()
    rows: list[tuple[str | Text, ...]] = []
    for one in ends:
        outcome = Text(plain(one.result.outcome), STYLES[one.result.outcome])
        rows.append((one.scenario.name, path_of(one.result), outcome, str(one.result.attempts)))
    screen.table(("scenario", "path", "outcome", "sent"), rows)
    screen.print()
    answered = sum(one.result.is_success for one in ends)
    failed = len(ends) - answered
    others = (
        "raised an error that says why" if failed == 1 else f"{failed} raised errors that say why"
    )
    sent = sum(one.result.attempts for one in ends)
    arrived = sum(one.arrived for one in ends)
    followed = sum(one.was_followed for one in ends)
    screen.paragraph(
        f"{answered} of {len(ends)} ended with an "
        f"answer{f'; the other {others}' if failed else ''}. {arrived} of "
        f"{counted(sent, 'request')} arrived. In {followed} of {len(ends)}, the text that was "
        f"streamed, minus what was "
        "taken back, is exactly the text of the result."
    )
    _compare(screen, ends)
    screen.print()
    screen.print("Next: rungwise ask --help, rungwise diagram, rungwise verify, rungwise odds")
    if find_spec("numpy"):
        found = odds(POLICY, Rates.example())
        assert found.money is not None  # the example has prices
        screen.print()
        screen.paragraph(
            f"rungwise odds on this policy, with the rates that ship: "
            f"{found.outcomes['done']:.3%} of the calls "
            f"end well, 99 of 100 within {found.seconds.quantiles['p99']:.0f} s, at "
            f"${found.money.mean:.4f} each."
        )


def _compare(screen: Screen, ends: Sequence[ScenarioEnd]) -> None:
    """Compare what calls and limited turns took with the proved worst cases."""
    calls = [one.result for one in ends if isinstance(one.result, Result)]
    if calls and (worst := _worst(screen, POLICY)):
        attempts = max(one.attempts for one in calls)
        seconds = max(one.seconds for one in calls)
        screen.paragraph(
            "rungwise verify on this policy with two backends: every property holds, and a call "
            "takes at most "
            f"{worst['attempts']} attempts and {worst['seconds']:g} s. Most seen here: "
            f"{counted(attempts, 'attempt')} and {seconds:.1f} s."
        )
    for one in ends:
        is_limited = one.result.outcome == "limit_reached"
        if (
            is_limited
            and isinstance(one.result, TurnResult)
            and (worst := _worst(screen, _turn_policy(one.scenario)))
        ):
            screen.paragraph(
                f"rungwise verify on the turn {one.scenario.name}: every property holds, and it "
                f"makes at most "
                f"{worst['calls']} calls. It made {one.result.calls}."
            )


def _worst(screen: Screen, policy: Policy | TurnPolicy) -> Mapping[str, Any]:
    """Return the worst cases of a policy by name; if a property does not hold, report it and return
    none.
    """
    certificate = verify(policy, 2)
    screen.print()
    if certificate.ok:
        return {case.name: case.value for case in certificate.worst}
    screen.paragraph(
        "rungwise verify: a property does not hold for this policy; run it to see which."
    )
    return {}
