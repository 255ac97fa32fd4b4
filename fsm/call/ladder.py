"""What the machine moves: the counters, the facts, the guards and the effects of one call.

A counter holds what is spent. A fact is what the last reply, the transcript and the chain say; it is set before an
event is fired, and nothing here changes it. A guard reads both; an effect changes counters alone. There is nothing
else: no text, no clock, no chance, so the checker can put a ladder into any configuration and look at what happens.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from attrs import define, field, fields

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Limits
    from rungwise.fsm.machine.table import Row


COUNTER, FACT = "counter", "fact"


def counter() -> Any:
    """Declare a counter: a whole number of units spent, with a limit of the same name in `Limits`."""
    return field(default=0, metadata={"kind": COUNTER})


def fact() -> Any:
    """Declare a fact: a bool that the call sets before it fires an event."""
    return field(default=False, metadata={"kind": FACT})


@define(eq=False)
class Ladder:
    """Be the model that the shared machine moves.

    Derive from this class to add a counter, a fact, a guard (a bool property) or an effect (a method) for a rung of
    your own.
    """

    limits: Limits
    rung: str = "ask"
    row: Row | None = None
    kept: str | None = None
    attempts: int = 0

    retries: int = counter()
    reasks: int = counter()
    nudges: int = counter()
    prefills: int = counter()
    enlargements: int = counter()
    repairs: int = counter()
    compactions: int = counter()
    continuations: int = counter()
    fallbacks: int = counter()

    has_delivered: bool = fact()  # this attempt handed text to the consumer
    has_prior_answer: bool = fact()  # the turn holds an answer given beside housekeeping tools only
    has_text: bool = fact()  # text was gathered, in earlier parts or in this one
    added_text: bool = fact()  # this attempt brought text that is kept
    follows_tool_result: bool = fact()  # a tool result is among the last messages
    thinks_inline: bool = fact()  # the reasoning came in inline tags
    repeats_itself: bool = fact()  # the text gathered runs in circles
    same_empty_again: bool = fact()  # the policy takes identical empty replies for final, and this is one
    wait_fits: bool = fact()  # no wait was asked for, or one that the policy and the deadline allow
    switch_asked: bool = fact()  # the policy says that this failure leaves the backend now
    repair_known: bool = fact()  # the provider named one thing that was not yet repaired
    has_compactor: bool = fact()  # the caller gave a compactor
    has_next_backend: bool = fact()  # a usable backend follows in the chain
    connection_was_stale: bool = fact()  # the server had closed the reused connection before the request came
    asks_for_little: bool = fact()  # the caller wants a handful of tokens, so that a cut reply is what was asked for
    overran: bool = fact()  # the reply is longer than its cap, so that no budget can rest on the next one's

    # guards

    @property
    def may_retry(self) -> bool:
        """Tell whether the same request may be sent again; never after text that is kept."""
        return self.wait_fits and not self.added_text and self.retries < self.limits.retries

    @property
    def may_resend(self) -> bool:
        """Tell whether the same request may be sent again at once, because nobody had read it."""
        return self.connection_was_stale and self.wait_fits and self.retries < self.limits.retries

    @property
    def may_reask(self) -> bool:
        """Tell whether an empty reply may be asked for again."""
        return not self.same_empty_again and self.reasks < self.limits.reasks

    @property
    def may_nudge(self) -> bool:
        """Tell whether an empty reply to a tool result may be nudged; inline reasoning goes to the prefill."""
        return self.follows_tool_result and not self.thinks_inline and self.nudges < self.limits.nudges

    @property
    def may_prefill(self) -> bool:
        """Tell whether reasoning without an answer may be seeded."""
        return self.prefills < self.limits.prefills

    @property
    def may_continue(self) -> bool:
        """Tell whether cut text may be gone on from."""
        return (
            not self.repeats_itself
            and not self.asks_for_little
            and not self.overran
            and self.continuations < self.limits.continuations
        )

    @property
    def may_resume(self) -> bool:
        """Tell whether a cut stream may be gone on from: it brought text that is kept, and no wait is in the way."""
        return self.added_text and self.wait_fits and self.may_continue

    @property
    def may_enlarge(self) -> bool:
        """Tell whether the output cap may be raised."""
        return self.enlargements < self.limits.enlargements

    @property
    def may_repair(self) -> bool:
        """Tell whether the one thing that the provider named may be fixed."""
        return self.repair_known and self.wait_fits and self.repairs < self.limits.repairs

    @property
    def may_compact(self) -> bool:
        """Tell whether the caller's compactor may run."""
        return self.has_compactor and self.compactions < self.limits.compactions

    @property
    def may_fall_back(self) -> bool:
        """Tell whether the next backend of the chain may be asked."""
        return self.has_next_backend and self.fallbacks < self.limits.fallbacks

    @property
    def must_switch(self) -> bool:
        """Tell whether waiting for this backend is pointless and another can be asked."""
        return (self.switch_asked or not self.wait_fits) and self.may_fall_back

    # effects

    def count_attempt(self) -> None:
        """Count one request that goes out."""
        self.attempts += 1

    def keep_delivered(self) -> None:
        """Let the text that was handed out stand as the answer."""
        self.kept = "delivered"

    def keep_prior_answer(self) -> None:
        """Let the answer that the turn already holds stand as the answer."""
        self.kept = "prior_answer"

    def spend_retry(self) -> None:
        """Take one retry."""
        self.retries += 1

    def spend_reask(self) -> None:
        """Take one reask."""
        self.reasks += 1

    def spend_nudge(self) -> None:
        """Take one nudge."""
        self.nudges += 1

    def spend_prefill(self) -> None:
        """Take one prefill."""
        self.prefills += 1

    def spend_enlargement(self) -> None:
        """Take one enlargement."""
        self.enlargements += 1

    def spend_repair(self) -> None:
        """Take one repair."""
        self.repairs += 1

    def spend_compaction(self) -> None:
        """Take one compaction."""
        self.compactions += 1

    def spend_continuation(self) -> None:
        """Take one continuation; new text is progress, and progress refills what it outranks."""
        self.continuations += 1
        if self.added_text:
            self.retries = self.reasks = self.prefills = 0

    def spend_fallback(self) -> None:
        """Take one fallback; the new backend starts with every counter that a fallback refills."""
        self.fallbacks += 1
        self.retries = self.reasks = self.nudges = self.prefills = self.enlargements = self.repairs = 0


_readers: dict[type[Ladder], Callable[[Ladder], tuple[int, ...]]] = {}


def reader_of(model: type[Ladder]) -> Callable[[Ladder], tuple[int, ...]]:
    """Return what reads all the counters of a model at once; a third of the time of one by one, at every step."""
    reader = _readers.get(model)
    if reader is None:
        names = names_of(model, COUNTER)
        reader = attrgetter(*names) if len(names) > 1 else lambda ladder: tuple(getattr(ladder, name) for name in names)
        _readers[model] = reader
    return reader


_names: dict[tuple[type[Ladder], str], tuple[str, ...]] = {}  # every call asks, and the answer never changes


def names_of(model: type[Ladder], kind: str) -> tuple[str, ...]:
    """List the fields of a model class that are counters, or those that are facts."""
    names = _names.get((model, kind))
    if names is None:
        names = tuple(attribute.name for attribute in fields(model) if attribute.metadata.get("kind") == kind)
        _names[model, kind] = names
    return names
