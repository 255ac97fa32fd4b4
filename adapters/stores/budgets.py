"""How calls of many processes use one budget: each attempt is held in the store before it goes out,
and paid after.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

from attrs import define, evolve, field

from rungwise.adapters.stores.store import Store, Work
from rungwise.adapters.stores.watch import LONGEST_ATTEMPT, MARGIN
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger, Reservation
from rungwise.fsm.call.budget.shared import Share
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.health.quota import POLL

UNHELD = "other calls hold what is left"

Answer = tuple[bool, Sequence[tuple[Paid, float]]] | None
"""Whether an attempt is held, and what is paid of each level, with its age in seconds; None if
nobody answers.
"""


class BudgetStore(Store, Protocol):
    """Keep budgets by their names, beside what every store holds."""

    def hold(
        self, attempt: str, lease: float, reserved: Paid, ledgers: Sequence[Ledger]
    ) -> Work[Answer]:
        """Hold what an attempt may use, on every level or on none."""

    def paid(self, attempt: str, paid: Paid, ledgers: Sequence[Ledger]) -> Work[None]:
        """Give back what an attempt holds, and count what it has paid."""


@define(eq=False)
class CallBudget:
    """Follow one call."""

    store: BudgetStore
    prefix: str = ""  # what the ids of its attempts in the store begin with
    _share: Share | None = field(default=None, init=False)
    _held: tuple[str, Reservation] | None = field(default=None, init=False)

    def admit(self, call: Call, send: Send) -> Work[Send | None]:
        """Return `send` itself if it may go out now; else the same with a wait, after which to ask
        again.
        """
        share = self._share = call.spending.share
        reservation = None if share is None else share.held
        if self._held is not None and self._held[1] is not reservation:
            yield from self.settle()  # the budget has led elsewhere
        if share is None or self._held is not None:
            return send
        ledgers = [] if reservation is None else _stored(reservation)
        if reservation is None or not ledgers:
            # A budget of this process lets nothing go out. Should it think again, the store has not
            # been asked.
            share.refusal = UNHELD if reservation is None and share.is_stored else None
            return send
        attempt = self.prefix + secrets.token_hex(8)
        lease = (call.policy.timeouts.total or LONGEST_ATTEMPT) + MARGIN
        answer = yield from self.store.hold(
            attempt, lease, Paid(1, reservation.tokens, reservation.money), ledgers
        )
        away = (
            next((each.name for each in ledgers if not each.continues), None)
            if answer is None
            else None
        )
        share.refusal = None if away is None else f"the store that keeps {away} cannot be reached"
        if answer is None:
            return send
        share.note(lambda: _note(ledgers, answer[1], call.spending.now))
        if answer[0]:
            self._held = attempt, reservation
            return send
        share.withdraw()
        return evolve(send, wait=POLL, needs_compaction=False)

    def settle(self) -> Work[None]:
        """Report what the attempt has paid, if one is held."""
        if self._held is None or self._share is None:
            return
        (attempt, reservation), self._held = self._held, None
        # Here, for another thread may still have to settle it; and before the store knows, or it
        # counts as of others.
        self._share.note(lambda: _report(reservation))
        yield from self.store.paid(attempt, reservation.paid or Paid(), _stored(reservation))


def _note(ledgers: Sequence[Ledger], levels: Sequence[tuple[Paid, float]], now: float) -> None:
    for ledger, (paid, age) in zip(ledgers, levels, strict=True):
        ledger.note_others(paid, now - age)


def _report(reservation: Reservation) -> None:
    for ledger in _stored(reservation):
        ledger.note_reported(reservation.paid or Paid())


def _stored(reservation: Reservation) -> list[Ledger]:
    return [ledger for ledger in reservation.ledgers if ledger.is_stored]
