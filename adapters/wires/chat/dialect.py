"""What a dialect of chat completions is: a row of the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from rungwise.fsm.call.conversation.reply import StopReason

CapField = Literal["max_tokens", "max_completion_tokens"]

PrefillMode = Literal["no", "trailing", "prefix", "partial", "continue_final_message"]
"""How a trailing assistant turn is continued: not at all, as it stands, by a mark on it, or by flags of the request."""

Count = Literal["input", "output", "cache_read", "cache_creation", "cache_miss", "reasoning", "total"]
Path = tuple[str, ...]
"""Where something stands in JSON: the names of the members that lead to it."""


def _model_pattern(pattern: str) -> str:
    return pattern.replace("~", "[-.]")


@frozen(kw_only=True)
class Dialect:
    """Hold what one kind of server does in its own way; what has its default follows OpenAI's protocol.

    Arguments:
        host: a regular expression that is found in the host of the URL; None where no URL tells.
        path: one that is found in the path of the URL.
        model: one that is found in the model's id in lower case; `~` stands for a dash or a dot.
        cap_field: the field of a request that holds the output cap.
        prefill: how a trailing assistant turn is continued. A wrong "no" costs a user turn, a wrong "yes" a request.
        echoes: whether a continued turn is repeated at the start of the answer.
        less_reasoning: what to add to a request for less reasoning, where it says nothing of that.
        id_length: how many letters and digits the id of a tool call must have, no more and no others; None for any id.
        longest_id: how many characters the id of a tool call may have at most; None for any number.
        tool_types: the types of tools that the server runs by itself, beside the protocol's own; `*` ends any that
            begin so.
        takes_other_tools: whether it may take types that nobody has put here; they go out where a caller has given them
            for this server.
        key_header: the header that a key goes out in, in the place of a bearer token.
        lower_efforts: the next lower `reasoning_effort` that is taken of "low" and "minimal".
        reasoning_fields: where a message or a delta holds reasoning.
        own_fields: other members of a message or a tool call that another server rejects, or cannot read.
        own_parts: the types of such parts of a message's content.
        finishes: finish reasons by their meaning, in lower case and without the prefix of gRPC enumerations.
        counts: where a usage report holds what.
        usage_at: where a body holds the usage report, beside `usage`.
        refusal_at: where a message or a choice holds a refusal, beside `refusal`.
        error_at: where a body of status 200 holds what makes it an error, and what stands there; None for anything.

    No server of the table leaves the finish reason out at the end of a reply, so that one without it was cut; a caller
    who knows of one that does says so to the backend.
    """

    host: str | None = None
    path: str = ""
    model: str = field(default="", converter=_model_pattern)
    cap_field: CapField = "max_tokens"
    prefill: PrefillMode = "no"
    echoes: bool = False
    id_length: int | None = None
    longest_id: int | None = None
    tool_types: str = ""
    takes_other_tools: bool = True
    key_header: str = ""
    less_reasoning: Mapping[str, Any] = {}
    lower_efforts: Mapping[str, str] = {"low": "minimal", "minimal": "none"}
    reasoning_fields: str = ""
    own_fields: str = ""
    own_parts: str = ""
    finishes: Mapping[StopReason, str] = {}
    counts: Mapping[Count, str] = {}
    usage_at: str = ""
    refusal_at: str = ""
    error_at: Mapping[str, str | None] = {}

    def fits(self, host: str, path: str, model: str) -> bool:
        """Tell whether a backend is known to be of this kind."""
        if self.host is None or not re.search(self.host, host):
            return False
        return bool(re.search(self.path, path) and re.search(self.model, model))
