"""Turn what came back into an observation: its event, which of its text is new, and what the
attempt is counted as.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.changes import GOES_ON
from rungwise.fsm.call.conversation.observation import ANSWERS, UNCLEAR, Observation
from rungwise.fsm.call.conversation.parameters import asks_for_nothing
from rungwise.fsm.call.conversation.reading import (
    ReadReply,
    is_too_little,
    joined_reply,
    read_reply,
)
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.delivery import Delivery
from rungwise.fsm.call.run.repairs import repair_for
from rungwise.fsm.call.run.sending import Sender
from rungwise.fsm.call.table import KEEPS_TEXT
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure, event_of_cut, event_of_failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.contents import ends_within_sentence, is_blank
from rungwise.fsm.values.usage import Usage

if TYPE_CHECKING:
    from rungwise.fsm.replies.decisions.open_questions import OpenQuestions

CUT_OFF: Final = ("interrupted", "fell_silent")
"""The events of a reply that did not reach its end."""

_BY_STOP: Final[Mapping[str | None, str]] = {"content_filter": "refused", "overflow": "overflowed"}
"""The events that a stop reason decides, whatever the reply holds."""

_BY_STOP_WITHOUT_CALLS: Final[Mapping[str | None, str]] = {
    **dict.fromkeys(("unknown", "error", "tool_calls"), "malformed"),
    "paused": "paused",
}
"""The events that a stop reason decides for a reply without tool calls, if no cap cut it."""


def observe(
    came: Reply | Failure,
    proposal: Proposal,
    transcript: Transcript,
    counter: TokenCounter,
    delivered: str,
) -> Observation:
    """Observe what came back for a proposal; the transcript stays as it is.

    Arguments:
        came: the reply, or why there is none.
        proposal: what was sent.
        transcript: the conversation.
        counter: counts what nobody reported.
        delivered: the visible text that was handed to the consumer.
    """
    reply: Reply | None
    failure: Failure | None
    if isinstance(came, Reply):
        reply = came
        failure = came.failure
    else:
        reply = None
        failure = came
    if failure is not None and failure.message:
        from rungwise.fsm.call.run.quoting import quoted  # for errors alone

        failure = quoted(failure, proposal, reply, delivered)
    if reply is None and not is_blank(delivered):  # the failure has cut what was handed out
        reply = Reply(delivered, interrupted=True, failure=failure)
    usage, overran = counter.usage_of(proposal, reply, failure)
    send = proposal.send
    sent: dict[str, Any] = {
        "cap": send.max_tokens,
        "overran": overran,
        "backend": send.backend,
        "delivered": delivered,
        "failure": failure,
    }
    if isinstance(came, Reply):
        resolved = proposal.for_backend
        if send.continuation is not None:
            came = joined_reply(came, resolved.shapes, transcript.changes.paused)
        came, sent["answered_by"] = resolved.answer_in(came)
        read = read_reply(
            came,
            proposal.reading,
            transcript.answer.gathered,
            may_unsay=transcript.answer.may_be_reasoning,
            expects_json=resolved.expects_json,
            tools=proposal.send.request.tools,
            shapes=resolved.shapes,
        )
        if failure is None or not read.is_mere_error:
            return _observe_reply(read, proposal, transcript, usage, sent)
        reply = None
    assert failure is not None
    if reply is None:
        return _observe_failure(failure, proposal, transcript, usage, sent)
    return _observe_cut(reply, failure, proposal, usage, sent)


def _observe_reply(
    read: ReadReply, proposal: Proposal, transcript: Transcript, usage: Usage, sent: dict[str, Any]
) -> Observation:
    """Observe a reply: its event, and whether its text is kept, or spare, or dropped.

    Arguments:
        read: the reply as it was read.
        proposal: what was sent.
        transcript: the conversation.
        usage: the tokens of the attempt.
        sent: what is known of the attempt, whatever came back: fields of `Observation`.
    """
    resolved = proposal.for_backend
    event = _event_of(read, proposal, transcript)
    is_spare = False
    if event == "truncated":
        is_spare = read.is_too_little and not resolved.asks_for_little
        if is_spare and (read.reasoning or usage.reasoning_tokens):
            event = "reasoning_truncated"  # the cap was spent on something else
    elif event in CUT_OFF:
        is_spare = read.is_too_little or read.adds_too_little
    # Blanks that a cut leaves behind are no text: the request that follows is the same, and brings
    # them again.
    is_kept = not is_spare and _keeps(proposal, event) and (event in ANSWERS or not read.is_blank)
    repair = None
    if event == "paused" and read.reply.continuation is not None:
        is_kept = True
        repair = None if read.reply.stop_reason == "length" else GOES_ON
    part = new = spare = ""
    if is_kept:
        part = read.visible
        new = read.new
    elif event in (UNCLEAR, "failed_permanently"):
        spare = read.gathered + read.new  # it may be whole, so it stands for what it continues too
    elif is_spare and not resolved.expects_json:
        spare = read.visible
    return Observation(
        evidence=_evidence(event, usage, proposal, read.reply.failure, read.reply, repair),
        part=part,
        new=new,
        spare=spare,
        unsays=read.unsays,
        reasoning=read.reasoning,
        thinks_inline=read.thinks_inline and event not in ANSWERS,
        reply=read.reply,
        **sent,
    )


def _event_of(read: ReadReply, proposal: Proposal, transcript: Transcript) -> str:
    """Classify a reply by itself, and then by the text that it continues."""
    resolved = proposal.for_backend
    token = read.reply.continuation
    if token is not None and not (read.refuses or resolved.asks_for_little):
        # the same token once more leads nowhere
        return "failed_permanently" if token == proposal.send.continuation else "paused"
    event = event_of_reply(read, proposal.send.max_tokens, expects_json=resolved.expects_json)
    is_prefilled = proposal.send.prefill and not proposal.reading.seed
    is_native = is_prefilled or transcript.changes.is_paused
    was_whole = is_native and read.continues_text and read.reply.stop_reason in ("stop", None)
    if event == "came_empty" and (was_whole or asks_for_nothing(proposal.send.parameters)):
        event = "answered"  # the text was whole, and there was nothing left to say
    was_doubted = read.continues_text and transcript.changes.doubted_at == len(read.gathered)
    if event in ("came_empty", "only_reasoned") and was_doubted:
        event = "answered"  # the backend had called the text whole, and nothing follows it
    may_hide = event == "answered" and resolved.link.hides_cuts
    return "truncated" if may_hide and _may_be_cut(read, proposal, transcript) else event


def _may_be_cut(read: ReadReply, proposal: Proposal, transcript: Transcript) -> bool:
    """Tell whether a reply looks cut that its backend calls whole. One is doubted in a call, no
    more.
    """
    resolved = proposal.for_backend
    cap = proposal.send.max_tokens
    usage = read.reply.usage
    was_doubted = transcript.changes.doubted_at is not None
    if was_doubted or resolved.asks_for_little or resolved.expects_json:
        return False
    fills_cap = cap is not None and not usage.estimated and usage.output_tokens >= cap
    is_called_whole = read.reply.stop_reason == "stop" and not read.is_too_little
    return fills_cap and is_called_whole and ends_within_sentence(read.visible)


def event_of_reply(read: ReadReply, cap: int | None, *, expects_json: bool = False) -> str:
    """Return the event that a reply is, under the output cap that was sent; the first rule that
    fits decides.
    """
    reply = read.reply
    is_cut = was_cut(reply, cap)
    if read.refuses:
        return "refused"  # whatever else broke or came: the model has said no
    gives_no_reason = reply.stop_reason is None and reply.failure is None and not reply.tool_calls
    # one that used up its cap was cut by it
    if reply.interrupted and not (is_cut and gives_no_reason):
        return event_of_cut(reply.failure)
    if reply.stop_reason in _BY_STOP:
        return _BY_STOP[reply.stop_reason]
    if reply.tool_calls and (is_cut or not read.has_whole_calls):
        return "tools_truncated"
    if reply.stop_reason == "unknown" and not (is_cut or read.is_blank):
        return UNCLEAR  # so its tool calls are not handed out: the word may have called them off
    if reply.tool_calls:
        return "malformed" if reply.stop_reason in ("unknown", "error") else "called_tools"
    if is_cut and read.is_blank:
        return "reasoning_truncated"
    if is_cut:
        return "json_truncated" if expects_json else "truncated"
    # A call of a tool that the provider runs itself comes with its own answer.
    calls_own_tools = reply.stop_reason == "tool_calls" and reply.has_own_answer
    if reply.stop_reason in _BY_STOP_WITHOUT_CALLS and not calls_own_tools:
        return _BY_STOP_WITHOUT_CALLS[reply.stop_reason]
    if reply.has_own_answer or not read.is_blank:
        return "answered"
    if reply.has_media:
        return "malformed" if expects_json else "answered"  # a picture is an answer as well
    return "only_reasoned" if read.reasons else "came_empty"


def was_cut(reply: Reply, cap: int | None) -> bool:
    """Tell whether the output cap cut a reply; where servers hide that, the number of output tokens
    tells.
    """
    if reply.stop_reason == "length":
        return True
    may_hide_it = reply.stop_reason in (None, "unknown", "tool_calls")
    if cap is None or not may_hide_it or reply.usage.estimated:
        return False
    return reply.usage.output_tokens >= cap


def _observe_failure(
    failure: Failure, proposal: Proposal, transcript: Transcript, usage: Usage, sent: dict[str, Any]
) -> Observation:
    """Classify a failure and name the repair that it allows, if any.

    Arguments:
        failure: why there is no reply.
        proposal: what was sent.
        transcript: the conversation.
        usage: the tokens of the attempt.
        sent: what is known of the attempt, whatever came back: fields of `Observation`.
    """
    repair = repair_for(failure, proposal, transcript)
    event = event_of_failure(failure)
    may_renew_key = failure.status == 401 and proposal.for_backend.link.renews_key
    if may_renew_key and "key" not in transcript.changes.repaired:
        event = "rejected_fixably"
        repair = "key"
    found = failure.found if repair is None else None
    evidence = _evidence(event, usage, proposal, failure, repair=repair)
    return Observation(evidence=evidence, found=found, **sent)


def _observe_cut(
    reply: Reply, failure: Failure, proposal: Proposal, usage: Usage, sent: dict[str, Any]
) -> Observation:
    """Take a failure after text was handed out for a cut: that text is a part of the answer, unless
    it was refused.

    Arguments:
        reply: the text that was handed out.
        failure: what cut it.
        proposal: what was sent.
        usage: the tokens of the attempt.
        sent: what is known of the attempt, whatever came back: fields of `Observation`.
    """
    text = reply.text
    event = event_of_failure(failure)
    if event not in ("refused", "fell_silent"):
        event = "interrupted"
    is_spare = event != "refused" and is_too_little(text)
    part = spare = ""
    if is_spare:
        if not proposal.for_backend.expects_json:
            spare = text
    elif _keeps(proposal, event):
        part = text
    return Observation(
        evidence=_evidence(event, usage, proposal, failure),
        part=part,
        new=part,
        spare=spare,
        reply=reply,
        **sent,
    )


def _keeps(proposal: Proposal, event: str) -> bool:
    """Tell whether the text of an event is a part of the answer."""
    if proposal.for_backend.expects_json and event not in ANSWERS:
        return False
    if proposal.for_backend.asks_for_little and event in CUT_OFF:
        return False
    return event in KEEPS_TEXT


def _evidence(
    event: str,
    usage: Usage,
    sent: Proposal,
    failure: Failure | None,
    reply: Reply | None = None,
    repair: str | None = None,
) -> Evidence:
    """Return what a journal may keep of an attempt: no word of a provider that might be private.

    Arguments:
        event: the event of the machine.
        usage: the tokens of the attempt.
        sent: what was sent, whose secrets are not shown.
        failure: why there is no reply, or what cut it.
        reply: the reply, for its stop reason.
        repair: the repair that the failure allows.
    """
    stop_raw = None
    if reply is not None:
        stop_raw = sent.shown(reply.stop_raw, is_known=reply.stop_reason not in (None, "unknown"))
    if failure is None:
        return Evidence(event, usage, stop_raw, repair=repair)
    return Evidence(
        event=event,
        usage=usage,
        stop_raw=stop_raw,
        status=failure.status,
        reason=failure.reason,
        code=sent.shown(failure.code),
        asked_wait=failure.asked_wait,
        repair=repair,
    )


class ReplyReader:
    """Observe each reply of a call."""

    __slots__ = ("_checked", "_context", "_counter", "_delivery", "_observed")

    def __init__(self, context: CallContext, counter: TokenCounter, delivery: Delivery) -> None:
        self._context = context
        self._counter = counter
        self._delivery = delivery
        # what came back last, until the call has taken it
        self._observed: tuple[Reply | Failure, Proposal, Observation] | None = None
        self._checked: Observation | None = None  # the same, once it was checked

    def observe(self, reply: Reply | Failure, sender: Sender) -> Observation:
        """Observe what came back of what is in flight, once, before anything of the caller's checks
        it. It raises as `Call.receive` does.
        """
        if not isinstance(reply, (Reply, Failure)):
            raise ConfigurationError(
                f"reply must be a Reply or a Failure, not {type(reply).__name__}"
            )
        proposal = sender.ensure_sent()
        if self._observed is None or self._observed[0] is not reply:
            transcript = self._context.transcript
            failure = reply if isinstance(reply, Failure) else reply.failure
            delivered = self._delivery.close(failure)
            observation = observe(reply, proposal, transcript, self._counter, delivered)
            self._observed = (reply, proposal, observation)
            self._checked = None
        return self._observed[-1]

    def checked(self) -> Observation:
        """Return what was observed, with what checks of the caller's say of an answer, once."""
        assert self._observed is not None
        if self._checked is None:
            _, proposal, observation = self._observed
            gathered = self._context.transcript.answer.gathered
            judge = self._context.judge
            if judge.returns is None or not judge.returns.is_decision:
                self._checked = judge.checked(observation, proposal, gathered)
                return self._checked
            # decisions are for those who ask for them
            from rungwise.fsm.call.run.deciding import decided

            bar = self._context.policy.confidence or 0.0
            asked = cast("OpenQuestions", judge.returns)
            self._checked = decided(asked, observation, proposal, bar)
        return self._checked

    def forget(self) -> None:
        """Forget what came back: the call has taken it."""
        self._observed = None
        self._checked = None
