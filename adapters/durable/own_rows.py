"""The rows of a database, as DBOS may read them: only what is written in our own form.

Theory
------

Each row says in which form its values are written, and DBOS reads it in that form, whatever
serializer it was given. One of its forms is Python's pickle, and to read a pickle is to run what
its writer has put there. So whoever can write one row could run anything in each process that
reads it.

The form is what a database says, so it is checked where that comes in: every connection hands on
its rows through `_own`, which replaces the name of any other form by one that nobody knows. DBOS
refuses that by itself: it takes a call for one whose values cannot be read. Nothing is looked up
beforehand, so nobody can change a row between a check and its reading. Other programs in the same
process, with connections of their own, read what they always read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rungwise.adapters.durable.databases import is_postgres
from rungwise.fsm.errors import ConfigurationError, RungwiseError
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from dbos import DBOSClient

FORM: Final = "portable_json"
"""What DBOS calls JSON, the form of all that we write."""

OTHER_FORM: Final = "refused"
"""What stands in place of any other form."""

_COLUMN: Final = "serialization"

Row = tuple[Any, ...]


def connect_args(url: str) -> dict[str, Any]:
    """Return what an engine of SQLAlchemy passes on to each new connection."""
    if is_postgres(url):
        return {"row_factory": _maker_of_rows}
    return {"factory": _Connection}


@contextmanager
def client_of(url: str) -> Iterator[DBOSClient]:
    """Open a database without running anything of it."""
    from dbos import DBOSClient, DBOSPortableJSONSerializer
    from sqlalchemy import create_engine, make_url

    parsed = make_url(url)
    if is_postgres(url):
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(parsed, connect_args=connect_args(url))
    try:
        client = DBOSClient(system_database_engine=engine, serializer=DBOSPortableJSONSerializer())
        try:
            yield client
        finally:
            client.destroy()
    finally:
        engine.dispose()


@contextmanager
def only_ours(id: str) -> Iterator[None]:
    """Raise a ConfigurationError for what is no call of ours: whoever writes to the database may
    put anything in there.
    """
    try:
        yield
    except RungwiseError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ConfigurationError(
            f"what the database holds of {short(id)} is no call of Rungwise's"
        ) from None


class _Connection(sqlite3.Connection):
    """A connection to a file, which hands on our own rows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row_factory = _row_of_sqlite


def _maker_of_rows(cursor: Any) -> Callable[[Sequence[Any]], Row]:
    """Return what makes a row of what Postgres answered."""
    names = [column.name for column in cursor.description or ()]
    return lambda values: _own(names, values)


def _row_of_sqlite(cursor: Any, values: Row) -> Row:
    return _own([column[0] for column in cursor.description], values)


def _own(names: Sequence[str], values: Sequence[Any]) -> Row:
    """Return a row in which any form but ours has a name that nobody knows."""
    row = []
    for name, value in zip(names, values, strict=True):
        # a column may have been renamed, for SQLite finds it in any case
        is_other = _COLUMN in name.casefold() and value not in (None, FORM)
        row.append(OTHER_FORM if is_other else value)
    return tuple(row)
