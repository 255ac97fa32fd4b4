"""Turn what came back into an observation: its event, which of its text is new, and what the
attempt is counted as.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.changes import without
from rungwise.fsm.call.conversation.observation import ANSWERS, Observation
from rungwise.fsm.call.conversation.reading import PLAIN, ReadReply, is_too_little, read_reply
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.delivery import Delivery
from rungwise.fsm.call.run.sending import Sender
from rungwise.fsm.call.table import KEEPS_TEXT
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER, Failure, event_of_failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.contents import ends_within_sentence, is_blank
from rungwise.fsm.values.usage import NO_USAGE, Usage

CUT_OFF: Final = ("interrupted", "fell_silent")
"""The events of a reply that did not reach its end."""

_CUT: Final = frozenset({"truncated", *CUT_OFF})

_BY_CAUSE: Final[Mapping[str, str]] = {"content_policy": "refused", "silence": "fell_silent"}
"""The event of a reply that broke off, by the reason of its failure; `interrupted` for any other.
"""

_BY_STOP: Final[Mapping[str | None, str]] = {"content_filter": "refused", "overflow": "overflowed"}
"""The events that a stop reason decides, whatever the reply holds."""

_BY_STOP_WITHOUT_CALLS: Final[Mapping[str | None, str]] = {
    **dict.fromkeys(("unknown", "error", "tool_calls"), "malformed"),
    "paused": "paused",
}
"""The events that a stop reason decides for a reply without tool calls, if no cap cut it."""

_HOLD_FORMAT: Final = frozenset({"output_config", "outputConfig", "structured_outputs"})
"""The parameters that ask for JSON among other things; a backend may reject them by these names."""


def observe(
    came: Reply | Failure,
    proposal: Proposal,
    transcript: Transcript,
    counter: TokenCounter,
    delivered: str,
) -> Observation:
    """Observe what came back for a proposal, of which this much was delivered; the transcript stays
    as it is.
    """
    reply, failure = (came, came.failure) if isinstance(came, Reply) else (None, came)
    if reply is None and not is_blank(delivered):  # the failure has cut what was handed out
        reply = Reply(delivered, interrupted=True, failure=failure)
    usage, overran = counter.usage_of(proposal, reply, failure)
    sent: dict[str, Any] = {
        "cap": proposal.send.max_tokens,
        "overran": overran,
        "backend": proposal.send.backend,
        "delivered": delivered,
        "failure": failure,
    }
    if isinstance(came, Reply):
        resolved = proposal.for_backend
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


def observe_cancel(
    partial: Reply | None,
    *,
    proposal: Proposal | None,
    is_sent: bool,
    counter: TokenCounter,
    delivered: str | None,
) -> Observation:
    """Observe what had arrived of a reply when the caller ended the call; its visible text if it
    was `delivered`.
    """
    usage = NO_USAGE if partial is None else partial.usage
    if proposal is not None and is_sent:
        usage, _ = counter.usage_of(proposal, partial, was_cancelled=True)
    if delivered is None:
        reading = PLAIN if proposal is None else proposal.reading
        delivered = "" if partial is None else reading.part(partial).visible
    return Observation(
        evidence=Evidence(event="cancelled", usage=usage), part=delivered, new=delivered
    )


def _observe_reply(
    read: ReadReply, proposal: Proposal, transcript: Transcript, usage: Usage, sent: dict[str, Any]
) -> Observation:
    resolved = proposal.for_backend
    event = _event_of(read, proposal, transcript)
    is_spare = event in _CUT and (
        read.is_too_little or (event != "truncated" and read.adds_too_little)
    )
    if is_spare and event == "truncated":
        is_spare = not resolved.asks_for_little
        has_reasoned = bool(read.reasoning or usage.reasoning_tokens)
        # the cap was spent on something else
        event = "reasoning_truncated" if is_spare and has_reasoned else event
    # Blanks that a cut leaves behind are no text: the request that follows is the same, and brings
    # them again.
    is_kept = not is_spare and _keeps(proposal, event) and (event in ANSWERS or not read.is_blank)
    return Observation(
        evidence=_evidence(event, usage, proposal, read.reply.failure, read.reply),
        part=read.visible if is_kept else "",
        new=read.new if is_kept else "",
        spare=read.visible if is_spare and not resolved.expects_json else "",
        unsays=read.unsays,
        reasoning=read.reasoning,
        thinks_inline=read.thinks_inline and event not in ANSWERS,
        reply=read.reply,
        **sent,
    )


def _event_of(read: ReadReply, proposal: Proposal, transcript: Transcript) -> str:
    """Classify a reply by itself, and then by the text that it continues."""
    event = event_of_reply(
        read, proposal.send.max_tokens, expects_json=proposal.for_backend.expects_json
    )
    is_native = (
        proposal.send.prefill and not proposal.reading.seed
    ) or transcript.changes.is_paused
    was_whole = is_native and read.continues_text and read.reply.stop_reason in ("stop", None)
    if event == "came_empty" and was_whole:
        event = "answered"  # the text was whole, and there was nothing left to say
    was_doubted = read.continues_text and transcript.changes.doubted_at == len(read.gathered)
    if event in ("came_empty", "only_reasoned") and was_doubted:
        event = "answered"  # the backend had called the text whole, and nothing follows it
    if (
        event == "answered"
        and proposal.for_backend.link.hides_cuts
        and _may_be_cut(read, proposal, transcript)
    ):
        event = "truncated"
    return event


def _may_be_cut(read: ReadReply, proposal: Proposal, transcript: Transcript) -> bool:
    """Tell whether a reply looks cut that its backend calls whole. One is doubted in a call, no
    more.
    """
    resolved = proposal.for_backend
    cap = proposal.send.max_tokens
    usage = read.reply.usage
    if (
        resolved.asks_for_little
        or resolved.expects_json
        or transcript.changes.doubted_at is not None
    ):
        return False
    fills_cap = cap is not None and not usage.estimated and usage.output_tokens >= cap
    is_called_whole = read.reply.stop_reason == "stop" and not read.is_too_little
    return fills_cap and is_called_whole and ends_within_sentence(read.visible)


def event_of_reply(read: ReadReply, cap: int | None, *, expects_json: bool = False) -> str:
    """Return the event that a reply is, under the output cap that was sent; the first rule that
    fits decides.
    """
    reply, is_cut = read.reply, was_cut(read.reply, cap)
    if read.refuses:
        return "refused"  # whatever else broke or came: the model has said no
    gives_no_reason = reply.stop_reason is None and reply.failure is None and not reply.tool_calls
    # one that used up its cap was cut by it
    if reply.interrupted and not (is_cut and gives_no_reason):
        return (
            "interrupted"
            if reply.failure is None
            else _BY_CAUSE.get(reply.failure.reason, "interrupted")
        )
    if reply.stop_reason in _BY_STOP:
        return _BY_STOP[reply.stop_reason]
    if reply.tool_calls and (is_cut or not read.has_whole_calls):
        return "tools_truncated"
    if reply.tool_calls:
        return "malformed" if reply.stop_reason in ("unknown", "error") else "called_tools"
    if is_cut and read.is_blank:
        return "reasoning_truncated"
    if is_cut:
        return "json_truncated" if expects_json else "truncated"
    if reply.stop_reason in _BY_STOP_WITHOUT_CALLS:
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
    hides = reply.stop_reason in (None, "unknown", "tool_calls")
    return (
        hides and cap is not None and not reply.usage.estimated and reply.usage.output_tokens >= cap
    )


def _observe_failure(
    failure: Failure, proposal: Proposal, transcript: Transcript, usage: Usage, sent: dict[str, Any]
) -> Observation:
    """Classify a failure and name the repair that it allows, if any."""
    resolved = proposal.for_backend
    send = proposal.send
    rejected = failure.parameter
    named = failure
    if resolved.expects_json and rejected in _HOLD_FORMAT and FORMAT_PARAMETER not in send.dropped:
        # if something else was wrong, the next rejection drops the rest
        rejected = FORMAT_PARAMETER
        named = evolve(failure, parameter=rejected)
    repair = repair_of(named)
    if repair in transcript.changes.repaired or (
        rejected == FORMAT_PARAMETER and not resolved.has_json_instruction
    ):
        repair = None  # without it, nothing would ask for JSON
    if rejected and proposal.repeats_secret(rejected):
        repair = None  # no parameter has this name, and the journal would show it
    if (
        send.max_tokens is not None
        and rejected
        and without(transcript.changes, rejected) >= {*CAP_PARAMETERS}
    ):
        repair = None  # without a cap that the backend takes, nothing would bound its answer
    event = event_of_failure(failure)
    if (
        resolved.link.renews_key
        and failure.status == 401
        and "key" not in transcript.changes.repaired
    ):
        event = "rejected_fixably"
        repair = "key"
    found = failure.found if event == "malformed" else None
    return Observation(
        evidence=_evidence(event, usage, proposal, failure, repair=repair), found=found, **sent
    )


def _observe_cut(
    reply: Reply, failure: Failure, proposal: Proposal, usage: Usage, sent: dict[str, Any]
) -> Observation:
    """Take a failure after text was handed out for a cut: that text is a part of the answer, unless
    it was refused.
    """
    text = reply.text
    event = event_of_failure(failure)
    if event not in ("refused", "fell_silent"):
        event = "interrupted"
    is_spare = event != "refused" and is_too_little(text)
    is_kept = not is_spare and _keeps(proposal, event)
    return Observation(
        evidence=_evidence(event, usage, proposal, failure),
        part=text if is_kept else "",
        new=text if is_kept else "",
        spare=text if is_spare and not proposal.for_backend.expects_json else "",
        reply=reply,
        **sent,
    )


def _keeps(proposal: Proposal, event: str) -> bool:
    if proposal.for_backend.expects_json and event not in ANSWERS:
        return False
    return event in KEEPS_TEXT and not (proposal.for_backend.asks_for_little and event in CUT_OFF)


def _evidence(
    event: str,
    usage: Usage,
    sent: Proposal,
    failure: Failure | None,
    reply: Reply | None = None,
    repair: str | None = None,
) -> Evidence:
    stop_raw = None
    if reply is not None:
        stop_raw = sent.shown(reply.stop_raw, is_known=reply.stop_reason not in (None, "unknown"))
    if failure is None:
        return Evidence(event, usage, stop_raw)
    code = sent.shown(failure.code)
    return Evidence(
        event, usage, stop_raw, failure.status, failure.reason, code, failure.asked_wait, repair
    )


def repair_of(failure: Failure) -> str | None:
    """Name the one thing to repair, with its detail after a colon; each name is repaired at most
    once.
    """
    if failure.reason == "output_cap" and failure.available_tokens is not None:
        return f"output_cap:{failure.available_tokens}"
    if failure.reason == "parameter_unsupported" and failure.parameter:
        return f"parameter_unsupported:{failure.parameter}"
    if failure.reason in ("prefill_unsupported", "reasoning_signature", "reasoning_missing"):
        return failure.reason
    return None


class ReplyReader:
    """Observe each reply of a call."""

    __slots__ = ("_context", "_counter", "_delivery", "last")

    def __init__(self, context: CallContext, counter: TokenCounter, delivery: Delivery) -> None:
        self._context = context
        self._counter = counter
        self._delivery = delivery
        # what came back last, until the call has taken it
        self.last: tuple[Reply | Failure, Observation] | None = None

    def read(self, reply: Reply | Failure, sender: Sender) -> Observation:
        """Observe what came back of what is in flight, once; an answer is checked. It raises as
        `Call.receive` does.
        """
        if not isinstance(reply, (Reply, Failure)):
            raise ConfigurationError(
                f"reply must be a Reply or a Failure, not {type(reply).__name__}"
            )
        proposal = sender.ensure_sent()
        transcript = self._context.transcript
        if self.last is None or self.last[0] is not reply:
            observation = observe(
                reply, proposal, transcript, self._counter, self._delivery.close()
            )
            self.last = (
                reply,
                self._context.judge.checked(observation, proposal, transcript.answer.gathered),
            )
        return self.last[1]
