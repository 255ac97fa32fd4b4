"""Calls and turns that outlive their process: `Durable`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from rungwise.adapters.client import Client
from rungwise.adapters.client_decisions import refuse_options
from rungwise.adapters.client_options import OF_CALLS, CallOptions, Messages, request_of
from rungwise.adapters.durable.databases import need_dbos
from rungwise.adapters.durable.engine import Engine
from rungwise.adapters.durable.handle import Handle, in_thread
from rungwise.adapters.durable.import_paths import Modules
from rungwise.adapters.durable.work import digest_of, setting_of
from rungwise.adapters.durable.workflows import Begun, Workflows
from rungwise.adapters.http.closing import Closing
from rungwise.adapters.turn.turn_options import OF_TURNS, TurnOptions
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.decisions.answers import Decision
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.replies.decisions.questions import Question
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.values.label import short


class Durable(Closing):
    """Run calls and turns that outlive their process. The end of each is kept under its id.

    Every attempt is recorded before it is sent, and what came of it afterwards. If the process
    dies, the next one that opens the database resumes the call, and so does any other that has it
    open now. An attempt that was in flight counts as failed, at its cap. The database holds prompts
    and answers, and never a key.

    Use it in a `with` block, or call `close`; a process has one at a time.

    Arguments:
        client: runs the calls; its chain, policy and table must be those that a call began with.
        database: `sqlite:///FILE`, or the URL of a Postgres database, which processes on many
            machines may share. None for that of a program which runs DBOS by itself: make the
            `Durable` before its `DBOS.launch()`. It then recovers calls as it recovers its own
            workflows, and `within` is not available.
        modules: the names of the modules, or of packages around them, in which the tools, verdicts
            and classes of stored calls and turns stand. Functions of others are neither stored nor
            run, whatever the database says.
        concurrency: how many calls that others have left or queued a process runs at once. The
            database keeps it for all processes like this one; None leaves it as it is, at first
            100.

    Attributes:
        workflows: what begins and runs the calls: for those who build on this, such as batches. It
            is not part of the everyday API.

    Raises:
        ConfigurationError: the extra `durable` is not installed, the database cannot be used, or
            one is open already.
    """

    def __init__(
        self,
        client: Client,
        database: str | None = "sqlite:///rungwise.sqlite",
        *,
        modules: Sequence[str] = (),
        concurrency: int | None = None,
    ) -> None:
        if not isinstance(client, Client):
            raise ConfigurationError(f"client must be a Client, not {type(client).__name__}")
        if not isinstance(database, str | None):
            kind = type(database).__name__
            raise ConfigurationError(f"database must be a URL, or None, not {kind}")
        home = f"rungwise-{digest_of(setting_of(client, client.policy))[:16]}"
        engine = Engine(database, home, concurrency)
        need_dbos()
        self.workflows = Workflows(client, engine, Modules(modules))
        self.workflows.open()

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
                returns, must stand at the top of one of the `modules`, so that another process
                finds it.
                `within` takes a `SharedBudget` with a name and without seconds: the database keeps
                it, for the calls of all processes.
            restart: whether a call whose policy, table or chain has changed begins anew.

        Raises:
            CallError: the call did not succeed; it is kept, too.
            ConfigurationError: another request has this id, or something cannot be stored.
            JournalMismatch: the call does not do again what is recorded of it.
        """
        return self.start(
            id,
            messages,
            returns=returns,
            restart=restart,
            **options,
        ).result()

    async def acall(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Result:
        """Run a call asynchronously; raises what `call` does.

        Arguments:
            id, messages, returns, restart, options: as for `call`.
        """
        return await in_thread(
            partial(
                self.call,
                id,
                messages,
                returns=returns,
                restart=restart,
                **options,
            )
        )

    def decide(
        self,
        id: str,
        input: Messages,
        questions: Mapping[str, Question],
        *,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Result[Decision]:
        """Run a decision once for an id, and return its result; raises what `call` does.

        Arguments:
            id, restart: as for `call`.
            input, questions, options: as for `Client.decide`.
        """
        refuse_options(options)
        return self.call(id, input, returns=OpenQuestions.of(questions), restart=restart, **options)

    async def adecide(
        self,
        id: str,
        input: Messages,
        questions: Mapping[str, Question],
        *,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Result[Decision]:
        """Run a decision asynchronously; raises what `call` does.

        Arguments:
            id, input, questions, restart, options: as for `decide`.
        """
        decide = partial(self.decide, id, input, questions, restart=restart, **options)
        return await in_thread(decide)

    def start(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[CallOptions],
    ) -> Handle[Result]:
        """Start a call and return at once.

        Arguments:
            id, messages, returns, restart, options: as for `call`.

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
        the same. `handle(id).stream(offset)` reads it in another process. Raises what `call` does;
        an error comes after the last event.

        Arguments:
            id, messages, returns, restart, options: as for `call`.
            offset: how many events to leave out, because you have them.
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
                compactor must stand at the top of one of the `modules`, so that another process
                finds them.

        Raises:
            TurnError: the turn did not succeed; it is kept, too.
            ConfigurationError: another request has this id, or something cannot be stored.
            JournalMismatch: the turn does not do again what is recorded of it.
        """
        return self.start_turn(
            id,
            messages,
            returns=returns,
            restart=restart,
            **options,
        ).result()

    def start_turn(
        self,
        id: str,
        messages: Messages,
        *,
        returns: Any = None,
        restart: bool = False,
        **options: Unpack[TurnOptions],
    ) -> Handle[TurnResult]:
        """Start a turn and return at once.

        Arguments:
            id, messages, returns, restart, options: as for `turn`.

        Raises:
            ConfigurationError: another request has this id, or something cannot be stored.
        """
        return self._start(id, messages, options, OF_TURNS, returns, restart=restart, is_turn=True)

    def handle(self, id: str, *, returns: Any = None) -> Handle[Any]:
        """Return the handle of a call or a turn that was started before, here or elsewhere.

        Raises:
            ConfigurationError: there is no such call.
        """
        known, _ = self.workflows.engine.run(self.workflows.known, id)
        if known is None:
            raise ConfigurationError(f"there is no call {short(id)} in this database")
        return Handle(id, self.workflows, Begun(id), returns)

    def close(self) -> None:
        """End what runs here, and leave it to the next process."""
        self.workflows.close()

    def _start(
        self,
        id: str,
        messages: Messages,
        options: Any,
        own: frozenset[str],
        returns: Any,
        **settings: bool,
    ) -> Handle[Any]:
        """Begin a call or a turn, or find the one that has its id.

        Arguments:
            id, messages, options, returns: as the public methods take them.
            own: the names of the options that a request does not have.
            settings: those of `Workflows.begin`.
        """
        request = request_of(messages, options, own)
        begin = partial(self.workflows.begin, id, request, options, returns, **settings)
        return Handle(id, self.workflows, self.workflows.engine.run(begin), returns)
