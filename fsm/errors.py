"""The errors, by whose fault they are.

    RungwiseError
      ConfigurationError (ValueError)   what you built is not of its form: a policy, a chain, a request, a script
        TableError                      a table that cannot be proved
      JournalMismatch                   a replay took another step than its journal
      IllegalEvent                      an event that the machine does not take in this state: a driver's bug
      BrokenMachine                     a step that its table's proof rules out: our bug, or a guard that lies
      ToolError                         a tool did not do what the model asked; its text is for the model
      CallError                         a call that did not succeed; carries the `Result`
        Exhausted                       every rung was tried
          EmptyResponse                 ... and nothing but empty replies came
        Failed                          the provider failed, or could not be reached
        Refused                         a content filter or the model itself refused
        OverBudget                      the next attempt could not be afforded
        Cancelled                       the caller ended the call
    TurnError                           a turn did not end well; `result` holds everything that was gathered
        TurnFailed                      a call of the turn failed, or nothing could shorten its conversation
        TurnOverBudget                  the turn could not afford to go on
        TurnCancelled                   the caller ended the turn

No error text holds a key or the contents of a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rungwise.fsm.call.run.result import Result
    from rungwise.fsm.checker.counterexample import PathStep
    from rungwise.fsm.machine.table import Table
    from rungwise.fsm.turn.result import TurnResult


class RungwiseError(Exception):
    """Stand for every error that Rungwise raises."""


class ConfigurationError(RungwiseError, ValueError):
    """Say that a value is not of its form: what, where, and what would be right."""


class TableError(ConfigurationError):
    """Say that a table cannot be proved: the row at fault, or the path that shows the fault.

    `path` holds the steps of that path, each with `to_json`; it is empty where a row alone is at fault. `table` is what
    was refused. `rungwise.fsm.diagram.render_error` paints the path on the diagram of the table.
    """

    def __init__(self, message: str, path: tuple[PathStep, ...] = (), table: Table | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.table = table

    def __reduce__(self) -> tuple[type[TableError], tuple[str, tuple[PathStep, ...]]]:
        return type(self), (str(self), self.path)


class JournalMismatch(RungwiseError):
    """Say at which step a replay differs from its journal."""


class IllegalEvent(RungwiseError):
    """Say that an event does not belong to the current state; nothing has changed."""


class BrokenMachine(RungwiseError):
    """Say that a running machine did what the proof of its table rules out; the call must not go on."""


class ToolError(RungwiseError):
    """Tell the model, in these words alone, what went wrong; a tool of the caller's raises it."""


class CallError(RungwiseError):
    """Say that a call did not succeed; `result` holds everything that was gathered."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[type[CallError], tuple[str, Result]]:
        return type(self), (str(self), self.result)


class Exhausted(CallError):
    """Say that every rung was tried in vain."""


class EmptyResponse(Exhausted):
    """Say that nothing but empty replies came."""


class Failed(CallError):
    """Say that the provider failed or could not be reached."""


class Refused(CallError):
    """Say that the provider or the model refused."""


class OverBudget(CallError):
    """Say that the next attempt could not be afforded."""


class Cancelled(CallError):
    """Say that the caller ended the call."""


class TurnError(RungwiseError):
    """Say that a turn did not end well; `result` holds everything that was gathered."""

    def __init__(self, message: str, result: TurnResult) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[type[TurnError], tuple[str, TurnResult]]:
        return type(self), (str(self), self.result)


class TurnFailed(TurnError):
    """Say that a call of the turn failed, or that nothing could shorten its conversation."""


class TurnCancelled(TurnError):
    """Say that the caller ended the turn."""


class TurnOverBudget(TurnError):
    """Say that the turn could not afford to go on."""
