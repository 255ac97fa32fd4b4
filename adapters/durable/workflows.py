"""The workflows of durable calls: how one is begun, found, run, read and cancelled."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import orjson
from attrs import define, field, frozen

from rungwise.adapters.client import Client
from rungwise.adapters.durable.budgets import (
    DatabaseBudgets,
    plain_within,
    read_within,
    shared_with,
)
from rungwise.adapters.durable.databases import check_id
from rungwise.adapters.durable.engine import HOME, POLL, WORKFLOW, Engine
from rungwise.adapters.durable.forms import Plain, read_event
from rungwise.adapters.durable.import_paths import Modules
from rungwise.adapters.durable.own_rows import only_ours
from rungwise.adapters.durable.recorded import began_at
from rungwise.adapters.durable.results import FINE, LESSER, STATUS, UNFINISHED, result_of
from rungwise.adapters.durable.work import (
    CHANGED,
    digest_of,
    is_same_setting,
    prepared,
    run_work,
    work_of,
)
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.wires.endpoint import KEY_HEADERS
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.errors import ConfigurationError, JournalMismatch, RungwiseError
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from dbos import StepOptions

SAVE: Final[StepOptions] = {"name": "save"}
"""The step that writes what is new of a call."""

LOOK: Final = 0.25
"""Seconds between two looks for what is new of a stream."""

OTHER: Final = "{} is the id of another request; give this one an id of its own"

_ERRORS: Final[Mapping[str, type[RungwiseError]]] = {
    each.__name__: each for each in (ConfigurationError, JournalMismatch)
}
"""What the workflow of a call may raise, by name. A database holds no more of an error."""


@frozen
class Begun:
    """A call or a turn that is in the database."""

    id: str
    handle: Any = None  # that of DBOS, if this process has started the workflow
    digest: str | None = None  # of what it was asked, if this process knows


@define(eq=False)
class Workflows:
    """Begin, find, run, read and cancel the calls and turns of one database.

    The coroutines run in the loop of the engine: pass them to `engine.run`.

    Arguments:
        client: runs the calls.
        engine: runs DBOS.
        modules: hold the functions that a call or a turn may name.
    """

    client: Client
    engine: Engine
    modules: Modules
    _budgets: DatabaseBudgets = field(init=False)
    # the calls that run in this process
    _running: dict[str, Cancellation] = field(factory=dict, init=False)
    # the shared budgets that calls of this process draw on, by their plain data
    _within: dict[str, SharedBudget | None] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._budgets = DatabaseBudgets(self.engine.url or "")
        self._within = {json_of([]): None}

    def open(self) -> None:
        """Start the engine.

        Raises:
            ConfigurationError: this process has others open, or the database cannot be used.
        """
        with _lock:
            if _open:
                raise ConfigurationError(
                    "a process has one Durable at a time: close the other one first"
                )
            _workflow()
            _open.append(self)
            try:
                self.engine.open()
            except BaseException:
                _open.clear()
                raise

    def close(self) -> None:
        """End what runs here, and leave it to the next process."""
        with _lock:
            if self not in _open:
                return
            _open.remove(self)
        self.engine.close()
        self._budgets.close()

    async def begin(
        self,
        id: str,
        request: Request,
        options: Mapping[str, Any],
        returns: Any = None,
        *,
        restart: bool = False,
        enqueue: bool = False,
        retry_failed: bool = False,
        is_turn: bool = False,
        is_streaming: bool = False,
    ) -> Begun:
        """Begin a call or a turn, or find the one that has its id.

        Arguments:
            id: its name in this database.
            request, options, returns: what it is asked; `options` has what a request does not.
            restart: whether one whose policy, table or chain has changed begins anew.
            enqueue: whether to leave it to a worker.
            retry_failed: whether one that has failed begins anew.
            is_turn: whether it is a turn.
            is_streaming: whether its events are written as they happen.

        Raises:
            ConfigurationError: another request has this id, or something cannot be stored.
        """
        from dbos import DBOS, SetWorkflowAttributes, SetWorkflowID

        check_id(id)
        work = self._work(request, options, returns, is_turn=is_turn, is_streaming=is_streaming)
        fine = FINE if returns is None else FINE - LESSER
        async with self.engine.alone(restart or retry_failed):
            known, status = await self.known(id)
            if known is not None:
                _check_same(id, known, work)
                has_changed = status in UNFINISHED and not is_same_setting(known, work)
                if restart and (has_changed or status == "broken"):
                    work["spent"] = await self._spent(id, known)
                    await DBOS.cancel_workflow_async(id)
                elif has_changed:
                    raise ConfigurationError(CHANGED)
                elif not retry_failed or status in (*UNFINISHED, *fine):
                    return Begun(id)
                await DBOS.delete_workflow_async(id)
            home = self.engine.home
            with SetWorkflowID(id), SetWorkflowAttributes({HOME: home}):
                if enqueue:
                    handle = await DBOS.enqueue_workflow_async(home, _workflow(), json_of(work))
                else:
                    handle = await DBOS.start_workflow_async(_workflow(), json_of(work))
        if is_streaming:  # its events are read before its result, which says whose it is
            known, _ = await self.known(id)
            if known is not None:
                _check_same(id, known, work)
        return Begun(id, handle, work["digest"])

    def _work(
        self,
        request: Request,
        options: Mapping[str, Any],
        returns: Any,
        *,
        is_turn: bool,
        is_streaming: bool,
    ) -> Plain:
        """Return what the database is given to do.

        Arguments:
            request, options, returns, is_turn, is_streaming: as for `begin`.

        Raises:
            ConfigurationError: something cannot be stored, or an option does not fit.
        """
        is_own_database = bool(self.engine.url)
        what = "call"
        if is_turn:
            what = "turn"
        elif not is_own_database:
            what = "call in a DBOS of your own"
        refused = ["turn"]
        if is_turn or not is_own_database:
            refused.append("within")
        for name in refused:
            if options.get(name) is not None:
                raise ConfigurationError(f"a durable {what} cannot have {name}=")
        within = options.get("within")
        levels = plain_within(within)
        self._within.setdefault(json_of(levels), within)
        hidden = [name for name in request.headers if name.lower() in KEY_HEADERS]
        if hidden:
            raise ConfigurationError(
                f"a durable call cannot have the header {hidden[0]!r}: the database holds no keys"
            )
        # The clocks of two processes have nothing in common, so the database holds a wall time.
        deadlines = self.client.runtime.deadlines
        deadline = deadlines.of(options.get("deadline"), request.headers)
        if deadline is not None:
            deadline = deadlines.wall_clock() + (deadline - deadlines.clock())
        work = work_of(
            self.client, request, options, returns, deadline, self.modules, is_turn=is_turn
        )
        work |= {"within": levels, "is_streaming": is_streaming}
        of_now = None if within is None else within.at(deadlines.wall_clock())
        prepared(self.client, work, of_now, self.modules)  # which says what does not fit
        return work

    async def _spent(self, id: str, known: Plain) -> Mapping[str, float]:
        """Return what a call has spent, and what it had spent before it was last started again."""
        from dbos import DBOS

        steps = await DBOS.list_workflow_steps_async(id)
        with only_ours(id):
            before = known.get("spent", {})
            since = orjson.loads(steps[-1]["output"] or "")["spent"] if steps else {}
            return {name: before.get(name, 0) + since.get(name, 0) for name in before | since}

    async def known(self, id: str) -> tuple[Plain | None, str]:
        """Return what a call was asked, and its status; None and "" if there is none.

        Raises:
            ConfigurationError: the id is that of something else.
        """
        from dbos import DBOS

        check_id(id)
        status = await DBOS.get_workflow_status_async(id)
        if status is None or status.input is None:
            return None, ""
        if status.name != WORKFLOW:
            raise ConfigurationError(
                f"{short(id)} is no call of Rungwise's, but {short(status.name)}"
            )
        with only_ours(id):
            work = orjson.loads(status.input["args"][0])
            if status.status == "SUCCESS":
                return work, orjson.loads(status.output or "")["outcome"]
        return work, STATUS.get(status.status, "broken")

    async def run(self, text: str) -> str:
        """Run the workflow that this is called in, and return its result as JSON.

        Arguments:
            text: the JSON of what `begin` has stored.
        """
        import asyncio

        from dbos import DBOS

        id = DBOS.workflow_id
        assert id is not None
        # In a thread without the context of the workflow, for this is not a step of it.
        steps = await asyncio.get_running_loop().run_in_executor(None, DBOS.list_workflow_steps, id)
        records = [await DBOS.run_step_async(SAVE, _never) for _ in steps]

        async def save(record: str) -> None:
            async def say() -> str:  # what it returns is recorded
                return record

            await DBOS.run_step_async(SAVE, say)

        work = orjson.loads(text)
        runtime = self.client.runtime
        shared = runtime.shared
        within = self._within.setdefault(json_of(work["within"]), read_within(work["within"]))
        if within is not None:
            within = within.at(began_at(records) or runtime.deadlines.wall_clock())
            prefix = f"{digest_of(id)} "
            shared = shared_with(shared, self._budgets, runtime.clock, prefix)
            if records:
                await anyio.to_thread.run_sync(self._budgets.lose, prefix, within)
        ending = Cancellation()
        self._running[id] = ending
        try:
            return await run_work(
                self.client, work, records, save, self.leaves, ending, within, shared, self.modules
            )
        finally:
            del self._running[id]

    def leaves(self) -> bool:
        """Tell whether what breaks off is left to the next process."""
        return self not in _open

    async def cancel(self, id: str) -> None:
        """End a call: at once if it runs in this process, else before its next attempt."""
        from dbos import DBOS

        running = self._running.get(id)
        if running is not None:
            running.cancel()
        else:
            await DBOS.cancel_workflow_async(id)

    async def news(self, id: str, read: int) -> tuple[list[StreamEvent], int, bool]:
        """Wait for events behind the first `read` records of a call.

        Returns:
            The events, how many records there are now, and whether the call has ended.
        """
        from dbos import DBOS

        while True:
            is_over = (await self.known(id))[1] not in UNFINISHED
            steps = await DBOS.list_workflow_steps_async(id, offset=read)
            read += len(steps)
            events: list[StreamEvent] = []
            with only_ours(id):
                for step in steps:
                    record = orjson.loads(step["output"] or "{}")
                    events += map(read_event, record.get("events", ()))
            if events or is_over:
                return events, read, is_over
            await anyio.sleep(LOOK)

    async def end_of(self, begun: Begun, returns: Any) -> Any:
        """Wait for the result of a call or a turn, and return it or raise its error.

        Arguments:
            begun: the call.
            returns: what its answer must be, as for `Client.call`.

        Raises:
            RungwiseError: the call did not succeed, or could not be run.
        """
        from dbos import DBOS

        name = short(begun.id)
        handle = begun.handle or await DBOS.retrieve_workflow_async(begun.id)
        try:
            with only_ours(begun.id):
                plain = orjson.loads(await handle.get_result(polling_interval_sec=POLL))
        except RungwiseError:
            raise
        except Exception as error:
            kind = getattr(error, "name", None) or type(error).__name__
            if kind == "DBOSAwaitedWorkflowCancelledError":
                raise RungwiseError(f"the call {name} was cancelled from outside") from None
            raise _ERRORS.get(kind, RungwiseError)(str(error)) from None
        if begun.digest is not None and plain.get("digest", begun.digest) != begun.digest:
            raise ConfigurationError(OTHER.format(name))  # which began at the same moment
        with only_ours(begun.id):
            result = result_of(begun.id, plain, returns, self.client.chain)
        return result.raise_for_outcome()


def _check_same(id: str, known: Plain, work: Plain) -> None:
    """Refuse an id that belongs to another request."""
    if known["digest"] != work["digest"]:
        raise ConfigurationError(OTHER.format(short(id)))


_open: list[Workflows] = []
"""Those of this process, at most one: DBOS runs once in a process."""

_lock = threading.Lock()


@cache
def _workflow() -> Any:
    """Return the workflow of calls, which DBOS learns of once in a process."""
    from dbos import DBOS

    return DBOS.workflow(name=WORKFLOW)(_run_call)


async def _run_call(work: str) -> str:
    if not _open:  # it is being closed: a cancelled workflow is left to the next process
        raise CancelledError
    return await _open[0].run(work)


async def _never() -> str:
    """Stand for a recorded step: DBOS returns what it returned then, and does not call it."""
    raise AssertionError("a recorded step ran again")
