"""The calls of a database, read and deleted without running any."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson
from attrs import asdict, define, frozen

from rungwise.adapters.durable.databases import check_exists, need_dbos
from rungwise.adapters.durable.engine import WORKFLOW
from rungwise.adapters.durable.forms import Plain
from rungwise.adapters.durable.own_rows import client_of
from rungwise.adapters.durable.results import FINE, STATUS, UNFINISHED
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.label import label
from rungwise.fsm.values.moments import write_moment

if TYPE_CHECKING:
    from dbos import DBOSClient

PAGE: Final = 500
"""How many calls are read or deleted at once."""

DAY: Final = 86_400.0

ENDED: Final = ["SUCCESS", "ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
"""The states of a workflow that runs no more."""

COLUMNS = ("call", "status", "attempts", "cost", "seconds", "cause")


@frozen
class StoredCall:
    """A call of a database."""

    id: str
    # the outcome, or "waiting", "running", "cancelled", or "broken" if it could not be run
    status: str
    attempts: int | None = None
    cost: float | None = None
    seconds: float | None = None
    cause: str | None = None  # why it did not simply succeed
    journal: Journal | TurnJournal | None = None  # how it went, if it has ended

    @property
    def row(self) -> tuple[str, ...]:
        """Return its line of the table; whoever writes to the database may have put anything in
        there.
        """
        seconds = None if self.seconds is None else round(self.seconds, 1)
        texts = [self.id, self.status]
        for number in (self.attempts, self.cost, seconds):
            texts.append("" if number is None else f"{number:.6g}")
        texts.append(self.cause or "")
        return tuple([str(label(text, 100) or "") for text in texts])

    def as_mapping(self) -> Plain:
        """Return it as plain values, without its journal."""
        return {
            name: value for name, value in asdict(self, recurse=False).items() if name != "journal"
        }


@define(eq=False)
class StoredCalls:
    """Read or delete the calls of a database, or raise a ConfigurationError: there is none, or the
    extra is not installed.
    """

    url: str

    def __attrs_post_init__(self) -> None:
        need_dbos()
        check_exists(self.url)

    def one(self, id: str) -> StoredCall | None:
        """Return a call; None if there is none of this id."""
        return next(iter(self.all(workflow_ids=[id])), None)

    def newest(self, most: int, *, only_failed: bool = False) -> Sequence[StoredCall]:
        """Return the newest calls."""
        calls = self.all(sort_desc=True)
        if only_failed:
            calls = (call for call in calls if call.status not in (*UNFINISHED, *FINE))
        return list(islice(calls, most))

    def all(self, **which: Any) -> Iterator[StoredCall]:
        """Yield every call, or those that DBOS finds by these arguments of `list_workflows`."""
        offset = 0
        with self._opened() as client:
            while page := client.list_workflows(
                name=WORKFLOW, load_input=False, limit=PAGE, offset=offset, **which
            ):
                yield from map(_read, page)
                offset += len(page)

    def delete(self, seconds: float) -> int:
        """Delete the calls that ended so many seconds ago or longer, and return how many there
        were.

        They go by the page, each in one transaction, so that nobody waits for long. What is queued
        or runs has not ended. Of a cancelled call, another process may have an attempt in flight.
        So it stays for a day; a process that finds its call gone ends it before the next attempt.
        """
        deleted: set[str] = set()
        with self._opened() as client:
            for states, age in ((ENDED, seconds), (["CANCELLED"], max(seconds, DAY))):
                ended = partial(
                    client.list_workflows,
                    name=WORKFLOW,
                    status=states,
                    completed_before=write_moment(time.time() - age),
                    load_input=False,
                    load_output=False,
                    limit=PAGE,
                )
                # a database that keeps what it was told to delete ends this, too
                while page := {each.workflow_id for each in ended()} - deleted:
                    client.delete_workflows(list(page))
                    deleted |= page
        return len(deleted)

    @contextmanager
    def _opened(self) -> Iterator[DBOSClient]:
        """Open the database, or say that it cannot be used."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with client_of(self.url) as client:
                yield client
        # what is no database of ours may hold anything
        except (SQLAlchemyError, OSError, ValueError, TypeError, RecursionError) as error:
            # whose words name the URL, and the password in it
            kind = type(error).__name__
            raise ConfigurationError(
                f"the database cannot be read, or holds no durable calls ({kind})"
            ) from None


def _read(status: Any) -> StoredCall:
    """Return a call from what DBOS says of its workflow."""
    if status.status != "SUCCESS":
        if isinstance(status.error, str):  # no error, but what could not be read as one
            return _not_ours(status.workflow_id)
        cause = None if status.error is None else str(status.error)
        return StoredCall(status.workflow_id, STATUS.get(status.status, "broken"), cause=cause)
    try:
        plain = orjson.loads(status.output)
        own = {name: plain[name] for name in ("attempts", "cost", "seconds", "cause")}
        *numbers, _ = own.values()
        if not all(each is None or is_number(each) for each in numbers):
            return _not_ours(status.workflow_id)
        kind = TurnJournal if "last" in plain else Journal
        return StoredCall(
            status.workflow_id,
            plain["outcome"],
            **own,
            journal=kind.from_document(plain["journal"]),
        )
    except (ValueError, LookupError, TypeError, ConfigurationError):  # anybody may have written it
        return _not_ours(status.workflow_id)


def _not_ours(id: str) -> StoredCall:
    return StoredCall(id, "broken", cause="what the database holds of it is no call of Rungwise's")
