"""The errors, by whose fault they are. Those that carry a result stand beside it.

    RungwiseError
      ConfigurationError (ValueError)  what you built is not of its form: a policy, a request ...
        TableError                     a table that cannot be proved
      JournalMismatch                  a replay took another step than its journal
      IllegalEvent                     an event that the machine does not take: a driver's bug
      BrokenMachine                    a step that its table's proof rules out: our bug, or a
                                       guard that lies
      ToolError                        a tool did not do what the model asked; its text is for the
                                       model
      CallError                        a call that did not succeed; carries the `Result`
        Exhausted                      every rung was tried
          EmptyResponse                ... and nothing but empty replies came
        Failed                         the provider failed, or could not be reached
          VerdictError                 ... or a verdict of the caller's raised an error
        WrongAnswer                    `returns=` was given, and no answer has brought a value
        Refused                        a content filter or the model itself refused
        OverBudget                     the next attempt could not be afforded
        Cancelled                      the caller ended the call
      TurnError                        a turn that did not end well; carries the `TurnResult`
        TurnFailed                     a call of the turn failed, or nothing could shorten its
                                       conversation
          TurnWrongAnswer (WrongAnswer)  ... or the turn has brought no value for `returns=`
        TurnOverBudget                 the turn could not afford to continue
        TurnCancelled                  the caller ended the turn

The results stand in `call/run/result.py` and `turn/result.py`.

No error text holds a key or the contents of a message.
"""

from __future__ import annotations

from typing import Any


class RungwiseError(Exception):
    """Stand for every error that Rungwise raises."""


class ConfigurationError(RungwiseError, ValueError):
    """Say that a value is not of its form: what, where, and what would be right."""


class TableError(ConfigurationError):
    """Say that a table cannot be proved: the row at fault, or the path that shows the fault.

    `path` holds the steps of that path, each with `to_json`; it is empty if a row alone is at
    fault. `table` is the `Table` that was refused, or None. `rungwise.fsm.diagram.render_error`
    paints the path on the diagram of the table.
    """

    def __init__(
        self,
        message: str,
        path: tuple[Any, ...] = (),
        table: Any = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.table = table

    def __reduce__(self) -> tuple[type[TableError], tuple[str, tuple[Any, ...]]]:
        return type(self), (str(self), self.path)


class JournalMismatch(RungwiseError):
    """Say at which step a replay differs from its journal."""


class IllegalEvent(RungwiseError):
    """Say that an event does not belong to the current state; nothing has changed."""


class BrokenMachine(RungwiseError):
    """Say that a running machine did what the proof of its table rules out; the call must not go
    on.
    """


class ToolError(RungwiseError):
    """Tell the model, in these words alone, what went wrong; a tool of the caller's raises it."""
