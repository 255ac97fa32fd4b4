"""What servers taught this process about themselves."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Final


class Learned:
    """Remember what servers said of themselves, for the life of the process; safe to share between threads."""

    def __init__(self) -> None:
        self._no_prefill: set[tuple[str, str]] = set()
        self._lock = Lock()

    def learn_no_prefill(self, identity: tuple[str, str]) -> None:
        """Remember that this backend rejected a prefill.

        Arguments:
            identity: one of the backend's `identities`.
        """
        with self._lock:
            self._no_prefill.add(identity)

    def refuses_prefill(self, identities: Iterable[tuple[str, str]]) -> bool:
        """Tell whether a backend with any of these identities has rejected a prefill before."""
        with self._lock:
            return bool(self._no_prefill) and not self._no_prefill.isdisjoint(identities)

    def forget(self) -> None:
        """Forget everything, as a test or a long-lived process after a server's upgrade may want."""
        with self._lock:
            self._no_prefill.clear()


LEARNED: Final = Learned()
"""The memory that every backend of this process asks."""
