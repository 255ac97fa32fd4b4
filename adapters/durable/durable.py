"""Calls and turns that outlive their process: `Durable`."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Unpack

import anyio.to_thread
import orjson

from rungwise.adapters.client import Client
from rungwise.adapters.client_options import OF_CALLS, CallOptions, Messages, request_of
from rungwise.adapters.durable.budgets import (
    DatabaseBudgets,
    plain_within,
    read_within,
    shared_with,
)
from rungwise.adapters.durable.databases import need_dbos
from rungwise.adapters.durable.engine import HOME, WORKFLOW, Engine
from rungwise.adapters.durable.forms import Plain
from rungwise.adapters.durable.handle import FINE, OTHER, STATUS, UNFINISHED, Handle, in_thread
from rungwise.adapters.durable.work import (
    CHANGED,
    digest_of,
    is_same_setting,
    prepared,
    run_work,
    setting_of,
    work_of,
)
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.closing import Closing
from rungwise.adapters.turn.turn_options import OF_TURNS, TurnOptions
from rungwise.adapters.wires.endpoint import KEY_HEADERS
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from dbos import StepOptions

SAVE: Final[StepOptions] = {"name": "save"}
"""The step that writes what is new of a call."""

LONGEST_ID: Final = 200
"""Characters of an id."""


class Durable(Closing):
    """Run calls and turns that outlive their process. The end of each is kept under its id.

    Every attempt is recorded before it is sent, and what came of it afterwards. If the process
    dies, the next one that opens the database goes on where the call stood, and so does any other
    that has it open now. An attempt that was in flight counts as failed, at its cap. The database
    holds prompts and answers, and never a key.

    Use it in a `with` block, or call `close`; a process has one at a time.

    Arguments:
        client: runs the calls; its chain, policy and table must be those that a call began with.
        database: `sqlite:///FILE`, or the URL of a Postgres database, which processes on many
            machines may share. None for that of a program which runs DBOS by itself: make the
            `Durable` before its `DBOS.launch()`. It then recovers calls as it recovers its own
            workflows, and `within` is not to be had.
        concurrency: how many calls that others have left or queued a process runs at once. The
            database keeps it for all processes like this one; None leaves it as it is, 100 if
            nobody has said so.

    Raises:
        ConfigurationError: the extra `durable` is not installed, the database cannot be used, or
            one is open already.
    """

    def __init__(
        self,
        client: Client,
        database: str | None = "sqlite:///rungwise.sqlite",
        *,
        concurrency: int | None = None,
    ) -> None:
        home = f"rungwise-{digest_of(setting_of(client, client.policy))[:16]}"
        self._client, self._engine = client, Engine(database, home, concurrency)
        self._running: dict[str, Cancellation] = {}
        self._budgets = DatabaseBudgets(database or "")
        # those that calls here draw on
        self._within: dict[str, SharedBudget | None] = {json_of([]): None}
        need_dbos()
        with _lock:
            if _current:
                raise ConfigurationError(
                    "a process has one Durable at a time: close the other one first"
                )
            _workflow()
            _current.append(self)
            try:
                self._engine.open()
            except BaseException:
                _current.clear()
                raise

    def call(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Result:
        """Run a call once for an id, and return its result; the same id returns the same result.

        Arguments:
            id: names the call in this database.
            messages, returns, options: as for `Client.call`. A verdict, and a class that it
                returns, must stand at the top of a module, so that another process finds it.
                `within` takes a `SharedBudget` with a name and without seconds: the database keeps
                it, for the calls of all processes.
            restart: whether a call whose policy, table or chain has changed begins anew.

        Raises:
            CallError: the call did not succeed; it is kept, too.
            ConfigurationError: another request has this id, or something cannot be stored.
            JournalMismatch: the call does not do again what is recorded of it.
        """
        return self.start(id, messages, returns=returns, restart=restart, **options).result()

    async def acall(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Result:
        """Run a call asynchronously; takes and raises what `call` does."""
        return await in_thread(
            partial(self.call, id, messages, returns=returns, restart=restart, **options)
        )

    def start(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Handle[Result]:
        """Start a call and return at once; takes what `call` does.

        Raises:
            ConfigurationError: another request has this id, or something cannot be stored.
        """
        return self._start(id, messages, options, OF_CALLS, returns, restart=restart)

    def stream(
        self,
        id: str,
        messages: Messages,
        *,
        offset: int = 0,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Iterator[StreamEvent | Result]:
        """Run a call once for an id, and yield its events as they are written; the last one is the
        result.

        After a crash, the call continues from the text that was written, and who reads again reads
        the same from the beginning, or from any `offset`, the number of events that you have.
        `handle(id).stream(offset)` reads it in another process. Takes and raises what `call` does;
        an error comes after the last event.
        """
        return self._start(
            id, messages, options, OF_CALLS, returns, restart=restart, is_streaming=True
        ).stream(offset)

    def turn(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[TurnOptions],
    ) -> TurnResult:
        """Run a turn once for an id, and return its result; the same id returns the same result.

        A tool that may have begun before a crash is not run again, unless it is `repeatable`; the
        model is told that nobody knows whether it has run, and decides.

        Arguments:
            id, restart: as for `call`.
            messages, returns, options: as for `Client.turn`. Tools, verdicts, an executor and a
                compactor must stand at the top of a module, so that another process finds them.

        Raises:
            TurnError: the turn did not succeed; it is kept, too.
            ConfigurationError: another request has this id, or something cannot be stored.
            JournalMismatch: the turn does not do again what is recorded of it.
        """
        return self.start_turn(id, messages, returns=returns, restart=restart, **options).result()

    def start_turn(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[TurnOptions],
    ) -> Handle[TurnResult]:
        """Start a turn and return at once; takes what `turn` does.

        Raises:
            ConfigurationError: another request has this id, or something cannot be stored.
        """
        return self._start(id, messages, options, OF_TURNS, returns, restart=restart, is_turn=True)

    def handle(self, id: str, *, returns: Any = None) -> Handle[Any]:
        """Return the handle of a call or a turn that was started before, here or elsewhere.

        Raises:
            ConfigurationError: there is no such call.
        """
        if self._engine.run(self._known, id)[0] is None:
            raise ConfigurationError(f"there is no call {short(id)} in this database")
        return Handle(self, id, returns)

    def close(self) -> None:
        """End what runs here, and leave it to the next process."""
        with _lock:
            if self not in _current:
                return
            _current.remove(self)
        self._engine.close()
        self._budgets.close()

    def _start(
        self,
        id: str,
        messages: Messages,
        options: Any,
        own: frozenset[str],
        returns: Any,
        **settings: bool,
    ) -> Handle[Any]:
        request = request_of(messages, options, own)
        return self._engine.run(partial(self._begin, id, request, options, returns, **settings))

    async def _begin(
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
    ) -> Handle[Any]:
        """Start a call or a turn, or leave it to a worker (`enqueue`), or find the one that has its
        id.
        """
        from dbos import DBOS, SetWorkflowAttributes, SetWorkflowID

        if not isinstance(id, str) or not id.strip() or len(id) > LONGEST_ID:
            what = f"a text of 1 to {LONGEST_ID} characters"
            raise ConfigurationError(f"the id of a call must be {what}, not {short(id)}")
        work = self._work(request, options, returns, is_turn=is_turn, is_streaming=is_streaming)
        known, status = await self._known(id)
        if known is not None:
            if known["digest"] != work["digest"]:
                raise ConfigurationError(OTHER.format(short(id)))
            has_changed = status in UNFINISHED and not is_same_setting(known, work)
            if restart and (has_changed or status == "broken"):
                work["spent"] = await self._spent(id, known)
                await DBOS.cancel_workflow_async(id)
            elif has_changed:
                raise ConfigurationError(CHANGED)
            elif not retry_failed or status in (*UNFINISHED, *FINE):
                return Handle(self, id, returns)
            await DBOS.delete_workflow_async(id)
        home = self._engine.home
        text = json_of(work)
        with SetWorkflowID(id), SetWorkflowAttributes({HOME: home}):
            if enqueue:
                started = await DBOS.enqueue_workflow_async(home, _workflow(), text)
            else:
                started = await DBOS.start_workflow_async(_workflow(), text)
        if is_streaming:  # its events are read before its result, which says whose it is
            known, _ = await self._known(id)
            if known is not None and known["digest"] != work["digest"]:
                raise ConfigurationError(OTHER.format(short(id)))
        return Handle(self, id, returns, started, work["digest"])

    def _work(
        self,
        request: Request,
        options: Mapping[str, Any],
        returns: Any,
        *,
        is_turn: bool,
        is_streaming: bool,
    ) -> Plain:
        what = "turn" if is_turn else "call" if self._engine.url else "call in a DBOS of your own"
        for name in ("turn", "within") if is_turn or not self._engine.url else ("turn",):
            if options.get(name) is not None:
                raise ConfigurationError(f"a durable {what} cannot have {name}=")
        levels = plain_within(options.get("within"))
        self._within.setdefault(json_of(levels), options.get("within"))
        if hidden := [name for name in request.headers if name.lower() in KEY_HEADERS]:
            raise ConfigurationError(
                f"a durable call cannot have the header {hidden[0]!r}: the database holds no keys"
            )
        deadlines = self._client._deadlines
        deadline = deadlines.of(options.get("deadline"), request.headers)
        moment = (
            None if deadline is None else deadlines.wall_clock() + (deadline - deadlines.clock())
        )
        work = work_of(self._client, request, options, returns, moment, is_turn=is_turn)
        work |= {"within": levels, "is_streaming": is_streaming}
        prepared(self._client, work, options.get("within"))  # which says what does not fit
        return work

    async def _spent(self, id: str, known: Plain) -> Mapping[str, float]:
        """Return what a call has spent, and what it had spent before it was last started again."""
        from dbos import DBOS

        steps = await DBOS.list_workflow_steps_async(id)
        before = known.get("spent", {})
        since = orjson.loads(steps[-1]["output"] or "")["spent"] if steps else {}
        return {name: before.get(name, 0) + since.get(name, 0) for name in before | since}

    async def _known(self, id: str) -> tuple[Plain | None, str]:
        """Return what a call is that has begun, and its status; None if there is none."""
        from dbos import DBOS

        status = await DBOS.get_workflow_status_async(id)
        if status is None or status.input is None:
            return None, ""
        if status.name != WORKFLOW:
            raise ConfigurationError(
                f"{short(id)} is no call of Rungwise's, but {short(status.name)}"
            )
        try:
            work = orjson.loads(status.input["args"][0])
            if status.status == "SUCCESS":
                return work, orjson.loads(status.output or "")["outcome"]
        except (ValueError, LookupError, TypeError):
            # whoever writes to the database may put anything in there
            raise ConfigurationError(
                f"what the database holds of {short(id)} is no call of Rungwise's"
            ) from None
        return work, STATUS.get(status.status, "broken")

    async def _run(self, text: str) -> str:
        """Run the workflow that this is called in."""
        import asyncio

        from dbos import DBOS

        id = DBOS.workflow_id
        assert id is not None
        # In a thread without the context of the workflow, for this is no step of it.
        steps = await asyncio.get_running_loop().run_in_executor(None, DBOS.list_workflow_steps, id)
        records = [await DBOS.run_step_async(SAVE, _never) for _ in steps]

        async def save(record: str) -> None:
            async def say() -> str:
                return record

            await DBOS.run_step_async(SAVE, say)

        ending = Cancellation()
        work = orjson.loads(text)
        shared = self._client._shared
        within = self._within.setdefault(json_of(work["within"]), read_within(work["within"]))
        if within is not None:
            prefix = f"{digest_of(id)} "
            shared = shared_with(shared, self._budgets, self._client._clock, prefix)
            if records:
                await anyio.to_thread.run_sync(self._budgets.lose, prefix, within)
        self._running[id] = ending
        try:
            return await run_work(self._client, work, records, save, ending, within, shared)
        finally:
            del self._running[id]

    async def _cancel(self, id: str) -> None:
        from dbos import DBOS

        if (running := self._running.get(id)) is not None:
            running.cancel()
        else:
            await DBOS.cancel_workflow_async(id)


_current: list[Durable] = []
_lock = threading.Lock()


@cache
def _workflow() -> Any:
    """Return the workflow of calls, which DBOS learns of once in a process."""
    from dbos import DBOS

    return DBOS.workflow(name=WORKFLOW)(_run_call)


async def _run_call(work: str) -> str:
    if not _current:  # it is being closed: a cancelled workflow is left to the next process
        raise CancelledError
    return await _current[0]._run(work)


async def _never() -> str:
    raise AssertionError("a recorded step ran again")
