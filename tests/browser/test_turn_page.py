"""The page of a turn in a real browser: each call's own page opens inside, by mouse and by
keyboard, and is quiet.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from rungwise.fsm.turn.explained import explain_turn, read_turn
from rungwise.fsm.turn.turn_digest import TurnPath
from support.turns import BUSY, calling, played, said

Open = Callable[..., Any]  # opens a file in a new tab
NASTY = (
    "</script><img src=x onerror='parent.hacked = window.hacked = "
    "1'><script>parent.hacked = 1</script>"
)
# Once the closing was heard, for which a busy browser may take some time: whether the dialog is
# open, what has the focus, how many frames there are.
HELD = """new Promise(tell => {
    const frames = () => document.querySelectorAll('iframe').length;
    const look = tries => frames() && tries ? setTimeout(look, 10, tries - 1)
        : tell([byId('inner').open, document.activeElement.id, frames()]);
    setTimeout(look, 0, 500);
})"""


def document(words: str = "first") -> dict[str, Any]:
    turn = played(
        calling("look", "gone", text="Let me see."),
        BUSY,
        said("By the lake."),
        contents=True,
        seed=2,
    )
    assert (turn.result.outcome, len(turn.journal.calls)) == ("finished", 2)
    read: dict[str, Any] = orjson.loads(turn.journal.to_json())
    for steps in (read["steps"], *(call["steps"] for call in read["calls"])):
        for step in steps:
            step["note"] = words
    return read


def path_of_page(words: str = "first") -> TurnPath:
    return read_turn(orjson.dumps(document(words)))


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("turn") / "turn.html"
    path.write_text(explain_turn(path_of_page()), encoding="utf-8")
    return path


def with_table(tab: Any) -> Any:
    """Open the view of the table, where every step is selected, and give it the focus."""
    tab.click("#table-view summary")
    tab.run("byId('steps').focus()")
    return tab


@pytest.mark.full
def test_each_call_opens_in_place_to_its_attempts(open_tab: Open, page: Path) -> None:
    tab = open_tab(page)
    assert tab.run("[...document.querySelectorAll('.within')].map(each => each.open)") == [
        False,
        False,
    ]
    assert tab.run(
        "[...document.querySelectorAll('#attempts > li > .line .words')].map(each => "
        "each.innerText)"
    ) == [
        "ask · call 1 · first → called tools",
        "use tools · called tools · first → tools ran",
        "go on · call 2 · tools ran · first → answered ✓ finished",
    ]
    tab.click("#attempts > li:nth-child(3) summary")
    lines = (
        "[...document.querySelectorAll('.within[open] .line .words')].map(each => each.innerText)"
    )
    assert tab.run(lines) == [
        "ask · first → 429 rate limit",
        "retry · 429 · waited 2 s · first → answered ✓ done",
    ]
    assert tab.run("page.present()") == 0  # to look into a call is not to leave the place


def test_an_attempt_of_a_call_opens_its_page_there(open_tab: Open, page: Path) -> None:
    tab = open_tab(page)
    tab.click("#attempts > li:nth-child(3) summary")
    tab.click("[data-call='2'][data-attempt='2']")
    assert tab.run_inside("[page.present(), byId('told').textContent.slice(0, 7)]") == [
        1,
        "2 of 2:",
    ]
    tab.click("#frame-close")
    assert tab.run(HELD) == [False, "attempt-3", 0]


@pytest.mark.full
def test_the_button_of_a_step_opens_the_page_of_its_call(open_tab: Open, page: Path) -> None:
    tab = with_table(open_tab(page))
    turn = path_of_page()
    for step in turn.path.steps:
        tab.click(f"#step-{step.number}")
        number = turn.call_of.get(step.number)
        buttons = tab.run(
            "[...document.querySelectorAll('#details .open')].map(each => each.textContent)"
        )
        assert buttons == ([] if number is None else [f"Open call {number}"])
        if number is None:
            continue
        tab.click("#details .open")
        call = turn.calls[number - 1]
        assert tab.run("byId('frame-title').textContent") == f"Call {number} of 2"
        assert tab.run_inside("DATA.call.steps.length") == len(call.steps)
        assert tab.run_inside("byId('says').textContent").startswith(
            f"Step 2 of {len(call.steps)}: "
        )
        tab.click("#frame-close")
        closed = tab.run(HELD)
        assert (closed[0], closed[1].partition("-")[0], closed[2]) == (False, "attempt", 0)
    assert tab.problems == []
    assert tab.requests == [page.as_uri()]


def test_enter_opens_a_call_and_escape_closes_it(open_tab: Open, page: Path) -> None:
    tab = with_table(open_tab(page))
    tab.press("Home")
    tab.press("Enter")
    assert tab.run_inside("[document.activeElement.id, page.selected()]") == ["attempt-1", 1]
    tab.press("Escape")
    assert tab.run(HELD) == [False, "attempt-1", 0]
    assert tab.run("page.selected()") == 0
    tab.run("byId('steps').focus()")
    tab.press("End")
    tab.press("ArrowUp")
    tab.press("ArrowUp")
    tab.press("Enter")  # a step of the tools, which has no page
    assert tab.run(HELD) == [False, "steps", 0]


ONCE_SELECTED = """new Promise((done) => {
  let tries = 500;
  const look = () => (page.selected() > 0 || tries-- === 0 ? done() : setTimeout(look, 10));
  look();
})"""


def test_from_call_to_call_and_back_to_the_step_of_the_one_that_was_seen_last(
    open_tab: Open, page: Path
) -> None:
    tab = with_table(open_tab(page))
    tab.press("Home")
    tab.press("Enter")
    assert tab.run("[byId('frame-earlier').disabled, byId('frame-later').disabled]") == [
        True,
        False,
    ]
    tab.click("#frame-later")
    assert tab.run_inside("DATA.call.steps.length") == 4
    assert tab.run("[byId('frame-earlier').disabled, byId('frame-later').disabled]") == [
        False,
        True,
    ]
    tab.click("#frame-close")
    tab.run(ONCE_SELECTED)  # a dialog tells that it was closed a moment later
    assert tab.run("[page.selected(), document.activeElement.id]") == [
        len(path_of_page().path.steps) - 1,
        "attempt-3",
    ]


def test_bars_select_the_step_in_which_they_ended(open_tab: Open, page: Path) -> None:
    tab = open_tab(page)
    tab.click("#attempts .bar.tools")
    assert tab.run("byId('says').textContent").startswith("Step 4 of 6: tools_ran")


def test_the_counters_are_shown_after_each_step(open_tab: Open, page: Path) -> None:
    tab = with_table(open_tab(page))
    tab.click("#step-4")
    assert not tab.run("document.querySelector('.warning')")
    told = tab.run("[...document.querySelectorAll('#counters li')].map(each => each.textContent)")
    assert "auto_continues24/25\N{MINUS SIGN}1" in told


@pytest.mark.full
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_within_is_as_wide_as_its_frame(
    open_tab: Open,
    page: Path,
    width: int,
    dark: bool,
) -> None:
    tab = open_tab(page, width=width, dark=dark)
    tab.click("#details .open")
    wide, inner, ground = (
        tab.run_inside("""[document.documentElement.scrollWidth, window.innerWidth,
        getComputedStyle(document.documentElement).backgroundColor]""")
    )
    assert wide <= inner
    assert inner > 0.85 * width
    assert ground == tab.run("getComputedStyle(document.documentElement).backgroundColor")
    assert tab.run("byId('inner').scrollWidth <= byId('inner').clientWidth")
    assert tab.problems == []


def test_what_a_stranger_wrote_never_runs(open_tab: Open, tmp_path: Path) -> None:
    path = tmp_path / "nasty.html"
    path.write_text(explain_turn(path_of_page(NASTY)), encoding="utf-8")
    tab = with_table(open_tab(path))
    for key in ("Home", "Enter", "Home"):
        tab.press(key)
    assert "onerror" in tab.run_inside("byId('details').textContent")
    assert tab.run_inside("[typeof window.hacked, document.querySelectorAll('img').length]") == [
        "undefined",
        0,
    ]
    assert tab.run("[typeof window.hacked, document.querySelectorAll('img').length]") == [
        "undefined",
        0,
    ]
    assert tab.problems == []
    assert tab.requests == [path.as_uri()]
