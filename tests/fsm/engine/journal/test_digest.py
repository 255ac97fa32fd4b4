"""A run in brief: the lines of its attempts, why it ended, and the forms in which notebooks and
terminals show it.
"""

import copy
import logging
import pickle
import subprocess
import sys
import traceback
from functools import cache
from io import StringIO
from typing import Any

import attrs
import pytest
from rich.console import Console

import rungwise
from rungwise import Budget, Limits, Policy, Usage
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.call.run.call_digest import digest_of_call, digest_of_journal
from rungwise.fsm.diagram.page.templates import MOST_LINES, digest_html
from rungwise.fsm.engine.journal.amounts import money_text, ordinal, seconds_text
from rungwise.fsm.engine.journal.attempts import attempts_of
from rungwise.fsm.engine.journal.digest import digest_lines
from rungwise.fsm.turn.turn_digest import digest_of_turn
from support import recorded
from support.elements import Elements
from support.recorded import ANSWER, ARABIC, HTML, LONG, OVERLOADED
from support.turns import calling, played, said

SECRET = "The heron nests in the reeds of the northern lake, by the old mill."


def answered(text: str) -> rungwise.Result:
    reply = Reply(
        text,
        stop_reason="stop",
        stop_raw="stop",
        usage=Usage(40, 7),
    )
    return recorded.recorded([OVERLOADED, reply], seconds=0.5).result


@cache
def turn_result() -> Any:
    return played(
        calling("look", "gone", text="Let me see."), OVERLOADED, said(SECRET), contents=True, seed=2
    ).result


# The attempts


def test_each_attempt_knows_what_led_to_it_and_what_came_back() -> None:
    found = [*attempts_of(recorded.shown(recorded.hostile()).steps)]
    assert [(each.number, each.rung, each.why, each.came) for each in found] == [
        (1, "ask", None, "429 rate limit"),
        (2, "retry", "429", "503 overloaded"),
        (3, "fallback", "503", "503 overloaded"),
        (4, "retry", "503", "503 overloaded"),
        (5, "fallback", "503", "503 overloaded"),
        (6, "retry", "503", "answered"),
    ]
    assert [each.sent.backend[:5] for each in found] == [HTML[:5]] * 2 + [LONG[:5]] * 2 + [
        ARABIC[:5]
    ] * 2
    assert [round(each.waited, 3) for each in found] == [0, 3, 0, 2.5, 0, 2.5]
    assert [each.seconds for each in found] == [pytest.approx(0.7)] * 6


def test_a_call_in_flight_has_an_attempt_that_is_not_back_yet() -> None:
    call = Call(Request("?"))
    call.begin(0.0)
    call.sending(0.0)
    digest = digest_of_journal(call.journal)
    assert list(digest_lines(digest)) == [
        "call not ended", "1 attempt, 0 s; left: 23 attempts, 900 s", "  1 · ask → not back yet",
    ]  # fmt: skip


def test_what_ends_a_call_in_a_rung_stands_below_its_attempts() -> None:
    call = recorded.recorded([OVERLOADED], seconds=0.5, budget=Budget(attempts=1))
    lines = list(digest_lines(digest_of_call(recorded.shown(call))))
    assert (
        lines[0]
        == "call over budget: the next request cannot be afforded: all 1 attempts of the budget "
        "are used"
    )
    assert lines[-2:] == [
        "  1 · ask → 503 overloaded   (0.5 s)", "    the next request cannot be afforded → over "
            "budget",
    ]  # fmt: skip


def test_a_call_that_was_cancelled_before_it_sent_anything_has_no_line() -> None:
    call = Call(Request("?"))
    call.cancel()
    digest = digest_of_journal(call.result.journal, call.result.text)
    assert (digest.lines, digest.headline) == ((), "cancelled: the caller ended the call")


def test_reports_a_backend_that_was_passed_over() -> None:
    policy = Policy(limits=Limits(retries=0))
    chain = [PlainLink("one"), PlainLink("two", problem="no key"), PlainLink("three")]
    call = Call(Request("?"), policy, chain)
    call.begin()
    call.receive(OVERLOADED)
    call.receive(ANSWER)
    digest = digest_of_journal(call.result.journal, call.result.text)
    assert (
        digest.lines[1].text == "2 · fallback · 503 · skipped two: no key · three → answered: done"
    )


# Its head


def test_the_head_says_why_and_for_which_time_what_was_used_and_what_was_left() -> None:
    digest = digest_of_call(recorded.shown(recorded.failed()))
    assert digest.headline == "failed: the provider answered 503 (overloaded) for the fourth time"
    assert digest.amounts["attempts"] == "4 of 24"
    assert digest.left == "20 attempts, 9981 s"
    timeout = Failure("timeout")
    told = digest_of_call(
        recorded.shown(recorded.recorded([timeout] * 2, seconds=1, retries=1))
    ).headline
    assert told == "failed: the provider failed (timeout) for the second time"


@pytest.mark.parametrize(
    ("prices", "usages", "says"),
    [
        ((1, 1), (False, False), "0.0044"),
        ((1, 1), (True, False), "about 0.0044"),
        ((1, None), (False, False), "at least 0.0022"),
        ((None, None), (False, False), None),
    ],
)
def test_the_cost_says_how_well_it_is_known(
    prices: tuple[int | None, ...], usages: tuple[bool, ...], says: str | None
) -> None:
    chain = [
        PlainLink(f"number {place}", prices=None if price is None else rungwise.Prices(1, 10))
        for place, price in enumerate(prices)
    ]
    call = Call(Request("?"), Policy(limits=Limits(reasks=0)), chain)
    call.begin()
    for text, estimated in zip(("", "Yes."), usages, strict=True):
        call.receive(Reply(text, stop_reason="stop", usage=Usage(1200, 100, estimated=estimated)))
    digest = digest_of_journal(call.result.journal, call.result.text)
    assert (digest.outcome, digest.amounts.get("cost")) == ("done", says)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0 s"),
        (2e-6, "2 µs"),
        (0.0123, "12.3 ms"),
        (0.5, "0.5 s"),
        (41.66, "41.7 s"),
        (900.4, "900 s"),
    ],
)
def test_times_are_written_in_a_unit_in_which_they_can_be_read(number: float, text: str) -> None:
    assert seconds_text(number) == text


def test_sums_and_ordinals_are_written_as_people_do() -> None:
    assert [money_text(each) for each in (0.0, 0.00006, 0.019832, 1234.5)] == [
        "0",
        "0.00006",
        "0.01983",
        "1234.50",
    ]
    assert [ordinal(each) for each in (1, 4, 11, 12, 13, 21, 22, 112)] == [
        "first", "fourth", "11th", "12th", "13th", "21st", "22nd", "112th",
    ]  # fmt: skip


# The one line


def test_the_repr_of_a_result_shows_the_outcome_the_first_words_and_what_it_cost() -> None:
    assert repr(answered("The answer is 42.")) == (
        "<Result done: 'The answer is 42.' · 2 attempts, 3.5 s, 40 tokens in, 7 out, cost 0.00011>"
    )
    assert (
        repr(recorded.failed().result)
        == "<Result failed: the provider failed · 4 attempts, 19.1 s, cost 0>"
    )
    assert repr(turn_result()).startswith(
        f"<TurnResult finished: '{SECRET[:60]}…' · 2 calls, 3 attempts, "
    )
    assert repr(turn_result()).endswith(" s, 20 tokens in, 10 out, cost 0.00004>")
    call = Call(Request("?"))
    call.begin()
    call.receive(calling("look", "note"))
    assert repr(call.result).startswith(
        "<Result done: calls look, calls note · 1 attempt, 0 s, 10 tokens in"
    )


@pytest.mark.parametrize(
    "text",
    [
        "a\nb\r\tc",
        "\x1b[31mred\x07",
        "\u202egnirts\u2066",
        "x" * 5000,
        "\U000e0001" * 400,
        "'\"" * 200,
        "\ud800",
        "",
    ],
)
def test_the_repr_is_one_bounded_line_whatever_the_text_is(text: str) -> None:
    told = repr(attrs.evolve(answered("Yes."), text=text))
    assert told.isprintable()
    assert len(told) < 260
    assert "\n" not in told


def test_no_error_and_no_log_shows_the_result_that_it_carries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chain = [PlainLink("one")]
    cut = Reply(SECRET, stop_reason="length", usage=Usage(1, 1))
    call = Call(Request("?"), Policy(budget=Budget(attempts=1)), chain)
    with caplog.at_level(logging.DEBUG):
        call.begin()
        call.receive(cut)
    result = call.result
    assert SECRET[:30] in repr(result)
    for kind in (rungwise.Failed, rungwise.Exhausted, rungwise.OverBudget, rungwise.Cancelled):
        error = kind("it went wrong", result)
        copied = pickle.loads(pickle.dumps(error))
        for each in (error, copied, copy.copy(error)):
            shown = [repr(each), str(each), *traceback.format_exception(each), str(each.args)]
            assert not [text for text in shown if "heron" in text]
            assert each.result.text == result.text
    assert "heron" not in caplog.text


# In a notebook and on a terminal


def shown_by(result: Any) -> list[Any]:
    return [result, result.journal]


def test_a_notebook_shows_the_lines_of_a_call_and_of_a_turn() -> None:
    for each in (*shown_by(recorded.failed().result), *shown_by(turn_result())):
        found = Elements(each._repr_html_())
        assert found.tags <= {"div", "style", "p", "b", "span", "ol", "li", "details", "summary"}
        assert found.attributes <= {"class", "aria-hidden"}
        assert "503 overloaded" in found.words
    words = Elements(recorded.failed().result._repr_html_()).words
    assert "call failed: the provider answered 503 (overloaded) for the fourth time" in words
    assert "2 · retry · 503 · waited 2.5 s → 503 overloaded" in words


def test_a_result_shows_its_first_words_and_a_journal_none() -> None:
    result = answered(SECRET * 20)
    assert SECRET in result._repr_html_()
    assert len(result._repr_html_()) < 6000
    assert SECRET in turn_result()._repr_html_()
    for journal in (result.journal, turn_result().journal):
        assert "heron" not in journal._repr_html_()
        assert "heron" not in on_terminal(journal)


def test_what_a_stranger_wrote_is_only_ever_text_in_a_notebook() -> None:
    result = recorded.hostile().result
    for each in (*shown_by(result), *shown_by(answered(HTML))):
        found = Elements(each._repr_html_())
        assert not {"script", "img"} & found.tags
        assert "onerror" not in found.attributes
    assert HTML[:30] in Elements(result._repr_html_()).words
    assert HTML in Elements(answered(HTML)._repr_html_()).words


def test_its_styles_touch_nothing_around_it() -> None:
    text = recorded.short().result._repr_html_()
    style = text[text.index("<style>") + 7 : text.index("</style>")].replace(
        "@media (prefers-color-scheme:dark){", ""
    )
    for rule in filter(None, style.replace("}}", "}").split("}")):
        assert all(".rungwise" in selector for selector in rule.partition("{")[0].split(",")), rule
    assert "url(" not in style
    assert "@import" not in style


def test_very_many_lines_are_cut() -> None:
    call = recorded.recorded(
        [OVERLOADED] * 100 + [ANSWER],
        seconds=0.1,
        retries=200,
        budget=Budget(attempts=1000),
        waits=False,
    )
    text = digest_html(digest_of_call(recorded.shown(call)))
    assert text.count("<li>") == MOST_LINES
    assert "and 41 more lines" in text


def on_terminal(value: Any) -> str:
    console = Console(file=StringIO(), width=300, force_terminal=False)
    console.print(value)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_the_same_lines() -> None:
    for result in (recorded.failed().result, recorded.hostile().result):
        digest = digest_of_journal(result.journal, result.text)
        assert on_terminal(result).splitlines() == [line.rstrip() for line in digest_lines(digest)]
        assert on_terminal(result.journal).splitlines()[0] == f"call {digest.headline}"
    turn = on_terminal(turn_result())
    assert "  3 · go on · call 2 · tools ran → answered: finished" in turn
    assert "       2 · retry · 503 · waited" in turn


def test_nothing_on_a_terminal_is_taken_for_markup() -> None:
    told = on_terminal(answered("[red]no[/red] \x1b[2Jmore \u202eback"))
    assert "[red]no[/red] more back" in told
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_a_journal_without_steps_or_of_another_table_has_no_lines() -> None:
    call = Call(Request("?"))
    assert call.journal._repr_html_() is None
    assert on_terminal(call.journal) == "<Journal of a call, 0 steps>\n"
    journal = rungwise.Journal.from_json(recorded.short().journal.to_json())
    journal.counters = ("knocks",)
    assert journal._repr_html_() is None


def test_rich_is_loaded_only_by_who_uses_it() -> None:
    code = (
        "import sys, rungwise; c = rungwise.core.Call(rungwise.core.Request('?')); c.begin();"
        "c.receive(rungwise.core.Reply('x', stop_reason='stop')); repr(c.result); "
        "c.result._repr_html_();"
        "assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_lines_of_a_turn_of_27_calls_hold_those_of_its_calls() -> None:
    turn = recorded.long_turn()
    digest = digest_of_turn(turn)
    assert len([line for line in digest.lines if line.within is not None]) == 27
    assert digest.spent.attempts == 28
    assert digest.spent.calls == 27
