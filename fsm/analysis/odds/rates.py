"""Rates: how often each event comes from each backend, how long it takes, how many tokens it uses.

The file is TOML, as in `example.toml`. A person can write it, and `rungwise rates` counts it from
journals. A histogram is a list of values, each with its weight; a number alone is that value each
time. The position of an attempt is `fresh`, `after_wait` or `after_continuation`; a position
without rates has those of `fresh`. For turns, `[[turn]]` tables hold the share of the rounds of
tools, or of the compactions, that bring each event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Final, get_args

import attrs
from attrs import field, frozen

from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy_values import from_mapping
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.journal.amounts import ordinal
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.turn.observe import OF_TOOLS
from rungwise.fsm.values.checks import (
    LARGEST,
    instance,
    is_number,
    is_text,
    must,
    one_of,
    optional,
    or_none,
    text,
    whole,
)
from rungwise.fsm.values.files import read_toml, text_of_file, toml_in, toml_value

POSITIONS: Final = ("fresh", "after_wait", "after_continuation")
EVENTS: Final = tuple(event for event, source in CALL.ladders if source == CALL.hub)
# attempts depend on the one before if independent ones differ as much in so few of the cases
LIKELY: Final = 0.01
MOST_BACKENDS: Final = 100
PLACES: Final = {
    "BackendRates": "backend",
    "EventRate": "event of it",
    "TurnRate": "[[turn]]",
}
FEW: Final = 100  # attempts: the shares of fewer are known to within 10 % at best
NEAR_ONE: Final = 1e-6  # how far the shares of a position may be from 1 in all
SETTLED: Final = frozenset(
    {"has_next_backend", "wait_fits", "switch_asked", "refusal_ends", "reserve_left"}
)
"""The facts that follow from the policy, the chain and what came before."""

TURN_KINDS: Final = ("rounds of tools", "compactions")
TURN_EVENTS: Final = {
    "tools_ran": TURN_KINDS[0],
    "compacted": TURN_KINDS[1],
    "stayed_long": TURN_KINDS[1],
}
"""The events of a turn that no call brings, each with what its rate is a share of."""

Histogram = tuple[tuple[float, float], ...]
"""Values of 0 or more, each with its weight."""

NOTHING: Final[Histogram] = ((0, 1),)
ONCE: Final[Histogram] = ((1, 1),)


def position_of(rung: str, wait: float) -> str:
    """Return the position of an attempt that a rung makes after a wait, in seconds."""
    if rung == "continuation":
        return "after_continuation"
    return "after_wait" if wait > 0 else "fresh"


def mean(histogram: Histogram) -> float:
    """Return the mean of a histogram."""
    total = sum(weight for _, weight in histogram)
    return sum(value * weight for value, weight in histogram) / total


def _frozen(value: Any) -> Any:
    """Return lists, as TOML has them, as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    return value


def _pairs(value: Any) -> Any:
    """Return a histogram; a number alone is one value with the weight 1."""
    if isinstance(value, (list, tuple)):
        return _frozen(value)
    return ((value, 1),)


def _is_pair(value: Any, most: float = LARGEST) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    return all(is_number(each, 0, most) for each in value)


def _is_facts(names: Any) -> bool:
    if not isinstance(names, tuple):
        return False
    return all(is_text(name) and name not in SETTLED for name in names)


_must: Final = partial(must, names_class=True)
_HISTOGRAM: Final = _must(
    "a number of 0 or more, or a list of [value, weight]",
    lambda pairs: all(map(_is_pair, pairs)) and any(weight for _, weight in pairs),
)
_SHARE: Final = _must("a share from 0 to 1", lambda value: is_number(value, 0, 1))
_FACTS: Final = _must("facts that a reply brings", _is_facts)
_OF_TOOLS: Final = _must(
    f"some of {', '.join(OF_TOOLS)}", lambda names: _is_facts(names) and {*names} <= {*OF_TOOLS}
)
_SECONDS: Final = _must("seconds, 0 or more", or_none(lambda value: is_number(value, 0, LARGEST)))
_PRICES: Final = _must(
    "[input, output], per million tokens", or_none(lambda value: isinstance(value, Prices))
)
_INTERVAL: Final = _must("two shares", or_none(lambda value: _is_pair(value, 1)))


def _tables(
    value: Any,
    kind: type[Any],
    form: str,
    least: int = 0,
) -> tuple[Any, ...]:
    """Return tables, as TOML has them, as instances of a class.

    Arguments:
        value: the tables.
        kind: the class.
        form: what the rates must be otherwise, for the error.
        least: how many there must be.
    """
    if not isinstance(value, (list, tuple)) or len(value) < least:
        raise ConfigurationError(f"rates must {form}")
    return tuple([_table(kind, each, number) for number, each in enumerate(value, 1)])


def _table(
    kind: type[Any],
    value: Any,
    number: int,
) -> Any:
    if isinstance(value, kind):
        return value
    try:
        return from_mapping(kind, value)
    except ConfigurationError as error:  # which of many it is, nobody could tell
        raise ConfigurationError(f"{ordinal(number)} {PLACES[kind.__name__]}: {error}") from None


def _must_add_up(rates: Iterable[EventRate | TurnRate], where: str) -> None:
    total = sum(each.share for each in rates)
    if abs(total - 1) > NEAR_ONE:
        raise ConfigurationError(f"the shares of {where} add up to {total:g}, not to 1")


@frozen(kw_only=True)
class EventRate:
    """Say how often an event comes, with what it brings.

    Arguments:
        event: the event of the machine.
        share: the probability, of all attempts in that position.
        reason: why it failed, which a policy may count before it leaves the backend.
        facts: the facts of the reply that hold; `has_text` if it brings the first text. Others do
            not hold.
        asked_wait: the seconds that the service asks to wait.
        seconds, input_tokens, output_tokens: histograms of an attempt.
        seen: how often it was counted; None for an estimate.
        between: the bounds of the share, of a Wilson interval of 95 %.
    """

    event: str = field(default="", validator=one_of(EVENTS))
    share: float = field(default=-1.0, validator=_SHARE)
    reason: Reason | None = field(default=None, validator=optional(one_of(get_args(Reason))))
    facts: tuple[str, ...] = field(default=(), converter=_frozen, validator=_FACTS)
    asked_wait: float | None = field(default=None, validator=_SECONDS)
    seconds: Histogram = field(default=NOTHING, converter=_pairs, validator=_HISTOGRAM)
    input_tokens: Histogram = field(default=NOTHING, converter=_pairs, validator=_HISTOGRAM)
    output_tokens: Histogram = field(default=NOTHING, converter=_pairs, validator=_HISTOGRAM)
    seen: int | None = field(default=None, validator=optional(whole(0, LARGEST)))
    between: tuple[float, float] | None = field(
        default=None,
        converter=_frozen,
        validator=_INTERVAL,
    )


@frozen(kw_only=True)
class Dependence:
    """Say how much attempts depend on the one before.

    Arguments:
        pairs: how many pairs of attempts were compared.
        p: how likely it is that independent attempts differ as much.
        v: Cramér's V, from 0 for independent attempts to 1 for those that the one before decides.
    """

    pairs: int = field(default=0, validator=whole(1, LARGEST))
    p: float = field(default=-1.0, validator=_SHARE)
    v: float = field(default=-1.0, validator=_SHARE)

    @property
    def is_likely(self) -> bool:
        """Tell whether chance alone hardly explains it."""
        return self.p < LIKELY

    def __str__(self) -> str:
        depends = "depends" if self.is_likely else "does not visibly depend"
        figures = f"p = {self.p:.2g}, Cramér's V = {self.v:.2g}, {self.pairs} pairs"
        return f"what an attempt brings {depends} on the attempt before ({figures})"


@frozen(kw_only=True)
class TurnRate:
    """Say how often a round of tools, or a compaction, brings an event.

    The fields are those of an `EventRate`.
    """

    event: str = field(default="", validator=one_of(tuple(TURN_EVENTS)))
    share: float = field(default=-1.0, validator=_SHARE)
    facts: tuple[str, ...] = field(default=(), converter=_frozen, validator=_OF_TOOLS)
    seconds: Histogram = field(default=NOTHING, converter=_pairs, validator=_HISTOGRAM)
    seen: int | None = field(default=None, validator=optional(whole(0, LARGEST)))
    between: tuple[float, float] | None = field(
        default=None,
        converter=_frozen,
        validator=_INTERVAL,
    )


def _events(value: Any) -> tuple[EventRate, ...]:
    return _tables(value, EventRate, "be tables, as in [[backend.fresh]]")


def _shares(
    instance: Any,
    attribute: Any,
    rates: tuple[EventRate, ...],
) -> None:
    if rates or attribute.name == "fresh":
        _must_add_up(rates, f"{attribute.name!r} of {instance.name!r}")


def _prices(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return Prices(*value)
    return value


@frozen(kw_only=True)
class BackendRates:
    """Hold the rates of a backend by position.

    Arguments:
        name: that of the backend.
        prices: those of its tokens; None if they are not known.
        dependence: how much its attempts were seen to depend on the one before; the odds take them
            as independent.
        fresh, after_wait, after_continuation: the rates of each position; none but of `fresh` if
            they are the same.
    """

    parts: ClassVar[Mapping[str, type]] = {"dependence": Dependence}

    name: str = field(default="", validator=text)
    prices: Prices | None = field(default=None, converter=_prices, validator=_PRICES)
    dependence: Dependence | None = field(default=None, validator=optional(instance(Dependence)))
    fresh: tuple[EventRate, ...] = field(default=(), converter=_events, validator=_shares)
    after_wait: tuple[EventRate, ...] = field(default=(), converter=_events, validator=_shares)
    after_continuation: tuple[EventRate, ...] = field(
        default=(),
        converter=_events,
        validator=_shares,
    )

    def at(self, position: str) -> tuple[EventRate, ...]:
        """Return the rates of a position; those of `fresh` if it has none."""
        rates: tuple[EventRate, ...] = getattr(self, position)
        return rates or self.fresh


def _backends(value: Any) -> tuple[BackendRates, ...]:
    found = _tables(value, BackendRates, "name backends, as in [[backend]]", 1)
    if len(found) > MOST_BACKENDS:
        raise ConfigurationError(
            f"rates may name {MOST_BACKENDS} backends at most, not {len(found)}"
        )
    [(name, times)] = Counter(each.name for each in found).most_common(1)
    if times > 1:
        raise ConfigurationError(
            f"{times} backends are named {name!r}: give each a name of its own"
        )
    return found


def _turns(value: Any) -> tuple[TurnRate, ...]:
    return _tables(value, TurnRate, "be tables, as in [[turn]]")


@frozen
class Rates:
    """Hold the rates of each backend, in the order of the chain, and those of turns."""

    backend: tuple[BackendRates, ...] = field(default=(), converter=_backends)
    turn: tuple[TurnRate, ...] = field(default=(), converter=_turns)

    def __attrs_post_init__(self) -> None:
        if any(rate.facts for rate in self.of("compactions")):
            raise ConfigurationError(
                "TurnRate.facts must be empty of compactions; only rounds of tools have facts"
            )
        for kind in TURN_KINDS:
            if rates := self.of(kind):
                _must_add_up(rates, f"the {kind} in [[turn]]")

    def of(self, kind: str) -> tuple[TurnRate, ...]:
        """Return the rates of the rounds of tools, or of the compactions."""
        return tuple([each for each in self.turn if TURN_EVENTS[each.event] == kind])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Name positions in which few attempts were counted, and backends with dependent ones."""
        warnings = []
        for name, kind, rates in self._counted():
            seen = sum(each.seen or 0 for each in rates)
            if 0 < seen < FEW:
                warnings.append(f"{name}: only {seen} {kind} seen")
        for each in self.backend:
            if each.dependence and each.dependence.is_likely:
                says = f"{each.dependence}; the odds take attempts as independent"
                warnings.append(f"{each.name}: {says}")
        return tuple(warnings)

    def _counted(self) -> Iterator[tuple[str, str, Sequence[EventRate | TurnRate]]]:
        """Yield all rates that are counted together, each with where they are of, and of what."""
        for backend in self.backend:
            for position in POSITIONS:
                yield f"{backend.name}, {position}", "attempts", getattr(backend, position)
        for kind in TURN_KINDS:
            yield "turns", kind, self.of(kind)

    @classmethod
    def example(cls) -> Rates:
        """Return the rates that ship, of two backends; the file names their sources."""
        return from_mapping(cls, toml_in(__package__, "example.toml"))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Rates:
        """Read rates from a file; a ConfigurationError names it."""
        return cls.from_toml(text_of_file(path), source=str(path))

    @classmethod
    def from_toml(cls, text: str, *, source: str = "rates") -> Rates:
        """Read rates from TOML; a ConfigurationError names the source."""
        try:
            return from_mapping(cls, read_toml(text))
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: {error}") from None

    def to_toml(self) -> str:
        """Write the rates as TOML, which `from_toml` reads back."""
        lines: list[str] = []
        for backend in self.backend:
            lines += ["[[backend]]", *_fields(backend)]
            for position in POSITIONS:
                for rate in getattr(backend, position):
                    lines += ["", f"[[backend.{position}]]", *_fields(rate)]
            lines.append("")
        for each in self.turn:
            lines += ["[[turn]]", *_fields(each), ""]
        return "".join(f"{line}\n" for line in lines)


def _fields(of: BackendRates | EventRate | TurnRate) -> Iterator[str]:
    """Yield what is no default and no table of its own, as lines of TOML."""
    for each in attrs.fields(type(of)):
        value = getattr(of, each.name)
        if value == each.default or each.name in POSITIONS:
            continue
        if isinstance(value, Prices):
            value = [value.input, value.output]
        elif isinstance(value, Dependence):
            value = attrs.asdict(value)
        yield f"{each.name} = {toml_value(value)}"
