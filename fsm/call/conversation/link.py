"""One backend of the chain as the core sees it, and what earlier calls have learned of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from attrs import Factory, field, frozen, validators

from rungwise.fsm.call.conversation.request import MOST_TOKENS, Request, token_count
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.forms import FLAG, NAMES, TEXT, Forms, check_object, or_null
from rungwise.fsm.values.checks import is_flag, is_number, is_text, is_whole, must, or_none
from rungwise.fsm.values.fields import instance, number
from rungwise.fsm.values.label import label

HIGHEST_PRICE = 1e12
"""No price may exceed this."""


def _price(instance: object, attribute: Any, value: Any) -> None:
    if not is_number(value, 0, HIGHEST_PRICE):
        where = f"Prices.{attribute.name}"
        raise ConfigurationError(f"{where} must be a finite number of 0 or more, at most {HIGHEST_PRICE:,.0f}")


@frozen
class Prices:
    """Price a backend's tokens, in one currency, for a million tokens each.

    A cache price of None means the input price.
    """

    input: float = field(validator=_price)
    output: float = field(validator=_price)
    cache_read: float | None = field(default=None, validator=validators.optional(_price))
    cache_creation: float | None = field(default=None, validator=validators.optional(_price))


class Link(Protocol):
    """What the core needs to know of one backend of the chain; `adapters` provides the rest.

    `identity` is equal for duplicates (same provider and model, or same base URL and model); `problem` says why the
    backend cannot be used, or is None; `prefills` and `echoes` are its capabilities; `origin` says where the
    headers of a request end up: a backend without it is given none, unless it is the first. One that cannot say all of
    a request has a method `lost`, which is given the request and returns a short sentence for each thing left out, and
    may have a `lost_behind` that is asked in its place where it is not the first of the chain. One that cannot be held
    to JSON has a method `in_words`, which is given the request and the parameters that it has rejected, and returns the
    `response_format` that is to be asked for in words, or None.
    """

    @property
    def name(self) -> str:
        """Name the backend in journals and errors; never holds a key."""
        ...

    @property
    def identities(self) -> frozenset[tuple[str, str]]:
        """Return what it has in common with a duplicate."""
        ...

    @property
    def origin(self) -> str:
        """Return the scheme, host and port that are spoken to; "" where there are none."""
        ...

    @property
    def problem(self) -> str | None:
        """Say why this backend cannot be used at all, or None."""
        ...

    @property
    def prefills(self) -> bool:
        """Tell whether a trailing assistant turn is continued."""
        ...

    @property
    def echoes(self) -> bool:
        """Tell whether a continued assistant turn is repeated at the start of the answer."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """Return the output cap that the backend sends where the caller gives none."""
        ...

    @property
    def expects_json(self) -> bool:
        """Tell whether the backend itself asks for JSON, where the caller says nothing of it."""
        ...

    @property
    def streams(self) -> bool:
        """Tell whether it can send a reply as a stream, so that the clocks of silence can run."""
        ...

    @property
    def first_token(self) -> float | None:
        """Return the seconds to wait for the first content, where this backend needs others than the policy says."""
        ...

    @property
    def stall(self) -> float | None:
        """Return the seconds to wait between two pieces of content, likewise."""
        ...

    @property
    def prices(self) -> Prices | None:
        """Return the backend's prices, where known."""
        ...

    @property
    def shapes(self) -> Shapes:
        """Return the form in which messages, tools and parameters are written for it."""
        ...


def _sentences(instance: object, attribute: Any, value: Any) -> None:
    if not all(isinstance(each, str) for each in value):
        where = f"{type(instance).__name__}.{attribute.name}"
        raise ConfigurationError(f"{where} must be texts")


def _told(losses: Iterable[str]) -> tuple[str, ...]:
    return tuple(losses)  # attrs reads the signature of a converter, and parses that of a built-in: 2 ms at import


def _own_identity(link: PlainLink) -> frozenset[tuple[str, str]]:
    return frozenset({("name", str(link.name))})


@frozen
class PlainLink:
    """Stand for a backend where the core runs without adapters: in tests, in replays, around a transport of your own.

    Two plain links of one name are duplicates unless they are given `identities`. A subclass may name the `shapes` of
    what its transport sends, says `streams` if it can stream, and names with `losses` what its requests leave out of
    what is asked, a short sentence for each.

    Raises:
        ConfigurationError: a field is not of its form.
    """

    name: str = field(default="backend", validator=instance(str))
    prefills: bool = False
    echoes: bool = False
    problem: str | None = field(default=None, validator=validators.optional(instance(str)))
    max_tokens: int | None = field(default=None, validator=token_count)
    expects_json: bool = False
    streams: bool = False
    first_token: float | None = field(default=None, validator=validators.optional(number(above_zero=True)))
    stall: float | None = field(default=None, validator=validators.optional(number(above_zero=True)))
    prices: Prices | None = field(default=None, validator=validators.optional(instance(Prices)))
    identities: frozenset[tuple[str, str]] = field(default=Factory(_own_identity, takes_self=True))
    losses: tuple[str, ...] = field(default=(), converter=_told, validator=_sentences)

    def lost(self, request: Request) -> tuple[str, ...]:
        """Return its losses, whatever is asked."""
        return self.losses

    @property
    def origin(self) -> str:
        """Return the empty text: it is reached by a transport that is not known here."""
        return ""

    @property
    def shapes(self) -> Shapes:
        """Return the neutral form."""
        return NEUTRAL


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
