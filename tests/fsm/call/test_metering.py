"""How many tokens a text surely holds: never more than words and bytes prove, and the same for
every chunking.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Budget, Hints, Policy, Prices, ToolCall, Usage
from rungwise.core import Call, PlainLink, Reply, Request, Send
from rungwise.fsm.call.budget.metering import (
    AT_ONCE,
    BYTES_A_TOKEN,
    COUNTED_BESIDE,
    PIECE,
    Meter,
    is_beyond,
    least_tokens,
    measured,
    most_counted,
    reserve_of,
)
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.engine.journal.record import Evidence
from support.drawn import chunkings

TEXTS = st.text(st.sampled_from("ab é\n\t漢🪜"), max_size=120)


@given(st.data(), TEXTS)
def test_a_meter_counts_the_same_for_every_chunking(data: st.DataObject, text: str) -> None:
    meter = Meter()
    for piece in data.draw(chunkings(text)):
        meter.feed(piece)
    assert meter.least == least_tokens(text)


@given(TEXTS)
def test_the_count_is_that_of_words_and_of_the_bytes_of_long_ones(text: str) -> None:
    expected = sum(-(-len(word.encode()) // BYTES_A_TOKEN) for word in text.split())
    assert least_tokens(text) == expected
    assert len(text.split()) <= expected <= max(1, len(text.encode()))


@given(TEXTS, st.integers(0, 40))
def test_a_text_of_any_length_is_counted_in_slices(text: str, size: int) -> None:
    long = "a" * (AT_ONCE - size) + text
    assert least_tokens(long) == sum(
        -(-len(word.encode()) // BYTES_A_TOKEN) for word in long.split()
    )


def test_what_was_reported_stands() -> None:
    reply = Reply("word " * 500, usage=Usage(1, 20))
    assert measured(reply.usage, reply, 20) == (Usage(1, 20), False)
    assert measured(reply.usage, reply, 18) == (Usage(1, 20), False)
    assert measured(reply.usage, reply, 17) == (Usage(1, 20), True)


def test_a_small_cap_leaves_little_to_count_beside() -> None:
    for cap, beside in (
        (1, 0),
        (7, 0),
        (8, 1),
        (63, 7),
        (64, COUNTED_BESIDE),
        (900, COUNTED_BESIDE),
    ):
        assert not is_beyond(cap + beside, cap)
        assert is_beyond(cap + beside + 1, cap)
    assert not is_beyond(10**9, None)


@given(st.integers(1, 200), st.data())
def test_the_reserve_is_as_much_as_can_be_counted_beside_the_caps_of_a_budget(
    whole: int, data: st.DataObject
) -> None:
    left = whole - reserve_of(whole)
    assert left >= 1
    assert most_counted(left) <= whole < most_counted(left + 1)
    used = data.draw(st.integers(0, left - 1))
    assert used + most_counted(left - used) <= whole


def test_words_that_pass_the_cap_by_little_are_counted_as_what_they_are() -> None:
    text = " ".join(["sixteen--letters"] * 105)
    assert least_tokens(text) == 105
    assert measured(Usage(), Reply(text), 100) == (Usage(output_tokens=105, estimated=True), False)
    transcript = Transcript((), Hints())
    transcript.gather(
        Observation(
            evidence=Evidence("truncated", Usage(9, 105)),
            part=text,
            new=text,
            cap=100,
        )
    )
    assert transcript.answer.tokens.of_text() == 105


@pytest.mark.parametrize("budget", [Budget(output_tokens=300), Budget(money=0.3)])
def test_what_is_counted_beside_a_cap_is_within_the_budget(budget: Budget) -> None:
    """Some servers count the end of each turn, and the last attempt leaves room for that."""
    link = PlainLink(prices=Prices(0, 1000))
    sent = []

    def beside(send: Send) -> Reply:
        sent.append(send.max_tokens)
        return Reply(
            "Some text that was cut.",
            stop_reason="length",
            usage=Usage(1, most_counted(send.max_tokens)),
        )

    call = Call(Request("hi", max_tokens=100), Policy(budget=budget), [link])
    send = call.begin()
    while send is not None:
        send = call.receive(beside(send))
    assert sent == [100, 184]
    assert call.result.usage.output_tokens == 300
    assert call.result.cost == pytest.approx(0.3)
    assert not call.result.overran


def test_what_nobody_reported_is_no_more_than_the_cap_until_the_words_prove_it() -> None:
    prose = "An uncommonly long-winded proposition. " * 10
    reply = Reply(prose, usage=Usage(output_tokens=98, estimated=True))
    assert least_tokens(prose) < 60
    assert measured(reply.usage, reply, 60) == (Usage(output_tokens=60, estimated=True), False)
    assert measured(reply.usage, reply, None) == (reply.usage, False)
    usage, overran = measured(Usage(), Reply("word " * 500), 100)
    assert (usage.output_tokens, usage.estimated, overran) == (625, True, True)


def test_reasoning_and_tool_arguments_count_as_well() -> None:
    reply = Reply(
        "one two", reasoning="three", tool_calls=(ToolCall("1", "look", '{"a": "four"}'),)
    )
    assert least_tokens(reply.text, reply.reasoning, reply.tool_calls[0].arguments) == 5
    assert measured(Usage(), reply, None)[0].output_tokens >= 5


def test_a_reserve_is_the_least_that_what_is_counted_beside_a_cap_needs() -> None:
    for whole in range(1, 200):
        reserve = reserve_of(whole)
        assert most_counted(whole - reserve) <= whole
        assert reserve == 0 or most_counted(whole - reserve + 1) > whole


@pytest.mark.parametrize("stop_reason", ["length", None])
def test_an_empty_reply_without_a_cap_is_guessed_to_be_empty(stop_reason: str | None) -> None:
    usage, is_longer = measured(Usage(), Reply(stop_reason=stop_reason), None)  # type: ignore[arg-type]
    assert (usage.output_tokens, is_longer) == (0, False)


def test_silence_counts_unless_a_reply_has_ended_well() -> None:
    for reply, tokens in (
        (Reply(interrupted=True), 50),
        (Reply(stop_reason="stop", interrupted=True), 50),
        (Reply(), 50),
        (Reply(stop_reason="stop"), 0),
        (Reply("heron", interrupted=True), 2),
    ):
        assert measured(Usage(), reply, 50, 50)[0].output_tokens == tokens


def test_a_stream_that_was_stopped_at_its_cap_may_be_longer_by_a_piece() -> None:
    for words, tokens in ((8 + PIECE, 8), (9 + PIECE, 9 + PIECE)):
        reply = Reply("a " * words, halted=True)
        usage, is_longer = measured(Usage(), reply, 8)
        assert (usage.output_tokens, is_longer) == (tokens, True)
    reply = Reply("a " * 200, halted=True)
    assert measured(Usage(), reply, None)[0].output_tokens == 200
