"""Hypothesis strategies for scripts that `rungwise serve` can replay.

They shrink to one plain answer. A reply is drawn as its kind (what is wrong with it, one entry of
`_BAD` or `_ENDING`) and, apart from that, as the way in which it goes over the wire: in pieces,
late, or never to its end.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.adapters.wires.chat.dialects import STOP_REASONS
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.testing.samples import ANSWER, DENSE, STORY
from rungwise.fsm.testing.strategies import first_or_often, headers, seldom, texts, tool_calls

Fields = dict[str, SearchStrategy[Any]]
Kind = SearchStrategy[dict[str, Any]]

BUSY = (500, 429, 503, 529, 408, 502, 504, 404, 409, 599)
FINAL = (401, 402, 403, 400, 422, 302, 418, 999)
ODD_SUCCESSES = (201, 205)
UNKNOWN_FINISHES = (
    "a_new_word",
    "STOP_MAYBE",
    "FINISH_REASON_UNSPECIFIED",
    "null",
    "error",
    "network_error",
)
REJECTED_CAP = {
    "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    "param": "max_tokens",
}
FIXABLE = (
    {"message": "Unsupported parameter: 'temperature' is not supported with this model."},
    REJECTED_CAP,
    {"message": "max_tokens: 9000 > 900, which is the maximum", "type": "invalid_request_error"},
    {"message": "This model does not support assistant message prefill."},
    {"message": "Corrupted thought signature."},
)
REJECTED_CAPS = (
    REJECTED_CAP,
    {
        "message": "Unsupported parameter: 'max_completion_tokens'.",
        "param": "max_completion_tokens",
    },
)
"""What a server answers that accepts neither name of the output cap."""
TOO_LONG = (
    {"message": "maximum context length is 4097 tokens", "code": "context_length_exceeded"},
    {"message": "prompt is too long: 210000 tokens > 200000 maximum"},
)
OTHER_ERRORS = (
    {
        "message": "Please try again in 20s.",
        "type": "tokens",
        "code": "rate_limit_exceeded",
    },
    {"message": "Please try again in 6m0s.", "code": 429},
    {"message": "You exceeded your current quota", "code": "insufficient_quota"},
    {"message": "flagged by the content management policy", "code": "content_filter"},
    {"message": "The server is overloaded.", "type": "overloaded_error"},
    {"message": ""},
)
BODIES = (
    "",
    "{}",
    "[]",
    "null",
    "<html><body>Bad gateway</body></html>",
    '{"choices": []}',
    '{"choices": [{"index": 0, "message": {"role": "assistant", "content": ["x", {"text": 5}]}}]}',
    '{"choices": [{"index": 0, "message": {"role": "assistant", "content": "An answer."}, '
    '"finish_reason": 7}]}',
    '{"error": {"message": "overloaded", "type": "overloaded_error"}}',
    '{"choices": [{"message": {"content": "\\ud83d"}, "finish_reason": "\\udc00"}], "usage": '
    '{"prompt_tokens": NaN}}',
    "data: [DONE]\n\n",
    'data: {"choices": [{"index": 0, "delta": {"content": "An an"}}]}\n\ndata: {"choices": [{"ind',
    'event: error\ndata: {"error": "gone"}\n\n',
    ": a comment\n\n\n\n",
)
UNHEEDING: tuple[dict[str, Any], ...] = (
    {},
    {"prompt_tokens": 9, "completion_tokens": 50_000},
    {
        "prompt_tokens": 9,
        "completion_tokens": 700,
        "prompt_tokens_details": {"cache_creation_tokens": 9},
    },
)
"""The usage of a provider that takes no notice of the cap."""
LONGEST_DELAY = 100.0  # seconds
WIDEST_CUT = 1_500  # bytes of a body before it breaks off
MOST_ODDITIES = 3
MOST_MANNERS = 3
LONG = "The kingfishers nest in the steep bank, well above the water."
LOOK = ToolCall("call_1", "look_up", '{"city":"Oslo","n":1}')

TEXTS = texts()
THOUGHTS = st.sampled_from(("First I look at the river.", "Then at its bank. ", " "))
WHOLE_CALLS = st.lists(tool_calls(whole=True), min_size=1, max_size=2)
CALLS = st.lists(tool_calls(), min_size=1, max_size=2)


def manners(api: str, *, streams: bool = True) -> SearchStrategy[tuple[str, ...]]:
    """Generate up to three manners that can be combined.

    Arguments:
        api: the protocol, which has them.
        streams: whether a reply that is streamed has them, or one in one piece.
    """
    moving = defaultdict(list)
    for name, manner in MANNERS.items():
        if manner.is_in(api, streams=streams):
            moving[manner.moves].append(st.just(name))
    moved = st.lists(st.sampled_from(sorted(moving)), max_size=MOST_MANNERS, unique=True)
    return moved.flatmap(lambda each: st.tuples(*[st.one_of(moving[what]) for what in each]))


@st.composite
def _usages(draw: DrawFn) -> dict[str, Any]:
    """Generate a usage as providers write it, also one beyond the cap."""
    counts = st.integers(0, 9_000)
    usage: dict[str, Any] = {"prompt_tokens": draw(counts), "completion_tokens": draw(counts)}
    if draw(st.booleans()):
        kind = draw(st.sampled_from(("cached_tokens", "cache_creation_tokens")))
        usage["prompt_tokens_details"] = {kind: draw(counts)}
        usage["completion_tokens_details"] = {"reasoning_tokens": draw(counts)}
    return usage


def _kind(fixed: Fields, optional: Fields | None = None) -> Kind:
    return st.fixed_dictionaries(fixed, optional=optional or {})


def _finish(*words: str) -> SearchStrategy[str]:
    return st.sampled_from(words)


_ODDITIES: Fields = {
    "text": TEXTS,
    "reasoning": THOUGHTS,
    "tool_calls": CALLS,
    "finish": _finish("", "length", "tool_calls", *sorted(STOP_REASONS)),
    "usage": st.just({}) | _usages(),
    "done": st.just(False),
    "final_message": st.just(True) | TEXTS,
    "error_event": st.sampled_from((*OTHER_ERRORS, *TOO_LONG, *FIXABLE)),
    "reasoning_field": st.sampled_from(("reasoning", "reasoning_text", "reasoning_details")),
    "refusal": st.just("I would rather not."),
    "model": st.just("another-model"),
}


@st.composite
def _anything(draw: DrawFn) -> dict[str, Any]:
    """Generate the content of a reply, not too much at once."""
    names = draw(st.lists(st.sampled_from(tuple(_ODDITIES)), max_size=MOST_ODDITIES, unique=True))
    return {name: draw(_ODDITIES[name]) for name in names}


_USAGE: Fields = {"usage": _usages()}
# pieces that are long enough: in any manner they can be read
_MANNER: Fields = {"manner": manners("openai"), "chunk_size": st.just(9)}
_HEADERS: Fields = {"headers": headers()}
_BAD: tuple[Kind, ...] = (
    _kind({"text": st.sampled_from(("", " \n", "<think></think>"))}, _USAGE),
    _kind({"reasoning": THOUGHTS, "text": st.sampled_from(("", "\n"))}, _USAGE),
    _kind({"text": st.sampled_from(("<think>hm</think>", "<think>a thought without an end"))}),
    _kind({"text": TEXTS, "finish": _finish("length", "max_tokens")}, _USAGE),
    _kind({"text": TEXTS, "finish": _finish("length")}, {"reasoning": THOUGHTS}),
    _kind({"text": st.sampled_from(DENSE), "finish": _finish("length")}),
    _kind({"reasoning": THOUGHTS, "finish": _finish("length")}),
    _kind({"tool_calls": CALLS}, {"finish": _finish("length"), "text": TEXTS}),
    _kind({"text": TEXTS, "finish": _finish("pause_turn", "compaction")}),
    _kind({"text": TEXTS, "finish": _finish(*UNKNOWN_FINISHES)}),
    _kind({"text": TEXTS, "finish": _finish("model_context_window_exceeded")}),
    _kind(
        {
            "text": TEXTS,
            "finish": _finish(""),
            "done": st.just(False),
        }
    ),
    _kind(
        {"text": TEXTS, "cut_after": st.integers(0, WIDEST_CUT)},
        {"reasoning": THOUGHTS, "tool_calls": WHOLE_CALLS},
    ),
    _kind(
        {"text": TEXTS, "error_event": st.sampled_from((*OTHER_ERRORS, *TOO_LONG, *FIXABLE))},
        _HEADERS,
    ),
    _kind(
        {"text": TEXTS, "refusal": st.just("I would rather not.")},
        {"finish": _finish("", "stop", "length")},
    ),
    _kind(
        {"text": st.just(STORY), "finish": _finish("stop", "length", "")},
        {"usage": st.sampled_from(UNHEEDING)},
    ),
    _kind({"status": st.sampled_from(BUSY)}, _HEADERS),
    _kind({"status": st.sampled_from((400, 422, 200)), "error": st.sampled_from(FIXABLE)}),
    _kind({"status": st.sampled_from((400, 413, 500)), "error": st.sampled_from(TOO_LONG)}),
    _kind(
        {"status": st.sampled_from((429, 400, 503, 200)), "error": st.sampled_from(OTHER_ERRORS)},
        _HEADERS,
    ),
    _kind({"body": st.sampled_from(BODIES)}, {"status": st.sampled_from((*ODD_SUCCESSES, *BUSY))}),
    _anything(),
)
_ENDING: tuple[Kind, ...] = (
    _kind({"text": st.just(ANSWER)}),
    _kind({"text": TEXTS}, _USAGE),
    _kind({"tool_calls": WHOLE_CALLS}, {"text": TEXTS, **_USAGE}),
    _kind({"text": st.just(LONG), **_MANNER}),
    _kind({"tool_calls": st.just([LOOK]), **_MANNER}),
    _kind({"text": TEXTS, "finish": _finish("content_filter")}),
    _kind({"refusal": st.just("I would rather not.")}),
    _kind({"status": st.sampled_from(FINAL)}, _HEADERS),
)


def scripted_replies(*, hangs: bool = True, delays: bool = True) -> SearchStrategy[ScriptedReply]:
    """Generate good and bad replies; over HTTP, those that hang or come late take that long."""
    contents = first_or_often(st.one_of(*_ENDING), st.one_of(*_BAD), once_in=6)
    return st.builds(_reply_of, contents, _wire(hangs=hangs, delays=delays))


def _reply_of(contents: dict[str, Any], wire: dict[str, Any]) -> ScriptedReply:
    return ScriptedReply(**{**wire, **contents})


def _wire(*, hangs: bool, delays: bool) -> Kind:
    """Generate how a reply is cut into pieces, and how late they come."""
    sizes = st.lists(st.integers(1, 200), min_size=1, max_size=3)
    ways: Fields = {"chunk_size": st.integers(1, 40), "write_sizes": sizes}
    if delays:
        ways["delay"] = st.floats(0, LONGEST_DELAY)
        ways["chunk_delay"] = st.floats(0, 1.0)
        ways["lasts"] = st.floats(0, LONGEST_DELAY)
    if hangs:
        ways["hang"] = st.just(True)
    one_way = st.one_of([_kind({name: value}) for name, value in ways.items()])
    return seldom(one_way).map(lambda fields: fields or {})


def scripts(*, items: SearchStrategy[ScriptedReply] | None = None) -> SearchStrategy[Script]:
    """Generate scripts of runs of equal replies, the last one for ever.

    Arguments:
        items: generates one reply; `scripted_replies()` where None.
    """
    if items is None:
        items = scripted_replies()
    run = st.builds(lambda reply, times: [reply] * times, items, st.integers(1, 5))
    capless = st.just([ScriptedReply(status=400, error=error) for error in REJECTED_CAPS])
    mostly = st.integers(0, 19).flatmap(lambda chance: capless if chance == 19 else run)
    return st.lists(mostly, min_size=1, max_size=8).map(_joined)


def _joined(runs: list[list[ScriptedReply]]) -> Script:
    return Script([reply for run in runs for reply in run])
