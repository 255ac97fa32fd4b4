"""The page of a call in a real browser: it plays its attempts, what is selected is shown, and
nothing strange runs.
"""

from collections.abc import Callable
from typing import Any

import pytest

from rungwise.fsm.call.table import CALL
from support.page_checks import assert_page_fits
from support.pages import NASTY, STORY, attempt, selected, shown, trail, with_table

Show = Callable[..., Any]  # opens a page by its name


def test_it_opens_at_the_first_attempt_which_has_the_focus(show: Show) -> None:
    tab = show("explain")
    assert (attempt(tab), selected(tab)) == (1, 2)
    assert tab.run("document.activeElement.id") == "attempt-1"
    assert tab.run("[byId('first' ) , byId('to-first').disabled, byId('back').disabled]") == [
        None,
        True,
        True,
    ]
    assert tab.run("byId('told').getAttribute('role')") == "status"
    assert tab.run("byId('table-view').open") is False


def test_every_attempt_is_one_line(show: Show) -> None:
    lines = show("explain").run(
        "[...document.querySelectorAll('#attempts .line')].map(e => [...e.children].slice(0, "
        "2).map(c => c.innerText))"
    )
    assert lines == [
        ["1", "ask → empty"],
        ["2", "nudge · empty → empty"],
        ["3", "reask · empty · waited 1.2 s → only reasoned"],
        ["4", "prefill · only reasoned → truncated"],
        ["5", "continuation · truncated → 429 rate limit"],
        ["6", "retry · 429 · waited 12 s → 529 overloaded"],
        ["7", "retry · 529 · waited 4.8 s → 529 overloaded"],
        ["8", "fallback · 529 → answered ✓ done"],
    ]


def test_keys_play_the_attempts(show: Show) -> None:
    tab = show("explain")
    last = len(STORY)
    moves = [
        ("ArrowLeft", 1),
        ("ArrowRight", 2),
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("ArrowDown", 3),
    ]
    for key, number in [*moves, ("ArrowUp", 2), ("End", last), ("ArrowRight", last), ("Home", 1)]:
        tab.press(key)
        assert attempt(tab) == number, key
        assert tab.run("document.activeElement.id") == f"attempt-{number}"
    tab.run("document.activeElement.blur()")  # they work wherever nothing else wants them
    tab.press("ArrowRight")
    assert attempt(tab) == 2
    assert [line["event"] for line in shown(tab)["line"]] == ["came_empty"] * 2


def test_space_and_a_button_play_and_stop(show: Show) -> None:
    tab = show("explain")
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


def test_buttons_lead_through_the_attempts(show: Show) -> None:
    tab = show("explain")
    for button, number in (
        ("forward", 2),
        ("forward", 3),
        ("back", 2),
        ("to-last", 8),
        ("to-first", 1),
    ):
        tab.click(f"#{button}")
        assert attempt(tab) == number
    tab.click("#to-last")
    assert tab.run("['to-first', 'back', 'forward', 'to-last'].map(each => "
        "byId(each).disabled)") == [
        False, False, True, True,
    ]  # fmt: skip


def test_a_click_selects_an_attempt_and_the_table_tells_its_steps(show: Show) -> None:
    tab = with_table(show("explain"))
    tab.click("#attempt-6 .bar.wait")
    assert (attempt(tab), selected(tab)) == (6, 12)
    tab.click("#step-3")
    assert attempt(tab) == 2
    tab.click("#step-15")
    assert attempt(tab) == 8


def test_the_bars_have_a_least_width_and_stay_in_their_lane(show: Show) -> None:
    for name in ("minutes", "microseconds"):
        tab = show(name, width=390)
        boxes = tab.run("""[...document.querySelectorAll('#attempts .track')].map(track => {
            const [lane, bar] = [track, track.querySelector('.bar:last-child')].map(e => e.getBoundingClientRect());
            return [bar.width, bar.left - lane.left, lane.right + 8.5 - bar.right]; })""")  # noqa: E501
        assert len(boxes) == 24
        assert all(width >= 8 and left >= 0 and right >= 0 for width, left, right in boxes)


@pytest.mark.full
def test_the_ladder_stands_before_the_picture_which_a_phone_shows_on_request(show: Show) -> None:
    for name in ("explain", "play"):
        assert show(name, width=1440).run("byId('hub').open") is True
        tab = show(name, width=390)
        assert tab.run("byId('hub').open") is False
        assert tab.run(
            "byId('ladders').getBoundingClientRect().bottom < "
            "byId('hub').getBoundingClientRect().top"
        )
        tab.click("#hub > summary")
        assert tab.run("byId('picture').scrollWidth > byId('picture').clientWidth")
        assert_page_fits(tab)


@pytest.mark.full
def test_every_step_shows_its_row_on_the_picture_and_the_ladder(show: Show) -> None:
    tab = with_table(show("explain"))
    now = "[...document.querySelectorAll('#ladders .now')].map(each => each.dataset.target)"
    passed = "[...document.querySelectorAll('#ladders .tried')].map(each => each.dataset.guard)"
    for step, row in zip(trail().steps, trail().rows, strict=True):
        tab.click(f"#step-{step.number}")
        assert selected(tab) == step.number
        seen = shown(tab)
        ladder = CALL.ladder(row.event, row.source)
        tried = [each.guard for each in ladder[: ladder.index(row)]]
        assert seen["arc"] == [f"{row.source} {row.target}"]
        # on the ladder and on the picture
        assert [line["event"] for line in seen["line"]] == [row.event] * 2
        assert [line["guard"] or None for line in seen["line"]] == [row.guard] * 2
        assert sorted(seen["tried"]) == sorted(tried * 2)
        assert tab.run(now) == [row.target]
        assert tab.run(passed) == tried
        assert seen["here"] == [row.target]
        assert seen["failed"] == tried
        assert seen["decided"] == [row.guard or ("otherwise" if len(ladder) > 1 else "always")]
        assert not tab.run("document.querySelector('.warning')")
        left = tab.run(
            "[...document.querySelectorAll('#counters li')].map(each => "
            "each.querySelector('.number').textContent)"
        )
        limits = dict.fromkeys(step.spent, 3) | {
            "resends": 1,
            "rechecks": 1,
            "nudges": 1,
            "prefills": 2,
            "corrections": 2,
            "fallbacks": 1,
        }
        expected = {
            name: f"{limits[name] - spent}/{limits[name]}" for name, spent in step.spent.items()
        }
        # A single key cannot be changed, and the backend does not go on with what was cut.
        off = {"rotations": "off", "reattaches": "off"}
        assert left == [*(expected | off).values()]


def test_the_keyboard_moves_between_the_steps(show: Show) -> None:
    tab = with_table(show("explain"))
    tab.run("byId('steps').focus()")
    last = len(trail().steps)
    moves = [
        ("Home", 1),
        ("ArrowUp", 1),
        ("ArrowDown", 2),
        ("ArrowDown", 3),
        ("ArrowUp", 2),
        ("End", last),
    ]
    for key, number in [*moves, ("ArrowDown", last)]:
        tab.press(key)
        assert selected(tab) == number, key
        assert tab.run("""(() => { const [list, step] = ['#steps', '[aria-selected=true]']
            .map(each => document.querySelector(each).getBoundingClientRect());
            return step.top >= list.top - 1 && step.bottom <= list.bottom + 1; })()"""), key


def test_a_step_says_what_it_was(show: Show) -> None:
    tab = with_table(show("explain"))
    tab.click("#step-10")
    assert tab.run("byId('says').textContent") == (
        "Step 10 of 16: failed_transiently [may_retry] (the provider failed) leads to retry, "
        "after a wait of 12 s"
    )
    told = tab.run("""Object.fromEntries([...document.querySelectorAll('#details dt')]
        .map(each => [each.textContent, each.nextElementSibling.textContent]))""")
    assert told["status"] == "HTTP 429"
    assert (told["reason"], told["code"], told["effect"]) == (
        "rate_limit",
        "slow_down",
        "spend_retry",
    )
    assert told["wait"] == "12 s, as the provider asked"
    assert told["backend"] == "first"
    assert "wait_fits" in told["facts"]
    assert "switch_asked: no · wait_fits: yes" in tab.run(
        "document.querySelector('#guards').textContent"
    )
    changed = tab.run(
        "[...document.querySelectorAll('#counters .taken, #counters .refilled')].map(e => "
        "e.textContent)"
    )
    assert changed == ["retries2/3\N{MINUS SIGN}1"]
    budget = tab.run("[...document.querySelectorAll('#budget li')].map(each => each.textContent)")
    assert budget[:3] == ["attempts19 of 24", "time76 of 90 s", "output tokens19060 of 20000"]


def test_arcs_of_the_picture_select_too(show: Show) -> None:
    tab = show("explain")
    tab.click("[data-arc='await reask'] text")
    assert selected(tab) == 4


def test_what_a_stranger_wrote_never_runs(show: Show) -> None:
    tab = with_table(show("nasty"))
    for step in trail().steps:
        tab.click(f"#step-{step.number}")
    tab.click("#step-2")
    assert NASTY in tab.run("byId('details').textContent")
    assert tab.run("typeof window.hacked") == "undefined"
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.problems == []
    assert len(tab.requests) == 1
