"""The journals that the page plays are those of Python, byte for byte; and they are stepped through
and forked.

A play gets what came back alone: `WHAT_CAME` takes from a journal nothing that the call decided.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

import rungwise
from failover import playing
from failover.faults import FAULTS
from failover.rows import ROWS
from failover.run import FAST
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.certificate.shown.page import EXAMPLES
from support.page_checks import assert_contrast, assert_page_fits
from support.played import play

Show = Callable[..., Any]

WHAT_CAME: Final = """(texts) => texts.map((text) => {
    const document = JSON.parse(text);
    const own = machineOf({...DATA.machine, limits: limitsOf(DATA.machine, document)});
    const call = callOf(own, DATA.around, text);
    let at = call.start();
    for (const {cap, ...came} of call.recorded()) at = call.take(at, came)?.call ?? at;
    return call.journal(at);
})"""

FAILURES: Final = (
    Failure("rate_limit", status=429),
    Failure("rate_limit", status=429, asked_wait=7.0),
    Failure("rate_limit", status=429, asked_wait=500.0),
    Failure("overloaded", status=529),
    Failure("connection", is_stale=True),
    Failure("unreachable"),
)
DONE: Final = Reply("It is blue.", stop_reason="stop", stop_raw="stop")


def assert_played(tab: Any, texts: Sequence[str]) -> None:
    """Assert that the page plays each of these journals to the same text."""
    for text, played in zip(texts, tab.run(f"({WHAT_CAME})({json.dumps(texts)})"), strict=True):
        assert played == text


@pytest.mark.full
@pytest.mark.parametrize("row", ["the defaults", "interactive"])
def test_the_sixteen_faults_are_played_as_in_python(
    show: Show, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    asked = playing._asked

    def noted(result: rungwise.Result, **told: Any) -> Any:
        texts.append(result.journal.to_json())
        return asked(result, **told)

    monkeypatch.setattr(playing, "_asked", noted)
    playing.play_all(ROWS[row], scale=FAST)
    # twenty calls of one fault, one of each other, one after each, and one before all of them
    assert len(texts) >= 2 * len(FAULTS) + 19
    assert_played(show("play"), texts)


def journals(chance: random.Random) -> Iterator[str]:
    """Yield the journals of calls with any policy, chain, replies and times."""
    while True:
        limits = {name: chance.randrange(4) for name in ("retries", "reasks", "continuations")}
        policy = rungwise.Policy(
            limits=rungwise.Limits(**limits),
            budget=rungwise.Budget(
                attempts=chance.randint(1, 24), seconds=chance.choice([None, 33.3, 900.0])
            ),
            after_refusal=chance.choice(["fall_back", "end"]),
            skip_identical_empties=chance.random() < 0.3,
        )
        names = chance.choices("abc", k=chance.randint(1, 4))
        chain = [PlainLink(name, problem=chance.choice([None, None, "no key"])) for name in names]
        chain.insert(0, PlainLink("first"))
        call = Call(Request("Why?"), policy, chain, jitter=chance.random)
        now = 0.0
        send = call.begin(now)
        while send is not None:
            now += send.wait + chance.choice([0.0, chance.random()])
            if call.sending(now) is None:
                break
            now += chance.choice([0.0, 1e-6, chance.random() * 20])
            send = call.receive(chance.choice((*EXAMPLES, *FAILURES, DONE)), now)
        yield call.journal.to_json()


def test_any_call_is_played_as_in_python(show: Show) -> None:
    some = journals(random.Random(20_261))
    assert_played(show("play"), [next(some) for _ in range(60)])


# Forks

BUSY: Final = Failure("server_error", status=503)
LIMITED: Final = Failure("rate_limit", status=429)
STORY: Final = (BUSY, BUSY, BUSY, Failure("overloaded", status=529), DONE)


def journal_of(*replies: Reply | Failure) -> str:
    """Return the journal of a call, whose replies take a second each."""
    chain = [PlainLink("backend 1"), PlainLink("backend 2")]
    call = Call(Request("Why?"), rungwise.Policy(), chain, jitter=lambda: 0.5)
    return play(call, [(reply, 1.0) for reply in replies]).journal.to_json()


def opened(tab: Any, text: str) -> Any:
    """Drop a journal on the page."""
    tab.run(f"""(async () => {{
        const files = new DataTransfer();
        files.items.add(new File([{json.dumps(text)}], "journal.json"));
        dispatchEvent(new DragEvent("drop", {{dataTransfer: files, cancelable: true}}));
        const says = () => byId("opened").textContent;
        const before = says();
        while (says() === before) await new Promise(requestAnimationFrame);
    }})()""")
    return tab


def test_a_journal_is_stepped_through_and_forked(show: Show) -> None:
    tab = opened(show("play"), journal_of(*STORY))
    assert tab.run("byId('opened').textContent").startswith("A journal of 10 steps, played")
    for event in ("sent", "failed_transiently", "sent"):
        assert tab.run("document.querySelector('#events input:checked').value") == event
        tab.click("#take")
    tab.run("document.querySelectorAll('#replies input')[0].click()")
    assert tab.run("document.querySelector('#guards .decides code').textContent") == "may_retry"
    tab.click("#take")
    tab.click("#rest")
    forked = journal_of(BUSY, LIMITED, BUSY, Failure("overloaded", status=529), DONE)
    assert tab.run("page.journal()") == forked
    assert forked != journal_of(*STORY)
    tab.click("#restart")
    tab.click("#rest")
    assert tab.run("page.journal()") == journal_of(*STORY)
    assert tab.problems == []


def test_an_earlier_end_is_reached_and_left_again(show: Show) -> None:
    tab = opened(show("play"), journal_of(*STORY))
    tab.click("#take")
    tab.click("#events input[value=answered]")
    tab.click("#take")
    assert tab.run("page.at().outcome") == "done"
    tab.click("#undo")
    tab.click("#rest")
    assert tab.run("page.at().outcome") == "done"
    assert json.loads(tab.run("page.journal()"))["outcome"] == "done"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"policy": {}, "chain": []}'])
def test_what_is_no_journal_is_refused(show: Show, text: str) -> None:
    tab = opened(show("play"), text)
    assert tab.run("byId('opened').textContent").startswith("This is not a journal of a call")
    tab.click("#take")
    assert tab.run("page.at().state") == "await"
    assert tab.problems == []


def test_a_journal_is_played_by_keyboard_on_a_small_dark_screen(show: Show, tmp_path: Path) -> None:
    tab = opened(show("play", width=390, dark=True), journal_of(*STORY))
    tab.run("byId('rest').focus()")
    tab.press("Enter")
    assert tab.run("document.activeElement.id") == "undo"
    tab.run("byId('path').focus()")
    for _ in range(4):
        tab.press("ArrowLeft")
    assert tab.run("page.at().steps.length") == 6
    tab.press("ArrowRight")
    assert tab.run("page.at().steps.length") == 7
    tab.run("byId('events').querySelector('input:checked').focus()")
    tab.press("Enter")
    assert tab.run("page.at().steps.length") == 8
    assert_page_fits(tab)
    assert assert_contrast(tab) > 100
