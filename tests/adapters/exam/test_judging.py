"""The grades: what was printed, the exit code and the requests decide, nothing else."""

from typing import Any

import pytest

from rungwise.adapters.exam.answer import ANSWER, begun, rest_of
from rungwise.adapters.exam.cases import CALL_ID, ExamCase, catalogue, healthy
from rungwise.adapters.exam.judging import Seen, judge
from rungwise.adapters.exam.programs import ProgramEnd
from rungwise.adapters.exam.stage import SeenRequest
from rungwise.adapters.exam.wanted import Wanted
from rungwise.testing import ScriptedReply

HALF = ANSWER[:120]
WELL = ProgramEnd(output=ANSWER, errors="", code=0, seconds=1.0)


def wanted(model: str = "m", **body: Any) -> Wanted:
    return Wanted(
        api="openai",
        path="/v1/chat/completions",
        body={"model": model, "messages": [{"role": "user", "content": "hi"}], **body},
        number=1,
        model=model,
        streams=False,
    )


def asked(at: float, *, status: int = 500, primary: bool = True, **body: Any) -> SeenRequest:
    reply = healthy(wanted()) if status == 200 else ScriptedReply(status=status)
    model = "m" if primary else "other"
    request = wanted(model, **body)
    return SeenRequest(at=at, wanted=request, is_primary=primary, headers={}, reply=reply)


def grade(
    case: ExamCase | str,
    output: str = ANSWER,
    *requests: SeenRequest,
    errors: str = "",
    code: int | None = 0,
    seconds: float = 1.0,
) -> str:
    """Return the grade, and the first reason."""
    chosen = catalogue()[case] if isinstance(case, str) else case
    ended = ProgramEnd(output=output, errors=errors, code=code, seconds=seconds)
    score = judge(Seen(case=chosen, ended=ended, asked=requests, healthy=WELL))
    return ": ".join([score.grade, *score.why[:1]])


def test_a_whole_answer_passes():
    assert grade("overloaded", f"The model says:\n{ANSWER}\n", asked(0)) == "pass"


@pytest.mark.parametrize(
    ("output", "errors", "code", "expected"),
    [
        (HALF, "", 0, "fail: showed part of the answer, and exit code 0, as if all were well"),
        ("", "", 0, "fail: showed no answer, and exit code 0, as if all were well"),
        ("The result is ready.", "", 0, "fail: showed no answer, and exit code 0"),
        ("", "", None, "fail: had not ended after 40 s"),
        (ANSWER, "", None, "fail: had not ended after 40 s"),
        ("", "", -11, "fail: was ended by signal 11"),
        ("", "", 1, "safe: ended with an error, exit code 1"),
        ("", "HTTP 503", 0, "safe: told of an error in words"),
        ("Sorry, the service is unavailable.", "", 0, "safe: told of an error in words"),
        (HALF, "", 1, "safe: showed a part of the answer, and ended with an error, exit code 1"),
        (HALF + " [interrupted]", "", 0, "safe: showed a part of the answer, and told of an error"),
        (ANSWER, "", 1, "partial: showed the whole answer, but exit code 1"),
        (HALF + ANSWER, "", 0, "partial: showed text of a broken reply and never took it back"),
    ],
)
def test_what_was_shown_decides(output: str, errors: str, code: int | None, expected: str):
    assert grade("overloaded", output, asked(0), errors=errors, code=code).startswith(expected)


def test_a_warning_that_a_healthy_run_has_too_says_nothing():
    warning = "{} - WARNING: cannot reach the list of prices (pid {})\n"
    usual = warning.format("12:00:01", 31245)
    chatty = ProgramEnd(output=ANSWER, errors=usual, code=0, seconds=1.0)
    again = warning.format("12:00:09", 31877)
    ended = ProgramEnd(output=HALF, errors=again, code=0, seconds=1.0)
    seen = Seen(case=catalogue()["cut"], ended=ended, asked=(), healthy=chatty)
    assert judge(seen).grade == "fail"
    told = ProgramEnd(output=HALF, errors=again + "HTTP 503", code=0, seconds=1.0)
    seen = Seen(case=catalogue()["cut"], ended=told, asked=(), healthy=chatty)
    assert judge(seen).grade == "safe"


@pytest.mark.parametrize(
    ("case", "times", "expected"),
    [
        ("retry_after", [0, 2.1], "pass"),
        ("retry_after", [0, 1.2], "partial: asked again after 1.2 s"),
        ("retry_after", [0, 0.5, 1.0], "fail: sent 3 requests within 1.5 s"),
        ("retry_after", [0], "partial: did not ask the same backend again"),
        ("overloaded", range(6), "pass"),
        ("overloaded", range(7), "fail: sent 7 requests where 6 are enough"),
        ("bad_key", [0], "pass"),
        ("bad_key", [0, 1], "fail: sent 2 requests where 1 are enough"),
        ("busy", [0, 1, 2, 3], "pass"),
        ("busy", [0, 0.5, 1, 1.5, 2], "fail: sent 5 requests within 3 s"),
        ("storm", [0, 1, 2, 3], "pass"),
        ("storm", [0, 1, 1.2, 3], "partial: asked again after 0.2 s"),
    ],
)
def test_when_and_how_often_the_primary_was_asked_decides(case: str, times: Any, expected: str):
    assert grade(case, ANSWER, *map(asked, times)).startswith(expected)


def test_what_another_backend_got_is_nobodys_burden():
    others = [asked(at, primary=False) for at in range(9)]
    assert grade("overloaded", ANSWER, asked(0), *others) == "pass"


def test_who_does_not_ask_the_primary_has_not_met_the_fault():
    expected = "partial: did not ask the backend that misbehaves"
    assert grade("overloaded", ANSWER, asked(0, status=200, primary=False)).startswith(expected)


def test_a_filter_is_best_reported():
    assert grade("filtered", "", asked(0), code=1) == "pass"
    assert grade("filtered", ANSWER, asked(0)).startswith("partial: routed around a filter")


def test_seconds_count_beyond_those_of_a_healthy_run():
    assert grade("slow", ANSWER, asked(0), seconds=16.0) == "pass"
    assert grade("slow", ANSWER, asked(0), seconds=16.5).startswith("partial: took 16 s longer")


def test_what_was_answered_in_full_is_not_to_be_asked_again():
    twice = [asked(0, status=200), asked(1, status=200)]
    expected = "partial: paid twice for the same request, answered in full before"
    assert grade("empty_once", ANSWER, *twice) == expected
    other = [asked(0, status=200), asked(1, status=200, temperature=0)]
    assert grade("empty_once", ANSWER, *other) == "pass"


def test_a_cut_tool_call_is_not_to_be_answered():
    result = {"role": "tool", "tool_call_id": CALL_ID, "content": "done"}
    expected = "partial: answered a tool call that was cut"
    assert grade("cut_call", ANSWER, asked(0, messages=[result])) == expected
    echoed = {"role": "assistant", "tool_calls": [{"id": CALL_ID}]}
    assert grade("cut_call", ANSWER, asked(0, messages=[echoed])) == "pass"


def test_a_beginning_has_four_words_and_is_the_longest():
    assert begun("A call that") == ""
    assert begun("He said: a call that fails well") == ""
    assert begun(f"> {HALF}") == HALF.rpartition(" ")[0] or begun(f"> {HALF}") == HALF
    assert begun(ANSWER.replace(" ", "\n")) == ANSWER


def test_the_rest_of_an_answer_goes_on_where_it_was_cut():
    assert HALF + rest_of(HALF) == ANSWER
    assert rest_of(ANSWER) == ANSWER
    assert rest_of("A call") == ANSWER
    assert rest_of("") == ANSWER


def test_tokens_are_billed_for_what_came():
    assert asked(0).tokens == 0
    assert asked(0, status=200).tokens > len(ANSWER) // 4
