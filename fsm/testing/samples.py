"""Sample values that the strategies draw from: texts, statuses, waits, conversations, tools.

A sample stands here for one reason: some code once went wrong on it, or could. In a tuple, the
first value is the plainest, since Hypothesis shrinks to it. A value that stands twice comes twice
as often.
"""

from collections.abc import Sequence
from typing import get_args

from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.replies.reply import StopReason
from rungwise.fsm.testing.scripted import PROMPT

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
    "<|channel|>analysis<|message|>Let me see.<|end|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "```python\n",
    '{"nests": 2, "bank": "steep"}',
    '{"nests": "two"}',
    '{"nests": [2, ',
    "data: [DONE]\n\n",
)
"""Pieces of which texts are joined: with combining letters, inline reasoning, JSON, framing."""
STORY = " ".join(f"On day {day} the river rose by {day % 7} inches." for day in range(60))
"""More than a small cap allows."""
CIRCLES = "The same line again and again.\n" * 20
"""A model that repeats itself."""
DENSE = (str(7**3_000), "川蝉は冬も川の岸にいる。" * 60)
"""Texts of which some tokenizers make many tokens."""
MOST_TOKENS = 5_000
SHARES = ((0, 0, 0), (1, 0, 0), (3, 1, 4), (0, 4, 2))
"""Quarters of a usage: of the input read from a cache, of the input written to one, and of the
output spent on reasoning.
"""

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
"""Reasons that a retry may outlast."""
MENDABLE: tuple[Reason, ...] = (
    "output_cap",
    "prefill_unsupported",
    "parameter_unsupported",
    "reasoning_signature",
    "reasoning_missing",
    "wrong_endpoint",
    "context_overflow",
    "payload_too_large",
)
"""Reasons that a change of the request may remove."""
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
"""Values of `Retry-After` and its like, valid or not; 119 and 121 stand on either side of the
longest wait that a default policy accepts.
"""
DATES = (
    "Wed, 12 Nov 2025 10:00:00 GMT",
    "Wed, 12 Nov 2025 10:01:00 GMT",
    "2025-11-12T10:00:30Z",
    "yesterday",
)
WAIT_HEADERS = ("retry-after", "retry-after-ms", "x-ms-retry-after-ms", "Retry-After")
BUCKETS = ("requests", "tokens")
"""What the `x-ratelimit-*` headers count."""

ASKED: Sequence[PlainMessage] = ({"role": "user", "content": PROMPT},)
_LOOK_UP_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look_up", "arguments": "{}"},
}
TOOL_ROUND: Sequence[PlainMessage] = (
    *ASKED,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [_LOOK_UP_CALL],
    },
    {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "Two nests were seen in the steep bank.",
    },
)
ENDS_ON_ASSISTANT: Sequence[PlainMessage] = (
    *ASKED,
    {"role": "assistant", "content": "They nest in "},
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
"""Begins as a data URL does, so that a careless estimate counts it as a picture."""
MANY_MESSAGES: Sequence[PlainMessage] = (
    {"role": "user", "content": "ok"},
    {"role": "assistant", "content": "ok"},
) * 50
"""Little text and much overhead: each message costs tokens beside its text."""
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
AS_JSON = {"response_format": {"type": "json_object"}}
