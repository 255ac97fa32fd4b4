"""Points in time, patterns, and labels."""

import json
import logging
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rungwise
from rungwise import Client, Journal, OpenAIChat
from rungwise.core import Call, Failure, Reply, Request
from rungwise.fsm.values.label import LONGEST, LONGEST_NOTE, label
from rungwise.fsm.values.moments import LAST, read_moment, read_rfc_3339, write_moment
from rungwise.fsm.values.patterns import Pattern
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

TEN = 1_795_168_800.0  # Fri, 20 Nov 2026 10:00:00 GMT


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-20T10:00:00Z", TEN),
        ("2026-11-20t10:00:00z", TEN),
        ("2026-11-20 10:00:00+00:00", TEN),
        ("2026-11-20T06:30:00.250-03:30", TEN + 0.25),
        ("2026-11-20T10:00:00.123456789Z", TEN + 0.123456),
        ("2026-11-20T10:00:00", None),
        ("2026-11-20", None),
        ("20261120T100000Z", None),
        ("2026-02-29T10:00:00Z", None),
        ("2026-11-20T25:00:00Z", None),
        ("2026-11-20T10:00:00+24:00", None),
        ("\uff12026-11-20T10:00:00Z", None),
        ("", None),
    ],
)
def test_a_time_is_read_with_its_offset_or_not_at_all(text: str, moment: float | None) -> None:
    assert read_rfc_3339(text) == moment
    assert read_moment(text) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1795168800", TEN),
        ("1795168800.25", TEN + 0.25),
        ("1795168800250", TEN + 0.25),
        ("0", 0.0),
        ("-1", None),
        ("1e9", None),
        ("inf", None),
        ("1_000", None),
        ("9" * 20, None),
        ("9" * 5000, None),
    ],
)
def test_a_number_counts_seconds_or_milliseconds(text: str, moment: float | None) -> None:
    assert read_moment(text) == moment
    assert read_rfc_3339(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (TEN, "2026-11-20T10:00:00.000Z"),
        (TEN + 0.9999, "2026-11-20T10:00:00.999Z"),
        (TEN + 0.001, "2026-11-20T10:00:00.001Z"),
        (TEN - 0.000002, "2026-11-20T10:00:00.000Z"),  # as little as two clocks may differ by
        (-5.0, "1970-01-01T00:00:00.000Z"),
        (1e18, "9999-12-31T23:59:59.000Z"),
        (float("inf"), "9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_moment_is_written_down_to_the_millisecond(seconds: float, text: str) -> None:
    assert write_moment(seconds) == text


@given(st.floats(min_value=0, max_value=LAST))
def test_a_written_moment_reads_back_and_is_no_later(seconds: float) -> None:
    again = read_moment(write_moment(seconds))
    assert again <= seconds + 0.00001 + 0.00005  # of years far off a float tells no more
    assert seconds - again < 0.0011


# patterns that are compiled when they are first looked for do what compiled ones do


def test_a_pattern_does_what_a_compiled_one_does() -> None:
    ours = Pattern(r"(a)(b?)", re.IGNORECASE)
    theirs = re.compile(r"(a)(b?)", re.IGNORECASE)
    for text in ("ab", "AB", "xab", "b", "abab", ""):
        for find in ("search", "match", "fullmatch"):
            assert repr(getattr(ours, find)(text)) == repr(getattr(theirs, find)(text))
        assert ours.findall(text) == theirs.findall(text)
        assert ours.sub("-", text) == theirs.sub("-", text)


def test_a_pattern_is_compiled_once_and_not_before_it_is_used() -> None:
    broken = Pattern("(")
    assert "compiled" not in vars(broken)
    pattern = Pattern("a")
    pattern.search("a")
    assert pattern.compiled is pattern.compiled


# what a provider calls things reaches journals, logs, errors and terminals as one short printable
# line


FORGED = (
    "stop\n2026-01-01 INFO rungwise all is well\r\x1b[31m\x1b]0;title\x07\u2028\u202e\x85\x9b2J"
    + "x" * 5000
)

anything = st.text(st.characters(codec=None), max_size=300) | st.lists(
    st.sampled_from(
        [
            "\n",
            "\x1b[31m",
            "\u2028",
            "\u202e",
            "\ud800",
            "\x00",
            "word",
            " ",
            "\x9b",
            "\x1b]0;t\x07",
            "y" * 90,
        ]
    )
).map("".join)


@given(anything)
def test_a_label_is_short_printable_and_stays_what_it_is(text: str) -> None:
    made = label(text)
    assert len(made) <= LONGEST
    assert made.isprintable()
    assert len(made.splitlines()) <= 1
    assert not any(unicodedata.category(character)[0] == "C" for character in made)
    assert label(made) == made


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=LONGEST))
def test_an_honest_word_is_kept_as_it_is(text: str) -> None:
    assert label(text) == text


@given(anything)
def test_wherever_it_enters_a_step_is_one_line(text: str) -> None:
    call = Call(Request("hi"), rungwise.Policy(limits=rungwise.Limits(retries=1)))
    call.begin()
    call.receive(
        Failure(
            "server_error",
            code=text,
            parameter=text,
            message=text,
        )
    )
    call.receive(Reply("", stop_reason="unknown", stop_raw=text, model=text))
    assert call.is_over
    for step in call.journal.steps:
        assert str(step).isprintable()
        assert len(str(step)) < 600
        for value in (step.stop_raw, step.code, step.reason):
            assert value is None or (value.isprintable() and len(value) <= LONGEST)
    again = Journal.from_json(call.journal.to_json())
    assert again.steps == call.journal.steps
    assert rungwise.replay(again).outcome == call.result.outcome


def test_leaves_what_is_no_text_unchanged() -> None:
    assert label(None) is None
    assert label(3) == 3
    assert label("\x1b[1mbold\x1b[0m move") == "bold move"


REPLIES: list[ScriptedReply] = [
    ScriptedReply(text="x", finish=FORGED),
    ScriptedReply(
        status=429,
        error={
            "message": FORGED,
            "type": FORGED,
            "code": FORGED,
            "param": FORGED,
        },
    ),
    ScriptedReply(
        status=400, error={"message": f"Unsupported parameter: '{FORGED}'", "param": FORGED}
    ),
    ScriptedReply(text="x", model=FORGED, error_event={"message": FORGED, "code": FORGED}),
    ScriptedReply(text="x", model=FORGED),
]


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("streams", [False, True])
def test_no_provider_forges_a_line(
    reply: ScriptedReply, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rungwise")
    seen: list[Any] = []
    with (
        EmbeddedProvider(Script([reply])) as provider,
        Client(
            OpenAIChat("m", base_url=provider.base_url),
            testing=rungwise.testing.Clocks(sleep=lambda _: None),
            observer=lambda s: seen.append(str(s)),
        ) as client,
    ):
        try:
            result: Any = list(client.stream("hi"))[-1] if streams else client.call("hi")
            error = ""
        except rungwise.CallError as raised:
            result = raised.result
            error = str(raised)
    told = [record.getMessage() for record in caplog.records]
    assert told
    for text in (
        *told,
        *seen,
        error,
        *(failure.code or "" for _, failure in result.failures),
        result.model or "",
    ):
        assert text.isprintable(), text
        assert len(text) < 1000
    for step in json.loads(result.journal.to_json())["steps"]:
        assert all(
            value.isprintable() and len(value) <= LONGEST_NOTE
            for value in step.values()
            if type(value) is str
        )


def test_a_journal_of_a_stranger_forges_none_either() -> None:
    call = Call(Request("hi"))
    call.begin()
    call.receive(Reply("Hello.", stop_reason="stop", stop_raw="stop"))
    document = json.loads(call.journal.to_json())
    for name in (
        "event",
        "source",
        "target",
        "backend",
        "stop_raw",
        "reason",
        "code",
        "note",
        "guard",
        "effect",
    ):
        document["steps"][-1][name] = FORGED
    for step in Journal.from_json(json.dumps(document)).steps:
        assert str(step).isprintable()
