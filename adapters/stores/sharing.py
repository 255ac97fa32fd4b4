"""What a call shares with others: health, quotas and budgets.

A call asks before each attempt whether it may go out, and reports afterwards what came of it: one
question and one report for all three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, evolve, field, frozen

from rungwise.adapters.stores.budgets import BudgetStore, CallBudget
from rungwise.adapters.stores.quotas import CallQuota
from rungwise.adapters.stores.store import Store, Work, aperform, driven
from rungwise.adapters.stores.watch import CallHealth, Watch
from rungwise.adapters.wires.backend import Backend
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send


@frozen
class Keyed:
    """Hold what the function of a key has returned."""

    of: Backend  # which has the function
    backend: Backend | Exception  # the same with that key; or what the function raised


def asked_of(chain: Sequence[Backend], place: tuple[int, int]) -> Backend:
    """Return a backend with one of its keys, each by index."""
    index, key = place
    backend = chain[index]
    return backend.pool[key] if backend.pool else backend


def must_ask(backend: Backend, keyed: Keyed | None) -> bool:
    """Tell whether a function must be asked for the key of a backend.

    Arguments:
        backend: whom the next attempt asks.
        keyed: the key that was asked for last.
    """
    return backend.renews_key and (keyed is None or keyed.of is not backend)


@frozen
class Shared:
    """Hold what the calls of one client share; None where nobody needs it."""

    store: Store  # holds all of it
    watch: Watch | None  # what is remembered of the health of backends
    has_quotas: bool
    budgets: BudgetStore | None  # holds the budgets with names
    prefix: str = ""  # what the ids of attempts begin with there

    def at(self, other: Shared) -> Shared:
        """Return the same by the store of another client."""
        watch = self.watch
        if watch is not None:
            watch = evolve(watch, store=other.store)
        return evolve(self, store=other.store, budgets=other.budgets, watch=watch)

    def of_call(self, chain: Sequence[Backend]) -> Sharing:
        """Return what follows one call."""
        sharing = Sharing(self.store, chain)
        if self.watch is not None:
            sharing.health = CallHealth(self.watch, chain)
        if self.has_quotas:
            sharing.quota = CallQuota(self.store, chain)
        if self.budgets is not None:
            sharing.budget = CallBudget(self.budgets, self.prefix)
        return sharing


@define(eq=False)
class Sharing:
    """Follow one call. Without a store it lets everything pass."""

    store: Store | None = None
    chain: Sequence[Backend] = ()
    health: CallHealth | None = None
    quota: CallQuota | None = None
    budget: CallBudget | None = None
    # seconds for the quota, before the attempt that is next
    waited: float = field(default=0.0, init=False)
    _owes: bool = field(default=False, init=False)  # whether there is something to report

    def admit(
        self,
        call: Call,
        send: Send,
        keyed: Keyed | None,
    ) -> Send | None:
        """Decide whether an attempt may go out.

        Arguments:
            call: the call.
            send: what it proposes to send.
            keyed: the key that was asked for last. For another one it is asked before anything is
                held.

        Returns:
            `send` itself if it may; else the same with a wait, or what the call sends elsewhere;
            None if the call has ended.
        """
        self._hold(call)
        if self.store is None:
            return send
        return driven(self._admit(call, send, keyed), self.store.execute)

    async def aadmit(
        self,
        call: Call,
        send: Send,
        keyed: Keyed | None,
    ) -> Send | None:
        """Do the same in an event loop."""
        self._hold(call)
        if self.store is None:
            return send
        return await aperform(self.store, self._admit(call, send, keyed))

    def sent(self, send: Send) -> None:
        """Note that an attempt goes out."""
        if self.health is not None:
            self.health.sent(send)
        if self.quota is not None:
            self.quota.was_sent = True

    def settle(
        self,
        seen: Observation | None,
        last: Observation | None,
        headers: Mapping[str, str],
    ) -> None:
        """Report an attempt.

        Arguments:
            seen: what it has shown of its backend, if anything.
            last: what came back; None if the attempt broke off.
            headers: those of the response.
        """
        if self.store is not None and self._owes:
            driven(self._settle(seen, last, headers), self.store.execute)

    async def asettle(
        self,
        seen: Observation | None,
        last: Observation | None,
        headers: Mapping[str, str],
    ) -> None:
        """Do the same in an event loop."""
        if self.store is not None and self._owes:
            await aperform(self.store, self._settle(seen, last, headers))

    def _hold(self, call: Call) -> None:
        """Let the caller's observers wait if an attempt is about to hold what others may need."""
        share = call.spending.share
        if self.quota is not None or (share is not None and share.is_open):
            call.hold()

    def _admit(
        self,
        call: Call,
        send: Send,
        keyed: Keyed | None,
    ) -> Work[Send | None]:
        self._owes = True
        admitted: Send | None = send
        if self.health is not None:
            places = call.arrivals
            if places:
                admitted = yield from self.health.admit(call, send, places)
        if self.budget is not None and admitted is send:
            admitted = yield from self.budget.admit(call, send)
        # the quota comes last: others wait for a place that is taken, even if nobody uses it
        if self.quota is not None and admitted is send:
            admitted = yield from self.quota.admit(call, send)
            self.waited = self.quota.waited
        if admitted is None or admitted is send:
            return admitted
        if must_ask(asked_of(self.chain, call.place), keyed):
            if call.spending.share is not None:
                call.spending.share.withdraw()
            yield from self._release(None, {})
            return evolve(admitted, wait=0.0, needs_compaction=False)
        return admitted

    def _settle(
        self,
        seen: Observation | None,
        last: Observation | None,
        headers: Mapping[str, str],
    ) -> Work[None]:
        self._owes = False
        if self.health is not None:
            yield from self.health.settle(seen)
        yield from self._release(last, headers)
        self._owes = self.budget is not None and self.budget.owes

    def _release(
        self,
        last: Observation | None,
        headers: Mapping[str, str],
    ) -> Work[None]:
        if self.quota is not None:
            yield from self.quota.settle(last, headers)
        if self.budget is not None:
            yield from self.budget.settle()


ALONE = Sharing()
"""What follows a call that shares nothing."""
