"""One backend of the chain as the core sees it, and what of a request is meant for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from attrs import Factory, evolve, field, frozen, validators

from rungwise.fsm.call.conversation.options import COMMON_PARAMETERS
from rungwise.fsm.call.conversation.request import Request, token_count
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.fields import instance, number
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import note
from rungwise.fsm.values.secret import NO_HEADERS

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


def headers_for(request: Request, first: Link, link: Link) -> Mapping[str, str]:
    """Return the headers of a request as far as they are meant for a backend: they were given for the first one.

    Arguments:
        request: what the caller asked.
        first: the first backend of the chain.
        link: the backend that is asked.
    """
    if link is first or not request.headers:
        return request.headers
    origin = getattr(link, "origin", None)  # a backend of the user's own may not say; a plain link says ""
    return request.headers if origin and origin == getattr(first, "origin", None) else NO_HEADERS


def parameters_for(request: Request, first: Link, link: Link) -> Mapping[str, Any]:
    """Return the parameters of a request as far as they are meant for a backend: they were given for the first one.

    A backend that is written to in another form is given those that every wire knows how to say.

    Arguments:
        request: what the caller asked.
        first: the first backend of the chain.
        link: the backend that is asked.
    """
    if not request.parameters or link is first or _form_of(link) is _form_of(first):
        return request.parameters
    return FrozenMap({name: value for name, value in request.parameters.items() if name in COMMON_PARAMETERS})


def tools_for(request: Request, first: Link, link: Link) -> tuple[Mapping[str, Any], ...]:
    """Return the tools of a request as far as they are meant for a backend: they were given for the first one.

    Any other is given those of which is known that its server takes them, or that they can be put into its form.

    Arguments:
        request: what the caller asked.
        first: the first backend of the chain.
        link: the backend that is asked.
    """
    if not request.tools or link is first:
        return request.tools
    origin = getattr(link, "origin", None)
    if origin and origin == getattr(first, "origin", None) and _form_of(link) is _form_of(first):
        return request.tools
    shapes: Shapes = getattr(link, "shapes", NEUTRAL)
    return tuple(filter(shapes.knows_tool, request.tools))


def prefills_for(link: Link, parameters: Mapping[str, Any]) -> bool:
    """Tell whether a backend goes on from a trailing assistant turn in a request with these parameters.

    A backend where they matter says so in a method `prefills_with`.

    Arguments:
        link: the backend.
        parameters: those of the request that are meant for it.
    """
    told = getattr(link, "prefills_with", None)
    return link.prefills if told is None else bool(told(parameters))


def losses_of(request: Request, first: Link, link: Link) -> tuple[str, ...]:
    """Say what of a request a backend is never told, in a short sentence each.

    Arguments:
        request: what the caller asked.
        first: the first backend of the chain, in whose form the parameters are.
        link: the backend that is asked.
    """
    lost = getattr(link, "lost", None)  # a backend of the user's own may not say
    foreign = []
    if link is not first:
        lost = getattr(link, "lost_behind", lost)
        meant = parameters_for(request, first, link)
        foreign = [f"{name}: it is a parameter of another protocol" for name in request.parameters if name not in meant]
    taken = tools_for(request, first, link) if request.tools else ()
    if len(taken) < len(request.tools):
        kept = set(map(id, taken))
        others = [tool for tool in request.tools if id(tool) not in kept]
        foreign += [f"the tool {tool.get('type')}: it was given for another server" for tool in others]
        request = evolve(request, tools=taken)
    own = lost(request) if callable(lost) else ()
    if not foreign and not own:
        return ()
    return tuple([note(each) for each in (*foreign, *own)])


def _form_of(link: Link) -> type[Shapes]:
    shapes: Shapes = getattr(link, "shapes", NEUTRAL)  # a backend of the user's own may name none
    return type(shapes)
