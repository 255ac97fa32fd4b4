"""What a server has taught before a call began: it enters the call as data, and stays the same until the call ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.request import MOST_TOKENS
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.forms import FLAG, NAMES, TEXT, Forms, check_object, or_null
from rungwise.fsm.values.checks import is_flag, is_text, is_whole, must, or_none
from rungwise.fsm.values.label import label


def _names(value: Iterable[str]) -> Any:
    return value if isinstance(value, str) or not isinstance(value, Iterable) else frozenset(value)


@frozen(kw_only=True)
class Lessons:
    """Hold what is remembered of a backend, so that a call need not pay to hear it again.

    Arguments:
        dropped: parameters that it rejects; `stream` is one of them.
        no_prefill: whether it rejects a trailing assistant turn.
        restore_reasoning: whether it wants the reasoning of earlier turns back.
        largest_output: the most output tokens that it takes for a cap, as it said itself; None where it has not.
        server: what the server said it is, as far as it was asked; "" where it was not.

    Raises:
        ConfigurationError: a field is not of its form.
    """

    dropped: frozenset[str] = field(
        default=frozenset(),
        converter=_names,
        validator=must(
            "a set of names", lambda value: isinstance(value, frozenset) and all(map(is_text, value)), names_class=True
        ),
    )
    no_prefill: bool = field(default=False, validator=must("True or False", is_flag, names_class=True))
    restore_reasoning: bool = field(default=False, validator=must("True or False", is_flag, names_class=True))
    largest_output: int | None = field(
        default=None,
        validator=must(
            "a whole number of tokens above 0, or None",
            or_none(lambda value: is_whole(value, 1, MOST_TOKENS)),
            names_class=True,
        ),
    )
    server: str = field(default="", converter=label, validator=must("a string", is_text, names_class=True))

    def joined(self, other: Lessons) -> Lessons:
        """Return what both say; of two caps, the smaller."""
        if other == NO_LESSONS:
            return self
        caps = [cap for cap in (self.largest_output, other.largest_output) if cap is not None]
        return Lessons(
            dropped=self.dropped | other.dropped,
            no_prefill=self.no_prefill or other.no_prefill,
            restore_reasoning=self.restore_reasoning or other.restore_reasoning,
            largest_output=min(caps, default=None),
            server=self.server or other.server,
        )

    def __str__(self) -> str:
        said = []
        if self.dropped:
            said.append(f"without {', '.join(sorted(self.dropped))}")
        if self.no_prefill:
            said.append("no prefill")
        if self.restore_reasoning:
            said.append("with the reasoning of earlier turns")
        if self.largest_output is not None:
            said.append(f"at most {self.largest_output} output tokens")
        learned = f"learned: {', '.join(said)}" if said else ""
        return "; ".join(filter(None, (f"discovered: {self.server}" if self.server else "", learned)))

    def to_mapping(self) -> dict[str, Any]:
        """Return what there is as plain values."""
        plain: dict[str, Any] = {"dropped": sorted(self.dropped)} if self.dropped else {}
        for name in ("no_prefill", "restore_reasoning", "largest_output", "server"):
            if value := getattr(self, name):
                plain[name] = value
        return plain

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> Lessons:
        """Read lessons back.

        Arguments:
            values: what was written.
            where: its place, for an error.

        Raises:
            ConfigurationError: they are none.
        """
        check_object(values, _FORMS, (), where)
        return cls(**values)


_FORMS: Final[Forms] = {
    "dropped": NAMES,
    **dict.fromkeys(("no_prefill", "restore_reasoning"), FLAG),
    "largest_output": or_null((lambda value: is_whole(value, 1, MOST_TOKENS), "a whole number of 1 or more")),
    "server": TEXT,
}

NO_LESSONS: Final = Lessons()


def lessons_of(link: Link) -> Lessons:
    """Return what is remembered of a backend now; one of the user's own may remember nothing.

    Raises:
        ConfigurationError: what it says is none.
    """
    lessons = getattr(link, "lessons", NO_LESSONS)
    if not isinstance(lessons, Lessons):
        raise ConfigurationError(f"the lessons of {link.name!r} must be Lessons, not {type(lessons).__name__}")
    return lessons
