"""What servers taught this process about themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class Learned:
    """Remember what servers said of themselves, for the life of the process; safe to share between threads."""

    def __init__(self) -> None:
        # Each use of these is one step, which no other thread divides.
        self._no_prefill: set[tuple[str, str]] = set()
        self._no_stream: set[tuple[str, str]] = set()

    def learn_no_prefill(self, identity: tuple[str, str]) -> None:
        """Remember that this backend rejected a prefill.

        Arguments:
            identity: one of the backend's `identities`.
        """
        self._no_prefill.add(identity)

    def refuses_prefill(self, identities: Iterable[tuple[str, str]]) -> bool:
        """Tell whether a backend with any of these identities has rejected a prefill before."""
        return not self._no_prefill.isdisjoint(identities)

    def learn_no_stream(self, identity: tuple[str, str]) -> None:
        """Remember that this backend rejected to stream a reply; the argument is that of `learn_no_prefill`."""
        self._no_stream.add(identity)

    def refuses_stream(self, identities: Iterable[tuple[str, str]]) -> bool:
        """Tell whether a backend with any of these identities has rejected to stream before."""
        return not self._no_stream.isdisjoint(identities)

    def forget(self) -> None:
        """Forget everything, as a test or a long-lived process after a server's upgrade may want."""
        self._no_prefill.clear()
        self._no_stream.clear()


LEARNED: Final = Learned()
"""The memory that every backend of this process asks."""
