"""Turn what came back into the evidence that the table decides on: an event and the facts."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from rungwise.fsm.call.classify import classify_reply, is_json
from rungwise.fsm.call.delivery import without_seed
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.reply import Reply
from rungwise.fsm.call.request import CAP_PARAMETERS, Request, TurnContext
from rungwise.fsm.call.table import KEEPS_TEXT
from rungwise.fsm.call.transcript import NO_CUE, Composed, Cue, Transcript
from rungwise.fsm.failures.classify import event_of_failure
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.text.repetition import is_repetitive
from rungwise.fsm.text.stitching import MINIMUM_ECHO, stitch
from rungwise.fsm.text.thinking import part_thinking, split_thinking

BROKEN = frozenset({"connection", "timeout"})
"""The reasons of a failure that cut a stream without being an answer of the provider's."""

CUT = frozenset({"truncated", "paused", "interrupted"})
"""The events after which text may be gone on from."""


@define(eq=False)
class Attempt:
    """Hold what was sent in one attempt, and what of its answer has been handed out.

    Arguments:
        composed: the messages as they went out.
        cap: the output cap that went out, in tokens.
        echoes: whether the backend repeats a continued turn.
        expects_json: whether the answer must be JSON, so that a piece of it is nothing to go on from.
        asks_for_little: whether the caller wants a handful of tokens.
    """

    composed: Composed
    cap: int | None
    echoes: bool = False
    expects_json: bool = False
    asks_for_little: bool = False

    def keeps(self, event: str) -> bool:
        """Tell whether the text of a reply becomes a part of the answer."""
        if self.expects_json and event not in _PLAIN:
            return False
        return event in KEEPS_TEXT and not (self.asks_for_little and event == "interrupted")


@define(eq=False)
class Heard:
    """Hold one observed reply or failure, texts and all; its `evidence` is the part that a journal may keep."""

    evidence: Evidence
    part: str = field(default="", repr=False)  # the visible text that is kept, as it came
    new: str = field(default="", repr=False)  # what of it had not been said
    spare: str = field(default="", repr=False)  # cut text that is too little to go on from: for want of anything else
    unsays: bool = False  # it shows that the text gathered before it was reasoning
    reasoning: str = field(default="", repr=False)
    cue: Cue = NO_CUE
    reply: Reply | None = None
    failure: Failure | None = None
    delivered: str = field(default="", repr=False)  # what this attempt handed to the consumer


def observe_reply(reply: Reply, attempt: Attempt, transcript: Transcript, request: Request, backend: int) -> Heard:
    """Classify a reply and work out what of its text is new."""
    composed = attempt.composed
    visible, inline, was_unopened = part_thinking(
        reply.text, composed.before, after_block=composed.after_block, is_new_turn=composed.is_new_turn
    )
    is_error = reply.interrupted and reply.failure is not None and reply.failure.reason not in BROKEN
    if is_error and reply.failure is not None and is_blank(visible) and is_blank(reply.refusal or ""):
        # An error event before any text is what it says; what had been reasoned is only paid for.
        heard = observe_failure(reply.failure, attempt, transcript, backend)
        heard.evidence.usage = reply.usage
        return heard
    if composed.seed:
        visible = without_seed(visible, composed.seed)
    if attempt.expects_json and inline and is_json(reply.text):
        visible, inline, was_unopened = reply.text, "", False  # what looks like a tag is a part of it
    unsays, gathered = was_unopened and transcript.may_be_reasoning, transcript.gathered
    if unsays:
        inline, gathered = gathered + inline, ""
    reasoning = reply.reasoning + inline if inline else reply.reasoning
    echoes, asks_json = attempt.echoes and composed.prefill, attempt.expects_json
    new = stitch(gathered, visible, echoes=echoes, stripped=composed.stripped) if gathered else visible
    event = classify_reply(
        reply, visible=visible, reasoning=reasoning, cap=attempt.cap, tools=request.tools, expects_json=asks_json
    )
    if event == "came_empty" and reply.stop_reason in ("stop", None) and _goes_on(composed, gathered, transcript):
        event = "answered"  # the text was whole, and there was nothing left to say
    if event == "answered" and asks_json and gathered and not is_json(gathered + new):
        event = "malformed"  # another backend of the chain was asked for prose
    too_little = event in ("truncated", "interrupted") and is_too_little(gathered + new)
    if too_little and event == "truncated" and not attempt.asks_for_little:
        event = "reasoning_truncated"  # the cap went elsewhere
    too_little = too_little and event != "truncated"
    evidence = Evidence(event, usage=reply.usage, stop_raw=reply.stop_raw)
    heard = Heard(evidence, unsays=unsays, reasoning=reasoning, reply=reply)
    if reply.failure is not None:
        heard.failure = reply.failure
        _note_failure(evidence, reply.failure)
    # Blanks that a cut has left behind are no text: the request that follows is the same, and brings them again.
    if attempt.keeps(event) and not too_little and (event in _PLAIN or not is_blank(visible)):
        heard.part, heard.new = visible, new
    elif too_little and not attempt.expects_json:
        heard.spare = visible
    if event not in _PLAIN:
        heard.cue = Cue(
            reasoning=reasoning,
            thinks_inline=not is_blank(inline),
            is_paused=event == "paused",
            reasoned_to_the_cap=event == "reasoning_truncated",
            cap=attempt.cap,
        )
    return heard


_PLAIN = frozenset({"answered", "called_tools"})


def _goes_on(composed: Composed, gathered: str, transcript: Transcript) -> bool:
    """Tell whether the request had the provider itself go on from text that was gathered."""
    native = (composed.prefill and not composed.seed) or transcript.is_paused
    return native and not is_blank(gathered)


def is_too_little(text: str) -> bool:
    """Tell whether so little text was cut that nobody could tell an echo of it from an answer that goes on."""
    return len(text.strip()) < MINIMUM_ECHO


def observe_failure(failure: Failure, attempt: Attempt, transcript: Transcript, backend: int) -> Heard:
    """Classify a failure and name the repair that it allows, if any."""
    repair = repair_of(failure)
    if repair in transcript.repaired:
        repair = None
    if attempt.cap is not None and transcript.dropped | {failure.parameter} >= {*CAP_PARAMETERS}:
        repair = None  # without a cap that the backend takes, nothing would bound its answer
    evidence = Evidence(event_of_failure(failure), repair=repair)
    _note_failure(evidence, failure)
    return Heard(evidence, failure=failure, cue=Cue(backend=backend, repair=evidence.repair))


def observe_cut(delivered: str, failure: Failure, attempt: Attempt, transcript: Transcript) -> Heard:
    """Take a failure after text was handed out for a cut: that text is a part of the answer, if it was not refused.

    Arguments:
        delivered: the text, which holds nothing that had been said before.
    """
    event = "refused" if event_of_failure(failure) == "refused" else "interrupted"
    is_spare = event == "interrupted" and is_too_little(transcript.gathered + delivered)
    kept = delivered if attempt.keeps(event) and not is_spare else ""
    spare = delivered if is_spare and not attempt.expects_json else ""
    heard = Heard(Evidence(event), part=kept, new=kept, spare=spare, failure=failure)
    heard.reply = Reply(delivered, interrupted=True, failure=failure)
    _note_failure(heard.evidence, failure)
    return heard


def _note_failure(evidence: Evidence, failure: Failure) -> None:
    evidence.status, evidence.reason, evidence.code = failure.status, failure.reason, failure.code
    evidence.asked_wait = failure.asked_wait


def repair_of(failure: Failure) -> str | None:
    """Name the one thing to repair, with its detail after a colon; each name is repaired at most once."""
    if failure.reason == "output_cap" and failure.available_tokens is not None:
        return f"output_cap:{failure.available_tokens}"
    if failure.reason == "parameter_unsupported" and failure.parameter:
        return f"parameter_unsupported:{failure.parameter}"
    if failure.reason in ("prefill_unsupported", "reasoning_signature", "reasoning_missing"):
        return failure.reason
    return None


def facts_of(
    heard: Heard,
    transcript: Transcript,
    policy: Policy,
    turn: TurnContext,
    *,
    wait_fits: bool,
    failures_alike: int,
    same_empty_again: bool,
    has_compactor: bool,
    has_next_backend: bool,
    asks_for_little: bool,
    overran: bool,
) -> dict[str, bool]:
    """Work out every fact of the ladder; the text of `heard` is already gathered."""
    gathered, event = transcript.gathered, heard.evidence.event
    prior = turn.prior_answer if turn.only_housekeeping else None
    prior_fits = prior is not None and is_blank(gathered)
    switch_after = policy.switch_after.get(heard.evidence.reason or "")
    return {
        "has_delivered": event in ("came_empty", "only_reasoned") and not is_blank(heard.delivered),
        "has_prior_answer": prior_fits and not is_blank(split_thinking(prior or "")[0]),
        "has_text": not is_blank(gathered or transcript.spare),
        "added_text": not is_blank(heard.new),
        "follows_tool_result": transcript.has_recent_tool_result(policy.nudge_window),
        "thinks_inline": heard.cue.thinks_inline,
        "repeats_itself": event in CUT and is_repetitive(gathered),
        "same_empty_again": same_empty_again,
        "wait_fits": wait_fits,
        "switch_asked": switch_after is not None and failures_alike >= switch_after,
        "repair_known": heard.evidence.repair is not None,
        "has_compactor": has_compactor,
        "has_next_backend": has_next_backend,
        "connection_was_stale": heard.failure is not None and heard.failure.is_stale,
        "asks_for_little": asks_for_little,
        "overran": overran,
    }


def contents_of(heard: Heard, turn: TurnContext) -> dict[str, Any]:
    """Return the texts and tool calls of a step, for a journal that may hold them."""
    reply = heard.reply
    content: dict[str, Any] = {"part": heard.part, "new": heard.new, "delivered": heard.delivered}
    if heard.unsays:
        content["unsays"] = True
    if heard.spare:
        content["spare"] = heard.spare
    if reply is not None:
        content["reasoning"] = heard.reasoning
        content["final_text"] = reply.final_text
        content["tool_calls"] = [[call.id, call.name, call.arguments] for call in reply.tool_calls]
    if "has_prior_answer" in heard.evidence.facts:
        content["prior_answer"] = turn.prior_answer
    return content
