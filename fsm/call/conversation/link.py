"""One backend as the core sees it, what earlier calls have learned of it, and the fallback chain of
one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from attrs import Factory, asdict, field, frozen, validators

from rungwise.fsm.call.conversation.request import MOST_TOKENS, Request, token_count
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.record import FLAG, NAMES, TEXT, Forms, check_object, or_null
from rungwise.fsm.values.checks import (
    brief_repr,
    instance,
    is_flag,
    is_number,
    is_text,
    is_whole,
    must,
    number,
    or_none,
    where,
    whole,
)
from rungwise.fsm.values.label import label

HIGHEST_PRICE = 1e12
"""No price may exceed this."""

MOST_KEYS: Final = 100
"""The most keys of one backend."""


def _price(instance: object, attribute: Any, value: Any) -> None:
    if not is_number(value, 0, HIGHEST_PRICE):
        form = f"a finite number of 0 or more, at most {HIGHEST_PRICE:,.0f}"
        raise ConfigurationError(f"Prices.{attribute.name} must be {form}")


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
    """What the core needs to know of one backend of the chain; `rungwise.adapters` provides the
    rest.

    A backend may also have these methods:

    - `lost(request)` returns a short sentence for each thing that the backend cannot send of a
      request, and `lost_behind(request)` does so where it is not the first of the chain.
    - `in_words(request, dropped)` returns the `response_format` to ask for in words, or None;
      `dropped` holds the parameters that the backend has rejected.
    - `is_secret(word)` tells whether a word is its key, or a part of it: no journal and no log
      shows such a word.
    - `renews_key` tells whether it asks for its key before each request, so that one with a 401 is
      sent once more.
    - `hides_cuts` tells whether it calls a reply whole that its output cap has cut.
    - `prefills_with(parameters)` tells whether the backend prefills in a request with these
      parameters.
    - `keys` is the number of its keys, if it is not 1: `Send.key` says which of them is used.
    - `model` is the model id that is sent, for journals.
    - `quota` is a `rungwise.Quota` that many calls share, if it has one; see `Call.needs`.
    """

    @property
    def name(self) -> str:
        """The name of the backend in journals and errors; it never holds a key."""

    @property
    def identities(self) -> frozenset[tuple[str, str]]:
        """What it has in common with a duplicate: provider and model, or base URL and model."""

    @property
    def origin(self) -> str:
        """The scheme, host and port; "" if there are none."""

    @property
    def problem(self) -> str | None:
        """Why this backend cannot be used at all, or None."""

    @property
    def prefills(self) -> bool:
        """Whether it continues a trailing assistant turn."""

    @property
    def echoes(self) -> bool:
        """Whether it repeats a continued assistant turn at the start of the answer."""

    @property
    def max_tokens(self) -> int | None:
        """The output cap that it sends if the caller gives none."""

    @property
    def expects_json(self) -> bool:
        """Whether it asks for JSON by itself."""

    @property
    def streams(self) -> bool:
        """Whether it can stream a reply, so that the clocks of silence can run."""

    @property
    def first_token(self) -> float | None:
        """Seconds to wait for the first content; None for those of the policy."""

    @property
    def thinks_for(self) -> float | None:
        """Seconds from the head of a response to its first content, if the model is known to think
        in silence.
        """

    @property
    def stall(self) -> float | None:
        """Seconds to wait between two pieces of content; None for those of the policy."""

    @property
    def prices(self) -> Prices | None:
        """Its prices, if known."""

    @property
    def shapes(self) -> Shapes:
        """The form in which messages, tools and parameters are written for it."""


def _sentences(instance: object, attribute: Any, value: Any) -> None:
    if not all(map(is_text, value)):
        raise ConfigurationError(f"{where(instance, attribute)} must be texts")


@frozen(repr=False)
class PlainLink:
    """Stand for a backend where the core runs without adapters: in tests, in replays, around a
    transport of your own.

    Two plain links of one name are duplicates unless they have `identities`. A subclass may
    override `shapes`. Set `streams` if the transport can stream, and describe in `losses` what it
    leaves out of a request, a short sentence each.

    Raises:
        ConfigurationError: a field has the wrong type.
    """

    name: str = field(default="backend", validator=instance(str))
    prefills: bool = False
    echoes: bool = False
    problem: str | None = field(default=None, validator=validators.optional(instance(str)))
    max_tokens: int | None = field(default=None, validator=token_count)
    expects_json: bool = False
    streams: bool = False
    first_token: float | None = field(
        default=None, validator=validators.optional(number(above_zero=True))
    )
    thinks_for: float | None = field(
        default=None, validator=validators.optional(number(above_zero=True))
    )
    stall: float | None = field(
        default=None, validator=validators.optional(number(above_zero=True))
    )
    prices: Prices | None = field(default=None, validator=validators.optional(instance(Prices)))
    identities: frozenset[tuple[str, str]] = field(
        default=Factory(lambda link: frozenset({("name", str(link.name))}), takes_self=True)
    )
    losses: tuple[str, ...] = field(default=(), converter=tuple, validator=_sentences)
    keys: int = field(default=1, validator=whole(1, MOST_KEYS))
    model: str | None = field(default=None, converter=label)

    __repr__ = brief_repr

    def lost(self, request: Request) -> tuple[str, ...]:
        """Return `losses`, whatever the request."""
        return self.losses

    @property
    def origin(self) -> str:
        """The empty text: the transport is not known here."""
        return ""

    @property
    def shapes(self) -> Shapes:
        """The neutral form."""
        return NEUTRAL


def others_of(link: Link) -> tuple[int, ...]:
    """Return the keys of a backend beside the first, by index."""
    keys: int = getattr(link, "keys", 1)
    return () if keys == 1 else tuple(range(1, keys))


def most_keys(links: Iterable[Link]) -> int:
    """Return how many keys a backend has at most."""
    return max([getattr(link, "keys", 1) for link in links])


def _names(value: Iterable[str]) -> Any:
    return value if isinstance(value, str) or not isinstance(value, Iterable) else frozenset(value)


@frozen(kw_only=True)
class Lessons:
    """Hold what earlier calls have learned of a backend, so that no call pays to learn it again.

    Arguments:
        dropped: parameters that it rejects; `stream` may be one of them.
        no_prefill: whether it rejects a trailing assistant turn.
        restore_reasoning: whether it wants the reasoning of earlier turns back.
        largest_output: the largest output cap that it takes, as it said itself; None if it has not.
        server: what the server said it is; "" if it was not asked.

    Raises:
        ConfigurationError: a field has the wrong type.
    """

    dropped: frozenset[str] = field(
        default=frozenset(),
        converter=_names,
        validator=must(
            "a set of names",
            lambda value: isinstance(value, frozenset) and all(map(is_text, value)),
            names_class=True,
        ),
    )
    no_prefill: bool = field(
        default=False, validator=must("True or False", is_flag, names_class=True)
    )
    restore_reasoning: bool = field(
        default=False, validator=must("True or False", is_flag, names_class=True)
    )
    largest_output: int | None = field(
        default=None,
        validator=must(
            "a whole number of tokens above 0, or None",
            or_none(lambda value: is_whole(value, 1, MOST_TOKENS)),
            names_class=True,
        ),
    )
    server: str = field(
        default="", converter=label, validator=must("a string", is_text, names_class=True)
    )

    def joined(self, other: Lessons) -> Lessons:
        """Join two sets of lessons; of two caps, the smaller counts."""
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
        learned = (
            f"without {', '.join(sorted(self.dropped))}" if self.dropped else "",
            "no prefill" if self.no_prefill else "",
            "with the reasoning of earlier turns" if self.restore_reasoning else "",
            "" if self.largest_output is None else f"at most {self.largest_output} output tokens",
        )
        found = (("discovered", self.server), ("learned", ", ".join(filter(None, learned))))
        return "; ".join(f"{how}: {what}" for how, what in found if what)

    def to_mapping(self) -> dict[str, Any]:
        """Return the lessons as plain values."""
        plain = {name: value for name, value in asdict(self).items() if value}
        return {**plain, "dropped": sorted(self.dropped)} if self.dropped else plain

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
    **dict.fromkeys(("no_prefill", "restore_reasoning"), FLAG),
    "largest_output": or_null(
        (lambda value: is_whole(value, 1, MOST_TOKENS), "a whole number of 1 or more")
    ),
    "server": TEXT,
}

NO_LESSONS: Final = Lessons()


def lessons_of(link: Link) -> Lessons:
    """Return what was learned of a backend; a ConfigurationError if its `lessons` are no
    Lessons.
    """
    lessons = getattr(link, "lessons", NO_LESSONS)
    if not isinstance(lessons, Lessons):
        raise ConfigurationError(
            f"the lessons of {link.name!r} must be Lessons, not {type(lessons).__name__}"
        )
    return lessons


class Chain:
    """Walk along the backends, and the keys of each, forward only."""

    __slots__ = ("index", "is_at_end", "key", "keys_left", "link", "links", "most_keys", "shapes")

    def __init__(self, links: tuple[Link, ...]) -> None:
        self.links, self.most_keys = links, 1
        for link in links:
            if (keys := getattr(link, "keys", 1)) > self.most_keys:
                self.most_keys = keys
        self.move_to(0)

    @classmethod
    def of(cls, links: Sequence[Link], *, needs_prices: bool) -> Chain:
        """Start with the first backend; refuse a chain that has no usable one, or lacks prices that
        a budget needs.
        """
        if not isinstance(links, (list, tuple)):
            raise ConfigurationError(
                f"the chain must be a list of backends, not {type(links).__name__}"
            )
        for link in links:
            if not hasattr(link, "identities"):
                raise ConfigurationError(f"the chain must hold backends, not {type(link).__name__}")
        if not links:
            raise ConfigurationError("the chain is empty; give at least one backend")
        for link in links:
            if link.problem is None:
                break
        else:
            problems = "; ".join(f"{link.name}: {link.problem}" for link in links)
            raise ConfigurationError(f"no backend of the chain can be used ({problems})")
        for link in links if needs_prices else ():
            if link.prices is None:
                raise ConfigurationError(
                    f"Budget.money needs prices on every backend; {link.name!r} has none"
                )
        return cls(tuple(links))

    def leave_unusable(self) -> list[tuple[Link, str]]:
        """Move to the first usable backend, and return those before it, each with its problem."""
        unusable = []
        while (problem := self.link.problem) is not None:
            unusable.append((self.link, problem))
            self.move_to(self.index + 1)
        return unusable

    def move_to(self, index: int) -> None:
        """Make another backend the current one."""
        self.index, self.link, self.is_at_end = (
            index,
            self.links[index],
            index + 1 == len(self.links),
        )
        self.shapes = shapes_of(self.link)
        self.key, self.keys_left = 0, () if self.most_keys == 1 else others_of(self.link)

    def use_keys(self, keys: Sequence[int]) -> None:
        """Use the first of some keys of the current backend, by index, and the others where a call
        rotates.
        """
        self.key, self.keys_left = keys[0], tuple(keys[1:])

    def next_usable(self) -> int | None:
        """Return the index of the next usable backend that is not the current one under another
        name, if any.
        """
        if self.is_at_end:
            return None
        links, here = self.links, self.link.identities
        for index in range(self.index + 1, len(links)):
            link = links[index]
            if link.problem is None and here.isdisjoint(link.identities):
                return index
        return None

    def to_come(self) -> Iterator[tuple[int, Link]]:
        """Yield the backends that a call would fall back to from here, in order, each with its
        index.
        """
        here = self.link.identities
        for index, link in enumerate(islice(self.links, self.index + 1, None), self.index + 1):
            if link.problem is None and here.isdisjoint(link.identities):
                yield index, link
                here = link.identities

    def passed_over(self, following: int | None = None) -> Iterator[tuple[Link, str]]:
        """Yield the backends between the current one and the following one (or the end), each with
        the reason.
        """
        for link in self.links[self.index + 1 : following]:
            yield link, link.problem or f"same as {self.link.name}"


def shapes_of(link: Link) -> Shapes:
    """Return the form in which a backend's messages are written; neutral if a backend of your own
    names none.
    """
    shapes: Shapes = getattr(link, "shapes", NEUTRAL)
    return shapes
