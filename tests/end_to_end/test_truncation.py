"""The provider stops at its output cap in the middle of the text."""

from typing import Any

import pytest

import rungwise
from rungwise.testing import ScriptedReply
from support.plain import assistant, user

NATIVE = [{"prefill": "trailing"}]
HINTS = rungwise.Policy(hints=rungwise.Hints(continuation="Go on."))


def part(text: str, output: int = 7, **more: Any) -> ScriptedReply:
    usage = {"prompt_tokens": 10, "completion_tokens": output}
    return ScriptedReply(
        text,
        **{
            "finish": "length",
            "usage": usage,
            **more,
        },
    )


def last(text: str, output: int = 5, **more: Any) -> ScriptedReply:
    return part(text, output, finish="stop", **more)


FOUR = [part("Part one, "), part("part two, "), part("part three, "), part("part four, ")]


def test_two_parts_become_one_text_and_their_usage_is_summed(run: Any) -> None:
    ended = run([part("Part one "), last("part two")], policy=HINTS)
    ended.was(
        "done",
        "Part one part two",
        path="continuation done",
        added=[
            [],
            [assistant("Part one "), user("Go on.")],
        ],
        waits=[],
        parts=("Part one ", "part two"),
    )
    assert (ended.result.usage.input_tokens, ended.result.usage.output_tokens) == (20, 12)


def test_without_a_cap_of_the_callers_the_continuations_carry_larger_and_larger_caps(
    run: Any,
) -> None:
    ended = run([part("Part one, "), part("part two, "), part("part three, "), last("part four.")])
    ended.was(
        "done", "Part one, part two, part three, part four.", caps=[None, 8192, 12_288, 16_384]
    )
    said = ["Part one, ", "Part one, part two, ", "Part one, part two, part three, "]
    assert [added[0]["content"] for added in ended.added[1:]] == said
    assert all(added[-1]["role"] == "user" for added in ended.added[1:])


def test_length_for_ever_is_partial_after_four_requests(run: Any) -> None:
    ended = run(FOUR)
    ended.was(
        "partial",
        "Part one, part two, part three, part four, ",
        counts=[4],
        caps=[None, 8192, 12_288, 16_384],
    )
    assert ended.result.usage.output_tokens == 28
    assert ended.result.cause == "the reply was cut at the output cap, and no continuation is left"


@pytest.mark.parametrize(
    ("cap", "sent"),
    [
        (50_000, [50_000] * 4),
        (1000, [1000, 2000, 3000, 4000]),
        (20_000, [20_000, 32_768, 32_768, 32_768]),
    ],
)
def test_a_cap_of_the_callers_is_raised_and_never_lowered(run: Any, cap: int, sent: Any) -> None:
    ended = run(
        FOUR,
        max_tokens=cap,
    )
    assert ended.caps == sent


@pytest.mark.parametrize("where", ["call", "backend"])
@pytest.mark.parametrize("cap", [50_000, 9000])
def test_a_cap_among_the_parameters_is_the_callers_as_well(run: Any, where: str, cap: int) -> None:
    given = {"parameters": {"max_tokens": cap}}
    options = given if where == "call" else {"backends": [given]}
    ended = run([part("Part one, "), last("part two.")], **options)
    assert ended.caps[0] == cap
    assert ended.caps[1] == max(cap, min(2 * cap, 32_768))


def test_the_cap_goes_into_the_field_that_the_backend_takes(run: Any) -> None:
    ended = run(
        [part("Part one, "), last("part two.")],
        backends=[{"cap_field": "max_completion_tokens"}],
        max_tokens=1000,
    )
    assert [body.get("max_completion_tokens") for body in ended.bodies] == [1000, 2000]
    assert not any("max_tokens" in body for body in ended.bodies)


def test_a_backend_that_prefills_is_sent_the_text_so_far_and_nothing_behind_it(run: Any) -> None:
    run([part("Part one, "), part("part two, "), last("part three.")], backends=NATIVE).was(
        "done",
        "Part one, part two, part three.",
        added=[
            [],
            [assistant("Part one,")],
            [assistant("Part one, part two,")],
        ],
    )
    # Trailing blanks stay off the wire: servers reject them.


@pytest.mark.parametrize("chunk_size", [1, 12, 200])
@pytest.mark.parametrize(
    ("backends", "second"),
    [
        (NATIVE, " swims and it flies."),  # the blank that was kept off the wire comes again
        (NATIVE, "swims and it flies."),
        (NATIVE, "The heron wades and it swims and it flies."),  # an echo
        ([], "The heron wades and it swims and it flies."),  # a new turn from the beginning
        ([], "wades and it swims and it flies."),  # an overlap
        ([], "swims and it flies."),
    ],
    ids=["blank again", "clean", "echo", "restart", "overlap", "user turn"],
)
def test_nothing_is_said_twice_at_the_seam(
    run: Any,
    backends: Any,
    second: str,
    chunk_size: int,
) -> None:
    first = part("The heron wades and it ", chunk_size=chunk_size)
    run([first, last(second, chunk_size=chunk_size)], backends=backends).was(
        "done",
        "The heron wades and it swims and it flies.",
        parts=("The heron wades and it ", second),
        counts=[2],
    )


@pytest.mark.parametrize("chunk_size", [1, 200])
def test_a_match_in_the_middle_loses_nothing(run: Any, chunk_size: int) -> None:
    first = "In the north the heron wades. In the south it swims. "
    second = "the heron wades. Everywhere it flies."
    ended = run([part(first, chunk_size=chunk_size), last(second, chunk_size=chunk_size)])
    assert ended.text == first + second


def test_thinking_within_the_parts_is_no_text(run: Any) -> None:
    one = "<think>first</think>Part one, "
    two = "<think>then</think>part two."
    ended = run([part(one), last(two)])
    ended.was("done", "Part one, part two.")
    assert ended.added[1][0] == assistant("Part one, ")


def test_a_stop_without_a_word_of_finish_at_the_cap_is_a_cut(run: Any) -> None:
    run([part("Part one, ", 100, finish=""), last("part two.")], max_tokens=100).was(
        "done", "Part one, part two.", caps=[100, 200]
    )


# when a continuation goes wrong


def test_empty_continuations_end_in_the_text_so_far(run: Any) -> None:
    ended = run([part("Part one, "), ScriptedReply()])
    ended.was(
        "partial", "Part one, ", path="continuation reask reask reask partial", waits=[1, 2, 4]
    )
    assert ended.result.cause


def test_a_refused_continuation_is_refused_and_keeps_the_text_so_far(run: Any) -> None:
    run([part("Part one, "), ScriptedReply("no", finish="content_filter")]).was(
        "refused", "Part one, ", counts=[2]
    )


def test_a_continuation_that_repeats_everything_is_no_progress(run: Any) -> None:
    run([part("The heron wades and swims, ")]).was(
        "partial", "The heron wades and swims, ", counts=[4]
    )


def test_the_fallback_goes_on_from_the_text_so_far(run: Any) -> None:
    ended = run([part("Part one, "), ScriptedReply(status=401)], [last("part two.")], policy=HINTS)
    ended.was("done", "Part one, part two.", counts=[2, 1])
    assert ended.added[-1] == [
        assistant("Part one, "),
        user("Go on."),
    ]


def test_a_text_that_goes_in_circles_is_not_continued(run: Any) -> None:
    ended = run([part("The heron wades, and then it wades again.\n" * 12)])
    ended.was("partial", counts=[1])
    assert ended.result.cause == "the reply was cut at the output cap; the text ran in circles"


def test_new_text_refills_the_retries(run: Any) -> None:
    down = ScriptedReply(status=500)
    run([down, down, down, part("Part one, "), down, down, down, last("part two.")]).was(
        "done", "Part one, part two.", waits=[2, 4, 8, 2, 4, 8], counts=[8]
    )


def test_the_usage_of_discarded_attempts_counts(run: Any) -> None:
    ended = run(
        [
            last("", 3),
            part("Part one, ", 4),
            part("ignored", 5, finish="banana"),
            last("part two.", 6),
        ]
    )
    ended.was("done", "Part one, part two.")
    assert (ended.result.usage.input_tokens, ended.result.usage.output_tokens) == (40, 18)


@pytest.mark.parametrize("backends", [NATIVE, []], ids=["native", "user turn"])
def test_a_paused_turn_is_sent_back_as_it_is(run: Any, backends: Any) -> None:
    ended = run([part("Part one, ", finish="pause_turn"), last("part two.")], backends=backends)
    ended.was("done", "Part one, part two.", counts=[2])
    assert [message["role"] for message in ended.added[1]] == ["assistant"]


def test_a_turn_that_is_paused_for_ever_says_that_no_continuation_is_left(run: Any) -> None:
    ended = run(
        [
            part(f"Part {number}, ", finish="pause_turn")
            for number in ("one", "two", "three", "four")
        ]
    )
    ended.was("partial", counts=[4])
    assert ended.result.cause == "the provider paused the turn, and no continuation is left"


@pytest.mark.parametrize("text", ["", "\n", "<think>Trees?</think>"])
def test_a_turn_that_is_paused_for_ever_without_a_word_is_no_success(run: Any, text: str) -> None:
    ended = run([part(text, finish="pause_turn")])
    assert ended.error is not None
    assert ended.text.strip() == ""
    assert len(ended.requests) <= 4
