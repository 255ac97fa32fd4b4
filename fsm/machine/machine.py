"""The shared `transitions` machine of a table, and the one way to fire an event on it."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Final

from transitions import Machine, MachineError
from transitions.core import Transition

from rungwise.fsm.call.ladder import COUNTER, Ladder, names_of
from rungwise.fsm.errors import BrokenMachine, IllegalEvent
from rungwise.fsm.machine.table import Row, Table

NAME: Final = "rungwise"

_LIBRARY: Final = logging.getLogger("transitions"), logging.getLogger("transitions.core")


class _Quiet(logging.Filter):
    """Drop what `transitions` tells of our machines, three lines an event, unless somebody set a level to see it.

    The call tells each step itself, on the logger `rungwise`; other machines of the process are not touched.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record goes on."""
        is_ours = isinstance(record.args, tuple) and bool(record.args) and record.args[0] == f"{NAME}: "
        return not is_ours or record.levelno >= logging.WARNING or any(each.level for each in _LIBRARY)


_LIBRARY[1].addFilter(_Quiet())


class RowTransition(Transition):  # type: ignore[misc, unused-ignore]
    """Be a transition that leaves its row on the model, so that the journal can say which guard decided."""

    def __init__(self, *args: Any, row: Row, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row = row

    def execute(self, event_data: Any) -> bool:
        """Try this row; mark it on the model if it was taken."""
        moved: bool = super().execute(event_data)
        if moved:
            event_data.model.row = self.row
        return moved


class RowMachine(Machine):  # type: ignore[misc, unused-ignore]
    """Be a machine without a model of its own: every call is passed to `trigger`."""

    transition_cls = RowTransition
    unguarded: frozenset[str] = frozenset()  # the events that no guard decides, so that no fact need be found for them


def build_machine(table: Table) -> RowMachine:
    """Build the machine of a table; it serves any number of calls, in any number of threads."""
    machine = RowMachine(
        model=None,
        name=NAME,
        states=[{"name": name, "final": name in table.outcomes} for name in table.states],
        initial=table.start,
        auto_transitions=False,
        queued=False,
        send_event=False,
        model_attribute="rung",
    )
    for row in table.rows:
        machine.add_transition(row.event, row.source, row.target, conditions=row.guard, before=row.effect, row=row)
    guarded = {row.event for row in table.rows if row.guard is not None}
    machine.unguarded = frozenset(table.events) - guarded
    return machine


def machine_of(table: Table) -> RowMachine:
    """Return the table's one machine, built on first use."""
    machine: RowMachine | None = table._machine
    if machine is None:
        machine = build_machine(table)
        object.__setattr__(table, "_machine", machine)
    return machine


def fire(machine: RowMachine, ladder: Ladder, event: str) -> Row:
    """Fire an event on a ladder and return the row that was taken.

    Raises:
        IllegalEvent: the state does not take the event, or no guard held; the ladder is as it was.
    """
    handler = machine.events.get(event)
    try:
        moved = handler is not None and handler.trigger(ladder)
    except MachineError:
        moved = False
    if not moved or ladder.row is None:
        raise IllegalEvent(f"event {event!r} does not belong to state {ladder.rung!r}")
    return ladder.row


class Watch:
    """Check each step of one call against what was proved of its table: a proof is about the rows, this about the run.

    Arguments:
        table: the machine that the call runs on.
        limits: the limit of each counter, by name.
    """

    __slots__ = ("_hub", "_limits", "_outcomes", "_ranks", "_spent")

    def __init__(self, table: Table, limits: object) -> None:
        counters = names_of(table.model, COUNTER)
        self._limits = tuple(getattr(limits, name) for name in counters)
        self._ranks = _places(table.ranks, counters)
        self._hub, self._outcomes = table.hub, table.outcomes
        self._spent = (0,) * len(counters)

    def check(self, row: Row, spent: tuple[int, ...]) -> None:
        """Take what is spent of each counter after a step.

        Raises:
            BrokenMachine: a counter has left its limits, or the variant did not fall.
        """
        before, self._spent = self._spent, spent
        if row.target in self._outcomes:
            return  # an end is nearer than anything, also to a call that went wrong
        if spent == before:
            falls = row.target == self._hub and row.source != self._hub
        else:
            falls = row.target != self._hub and self._left(spent) < self._left(before)
        if not falls:
            raise BrokenMachine(f"{row}: the variant did not fall")
        for count, limit in zip(spent, self._limits, strict=True):
            if not 0 <= count <= limit:
                raise BrokenMachine(f"{row}: a counter is {count}, and its limit is {limit}")

    def _left(self, spent: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([sum([self._limits[place] - spent[place] for place in group]) for group in self._ranks])


@lru_cache(maxsize=64)
def _places(ranks: tuple[tuple[str, ...], ...], counters: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(counters.index(name) for name in group) for group in ranks)
