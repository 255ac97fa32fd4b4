"""The tokens of later prompts of a turn: the caller's count goes on as long as its messages stand there."""

from rungwise import Message
from rungwise.core import Request
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.turn.conversation import prompt_tokens

FIRST = Request("Do it." * 100, input_tokens=50)
SAID = Message.saying("assistant", "incomprehensible " * 20)
TOLD = Message.saying("user", "found")


def test_what_nobody_has_counted_is_not_known() -> None:
    assert prompt_tokens(Request("Do it."), Request("Do it.").messages, "", 5) is None


def test_compacted_messages_are_counted_by_the_caller_within_their_bytes() -> None:
    long = [{"role": "user", "content": "heron " * 300}]
    left = [{"role": "user", "content": "heron " * 100}]
    by_bytes = estimate_tokens(left)
    assert prompt_tokens(Request(long, input_tokens=30), left, "", 5) == 11  # a third, rounded up
    assert prompt_tokens(Request(long, input_tokens=10**6), left, "", 5) == by_bytes
    assert prompt_tokens(Request(long), left, "", 5) is None


def test_what_was_written_counts_as_it_was_counted_and_the_rest_by_its_bytes() -> None:
    messages = (*FIRST.messages, SAID, TOLD)
    assert prompt_tokens(FIRST, messages, "", 21) == 50 + 21 + estimate_tokens(TOLD)
    assert prompt_tokens(FIRST, messages, "", 0) == 50 + estimate_tokens(SAID) + estimate_tokens(TOLD)
    assert prompt_tokens(FIRST, (*FIRST.messages, TOLD), "", 21) == 50 + estimate_tokens(TOLD)


def test_the_call_counts_the_text_that_it_goes_on_from_itself() -> None:
    text = "incomprehensible " * 20
    known = prompt_tokens(Request("Do it.", input_tokens=500), Request("Do it.").messages, text, 21)
    assert known + estimate_tokens(text) == 500 + 21
