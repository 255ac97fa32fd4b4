"""How the calls of many processes use one budget: the store holds what an attempt may use before it
goes out, and counts what it has paid afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

from attrs import define, evolve, field

from rungwise.adapters.stores.store import Store, Work
from rungwise.adapters.stores.watch import lease_of
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger, Reservation
from rungwise.fsm.call.budget.shared import Share
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.health.quota import POLL

UNHELD = "other calls hold what is left"

Answer = tuple[bool, Sequence[tuple[Paid, float]]] | None
"""Whether an attempt is held, and of each level what is paid and its age in seconds.

None if the store does not answer.
"""


class BudgetStore(Store, Protocol):
    """Keep budgets by their names, beside what every store holds."""

    def hold(
        self,
        attempt: str,
        lease: float,
        reserved: Paid,
        ledgers: Sequence[Ledger],
    ) -> Work[Answer]:
        """Hold what an attempt may use, on every level or on none.

        Arguments:
            attempt: what identifies the attempt.
            lease: the seconds after which the store counts it as paid in full.
            reserved: the most that it may use.
            ledgers: the levels, each a budget with a name.
        """

    def paid(
        self,
        attempt: str,
        paid: Paid,
        ledgers: Sequence[Ledger],
    ) -> Work[None]:
        """Give back what an attempt holds, and count what it has paid."""


@define(eq=False)
class CallBudget:
    """Follow one call."""

    store: BudgetStore
    prefix: str = ""  # what the ids of its attempts in the store begin with
    _share: Share | None = field(default=None, init=False)
    _held: tuple[str, Reservation] | None = field(default=None, init=False)

    def admit(self, call: Call, send: Send) -> Work[Send | None]:
        """Decide whether an attempt may go out now.

        Returns:
            `send` itself if it may, or if a budget of this process refuses it; else the same with
            a wait, after which to ask again.
        """
        share = call.spending.share
        self._share = share
        reservation = None if share is None else share.held
        if self._held is not None and self._held[1] is not reservation:
            yield from self.settle()  # the budget has led elsewhere
        if share is None or self._held is not None:
            return send
        if reservation is None:
            # A budget of this process refuses. Should it think again, nobody has asked the store.
            share.refusal = UNHELD if share.is_stored else None
            return send
        ledgers = _stored(reservation)
        if not ledgers:
            share.refusal = None
            return send
        return (yield from self._hold(call, send, share, reservation))

    def _hold(
        self,
        call: Call,
        send: Send,
        share: Share,
        reservation: Reservation,
    ) -> Work[Send | None]:
        """Ask the store for what an attempt may use.

        Arguments:
            call: the call.
            send: what it proposes to send.
            share: its part in the budgets.
            reservation: what this process has reserved for the attempt.

        Returns:
            As for `admit`.
        """
        ledgers = _stored(reservation)
        attempt = self.prefix + secrets.token_hex(8)
        reserved = Paid(1, reservation.tokens, reservation.money)
        answer = yield from self.store.hold(attempt, lease_of(call), reserved, ledgers)
        if answer is None:
            stops_at = next((each.name for each in ledgers if not each.continues), None)
            share.refusal = None
            if stops_at is not None:
                share.refusal = f"the store that keeps {stops_at} cannot be reached"
            return send
        share.refusal = None
        is_held, levels = answer
        share.note(lambda: _note(ledgers, levels, call.spending.now))
        if is_held:
            self._held = (attempt, reservation)
            return send
        share.withdraw()
        return evolve(send, wait=POLL, needs_compaction=False)

    @property
    def owes(self) -> bool:
        """Tell whether an attempt is held that was not reported."""
        return self._held is not None

    def settle(self) -> Work[None]:
        """Report what the attempt has paid, if one is held; not while its provider goes on."""
        if self._held is None or self._share is None:
            return
        attempt, reservation = self._held
        # `note` waits for a thread that still has to settle this attempt. The ledgers learn of it
        # before the store does, or they would take what the store counts for what others paid.
        self._share.note(lambda: _report(reservation))
        if reservation.state == "sent":
            return
        self._held = None
        yield from self.store.paid(attempt, reservation.paid or Paid(), _stored(reservation))


def _note(ledgers: Sequence[Ledger], levels: Sequence[tuple[Paid, float]], now: float) -> None:
    for ledger, (paid, age) in zip(ledgers, levels, strict=True):
        ledger.note_others(paid, now - age)


def _report(reservation: Reservation) -> None:
    for ledger in _stored(reservation):
        ledger.note_reported(reservation.paid or Paid())


def _stored(reservation: Reservation) -> list[Ledger]:
    return [ledger for ledger in reservation.ledgers if ledger.is_stored]
