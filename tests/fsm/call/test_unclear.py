"""A reply ends with a finish reason that nobody knows: its text is doubted, and not lost."""

from typing import Any

import attrs
import pytest

from rungwise import Limits, Policy, Result, Text, ToolCall, Usage, replay
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.replies.parts import OpaquePart, TextPart
from support.modes import follow

WORD = "eos_reached"
WHOLE = "Herons nest in the reeds of the northern lake."
LONGER = "Herons nest in the reeds of the northern lake, and some in its tall trees."
FIRST = "Bitterns boom at dusk. "
TOOL = ToolCall("1", "look_up", '{"bird": "heron"}')
TWO = [PlainLink("one"), PlainLink("two")]
NONE = Policy(limits=Limits(rechecks=0))


def unclear(text: str = WHOLE, **fields: Any) -> Reply:
    return Reply(text, stop_reason="unknown", stop_raw=WORD, **fields)


def done(text: str) -> Reply:
    return Reply(text, stop_reason="stop", stop_raw="stop")


def cut(text: str) -> Reply:
    return Reply(text, stop_reason="length", stop_raw="length")


def run(*replies: Reply | Failure, **options: Any) -> tuple[Call, list[Any]]:
    """Run a call over replies, the last one for ever; return it with everything it sent."""
    chain = options.pop("chain", [PlainLink()])
    policy = options.pop("policy", Policy())
    call = Call(Request("hi"), policy, chain, **options)
    sends = []
    left = list(replies)
    send = call.begin()
    while send is not None:
        sends.append(attrs.evolve(send))
        send = call.receive(left.pop(0) if len(left) > 1 else left[0])
    return call, sends


def path(result: Result) -> list[str]:
    return [step.target for step in result.journal.steps if step.target != "await"]


def test_the_same_request_goes_out_once_more_and_the_text_stands() -> None:
    call, (first, second) = run(unclear())
    assert (call.result.outcome, call.result.text) == ("partial", WHOLE)
    assert call.result.parts == (WHOLE,)
    assert path(call.result) == ["recheck", "partial"]
    assert (second.messages, second.max_tokens, second.prefill) == (
        first.messages,
        first.max_tokens,
        first.prefill,
    )
    assert call.result.cause is not None
    assert "unknown finish reason" in call.result.cause


@pytest.mark.parametrize("later", ["Reeds.", LONGER])
def test_a_clear_answer_takes_its_place(later: str) -> None:
    call, _ = run(unclear(), done(later))
    assert (call.result.outcome, call.result.text) == ("done", later)


def test_the_next_backend_answers_anew() -> None:
    call, sends = run(unclear(), unclear(), done("In trees."), chain=TWO)
    assert (call.result.outcome, call.result.text) == ("done", "In trees.")
    assert [send.backend for send in sends] == [0, 0, 1]
    assert sends[2].messages == sends[0].messages


@pytest.mark.parametrize(
    "later",
    [
        Failure("auth", status=401),
        Failure("server_error", status=500),
        Failure("malformed", status=200),
        Reply(stop_reason="stop"),
        Reply(reasoning="Hm.", stop_reason="stop"),
        Reply(stop_reason="unknown"),
        Reply("He", interrupted=True),
        Reply("Her", stop_reason="length"),
        Reply(tool_calls=(attrs.evolve(TOOL, arguments='{"bi'),), stop_reason="length"),
    ],
    ids=lambda each: getattr(each, "reason", None) or each.stop_reason or "interrupted",
)
@pytest.mark.parametrize("backends", [1, 2])
def test_nothing_that_comes_after_it_loses_the_text(later: Reply | Failure, backends: int) -> None:
    call, _ = run(unclear(), later, chain=TWO[:backends])
    assert (call.result.outcome, call.result.text) == ("partial", WHOLE)


def test_a_refusal_ends_the_call_with_the_text_in_its_result() -> None:
    call, _ = run(unclear(), Reply(refusal="No.", stop_reason="stop"))
    assert (call.result.outcome, call.result.text) == ("refused", WHOLE)


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ((WHOLE, LONGER), LONGER),
        ((LONGER, WHOLE), LONGER),
    ],
)
def test_the_longest_of_several_is_kept(texts: tuple[str, ...], kept: str) -> None:
    call, _ = run(*map(unclear, texts))
    assert call.result.text == kept


@pytest.mark.parametrize(
    ("part", "kept"), [("Herons nest in ", WHOLE), (f"{LONGER} And then", f"{LONGER} And then")]
)
def test_the_longer_of_it_and_of_text_that_was_cut_later_is_kept(part: str, kept: str) -> None:
    call, _ = run(unclear(), cut(part), Failure("auth", status=401))
    assert (call.result.outcome, call.result.text) == ("partial", kept)


def test_cut_text_that_came_later_is_continued_by_itself() -> None:
    call, sends = run(unclear(), cut(FIRST), done("They hide by day."))
    assert (call.result.outcome, call.result.text) == ("done", f"{FIRST}They hide by day.")
    assert [message.text for message in sends[2].messages[1:2]] == [FIRST]


def test_a_continuation_with_an_unclear_end_is_asked_for_again_as_it_was() -> None:
    call, sends = run(cut(FIRST), unclear("They hide by day."))
    assert sends[2].messages == sends[1].messages
    assert path(call.result) == ["continuation", "recheck", "partial"]
    assert call.result.text == f"{FIRST}They hide by day."


def test_a_clear_continuation_takes_the_place_of_an_unclear_one() -> None:
    call, _ = run(cut(FIRST), unclear("They hide by day."), done("They fly at night."))
    assert (call.result.outcome, call.result.text) == ("done", f"{FIRST}They fly at night.")


def test_blocks_of_a_paused_turn_stay_before_it() -> None:
    block = OpaquePart("p", {"type": "search"})
    paused = Reply(parts=(block, TextPart(FIRST)), stop_reason="paused")
    call, _ = run(paused, unclear("They hide by day."))
    assert call.result.text == f"{FIRST}They hide by day."
    assert call.result.message.parts == (block, TextPart(FIRST), TextPart("They hide by day."))


@pytest.mark.parametrize("text", ["I look it up.", ""])
@pytest.mark.parametrize("backends", [1, 2])
def test_tool_calls_before_it_are_never_handed_out(text: str, backends: int) -> None:
    call, _ = run(unclear(text, tool_calls=(TOOL,)), chain=TWO[:backends])
    assert call.result.outcome == ("partial" if text else "failed")
    assert call.result.tool_calls == ()
    assert call.result.text == text
    assert call.result.message.tool_calls == ()


@pytest.mark.parametrize("text", ["", " \n", "<think>Hm.</think>"])
def test_without_text_it_has_no_usable_shape(text: str) -> None:
    call, _ = run(unclear(text))
    assert path(call.result) == ["retry", "retry", "retry", "failed"]
    assert call.result.text == ""


@pytest.mark.parametrize("returns", [None, {"type": "object"}])
@pytest.mark.parametrize("text", ['{"nests": 3}', '{"nests": '])
def test_json_with_an_unclear_end_is_no_value(returns: Any, text: str) -> None:
    call, _ = run(unclear(text), chain=[PlainLink(expects_json=True)], returns=returns)
    assert (call.result.outcome, call.result.text) == ("partial", text)
    assert call.result.value is None


def test_a_verdict_is_not_asked_about_it() -> None:
    call = Call(Request("hi"), NONE, verdict=lambda reply: "too short")
    call.begin()
    assert call.judging(unclear()) is None
    call.receive(unclear())
    assert (call.result.outcome, call.result.text) == ("partial", WHOLE)


@pytest.mark.parametrize("first", ["wrong", "unclear"])
def test_of_it_and_a_wrong_answer_the_later_is_kept(first: str) -> None:
    wrong = done('{"nests": "a number that is longer than the right one"}')
    right = unclear('{"nests": 3}')
    replies = [wrong, right] if first == "wrong" else [right, wrong]
    schema = {"type": "object", "properties": {"nests": {"type": "integer"}}}
    gone = Failure("auth", status=401)
    call, _ = run(*replies, gone, chain=[PlainLink(expects_json=True)], returns=schema)
    assert (call.result.outcome, call.result.text) == ("partial", replies[1].text)


def test_a_stream_takes_it_back_and_shows_what_the_result_holds() -> None:
    call = Call(Request("hi"), Policy(), TWO, is_streaming=True)
    call.begin()
    events: list[Any] = []
    shown = []
    for reply in (unclear(), unclear(LONGER), Failure("auth", status=401)):
        if isinstance(reply, Reply):
            events += call.hear(Text(reply.text))
            shown.append(follow(events))
        call.receive(reply)
        events += call.drain()
        shown.append(follow(events))
    assert shown == [WHOLE, "", LONGER, "", LONGER]
    assert call.result.text == LONGER


def test_what_was_cancelled_after_it_leaves_the_text() -> None:
    call = Call(Request("hi"), Policy(), is_streaming=True)
    call.begin()
    call.receive(unclear())
    call.sending()
    call.hear(Text("He"))
    assert call.cancel().text == WHOLE


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize(
    "replies",
    [(unclear(),), (unclear(), done(LONGER)), (cut(FIRST), unclear("They hide."), cut("They"))],
)
def test_its_journal_replays(contents: bool, replies: tuple[Reply, ...]) -> None:
    call, _ = run(*replies, contents=contents)
    again = replay(call.journal)
    assert path(again) == path(call.result)
    if contents:
        assert (again.text, again.parts) == (call.result.text, call.result.parts)


def test_its_tokens_count() -> None:
    call, _ = run(unclear(usage=Usage(10, 9)))
    assert call.result.usage == Usage(20, 18)


def test_the_journal_shows_the_word() -> None:
    call, _ = run(unclear())
    step = call.journal.last
    assert (step.event, step.stop_raw, step.reason) == ("ended_unclearly", WORD, None)
