"""The pages of the browser tests, each made on demand, and readers of what they show."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import rungwise
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.certificate.shown.page import play_policy
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.journal.path import Path as Route
from rungwise.fsm.engine.journal.path import path_of
from rungwise.fsm.turn.explained import explain_call, explain_turn, read_turn
from rungwise.fsm.turn.turn_digest import TurnPath
from support import recorded
from support.played import play
from support.turns import BUSY, OVERFLOW, calling, played, said

NASTY = "</script><img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"


def heard(tokens: int, text: str = "", *, reason: Any = "stop", **more: Any) -> Reply:
    given = {"stop_raw": reason, **more}
    return Reply(text, stop_reason=reason, usage=rungwise.Usage(800, tokens), **given)


STORY: tuple[tuple[Reply | Failure, float], ...] = (
    (heard(1), 1.2),
    (heard(2), 0.9),
    (heard(240, reasoning="hm"), 4.1),
    (heard(700, "The answer is ", reason="length"), 6.3),
    (Failure("rate_limit", status=429, code="slow_down", asked_wait=12.0), 0.3),
    (Failure("overloaded", status=529), 0.4),
    (Failure("overloaded", status=529), 0.5),
    (heard(320, "42.", stop_raw="end_turn"), 5.2),
)


@cache
def trail(name: str = "first") -> Route:
    chain = [
        PlainLink(name, prices=rungwise.Prices(1, 10)),
        PlainLink("second", prices=rungwise.Prices(3, 15)),
    ]
    budget = rungwise.Budget(seconds=90, output_tokens=20_000, money=0.5)
    policy = rungwise.Policy(budget=budget, switch_after={"empty": 1000})
    asked = [
        {"role": "user", "content": "?"},
        {"role": "tool", "tool_call_id": "1", "content": "!"},
    ]
    call = Call(Request(asked, max_tokens=700), policy, chain, jitter=lambda: 0.4, contents=True)
    return path_of(play(call, STORY).journal, CALL)


@cache
def a_turn() -> TurnPath:
    replies = (
        calling("look", "gone", text="Let me see."),
        OVERFLOW,
        calling("look"),
        BUSY,
        said("By the lake."),
    )
    turn = played(*replies, has_compactor=True, contents=True, seed=7)
    return read_turn(turn.journal.to_json())


def selected(tab: Any) -> int:
    """Return the number of the selected step, on which all parts of the page agree."""
    (option,) = tab.run(
        "[...document.querySelectorAll('[aria-selected=true]')].map(each => each.id)"
    )
    assert (
        tab.run("document.getElementById('steps').getAttribute('aria-activedescendant')") == option
    )
    number = int(option.removeprefix("step-"))
    assert tab.run("byId('says').textContent").startswith(
        f"Step {number} of {len(trail().steps)}: "
    )
    return number


def attempt(tab: Any) -> int:
    """Return the number of the attempt shown, on which all parts of the page agree."""
    (current,) = tab.run(
        "[...document.querySelectorAll('[aria-current=step]')].map(each => each.id)"
    )
    number = int(current.removeprefix("attempt-"))
    assert tab.run("byId('told').textContent").startswith(f"{number} of {len(STORY)}: ")
    assert tab.run("page.present()") == number - 1
    return number


def with_table(tab: Any) -> Any:
    """Open the view of the table."""
    tab.click("#table-view summary")
    return tab


def shown(tab: Any) -> dict[str, Any]:
    """Return what the picture shows of the current step."""
    return dict(
        tab.run("""({
            arc: [...document.querySelectorAll('.now[data-arc]')].map(each => each.dataset.arc),
            line: [...document.querySelectorAll('.now[data-event]')].map(each => ({...each.dataset})),
            tried: [...document.querySelectorAll('.tried')].map(each => each.dataset.guard),
            here: [...document.querySelectorAll('.here')].map(each => each.dataset.state),
            decided: [...document.querySelectorAll('#guards .decides code')].map(each => each.textContent),
            failed: [...document.querySelectorAll('#guards .false code')].map(each => each.textContent),
        })""")  # noqa: E501
    )


def notebook() -> str:
    """Show results and journals as a notebook does."""
    results = (recorded.failed().result, recorded.hostile().result, recorded.in_minutes().result)
    turn = played(calling("look"), BUSY, said("By the lake. " * 40), seed=7).result
    shown_there = [
        each._repr_html_() for result in (*results, turn) for each in (result, result.journal)
    ]
    head = '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    return (
        f'{head}<meta name="viewport" content="width=device-width"><body>'
        f"{''.join(map(str, shown_there))}"
    )


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "explain": lambda: explain_call(trail()),
    "play": lambda: play_policy(rungwise.Policy(), 3),
    "play a turn": lambda: play_policy(rungwise.TurnPolicy(auto_continues=2, faults=1)),
    "short": lambda: play_policy(rungwise.Policy(budget=rungwise.Budget(attempts=1))),
    "nasty": lambda: explain_call(trail(NASTY)),
    "turn": lambda: explain_turn(a_turn()),
    "failed": lambda: explain_call(recorded.shown(recorded.failed())),
    "minutes": lambda: explain_call(recorded.shown(recorded.in_minutes())),
    "microseconds": lambda: explain_call(recorded.shown(recorded.in_microseconds())),
    "hostile": lambda: explain_call(recorded.shown(recorded.hostile())),
    "notebook": notebook,
    "long turn": lambda: explain_turn(recorded.long_turn()),
}
