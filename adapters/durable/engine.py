"""DBOS in this process: one instance, in an event loop of its own, that takes on what dead
processes have left.

Recovery is DBOS's own only for the same executor. So each process is an executor of its own and
holds a lock on its name (`databases.py`); the others look at the locks of those that own unfinished
calls, and put what a dead one has left into the queue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import define, field

from rungwise.adapters.durable.databases import Owners, new_name, owners_of
from rungwise.adapters.durable.own_rows import client_of, connect_args
from rungwise.fsm.errors import ConfigurationError, RungwiseError
from rungwise.fsm.values.label import label

T = TypeVar("T")

WORKFLOW: Final = "rungwise.call"
"""The name of the workflow of calls; a program may have workflows of its own in the database."""

HOME: Final = "home"
"""The attribute of a workflow that names its queue: that of the processes which can run it."""

VERSION: Final = "1"
"""Of all workflows, for ever: with a version of DBOS's own, changed source would strand what an
older one has begun.
"""

POLL: Final = 0.1
"""Seconds between two looks at the queue."""

CLOSED: Final = (
    "this Durable is closed: its calls go on in the next process that opens the database"
)

DEFAULT_CONCURRENCY: Final = 100
"""How many workflows of a queue a process runs at once if nobody says otherwise."""

LOOK: Final = 2.0
"""Seconds between two looks for what dead processes have left."""

THREADS: Final = 4
"""Threads that talk to the database: more are slower (measured, on SQLite and Postgres)."""

_logger = logging.getLogger("dbos")


@define(eq=False)
class Engine:
    """Run workflows on one database.

    Arguments:
        url: `sqlite:///FILE` or `postgresql://...`; None for the DBOS that the program runs by
            itself. Its executor, serializer and version apply then, nothing is taken over, and
            nothing waits in a queue.
        home: the queue of this process; no other one has what this one cannot run.
        concurrency: how many workflows of the queue run at once in a process, which DBOS keeps in
            the database: the last one that says so decides for all. None says nothing, and with 0
            this process takes none from it.
    """

    url: str | None
    home: str
    concurrency: int | None
    name: str = field(factory=new_name, init=False)
    _owners: Owners = field(init=False)  # from `open` on, here and below
    _portal: BlockingPortal = field(init=False)
    _end_loop: Callable[..., Any] = field(init=False)
    _is_closed: bool = field(default=False, init=False)
    _taking_over: anyio.Lock = field(factory=anyio.Lock, init=False)

    def open(self) -> None:
        """Start, or raise a ConfigurationError: this process runs DBOS already, or the database
        cannot be used.
        """
        if self.url is not None:
            self._owners = owners_of(self.url)
        context = start_blocking_portal()
        self._portal = context.__enter__()
        self._end_loop = context.__exit__
        if self.url is None:
            return
        try:
            self._portal.call(self._launch)
            self._owners.hold(self.name)  # now, for DBOS has made the database
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, RungwiseError):
                raise ConfigurationError(
                    f"database: it cannot be used: {label(str(error), 200)}"
                ) from error
            raise
        self._portal.start_task_soon(self._look_for_ever)

    def close(self) -> None:
        """End what runs here, and leave it to the next process."""
        from dbos import DBOS

        self._is_closed = True
        self._portal.call(self._portal.stop, True)
        self._end_loop(None, None, None)
        if DBOS.executor_id == self.name:  # else it is the program's own
            DBOS.destroy()
        if self.url is not None:
            self._owners.close()

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return the result of a coroutine function in the engine's loop, or raise a RungwiseError
        if it is closed.
        """
        try:
            return self._portal.call(function, *args)
        except (CancelledError, RuntimeError):
            if self._is_closed:
                raise RungwiseError(CLOSED) from None
            raise

    def soon(self, function: Callable[..., Awaitable[T]], *args: Any) -> Future[T]:
        """Start a coroutine function in the loop of the engine."""
        return self._portal.start_task_soon(function, *args)

    async def _launch(self) -> None:
        """Launch DBOS in this loop, which it adopts for what it takes from its queue."""
        from dbos import DBOS, DBOSPortableJSONSerializer

        assert self.url is not None
        if not _logger.handlers:
            _logger.addHandler(logging.NullHandler())  # or DBOS logs to stderr
        own_rows = {"connect_args": connect_args(self.url)}
        DBOS(
            config={
                "name": "rungwise",
                "system_database_url": self.url,
                "executor_id": self.name,
                "application_version": VERSION,
                "serializer": DBOSPortableJSONSerializer(),
                "db_engine_kwargs": own_rows,
                "max_executor_threads": THREADS,
            }
        )
        if DBOS.executor_id != self.name:
            raise ConfigurationError(
                "this process runs DBOS for something else already: database=None uses that"
            )
        # Or this process would take what only others can run.
        DBOS.listen_queues([] if self.concurrency == 0 else [self.home])
        if self.concurrency:
            await anyio.to_thread.run_sync(self._limit)
        DBOS.launch()
        await DBOS.register_queue_async(
            self.home,
            worker_concurrency=self.concurrency or DEFAULT_CONCURRENCY,
            polling_interval_sec=POLL,
            on_conflict="always_update" if self.concurrency else "never_update",
        )

    def _limit(self) -> None:
        """Write how many may run at once, before the first is taken from a queue that another
        process has made.
        """
        from sqlalchemy.exc import SQLAlchemyError

        assert self.url is not None
        # a new database has no queues yet
        with suppress(SQLAlchemyError), client_of(self.url) as client:
            client.register_queue(
                self.home, worker_concurrency=self.concurrency, polling_interval_sec=POLL
            )

    async def _look_for_ever(self) -> None:
        while True:
            try:
                async with self._taking_over:
                    await anyio.to_thread.run_sync(self.take_over)
            except Exception:
                # the database is away; it may come back
                _logger.exception("cannot see which processes are alive")
            await anyio.sleep(LOOK)

    def alone(self, begins_anew: bool) -> AbstractAsyncContextManager[object]:
        """Let `take_over` wait while a call begins anew: it would resume what is there no more."""
        return self._taking_over if begins_anew else nullcontext()

    def take_over(self) -> None:
        """Put into the queue what dead processes have left."""
        from dbos import DBOS

        self._owners.hold(self.name)
        of_calls: dict[str, Any] = {
            "name": WORKFLOW,
            "status": "PENDING",
            "load_input": False,
            "load_output": False,
        }
        pending = partial(DBOS.list_workflows, **of_calls)
        for name in {each.executor_id for each in pending() if each.executor_id} - {self.name}:
            with self._owners.seized(name) as is_dead:
                for each in pending(executor_id=name) if is_dead else ():
                    # Somebody may have begun it anew since it was listed.
                    for left in pending(executor_id=name, workflow_ids=[each.workflow_id]):
                        home = (left.attributes or {}).get(HOME, self.home)
                        DBOS.resume_workflow(left.workflow_id, queue_name=home)
