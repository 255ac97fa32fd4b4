"""What a call may do and spend: `Policy` and its parts, validated when built, loadable from
TOML.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Final, Literal, get_args

import attrs
from attrs import field, frozen

from rungwise.fsm.call.hints import Hints
from rungwise.fsm.call.limits import LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy_values import from_mapping, from_toml, unknown
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.values.checks import (
    brief_repr,
    explains_arguments,
    flag,
    instance,
    is_whole,
    number,
    one_of,
    optional,
    whole,
)
from rungwise.fsm.values.files import text_of_file
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import short

LARGEST_JITTER = 3
"""The largest jitter, as a share of a wait. It keeps the longest wait within what clocks accept."""

LARGEST_SUM = 1e12
"""The largest sum of money."""

DEFAULT_SECONDS = 900.0
"""A quarter of an hour: one attempt at its longest (600 s, the official SDKs' own limit), and half
as much again.
"""

AfterRefusal = Literal["fall_back", "end"]

MOST_ATTEMPTS = 10**9
"""The most attempts of a shared budget; one call may make at most `LARGEST_LIMIT`."""


_SECONDS: Final = number(above_zero=False)
_SECONDS_OR_NONE: Final = optional(number(above_zero=True))


@explains_arguments
@frozen(kw_only=True)
class Budget:
    """Limit what the whole call may spend. A budget is never refilled, not even by a fallback.

    Arguments:
        attempts: requests; at most 1000 in a policy, which a person can check, and more in a
            `SharedBudget`.
        seconds: from the beginning of the call to its end, waits included; None sets no limit.
        output_tokens: output tokens of all attempts together; None sets no limit. Eight of them, or
            a ninth, are reserved from every cap, for servers that count the end of a turn on top of
            it.
        money: in the currency of the backends' prices; None sets no limit, anything else needs
            prices.
    """

    attempts: int = field(default=24, validator=whole(1, MOST_ATTEMPTS))
    seconds: float | None = field(default=DEFAULT_SECONDS, validator=_SECONDS_OR_NONE)
    output_tokens: int | None = field(default=None, validator=optional(whole(1, 10**12)))
    money: float | None = field(
        default=None, validator=optional(number(above_zero=True, highest=LARGEST_SUM))
    )


@explains_arguments
@frozen(kw_only=True)
class Waits:
    """Set how long the rungs wait, in seconds.

    The n-th wait is min(base * 2**(n - 1), cap), plus a uniform jitter of up to `jitter` times
    that. A call waits as long as the service asks. If that is longer than `longest_asked`, it moves
    to the next backend at once.

    Arguments:
        retry_base, retry_cap: for the waits before the same request is sent again after a failure.
        overload_cap: replaces `retry_cap` if the provider says that it is overloaded.
        reask_base, reask_cap: for the waits after a reply without an answer, without a usable
            shape, or that broke off.
        jitter: the largest random share added to a wait, from 0.
        longest_asked: the longest wait that a service may ask for.
    """

    retry_base: float = field(default=2.0, validator=_SECONDS)
    retry_cap: float = field(default=60.0, validator=_SECONDS)
    overload_cap: float = field(default=60.0, validator=_SECONDS)
    reask_base: float = field(default=1.0, validator=_SECONDS)
    reask_cap: float = field(default=120.0, validator=_SECONDS)
    jitter: float = field(default=0.5, validator=number(above_zero=False, highest=LARGEST_JITTER))
    longest_asked: float = field(default=120.0, validator=_SECONDS)


class DefaultSeconds(float):
    """Seconds that nobody chose: what is known of a model may replace them."""


FIRST_TOKEN = DefaultSeconds(60.0)
"""The default of `Timeouts.first_token`: models that reason may be silent for half a minute."""


@explains_arguments
@frozen(kw_only=True)
class Timeouts:
    """Limit one attempt, in seconds; None is no limit.

    Only content resets the clocks of silence: text, reasoning, tool arguments; not comments, pings
    or empty deltas. If a reply is not streamed, only `connect` and `total` apply.

    Arguments:
        connect: until the connection is open, including names, addresses and TLS.
        first_token: from the start of the attempt to the first content; a backend can set its own.
            The default alone gives way, once the head of a response has come, to what is known of a
            model that thinks in silence.
        stall: between two pieces of content; a backend can set its own.
        total: the whole attempt.
    """

    connect: float = field(default=10.0, validator=number(above_zero=True))
    first_token: float | None = field(default=FIRST_TOKEN, validator=_SECONDS_OR_NONE)
    stall: float | None = field(default=25.0, validator=_SECONDS_OR_NONE)
    total: float | None = field(default=600.0, validator=_SECONDS_OR_NONE)


@explains_arguments
@frozen(kw_only=True)
class Reserve:
    """Reserve a part of the budget for each usable backend that is still to come.

    The reserve covers one attempt: its time, and its output tokens and money if the budget counts
    them, but at most `share` of the budget. Together the reserves leave each backend at least an
    even part.

    Arguments:
        share: the share of the budget, from 0 to 1; 0 reserves nothing.
        seconds: the time for each backend; replaces the share of the time.
    """

    share: float = field(default=0.25, validator=number(above_zero=False, highest=1))
    seconds: float | None = field(default=None, validator=_SECONDS_OR_NONE)

    @property
    def is_on(self) -> bool:
        """Tell whether anything is reserved."""
        return self.share > 0 or self.seconds is not None


EMPTY_REPLY = "empty"
BROKEN_STREAM = "broken_stream"
UNTIMED_LIMIT = "rate_limit_without_wait"

SWITCH_EVENTS: Mapping[str, tuple[str, ...]] = FrozenMap(
    {
        EMPTY_REPLY: ("came_empty", "only_reasoned"),
        BROKEN_STREAM: ("interrupted",),
        UNTIMED_LIMIT: ("failed_transiently",),
    }
)
"""The names in `switch_after` that are no reasons of failures, each with the events that count."""

SWITCH_AFTER: Mapping[str, int] = FrozenMap(
    {
        **dict.fromkeys(("unreachable", "timeout", "silence"), 1),
        **dict.fromkeys(("overloaded", EMPTY_REPLY, BROKEN_STREAM, UNTIMED_LIMIT), 2),
    }
)
"""The default number of failures of a kind after which a call leaves the backend."""

SWITCH_REASONS = (*get_args(Reason), *SWITCH_EVENTS)


def _switch_after(value: Any) -> Mapping[str, int]:
    if not isinstance(value, Mapping):
        raise ConfigurationError("Policy.switch_after must map a reason to a number of failures")
    for reason, count in value.items():
        if reason not in SWITCH_REASONS:
            raise ConfigurationError(
                f"Policy.switch_after: {unknown('reason', reason, SWITCH_REASONS)}"
            )
        if not is_whole(count, 1, LARGEST_LIMIT):
            raise ConfigurationError(
                f"Policy.switch_after.{reason} must be a whole number of 1 or more, up to "
                f"{LARGEST_LIMIT} for never, not {short(count)}"
            )
    counts = dict(SWITCH_AFTER)
    if "rate_limit" in value:
        counts[UNTIMED_LIMIT] = value["rate_limit"]
    counts.update(value)
    return FrozenMap(counts)


@explains_arguments
@frozen(kw_only=True, repr=False)
class Policy:
    """Set how a call recovers and what it may spend.

    Arguments:
        limits, budget, waits, timeouts, reserve, hints: see their classes.
        switch_after: the number of failures, by reason, after which a call moves to the next
            backend, if there is one, even if it could try more here. Besides reasons, `empty`
            counts replies without an answer, `broken_stream` streams that broke off without new
            text since the last new text, and `rate_limit_without_wait` the rate limits that name no
            wait (as often as `rate_limit` if you set that alone). The defaults, which stay for what
            you do not name: 1 for `unreachable`, `timeout` and `silence`; 2 for `overloaded` and
            these three; never for the rest. `overloaded = 1000` switches one off.
        after_refusal: `fall_back` asks the next backend what one has refused; `end` does not.
        base_cap: output tokens from which caps are raised if the caller set no cap.
        largest_cap: output tokens that no raised cap exceeds; a larger cap of the caller stays.
        confidence: the least confidence of an answer to a question of `Client.decide`, from 0 to 1.
            The next backend is asked the questions whose answers are below it. None takes every
            answer.
        handful: output tokens; text cut by a caller's cap of so many or fewer is `partial` at once.
        nudge_window: the number of last messages in which a tool result is looked for.
        skip_identical_empties: whether two identical empty replies are final for this backend.
        table: the machine; derive your own with `rungwise.CALL.without(...)` and its like.

    Raises:
        ConfigurationError: a field is not of its form; the message names it and says what would be
            right.
        TableError: the table cannot be proved.
    """

    parts: ClassVar[Mapping[str, type[Any]]] = {
        "limits": Limits,
        "budget": Budget,
        "waits": Waits,
        "timeouts": Timeouts,
        "reserve": Reserve,
        "hints": Hints,
    }
    """The fields that are tables of keys."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "interactive": {
            "limits": {"retries": 2, "reasks": 2},
            "budget": {"attempts": 12, "seconds": 90.0},
            "waits": {"retry_base": 1.0, "reask_base": 1.0, "longest_asked": 15.0}
            | dict.fromkeys(("retry_cap", "overload_cap", "reask_cap"), 8.0),
            "timeouts": {"connect": 5.0, "first_token": 10.0, "stall": 10.0, "total": 60.0},
            "after_refusal": "end",
        }
    }
    """The shipped presets, as differences from the defaults; in TOML, `preset` names one to start
    from.
    """

    limits: Limits = field(factory=Limits, validator=instance(Limits))
    budget: Budget = field(factory=Budget, validator=instance(Budget))
    waits: Waits = field(factory=Waits, validator=instance(Waits))
    timeouts: Timeouts = field(factory=Timeouts, validator=instance(Timeouts))
    reserve: Reserve = field(factory=Reserve, validator=instance(Reserve))
    hints: Hints = field(factory=Hints, validator=instance(Hints))
    switch_after: Mapping[str, int] = field(factory=dict, converter=_switch_after, hash=False)
    after_refusal: AfterRefusal = field(
        default="fall_back", validator=one_of(get_args(AfterRefusal))
    )
    base_cap: int = field(default=4096, validator=whole(1, 10**9))
    largest_cap: int = field(default=32_768, validator=whole(1, 10**9))
    confidence: float | None = field(
        default=None, validator=optional(number(above_zero=False, highest=1))
    )
    handful: int = field(default=16, validator=whole(0, 10**9))
    nudge_window: int = field(default=5, validator=whole(0, LARGEST_LIMIT))
    skip_identical_empties: bool = field(default=False, validator=flag)
    table: Table = field(default=CALL, validator=instance(Table), repr=False)

    __repr__ = brief_repr

    def __attrs_post_init__(self) -> None:
        if self.budget.attempts > LARGEST_LIMIT:
            expected = f"a whole number from 1 to {LARGEST_LIMIT}, not {self.budget.attempts}"
            raise ConfigurationError(
                f"Budget.attempts of a policy must be {expected}; only a SharedBudget takes more"
            )
        if self.table is not CALL:  # which the test suite proves
            # the checker is for tables of your own
            from rungwise.fsm.call.rules import check_call_table

            check_call_table(self.table)
            limits = self.table.limits
            own = {name: limits[name] for name in limits if name not in self.limits}
            if own:
                object.__setattr__(self, "limits", Limits(**{**own, **self.limits}))
        hints = self.table.hints
        if hints.keys() - self.hints.rungs.keys():
            object.__setattr__(
                self, "hints", attrs.evolve(self.hints, rungs={**hints, **self.hints.rungs})
            )
        for name in self.limits:
            if name not in self.table.counters and name not in CALL.limits:
                raise ConfigurationError(f"Limits: {unknown('limit', name, self.table.counters)}")
        for name in self.hints.rungs:
            if name not in self.table.rungs:
                raise ConfigurationError(f"Hints.rungs: {unknown('rung', name, self.table.rungs)}")

    @classmethod
    def interactive(cls, **changed: Any) -> Policy:
        """Return a policy for people who wait at a screen: it leaves silent backends early, and a
        refusal is final.

        Arguments:
            changed: fields that differ from the preset.

        Raises:
            ConfigurationError: a field is not of its form.
        """
        return attrs.evolve(from_mapping(cls, {"preset": "interactive"}), **changed)

    @classmethod
    def from_toml(
        cls,
        text: str,
        *,
        source: str = "policy",
        table: Table | None = None,
    ) -> Policy:
        """Read a policy from TOML. Every key is optional and has the name of its field.

        The tables `[prices]`, `[health]`, `[[chain.NAME]]` and `[key.NAME]`, which the commands
        read, are skipped.

        Arguments:
            source: the name of the text in errors.
            table: the machine, whose own rungs can be limited like the others; None for
                `rungwise.CALL`.

        Raises:
            ConfigurationError: the text is no TOML, or a key or value is wrong; `source` is named
                in the message.
        """
        if table is None:
            return from_toml(cls, text, source)
        return from_toml(cls, text, source, table=table)

    @classmethod
    def load(cls, path: str | PathLike[str], *, table: Table | None = None) -> Policy:
        """Read a policy from a TOML file.

        Arguments:
            table: the machine, whose own rungs can be limited like the others; None for
                `rungwise.CALL`.

        Raises:
            ConfigurationError: the file cannot be read, or `from_toml` refuses it.
        """
        return cls.from_toml(text_of_file(path), source=str(path), table=table)

    def to_mapping(self) -> dict[str, Any]:
        """Return the policy as plain values, without its table."""
        plain = attrs.asdict(self, filter=attrs.filters.exclude("table", "limits"))
        plain["hints"]["rungs"] = dict(self.hints.rungs)
        if self.timeouts.first_token is not None:
            plain["timeouts"]["first_token"] = float(self.timeouts.first_token)
        return {"limits": dict(self.limits), **plain, "switch_after": dict(self.switch_after)}


DEFAULT_POLICY = Policy()
