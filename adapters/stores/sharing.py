"""What a call shares with others: it asks before each attempt, and reports what came of it, in one
go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from rungwise.adapters.stores.budgets import BudgetStore, CallBudget
from rungwise.adapters.stores.quotas import CallQuota
from rungwise.adapters.stores.store import Store, Work, aperform, driven
from rungwise.adapters.stores.watch import CallHealth, Watch
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send


@frozen
class Shared:
    """Hold what the calls of one client share; None where nobody needs it."""

    store: Store  # where all of it is
    watch: Watch | None  # what is remembered of the health of backends
    has_quotas: bool
    budgets: BudgetStore | None  # where budgets with names are kept
    prefix: str = ""  # what the ids of attempts begin with there

    def of_call(self, chain: Sequence[Backend]) -> Sharing:
        """Return what follows a call."""
        return Sharing(
            self.store,
            None if self.watch is None else CallHealth(self.watch, chain),
            CallQuota(self.store, chain) if self.has_quotas else None,
            None if self.budgets is None else CallBudget(self.budgets, self.prefix),
        )


@define(eq=False)
class Sharing:
    """Follow one call. Without a store it lets everything pass."""

    store: Store | None = None
    health: CallHealth | None = None
    quota: CallQuota | None = None
    budget: CallBudget | None = None
    # seconds for the quota, before the attempt that is next
    waited: float = field(default=0.0, init=False)
    _owes: bool = field(default=False, init=False)  # whether there is something to report

    def admit(self, call: Call, send: Send) -> Send | None:
        """Return `send` itself if it may go out; else what to wait for, or where the call turns;
        None at its end.
        """
        return send if self.store is None else driven(self._admit(call, send), self.store.execute)

    async def aadmit(self, call: Call, send: Send) -> Send | None:
        """Do the same in an event loop."""
        return send if self.store is None else await aperform(self.store, self._admit(call, send))

    def sent(self, send: Send) -> None:
        """Note that an attempt goes out."""
        if self.health is not None:
            self.health.sent(send)
        if self.quota is not None:
            self.quota.was_sent = True

    def settle(
        self, seen: Observation | None, last: Observation | None, headers: Mapping[str, str]
    ) -> None:
        """Report an attempt: what it has shown of its backend, if anything, and what came back,
        unless it broke off.
        """
        if self.store is not None and self._owes:
            driven(self._settle(seen, last, headers), self.store.execute)

    async def asettle(
        self, seen: Observation | None, last: Observation | None, headers: Mapping[str, str]
    ) -> None:
        """Do the same in an event loop."""
        if self.store is not None and self._owes:
            await aperform(self.store, self._settle(seen, last, headers))

    def _admit(self, call: Call, send: Send) -> Work[Send | None]:
        self._owes = True
        admitted: Send | None = send
        if self.health is not None and (places := call.arrivals):
            admitted = yield from self.health.admit(call, send, places)
        if self.budget is not None and admitted is send:
            admitted = yield from self.budget.admit(call, send)
        # last, for others wait for a place that nobody uses
        if self.quota is not None and admitted is send:
            admitted = yield from self.quota.admit(call, send)
            self.waited = self.quota.waited
        return admitted

    def _settle(
        self, seen: Observation | None, last: Observation | None, headers: Mapping[str, str]
    ) -> Work[None]:
        self._owes = False
        if self.health is not None:
            yield from self.health.settle(seen)
        if self.quota is not None:
            yield from self.quota.settle(last, headers)
        if self.budget is not None:
            yield from self.budget.settle()


ALONE = Sharing()
"""What follows a call that shares nothing."""
