"""The one machine of each table, compiled when the first run on it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rungwise.fsm.machine.machine import RowMachine
    from rungwise.fsm.machine.table import Table


def machine_of(table: Table) -> RowMachine:
    """Return the table's one machine, built on first use."""
    machine: RowMachine | None = vars(table).get("_machine")
    if machine is None:
        from rungwise.fsm.machine.machine import RowMachine  # with `transitions`, which loads more than all of this

        machine = vars(table)["_machine"] = RowMachine(table)
    return machine
