"""What earlier calls have learned of a backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import asdict, field, frozen

from rungwise.fsm.call.conversation.request import MOST_TOKENS
from rungwise.fsm.engine.journal.forms import FLAG, NAMES, TEXT, Forms, check_object, or_null
from rungwise.fsm.values.checks import is_flag, is_text, is_whole, must, or_none
from rungwise.fsm.values.label import label


def _names(value: Iterable[str]) -> Any:
    """Return a set of names; anything else stays as it is, for the validator to refuse."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return frozenset(value)


def _is_set_of_names(value: object) -> bool:
    return isinstance(value, frozenset) and all(map(is_text, value))


def _is_output_cap(value: object) -> bool:
    return is_whole(value, 1, MOST_TOKENS)


_IS_FLAG: Final = must("True or False", is_flag, names_class=True)


@frozen(kw_only=True)
class Lessons:
    """Hold what earlier calls have learned of a backend, so that no call pays to learn it again.

    Arguments:
        dropped: parameters that it rejects; `stream` may be one of them.
        no_prefill: whether it rejects a trailing assistant turn.
        restore_reasoning: whether it wants the reasoning of earlier turns back.
        largest_output: the largest output cap that it takes, as it said itself; None if it has not.
        misplaced: whether it does not take requests in the protocol of the backend.
        server: what the server said it is; "" if it was not asked.

    Raises:
        ConfigurationError: a field has the wrong type.
    """

    dropped: frozenset[str] = field(
        default=frozenset(),
        converter=_names,
        validator=must("a set of names", _is_set_of_names, names_class=True),
    )
    no_prefill: bool = field(default=False, validator=_IS_FLAG)
    restore_reasoning: bool = field(default=False, validator=_IS_FLAG)
    largest_output: int | None = field(
        default=None,
        validator=must(
            "a whole number of tokens above 0, or None", or_none(_is_output_cap), names_class=True
        ),
    )
    misplaced: bool = field(default=False, validator=_IS_FLAG)
    server: str = field(
        default="", converter=label, validator=must("a string", is_text, names_class=True)
    )

    def joined(self, other: Lessons) -> Lessons:
        """Join two sets of lessons; of two caps, the smaller counts."""
        if other == NO_LESSONS:
            return self
        outputs = (self.largest_output, other.largest_output)
        caps = [cap for cap in outputs if cap is not None]
        return Lessons(
            dropped=self.dropped | other.dropped,
            no_prefill=self.no_prefill or other.no_prefill,
            restore_reasoning=self.restore_reasoning or other.restore_reasoning,
            largest_output=min(caps, default=None),
            misplaced=self.misplaced or other.misplaced,
            server=self.server or other.server,
        )

    def __str__(self) -> str:
        learned = []
        if self.dropped:
            learned.append(f"without {', '.join(sorted(self.dropped))}")
        if self.no_prefill:
            learned.append("no prefill")
        if self.restore_reasoning:
            learned.append("with the reasoning of earlier turns")
        if self.largest_output is not None:
            learned.append(f"at most {self.largest_output} output tokens")
        if self.misplaced:
            learned.append("not in this protocol")
        parts = []
        if self.server:
            parts.append(f"discovered: {self.server}")
        if learned:
            parts.append(f"learned: {', '.join(learned)}")
        return "; ".join(parts)

    def to_mapping(self) -> dict[str, Any]:
        """Return the lessons as plain values."""
        plain = {name: value for name, value in asdict(self).items() if value}
        if self.dropped:
            plain["dropped"] = sorted(self.dropped)
        return plain

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> Lessons:
        """Read lessons from plain values, or raise a ConfigurationError that names their place.

        Arguments:
            values: what `to_mapping` returned.
            where: the place of the values, for an error.
        """
        check_object(values, _FORMS, (), where)
        return cls(**values)


_FORMS: Final[Forms] = {
    "dropped": NAMES,
    "no_prefill": FLAG,
    "restore_reasoning": FLAG,
    "misplaced": FLAG,
    "largest_output": or_null((_is_output_cap, "a whole number of 1 or more")),
    "server": TEXT,
}

NO_LESSONS: Final = Lessons()
