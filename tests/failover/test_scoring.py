"""What was seen and how it is judged, fed with made-up outcomes."""

from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from failover.faults import FAULTS, POLICY_CODE
from failover.playing import Played
from failover.run import markdown, table, told
from failover.scoring import score
from failover.seen import Asked, Attempt, Seen
from rungwise.adapters.exam.answer import ANSWER
from rungwise.adapters.exam.grades import total

DONE = Asked(seconds=1.0, text=ANSWER, model="fallback", has_usage=True)
CUT = Asked(seconds=1.0, text=ANSWER[:100], model="fallback", has_usage=True)
ERROR = Asked(seconds=1.0, error="Failed", is_clean=True)
HANGING = Asked(seconds=500.0)


def seen(
    *asked: Asked,
    at: Iterable[float] = (0.0,),
    alive: Asked = DONE,
    attempts: Any = None,
    **fields: Any,
) -> Seen:
    """Make up what was seen: the primary was asked at these times."""
    if attempts is None:
        attempts = [Attempt(role="primary", at=moment) for moment in at]
    return Seen(
        asked=asked or (DONE,), attempts=tuple(attempts), alive=alive, answer=ANSWER, **fields
    )


def judge(name: str, *asked: Asked, **fields: Any) -> str:
    return score(FAULTS[name], seen(*asked, **fields)).grade


NO_ERRORS = [name for name in FAULTS if name not in ("S13", "S15")]


FATAL = {
    "a hang": HANGING,
    "a cut answer": CUT,
    "nothing as an answer": attrs.evolve(DONE, text=""),
    "an answer that is said twice": attrs.evolve(DONE, text=ANSWER + ANSWER),
    "an error that is none of a call": Asked(seconds=1.0, error="KeyError"),
}


class TestWhatHoldsOfEveryFault:
    @pytest.mark.parametrize("asked", FATAL.values(), ids=FATAL)
    @pytest.mark.parametrize("name", FAULTS)
    def test_some_ends_are_a_fail(self, name: str, asked: Asked):
        assert judge(name, asked) == "fail"

    @pytest.mark.parametrize("name", FAULTS)
    def test_an_answer_behind_the_time_limit_is_a_fail(self, name: str):
        assert judge(name, attrs.evolve(DONE, seconds=FAULTS[name].limit + 0.1)) == "fail"

    @pytest.mark.parametrize("name", FAULTS)
    @pytest.mark.parametrize("alive", [HANGING, CUT, ERROR], ids=["hangs", "cut", "error"])
    def test_a_client_that_is_dead_afterwards_is_a_fail(self, name: str, alive: Asked):
        assert judge(name, alive=alive) == "fail"

    @pytest.mark.parametrize("name", NO_ERRORS)
    def test_a_clean_error_is_safe(self, name: str):
        assert judge(name, ERROR) == "safe"

    def test_white_space_is_no_difference(self):
        assert judge("S08", attrs.evolve(DONE, text=f"\n{ANSWER.replace(' ', '  ')} ")) == "pass"


@pytest.mark.parametrize(
    ("name", "fields", "verdict"),
    [
        ("S01", {"at": [0.0, 2.0]}, "pass"),
        ("S01", {"at": [0.0, 1.0]}, "partial"),
        ("S01", {"at": [0.0]}, "partial"),
        ("S01", {"at": [0.0, 0.5, 1.0]}, "fail"),
        ("S02", {"at": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}, "pass"),
        ("S02", {"at": [7.0, 7.1, 7.2, 7.3, 7.4]}, "fail"),
        ("S02", {"at": [0.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0]}, "fail"),
        ("S03", {"at": [0.0, 2.0]}, "pass"),
        ("S03", {"at": [0.0]}, "partial"),
        ("S04", {"at": [2.0] * 6}, "pass"),
        ("S04", {"at": [2.0] * 7}, "fail"),
        ("S06", {"at": [0.0, 30.0]}, "partial"),
        ("S12", {"at": [0.0]}, "pass"),
        ("S12", {"at": [0.0, 0.1]}, "fail"),
        ("S12", {"at": [0.0, 0.1, 0.2]}, "fail"),
        ("S16", {"at": [0.0] * 7}, "fail"),
    ],
)
def test_when_and_how_often_the_primary_was_asked_counts(name: str, fields: Any, verdict: str):
    assert judge(name, **fields) == verdict


@pytest.mark.parametrize(
    ("name", "seconds", "verdict"),
    [
        ("S06", 99.0, "pass"),
        ("S06", 101.0, "fail"),
        ("S07", 14.9, "pass"),
        ("S07", 21.0, "partial"),
        ("S09", 44.0, "pass"),
        ("S09", 46.0, "fail"),
        ("S11", 7.0, "pass"),
        ("S11", 9.0, "fail"),
    ],
)
def test_how_long_a_call_took_counts(name: str, seconds: float, verdict: str):
    assert judge(name, attrs.evolve(DONE, seconds=seconds)) == verdict


def test_what_the_caller_is_told_counts():
    assert judge("S16", attrs.evolve(DONE, model="primary")) == "fail"
    assert judge("S16", attrs.evolve(DONE, has_usage=False)) == "partial"
    assert judge("S11", attrs.evolve(DONE, has_usage=False)) == "partial"


def test_a_prompt_that_did_not_fit_may_be_sent_once_more_if_it_is_smaller():
    def sent(*prompts: int) -> str:
        return judge(
            "S12", attempts=[Attempt(role="primary", at=0.0, prompt=prompt) for prompt in prompts]
        )

    assert (sent(100, 60), sent(100, 100), sent(100, 140), sent(100, 60, 30)) == (
        "pass",
        "fail",
        "fail",
        "fail",
    )


TOLD = attrs.evolve(ERROR, reasons=(POLICY_CODE,))
REFUSED_PREFILL = (
    Attempt(role="primary", at=0.0),
    Attempt(role="fallback", at=1.0, is_refused_prefill=True),
)


@pytest.mark.parametrize(
    ("name", "asked", "fields", "verdict"),
    [
        ("S13", TOLD, {}, "pass"),
        ("S13", attrs.evolve(ERROR, reasons=("server_error",)), {}, "safe"),
        ("S13", DONE, {}, "partial"),  # another model answers
        ("S13", TOLD, {"at": [0.0, 2.0]}, "fail"),  # the same one is asked again
        ("S14", ERROR, {"attempts": REFUSED_PREFILL}, "fail"),
        ("S14", DONE, {"attempts": REFUSED_PREFILL}, "pass"),
    ],
)
def test_a_content_filter_and_a_refused_prefill_are_judged_by_how_the_call_ends(
    name: str,
    asked: Asked,
    fields: Any,
    verdict: str,
):
    assert judge(name, asked, **fields) == verdict


class TestAnOutage:
    RECOVERED = (
        Attempt(role="primary", at=4.0),
        Attempt(role="primary", at=61.0, is_answered=True),
    )

    def calls(self, **fields: Any) -> list[Asked]:
        calls = [attrs.evolve(DONE, at=4.0 * number) for number in range(20)]
        return [*calls[:3], attrs.evolve(calls[3], **fields), *calls[4:]]

    def judge(self, *asked: Asked, attempts: Any = RECOVERED) -> str:
        return judge("S15", *asked, attempts=attempts, dead_for=60.0)

    def test_passes_where_the_fallback_answers_and_the_primary_is_used_again(self):
        assert self.judge(*self.calls()) == "pass"

    def test_is_a_fail_where_a_call_meanwhile_is_not_answered_or_by_nobody_known(self):
        assert self.judge(*self.calls(text=None, error="Failed", is_clean=True)) == "fail"
        assert self.judge(*self.calls(model="primary")) == "fail"

    def test_comes_to_what_its_worst_call_comes_to(self):
        calls = self.calls()
        assert self.judge(*calls[:-1], attrs.evolve(HANGING, at=76.0)) == "fail"
        assert self.judge(*calls[:-1], attrs.evolve(ERROR, at=76.0)) == "safe"

    def test_is_a_fail_where_the_primary_is_used_too_late_or_never(self):
        late = Attempt(role="primary", at=90.5, is_answered=True)
        assert self.judge(*self.calls(), attempts=(self.RECOVERED[0], late)) == "fail"
        assert self.judge(*self.calls(), attempts=self.RECOVERED[:1]) == "fail"


def test_verdicts_are_counted_in_order():
    assert total(["pass", "fail", "pass", "safe", "partial", "pass"]) == "3-1-1-1"
    assert total([]) == "0-0-0-0"


def test_what_did_not_pass_is_told_with_its_reason():
    assert score(FAULTS["S09"], seen(CUT)).why == (
        "an answer that is not the whole one, as success",
        "no cut answer as success",
    )
    row = [
        Played(FAULTS[name], what, score(FAULTS[name], what))
        for name, what in [("S07", seen()), ("S08", seen(CUT))]
    ]
    assert told("ours", row[:1]) == []
    [line] = told("ours", row)
    assert line.startswith("ours, S08: fail, for an answer that is not the whole one")
    assert table({"ours": row}).splitlines()[-1].split() == ["pass-partial-safe-fail", "1-0-0-1"]
    lines = markdown({"ours": row}).splitlines()
    assert "| Rungwise, ours | 1 | 0 | 0 | 1 |" in lines
    assert "| S08 cut after 40 of 60 tokens | fail |" in lines
    assert all(line.count("|") == lines[0].count("|") for line in lines[: lines.index("")])
