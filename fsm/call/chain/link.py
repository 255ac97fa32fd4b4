"""One backend as the core sees it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from attrs import Factory, field, frozen, validators

from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request, token_count
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import (
    brief_repr,
    instance,
    is_text,
    number,
    where,
    whole,
)
from rungwise.fsm.values.label import label

MOST_KEYS: Final = 100
"""The most keys of one backend."""


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


def shapes_of(link: Link) -> Shapes:
    """Return the form in which a backend's messages are written; neutral if a backend of your own
    names none.
    """
    shapes: Shapes = getattr(link, "shapes", NEUTRAL)
    return shapes
