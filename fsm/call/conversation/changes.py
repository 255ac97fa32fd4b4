"""What the rungs change in the requests of a call, beside the caller's messages."""

from __future__ import annotations

from typing import Any, Final

from attrs import define

from rungwise.fsm.call.budget.estimate import tokens_of
from rungwise.fsm.call.conversation.answer import AnswerSoFar
from rungwise.fsm.call.conversation.correction import Correction
from rungwise.fsm.call.conversation.link import Lessons
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS
from rungwise.fsm.text.contents import is_blank

RESERVE_BELOW_AVAILABLE = 64
"""Output tokens to stay below the number that a provider names as available."""

_NONE: Final[frozenset[Any]] = frozenset()


@define(eq=False, repr=False, weakref_slot=False)
class Changes:
    """Hold what the rungs have changed in the next request. A rung's `change` is called with this.

    Arguments:
        seed, seed_tokens, seed_is_inline: the reasoning that the reply is to begin with, its tokens, and whether it
            came in inline tags.
        nudged_at: how much was gathered when the nudge was given, 0 for nothing; None if there was none.
        hint, hinted_at: the hint of a rung of your own, and how many characters were gathered when it was given.
        doubted_at: how much was gathered when a text that its backend called whole was taken for cut, which happens
            once; None if none was.
        corrections: the wrong replies that the current backend gets back.
        is_paused: whether the provider paused the turn, which is sent back as it is.
        portable: whether another provider's signatures and encrypted reasoning are left out.
        restore_reasoning: whether each assistant turn must carry its reasoning.
        repaired: the repairs made at this backend.
        without_prefill: the backends that reject a trailing assistant turn, by their index in the chain.
        available_tokens: the output cap that the provider named.
        largest_output: the largest output cap that the backend takes, as learned earlier.
    """

    answer: AnswerSoFar
    seed: str = ""
    seed_tokens: int = 0
    seed_is_inline: bool = False
    nudged_at: int | None = None
    hint: str | None = None
    hinted_at: int = 0
    doubted_at: int | None = None
    wrong: Correction | None = None
    corrections: tuple[Correction, ...] = ()
    is_paused: bool = False
    portable: bool = False
    restore_reasoning: bool = False
    lower_reasoning: bool = False
    dropped: frozenset[str] = _NONE
    repaired: frozenset[str] = _NONE
    without_prefill: frozenset[int] = _NONE
    available_tokens: int | None = None
    largest_output: int | None = None

    @property
    def gathered(self) -> str:
        """Return the text so far."""
        return self.answer.gathered

    @property
    def are_none(self) -> bool:
        """Tell whether nothing stands behind the caller's messages."""
        return not self.seed and self.nudged_at is None and self.hint is None and not self.corrections

    def apply(self, lessons: Lessons, backend: int) -> None:
        """Begin with a backend, given by its index in the chain, and with what earlier calls have learned of it."""
        self.dropped, self.restore_reasoning = lessons.dropped, lessons.restore_reasoning
        self.largest_output = lessons.largest_output
        if lessons.no_prefill:
            self.without_prefill |= {backend}

    def forget_places(self) -> None:
        """Move the nudge and the hint to the beginning: the text before them is dropped."""
        self.hinted_at = 0
        self.nudged_at = None if self.nudged_at is None else 0
        self.doubted_at = None if self.doubted_at is None else 0


def forget_seed(changes: Changes, observation: Observation) -> None:
    """Drop the reasoning that was seeded."""
    changes.seed = ""


def add_nudge(changes: Changes, observation: Observation) -> None:
    """Put the placeholder and the nudge behind what was gathered so far."""
    changes.seed = ""
    changes.nudged_at = len(changes.gathered) + len(changes.answer.turn)


def seed(changes: Changes, observation: Observation) -> None:
    """Begin the reply with the reasoning that came."""
    before, new = changes.seed, observation.reasoning.strip()
    # A model that continues its seed sends only what follows; one that starts again repeats it.
    continues = bool(before) and not new.startswith(before)
    changes.seed = f"{before}\n{new}" if continues else new
    changes.seed_tokens = tokens_of(new, observation.cap, observation.evidence.usage) + (
        changes.seed_tokens if continues else 0
    )
    changes.seed_is_inline = observation.thinks_inline


def correct(changes: Changes, observation: Observation) -> None:
    """Send the wrong reply back with what is wrong."""
    changes.seed, changes.nudged_at, changes.is_paused = "", None, False
    if changes.wrong is not None:
        changes.corrections += (changes.wrong,)


def go_on(changes: Changes, observation: Observation) -> None:
    """Continue the text that was gathered, or send a paused turn back as it is."""
    changes.seed = ""
    changes.is_paused = observation.event == "paused"


def lower_reasoning(changes: Changes, observation: Observation) -> None:
    """Ask for less reasoning from now on, if reasoning used up the cap."""
    changes.lower_reasoning = changes.lower_reasoning or observation.event == "reasoning_truncated"


def repair(changes: Changes, observation: Observation) -> None:
    """Fix the one thing that the provider named."""
    fix = observation.evidence.repair or ""
    kind, _, detail = fix.partition(":")
    changes.repaired |= {fix}
    if kind == "output_cap":
        changes.available_tokens = max(1, int(detail) - RESERVE_BELOW_AVAILABLE)
    elif kind == "parameter_unsupported":
        changes.dropped = without(changes, detail)
    elif kind == "prefill_unsupported":
        changes.without_prefill |= {observation.backend}
    elif kind == "reasoning_signature":
        changes.portable, changes.restore_reasoning = True, False
    elif kind == "reasoning_missing":
        changes.restore_reasoning = True


def without(changes: Changes, parameter: str) -> frozenset[str]:
    """Return the parameters to leave out once this one is.

    The output cap has two names. If one is left out because a backend rejected it in an earlier call, and it now
    rejects the other, the backend has changed its mind: the first name is tried again.
    """
    dropped = changes.dropped | {parameter}
    if dropped >= {*CAP_PARAMETERS}:
        rejected = {name for name in CAP_PARAMETERS if f"parameter_unsupported:{name}" in changes.repaired}
        dropped -= {*CAP_PARAMETERS} - rejected - {parameter}
    return dropped


def fall_back(changes: Changes, observation: Observation) -> None:
    """Make everything portable and begin anew with another backend; the gathered text stays."""
    changes.seed, changes.nudged_at, changes.is_paused, changes.hint = "", None, False, None
    changes.corrections = ()
    changes.portable, changes.lower_reasoning, changes.restore_reasoning = True, False, False
    changes.answer.is_foreign = bool(changes.gathered)
    if is_blank(changes.gathered):
        changes.answer.drop_turn()  # another backend cannot continue blocks without text
    changes.dropped, changes.repaired, changes.available_tokens = _NONE, _NONE, None
