"""Text that comes in parts: what the server repeats is dropped, and what the answer repeats is
kept.
"""

from collections.abc import Callable
from typing import Any

import pytest

from rungwise import Budget, Policy
from rungwise.testing import ReceivedRequest, ScriptedReply

NATIVE = [{"prefill": "trailing"}]
ROWS = "| herons | 4 |\n" * 8
TABLE = f"The nests:\n\n| bird | nests |\n|---|---|\n{ROWS}"
STORY = "Where do they nest?\n\nIn the reeds of the northern lake, mostly.\n\nSome nest in trees."
CODE = (
    'Put it so:\n\n```xml\n<think>\nwhy\n</think>\n```\n\n{"tag": "<think>", "n": 1}, or '
    "`</think>`."
)


def part(text: str, chunk_size: int = 5, **more: Any) -> ScriptedReply:
    return ScriptedReply(
        text,
        **{
            "finish": "length",
            "chunk_size": chunk_size,
            **more,
        },
    )


def last(text: str, chunk_size: int = 5) -> ScriptedReply:
    return part(text, chunk_size, finish="stop")


def echo(whole: str, chunk_size: int = 5) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Answer as llama.cpp's server does: repeat what was sent of the text, and go on from there."""

    def answer(request: ReceivedRequest) -> ScriptedReply:
        sent = request.body["messages"][-1]["content"]
        assert whole.startswith(sent)
        assert sent == sent.rstrip()
        return last(whole, chunk_size)

    return answer


both_ways = pytest.mark.parametrize("backends", [NATIVE, []], ids=["native", "user turn"])


@both_ways
@pytest.mark.parametrize(
    ("whole", "place"), [(ROWS, 60), (ROWS, 67), (ROWS, 104), (TABLE, 95), (TABLE, 101)]
)
def test_equal_rows_that_go_on_are_kept(
    run: Any,
    whole: str,
    place: int,
    backends: Any,
) -> None:
    run([part(whole[:place]), last(whole[place:])], backends=backends).was("done", whole)


@pytest.mark.parametrize("backends", [NATIVE, [*NATIVE, {}]], ids=["native", "fallback"])
@pytest.mark.parametrize("place", [7, 19, 21, 40, 66])
def test_an_exact_continuation_is_the_whole_text(run: Any, place: int, backends: Any) -> None:
    scripts = [[part(STORY[:place]), last(STORY[place:])]]
    if len(backends) > 1:
        scripts = [[part(STORY[:place]), ScriptedReply(status=401)], [last(STORY[place:])]]
    run(*scripts, backends=backends).was("done", STORY)


declared_or_not = pytest.mark.parametrize("declared", [None, True])


@declared_or_not
@pytest.mark.parametrize("place", [7, 8, 19, 20, 21, 40, 66])
@pytest.mark.parametrize("chunk_size", [1, 50])
def test_an_echo_of_what_was_sent_is_no_text(
    run: Any,
    place: int,
    declared: bool | None,
    chunk_size: int,
) -> None:
    backends = [{"prefill": "trailing", "echoes": declared}]
    ended = run([part(STORY[:place]), echo(STORY, chunk_size)], backends=backends)
    # Whitespace that was kept off the wire stands already, and comes again as the model likes.
    ended.was("done", counts=[2])
    assert ended.text.split() == STORY.split()


@declared_or_not
def test_an_echo_and_nothing_more_is_the_whole_answer(run: Any, declared: bool | None) -> None:
    first = "They nest in the reeds.\n\n"
    run(
        [part(first), last(first.rstrip())], backends=[{"prefill": "trailing", "echoes": declared}]
    ).was("done", first)


@both_ways
@pytest.mark.parametrize("little", ["T", "The", "The s", " The\n", "Where "])
def test_so_little_cut_text_is_asked_for_again(run: Any, little: str, backends: Any) -> None:
    run([part(little), last("The sky is blue.")], backends=backends).was(
        "done", "The sky is blue.", path="continuation done", added=[[], []], caps=[None, 8192]
    )


@pytest.mark.parametrize("little", ["The", "The s"])
def test_so_little_text_of_a_broken_stream_is_asked_for_again(
    run: Any, little: str, cut: Any
) -> None:
    reply = ScriptedReply(f"{little}ky is blue.", chunk_size=len(little))
    ended = run([cut(reply, little), last("The sky is blue.")])
    ended.was("done", "The sky is blue.", added=[[], []])
    assert ended.path.startswith("retry ")


@pytest.mark.parametrize(
    "others", [ScriptedReply(), ScriptedReply(status=401), part("Th"), part("")]
)
def test_so_little_text_is_kept_for_want_of_anything_else(run: Any, others: ScriptedReply) -> None:
    run([part("The"), others]).was("partial", "The", parts=("The",))


def test_so_little_text_is_in_the_error_of_a_spent_budget(run: Any) -> None:
    run([part("The"), part("Th")], policy=Policy(budget=Budget(attempts=2))).was(
        "over_budget", "The"
    )


def test_six_letters_are_kept(run: Any) -> None:
    run([part("The sk"), last("y is blue.")]).was(
        "done", "The sky is blue.", path="continuation done"
    )


@both_ways
@pytest.mark.parametrize("tag", ["<think>", "</think>"])
def test_code_and_quotes_may_be_cut_anywhere(run: Any, tag: str, backends: Any) -> None:
    places = {CODE.find(tag) + shift for shift in (-1, 0, 3, len(tag))} | {
        CODE.rfind(tag),
        CODE.rfind(tag) + 3,
    }
    for place in places:
        run([part(CODE[:place]), last(CODE[place:])], backends=backends).was("done", CODE)


def test_a_model_that_reasons_inline_may_do_so_within_code(run: Any) -> None:
    run([part("<think>so</think>```\na = 1\n"), last("<think>on</think>b = 2\n```")]).was(
        "done", "```\na = 1\nb = 2\n```"
    )
