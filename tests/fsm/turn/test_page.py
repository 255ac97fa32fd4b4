"""The page of a recorded turn: its path, its timeline, its steps, and the pages of its calls
within.
"""

import re
from functools import cache
from typing import Any

import orjson
import pytest

from rungwise.fsm.diagram.page.run_page import bars_of
from rungwise.fsm.turn.explained import explain_call, explain_turn, read_turn
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.turn.turn_digest import TurnPath, digest_of_turn
from support.elements import Elements
from support.turns import BUSY, OVERFLOW, calling, played, said

pytestmark = pytest.mark.sampled(4)

NASTY = "</script><script>alert('x')</script><img src=x onerror=alert(1)>&\"'"
END = said("By the lake.")


@cache
def found() -> TurnPath:
    replies = calling("look", "gone", text="Let me see."), OVERFLOW, calling("look"), BUSY, END
    turn = played(*replies, has_compactor=True, contents=True, seed=7)
    assert turn.result.outcome == "finished"
    return read_turn(turn.journal.to_json())


def pages_within(data: Any) -> list[str]:
    """Write the pages within, as the script of the page does."""
    frames = data["frames"]
    shell = frames["shell"]
    written = []
    for page in frames["pages"]:
        if page is None:
            continue
        inner = orjson.dumps(
            {"machine": frames["machines"][page["machine"]], **page["data"]}
        ).decode()
        inner = re.sub("[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", inner)
        body = "".join(frames["pool"][part] for part in page["parts"])
        written.append(shell[0] + page["title"] + shell[1] + body + shell[2] + inner + shell[3])
    return written


def test_the_pages_within_are_those_of_the_calls() -> None:
    within = pages_within(Elements(explain_turn(found())).data)
    assert within == [explain_call(call) for call in found().calls if call is not None]


def test_the_page_tells_every_step_and_what_was_used_up() -> None:
    page = Elements(explain_turn(found()))
    call = page.data["call"]
    assert [TURN.rows[row] for row in call["rows"]] == list(found().path.rows)
    assert call["inner"] == [found().call_of.get(step.number) for step in found().path.steps]
    calls = found().path.record.calls
    assert call["steps"][-1]["used"] == {
        "attempts": sum(each.last.attempts for each in calls),
        "seconds": found().path.steps[-1].at,
        "output_tokens": sum(step.usage.output_tokens for each in calls for step in each.steps),
        "money": pytest.approx(
            sum(
                s.usage.input_tokens * 1e-6 + s.usage.output_tokens * 2e-6
                for c in calls
                for s in c.steps
            )
        ),
    }
    assert page.data["machine"]["limits"] == dict(TurnPolicy().limits)
    assert page.data["budget"]["attempts"] == 100


def test_the_timeline_shows_calls_tools_and_compactions_as_what_they_are() -> None:
    lines = digest_of_turn(found()).lines
    assert [line.kind for line in lines] == [
        "attempt", "tools", "attempt", "compaction", "attempt", "tools", "attempt",
    ]  # fmt: skip
    assert [line.name for line in lines if line.name] == ["call 1", "call 2", "call 3", "call 4"]
    for line in lines:
        (bar,) = bars_of(line)
        assert (bar.start, bar.start + bar.seconds) == (
            line.attempt.sent.at,
            pytest.approx(line.attempt.back.at),
        )


def test_a_call_is_nested_in_the_line_that_made_it() -> None:
    text = explain_turn(found())
    assert re.findall(r"<summary>(\d attempts?)</summary>", text) == [
        "1 attempt",
        "1 attempt",
        "1 attempt",
        "2 attempts",
    ]
    assert re.findall(r'data-call="(\d)" data-attempt="(\d)"', text) == [
        ("1", "1"), ("2", "1"), ("3", "1"), ("4", "1"), ("4", "2"),
    ]  # fmt: skip


def test_what_a_stranger_wrote_is_only_ever_text_also_within() -> None:
    document = orjson.loads(found().path.record.to_json())
    for step in document["steps"]:
        step |= {
            "note": NASTY,
            "backend": NASTY,
            "facts": [NASTY],
            "content": {NASTY: NASTY},
        }
    for call in document["calls"]:
        call["chain"][0]["name"] = NASTY
        for step in call["steps"]:
            step |= {
                "note": NASTY,
                "code": NASTY,
                "backend": NASTY,
                "content": {NASTY: NASTY},
            }
    page = Elements(explain_turn(read_turn(orjson.dumps(document))))
    assert (len(page.of("script")), page.of("img")) == (2, [])
    assert (
        page.data["call"]["steps"][0]["note"]
        == page.data["frames"]["pages"][0]["data"]["call"]["steps"][0]["note"]
    )
    for text in pages_within(page.data):
        within = Elements(text)
        assert (len(within.of("script")), within.of("img")) == (2, [])
        assert within.data["call"]["steps"][0]["content"] == {NASTY: NASTY}


@pytest.mark.full
def test_the_page_of_many_calls_stays_small() -> None:
    turn = played(
        *[calling("look", "note")] * 26, END, policy=TurnPolicy(same_calls=1000), contents=True
    )
    assert len(turn.journal.calls) == 27
    assert len(explain_turn(read_turn(turn.journal.to_json()))) < 600_000


@pytest.mark.parametrize("kept", range(1, 7))
def test_a_turn_that_was_killed_has_a_page_too(kept: int) -> None:
    document = orjson.loads(found().path.record.to_json())
    document["steps"], document["outcome"] = document["steps"][:kept], None
    made = [
        step
        for step in document["steps"]
        if step["event"] == "sent" and step["source"] in ("ask", "go_on")
    ]
    document["calls"] = document["calls"][: len(made)]
    document["calls"][-1] |= {"steps": [], "outcome": None}
    page = Elements(explain_turn(read_turn(orjson.dumps(document))))
    assert page.data["frames"]["pages"][-1] is None
    assert page.data["call"]["outcome"] is None
