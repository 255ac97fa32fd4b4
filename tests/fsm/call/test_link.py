"""A backend of your own: what it inherits from `Link`, and what the chain refuses."""

from typing import Any

import attrs
import pytest

import rungwise
from rungwise.core import Call, Lessons, Link, Reply, Request


class Slotted(Link):
    """Has slots of the names that it sets, as a class without attrs may."""

    __slots__ = ("identities", "keys", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.identities = frozenset({("name", name)})
        self.keys = 2


@attrs.define
class WithFields(Link):
    """Has fields, of which the core would read defaults."""

    name: str
    streams: bool = True
    hides_cuts: bool = True
    lessons: Lessons = attrs.field(factory=lambda: Lessons(no_prefill=True))

    @property
    def identities(self) -> frozenset[tuple[str, str]]:
        return frozenset({("name", self.name)})


class Passing:
    """Passes everything on to a backend; it does not name `Link` as its base."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


@pytest.mark.parametrize(
    "link",
    [Slotted("own"), WithFields("own"), Passing(WithFields("own"))],
    ids=lambda each: type(each).__name__,
)
def test_a_backend_inherits_what_it_does_not_say(link: Any) -> None:
    call = Call(Request("hi"), chain=[link])
    assert call.begin(0.0) is not None
    assert call.receive(Reply("Herons."), 0.1) is None
    assert call.result.journal.setting.chain[0].name == "own"
    assert call.result.text == "Herons."


def test_what_a_backend_says_of_itself_counts() -> None:
    assert Slotted("own").keys == 2
    link = WithFields("own")
    assert (link.streams, link.hides_cuts, link.lessons.no_prefill) == (True, True, True)
    assert (link.keys, link.problem, link.lost(Request("hi"))) == (1, None, ())
    assert link.asks_by({"type": "object"}, {}, ()) == ("words", {"type": "object"}, False)


def test_a_link_needs_a_name_and_identities() -> None:
    class Nameless(Link):
        pass

    with pytest.raises(TypeError, match=r"abstract.* identities"):
        Nameless()  # type: ignore[abstract]


def test_a_class_that_lacks_members_of_a_link_is_told_which() -> None:
    class Partial:
        name = "own"
        identities = frozenset({("name", "own")})

    with pytest.raises(
        rungwise.ConfigurationError,
        match=r"Partial has no model, origin, .*name rungwise.core.Link",
    ):
        Call(Request("hi"), chain=[Partial()])  # type: ignore[list-item]
