"""What came back from one attempt: which event of the machine it is, and what the rest of a call must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from rungwise.fsm.call.conversation.reading import ReadReply
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.text.blank import is_blank

ANSWERS: Final = frozenset({"answered", "called_tools"})
"""The events that are a success, and the only ones."""


@frozen(kw_only=True)
class Observation:
    """Hold one reply or failure as the machine and the answer take it; a journal may keep its `evidence`.

    Arguments:
        evidence: the event, and what a journal may tell of it.
        part: the visible text that is kept, as it came.
        new: what of that was not in the answer yet.
        spare: cut text that is too short to continue from, kept in case nothing else comes.
        unsays: whether it shows the text gathered so far to be reasoning.
        reasoning: all its reasoning, structured and inline.
        thinks_inline: whether some of that came in inline tags.
        cap: the output cap that was sent, in tokens.
        overran: whether the reply is longer than that cap, where a budget rests on it.
        backend: the index of the backend in the chain.
        delivered: the text that the attempt handed to the consumer.
        reply: the reply, if one came.
        failure: why none came, or what cut it.
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

    @property
    def event(self) -> str:
        """Return the event of the machine."""
        return self.evidence.event

    @property
    def is_answer(self) -> bool:
        """Tell whether it is a success."""
        return self.evidence.event in ANSWERS

    @property
    def adds_text(self) -> bool:
        """Tell whether it brought text that is kept, was not there yet, and shows anything."""
        return not is_blank(self.new)

    @property
    def has_delivered(self) -> bool:
        """Tell whether the attempt handed out text that shows anything."""
        return not is_blank(self.delivered)

    @property
    def found(self) -> str | None:
        """Return what came in place of a reply, if that is known."""
        return self.failure.found if self.failure is not None and self.event == "malformed" else None


_BY_CAUSE: Final[Mapping[str, str]] = {"content_policy": "refused", "silence": "fell_silent"}
"""The event of a reply that broke off, by the reason of its failure; `interrupted` for any other."""

_BY_STOP: Final[Mapping[str | None, str]] = {"content_filter": "refused", "overflow": "overflowed"}
"""The events that a stop reason decides, whatever the reply holds."""

_BY_STOP_WITHOUT_CALLS: Final[Mapping[str | None, str]] = {
    **dict.fromkeys(("unknown", "error", "tool_calls"), "malformed"),
    "paused": "paused",
}
"""The events that a stop reason decides for a reply without tool calls, if no cap cut it."""


def event_of_reply(read: ReadReply, cap: int | None, *, expects_json: bool = False) -> str:
    """Return the event that a reply is; the first rule that fits decides.

    Arguments:
        read: the reply.
        cap: the output cap in tokens that was sent, or None.
        expects_json: whether the request asked for JSON, so that anything else is no answer.
    """
    reply, is_cut = read.reply, was_cut(read.reply, cap)
    if read.refuses:
        return "refused"  # whatever else broke or came: the model has said no
    if reply.interrupted and not (is_cut and _broke_off_at_cap(reply)):
        return "interrupted" if reply.failure is None else _BY_CAUSE.get(reply.failure.reason, "interrupted")
    if reply.stop_reason in _BY_STOP:
        return _BY_STOP[reply.stop_reason]
    if reply.tool_calls:
        return _event_of_calls(read, is_cut=is_cut)
    if is_cut:
        return _event_of_cut(read, expects_json=expects_json)
    return _BY_STOP_WITHOUT_CALLS.get(reply.stop_reason) or _event_of_whole(read, expects_json=expects_json)


def _broke_off_at_cap(reply: Reply) -> bool:
    """Tell whether a stream that used up its cap was cut by it: nothing says why it stopped or what broke."""
    return reply.stop_reason is None and reply.failure is None and not reply.tool_calls


def _event_of_calls(read: ReadReply, *, is_cut: bool) -> str:
    if is_cut or not read.has_whole_calls:
        return "tools_truncated"
    return "malformed" if read.reply.stop_reason in ("unknown", "error") else "called_tools"


def _event_of_cut(read: ReadReply, *, expects_json: bool) -> str:
    if read.is_blank:
        return "reasoning_truncated"
    return "json_truncated" if expects_json else "truncated"


def _event_of_whole(read: ReadReply, *, expects_json: bool) -> str:
    if not read.is_blank:
        return "answered" if read.is_json else "malformed"
    if read.reply.has_media:
        return "malformed" if expects_json else "answered"  # a picture is an answer as well
    return "only_reasoned" if read.reasons else "came_empty"


def was_cut(reply: Reply, cap: int | None) -> bool:
    """Tell whether the output cap cut a reply, even where the finish reason hides it.

    Servers report `tool_calls`, a word of their own or nothing at all for a reply that the cap has cut; then the number
    of output tokens tells.
    """
    if reply.stop_reason == "length":
        return True
    hides = reply.stop_reason in (None, "unknown", "tool_calls")
    return hides and cap is not None and not reply.usage.estimated and reply.usage.output_tokens >= cap
