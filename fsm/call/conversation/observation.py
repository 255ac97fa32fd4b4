"""What came back from one attempt: which event of the machine it is, and what the rest of a call must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Factory, field

from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply, has_media
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.text.json_text import is_json
from rungwise.fsm.values.records import draft_of, record


@record(kw_only=True)
class Observation:
    """Hold one observed reply or failure, texts and all; its `evidence` is the part that a journal may keep.

    Arguments:
        evidence: the event, and what a journal may tell of it.
        part: the visible text that is kept, as it came.
        new: what of that had not been said.
        spare: cut text that is too little to go on from, kept for want of anything else.
        unsays: whether it shows that the text gathered before it was reasoning.
        reasoning: all its reasoning, structured and inline.
        thinks_inline: whether some of it came in inline tags.
        cap: the output cap that was sent, in tokens.
        overran: whether the reply is longer than that, where a budget rests on it.
        backend: the index of the backend in the chain.
        delivered: what the attempt had handed to the consumer.
        reply: the reply, if one came.
        failure: why none came, or what cut it.
        event: the event of the machine that it is, as the evidence has it.
    """

    evidence: Evidence
    part: str = field(default="", repr=False)
    new: str = field(default="", repr=False)
    spare: str = field(default="", repr=False)
    unsays: bool = False
    reasoning: str = field(default="", repr=False)
    thinks_inline: bool = False
    cap: int | None = None
    overran: bool = False
    backend: int = 0
    delivered: str = field(default="", repr=False)
    reply: Reply | None = None
    failure: Failure | None = None
    event: str = field(
        default=Factory(lambda self: self.evidence.event, takes_self=True), init=False, eq=False, repr=False
    )

    @property
    def found(self) -> str | None:
        """Return what came in the place of a reply, where that is known."""
        return self.failure.found if self.failure is not None and self.event == "malformed" else None


new_observation = draft_of(Observation)


Tools = tuple[Mapping[str, Any], ...]


def classify_reply(
    reply: Reply,
    *,
    visible: str,
    reasoning: str,
    cap: int | None,
    tools: Tools = (),
    expects_json: bool = False,
    shapes: Shapes = NEUTRAL,
) -> str:
    """Return the event that a reply is.

    Arguments:
        reply: the reply, as the adapter read it.
        visible: its text without inline reasoning.
        reasoning: all its reasoning, structured and inline.
        cap: the output cap in tokens that was sent, or None.
        tools: the tool definitions of the request, for calls that come without arguments.
        expects_json: whether the request asked for JSON, so that anything else is no answer.
        shapes: how the tools are written.
    """
    if reply.refusal and not is_blank(reply.refusal):
        return "refused"  # whatever else broke or came: the model has said no
    # A provider that has counted up to the cap, and says neither why it stopped nor what broke, was cut by the cap.
    says_nothing = reply.stop_reason is None and reply.failure is None
    if reply.interrupted and not (says_nothing and not reply.tool_calls and was_cut(reply, cap)):
        return _CUT_BY.get(reply.failure.reason, "interrupted") if reply.failure is not None else "interrupted"
    if reply.stop_reason == "content_filter":
        return "refused"
    if reply.stop_reason == "overflow":
        return "overflowed"
    if reply.tool_calls:
        return _classify_tool_calls(reply, cap, tools, shapes)
    if was_cut(reply, cap):
        if is_blank(visible):
            return "reasoning_truncated"
        return "json_truncated" if expects_json else "truncated"
    if reply.stop_reason in ("unknown", "error", "tool_calls"):
        return "malformed"
    if reply.stop_reason == "paused":
        return "paused"
    if not is_blank(visible):
        return "answered" if not expects_json or is_json(visible) else "malformed"
    if has_media(reply):
        return "malformed" if expects_json else "answered"  # a picture is an answer as well
    return "came_empty" if is_blank(reasoning) else "only_reasoned"


_CUT_BY: Mapping[str, str] = {"content_policy": "refused", "silence": "fell_silent"}
"""What a reply is that broke off for a reason of its own."""


def _classify_tool_calls(reply: Reply, cap: int | None, tools: Tools, shapes: Shapes) -> str:
    if was_cut(reply, cap) or not all(is_complete(call, tools, shapes) for call in reply.tool_calls):
        return "tools_truncated"
    return "malformed" if reply.stop_reason in ("unknown", "error") else "called_tools"


def was_cut(reply: Reply, cap: int | None) -> bool:
    """Tell whether the output cap cut a reply, also where the finish reason hides it.

    Servers report `tool_calls`, a word of their own or nothing at all for a reply that the cap has cut; then the number
    of output tokens tells.
    """
    if reply.stop_reason == "length":
        return True
    hides = reply.stop_reason in (None, "unknown", "tool_calls")
    return hides and cap is not None and not reply.usage.estimated and reply.usage.output_tokens >= cap


def is_complete(call: ToolCall, tools: Tools, shapes: Shapes = NEUTRAL) -> bool:
    """Tell whether a tool call can be handed out: it has a name, and its arguments are one whole JSON object.

    No arguments at all are complete only for a tool whose definition requires none.
    """
    import orjson  # which an answer in words does without

    if is_blank(call.name):
        return False
    if not call.arguments.strip():
        return shapes.needs_no_arguments(call.name, tools)
    try:
        return isinstance(orjson.loads(call.arguments), dict)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False
