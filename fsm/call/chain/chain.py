"""The fallback chain of one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from rungwise.fsm.call.chain.lessons import Lessons
from rungwise.fsm.call.chain.link import Link, check_link, others_of
from rungwise.fsm.errors import ConfigurationError

_NONE: Final[frozenset[int]] = frozenset()


class Chain:
    """Walk along the backends, and the keys of each, forward only."""

    __slots__ = (
        "background",
        "index",
        "is_at_end",
        "key",
        "keys_left",
        "link",
        "links",
        "misplaced",
        "most_keys",
        "shapes",
    )

    def __init__(self, links: tuple[Link, ...]) -> None:
        self.links = links
        # the backends whose server does not take their protocol, by index
        self.misplaced = _NONE
        self.most_keys = 1
        self.background = False  # whether one goes on with a reply that was cut
        for link in links:
            if link.keys > self.most_keys:
                self.most_keys = link.keys
            if link.background:
                self.background = True
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
            check_link(link)
        if not links:
            raise ConfigurationError("the chain is empty; give at least one backend")
        for link in links:
            if link.problem is None:
                break
        else:
            problems = "; ".join(f"{link.name}: {link.problem}" for link in links)
            raise ConfigurationError(f"no backend of the chain can be used ({problems})")
        for link in links:
            if needs_prices and link.prices is None:
                raise ConfigurationError(
                    f"Budget.money needs prices on every backend; {link.name!r} has none"
                )
        return cls(tuple(links))

    def learn(self, lessons: Sequence[Lessons]) -> None:
        """Begin with what earlier calls have learned of the backends.

        One whose stand-in is known to be no better is asked again.
        """
        misplaced = {index for index, each in enumerate(lessons) if each.misplaced}
        for index in misplaced:
            following = index + 1
            is_last = following == len(self.links) or following in misplaced
            if not is_last and self.links[following].stands_in:
                self.misplaced |= {index}

    def _unusable(self, index: int) -> str | None:
        """Return why a backend is not asked, or None."""
        link = self.links[index]
        if link.problem is not None:
            return link.problem
        if index in self.misplaced:
            return "its server does not take this protocol"
        if link.stands_in and index - 1 not in self.misplaced:
            before = self.links[index - 1]
            return f"stands in for {before.name}" if before.problem is None else None
        return None

    def leave_unusable(self) -> list[tuple[Link, str]]:
        """Move to the first usable backend, and return those before it, each with its problem."""
        unusable = []
        while (problem := self._unusable(self.index)) is not None:
            unusable.append((self.link, problem))
            self.move_to(self.index + 1)
        return unusable

    def move_to(self, index: int) -> None:
        """Make another backend the current one."""
        link = self.links[index]
        self.index = index
        self.link = link
        self.is_at_end = index + 1 == len(self.links)
        self.shapes = link.shapes
        self.key = 0
        self.keys_left = () if self.most_keys == 1 else others_of(link)

    def use_keys(self, keys: Sequence[int]) -> None:
        """Use the first of some keys of the current backend, by index, and the others where a call
        rotates.
        """
        self.key = keys[0]
        self.keys_left = tuple(keys[1:])

    def next_usable(self) -> int | None:
        """Return the index of the next usable backend that is not the current one under another
        name, if any.
        """
        if self.is_at_end:
            return None
        links = self.links
        here = self.link.identities
        for index in range(self.index + 1, len(links)):
            if here.isdisjoint(links[index].identities) and self._unusable(index) is None:
                return index
        return None

    def to_come(self) -> Iterator[tuple[int, Link]]:
        """Yield the backends that a call would fall back to from here, in order, each with its
        index.
        """
        here = self.link.identities
        for index, link in enumerate(islice(self.links, self.index + 1, None), self.index + 1):
            if here.isdisjoint(link.identities) and self._unusable(index) is None:
                yield index, link
                here = link.identities

    def passed_over(self, following: int | None = None) -> Iterator[tuple[Link, str]]:
        """Yield the backends between the current one and the following one (or the end), each with
        the reason.
        """
        end = len(self.links) if following is None else following
        for index in range(self.index + 1, end):
            yield self.links[index], self._unusable(index) or f"same as {self.link.name}"
