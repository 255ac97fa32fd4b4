"""Which repair a rejected request allows."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.changes import within, without
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.replies.failures.failure import CANCELLED, FORMAT_PARAMETER, Failure, repair_of

_HOLD_FORMAT: Final = frozenset({"output_config", "outputConfig", "structured_outputs"})
"""The parameters that ask for JSON among other things; a backend may reject them by these names."""


def repair_for(failure: Failure, proposal: Proposal, transcript: Transcript) -> str | None:
    """Name the one thing that may be repaired before the request goes out again; None for nothing.

    Arguments:
        failure: what the provider said.
        proposal: what was sent.
        transcript: the conversation.
    """
    resolved = proposal.for_backend
    send = proposal.send
    rejected = failure.parameter
    named = failure
    if resolved.expects_json and rejected in _HOLD_FORMAT and FORMAT_PARAMETER not in send.dropped:
        # if something else was wrong, the next rejection drops the rest
        rejected = FORMAT_PARAMETER
        named = evolve(failure, parameter=rejected)
    repair = repair_of(named)
    if repair is None or repair in transcript.changes.repaired:
        return None
    if rejected == FORMAT_PARAMETER and not resolved.has_json_instruction:
        return None  # without it, nothing would ask for JSON
    if rejected and proposal.repeats_secret(rejected):
        return None  # no parameter has this name, and the journal would show it
    if send.max_tokens is not None and rejected:
        dropped = without(transcript.changes, rejected)
        if dropped >= {*CAP_PARAMETERS}:
            return None  # without a cap that the backend takes, nothing would bound its answer
    return repair if _is_of_use(repair, proposal, transcript) else None


def _is_of_use(repair: str, proposal: Proposal, transcript: Transcript) -> bool:
    """Tell whether a repair would change the request: the same one would bring the same answer."""
    changes = transcript.changes
    send = proposal.send
    resolved = proposal.for_backend
    kind, _, detail = repair.partition(":")
    name, _, value = detail.partition("=")
    if kind == CANCELLED:
        return True  # which may end otherwise
    if kind == "output_cap":
        return send.max_tokens is None or within(int(detail)) < send.max_tokens
    if kind == "prefill_unsupported":
        ends_on_answer = resolved.shapes.role_of(send.messages[-1]) == "assistant"
        return resolved.prefills and (send.prefill or ends_on_answer)
    if name == FORMAT_PARAMETER:
        return name not in send.dropped  # beside it, the prompt asks for JSON in words
    if name in changes.settings:
        return False  # without what was set, it would be the request before
    if kind == "parameter_unsupported":
        repaired = evolve(send, dropped=resolved.dropped(without(changes, name)))
    elif kind == "wrong_endpoint":
        repaired = evolve(send, parameters={**send.parameters, name: value})
    elif kind == "reasoning_signature":
        repaired = evolve(send, portable=True, unsigned=True, restore_reasoning=False)
    else:
        repaired = evolve(send, restore_reasoning=True)
    return resolved.link.differs(send, repaired)
