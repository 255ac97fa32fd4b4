"""Which processes are alive: each holds a lock on a name of its own, which its end sets free.

The operating system frees the lock of a file, and Postgres one of a session, however a process ends. So whoever gets
the lock of another knows that its owner is dead, and no clocks need agree.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from attrs import define, field

KEEPALIVE: Final = ("tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")
"""After 25 seconds without a sign of life, Postgres ends the session of a machine that is lost."""

_LOCK: Final = "hashtextextended(%s, 7204115)"
"""The number of the lock of a name: any seed, so that it meets no lock of somebody else."""


def new_name() -> str:
    """Return a name that no other process has."""
    host = "".join(letter for letter in socket.gethostname() if letter.isalnum() or letter == "-")[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


class Owners(Protocol):
    """Hold the lock of this process, and tell which others are dead."""

    def hold(self, name: str) -> None:
        """Take the lock of this process, or take it again if it was lost."""

    @contextmanager
    def seized(self, name: str) -> Iterator[bool]:
        """Tell whether the owner of a name is dead; until the block ends, nobody else is told so."""
        yield False

    def close(self) -> None:
        """Give the lock back."""


@define(eq=False)
class FileOwners:
    """Lock files in a folder beside a database of SQLite."""

    folder: Path
    _own: Any = field(default=None, init=False)

    def hold(self, name: str) -> None:
        """Take the lock of this process."""
        if self._own is None:
            self.folder.mkdir(exist_ok=True)
            self._own = self._lock(name)
            self._own.acquire(blocking=False)

    @contextmanager
    def seized(self, name: str) -> Iterator[bool]:
        """Tell whether the owner of a name is dead."""
        from filelock import Timeout

        lock = self._lock(name)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()
            self._remove(name)

    def close(self) -> None:
        """Give the lock back."""
        if self._own is not None:
            self._own.release()
            self._remove(Path(self._own.lock_file).name)
            self._own = None

    def _lock(self, name: str) -> Any:
        from filelock import FileLock

        return FileLock(self.folder / Path(name).name, thread_local=False)

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # another process looks at it, too
            (self.folder / Path(name).name).unlink()
        with suppress(OSError):  # others are alive
            self.folder.rmdir()


@define(eq=False)
class PostgresOwners:
    """Hold advisory locks in a session of Postgres."""

    url: str
    _session: Any = field(default=None, init=False)

    def hold(self, name: str) -> None:
        """Take the lock of this process, or take it again in a new session."""
        import psycopg

        try:
            if self._session is not None:
                self._session.execute("SELECT 1")
                return
        except psycopg.Error:
            self.close()
        self._session = psycopg.connect(self.url, autocommit=True)
        for each in KEEPALIVE:
            self._session.execute(f"SET {each}")
        self._session.execute(f"SELECT pg_advisory_lock({_LOCK})", [name])

    @contextmanager
    def seized(self, name: str) -> Iterator[bool]:
        """Tell whether the owner of a name is dead."""
        if not self._ask("pg_try_advisory_lock", name):
            yield False
            return
        try:
            yield True
        finally:
            self._ask("pg_advisory_unlock", name)

    def close(self) -> None:
        """Give the lock back."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _ask(self, function: str, name: str) -> bool:
        return bool(self._session.execute(f"SELECT {function}({_LOCK})", [name]).fetchone()[0])
