"""What each rung changes in what the next request will hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rungwise.fsm.call.budget.estimate import tokens_of
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.text.blank import is_blank

if TYPE_CHECKING:
    from rungwise.fsm.call.conversation.observation import Observation
    from rungwise.fsm.call.conversation.transcript import Transcript

RESERVE_BELOW_AVAILABLE = 64
"""Output tokens kept below the number that a provider names as available."""


def forget_seed(transcript: Transcript, observation: Observation) -> None:
    """Drop the reasoning that was seeded."""
    transcript.seed = ""


def add_nudge(transcript: Transcript, observation: Observation) -> None:
    """Put the placeholder and the hint behind what was gathered so far."""
    transcript.seed = ""
    transcript.nudged_at = len(transcript.gathered) + len(transcript.turn)


def seed(transcript: Transcript, observation: Observation) -> None:
    """Begin the answer with the reasoning that came."""
    known, new = transcript.seed, observation.reasoning.strip()
    # A model that goes on from its seed sends only what follows; one that starts again repeats it.
    goes_on = bool(known) and not new.startswith(known)
    transcript.seed = f"{known}\n{new}" if goes_on else new
    transcript.seed_tokens = tokens_of(new, observation.cap) + (transcript.seed_tokens if goes_on else 0)
    transcript.seed_is_inline = observation.thinks_inline


def go_on(transcript: Transcript, observation: Observation) -> None:
    """Go on from the text that was gathered, or send a paused turn back as it is."""
    transcript.seed = ""
    transcript.is_paused = observation.event == "paused"


def lower_reasoning(transcript: Transcript, observation: Observation) -> None:
    """Ask for less reasoning from now on, where reasoning used up the cap."""
    transcript.lower_reasoning = transcript.lower_reasoning or observation.event == "reasoning_truncated"


def repair(transcript: Transcript, observation: Observation) -> None:
    """Fix the one thing that the provider named."""
    named = observation.evidence.repair or ""
    kind, _, detail = named.partition(":")
    transcript.repaired |= {named}
    if kind == "output_cap":
        transcript.available_tokens = max(1, int(detail) - RESERVE_BELOW_AVAILABLE)
    elif kind == "parameter_unsupported":
        transcript.dropped = without(transcript, detail)
    elif kind == "prefill_unsupported":
        transcript.without_prefill |= {observation.backend}
    elif kind == "reasoning_signature":
        transcript.portable, transcript.restore_reasoning = True, False
    elif kind == "reasoning_missing":
        transcript.restore_reasoning = True


def without(transcript: Transcript, parameter: str) -> frozenset[str]:
    """Return what is left out once a parameter is.

    The output cap has two names. Where one is left out because a backend rejected it in an earlier call, and it now
    rejects the other, it has changed its mind: the first one is tried again.
    """
    dropped = transcript.dropped | {parameter}
    if dropped >= {*CAP_PARAMETERS}:
        heard = {name for name in CAP_PARAMETERS if f"parameter_unsupported:{name}" in transcript.repaired}
        dropped -= {*CAP_PARAMETERS} - heard - {parameter}
    return dropped


def fall_back(transcript: Transcript, observation: Observation) -> None:
    """Make everything portable and begin anew with another backend, but for the text that was gathered."""
    transcript.seed, transcript.nudged_at, transcript.is_paused, transcript.hint = "", None, False, None
    transcript.portable, transcript.lower_reasoning, transcript.restore_reasoning = True, False, False
    transcript.is_foreign = bool(transcript.gathered)
    if is_blank(transcript.gathered):
        transcript.drop_turn()  # blocks alone are nothing that another backend could go on from
    transcript.dropped, transcript.repaired, transcript.available_tokens = frozenset(), frozenset(), None
