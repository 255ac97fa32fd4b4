"""What a turn may do and spend: `TurnPolicy`, validated when built and loadable from TOML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
from attrs import field, frozen

from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import DEFAULT_POLICY, Budget, Policy
from rungwise.fsm.call.policy_values import from_toml
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.checks import (
    brief_repr,
    explains_arguments,
    flag,
    instance,
    number,
    optional,
    text,
    whole,
)
from rungwise.fsm.values.files import text_of_file

LARGEST_WINDOW = 10**9
"""The largest context of a model, in tokens, that a policy accepts."""


@explains_arguments
@frozen(kw_only=True)
class TurnHints:
    """Hold the texts that the turn itself sends to the model; the request for a summary does not
    stay in the messages.

    Arguments:
        summary: asks for the summary at the limit.
        handed_off: the result of a terminating tool without a function.
        awaiting: the result of a tool call that waits for the caller's approval.
        not_run: the result of a tool call that did not run because the turn had ended.
        too_many: the result of each call beyond `calls_per_reply`.
    """

    summary: str = field(
        default="No more tools can be called now. With what you have found so far, answer as well "
        "as you can, and say what is left open.",
        validator=text,
    )
    handed_off: str = field(default="Handed over.", validator=text)
    awaiting: str = field(default="This call was not run: it waits for approval.", validator=text)
    not_run: str = field(default="This call was not run: the turn had ended.", validator=text)
    too_many: str = field(
        default="This call was not run: one reply may not call so many tools.", validator=text
    )


@explains_arguments
@frozen(kw_only=True, repr=False)
class TurnPolicy:
    """Set how often a turn may continue and what it may spend.

    Arguments:
        call: the policy of each call, with the budget of one call; None for the client's policy, or
            the default.
        budget: the budget of the whole turn, including the time of tools; it is never refilled.
        auto_continues: how often the turn may continue by itself, counting tools, cut answers and
            compactions together; 0 switches all of these off, and the summary.
        faults: how many rounds of tools in a row may fail completely; the last of them ends the
            turn.
        compactions: how often the conversation may be shortened.
        summary: whether a last call without tools asks for a summary when tools have run and the
            turn may not continue.
        same_calls: how often the same call may return the same result in a turn; the last of them
            ends it.
        calls_per_reply: how many tool calls of one reply run; a reply with more ends the turn.
        calls_at_once: how many tools may run in parallel.
        tool_seconds: the time limit of a tool, in seconds.
        window: the tokens of the model's context, by which results and compactions are measured.
        results_share: the share of the window that the results of one reply may fill together;
            longer ones are cut.
        keep_tool_choice: whether a `tool_choice` that forces a call holds for every call of the
            turn. By default it holds for the first one, since the model could never answer
            otherwise.
        hints: the texts that the turn sends to the model.

    Raises:
        ConfigurationError: a field is invalid; the message names it and says what would be valid.
    """

    parts: ClassVar[Mapping[str, type[Any]]] = {
        "call": Policy,
        "budget": Budget,
        "hints": TurnHints,
    }
    """The fields that are tables of keys."""

    call: Policy | None = field(default=None, validator=optional(instance(Policy)))
    budget: Budget = field(
        factory=lambda: Budget(attempts=100, seconds=3600.0), validator=instance(Budget)
    )
    auto_continues: int = field(default=25, validator=whole(0, LARGEST_LIMIT))
    faults: int = field(default=3, validator=whole(1, LARGEST_LIMIT))
    compactions: int = field(default=3, validator=whole(0, LARGEST_LIMIT))
    summary: bool = field(default=True, validator=flag)
    same_calls: int = field(default=5, validator=whole(1, LARGEST_LIMIT))
    calls_per_reply: int = field(default=32, validator=whole(1, LARGEST_LIMIT))
    calls_at_once: int = field(default=8, validator=whole(1, LARGEST_LIMIT))
    tool_seconds: float = field(default=60.0, validator=number(above_zero=True))
    window: int = field(default=128_000, validator=whole(1, LARGEST_WINDOW))
    results_share: float = field(default=0.25, validator=number(above_zero=True, highest=1))
    keep_tool_choice: bool = field(default=False, validator=flag)
    hints: TurnHints = field(factory=TurnHints, validator=instance(TurnHints))

    __repr__ = brief_repr

    @property
    def of_calls(self) -> Policy:
        """Return the policy of each call."""
        return self.call or DEFAULT_POLICY

    @property
    def limits(self) -> Mapping[str, int]:
        """Return the limit of each counter of the table."""
        limits = {}
        for name in TURN.counters:
            if name == "summaries":
                limits[name] = int(self.summary and self.auto_continues > 0)
            else:
                limits[name] = getattr(self, name)
        return limits

    @property
    def result_tokens(self) -> int:
        """Return how many tokens the results of one reply may have together."""
        return max(1, int(self.window * self.results_share))

    @classmethod
    def from_toml(cls, text: str, *, source: str = "policy") -> TurnPolicy:
        """Read a policy from TOML; keys have the names of the fields, such as `[call.limits]`, and
        are optional.

        Arguments:
            text: the TOML.
            source: the name of the text in errors.

        Raises:
            ConfigurationError: the text is no TOML, or a key or value is invalid.
        """
        return from_toml(cls, text, source)

    @classmethod
    def load(cls, path: str | Path) -> TurnPolicy:
        """Read a policy from a TOML file.

        Raises:
            ConfigurationError: the file cannot be read, or `from_toml` refuses it.
        """
        return cls.from_toml(text_of_file(path), source=str(path))

    def to_mapping(self) -> dict[str, Any]:
        """Return the policy as plain values."""
        return {
            **attrs.asdict(self, filter=attrs.filters.exclude("call")),
            "call": self.of_calls.to_mapping(),
        }


DEFAULT_TURN_POLICY = TurnPolicy()


def check_policy(policy: object) -> None:
    """Refuse what is neither a policy of calls nor one of turns."""
    if not isinstance(policy, Policy | TurnPolicy):
        kind = type(policy).__name__
        raise ConfigurationError(
            f"policy must be a Policy or a TurnPolicy, not {kind}; see Policy.load"
        )
