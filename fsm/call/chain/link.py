"""One backend as the core sees it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from attrs import Factory, field, frozen, validators

from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.parameters import COMMON_PARAMETERS
from rungwise.fsm.call.conversation.request import Request, Send, token_count
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import brief_repr, instance, is_text, number, where, whole
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import label

MOST_KEYS: Final = 100
"""The most keys of one backend."""

AsksBy = Literal["nothing", "schema", "tool", "words", "decision"]
"""How a backend is asked for what the caller wants back."""

FOREIGN_PARAMETER: Final = "it is a parameter of another protocol"
"""Why a backend does not get a parameter that its protocol has no form for."""

_NO_PARAMETERS: Final[Mapping[str, Any]] = FrozenMap({})


class Link(Protocol):
    """Describe one backend of the chain to the core.

    Name `Link` as a base of a backend of your own. It must then have a `name` and `identities`; the
    other members have defaults. Override any of them with a property, a class attribute, a slot,
    or a field of an attrs class.
    """

    __slots__ = ()

    # what a backend is

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the backend in journals and errors; it never holds a key."""

    @property
    @abstractmethod
    def identities(self) -> frozenset[tuple[str, str]]:
        """What it has in common with a duplicate: provider and model, or base URL and model."""

    @property
    def model(self) -> str | None:
        """The model id that is sent, for journals; None if it is not known."""
        return None

    @property
    def origin(self) -> str:
        """The scheme, host and port; "" if there are none."""
        return ""

    @property
    def problem(self) -> str | None:
        """Why this backend cannot be used at all, or None."""
        return None

    @property
    def stands_in(self) -> bool:
        """Whether it is the backend before it in another protocol, and asked only where the server
        does not take that one's.
        """
        return False

    @property
    def prices(self) -> Prices | None:
        """Its prices, if known."""
        return None

    @property
    def keys(self) -> int:
        """How many keys it has; `Send.key` says which of them is used."""
        return 1

    @property
    def background(self) -> bool:
        """Whether it goes on with a reply when its connection breaks, and keeps it to be
        fetched.
        """
        return False

    @property
    def renews_key(self) -> bool:
        """Whether it asks for its key before each request, so that one with a 401 is sent again."""
        return False

    @property
    def quota(self) -> object | None:
        """The `rungwise.Quota` that many calls share, if it has one; see `Call.needs`."""
        return None

    @property
    def lessons(self) -> Lessons:
        """What earlier calls have learned of it; a call asks once, when it begins."""
        return NO_LESSONS

    def is_secret(self, word: str) -> bool:
        """Tell whether a word is its key, or a part of it; no journal and no log shows it then."""
        return False

    # what it takes

    @property
    def shapes(self) -> Shapes:
        """The form in which messages, tools and parameters are written for it."""
        return NEUTRAL

    def taken(
        self, parameters: Mapping[str, Any], first: Link
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Return the parameters of a request as it takes them, and why it does not get others.

        By default, a backend of another form than the first one gets the common ones alone.

        Arguments:
            parameters: those of the request.
            first: the first backend of the chain, in whose words they are.
        """
        if type(self.shapes) is type(first.shapes):
            return parameters, {}
        common = {name: each for name, each in parameters.items() if name in COMMON_PARAMETERS}
        others = parameters.keys() - common
        return common, dict.fromkeys(sorted(others), FOREIGN_PARAMETER)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters that it adds to every request."""
        return _NO_PARAMETERS

    @property
    def max_tokens(self) -> int | None:
        """The output cap that it sends if the caller gives none."""
        return None

    @property
    def prefills(self) -> bool:
        """Whether it continues a trailing assistant turn."""
        return False

    def prefills_with(self, parameters: Mapping[str, Any]) -> bool:
        """Tell whether it continues a trailing assistant turn in a request with these
        parameters.
        """
        return self.prefills

    @property
    def expects_json(self) -> bool:
        """Whether it asks for JSON by itself."""
        return False

    def in_words(self, request: Request, dropped: frozenset[str]) -> Mapping[str, Any] | None:
        """Return the `response_format` that the prompt must ask for in words.

        Arguments:
            request: what is asked.
            dropped: the parameters that the backend has rejected.

        Returns:
            None if a parameter asks for it, or nothing does.
        """
        return None

    def asks_by(
        self, schema: Mapping[str, Any], parameters: Mapping[str, Any], tools: Sequence[Any]
    ) -> tuple[AsksBy, Mapping[str, Any], bool]:
        """Choose how to ask for an answer that fits a JSON schema.

        Returns:
            The way, the schema to send, and whether the backend can hold the model to it strictly.
        """
        return "words", schema, False

    def differs(self, send: Send, other: Send) -> bool:
        """Tell whether two attempts are two requests for it. A repair that would send the same
        request again is none; a backend that cannot tell says True.
        """
        return True

    @property
    def losses(self) -> tuple[str, ...]:
        """What it leaves out of every request, a short sentence each."""
        return ()

    def lost(self, request: Request) -> tuple[str, ...]:
        """Return a short sentence for each thing of a request that it cannot send."""
        return self.losses

    def lost_behind(self, request: Request) -> tuple[str, ...]:
        """Return the same for a request that was written for another backend, the first of the
        chain.
        """
        return self.lost(request)

    # how it answers

    @property
    def measures(self) -> bool:
        """Whether it has an endpoint for decisions, whose answers come with probabilities."""
        return False

    @property
    def streams(self) -> bool:
        """Whether it can stream a reply, so that the clocks of silence can run."""
        return False

    @property
    def first_token(self) -> float | None:
        """Seconds to wait for the first content; None for those of the policy."""
        return None

    @property
    def thinks_for(self) -> float | None:
        """Seconds from the head of a response to its first content, if the model is known to think
        in silence.
        """
        return None

    @property
    def stall(self) -> float | None:
        """Seconds to wait between two pieces of content; None for those of the policy."""
        return None

    @property
    def echoes(self) -> bool:
        """Whether it repeats a continued assistant turn at the start of the answer."""
        return False

    @property
    def hides_cuts(self) -> bool:
        """Whether it calls a reply whole that its output cap has cut."""
        return False


_MEMBERS: Final = tuple(name for name in vars(Link) if not name.startswith("_"))


def check_link(link: object) -> None:
    """Refuse what is no `Link`.

    A class that does not name `Link` as its base may stand for one if it has all of its members, as
    something that passes everything on to a backend does.
    """
    # `isinstance` of a Protocol would read every member of every backend, at the start of each call
    if Link in type(link).__mro__:
        return
    kind = type(link).__name__
    missing = [name for name in _MEMBERS if not hasattr(link, name)]
    if "identities" in missing:
        raise ConfigurationError(f"the chain must hold backends, not {kind}")
    if missing:
        raise ConfigurationError(
            f"the chain must hold backends, and {kind} has no {', '.join(missing)}; "
            "name rungwise.core.Link as its base, which has defaults"
        )


def _sentences(instance: object, attribute: Any, value: Any) -> None:
    if not all(map(is_text, value)):
        raise ConfigurationError(f"{where(instance, attribute)} must be texts")


_SECONDS_OR_NONE: Final = validators.optional(number(above_zero=True))


@frozen(repr=False)
class PlainLink(Link):
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
    first_token: float | None = field(default=None, validator=_SECONDS_OR_NONE)
    thinks_for: float | None = field(default=None, validator=_SECONDS_OR_NONE)
    stall: float | None = field(default=None, validator=_SECONDS_OR_NONE)
    prices: Prices | None = field(default=None, validator=validators.optional(instance(Prices)))
    identities: frozenset[tuple[str, str]] = field(
        default=Factory(lambda link: frozenset({("name", str(link.name))}), takes_self=True)
    )
    losses: tuple[str, ...] = field(default=(), converter=tuple, validator=_sentences)
    keys: int = field(default=1, validator=whole(1, MOST_KEYS))
    stands_in: bool = False
    model: str | None = field(default=None, converter=label)
    measures: bool = False
    background: bool = False

    __repr__ = brief_repr


def others_of(link: Link) -> tuple[int, ...]:
    """Return the keys of a backend beside the first, by index."""
    return tuple(range(1, link.keys))


def most_keys(links: Iterable[Link]) -> int:
    """Return how many keys a backend has at most."""
    return max([link.keys for link in links])


def any_background(links: Iterable[Link]) -> bool:
    """Tell whether a backend goes on with a reply that was cut."""
    return any(link.background for link in links)


def lessons_of(link: Link) -> Lessons:
    """Return what was learned of a backend; a ConfigurationError if its `lessons` are no
    Lessons.
    """
    lessons = link.lessons
    if not isinstance(lessons, Lessons):
        raise ConfigurationError(
            f"the lessons of {link.name!r} must be Lessons, not {type(lessons).__name__}"
        )
    return lessons
