"""A database of durable calls, a file of SQLite or Postgres: its URL, and which processes that use
it are alive.

Each process holds a lock on its own name, of a file or a session of Postgres, which is freed
however it ends. So whoever gets the lock of another knows that its owner is dead, and no clocks
need agree.
"""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import define, field

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import short

LONGEST_ID: Final = 200
"""The most characters of an id."""

KEEPALIVE: Final = (
    "tcp_keepalives_idle = 10",
    "tcp_keepalives_interval = 5",
    "tcp_keepalives_count = 3",
)
"""After 25 seconds without a sign of life, Postgres ends the session of a machine that is lost."""

_LOCK: Final = "hashtextextended(%s, 7204115)"
"""The number of the lock of a name: any seed, so that it meets no lock of somebody else."""


def need_dbos() -> None:
    """Raise a ConfigurationError that names the extra if DBOS is not installed."""
    if find_spec("dbos") is None:
        raise ConfigurationError("this needs DBOS: pip install 'rungwise[durable]'")


def is_postgres(url: str) -> bool:
    """Tell whether a database is one of Postgres."""
    return urlsplit(url).scheme in ("postgresql", "postgres")


SQLITE: Final = "sqlite:///"


def path_of_file(url: str) -> Path:
    """Return the file of a database of SQLite, or raise a ConfigurationError for a URL of neither
    kind.
    """
    # as SQLAlchemy reads it, which takes the rest as it is
    path = Path(url.removeprefix(SQLITE).partition("?")[0])
    if not url.startswith(SQLITE) or not path.name or path.name == ":memory:":
        raise ConfigurationError(
            "database must be a URL such as sqlite:///rungwise.sqlite or postgresql://host/name"
        )
    return path


def can_hold(text: str) -> bool:
    """Tell whether every database holds a text: Postgres takes no NUL, and UTF-8 no half of a
    surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def check_id(id: str) -> None:
    """Refuse what cannot be the id of a call."""
    is_id = isinstance(id, str) and id.strip() and len(id) <= LONGEST_ID and can_hold(id)
    if not is_id:
        what = f"a text of 1 to {LONGEST_ID} characters that a database can hold"
        raise ConfigurationError(f"the id of a call must be {what}, not {short(id)}")


def check_exists(url: str) -> None:
    """Raise a ConfigurationError if the file of a database is not there; reading it would make an
    empty one.
    """
    if not is_postgres(url) and not path_of_file(url).is_file():
        raise ConfigurationError(f"database: there is no file {path_of_file(url)}")


def new_name() -> str:
    """Return a name that no other process has."""
    host = "".join(letter for letter in socket.gethostname() if letter.isalnum() or letter == "-")[
        :40
    ]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


class Owners(ABC):
    """Hold the lock of this process, and tell which others are dead."""

    @abstractmethod
    def hold(self, name: str) -> None:
        """Take the lock of this process, or take it again if it was lost."""

    @contextmanager
    def seized(self, name: str) -> Iterator[bool]:
        """Tell whether the owner of a name is dead; until the block ends, nobody else is told
        so.
        """
        free = self._seize(name)
        try:
            yield free is not None
        finally:
            if free is not None:
                free()

    @abstractmethod
    def close(self) -> None:
        """Give the lock back."""

    @abstractmethod
    def _seize(self, name: str) -> Callable[[], object] | None:
        """Take the lock of a name, and return what frees it; None if its owner holds it."""


@define(eq=False)
class _FileOwners(Owners):
    """Lock files in a folder beside a database of SQLite."""

    folder: Path
    _own: Any = field(default=None, init=False)

    def hold(self, name: str) -> None:
        if self._own is None:
            self.folder.mkdir(exist_ok=True)
            self._own = self._lock(name)
            self._own.acquire(blocking=False)

    def close(self) -> None:
        if self._own is not None:
            self._free(self._own)
            self._own = None

    def _seize(self, name: str) -> Callable[[], object] | None:
        from filelock import Timeout

        lock = self._lock(name)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return partial(self._free, lock)

    def _lock(self, name: str) -> Any:
        from filelock import FileLock

        return FileLock(self.folder / Path(name).name, thread_local=False)

    def _free(self, lock: Any) -> None:
        lock.release()
        with suppress(OSError):  # another process looks at it, too
            Path(lock.lock_file).unlink()
        with suppress(OSError):  # others are alive
            self.folder.rmdir()


@define(eq=False)
class _PostgresOwners(Owners):
    """Hold advisory locks in a session of Postgres."""

    url: str
    _session: Any = field(default=None, init=False)

    def hold(self, name: str) -> None:
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

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _seize(self, name: str) -> Callable[[], object] | None:
        is_dead = self._ask("pg_try_advisory_lock", name)
        return partial(self._ask, "pg_advisory_unlock", name) if is_dead else None

    def _ask(self, function: str, name: str) -> bool:
        return bool(self._session.execute(f"SELECT {function}({_LOCK})", [name]).fetchone()[0])


def owners_of(url: str) -> Owners:
    """Prepare a database, and return what tells which of its processes are alive; raises what
    `path_of_file` does.
    """
    if is_postgres(url):
        return _PostgresOwners(url)
    path = path_of_file(url)
    try:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA journal_mode=wal")  # lasts, and doubles the speed
    except sqlite3.Error as error:
        raise ConfigurationError(f"database: {path} cannot be opened: {error}") from None
    return _FileOwners(path.with_name(f"{path.name}.owners"))
