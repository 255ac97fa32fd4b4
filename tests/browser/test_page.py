"""The page in a real browser: what is selected is shown, what is played is what the machine does, and it is quiet."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rungwise
from rungwise.fsm.call.explained import explain_call
from rungwise.fsm.call.table import CALL
from rungwise.fsm.certificate.play import play_policy
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.checker.walk import walk
from rungwise.fsm.diagram.colours import DARK, LIGHT, Colours
from rungwise.fsm.diagram.page.machine import machine_data
from rungwise.fsm.journal.path import Path as Route
from rungwise.fsm.journal.path import path_of
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Table
from rungwise.fsm.turn.explained import TurnPath, read_turn
from rungwise.fsm.turn.page import explain_turn
from rungwise.fsm.turn.table import TURN
from support import recorded
from support.colours import channels_of, contrast
from support.page_checks import assert_contrast, assert_page_fits
from support.tables import KNOTTY, ONES
from support.turns import BUSY, OVERFLOW, calling, played, said

Open = Callable[..., Any]  # opens a file in a new tab
WIDTHS = (360, 1200)
NASTY = "</script><img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"


def usage(output: int) -> rungwise.Usage:
    return rungwise.Usage(800, output)


STORY: tuple[tuple[rungwise.Reply | rungwise.Failure, float], ...] = (
    (rungwise.Reply(stop_reason="stop", stop_raw="stop", usage=usage(1)), 1.2),
    (rungwise.Reply(stop_reason="stop", stop_raw="stop", usage=usage(2)), 0.9),
    (rungwise.Reply(reasoning="hm", stop_reason="stop", stop_raw="stop", usage=usage(240)), 4.1),
    (rungwise.Reply("The answer is ", stop_reason="length", stop_raw="length", usage=usage(700)), 6.3),
    (rungwise.Failure("rate_limit", status=429, code="slow_down", asked_wait=12.0), 0.3),
    (rungwise.Failure("overloaded", status=529), 0.4),
    (rungwise.Failure("overloaded", status=529), 0.5),
    (rungwise.Reply("42.", stop_reason="stop", stop_raw="end_turn", usage=usage(320)), 5.2),
)


@cache
def trail(name: str = "first") -> Route:
    chain = [
        rungwise.PlainLink(name, prices=rungwise.Prices(1, 10)),
        rungwise.PlainLink("second", prices=rungwise.Prices(3, 15)),
    ]
    policy = rungwise.Policy(budget=rungwise.Budget(seconds=90, output_tokens=20_000, money=0.5))
    asked = [{"role": "user", "content": "?"}, {"role": "tool", "tool_call_id": "1", "content": "!"}]
    call = rungwise.Call(rungwise.Request(asked, max_tokens=700), policy, chain, jitter=lambda: 0.4, contents=True)
    now, send = 0.0, call.begin(0.0)
    for reply, seconds in STORY:
        assert send is not None
        now += send.wait
        call.sending(now)
        now += seconds
        send = call.receive(reply, now)
    return path_of(call.journal, CALL)


@cache
def a_turn() -> TurnPath:
    replies = calling("look", "gone", text="Let me see."), OVERFLOW, calling("look"), BUSY, said("By the lake.")
    turn = played(*replies, has_compactor=True, contents=True, seed=7)
    return read_turn(turn.journal.to_json())


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    texts = {
        "explain": explain_call(trail()),
        "play": play_policy(rungwise.Policy(), 3),
        "play a turn": play_policy(rungwise.TurnPolicy(auto_continues=2, faults=1)),
        "short": play_policy(rungwise.Policy(budget=rungwise.Budget(attempts=1))),
        "nasty": explain_call(trail(NASTY)),
        "turn": explain_turn(a_turn()),
        "failed": explain_call(recorded.shown(recorded.failed())),
        "minutes": explain_call(recorded.shown(recorded.in_minutes())),
        "microseconds": explain_call(recorded.shown(recorded.in_microseconds())),
        "hostile": explain_call(recorded.shown(recorded.hostile())),
        "long turn": explain_turn(recorded.long_turn()),
    }
    directory = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (directory / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: directory / f"{name}.html" for name in texts}


def selected(tab: Any) -> int:
    """Return the number of the selected step, as every part of the page tells it."""
    (option,) = tab.run("[...document.querySelectorAll('[aria-selected=true]')].map(each => each.id)")
    assert tab.run("document.getElementById('steps').getAttribute('aria-activedescendant')") == option
    number = int(option.removeprefix("step-"))
    assert tab.run("byId('says').textContent").startswith(f"Step {number} of {len(trail().steps)}: ")
    return number


def attempt(tab: Any) -> int:
    """Return the number of the attempt that is shown, as every part of the page tells it."""
    (current,) = tab.run("[...document.querySelectorAll('[aria-current=step]')].map(each => each.id)")
    number = int(current.removeprefix("attempt-"))
    assert tab.run("byId('told').textContent").startswith(f"{number} of {len(STORY)}: ")
    assert tab.run("page.present()") == number - 1
    return number


def with_table(tab: Any) -> Any:
    """Open the view of the table."""
    tab.click("#table-view summary")
    return tab


def shown(tab: Any) -> dict[str, Any]:
    """Return what the picture shows of the present step."""
    return dict(
        tab.run("""({
            arc: [...document.querySelectorAll('.now[data-arc]')].map(each => each.dataset.arc),
            line: [...document.querySelectorAll('.now[data-event]')].map(each => ({...each.dataset})),
            tried: [...document.querySelectorAll('.tried')].map(each => each.dataset.guard),
            here: [...document.querySelectorAll('.here')].map(each => each.dataset.state),
            decided: [...document.querySelectorAll('#guards .decides code')].map(each => each.textContent),
            failed: [...document.querySelectorAll('#guards .false code')].map(each => each.textContent),
        })""")
    )


# The page of a call


def test_it_opens_at_the_first_attempt_which_has_the_focus(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["explain"])
    assert (attempt(tab), selected(tab)) == (1, 2)
    assert tab.run("document.activeElement.id") == "attempt-1"
    assert tab.run("[byId('first' ) , byId('to-first').disabled, byId('back').disabled]") == [None, True, True]
    assert tab.run("byId('told').getAttribute('role')") == "status"
    assert tab.run("byId('table-view').open") is False


def test_every_attempt_is_one_line(open_tab: Open, pages: Mapping[str, Path]) -> None:
    lines = open_tab(pages["explain"]).run(
        "[...document.querySelectorAll('#attempts .line')].map(e => [...e.children].slice(0, 2).map(c => c.innerText))"
    )
    assert lines == [
        ["1", "ask → empty"],
        ["2", "nudge · empty → empty"],
        ["3", "reask · empty · waited 6 s → only reasoned"],
        ["4", "prefill · only reasoned → truncated"],
        ["5", "continuation · truncated → 429 rate limit"],
        ["6", "retry · 429 · waited 12 s → 529 overloaded"],
        ["7", "retry · 529 · waited 4.8 s → 529 overloaded"],
        ["8", "fallback · 529 → answered ✓ done"],
    ]


def test_keys_play_the_attempts(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["explain"])
    last = len(STORY)
    moves = [("ArrowLeft", 1), ("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("ArrowDown", 3)]
    for key, number in [*moves, ("ArrowUp", 2), ("End", last), ("ArrowRight", last), ("Home", 1)]:
        tab.press(key)
        assert attempt(tab) == number, key
        assert tab.run("document.activeElement.id") == f"attempt-{number}"
    tab.run("document.activeElement.blur()")  # they work wherever nothing else wants them
    tab.press("ArrowRight")
    assert attempt(tab) == 2
    assert [line["event"] for line in shown(tab)["line"]] == ["came_empty"] * 2


def test_space_and_a_button_play_and_stop(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["explain"])
    tab.run("window.setInterval = (tick) => { window.tick = tick; return 7; }")
    tab.press("Space")
    assert tab.run("[byId('play').textContent, page.isPlaying()]") == ["Stop", True]
    tab.run("tick()")
    assert attempt(tab) == 2
    tab.press("Space")
    assert tab.run("[byId('play').textContent, page.isPlaying()]") == ["Play", False]
    tab.click("#play")
    for number in range(3, len(STORY) + 1):
        tab.run("tick()")
        assert attempt(tab) == number
    assert tab.run("page.isPlaying()") is False  # it stops at the end, and then begins anew
    tab.press("Space")
    assert (attempt(tab), tab.run("page.isPlaying()")) == (1, True)
    tab.press("ArrowRight")
    assert (attempt(tab), tab.run("page.isPlaying()")) == (2, False)


def test_buttons_lead_through_the_attempts(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["explain"])
    for button, number in (("forward", 2), ("forward", 3), ("back", 2), ("to-last", 8), ("to-first", 1)):
        tab.click(f"#{button}")
        assert attempt(tab) == number
    tab.click("#to-last")
    assert tab.run("['to-first', 'back', 'forward', 'to-last'].map(each => byId(each).disabled)") == [
        False, False, True, True,
    ]  # fmt: skip


def test_a_click_selects_an_attempt_and_the_table_tells_its_steps(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = with_table(open_tab(pages["explain"]))
    tab.click("#attempt-6 .bar.wait")
    assert (attempt(tab), selected(tab)) == (6, 12)
    tab.click("#step-3")
    assert attempt(tab) == 2
    tab.click("#step-15")
    assert attempt(tab) == 8


def test_the_bars_have_a_least_width_and_stay_in_their_lane(open_tab: Open, pages: Mapping[str, Path]) -> None:
    for name in ("minutes", "microseconds"):
        tab = open_tab(pages[name], width=390)
        boxes = tab.run("""[...document.querySelectorAll('#attempts .track')].map(track => {
            const [lane, bar] = [track, track.querySelector('.bar:last-child')].map(e => e.getBoundingClientRect());
            return [bar.width, bar.left - lane.left, lane.right + 8.5 - bar.right]; })""")
        assert len(boxes) == 24
        assert all(width >= 8 and left >= 0 and right >= 0 for width, left, right in boxes)


def test_the_ladder_stands_before_the_picture_which_a_phone_shows_on_request(
    open_tab: Open, pages: Mapping[str, Path]
) -> None:
    for name in ("explain", "play"):
        assert open_tab(pages[name], width=1440).run("byId('hub').open") is True
        tab = open_tab(pages[name], width=390)
        assert tab.run("byId('hub').open") is False
        assert tab.run("byId('ladders').getBoundingClientRect().bottom < byId('hub').getBoundingClientRect().top")
        tab.click("#hub > summary")
        assert tab.run("byId('picture').scrollWidth > byId('picture').clientWidth")
        assert_page_fits(tab)


def test_the_ladder_shows_the_present_row(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = with_table(open_tab(pages["explain"]))
    for step, row in zip(trail().steps, trail().rows, strict=True):
        assert row is not None
        tab.click(f"#step-{step.number}")
        now = tab.run("[...document.querySelectorAll('#ladders .now')].map(each => ({...each.dataset}))")
        tried = tab.run("[...document.querySelectorAll('#ladders .tried')].map(each => each.dataset.guard)")
        ladder = CALL.ladder(row.event, row.source)
        assert [(one["event"], one["guard"] or None, one["target"]) for one in now] == [
            (row.event, row.guard, row.target)
        ]
        assert tried == [each.guard for each in ladder[: ladder.index(row)]]


def test_every_step_shows_its_row_on_the_picture(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = with_table(open_tab(pages["explain"]))
    for step, row in zip(trail().steps, trail().rows, strict=True):
        assert row is not None
        tab.click(f"#step-{step.number}")
        assert selected(tab) == step.number
        seen = shown(tab)
        ladder = CALL.ladder(row.event, row.source)
        tried = [each.guard for each in ladder[: ladder.index(row)]]
        assert seen["arc"] == [f"{row.source} {row.target}"]
        assert [line["event"] for line in seen["line"]] == [row.event] * 2  # on the ladder and on the picture
        assert [line["guard"] or None for line in seen["line"]] == [row.guard] * 2
        assert sorted(seen["tried"]) == sorted(tried * 2)
        assert seen["here"] == [row.target]
        assert seen["failed"] == tried
        assert seen["decided"] == [row.guard or ("otherwise" if len(ladder) > 1 else "always")]
        assert not tab.run("document.querySelector('.warning')")
        left = tab.run(
            "[...document.querySelectorAll('#counters li')].map(each => each.querySelector('.number').textContent)"
        )
        limits = dict.fromkeys(step.spent, 3) | {"nudges": 1, "prefills": 2, "fallbacks": 1}
        assert left == [f"{limits[name] - spent}/{limits[name]}" for name, spent in step.spent.items()]


def test_the_keyboard_moves_between_the_steps(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = with_table(open_tab(pages["explain"]))
    tab.run("byId('steps').focus()")
    last = len(trail().steps)
    moves = [("Home", 1), ("ArrowUp", 1), ("ArrowDown", 2), ("ArrowDown", 3), ("ArrowUp", 2), ("End", last)]
    for key, number in [*moves, ("ArrowDown", last)]:
        tab.press(key)
        assert selected(tab) == number, key
        assert tab.run("""(() => { const [list, step] = ['#steps', '[aria-selected=true]']
            .map(each => document.querySelector(each).getBoundingClientRect());
            return step.top >= list.top - 1 && step.bottom <= list.bottom + 1; })()"""), key


def test_a_step_says_what_it_was(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = with_table(open_tab(pages["explain"]))
    tab.click("#step-10")
    assert tab.run("byId('says').textContent") == (
        "Step 10 of 16: failed_transiently [may_retry] (the provider failed) leads to retry, after a wait of 12 s"
    )
    told = tab.run("""Object.fromEntries([...document.querySelectorAll('#details dt')]
        .map(each => [each.textContent, each.nextElementSibling.textContent]))""")
    assert told["status"] == "HTTP 429"
    assert (told["reason"], told["code"], told["effect"]) == ("rate_limit", "slow_down", "spend_retry")
    assert told["wait"] == "12 s, as the provider asked"
    assert told["backend"] == "first"
    assert "wait_fits" in told["facts"]
    assert "switch_asked: no · wait_fits: yes" in tab.run("document.querySelector('#guards').textContent")
    changed = tab.run("[...document.querySelectorAll('#counters .taken, #counters .refilled')].map(e => e.textContent)")
    assert changed == ["retries2/3\N{MINUS SIGN}1"]
    budget = tab.run("[...document.querySelectorAll('#budget li')].map(each => each.textContent)")
    assert budget[:3] == ["attempts19 of 24", "time71.2 of 90 s", "output tokens19060 of 20000"]


def test_arcs_of_the_picture_select_too(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["explain"])
    tab.click("[data-arc='await reask'] text")
    assert selected(tab) == 4


def test_what_a_stranger_wrote_never_runs(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = with_table(open_tab(pages["nasty"]))
    for step in trail().steps:
        tab.click(f"#step-{step.number}")
    tab.click("#step-2")
    assert NASTY in tab.run("byId('details').textContent")
    assert tab.run("typeof window.hacked") == "undefined"
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.problems == []
    assert len(tab.requests) == 1


# The machine of the page


WALKS = {
    "call": (CALL, {**ONES, "fallbacks": 2}),
    "knotty": (KNOTTY, {**ONES, "retries": 6, "nudges": 0}),
    "turn": (TURN, rungwise.TurnPolicy(auto_continues=4).limits),
}


def random_walk(table: Table, limits: Mapping[str, int], steps: int) -> tuple[list[Any], list[Any]]:
    """Fire events at random; return what was fired, and what came of it: the row, the state, the counters."""
    chance, run = random.Random(20_231), Run.at_start(table, limits)
    fired, seen = [], []
    for _ in range(steps):
        begins = run.state in table.outcomes
        run = Run.at_start(table, limits) if begins else run
        known = [row.event for row in table.rows if row.source == run.state]
        event = chance.choice(
            [*known, *[each for each in known if each not in ("cancelled", "ran_out")] * 4, "answered"]
        )
        held = [name for name in table.found_facts if chance.random() < 0.5]
        try:
            row = table.rows.index(run.fire(event, held))
        except rungwise.IllegalEvent:
            row = -1
        spent = dict(zip(table.counters, run.spent, strict=True))
        fired.append([begins, event, held])
        seen.append([row, run.state, {**spent, "attempts": run.attempts}])
    return fired, seen


RUN = """(data, fired) => {
    const own = machineOf(data);
    let at = own.start();
    return fired.map(([begins, event, facts]) => {
        if (begins) at = own.start();
        const done = own.fire(at, event, new Set(facts));
        if (done) at = done.at;
        return [done ? data.rows.indexOf(done.row) : -1, at.state, at.spent];
    });
}"""


@pytest.mark.parametrize("name", WALKS)
def test_the_script_takes_every_step_that_the_machine_takes(
    open_tab: Open, pages: Mapping[str, Path], name: str
) -> None:
    table, limits = WALKS[name]
    fired, seen = random_walk(table, limits, 2000)
    data = machine_data(table, limits)
    took = open_tab(pages["play"]).run(f"({RUN})({json.dumps(data)}, {json.dumps(fired)})")
    for number, (one, other) in enumerate(zip(took, seen, strict=True)):
        assert one == other, (number, fired[number])
    assert len({row for row, _, _ in seen}) > 0.6 * len(table.rows)


def most_attempts(table: Table, limits: Mapping[str, int]) -> tuple[list[Any], list[int]]:
    """Return every configuration that can be reached, and the most attempts that can follow it, by looking at all."""
    found = walk(table, limits)

    @cache
    def most(index: int) -> int:
        def attempts(target: int) -> int:
            return int(found.configurations[target][0] == table.hub) + most(target)

        return max(map(attempts, found.edges[index]), default=0)

    configurations = [
        {"state": state, "spent": dict(zip(table.counters, counts, strict=True))}
        for state, counts in found.configurations
    ]
    return configurations, [most(index) for index in range(len(configurations))]


VECTORS: Sequence[Mapping[str, int]] = (
    {},
    {"nudges": 0, "prefills": 0},
    {"continuations": 0},
    {"reasks": 2, "continuations": 2, "enlargements": 0, "repairs": 0, "compactions": 0},
)


@pytest.mark.full
@pytest.mark.parametrize("changes", VECTORS, ids=str)
def test_the_worst_case_from_anywhere_is_that_of_the_walk(
    open_tab: Open, pages: Mapping[str, Path], changes: Mapping[str, int]
) -> None:
    limits = {**ONES, **changes}
    configurations, most = most_attempts(CALL, limits)
    run = f"machineOf({json.dumps(machine_data(CALL, limits))}).attemptsLeft"
    assert open_tab(pages["play"]).run(f"{json.dumps(configurations)}.map({run})") == most


@pytest.mark.parametrize("backends", [1, 3])
def test_the_worst_case_from_the_start_is_that_of_the_certificate(
    open_tab: Open, pages: Mapping[str, Path], backends: int
) -> None:
    certificate = verify(rungwise.Policy(), backends)
    data = json.dumps(machine_data(CALL, certificate.limits))
    own = f"machineOf({data})"
    assert open_tab(pages["play"]).run(f"{own}.attemptsLeft({own}.start())") == certificate.worst[0].ladder


# Playing


def choose(tab: Any, event: str, *facts: str) -> None:
    tab.click(f"#events input[value={event}]")
    for fact in facts:
        tab.click(f"#facts input[value={fact}]")


def take(tab: Any, event: str, *facts: str) -> None:
    choose(tab, event, *facts)
    tab.click("#take")


def test_a_reviewer_sees_which_guard_decides(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["play"])
    assert tab.run("byId('worst').textContent") == "At most 24 more attempts can follow, where the budget ends it."
    take(tab, "sent")
    choose(tab, "came_empty")
    assert shown(tab)["decided"] == ["may_reask"]
    assert shown(tab)["failed"] == ["has_delivered", "has_prior_answer", "must_leave", "may_nudge"]
    tab.click("#facts input[value=follows_tool_result]")
    assert shown(tab)["decided"] == ["may_nudge"]
    assert shown(tab)["arc"] == ["await nudge"]
    assert tab.run("byId('take').textContent") == "Take this step, to nudge"
    tab.click("#take")
    assert tab.run("byId('says').textContent") == "came_empty [may_nudge] led to nudge. "
    assert tab.run("document.querySelector('#counters .taken').textContent") == "nudges0/1\N{MINUS SIGN}1"


def test_facts_that_make_no_difference_are_told_apart(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["play"])
    take(tab, "sent")
    idle = "[...document.querySelectorAll('#facts .idle')].map(each => each.dataset.fact)"
    choose(tab, "came_empty")
    assert tab.run(idle) == []
    choose(tab, "only_reasoned")  # a prefill is left, so what stands below it cannot be reached
    assert tab.run(idle) == ["same_empty_again", "has_text"]


def test_the_example_of_the_diagrams_can_be_played(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["play"])
    for event in ("sent", "came_empty", "sent", "only_reasoned", "sent", "truncated", "sent"):
        take(tab, event)
    refilled = tab.run("page.at().spent")
    assert (refilled["reasks"], refilled["prefills"], refilled["continuations"], refilled["attempts"]) == (0, 0, 1, 4)
    choose(tab, "failed_permanently")
    assert tab.run("document.querySelector('#facts input[value=has_text]').checked")
    take(tab, "answered")
    assert tab.run("byId('says').textContent") == "answered led to done. The call is over after 4 attempts."
    assert tab.run("byId('choice').hidden")
    assert shown(tab)["here"] == ["done"]
    tab.click("#copy")
    text = tab.run("byId('text').value")
    assert text.splitlines()[1] == ("  2. await --came_empty [may_reask]--> reask with has_next_backend")
    assert len(text.splitlines()) == 8
    tab.click("#undo")
    assert tab.run("[page.at().state, page.at().spent.attempts]") == ["await", 4]
    tab.click("#restart")
    assert tab.run("[page.at().state, page.at().spent.attempts, page.pathText()]") == ["ask", 0, ""]
    assert tab.problems == []


def test_the_machine_can_be_played_with_the_keyboard_alone(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["play"])
    tab.press("Tab")
    assert tab.run("document.activeElement.value") == "sent"
    tab.press("Enter")
    tab.press("Tab")
    assert tab.run("document.activeElement.name") == "event"
    for _ in range(2):
        tab.press("ArrowDown")
    assert tab.run("document.activeElement.value") == "came_empty"
    tab.press("Tab")
    assert tab.run("document.activeElement.value") == "has_delivered"
    tab.press("Space")
    assert shown(tab)["decided"] == ["has_delivered"]
    while tab.run("document.activeElement.id") != "take":
        tab.press("Tab")
    tab.press("Enter")
    assert tab.run("page.at().state") == "salvaged"
    assert tab.run("document.activeElement.id") == "undo"


def test_a_reviewer_plays_a_turn(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["play a turn"])
    assert tab.run("byId('says').textContent") == "The turn begins in ask. "
    assert tab.run("document.querySelector('#budget .name').textContent") == "actions"
    for event in ("sent", "called_tools", "sent"):
        take(tab, event)
    choose(tab, "tools_ran")  # the round has used the one fault that may be, but one of its calls has worked
    assert tab.run("document.querySelector('#facts input[value=may_fail_again]').checked") is False
    assert shown(tab)["decided"] == ["may_report"]
    tab.click("#facts input[value=tool_worked]")
    assert shown(tab)["decided"] == ["may_summarize"]
    tab.click("#facts input[value=tool_worked]")
    tab.click("#take")
    assert tab.run("page.at().spent") == {
        "faults": 0, "compactions": 0, "summaries": 0, "auto_continues": 1, "attempts": 2,
    }  # fmt: skip
    take(tab, "sent")
    take(tab, "answered")
    assert tab.run("byId('says').textContent") == "answered led to finished. The turn is over after 3 actions."
    assert tab.problems == []


def test_the_actions_of_a_turn_that_can_follow_are_those_of_the_walk(open_tab: Open, pages: Mapping[str, Path]) -> None:
    limits = rungwise.TurnPolicy(auto_continues=3, faults=2, compactions=1).limits
    configurations, most = most_attempts(TURN, limits)
    run = f"machineOf({json.dumps(machine_data(TURN, limits))}).attemptsLeft"
    assert open_tab(pages["play a turn"]).run(f"{json.dumps(configurations)}.map({run})") == most


def test_what_the_budget_does_not_allow_cannot_be_sent(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["short"])
    assert tab.run("byId('worst').textContent") == "At most 1 more attempt can follow, where the budget ends it."
    take(tab, "sent")
    assert tab.run("byId('worst').textContent") == "At most 0 more attempts can follow, where the budget ends it."
    take(tab, "came_empty")
    assert tab.run("document.querySelector('input[value=sent]').disabled")
    take(tab, "ran_out")
    assert tab.run("page.at().state") == "over_budget"


# Both pages


@pytest.mark.parametrize("name", ["explain", "turn", "play"])
def test_tab_reaches_everything_and_the_focus_is_seen(open_tab: Open, pages: Mapping[str, Path], name: str) -> None:
    tab = open_tab(pages[name])
    if name == "play":
        take(tab, "sent")
        choose(tab, "came_empty")
    reached: dict[int, str] = {}
    for _ in range(40):
        tab.press("Tab")
        seen = tab.run("""(() => { const at = document.activeElement, outline = getComputedStyle(
            at.name === 'event' ? at.nextElementSibling : at); return at === document.body ? null
            : [at.id || at.value || at.textContent.slice(0, 16), outline.outlineStyle, parseFloat(outline.outlineWidth),
               [...document.querySelectorAll('*')].indexOf(at)]; })()""")
        if seen is None:  # past the end, and about to begin again
            continue
        assert seen[1:3] == ["solid", 3], seen
        if seen[3] in reached:
            break
        reached[seen[3]] = seen[0]
    facts = ["has_delivered", "has_prior_answer", "switch_asked", "has_next_backend"]
    facts += ["follows_tool_result", "thinks_inline", "same_empty_again"]
    machine = ["The machine as o", "picture"]
    wanted = {
        "explain": ["play", "forward", "to-last", "attempt-1", "contents", "The view of the ", *machine],
        "turn": [
            *("play", "forward", "to-last", "attempt-1", "1 attempt", "1 attempt", "1 attempt", "2 attempts"),
            *("contents", "Open call 1", "The view of the ", *machine),
        ],
        "play": ["came_empty", *facts, "has_text", "take", "path", "undo", "restart", "copy", *machine],
    }
    order = list(reached.values())
    first = order.index(wanted[name][0])
    assert order[first:] + order[:first] == wanted[name]


@pytest.mark.parametrize("name", ["explain", "turn", "play"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_as_wide_as_the_window_and_quiet(
    open_tab: Open, pages: Mapping[str, Path], name: str, width: int
) -> None:
    tab = open_tab(pages[name], width=width, height=800)
    plays = ["byId('take').click()", "byId('take').click()"]
    steps = 0 if name == "play" else tab.run("DATA.call.steps.length")
    for visit in [f"page.select({place})" for place in range(steps)] or plays:
        tab.run(visit)
        assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.problems == []
    assert tab.requests == [pages[name].as_uri()]


WAYS = [(name, width, dark) for name in ("explain", "play") for width in (390, 800, 1440) for dark in (False, True)]
WAYS += [
    (name, width, dark)
    for name in ("turn", "failed", "minutes", "microseconds", "hostile", "long turn")
    for width, dark in ((390, False), (1440, True))
]


@pytest.mark.parametrize(("name", "width", "dark"), WAYS)
def test_a_page_fits_and_every_text_of_it_can_be_read(
    open_tab: Open, pages: Mapping[str, Path], name: str, width: int, dark: bool
) -> None:
    tab = open_tab(pages[name], width=width, dark=dark)
    if name == "play":
        take(tab, "sent")
        take(tab, "came_empty")
    else:
        with_table(tab)
        tab.run("for (const each of document.querySelectorAll('.within')) each.open = true")
    assert_page_fits(tab)
    assert assert_contrast(tab) > 100
    page = tab.run("getComputedStyle(document.documentElement).backgroundColor")
    assert channels_of(page) == channels_of((DARK if dark else LIGHT).page)
    assert tab.problems == []


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_the_present_line_can_be_read_on_its_band(colours: Colours) -> None:
    panel, mark = channels_of(colours.panel), channels_of(colours.mark)
    band = [0.82 * one + 0.18 * other for one, other in zip(panel, mark, strict=True)]
    assert contrast(mark, band) >= 4.5


def test_nothing_moves_for_those_who_want_it_still(open_tab: Open, pages: Mapping[str, Path]) -> None:
    tab = open_tab(pages["explain"])
    duration = "getComputedStyle(document.querySelector('.meter i')).transitionDuration"
    assert tab.run(duration) == "0.2s"
    tab.be_still()
    assert tab.run(duration) == "0s"
