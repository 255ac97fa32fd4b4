"""Turn what came back into an observation: the event, what of the text is new, and what it is counted as."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.conversation.changes import without
from rungwise.fsm.call.conversation.observation import Observation, classify_reply, new_observation
from rungwise.fsm.call.conversation.reading import PLAIN, Reading
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.call.run.proposal import Proposal
from rungwise.fsm.call.table import ANSWERS, KEEPS_TEXT
from rungwise.fsm.failures.failure import FORMAT_PARAMETER, Failure, event_of_failure
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.text.json_text import is_json
from rungwise.fsm.text.stitching import MINIMUM_ECHO, MINIMUM_OVERLAP, stitch, without_seed
from rungwise.fsm.text.thinking import Parted, part_thinking
from rungwise.fsm.values.usage import NO_USAGE, Usage

BROKEN = frozenset({"connection", "timeout", "silence"})
"""The reasons of a failure that cut a stream without being an answer of the provider's."""

_HOLD_FORMAT: Final = frozenset({"output_config", "outputConfig", "structured_outputs"})
"""The parameters that hold what asks for JSON beside other things; a backend may reject them by that name."""


def observe(
    came: Reply | Failure, *, proposal: Proposal, transcript: Transcript, counter: TokenCounter, delivered: str
) -> Observation:
    """Return what came back as the machine and the transcript take it.

    Arguments:
        came: a reply, or why there is none.
        proposal: what was sent.
        transcript: the text so far, to which nothing is added here.
        counter: counts what the provider did not.
        delivered: the visible text that was handed out while it came.
    """
    if isinstance(came, Reply):
        counted = counter.usage_of(proposal, came, came.failure)
        return _observe_reply(came, proposal, transcript, counted, delivered)
    if is_blank(delivered):
        return _observe_failure(came, proposal, transcript, counter.usage_of(proposal, None, came), delivered)
    reply = Reply(delivered, interrupted=True, failure=came)
    return _observe_cut(reply, came, proposal, transcript, counter.usage_of(proposal, reply, came))


def observe_cancel(
    partial: Reply | None, *, proposal: Proposal | None, is_sent: bool, counter: TokenCounter, delivered: str | None
) -> Observation:
    """Return what was there of a reply when the caller ended the call.

    Arguments:
        partial: what had arrived of it.
        proposal: what was sent, or was to be.
        is_sent: whether it was.
        counter: counts what the provider did not.
        delivered: the visible text of the reply; None where it is still to be read.
    """
    usage = NO_USAGE if partial is None else partial.usage
    if proposal is not None and is_sent:
        usage, _ = counter.usage_of(proposal, partial, was_cancelled=True)
    if delivered is None:
        reading = PLAIN if proposal is None else proposal.reading
        delivered = "" if partial is None else part_reply(partial, reading).visible
    return Observation(evidence=Evidence(event="cancelled", usage=usage), part=delivered, new=delivered)


CUT_OFF = ("interrupted", "fell_silent")
"""The events of a reply that did not come to its end."""

_CUT: Final = frozenset({"truncated", *CUT_OFF})

_Counted = tuple[Usage, bool]
"""What an attempt is counted as, and whether its reply is longer than what was reserved for it."""


def _observe_reply(
    reply: Reply, proposal: Proposal, transcript: Transcript, counted: _Counted, delivered: str
) -> Observation:
    """Classify a reply and work out what of its text is new."""
    send, reading, expects_json = proposal.send, proposal.reading, proposal.for_backend.expects_json
    visible, inline, was_unopened = part_reply(reply, reading) if "<" in reply.text else (reply.text, "", False)
    failure = reply.failure
    if failure is not None and _is_mere_error(reply, failure, visible):
        return _observe_failure(failure, proposal, transcript, counted, delivered)
    if reading.seed:
        visible = without_seed(visible, reading.seed)
    if expects_json and inline and is_json(reply.text):
        visible, inline, was_unopened = reply.text, "", False  # what looks like a tag is a part of it
    unsays, gathered = was_unopened and transcript.may_be_reasoning, transcript.gathered
    if unsays:
        inline, gathered = gathered + inline, ""
    reasoning = reply.reasoning + inline if inline else reply.reasoning
    new = stitch(gathered, visible, echoes=reading.echoes, stripped=reading.stripped) if gathered else visible
    event = classify_reply(
        reply,
        visible=visible,
        reasoning=reasoning,
        cap=send.max_tokens,
        tools=send.request.tools,
        expects_json=expects_json,
        shapes=proposal.for_backend.shapes,
    )
    if event == "came_empty" and reply.stop_reason in ("stop", None) and _goes_on(proposal, transcript, gathered):
        event = "answered"  # the text was whole, and there was nothing left to say
    if event == "answered" and expects_json and gathered and not is_json(gathered + new):
        event = "malformed"  # another backend of the chain was asked for prose
    is_spare = event in _CUT and (
        is_too_little(gathered, new)
        # What was cut so soon may as well be the beginning of all that was said before: it is asked for again.
        or may_restart(gathered, visible)
        or (event != "truncated" and bool(gathered) and is_too_little(visible))
    )
    if is_spare and event == "truncated":
        is_spare = not proposal.for_backend.asks_for_little
        event = "reasoning_truncated" if is_spare else event  # the cap went elsewhere
    # Blanks that a cut has left behind are no text: the request that follows is the same, and brings them again.
    is_kept = not is_spare and _keeps(proposal, event) and (event in ANSWERS or not is_blank(visible))
    seen = new_observation()
    seen.evidence = _evidence(event, counted[0], failure, reply.stop_raw)
    seen.event = event
    seen.part = visible if is_kept else ""
    seen.new = new if is_kept else ""
    seen.spare = visible if is_spare and not expects_json else ""
    seen.unsays = unsays
    seen.reasoning = reasoning
    seen.thinks_inline = bool(inline) and event not in ANSWERS and not is_blank(inline)
    seen.cap = send.max_tokens
    seen.overran = counted[1]
    seen.backend = send.backend
    seen.delivered = delivered
    seen.reply = reply
    seen.failure = failure
    seen.__class__ = Observation
    return seen  # type: ignore[no-any-return]


def _observe_failure(
    failure: Failure, proposal: Proposal, transcript: Transcript, counted: _Counted, delivered: str
) -> Observation:
    """Classify a failure and name the repair that it allows, if any."""
    send, named, rejected = proposal.send, failure, failure.parameter
    if proposal.for_backend.expects_json and rejected in _HOLD_FORMAT and FORMAT_PARAMETER not in send.dropped:
        rejected = FORMAT_PARAMETER  # the rest of it is left out where this was not what was wrong
        named = evolve(failure, parameter=rejected)
    repair = repair_of(named)
    if repair in transcript.repaired or (
        rejected == FORMAT_PARAMETER and not proposal.for_backend.has_json_instruction
    ):
        repair = None  # without it, nothing would ask for JSON
    if send.max_tokens is not None and rejected and without(transcript, rejected) >= {*CAP_PARAMETERS}:
        repair = None  # without a cap that the backend takes, nothing would bound its answer
    seen = new_observation()
    seen.event = event_of_failure(failure)
    seen.evidence = _evidence(seen.event, counted[0], failure, None, repair)
    seen.part = seen.new = seen.spare = seen.reasoning = ""
    seen.unsays = seen.thinks_inline = False
    seen.cap = send.max_tokens
    seen.overran = counted[1]
    seen.backend = send.backend
    seen.delivered = delivered
    seen.reply = None
    seen.failure = failure
    seen.__class__ = Observation
    return seen  # type: ignore[no-any-return]


def _observe_cut(
    reply: Reply, failure: Failure, proposal: Proposal, transcript: Transcript, counted: _Counted
) -> Observation:
    """Take a failure after text was handed out for a cut: that text is a part of the answer, if it was not refused.

    Arguments:
        reply: holds that text, in which nothing had been said before.
    """
    text = reply.text
    of_failure = event_of_failure(failure)
    event = of_failure if of_failure in ("refused", "fell_silent") else "interrupted"
    is_spare = event != "refused" and is_too_little(text)
    is_kept = not is_spare and _keeps(proposal, event)
    return Observation(
        evidence=_evidence(event, counted[0], failure),
        part=text if is_kept else "",
        new=text if is_kept else "",
        spare=text if is_spare and not proposal.for_backend.expects_json else "",
        cap=proposal.send.max_tokens,
        overran=counted[1],
        backend=proposal.send.backend,
        delivered=text,
        reply=reply,
        failure=failure,
    )


def part_reply(reply: Reply, reading: Reading) -> Parted:
    """Part the visible text of a reply from its inline reasoning."""
    return part_thinking(
        reply.text,
        reading.before,
        read=reading.read,
        after_block=reading.after_block,
        is_new_turn=reading.is_new_turn,
    )


def _is_mere_error(reply: Reply, failure: Failure, visible: str) -> bool:
    """Tell whether an error event came before any text, so that it is what it says; reasoning is only paid for."""
    is_error = reply.interrupted and failure.reason not in BROKEN
    return is_error and is_blank(visible) and is_blank(reply.refusal or "")


def _keeps(proposal: Proposal, event: str) -> bool:
    """Tell whether the text of a reply becomes a part of the answer."""
    if proposal.for_backend.expects_json and event not in ANSWERS:
        return False
    return event in KEEPS_TEXT and not (proposal.for_backend.asks_for_little and event in CUT_OFF)


def _goes_on(proposal: Proposal, transcript: Transcript, gathered: str) -> bool:
    """Tell whether the request had the provider itself go on from text that was gathered."""
    native = (proposal.send.prefill and not proposal.reading.seed) or transcript.is_paused
    return native and not is_blank(gathered)


def may_restart(gathered: str, text: str) -> bool:
    """Tell whether a text begins as the text before it does, and is too short to be surely a repeat of it."""
    begun = text.strip()
    return 0 < len(begun) < MINIMUM_OVERLAP and gathered.lstrip().startswith(begun)


def is_too_little(*texts: str) -> bool:
    """Tell whether so little text was cut that nobody could tell an echo of it from an answer that goes on.

    Arguments:
        texts: what it is made of, in order; they are joined only where none of them is enough.
    """
    for text in texts:
        if len(text.strip()) >= MINIMUM_ECHO:
            return False
    return len(texts) == 1 or len("".join(texts).strip()) < MINIMUM_ECHO


def _evidence(
    event: str, usage: Usage, failure: Failure | None, stop_raw: str | None = None, repair: str | None = None
) -> Evidence:
    if failure is None:
        return Evidence(event, usage, stop_raw)
    return Evidence(event, usage, stop_raw, failure.status, failure.reason, failure.code, failure.asked_wait, repair)


def repair_of(failure: Failure) -> str | None:
    """Name the one thing to repair, with its detail after a colon; each name is repaired at most once."""
    if failure.reason == "output_cap" and failure.available_tokens is not None:
        return f"output_cap:{failure.available_tokens}"
    if failure.reason == "parameter_unsupported" and failure.parameter:
        return f"parameter_unsupported:{failure.parameter}"
    if failure.reason in ("prefill_unsupported", "reasoning_signature", "reasoning_missing"):
        return failure.reason
    return None
