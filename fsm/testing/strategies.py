"""Hypothesis strategies for calls, which shrink to what is easiest to read.

Of providers: replies, failures, headers, scripts. Of callers: requests, policies.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, TypeVar, get_args

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.fsm.call.conversation.request import PlainMessage, Request, TurnContext
from rungwise.fsm.call.limits import BY_CHAIN, LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy import (
    DEFAULT_POLICY,
    DEFAULT_SECONDS,
    SWITCH_AFTER,
    Budget,
    Policy,
    Reserve,
    Waits,
)
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply, StopReason
from rungwise.fsm.testing.scripted import PROMPT, Played, Scripted
from rungwise.fsm.values.usage import NO_USAGE, Usage

T = TypeVar("T")

ANSWER = "An answer."
PIECES = (
    ANSWER,
    " And some more of it.",
    "The kingfishers nest in the steep bank of the river.\n",
    "Grüße 🪜 e\u0301",
    " \n",
    "<b>bold</b>",
    "<think>Let me look at it again.</think>",
    "<Thinking>and again</Thinking>\n\n",
    "<think>a thought without an end",
    "<thi",
    "</think>",
    "```python\n",
    '{"nests": 2, "bank": "steep"}',
    '{"nests": "two"}',
    '{"nests": [2, ',
    "data: [DONE]\n\n",
)
STORY = " ".join(f"On day {day} the river rose by {day % 7} inches." for day in range(60))
"""More than a small cap allows."""
CIRCLES = "The same line again and again.\n" * 20
DENSE = (str(7**3_000), "川蝉は冬も川の岸にいる。" * 60)
"""Texts of which some tokenizers make many tokens."""
MOST_TOKENS = 5_000
# quarters: read from a cache, written to one, reasoning
SHARES = ((0, 0, 0), (1, 0, 0), (3, 1, 4), (0, 4, 2))

REASONS: tuple[Reason, ...] = get_args(Reason)
PASSING: tuple[Reason, ...] = (
    "server_error",
    "rate_limit",
    "overloaded",
    "timeout",
    "silence",
    "connection",
    "unreachable",
    "malformed",
)
MENDABLE: tuple[Reason, ...] = (
    "output_cap",
    "prefill_unsupported",
    "parameter_unsupported",
    "reasoning_signature",
    "reasoning_missing",
    "context_overflow",
    "payload_too_large",
)
STALE = Failure("connection", is_stale=True)
"""The server had closed a reused connection before the request came."""
STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
STATUSES = (None, 400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529)
DURATIONS = (
    "1",
    "2.5",
    "0",
    "-1",
    "NaN",
    "1e400",
    "17",
    "119",
    "121",
    "86400",
    "12ms",
    "6m0s",
    "1h30m",
    "soon",
    "",
)
DATES = (
    "Wed, 12 Nov 2025 10:00:00 GMT",
    "Wed, 12 Nov 2025 10:01:00 GMT",
    "2025-11-12T10:00:30Z",
    "yesterday",
)
WAIT_HEADERS = ("retry-after", "retry-after-ms", "x-ms-retry-after-ms", "Retry-After")
BUCKETS = ("requests", "tokens")

ASKED: Sequence[PlainMessage] = ({"role": "user", "content": PROMPT},)
TOOL_ROUND: Sequence[PlainMessage] = (
    *ASKED,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Two nests were seen in the steep bank."},
)
ENDS_ON_ASSISTANT: Sequence[PlainMessage] = (
    *ASKED,
    {"role": "assistant", "content": "They nest in "},
)
TOOLS = (
    {
        "type": "function",
        "function": {"name": "note", "parameters": {"type": "object", "properties": {}}},
    },
    {
        "type": "function",
        "function": {"name": "look_up", "parameters": {"type": "object", "required": ["path"]}},
    },
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
MANY_MESSAGES: Sequence[PlainMessage] = (
    {"role": "user", "content": "ok"},
    {"role": "assistant", "content": "ok"},
) * 50
AS_JSON = {"response_format": {"type": "json_object"}}
MOST = 4


def texts() -> SearchStrategy[str]:
    """Generate visible content: plain, blank, with inline reasoning, repeating itself."""
    joined = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
    return st.one_of(st.just(ANSWER), joined, st.sampled_from((CIRCLES, *DENSE)), st.just(""))


def usages(*, most: int = MOST_TOKENS) -> SearchStrategy[Usage]:
    """Generate token counts, the cached ones within the input and the reasoning within the
    output.
    """
    counts = st.integers(0, most)

    def build(prompt: int, out: int, shares: tuple[int, int, int], estimated: bool) -> Usage:
        read = prompt * shares[0] // 4
        created = prompt * shares[1] // 4
        reasoning = out * shares[2] // 4
        return Usage(prompt, out, read, created, reasoning, estimated)

    return st.builds(build, counts, counts, st.sampled_from(SHARES), st.booleans())


def tool_calls(*, whole: bool = False) -> SearchStrategy[ToolCall]:
    """Generate tool calls: whole, cut anywhere, with arguments that are no JSON object, without a
    name.
    """
    arguments = st.dictionaries(
        st.sampled_from(("path", "city", "n")), st.sampled_from(("x", 1, None)), min_size=1
    )
    complete = arguments.map(json.dumps)
    names = st.sampled_from(("look_up", "note"))
    ids = st.sampled_from(("call_1", "call_2", ""))
    if whole:
        return st.builds(ToolCall, ids, names, complete)
    cut = st.builds(
        lambda text, share: text[: int(len(text) * share)], complete, st.floats(0, 0.99)
    )
    other = st.sampled_from(("", "[]", "null", "{}", '{"a": NaN}', "{'a': 1}"))
    return st.builds(ToolCall, ids, st.one_of(names, st.just("")), st.one_of(complete, cut, other))


def replies() -> SearchStrategy[Reply]:
    """Generate replies of every kind: answers, tool calls, empty, cut, and misleading ones."""
    return first_or_often(_good_replies(), _bad_replies(), once_in=6)


def _good_replies() -> SearchStrategy[Reply]:
    """Generate replies that end a call."""
    calls = st.lists(tool_calls(whole=True), min_size=1, max_size=2).map(tuple)
    text = st.one_of(st.just(ANSWER), texts())
    return st.one_of(
        _reply("stop", text),
        _reply("tool_calls", st.one_of(st.just(""), text), tool_calls=calls),
        _reply("content_filter", text),
    )


def _bad_replies() -> SearchStrategy[Reply]:
    """Generate replies that a call recovers from."""
    text = texts()
    thoughts = st.sampled_from(("First I look at the river.", " \n", "Then at its bank."))
    calls = st.lists(tool_calls(), min_size=1, max_size=2).map(tuple)
    return st.one_of(
        _reply("stop", st.sampled_from(("", " ", "<think></think>"))),
        _reply("stop", st.sampled_from(("", "\n", "<think>hm</think>")), reasoning=thoughts),
        _reply("length", text, reasoning=st.one_of(st.just(""), thoughts)),
        _reply("length", st.just(""), reasoning=thoughts),
        _reply("length", st.just(""), tool_calls=calls),
        _reply("paused", text),
        _reply("overflow", text),
        _reply(None, st.one_of(st.just(""), text), interrupted=st.just(True)),
        _reply(None, text, interrupted=st.just(True), failure=failures()),
        _reply("unknown", text),
        _talks_on(),
        st.builds(  # with unrelated fields
            Reply,
            text=text,
            final_text=st.one_of(st.none(), text),
            tool_calls=st.one_of(st.just(()), calls),
            usage=usages(),
            model=st.sampled_from((None, "a-model")),
            interrupted=st.booleans(),
            halted=st.booleans(),
            reasoning=st.one_of(st.just(""), thoughts),
            stop_reason=st.sampled_from((*STOP_REASONS, None)),
            stop_raw=st.sampled_from((None, "stop", "eos", "a_new_word")),
            refusal=st.sampled_from((None, "I would rather not do that.")),
            failure=st.one_of(st.none(), failures()),
        ),
    )


def first_or_often(
    first: SearchStrategy[T], often: SearchStrategy[T], *, once_in: int = 4
) -> SearchStrategy[T]:
    """Generate the first strategy once in `once_in` times, and shrink to it."""
    return st.integers(1, once_in).flatmap(lambda chance: first if chance == 1 else often)


def evenly(*kinds: SearchStrategy[T]) -> SearchStrategy[T]:
    """Generate every kind equally often, however many alternatives it has, and shrink to the
    first.
    """
    return st.integers(0, len(kinds) - 1).flatmap(lambda index: kinds[index])


def seldom(values: SearchStrategy[T]) -> SearchStrategy[T | None]:
    """Generate None three out of four times, and shrink to it."""
    return st.integers(0, 3).flatmap(lambda chance: values if chance == 3 else st.none())


def _reply(
    stop: StopReason | None, text: SearchStrategy[str], **fields: SearchStrategy[object]
) -> SearchStrategy[Reply]:
    return st.builds(
        Reply,
        text=text,
        usage=usages(),
        stop_reason=st.just(stop),
        stop_raw=st.just(stop),
        **fields,
    )


def _talks_on() -> SearchStrategy[Reply]:
    """Generate replies of a provider that ignores the cap, with or without usage."""
    counted = st.sampled_from(
        (Usage(9, 50_000), Usage(9, 700), NO_USAGE, Usage(0, 700, estimated=True))
    )
    reasons = st.sampled_from(("stop", "length", None))
    return st.builds(
        lambda usage, stop: Reply(STORY, usage=usage, stop_reason=stop, stop_raw=stop),
        counted,
        reasons,
    )


def failures() -> SearchStrategy[Failure]:
    """Generate failures of every reason, with and without `Retry-After`."""
    waits = st.one_of(
        st.just(1.0), st.floats(0.001, 200.0), st.sampled_from((5e-324, 120.0, 1e9 - 1))
    )
    return st.builds(
        Failure,
        reason=st.sampled_from(PASSING) | st.sampled_from(MENDABLE) | st.sampled_from(REASONS),
        status=st.sampled_from(STATUSES),
        code=st.sampled_from((None, "rate_limit_exceeded", "insufficient_quota")),
        message=st.sampled_from(("", "The request was: kingfishers in winter")),
        asked_wait=seldom(waits),
        should_retry=seldom(st.booleans()),
        parameter=st.sampled_from(
            ("temperature", "top_p", None, "max_tokens", "max_completion_tokens")
        ),
        available_tokens=st.one_of(st.integers(1, MOST_TOKENS), st.none()),
    )


@st.composite
def headers(draw: DrawFn) -> dict[str, str]:
    """Generate response headers with waits and limits in every notation, garbage included."""
    values: dict[str, str] = {}
    for name in draw(st.lists(st.sampled_from(WAIT_HEADERS), max_size=2, unique_by=str.lower)):
        values[name] = draw(st.sampled_from((*DURATIONS, *DATES)))
    if draw(st.booleans()):
        values["x-should-retry"] = draw(st.sampled_from(("true", "false", "True", "perhaps")))
    for bucket in draw(st.lists(st.sampled_from(BUCKETS), max_size=2, unique=True)):
        values[f"x-ratelimit-remaining-{bucket}"] = draw(st.sampled_from(("0", "1", "-1", "")))
        values[f"x-ratelimit-reset-{bucket}"] = draw(st.sampled_from((*DURATIONS, *DATES)))
    if draw(st.booleans()):
        values["date"] = DATES[0]
    return values


def plays() -> SearchStrategy[Played]:
    """Generate replies and failures that stream: cut anywhere, or failing after some text."""
    sizes = st.lists(st.integers(1, 40), max_size=3).map(tuple)
    streamed = st.one_of(st.none(), texts())
    return evenly(
        st.builds(Played, replies(), sizes),
        st.builds(Played, failures(), sizes, streamed),
        st.builds(Played, replies(), sizes, streamed),
    )


def scripts_of_replies(
    *, items: SearchStrategy[Scripted] | None = None, longest: int = 8, longest_run: int = 5
) -> SearchStrategy[list[Scripted]]:
    """Generate the replies of a provider, request by request; the last one repeats for ever.

    Repeated replies climb the ladders, so scripts consist of runs.

    Arguments:
        items: generates one reply; replies, failures and broken streams where None.
        longest: the most runs.
        longest_run: how often a reply may come in a row.
    """
    bad: SearchStrategy[Scripted] = evenly(
        failures(), _bad_replies(), plays(), evenly(failures(), st.just(STALE))
    )
    each: SearchStrategy[Scripted] = items if items is not None else first_or_often(replies(), bad)
    runs = st.lists(st.tuples(each, st.integers(1, longest_run)), min_size=1, max_size=longest)
    return runs.map(lambda values: [item for item, times in values for _ in range(times)])


def requests() -> SearchStrategy[Request]:
    """Generate requests: a prompt, after a tool round, ending on the assistant, with or without a
    cap.
    """
    messages = st.sampled_from(
        (ASKED, TOOL_ROUND, ENDS_ON_ASSISTANT, WITH_SYSTEM, LOOKS_LIKE_A_PICTURE, MANY_MESSAGES)
    )
    return st.builds(
        Request,
        # a compactor that changes what it is given changes nobody else's
        messages=messages.map(deepcopy),
        parameters=st.sampled_from(({}, {}, {}, AS_JSON)),
        tools=st.sampled_from(((), TOOLS)),
        max_tokens=st.sampled_from((None, 1, 50, 4096, 50_000)),
        input_tokens=st.sampled_from((None, 1_000)),  # enough for each of them
    )


def turns() -> SearchStrategy[TurnContext]:
    """Generate the turn contexts of calls."""
    answers = st.sampled_from(
        (None, "They nest in the bank; I have noted that.", " ", "<think>no answer</think>")
    )
    return st.builds(TurnContext, answers, st.booleans())


def limits(*, most: int = MOST) -> SearchStrategy[Limits]:
    """Generate limits."""
    names = [name for name, limit in CALL.limits.items() if limit is not None]
    each: dict[str, SearchStrategy[Any]] = {
        name: st.integers(0, most) | st.integers(1, most) for name in names
    }
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
        **dict.fromkeys(
            ("retry_base", "retry_cap", "overload_cap", "reask_base", "reask_cap"), seconds
        ),
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
        reserve=st.builds(
            Reserve,
            share=st.sampled_from((0.25, 0.0, 0.5, 1.0)),
            seconds=seldom(st.floats(0.1, 300.0)),
        ),
        switch_after=st.dictionaries(
            st.sampled_from((*SWITCH_AFTER, "rate_limit", "server_error")),
            st.integers(1, 3) | st.just(LARGEST_LIMIT),
        ),
        after_refusal=st.sampled_from(("fall_back", "end")),
        base_cap=st.sampled_from((DEFAULT_POLICY.base_cap, 100)),
        largest_cap=st.sampled_from((DEFAULT_POLICY.largest_cap, 300)),
        nudge_window=st.sampled_from((DEFAULT_POLICY.nudge_window, 1, 0)),
        skip_identical_empties=st.booleans(),
        table=st.just(table),
    )


_limits = limits  # the parameter of `policies` has the same name
