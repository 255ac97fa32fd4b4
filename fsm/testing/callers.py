"""Hypothesis strategies for requests, policies and chains, which shrink to the default that is easiest to read."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.call.conversation.request import PlainMessage, Request, TurnContext
from rungwise.fsm.call.limits import BY_CHAIN, LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy import DEFAULT_POLICY, DEFAULT_SECONDS, SWITCH_AFTER, Budget, Policy, Reserve, Waits
from rungwise.fsm.call.table import CALL
from rungwise.fsm.machine.table import Table
from rungwise.fsm.testing.backend import PROMPT
from rungwise.fsm.testing.strategies import evenly, seldom

ASKED: Sequence[PlainMessage] = ({"role": "user", "content": PROMPT},)
TOOL_ROUND: Sequence[PlainMessage] = (
    *ASKED,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Two nests were seen in the steep bank."},
)
ENDS_ON_ASSISTANT: Sequence[PlainMessage] = (*ASKED, {"role": "assistant", "content": "They nest in "})
TOOLS = (
    {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "required": ["path"]}}},
)
WITH_SYSTEM: Sequence[PlainMessage] = (
    {"role": "system", "content": "You know the birds of this river."},
    {"role": "user", "content": "Which birds live here?"},
    {"role": "assistant", "content": "Kingfishers, dippers and a pair of herons. " * 20},
    *ASKED,
)
LOOKS_LIKE_A_PICTURE: Sequence[PlainMessage] = (
    {"role": "user", "content": "data: " + "nests, eggs and fledglings; " * 100},
)
MANY_MESSAGES: Sequence[PlainMessage] = ({"role": "user", "content": "ok"}, {"role": "assistant", "content": "ok"}) * 50
AS_JSON = {"response_format": {"type": "json_object"}}
MOST = 4


def requests() -> SearchStrategy[Request]:
    """Generate requests: a prompt, after a tool round, ending on the assistant, with or without a cap."""
    messages = st.sampled_from((ASKED, TOOL_ROUND, ENDS_ON_ASSISTANT, WITH_SYSTEM, LOOKS_LIKE_A_PICTURE, MANY_MESSAGES))
    return st.builds(
        Request,
        messages=messages.map(deepcopy),  # a compactor that changes what it is given changes nobody else's
        parameters=st.sampled_from(({}, {}, {}, AS_JSON)),
        tools=st.sampled_from(((), TOOLS)),
        max_tokens=st.sampled_from((None, 1, 50, 4096, 50_000)),
        input_tokens=st.sampled_from((None, 1_000)),  # enough for each of them
    )


def turns() -> SearchStrategy[TurnContext]:
    """Generate the turn contexts of calls."""
    answers = st.sampled_from((None, "They nest in the bank; I have noted that.", " ", "<think>no answer</think>"))
    return st.builds(TurnContext, answers, st.booleans())


def limits(*, most: int = MOST) -> SearchStrategy[Limits]:
    """Generate limits."""
    names = [name for name, limit in CALL.limits.items() if limit is not None]
    each: dict[str, SearchStrategy[Any]] = {name: st.integers(0, most) | st.integers(1, most) for name in names}
    given = dict.fromkeys(BY_CHAIN, st.one_of(st.none(), st.integers(0, most)))
    return st.builds(Limits, **each, **given)


def policies(
    *, limits: SearchStrategy[Limits] | None = None, table: Table = CALL, money: bool = False
) -> SearchStrategy[Policy]:
    """Generate policies.

    Arguments:
        limits: generates their limits; `limits()` where None.
        table: the machine of all of them.
        money: whether some have a budget of money, which needs prices on every backend.
    """
    seconds = st.sampled_from((0.0, 0.5, 2.0, 5.0, 60.0))
    waits = st.builds(
        Waits,
        **dict.fromkeys(("retry_base", "retry_cap", "overload_cap", "reask_base", "reask_cap"), seconds),
        jitter=st.sampled_from((0.5, 0.0, 1.0)),
        longest_asked=st.sampled_from((120.0, 120.0, 120.0, 0.0, 3.0)),
    )
    budget = st.builds(
        Budget,
        attempts=st.sampled_from((24, 100)) | st.integers(1, 40),
        seconds=evenly(st.just(DEFAULT_SECONDS), st.none(), st.floats(0.5, 600.0)),
        output_tokens=seldom(st.integers(1, 50_000)),
        money=st.one_of(st.none(), st.floats(0.001, 1.0)) if money else st.none(),
    )
    return st.builds(
        Policy,
        limits=limits if limits is not None else _limits(),
        budget=budget,
        waits=waits,
        reserve=st.builds(Reserve, share=st.sampled_from((0.25, 0.0, 0.5, 1.0)), seconds=seldom(st.floats(0.1, 300.0))),
        switch_after=st.dictionaries(
            st.sampled_from((*SWITCH_AFTER, "rate_limit", "server_error")), st.integers(1, 3) | st.just(LARGEST_LIMIT)
        ),
        after_refusal=st.sampled_from(("fall_back", "end")),
        base_cap=st.sampled_from((DEFAULT_POLICY.base_cap, 100)),
        largest_cap=st.sampled_from((DEFAULT_POLICY.largest_cap, 300)),
        nudge_window=st.sampled_from((DEFAULT_POLICY.nudge_window, 1, 0)),
        skip_identical_empties=st.booleans(),
        table=st.just(table),
    )


_limits = limits  # the parameter of `policies` has the same name
