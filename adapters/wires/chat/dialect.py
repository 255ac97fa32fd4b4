"""A dialect of chat completions: what one kind of server may do differently.

`dialects.py` has the table of those that are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from rungwise.fsm.replies.reply import StopReason

CapField = Literal["max_tokens", "max_completion_tokens"]

PrefillMode = Literal["no", "trailing", "prefix", "partial", "continue_final_message"]
"""How a trailing assistant turn is continued: not at all, unchanged, by a mark on it, or by flags
of the request.
"""

Count = Literal[
    "input", "output", "cache_read", "cache_creation", "cache_miss", "reasoning", "total"
]


def _model_pattern(pattern: str) -> str:
    return pattern.replace("~", "[-.]")


@frozen(kw_only=True)
class Dialect:
    """Describe how one kind of server differs from OpenAI's protocol, which the defaults follow.

    No server in the table omits the finish reason at the end of a reply, so a reply without one was
    cut. A caller who knows a server that omits it tells the backend.
    """

    # Regular expressions to search in the host of the URL (None if no URL identifies the server),
    # in its path, and in the model's id in lower case, where `~` stands for a dash or a dot.
    host: str | None = None
    path: str = ""
    model: str = field(default="", converter=_model_pattern)
    cap_field: CapField = "max_tokens"  # the field of a request that holds the output cap
    # how a turn is continued: a wrong "no" costs a user turn, a wrong "yes" a request
    prefill: PrefillMode = "no"
    echoes: bool = False  # whether a continued turn is repeated at the start of the answer
    # the exact number of letters and digits in the id of a tool call; None for any id
    id_length: int | None = None
    longest_id: int | None = None  # the most characters of a tool call's id; None for any number
    # The types of tools that the server runs itself, besides the protocol's own; `*` ends a prefix
    # of several.
    tool_types: str = ""
    # the types of message parts that it takes besides those that all servers do
    part_types: str = ""
    # Whether it may accept types that are not listed here; they are sent if the caller passes them
    # for this server.
    takes_other_tools: bool = True
    key_header: str = ""  # the header for a key, instead of a bearer token
    # what to add to a request for less reasoning, if it does not set any
    less_reasoning: Mapping[str, Any] = {}
    # The next lower `reasoning_effort` below "low" and "minimal" that is accepted.
    lower_efforts: Mapping[str, str] = {"low": "minimal", "minimal": "none"}
    # The only `reasoning_effort` beside which the model takes tools; "" if it takes no tools, None
    # if any effort goes.
    effort_with_tools: str | None = None
    reasoning_fields: str = ""  # where a message or a delta holds reasoning
    # other members of a message or a tool call that another server rejects, or cannot read
    own_fields: str = ""
    own_parts: str = ""  # the types of such parts of a message's content
    # Finish reasons by their meaning, in lower case and without the prefix of gRPC enumerations.
    finishes: Mapping[StopReason, str] = {}
    counts: Mapping[Count, str] = {}  # where a usage report holds each count
    usage_at: str = ""  # where else than in `usage` a body holds the usage report
    refusal_at: str = ""  # where else than in `refusal` a message or a choice holds a refusal
    # Where a body of status 200 shows that it is an error, and by which value; None for any value.
    error_at: Mapping[str, str | None] = {}

    def fits(self, host: str, path: str, model: str) -> bool:
        """Tell whether a backend is known to be of this kind."""
        if self.host is None or not re.search(self.host, host):
            return False
        return bool(re.search(self.path, path) and re.search(self.model, model))
