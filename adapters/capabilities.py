"""What servers taught this process about themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class Learned:
    """Remember what servers said of themselves, for the life of the process; safe to share between threads."""

    def __init__(self) -> None:
        self._no_prefill: set[tuple[str, str]] = set()  # each use of it is one step, which no other thread divides

    def learn_no_prefill(self, identity: tuple[str, str]) -> None:
        """Remember that this backend rejected a prefill.

        Arguments:
            identity: one of the backend's `identities`.
        """
        self._no_prefill.add(identity)

    def refuses_prefill(self, identities: Iterable[tuple[str, str]]) -> bool:
        """Tell whether a backend with any of these identities has rejected a prefill before."""
        return not self._no_prefill.isdisjoint(identities)

    def forget(self) -> None:
        """Forget everything, as a test or a long-lived process after a server's upgrade may want."""
        self._no_prefill.clear()


LEARNED: Final = Learned()
"""The memory that every backend of this process asks."""
