"""The provider thinks, and says nothing."""

from typing import Any

import pytest

import rungwise
from rungwise.testing import ScriptedReply
from support.protocols import chat_call

THOUGHT = "Herons like shallow water and reeds."
MORE = "So they nest close to it."
FIELD = ScriptedReply(reasoning=THOUGHT)
INLINE = ScriptedReply(f"<think>{THOUGHT}</think>")
ANALYSIS = "<|channel|>analysis<|message|>"
CHANNEL = ScriptedReply(f"{ANALYSIS}{THOUGHT}<|end|>")
CALL = "<|channel|>commentary to=functions.look <|constrain|>json<|message|>"
ANSWER = ScriptedReply("In the reeds, mostly.")
THINKING = pytest.mark.parametrize(
    "thinking", [FIELD, INLINE, CHANNEL], ids=["field", "inline", "channel"]
)
PREFILLS = [{"prefill": "trailing"}, {}]
ASKED = chat_call("call_1", "look", '{"city": "Malmö"}')
AFTER_A_TOOL = [
    {"role": "user", "content": "Where do herons nest?"},
    {"role": "assistant", "content": None, "tool_calls": [ASKED]},
    {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "Three nests were seen.",
    },
]


@THINKING
@pytest.mark.parametrize(("backends", "role"), [(PREFILLS, "assistant"), ([], "user")])
def test_thinking_only_is_seeded_as_the_assistant_turn_where_the_backend_allows_it(
    run: Any,
    thinking: ScriptedReply,
    backends: Any,
    role: str,
) -> None:
    ended = run([thinking, ANSWER], backends=backends)
    ended.was("done", "In the reeds, mostly.", path="prefill done", waits=[])
    assert ended.added[0] == []
    (seed,) = ended.added[1]
    assert seed["role"] == role
    assert THOUGHT in seed["content"]
    assert role == "user" or ("<think>" in seed["content"]) == (thinking is not FIELD)


@pytest.mark.parametrize(
    ("mode", "mark", "flags"),
    [
        ("trailing", {}, {}),
        ("prefix", {"prefix": True}, {}),
        ("partial", {"partial": True}, {}),
        (
            "continue_final_message",
            {},
            {"continue_final_message": True, "add_generation_prompt": False},
        ),
    ],
)
def test_the_seed_has_the_backends_own_encoding(
    run: Any,
    mode: str,
    mark: Any,
    flags: Any,
) -> None:
    ended = run([FIELD, ANSWER], backends=[{"prefill": mode}])
    (seed,) = ended.added[1]
    assert seed == {"role": "assistant", "content": THOUGHT, **mark}
    told = {name: ended.bodies[1][name] for name in flags}
    assert told == flags
    assert not flags.keys() & ended.bodies[0].keys()


prefilled_or_not = pytest.mark.parametrize("prefill", ["trailing", "no"])


@THINKING
@prefilled_or_not
def test_thinking_for_ever_is_exhausted_after_one_and_two_and_three_requests(
    run: Any, thinking: ScriptedReply, prefill: str
) -> None:
    ended = run([thinking], backends=[{"prefill": prefill}])
    ended.was(
        "exhausted",
        "",
        path="prefill prefill reask reask reask exhausted",
        counts=[1 + 2 + 3],
        waits=[1, 2, 4],
    )
    assert [len(added) for added in ended.added] == [0, 1, 1, 0, 0, 0]
    assert THOUGHT not in str(ended.bodies[3:])
    assert all(body == ended.bodies[0] for body in ended.bodies[3:])
    assert isinstance(ended.error, rungwise.EmptyResponse)


@THINKING
@prefilled_or_not
def test_the_seed_never_goes_to_the_fallback(
    run: Any, thinking: ScriptedReply, prefill: str
) -> None:
    ended = run([thinking], [ANSWER], backends=[{"prefill": prefill}, {"prefill": prefill}])
    ended.was("done", "In the reeds, mostly.", counts=[2, 1])
    assert ended.added[-1] == []
    assert THOUGHT not in str(ended.bodies[-1])


def test_the_fallback_may_be_seeded_with_its_own_thinking(run: Any) -> None:
    other = ScriptedReply(reasoning="The map says reeds.")
    ended = run([FIELD], [other, ANSWER])
    ended.was("done", counts=[2, 2])
    (seed,) = ended.added[-1]
    assert "The map says reeds." in seed["content"]
    assert THOUGHT not in seed["content"]


@pytest.mark.parametrize("second", [MORE, f"{THOUGHT} {MORE}"], ids=["goes on", "began again"])
def test_the_second_seed_holds_all_of_the_reasoning_once(run: Any, second: str) -> None:
    ended = run([FIELD, ScriptedReply(reasoning=second), ANSWER], backends=PREFILLS)
    (seed,) = ended.added[2]
    assert THOUGHT in seed["content"]
    assert MORE in seed["content"]
    assert second == MORE or seed["content"] == second


@pytest.mark.parametrize("chunk_size", [4, 400])
@pytest.mark.parametrize(
    ("thinking", "echo"),
    [
        (FIELD, f"{THOUGHT}In the reeds."),
        (INLINE, f"<think>\n{THOUGHT}\n</think>\n\nIn the reeds."),
    ],
    ids=["field", "inline"],
)
def test_a_seed_that_the_backend_repeats_is_no_answer(
    run: Any,
    thinking: ScriptedReply,
    echo: str,
    chunk_size: int,
) -> None:
    run([thinking, ScriptedReply(echo, chunk_size=chunk_size)], backends=PREFILLS).was(
        "done", "In the reeds.", counts=[2]
    )


def test_a_seed_that_is_repeated_and_nothing_else_is_no_answer_either(run: Any) -> None:
    run([FIELD, ScriptedReply(THOUGHT), ANSWER], backends=PREFILLS).was(
        "done", "In the reeds, mostly.", counts=[3]
    )


@pytest.mark.parametrize("opening", ["<think>", "<thought>", ANALYSIS])
def test_an_unclosed_block_is_thinking(run: Any, opening: str) -> None:
    ended = run([ScriptedReply(f"{opening}{THOUGHT}"), ANSWER])
    assert ended.path == "prefill done"
    assert THOUGHT in ended.added[1][0]["content"]


@pytest.mark.parametrize("chunk_size", [1, 7, 400])
@pytest.mark.parametrize(
    "frame",
    [
        "<thought>{}</thought>{}",
        "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}",
        "<|start|>assistant<|channel|>analysis<|message|>{}<|end|>"
        "<|start|>assistant<|channel|>final<|message|>{}<|return|>",
    ],
    ids=["thought", "channels", "whole messages"],
)
def test_reasoning_in_the_text_is_no_part_of_the_answer(
    run: Any, frame: str, chunk_size: int
) -> None:
    reply = ScriptedReply(frame.format(THOUGHT, "In the reeds."), chunk_size=chunk_size)
    ended = run([reply])
    ended.was("done", "In the reeds.", path="done")
    assert ended.result.reasoning == THOUGHT
    assert ended.result.final_text == "In the reeds."


def test_a_tool_call_in_a_channel_of_the_text_is_no_answer(run: Any) -> None:
    arguments = '{"city": "Lund"}'
    call = f"{ANALYSIS}{THOUGHT}<|end|><|start|>assistant{CALL}{arguments}<|call|>"
    ended = run([ScriptedReply(call), ANSWER])
    ended.was("done", "In the reeds, mostly.", path="prefill done")
    assert f"functions.look {arguments}" in ended.added[1][0]["content"]
    assert "<|" not in str(ended.bodies)


@pytest.mark.parametrize(
    ("second", "rung", "same_as", "wait"),
    [(ScriptedReply(), "reask", 0, 1), (ScriptedReply(status=500), "retry", 1, 2)],
    ids=["empty: without the seed", "failed: with it"],
)
def test_what_is_asked_again_after_the_seed(
    run: Any,
    second: ScriptedReply,
    rung: str,
    same_as: int,
    wait: float,
) -> None:
    ended = run([FIELD, second, ANSWER], backends=PREFILLS)
    assert ended.path == f"prefill {rung} done"
    assert ended.bodies[2] == ended.bodies[same_as]
    assert ended.waits == [wait]


# after a tool round


def test_structured_thinking_only_after_a_tool_result_is_nudged_first(run: Any) -> None:
    ended = run([FIELD, FIELD, ANSWER], messages=AFTER_A_TOOL, backends=PREFILLS)
    assert ended.path == "nudge prefill done"
    assert [message["role"] for message in ended.added[1]] == ["assistant", "user"]
    assert THOUGHT not in str(ended.added[1])
    assert ended.added[2][-1] == {"role": "assistant", "content": THOUGHT}


@pytest.mark.parametrize(
    ("thinking", "nudges"), [(INLINE, ""), (FIELD, "nudge ")], ids=["inline", "field"]
)
def test_thinking_for_ever_after_a_tool_result_is_nudged_only_where_it_is_structured(
    run: Any, thinking: ScriptedReply, nudges: str
) -> None:
    ended = run([thinking], messages=AFTER_A_TOOL)
    assert ended.path == f"{nudges}prefill prefill reask reask reask exhausted"
    assert ended.waits == [1, 2, 4]


# at the output cap


@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(reasoning=THOUGHT, finish="length"),
        ScriptedReply(f"<think>{THOUGHT}", finish="length"),
        ScriptedReply(f"<think>{THOUGHT}</think>\n", finish="length"),
        ScriptedReply(f"{ANALYSIS}{THOUGHT}", finish="length"),
    ],
    ids=["field", "unclosed", "closed", "channel"],
)
def test_length_with_reasoning_alone_is_enlarged_and_not_seeded(
    run: Any, reply: ScriptedReply
) -> None:
    run([reply, ANSWER], backends=PREFILLS).was(
        "done",
        "In the reeds, mostly.",
        path="enlarge done",
        caps=[None, 8192],
        added=[[], []],
        waits=[],
    )


def test_length_with_reasoning_alone_for_ever_is_exhausted_after_three_larger_caps(
    run: Any,
) -> None:
    run([ScriptedReply(reasoning=THOUGHT, finish="length")]).was(
        "exhausted", caps=[None, 8192, 12_288, 16_384], added=[[]] * 4
    )


def test_the_effort_is_lowered_once_and_the_cap_raised_each_time_but_not_for_the_fallback(
    run: Any,
) -> None:
    ended = run(
        [ScriptedReply(reasoning=THOUGHT, finish="length")],
        [ANSWER],
        parameters={"reasoning_effort": "high"},
        max_tokens=1000,
    )
    ended.was("done", counts=[4, 1], caps=[1000, 2000, 3000, 4000, 1000])
    efforts = [body["reasoning_effort"] for body in ended.bodies]
    assert efforts == ["high", "low", "low", "low", "high"]
    assert ended.added[-1] == []
