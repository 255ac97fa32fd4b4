"""A backend that calls every reply whole: one that fills its cap and ends amid a sentence is
continued once.
"""

from typing import Any

import attrs
import pytest

import rungwise
from rungwise import Policy
from rungwise.core import Call, Failure, PlainLink, Reply, Request, Send
from rungwise.fsm.replies.text.contents import ends_within_sentence

ASKED = {"role": "user", "content": "Where do herons nest?"}
FIRST = "Herons nest in the reeds of the northern la"
WHOLE = f"{FIRST}ke, and in dead trees."


@attrs.frozen(repr=False)
class Hiding(PlainLink):
    hides_cuts: bool = True


def at_cap(text: str, output: int = 100, **more: Any) -> Reply:
    usage = rungwise.Usage(
        10, output, **{name: more.pop(name) for name in ("estimated",) if name in more}
    )
    return Reply(text, **{"stop_reason": "stop", "usage": usage, **more})


def played(
    *replies: Reply | Failure,
    link: Any = None,
    cap: int | None = 100,
    policy: Any = None,
    **options: Any,
) -> tuple[list[Send], rungwise.Result]:
    """Play a call and return what was sent, and its end; its journal replays to the same."""
    call = Call(
        Request([ASKED], max_tokens=cap, **options), policy, [link or Hiding()], contents=True
    )
    script = list(replies)
    sends = []
    send = call.begin(0.0)
    while send is not None:
        sends.append(send)
        send = call.receive(script.pop(0), 0.1)
    assert not script
    written = call.result.journal.to_json()
    again = rungwise.replay(rungwise.Journal.from_json(written))
    assert again.journal.to_json() == written
    assert (again.outcome, again.text) == (call.result.outcome, call.result.text)
    return sends, call.result


def is_asked_once(*replies: Any, **options: Any) -> bool:
    sends, result = played(*replies, **options)
    assert (result.outcome, result.text) == ("done", replies[0].text)
    return len(sends) == 1


@pytest.mark.parametrize("prefills", [True, False])
def test_the_rest_is_asked_for(prefills: bool) -> None:
    sends, result = played(
        at_cap(FIRST), at_cap(WHOLE[len(FIRST) :], 7), link=Hiding(prefills=prefills)
    )
    assert (result.outcome, result.text) == ("done", WHOLE)
    assert [send.max_tokens for send in sends] == [100, 200]
    assert [step.event for step in result.journal.steps] == [
        "sent",
        "truncated",
        "sent",
        "answered",
    ]
    said = [message.role for message in sends[1].messages[1:]]
    assert said == (["assistant"] if prefills else ["assistant", "user"])
    assert sends[1].prefill is prefills


@pytest.mark.parametrize("prefills", [True, False])
@pytest.mark.parametrize(
    "nothing", [{}, {"text": " \n"}, {"reasoning": "It is complete."}, {"text": FIRST}]
)
def test_if_nothing_is_added_the_text_was_whole(nothing: Any, prefills: bool) -> None:
    sends, result = played(
        at_cap(FIRST), Reply(stop_reason="stop", **nothing), link=Hiding(prefills=prefills)
    )
    assert len(sends) == 2
    assert (result.outcome, result.text.rstrip(), result.final_text.rstrip()) == (
        "done",
        FIRST,
        FIRST,
    )
    assert result.cause is None


def test_it_happens_once_a_call() -> None:
    sends, result = played(at_cap(FIRST), at_cap("ke, in the tall dead trees of its isl", 200))
    assert (len(sends), result.outcome) == (2, "done")
    assert result.text == f"{FIRST}ke, in the tall dead trees of its isl"


def test_a_continuation_that_breaks_off_is_cut_as_ever() -> None:
    broken = Reply("ke, in tall", interrupted=True)
    _, result = played(at_cap(FIRST), broken, *[Reply(stop_reason="stop")] * 4)
    assert (result.outcome, result.text) == ("partial", f"{FIRST}ke, in tall")


def test_text_of_a_stream_that_broke_off_comes_first() -> None:
    sends, result = played(
        Reply(FIRST, interrupted=True), at_cap("ke, in the tall dead tre", 200), at_cap("es.", 3)
    )
    assert (len(sends), result.outcome, result.text) == (
        3,
        "done",
        f"{FIRST}ke, in the tall dead trees.",
    )


def test_without_the_flag_nothing_changes() -> None:
    assert is_asked_once(at_cap(FIRST), link=PlainLink())
    assert is_asked_once(at_cap(FIRST), link=Hiding(hides_cuts=False))


@pytest.mark.parametrize(
    "reply",
    [
        at_cap(WHOLE),
        at_cap(FIRST, 99),
        at_cap(FIRST, estimated=True),
        at_cap("Here it is:\n```\nnest()\n```"),
        at_cap("| a | b |\n|---|---|\n| 1 | 2 |\n"),
        at_cap("42"),
    ],
    ids=["whole", "below the cap", "estimated", "code", "a table", "too little"],
)
def test_what_does_not_look_cut_is_whole(reply: Reply) -> None:
    assert is_asked_once(reply)


def test_without_a_cap_nothing_was_cut_by_one() -> None:
    assert is_asked_once(at_cap(FIRST), cap=None)


def test_a_handful_of_tokens_is_what_was_asked_for() -> None:
    assert is_asked_once(at_cap(FIRST, 5), cap=5, policy=Policy(handful=5))


def test_json_is_never_continued() -> None:
    assert is_asked_once(at_cap("1234567"), link=Hiding(expects_json=True))


def test_where_no_continuation_is_allowed_the_text_is_partial() -> None:
    sends, result = played(at_cap(FIRST), policy=Policy(limits=rungwise.Limits(continuations=0)))
    assert (len(sends), result.outcome, result.text) == (1, "partial", FIRST)


@pytest.mark.parametrize(
    "text", ["the nor", "the north ", "the north,", "Orte:", "湖の北", "नदी के"]
)
def test_a_text_ends_within_a_sentence(text: str) -> None:
    assert ends_within_sentence(text)


@pytest.mark.parametrize(
    "text",
    ["It is.", "Is it?\n", '"So."', "(so)", "湖の北。", "`x`", "**so**", "| a |", "```\n", ""],
)
def test_a_text_ends_behind_one(text: str) -> None:
    assert not ends_within_sentence(text)
