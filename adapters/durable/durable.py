"""Calls that outlive their process: `Durable`, and the `Handle` of one of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, Self, Unpack

import anyio.to_thread
import orjson
from attrs import frozen

from rungwise.adapters.client import Client
from rungwise.adapters.durable.engine import HOME, POLL, WORKFLOW, Engine
from rungwise.adapters.durable.forms import Plain, read_result
from rungwise.adapters.durable.work import CHANGED, SAVE, digest_of, is_same_setting, run_work, setting_of, work_of
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.options import OF_CALLS, CallOptions, Messages, hide_headers, request_of
from rungwise.adapters.wires.endpoint import KEY_HEADERS
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.conversation.shapes import NEUTRAL
from rungwise.fsm.call.run.result import SUCCESSES, Result
from rungwise.fsm.errors import ConfigurationError, JournalMismatch, RungwiseError
from rungwise.fsm.journal.record import json_of
from rungwise.fsm.schemas.given import Misfit
from rungwise.fsm.schemas.returns import returns_of
from rungwise.fsm.values.label import short

LONGEST_ID: Final = 200
"""Characters of an id."""

STATUS: Final = {"ENQUEUED": "waiting", "DELAYED": "waiting", "PENDING": "running", "CANCELLED": "cancelled"}

UNFINISHED: Final = ("waiting", "running")


class Durable:
    """Run calls that outlive their process. The end of each is kept under its id.

    Every attempt is recorded before it is sent, and what came of it afterwards. If the process dies, the next one that
    opens the database goes on where the call stood, and so does any other that has it open now. An attempt that was in
    flight counts as failed, at its cap. The database holds prompts and answers, and never a key.

    Use it in a `with` block, or call `close`; a process has one at a time.

    Arguments:
        client: runs the calls; its chain, policy and table must be those that a call began with.
        database: `sqlite:///FILE`, or the URL of a Postgres database, which processes on many machines may share.
        concurrency: how many calls that others have left or queued a process runs at once. The database keeps it for
            all processes like this one; None leaves it as it is, 100 if nobody has said so.

    Raises:
        ConfigurationError: the extra `durable` is not installed, the database cannot be used, or one is open already.
    """

    def __init__(
        self, client: Client, database: str = "sqlite:///rungwise.sqlite", *, concurrency: int | None = None
    ) -> None:
        home = f"rungwise-{digest_of(setting_of(client, None))[:16]}"
        self._client, self._engine = client, Engine(database, home, concurrency)
        self._running: dict[str, Cancellation] = {}
        _open(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

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
            messages, returns, options: as for `Client.call`. A verdict, and a class that it returns, must stand at the
                top of a module, so that another process finds it.
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
        run = partial(self.call, id, messages, returns=returns, restart=restart, **options)
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)

    def start(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Handle:
        """Start a call and return at once; takes what `call` does.

        Raises:
            ConfigurationError: another request has this id, or something cannot be stored.
        """
        hide_headers(options)
        request = request_of(messages, options, OF_CALLS)
        return self._engine.run(partial(self._begin, id, request, options, returns, restart=restart))

    def handle(self, id: str, *, returns: Any = None) -> Handle:
        """Return the handle of a call that was started before, here or elsewhere.

        Raises:
            ConfigurationError: there is no such call.
        """
        if self._engine.run(self._known, id)[0] is None:
            raise ConfigurationError(f"there is no call {short(id)} in this database")
        return Handle(self, id, returns)

    def close(self) -> None:
        """End what runs here, and leave it to the next process."""
        if _forget(self):
            self._engine.close()

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
    ) -> Handle:
        """Start a call, or find the one that has its id.

        Arguments:
            enqueue: whether it is left to a worker.
            retry_failed: whether one that has failed is run again.
        """
        from dbos import DBOS, SetWorkflowAttributes, SetWorkflowID

        _check_id(id)
        work = self._work(request, options, returns)
        known, status = await self._known(id)
        if known is not None:
            if known["digest"] != work["digest"]:
                raise ConfigurationError(f"{short(id)} is the id of another request; give this one an id of its own")
            has_changed = status in UNFINISHED and not is_same_setting(known, work)
            if restart and (has_changed or status == "broken"):
                work["spent"] = await self._spent(id, known)
                await DBOS.cancel_workflow_async(id)
            elif has_changed:
                raise ConfigurationError(CHANGED)
            elif not retry_failed or status in (*UNFINISHED, *SUCCESSES):
                return Handle(self, id, returns)
            await DBOS.delete_workflow_async(id)
        home, text = self._engine.home, json_of(work)
        with SetWorkflowID(id), SetWorkflowAttributes({HOME: home}):
            if enqueue:
                return Handle(self, id, returns, await DBOS.enqueue_workflow_async(home, _workflow(), text))
            return Handle(self, id, returns, await DBOS.start_workflow_async(_workflow(), text))

    def _work(self, request: Request, options: Mapping[str, Any], returns: Any) -> Plain:
        for name in ("within", "turn"):
            if options.get(name) is not None:
                raise ConfigurationError(f"a durable call cannot have {name}=")
        if hidden := [name for name in request.headers if name.lower() in KEY_HEADERS]:
            raise ConfigurationError(f"a durable call cannot have the header {hidden[0]!r}: the database holds no keys")
        deadlines = self._client._deadlines
        deadline = deadlines.of(options.get("deadline"), request.headers)
        moment = None if deadline is None else deadlines.wall_clock() + (deadline - deadlines.clock())
        return work_of(self._client, request, options, returns, moment)

    async def _spent(self, id: str, known: Plain) -> Mapping[str, float]:
        """Return what a call has spent, and what it had spent before it was last started again."""
        from dbos import DBOS

        steps = await DBOS.list_workflow_steps_async(id)
        before, since = known.get("spent", {}), orjson.loads(steps[-1]["output"] or "")["spent"] if steps else {}
        return {name: before.get(name, 0) + since.get(name, 0) for name in before | since}

    async def _known(self, id: str) -> tuple[Plain | None, str]:
        """Return what a call is that has begun, and its status; None if there is none."""
        from dbos import DBOS

        status = await DBOS.get_workflow_status_async(id)
        if status is None or status.input is None:
            return None, ""
        if status.name != WORKFLOW:
            raise ConfigurationError(f"{short(id)} is no call of Rungwise's, but {short(status.name)}")
        try:
            work = orjson.loads(status.input["args"][0])
            if status.status == "SUCCESS":
                return work, orjson.loads(status.output or "")["outcome"]
        except (ValueError, LookupError, TypeError):  # whoever writes to the database may put anything in there
            raise ConfigurationError(f"what the database holds of {short(id)} is no call of Rungwise's") from None
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

        ending = self._running[id] = Cancellation()
        try:
            return await run_work(self._client, orjson.loads(text), records, save, ending)
        finally:
            del self._running[id]

    async def _cancel(self, id: str) -> None:
        from dbos import DBOS

        if (running := self._running.get(id)) is not None:
            running.cancel()
        else:
            await DBOS.cancel_workflow_async(id)


@frozen
class Handle:
    """A call that was started."""

    _durable: Durable
    id: str
    _returns: Any = None
    _started: Any = None  # by this process

    def result(self) -> Result:
        """Wait for the result; raises what `Durable.call` does."""
        return self._durable._engine.run(self._result)

    async def aresult(self) -> Result:
        """Wait for the result asynchronously."""
        return await anyio.to_thread.run_sync(self.result, abandon_on_cancel=True)

    def status(self) -> str:
        """Return "waiting", "running", the outcome, or "broken" if the call could not be run."""
        return self._durable._engine.run(self._durable._known, self.id)[1]

    def cancel(self) -> None:
        """End the call: at once if it runs in this process, else before its next attempt."""
        self._durable._engine.run(self._durable._cancel, self.id)

    async def _result(self) -> Result:
        """Wait for the result in the loop of the engine."""
        from dbos import DBOS

        handle = self._started or await DBOS.retrieve_workflow_async(self.id)
        try:
            plain = orjson.loads(await handle.get_result(polling_interval_sec=POLL))
        except Exception as error:
            name = getattr(error, "name", None) or type(error).__name__
            if name == "DBOSAwaitedWorkflowCancelledError":
                raise RungwiseError(f"the call {short(self.id)} was cancelled from outside") from None
            raise _ERRORS.get(name, RungwiseError)(str(error)) from None
        value, returns = None, returns_of(self._returns)
        if returns is not None and plain["outcome"] == "done":
            try:
                value = returns.read_text(plain["text"])
            except Misfit as error:
                raise ConfigurationError(f"the answer of {short(self.id)} is not what returns= says: {error}") from None
        shapes = {each.name: each.shapes for each in self._durable._client.chain if hasattr(each, "shapes")}
        return read_result(plain, shapes.get(plain["backend"], NEUTRAL), value).raise_for_outcome()


_ERRORS: Final[Mapping[str, type[RungwiseError]]] = {
    each.__name__: each for each in (ConfigurationError, JournalMismatch)
}
"""What the workflow of a call may raise, by name: a database holds no more."""

_current: list[Durable] = []
_lock = threading.Lock()


def need_dbos() -> None:
    """Raise a ConfigurationError that names the extra if DBOS is not installed."""
    if find_spec("dbos") is None:
        raise ConfigurationError("this needs DBOS: pip install 'rungwise[durable]'")


def _open(durable: Durable) -> None:
    need_dbos()
    with _lock:
        if _current:
            raise ConfigurationError("a process has one Durable at a time: close the other one first")
        _workflow()
        _current.append(durable)
        try:
            durable._engine.open()
        except BaseException:
            _current.clear()
            raise


def _forget(durable: Durable) -> bool:
    with _lock:
        if durable not in _current:
            return False
        _current.remove(durable)
        return True


def _workflow() -> Any:
    """Return the workflow of calls, which DBOS learns of once in a process."""
    global _registered
    if _registered is None:
        from dbos import DBOS

        _registered = DBOS.workflow(name=WORKFLOW)(_run_call)
    return _registered


_registered: Any = None


async def _run_call(work: str) -> str:
    return await _current[0]._run(work)


async def _never() -> str:
    raise AssertionError("a recorded step ran again")


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not id.strip() or len(id) > LONGEST_ID:
        raise ConfigurationError(f"the id of a call must be a text of 1 to {LONGEST_ID} characters, not {short(id)}")
