"""The page in a real browser: what is played is what the machine does; every page fits, can be
read, and is quiet.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rungwise
from rungwise import CALL, verify
from rungwise.core import TURN, IllegalEvent, Table
from rungwise.fsm.diagram.colours import DARK, LIGHT
from rungwise.fsm.diagram.page.machine_page import machine_data
from rungwise.fsm.engine.checker.walk import walk
from rungwise.fsm.engine.machine.run import Run
from support.colours import channels_of, contrast
from support.page_checks import assert_contrast, assert_page_fits
from support.pages import shown, with_table
from support.tables import KNOTTY, ONES

pytestmark = pytest.mark.sampled(4)

Show = Callable[..., Any]  # opens a page by its name
WIDTHS = (360, 1200)


# The machine of the page


WALKS = {
    "call": (CALL, {**ONES, "fallbacks": 2}),
    "knotty": (KNOTTY, {**ONES, "retries": 6, "nudges": 0}),
    "turn": (TURN, rungwise.TurnPolicy(auto_continues=4).limits),
}


def random_walk(table: Table, limits: Mapping[str, int], steps: int) -> tuple[list[Any], list[Any]]:
    """Fire events at random; return what was fired, and what came of it: the row, the state, the
    counters.
    """
    chance = random.Random(20_231)
    run = Run.at_start(table, limits)
    fired = []
    seen = []
    for _ in range(steps):
        begins = run.state in table.outcomes
        run = Run.at_start(table, limits) if begins else run
        known = [row.event for row in table.rows if row.source == run.state]
        event = chance.choice(
            [
                *known,
                *[each for each in known if each not in ("cancelled", "ran_out")] * 4,
                "answered",
            ]
        )
        held = [name for name in table.found_facts if chance.random() < 0.5]
        try:
            row = table.rows.index(run.fire(event, held))
        except IllegalEvent:
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
def test_the_script_takes_every_step_that_the_machine_takes(show: Show, name: str) -> None:
    table, limits = WALKS[name]
    fired, seen = random_walk(table, limits, 2000)
    data = machine_data(table, limits)
    took = show("play").run(f"({RUN})({json.dumps(data)}, {json.dumps(fired)})")
    for number, (one, other) in enumerate(zip(took, seen, strict=True)):
        assert one == other, (number, fired[number])
    assert len({row for row, _, _ in seen}) > 0.6 * len(table.rows)


def most_attempts(table: Table, limits: Mapping[str, int]) -> tuple[list[Any], list[int]]:
    """Return every configuration that can be reached, and the most attempts that can follow it, by
    looking at all.
    """
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
    {"rotations": 1, "reattaches": 1, "continuations": 0, "repairs": 0, "compactions": 0},
    {"nudges": 0, "prefills": 0},
    {"continuations": 0},
    {
        "reasks": 2,
        "continuations": 2,
        "enlargements": 0,
        "repairs": 0,
        "compactions": 0,
    },
)


@pytest.mark.dear(2)
@pytest.mark.full
@pytest.mark.parametrize("changes", VECTORS, ids=str)
def test_the_worst_case_from_anywhere_is_that_of_the_walk(
    show: Show, changes: Mapping[str, int]
) -> None:
    limits = {**ONES, "rotations": 0, "reattaches": 0, **changes}
    configurations, most = most_attempts(CALL, limits)
    run = f"machineOf({json.dumps(machine_data(CALL, limits))}).attemptsLeft"
    assert show("play").run(f"{json.dumps(configurations)}.map({run})") == most


@pytest.mark.parametrize("backends", [1, 3])
def test_the_worst_case_from_the_start_is_that_of_the_certificate(
    show: Show, backends: int
) -> None:
    certificate = verify(rungwise.Policy(), backends)
    data = json.dumps(machine_data(CALL, certificate.limits))
    own = f"machineOf({data})"
    assert show("play").run(f"{own}.attemptsLeft({own}.start())") == certificate.worst[0].ladder


# Playing


def choose(tab: Any, event: str, *facts: str) -> None:
    tab.click(f"#events input[value={event}]")
    for fact in facts:
        tab.click(f"#facts input[value={fact}]")


def take(tab: Any, event: str, *facts: str) -> None:
    choose(tab, event, *facts)
    tab.click("#take")


def test_a_reviewer_sees_which_guard_decides(show: Show) -> None:
    tab = show("play")
    assert (
        tab.run("byId('worst').textContent")
        == "At most 24 more attempts can follow; then the budget ends it."
    )
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
    assert (
        tab.run("document.querySelector('#counters .taken').textContent")
        == "nudges0/1\N{MINUS SIGN}1"
    )


def test_facts_that_make_no_difference_are_told_apart(show: Show) -> None:
    tab = show("play")
    take(tab, "sent")
    idle = "[...document.querySelectorAll('#facts .idle')].map(each => each.dataset.fact)"
    choose(tab, "came_empty")
    assert tab.run(idle) == []
    choose(tab, "only_reasoned")  # a prefill is left, so what stands below it cannot be reached
    assert tab.run(idle) == ["same_empty_again", "throttled", "has_text"]


@pytest.mark.full
def test_the_example_of_the_diagrams_can_be_played(show: Show) -> None:
    tab = show("play")
    take(tab, "sent")
    take(tab, "came_empty")
    take(tab, "sent")
    take(tab, "only_reasoned", "switch_asked")  # another policy than the one that leaves after two
    for event in ("sent", "truncated", "sent"):
        take(tab, event)
    refilled = tab.run("page.at().spent")
    assert (
        refilled["reasks"],
        refilled["prefills"],
        refilled["continuations"],
        refilled["attempts"],
    ) == (0, 0, 1, 4)
    choose(tab, "failed_permanently")
    assert tab.run("document.querySelector('#facts input[value=has_text]').checked")
    take(tab, "answered")
    assert (
        tab.run("byId('says').textContent")
        == "answered led to done. The call is over after 4 attempts."
    )
    assert tab.run("byId('choice').hidden")
    assert shown(tab)["here"] == ["done"]
    tab.click("#copy")
    text = tab.run("byId('text').value")
    assert text.splitlines()[1] == (
        "  2. await --came_empty [may_reask]--> reask with has_next_backend"
    )
    assert len(text.splitlines()) == 8
    tab.click("#undo")
    assert tab.run("[page.at().state, page.at().spent.attempts]") == ["await", 4]
    tab.click("#restart")
    assert tab.run("[page.at().state, page.at().spent.attempts, page.pathText()]") == ["ask", 0, ""]
    assert tab.problems == []


def test_the_machine_can_be_played_with_the_keyboard_alone(show: Show) -> None:
    tab = show("play")
    tab.press("Tab")
    assert tab.run("document.activeElement.value") == "sent"
    tab.press("Enter")
    tab.press("Tab")
    assert tab.run("document.activeElement.name") == "event"
    while tab.run("document.activeElement.value") != "came_empty":
        tab.press("ArrowDown")
    tab.press("Tab")
    assert tab.run("document.activeElement.value") == "has_delivered"
    tab.press("Space")
    assert shown(tab)["decided"] == ["has_delivered"]
    while tab.run("document.activeElement.id") != "take":
        tab.press("Tab")
    tab.press("Enter")
    assert tab.run("page.at().state") == "salvaged"
    assert tab.run("document.activeElement.id") == "undo"


@pytest.mark.full
def test_a_reviewer_plays_a_turn(show: Show) -> None:
    tab = show("play a turn")
    assert tab.run("byId('says').textContent") == "The turn begins in ask. "
    assert tab.run("document.querySelector('#budget .name').textContent") == "actions"
    for event in ("sent", "called_tools", "sent"):
        take(tab, event)
    # the round has used the one fault that may be, but one of its calls has worked
    choose(tab, "tools_ran")
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
    assert (
        tab.run("byId('says').textContent")
        == "answered led to finished. The turn is over after 3 actions."
    )
    assert tab.problems == []


def test_the_actions_of_a_turn_that_can_follow_are_those_of_the_walk(show: Show) -> None:
    limits = rungwise.TurnPolicy(auto_continues=3, faults=2, compactions=1).limits
    configurations, most = most_attempts(TURN, limits)
    run = f"machineOf({json.dumps(machine_data(TURN, limits))}).attemptsLeft"
    assert show("play a turn").run(f"{json.dumps(configurations)}.map({run})") == most


@pytest.mark.full
def test_what_the_budget_does_not_allow_cannot_be_sent(show: Show) -> None:
    tab = show("short")
    assert (
        tab.run("byId('worst').textContent")
        == "At most 1 more attempt can follow; then the budget ends it."
    )
    take(tab, "sent")
    assert (
        tab.run("byId('worst').textContent")
        == "At most 0 more attempts can follow; then the budget ends it."
    )
    take(tab, "came_empty")
    assert tab.run("document.querySelector('input[value=sent]').disabled")
    take(tab, "ran_out")
    assert tab.run("page.at().state") == "over_budget"


# Both pages


@pytest.mark.parametrize("name", ["explain", "turn", "play"])
def test_tab_reaches_everything_and_the_focus_is_seen(show: Show, name: str) -> None:
    tab = show(name)
    if name == "play":
        take(tab, "sent")
        choose(tab, "came_empty")
    reached: dict[int, str] = {}
    for _ in range(40):
        tab.press("Tab")
        seen = tab.run("""(() => { const at = document.activeElement, outline = getComputedStyle(
            at.name === 'event' ? at.nextElementSibling : at); return at === document.body ? null
            : [at.id || at.value || at.textContent.slice(0, 16), outline.outlineStyle, parseFloat(outline.outlineWidth),
               [...document.querySelectorAll('*')].indexOf(at)]; })()""")  # noqa: E501
        if seen is None:  # past the end, and about to begin again
            continue
        assert seen[1:3] == ["solid", 3], seen
        if seen[3] in reached:
            break
        reached[seen[3]] = seen[0]
    facts = ["has_delivered", "has_prior_answer", "switch_asked", "has_next_backend"]
    facts += ["follows_tool_result", "thinks_inline", "same_empty_again", "throttled"]
    machine = ["The machine as o", "picture"]
    wanted = {
        "explain": [
            "play",
            "forward",
            "to-last",
            "attempt-1",
            "contents",
            "The steps in the",
            *machine,
        ],
        "turn": [
            "play",
            "forward",
            "to-last",
            "attempt-1",
            "1 attempt",
            "1 attempt",
            "1 attempt",
            "2 attempts",
            "contents",
            "Open call 1",
            "The steps in the",
            *machine,
        ],
        "play": [
            "came_empty",
            *facts,
            "has_text",
            "take",
            "file",
            "save",
            "path",
            "undo",
            "restart",
            "copy",
            *machine,
        ],
    }
    order = list(reached.values())
    first = order.index(wanted[name][0])
    assert order[first:] + order[:first] == wanted[name]


@pytest.mark.full
@pytest.mark.parametrize("name", ["explain", "turn", "play"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_as_wide_as_the_window_and_quiet(
    show: Show,
    pages: Mapping[str, Path],
    name: str,
    width: int,
) -> None:
    tab = show(name, width=width, height=800)
    plays = ["byId('take').click()", "byId('take').click()"]
    steps = 0 if name == "play" else tab.run("DATA.call.steps.length")
    for visit in [f"page.select({place})" for place in range(steps)] or plays:
        tab.run(visit)
        assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.problems == []
    assert tab.requests == [pages[name].as_uri()]


OFTEN = [
    (name, *way)
    for name in ("explain", "play")
    for way in ((390, False), (800, True), (1440, False))
]
OFTEN += [("turn", 1440, True), ("hostile", 390, True), ("notebook", 390, True)]
NAMES = (
    "explain",
    "play",
    "turn",
    "failed",
    "minutes",
    "microseconds",
    "hostile",
    "long turn",
    "notebook",
)
EVERY = [
    (name, width, dark) for name in NAMES for width in (390, 800, 1440) for dark in (False, True)
]
WAYS = [pytest.param(*way, marks=[] if way in OFTEN else pytest.mark.full) for way in EVERY]


@pytest.mark.parametrize(("name", "width", "dark"), WAYS)
def test_a_page_fits_and_every_text_of_it_can_be_read(
    show: Show,
    name: str,
    width: int,
    dark: bool,
) -> None:
    tab = show(name, width=width, dark=dark)
    if name == "play":
        take(tab, "sent")
        take(tab, "came_empty")
    elif name == "notebook":
        tab.run("for (const each of document.querySelectorAll('details')) each.open = true")
    else:
        with_table(tab)
        tab.run("for (const each of document.querySelectorAll('.within')) each.open = true")
    assert_page_fits(tab)
    assert assert_contrast(tab) > 100
    if name != "notebook":  # which has the colours of what is around it
        page = tab.run("getComputedStyle(document.documentElement).backgroundColor")
        assert channels_of(page) == channels_of((DARK if dark else LIGHT)["page"])
    assert tab.problems == []


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_the_present_line_can_be_read_on_its_band(colours: Mapping[str, str]) -> None:
    panel = channels_of(colours["panel"])
    mark = channels_of(colours["mark"])
    band = [0.82 * one + 0.18 * other for one, other in zip(panel, mark, strict=True)]
    assert contrast(mark, band) >= 4.5


def test_nothing_moves_for_those_who_want_it_still(show: Show) -> None:
    tab = show("explain")
    duration = "getComputedStyle(document.querySelector('.meter i')).transitionDuration"
    assert tab.run(duration) == "0.2s"
    tab.be_still()
    assert tab.run(duration) == "0s"
