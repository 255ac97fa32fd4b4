"""Hypothesis strategies for calls, which shrink to what is easiest to read.

Of providers: replies, failures, headers, scripts. Of callers: requests and turn contexts; their
policies are in `policy_strategies.py`.

Theory. Hypothesis draws a sequence of choices and shrinks it to the shortest and smallest one that
still fails (MacIver and Donaldson, "Test-Case Reduction via Test-Case Generation", ECOOP 2020). So
the order of draws and of alternatives matters twice: the first alternative is what a counterexample
shrinks to, and the weights decide which faults a run of a few hundred examples finds. `one_of`
flattens nested alternatives and weighs each leaf alike; `evenly`, `first_or_often` and `seldom`
set weights by an integer that is drawn first, which `one_of` cannot undo. A check of the kit is
only as good as the draws that reach it: `tests/fsm/engine/checker/test_mutations.py` plants faults
and counts the examples until each is found.
"""

import json
from copy import deepcopy
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply, StopReason
from rungwise.fsm.testing.samples import (
    ANSWER,
    AS_JSON,
    ASKED,
    BUCKETS,
    CIRCLES,
    DATES,
    DENSE,
    DURATIONS,
    ENDS_ON_ASSISTANT,
    LOOKS_LIKE_A_PICTURE,
    MANY_MESSAGES,
    MENDABLE,
    MOST_TOKENS,
    PASSING,
    PIECES,
    REASONS,
    SHARES,
    STALE,
    STATUSES,
    STOP_REASONS,
    STORY,
    TOOL_ROUND,
    TOOLS,
    WAIT_HEADERS,
    WITH_SYSTEM,
)
from rungwise.fsm.testing.scripted import Played, Scripted
from rungwise.fsm.values.usage import NO_USAGE, Usage

T = TypeVar("T")


def first_or_often(
    first: SearchStrategy[T], often: SearchStrategy[T], *, once_in: int = 4
) -> SearchStrategy[T]:
    """Generate the first strategy once in `once_in` times, and shrink to it."""
    return st.integers(1, once_in).flatmap(lambda chance: first if chance == 1 else often)


def evenly(*kinds: SearchStrategy[T]) -> SearchStrategy[T]:
    """Generate every kind equally often, and shrink to the first.

    A kind counts once, however many alternatives it has itself.
    """
    return st.integers(0, len(kinds) - 1).flatmap(lambda index: kinds[index])


def seldom(values: SearchStrategy[T]) -> SearchStrategy[T | None]:
    """Generate None three out of four times, and shrink to it."""
    return st.integers(0, 3).flatmap(lambda chance: values if chance == 3 else st.none())


def texts() -> SearchStrategy[str]:
    """Generate visible content: plain, blank, with inline reasoning, repeating itself."""
    answer = st.just(ANSWER)
    pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4)
    extreme = st.sampled_from((CIRCLES, *DENSE))
    return st.one_of(answer, pieces.map("".join), extreme, st.just(""))


def usages(*, most: int = MOST_TOKENS) -> SearchStrategy[Usage]:
    """Generate token counts that add up.

    Cached tokens are part of the input, and tokens of reasoning part of the output.

    Arguments:
        most: the most tokens of the input, and of the output.
    """
    counts = st.integers(0, most)
    return st.builds(_usage_of, counts, counts, st.sampled_from(SHARES), st.booleans())


def _usage_of(
    prompt: int,
    output: int,
    shares: tuple[int, int, int],
    estimated: bool,
) -> Usage:
    """Build a usage.

    Arguments:
        prompt: tokens of the input.
        output: tokens of the output.
        shares: quarters, of `SHARES`.
        estimated: whether nobody has counted the tokens.
    """
    read, created, reasoning = shares
    written = prompt * created // 4
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cache_read_tokens=prompt * read // 4,
        cache_creation_tokens=written,
        reasoning_tokens=output * reasoning // 4,
        cache_creation_long_tokens=written // 2,
        estimated=estimated,
    )


def tool_calls(*, whole: bool = False) -> SearchStrategy[ToolCall]:
    """Generate tool calls: whole, cut anywhere, with odd arguments, without a name.

    Arguments:
        whole: whether every call has a name and a JSON object for arguments.
    """
    names = st.sampled_from(("look_up", "note"))
    ids = st.sampled_from(("call_1", "call_2", ""))
    values = st.sampled_from(("x", 1, None))
    objects = st.dictionaries(st.sampled_from(("path", "city", "n")), values, min_size=1)
    complete = objects.map(json.dumps)
    if whole:
        return st.builds(ToolCall, ids, names, complete)
    cut = st.builds(_beginning, complete, st.floats(0, 0.99))
    other = st.sampled_from(("", "[]", "null", "{}", '{"a": NaN}', "{'a': 1}"))
    any_name = st.one_of(names, st.just(""))
    return st.builds(ToolCall, ids, any_name, st.one_of(complete, cut, other))


def _beginning(text: str, share: float) -> str:
    return text[: int(len(text) * share)]


def replies() -> SearchStrategy[Reply]:
    """Generate replies of every kind: answers, tool calls, empty, cut, and misleading ones."""
    return first_or_often(_good_replies(), _bad_replies(), once_in=6)


def _good_replies() -> SearchStrategy[Reply]:
    """Generate replies that end a call."""
    calls = st.lists(tool_calls(whole=True), min_size=1, max_size=2).map(tuple)
    text = st.one_of(st.just(ANSWER), texts())
    text_or_none = st.one_of(st.just(""), text)
    answered = _reply("stop", text)
    called_tools = _reply("tool_calls", text_or_none, tool_calls=calls)
    refused = _reply("content_filter", text)
    return st.one_of(answered, called_tools, refused)


def _bad_replies() -> SearchStrategy[Reply]:
    """Generate replies that a call recovers from."""
    text = texts()
    no_text = st.just("")
    is_cut = st.just(True)
    thoughts = st.sampled_from(("First I look at the river.", " \n", "Then at its bank."))
    calls = st.lists(tool_calls(), min_size=1, max_size=2).map(tuple)
    some_text = st.one_of(no_text, text)
    blank = st.sampled_from(("", " ", "<think></think>"))
    nothing_visible = st.sampled_from(("", "\n", "<think>hm</think>"))

    empty = _reply("stop", blank)
    only_reasoned = _reply("stop", nothing_visible, reasoning=thoughts)
    truncated = _reply("length", text, reasoning=st.one_of(no_text, thoughts))
    reasoning_truncated = _reply("length", no_text, reasoning=thoughts)
    tools_truncated = _reply("length", no_text, tool_calls=calls)
    paused = _reply("paused", text)
    tokens = st.sampled_from(("one", "two"))
    paused |= _reply(
        "paused",
        some_text,
        interrupted=st.booleans(),
        continuation=tokens,
    )
    overflowed = _reply("overflow", text)
    interrupted = _reply(None, some_text, interrupted=is_cut)
    broken_off = _reply(None, text, interrupted=is_cut, failure=failures())
    unknown = _reply("unknown", text)
    return st.one_of(
        empty,
        only_reasoned,
        truncated,
        reasoning_truncated,
        tools_truncated,
        paused,
        overflowed,
        interrupted,
        broken_off,
        unknown,
        _talks_on(),
        _contradictory(text, thoughts, calls),
    )


def _contradictory(
    text: SearchStrategy[str],
    thoughts: SearchStrategy[str],
    calls: SearchStrategy[tuple[ToolCall, ...]],
) -> SearchStrategy[Reply]:
    """Generate replies whose fields have nothing to do with each other."""
    final_text = st.one_of(st.none(), text)
    tool_calls = st.one_of(st.just(()), calls)
    model = st.sampled_from((None, "a-model"))
    reasoning = st.one_of(st.just(""), thoughts)
    stop_reason = st.sampled_from((*STOP_REASONS, None))
    stop_raw = st.sampled_from((None, "stop", "eos", "a_new_word"))
    refusal = st.sampled_from((None, "I would rather not do that."))
    failure = st.one_of(st.none(), failures())
    return st.builds(
        Reply,
        text=text,
        final_text=final_text,
        tool_calls=tool_calls,
        usage=usages(),
        model=model,
        interrupted=st.booleans(),
        halted=st.booleans(),
        reasoning=reasoning,
        stop_reason=stop_reason,
        stop_raw=stop_raw,
        refusal=refusal,
        failure=failure,
    )


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
    reasons: SearchStrategy[StopReason | None] = st.sampled_from(("stop", "length", None))
    return st.builds(_story, counted, reasons)


def _story(usage: Usage, stop: StopReason | None) -> Reply:
    return Reply(STORY, usage=usage, stop_reason=stop, stop_raw=stop)


def failures() -> SearchStrategy[Failure]:
    """Generate failures of every reason, with and without `Retry-After`."""
    extremes = st.sampled_from((5e-324, 120.0, 1e9 - 1))
    waits = st.one_of(st.just(1.0), st.floats(0.001, 200.0), extremes)
    reason = st.sampled_from(PASSING) | st.sampled_from(MENDABLE) | st.sampled_from(REASONS)
    code = st.sampled_from((None, "rate_limit_exceeded", "insufficient_quota"))
    message = st.sampled_from(("", "The request was: kingfishers in winter"))
    parameter = st.sampled_from(
        ("temperature", "top_p", None, "max_tokens", "max_completion_tokens")
    )
    available_tokens = st.one_of(st.integers(1, MOST_TOKENS), st.none())
    asked_wait = seldom(waits)
    should_retry = seldom(st.booleans())
    return st.builds(
        Failure,
        reason=reason,
        status=st.sampled_from(STATUSES),
        code=code,
        message=message,
        asked_wait=asked_wait,
        should_retry=should_retry,
        parameter=parameter,
        available_tokens=available_tokens,
    )


@st.composite
def headers(draw: DrawFn) -> dict[str, str]:
    """Generate response headers with waits and limits in every notation, garbage included."""
    waits = st.sampled_from((*DURATIONS, *DATES))
    values: dict[str, str] = {}
    for name in draw(st.lists(st.sampled_from(WAIT_HEADERS), max_size=2, unique_by=str.lower)):
        values[name] = draw(waits)
    if draw(st.booleans()):
        values["x-should-retry"] = draw(st.sampled_from(("true", "false", "True", "perhaps")))
    for bucket in draw(st.lists(st.sampled_from(BUCKETS), max_size=2, unique=True)):
        values[f"x-ratelimit-remaining-{bucket}"] = draw(st.sampled_from(("0", "1", "-1", "")))
        values[f"x-ratelimit-reset-{bucket}"] = draw(waits)
    if draw(st.booleans()):
        values["date"] = DATES[0]
    return values


def plays() -> SearchStrategy[Played]:
    """Generate replies and failures that stream: cut anywhere, or failing after some text."""
    sizes = st.lists(st.integers(1, 40), max_size=3).map(tuple)
    streamed = st.one_of(st.none(), texts())
    cut = st.builds(Played, replies(), sizes)
    failing_late = st.builds(Played, failures(), sizes, streamed)
    streaming_other_text = st.builds(Played, replies(), sizes, streamed)
    return evenly(cut, failing_late, streaming_other_text)


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
    if items is None:
        stale_or_failed = evenly(failures(), st.just(STALE))
        bad: SearchStrategy[Scripted] = evenly(failures(), _bad_replies(), plays(), stale_or_failed)
        items = first_or_often(replies(), bad)
    run = st.tuples(items, st.integers(1, longest_run))
    return st.lists(run, min_size=1, max_size=longest).map(in_runs)


def in_runs(runs: list[tuple[T, int]]) -> list[T]:
    """Repeat each item as often as its run says."""
    return [item for item, times in runs for _ in range(times)]


def requests() -> SearchStrategy[Request]:
    """Generate requests: a prompt, a tool round, an open assistant turn, with or without a cap."""
    messages = st.sampled_from(
        (ASKED, TOOL_ROUND, ENDS_ON_ASSISTANT, WITH_SYSTEM, LOOKS_LIKE_A_PICTURE, MANY_MESSAGES)
    )
    parameters = st.sampled_from(({}, {}, {}, AS_JSON))
    tools = st.sampled_from(((), TOOLS))
    max_tokens = st.sampled_from((None, 1, 50, 4096, 50_000))
    input_tokens = st.sampled_from((None, 1_000))  # enough for each of them
    return st.builds(
        Request,
        # copied, since a careless compactor changes the messages that it gets
        messages=messages.map(deepcopy),
        parameters=parameters,
        tools=tools,
        max_tokens=max_tokens,
        input_tokens=input_tokens,
    )


def turns() -> SearchStrategy[TurnContext]:
    """Generate the turn contexts of calls."""
    answers = st.sampled_from(
        (None, "They nest in the bank; I have noted that.", " ", "<think>no answer</think>")
    )
    return st.builds(TurnContext, answers, st.booleans())
