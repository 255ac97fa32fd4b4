"""What servers taught this process: what may be remembered, how much of it, and what takes it
back.
"""

import threading

import pytest
from attrs import evolve

from rungwise import ConfigurationError, OpenAIChat
from rungwise.adapters.wires.learned import MOST_PLACES, Learned, learn_from
from rungwise.core import LEARNED, Failure, Lessons, Reply, Request, Send
from rungwise.fsm.call.chain.lessons import NO_LESSONS

HERE = [("api.example.com", "m"), ("https://api.example.com/v1", "m")]
CHAT = OpenAIChat(
    "m",
    base_url="https://api.example.com/v1",
    api_key="sk-1",
    prefill="trailing",
)
ASKED = Request("hi")
SEND = Send(
    rung="ask",
    backend=0,
    wait=0.0,
    messages=ASKED.messages,
    max_tokens=100,
    request=ASKED,
)


@pytest.fixture(autouse=True)
def nothing_learned() -> None:
    LEARNED.forget()


def without(*names: str) -> Lessons:
    return Lessons(dropped=frozenset(names))


def test_a_lesson_is_of_its_place_and_of_no_other() -> None:
    learned = Learned()
    assert learned.of(HERE) == NO_LESSONS
    learned.learn(HERE[1:], Lessons(no_prefill=True))
    assert learned.of(HERE).no_prefill
    assert learned.of([("api.example.com", "n"), ("https://api.example.com/v1", "n")]) == NO_LESSONS
    learned.forget(HERE)
    assert learned.of(HERE) == NO_LESSONS


def test_lessons_add_up_and_are_taken_back_one_by_one() -> None:
    learned = Learned()
    learned.learn(HERE, without("temperature"))
    learned.learn(HERE, evolve(without("top_p"), restore_reasoning=True, largest_output=8_192))
    both = Lessons(
        dropped=frozenset({"temperature", "top_p"}), restore_reasoning=True, largest_output=8_192
    )
    assert learned.of(HERE) == both
    learned.unlearn(HERE, Lessons(dropped=frozenset({"top_p"}), restore_reasoning=True))
    assert learned.of(HERE) == Lessons(dropped=frozenset({"temperature"}), largest_output=8_192)
    learned.learn(HERE, Lessons(largest_output=16_384))
    assert learned.of(HERE).largest_output == 16_384, "the newest word counts"


@pytest.mark.parametrize(
    "name",
    [
        "tools",
        "tool_choice",
        "response_format",
        "parallel_tool_calls",
        "stop",
        "reasoning_effort",
        "logprobs",
        "x" * 80,
    ],
)
def test_what_shapes_the_answer_is_never_left_out_unasked(name: str) -> None:
    learned = Learned()
    learned.learn(HERE, without(name, "seed"))
    assert learned.of(HERE).dropped == {"seed"}


def test_one_name_of_the_output_cap_is_always_left() -> None:
    learned = Learned()
    learned.learn(HERE, without("max_tokens", "max_completion_tokens"))
    assert learned.of(HERE) == NO_LESSONS
    learned.learn(HERE, without("max_tokens", "seed"))
    learned.learn(HERE, without("max_completion_tokens"))
    assert learned.of(HERE).dropped == {"max_completion_tokens", "seed"}


def test_a_cap_that_no_model_has_is_not_believed() -> None:
    learned = Learned()
    learned.learn(HERE, Lessons(largest_output=5))
    assert learned.of(HERE) == NO_LESSONS


def test_no_server_fills_the_memory() -> None:
    learned = Learned()
    for number in range(3 * MOST_PLACES):
        learned.learn(
            [("host", str(number))], without("seed", *[f"name{each}" for each in range(10)])
        )
    known = [
        number
        for number in range(3 * MOST_PLACES)
        if learned.of([("host", str(number))]) != NO_LESSONS
    ]
    assert known == list(range(2 * MOST_PLACES, 3 * MOST_PLACES))


def test_learning_from_several_threads_loses_nothing() -> None:
    learned = Learned()
    names = ["temperature", "top_p", "top_k", "min_p", "seed", "user", "store", "metadata"]
    threads = [threading.Thread(target=learned.learn, args=(HERE, without(name))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learned.of(HERE).dropped == {*names}


def test_a_repair_is_learned_once_it_has_helped() -> None:
    send = evolve(SEND, dropped=frozenset({"temperature", "tool_choice"}), restore_reasoning=True)
    learn_from(CHAT, send, Failure("rate_limit", status=429))
    learn_from(CHAT, send, Reply("Half of", interrupted=True))
    assert CHAT.lessons == NO_LESSONS
    learn_from(CHAT, send, Reply("Yes.", stop_reason="stop"))
    assert CHAT.lessons == Lessons(dropped=frozenset({"temperature"}), restore_reasoning=True)
    other = OpenAIChat("m", base_url="https://api.example.com/v1", api_key="sk-2")
    assert other.lessons == CHAT.lessons, "whatever the key"


def test_who_refuses_to_stream_is_learned_for_its_key_only() -> None:
    other = OpenAIChat("m", base_url="https://api.example.com/v1", api_key="sk-2")
    learn_from(CHAT, evolve(SEND, dropped=frozenset({"stream"})), Reply("Yes.", stop_reason="stop"))
    assert CHAT.lessons.dropped == {"stream"}
    assert other.lessons.dropped == frozenset()


@pytest.mark.parametrize(
    ("failure", "send", "lessons"),
    [
        (Failure("prefill_unsupported"), evolve(SEND, prefill=True), Lessons(no_prefill=True)),
        (Failure("prefill_unsupported"), SEND, NO_LESSONS),
        (
            Failure("output_cap", available_tokens=900, largest_output=900),
            SEND,
            Lessons(largest_output=900),
        ),
        (Failure("output_cap", available_tokens=900), SEND, NO_LESSONS),
        (Failure("parameter_unsupported", parameter="temperature"), SEND, NO_LESSONS),
    ],
)
def test_what_a_rejection_teaches_by_itself(failure: Failure, send: Send, lessons: Lessons) -> None:
    learn_from(CHAT, send, failure)
    assert CHAT.lessons == lessons


def test_what_contradicts_a_lesson_takes_it_back() -> None:
    LEARNED.learn(CHAT.places, evolve(without("max_tokens", "seed"), restore_reasoning=True))
    learn_from(CHAT, evolve(SEND, restore_reasoning=True), Failure("reasoning_signature"))
    learn_from(CHAT, SEND, Failure("parameter_unsupported", parameter="max_completion_tokens"))
    assert CHAT.lessons == without("seed")


def test_a_backend_may_neither_teach_nor_heed() -> None:
    deaf = evolve(CHAT, learns=False)
    learn_from(deaf, evolve(SEND, dropped=frozenset({"seed"})), Reply("Yes.", stop_reason="stop"))
    assert CHAT.lessons == NO_LESSONS
    LEARNED.learn(CHAT.places, without("seed"))
    assert CHAT.lessons == without("seed")
    assert deaf.lessons == NO_LESSONS
    with pytest.raises(ConfigurationError, match="learns must be True or False"):
        OpenAIChat("m", learns="no")  # type: ignore[arg-type]


def test_what_lessons_say() -> None:
    lessons = Lessons(
        dropped=frozenset({"top_p", "seed"}),
        no_prefill=True,
        restore_reasoning=True,
        largest_output=900,
    )
    assert str(lessons) == (
        "learned: without seed, top_p, no prefill, with the reasoning of earlier turns, at most "
        "900 output tokens"
    )
    assert str(NO_LESSONS) == ""
    assert Lessons.from_mapping(lessons.to_mapping(), "lessons[0]") == lessons
    for wrong in ({"dropped": "seed"}, {"no_prefill": 1}, {"largest_output": 0}, {"more": True}):
        with pytest.raises(ConfigurationError, match=r"lessons\[0\]"):
            Lessons.from_mapping(wrong, "lessons[0]")
