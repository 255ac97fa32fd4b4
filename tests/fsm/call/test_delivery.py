from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise.core import Call, Reply, Request
from rungwise.fsm.call.conversation.reading import Reading, ReplyFilter
from rungwise.fsm.call.run.delivery import correction
from rungwise.fsm.replies.reply import Discard, Reasoning, Text
from rungwise.fsm.replies.text.stitching import LONGEST_SOUGHT, SeedFilter, stitch, without_seed
from rungwise.fsm.replies.text.thinking import split_thinking
from support.texts import cut

TEXTS = st.lists(st.sampled_from(["a", "b", "ab ", " ", "\n", "step one", "two"]), max_size=9).map(
    "".join
)
TAGGED = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "</think>",
            "\n",
            "a thought",
            "an answer that is long. ",
            "`",
            '"',
            "\n\n",
        ]
    ),
    max_size=9,
).map("".join)


@pytest.mark.parametrize(
    ("visible", "seed", "rest"),
    [
        ("step one. So", "step one.", " So"),
        ("\n\nstep one.\n\nSo", "step one.", "\n\nSo"),
        ("step one.", "step one.\n", ""),
        ("step", "step one.", "step"),
        (" step two", "step one.", " step two"),
        ("a", "", "a"),
        (" ", "step", " "),
    ],
)
def test_drops_a_seed_with_the_whitespace_before_it(visible: str, seed: str, rest: str) -> None:
    assert without_seed(visible, seed) == rest


@given(TEXTS, TEXTS, st.sampled_from(["", " ", "\n\n"]), st.lists(st.integers(0, 99)))
@example("ab", "c", " ", [])
def test_a_seed_in_chunks_is_dropped_as_in_one(
    seed: str,
    rest: str,
    before: str,
    places: list[int],
) -> None:
    for visible in (f"{before}{seed}{rest}", f"{before}{seed[:-1]}", rest):
        seeds = SeedFilter(seed)
        out = "".join([*map(seeds.feed, cut(visible, places)), seeds.close()])
        assert out == without_seed(visible, seed)


@given(st.text("ab", max_size=20), st.text("ab", max_size=20))
def test_a_correction_takes_back_no_more_than_it_must(shown: str, target: str) -> None:
    events = correction(shown, target)
    taken = "".join(event.text for event in events if isinstance(event, Discard))
    added = "".join(event.text for event in events if isinstance(event, Text))
    assert shown.endswith(taken)
    assert shown.removesuffix(taken) + added == target
    assert all(event.text for event in events)
    assert not (taken and added) or taken[0] != added[0]


@given(TAGGED, TAGGED, TEXTS, st.booleans(), st.lists(st.integers(0, 99)))
def test_what_is_handed_out_is_what_the_whole_reply_holds(
    text: str,
    gathered: str,
    seed: str,
    after_block: bool,
    places: list[int],
) -> None:
    reading = Reading(seed=seed, before=gathered, after_block=after_block)
    delivery = ReplyFilter(reading, gathered)
    shown = ""
    thought = ""
    for events in (*(delivery.feed(Text(chunk)) for chunk in cut(text, places)), delivery.close()):
        for event in events:
            assert event.text
            if isinstance(event, Discard):
                assert event.text == shown
                shown = ""
            elif isinstance(event, Reasoning):
                thought += event.text
            else:
                shown += event.text
    visible, reasoning = split_thinking(text, gathered, after_block=after_block)
    visible = without_seed(visible, seed) if seed else visible
    assert shown == delivery.delivered == (stitch(gathered, visible) if gathered else visible)
    assert thought == reasoning


def test_a_very_long_repeat_that_was_shown_is_taken_back_at_the_end_of_its_part() -> None:
    letters = "".join(Random(5).choices("abcdefgh ", k=LONGEST_SOUGHT + 5_000)) + "."
    again = letters[-LONGEST_SOUGHT - 1_000 :] + " And so it ended."
    call = Call(Request("Where?"), is_streaming=True)
    shown = ""
    call.begin()
    for reply in (Reply(letters, stop_reason="length"), Reply(again, stop_reason="stop")):
        chunks = [Text(reply.text[at : at + 1_000]) for at in range(0, len(reply.text), 1_000)]
        events = [event for chunk in chunks for event in call.hear(chunk)]
        call.receive(reply)
        for event in (*events, *call.drain()):
            if isinstance(event, Discard):
                assert shown.endswith(event.text)
                shown = shown.removesuffix(event.text)
            elif isinstance(event, Text):
                shown += event.text
    assert shown == call.result.text == letters + " And so it ended."
