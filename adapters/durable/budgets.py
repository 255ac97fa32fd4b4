"""The budgets that durable calls share, in their database: one row each, changed by one process at
a time.

What is held and paid follows the rules of the store in Redis (`stores/lua/budgets.lua`): an attempt
is held on every level or on none; what nobody has paid in time was used up.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs
from attrs import define, evolve, field, frozen

from rungwise.adapters.durable.databases import can_hold, is_postgres, path_of_file
from rungwise.adapters.durable.forms import Plain
from rungwise.adapters.stores.budgets import Answer
from rungwise.adapters.stores.heart import LEASE, Heart, Names
from rungwise.adapters.stores.memory import MemoryStore
from rungwise.adapters.stores.sharing import Shared
from rungwise.adapters.stores.store import Command, Store, Work
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger
from rungwise.fsm.call.budget.shared import SharedBudget, check_within
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.label import short

T = TypeVar("T")

LOGGER: Final = logging.getLogger("rungwise")

TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS rungwise_budgets (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
)
BUDGETS: Final = "budgets"
"""How a command begins that is for the database."""

READ: Final = "SELECT value FROM rungwise_budgets WHERE name = {}"
WRITE: Final = (
    "INSERT INTO rungwise_budgets (name, value) VALUES ({}, {}) ON CONFLICT (name) "
    "DO UPDATE SET value = excluded.value"
)


HELD: Final = 3
"""How many numbers are held for an attempt."""

LARGEST_HELD: Final = 10**40
"""The largest of them; money is counted in units of 1e-24."""


@define
class BudgetRow:
    """What is spent of a budget, and held."""

    began: float
    attempts: int = 0
    tokens: int = 0
    money: int = 0
    # each attempt in flight: id, until when it may be, tokens, money
    holds: list[list[Any]] = field(factory=list)

    @property
    def is_sound(self) -> bool:
        """Tell whether its values are of a kind that we write."""
        numbers = [self.began, self.attempts, self.tokens, self.money]
        if not isinstance(self.holds, list):
            return False
        for attempt, *held in self.holds:
            if not isinstance(attempt, str) or len(held) != HELD:
                return False
            numbers += held
        return all(is_number(each, 0, LARGEST_HELD) for each in numbers)

    def expire(self, now: float) -> None:
        """Count what nobody has paid in time: it has used all that it held."""
        for hold in [each for each in self.holds if each[1] <= now]:
            self.pay(hold[0], Paid(1, hold[2], hold[3]))

    def pay(self, attempt: str, paid: Paid) -> None:
        """Give back what an attempt holds, and count what it has paid; one that holds nothing was
        counted before.
        """
        left = [each for each in self.holds if each[0] != attempt]
        if len(left) < len(self.holds):
            self.holds = left
            self.attempts += paid.attempts
            self.tokens += paid.tokens
            self.money += paid.money

    def has_room(self, reserved: Paid, ledger: Ledger) -> bool:
        """Tell whether one more attempt fits under the ceilings."""
        attempts = self.attempts + reserved.attempts
        tokens = self.tokens + reserved.tokens
        money = self.money + reserved.money
        for _, _, held_tokens, held_money in self.holds:
            attempts += 1
            tokens += held_tokens
            money += held_money
        return (
            _is_within(attempts, ledger.budget.attempts)
            and _is_within(tokens, ledger.budget.output_tokens)
            and _is_within(money, ledger.most_money)
        )


def _is_within(amount: int, ceiling: int | None) -> bool:
    return ceiling is None or amount <= ceiling


@define(eq=False)
class DatabaseBudgets:
    """Keep budgets by their names in the database of durable calls, which exists."""

    url: str
    _connection: Any = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _has_warned: bool = field(default=False, init=False)
    _heart: Heart = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._heart = Heart(self._renew)

    def hold(
        self,
        attempt: str,
        lease: float,
        reserved: Paid,
        ledgers: Sequence[Ledger],
    ) -> Work[Answer]:
        """Hold what an attempt may use; see `BudgetStore.hold`.

        Arguments:
            attempt: the id of the attempt.
            lease: seconds after which it counts as used up if nobody has paid.
            reserved: what it may use at most.
            ledgers: the levels, each with the name of its row.
        """
        names = tuple([each.name for each in ledgers])

        def change(rows: list[BudgetRow], now: float) -> Answer:
            has_room = all(
                row.has_room(reserved, ledger) for row, ledger in zip(rows, ledgers, strict=True)
            )
            if has_room:
                for row in rows:
                    row.holds.append([attempt, now + LEASE, reserved.tokens, reserved.money])
            paid = [(Paid(row.attempts, row.tokens, row.money), now - row.began) for row in rows]
            return has_room, paid

        answer: Answer = yield (BUDGETS, partial(self._changed, names, change))
        if answer is not None and answer[0]:
            self._heart.hold(attempt, names, lease)
        return answer

    def paid(
        self,
        attempt: str,
        paid: Paid,
        ledgers: Sequence[Ledger],
    ) -> Work[None]:
        """Count what an attempt has paid; see `BudgetStore.paid`."""
        self._heart.drop(attempt)

        def change(rows: list[BudgetRow], now: float) -> None:
            for row in rows:
                row.pay(attempt, paid)

        yield BUDGETS, partial(self._changed, [each.name for each in ledgers], change)

    def _renew(self, names: Names, attempts: Sequence[str]) -> None:
        """Renew what some attempts hold."""

        def change(rows: list[BudgetRow], now: float) -> None:
            for row in rows:
                for hold in row.holds:
                    if hold[0] in attempts:
                        hold[1] = now + LEASE

        self._changed(names, change)

    def lose(self, prefix: str, within: SharedBudget) -> None:
        """Count what the attempts of a call hold, whose process is dead, as used up."""

        def change(rows: list[BudgetRow], now: float) -> None:
            for row in rows:
                for hold in row.holds:
                    if hold[0].startswith(prefix):
                        hold[1] = now
                row.expire(now)

        self._changed([level["name"] for level in plain_within(within)], change)

    def close(self) -> None:
        """Close the connection."""
        self._heart.begin_anew()
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        """Close the connection, which ends its transaction."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.close()

    def _changed(
        self, names: Sequence[str], change: Callable[[list[BudgetRow], float], T]
    ) -> T | None:
        """Change rows in one transaction, and return what the change returns; None if the database
        is away.
        """
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                connection = self._connection
                connection.execute("BEGIN" if is_postgres(self.url) else "BEGIN IMMEDIATE")
                changed = self._in_transaction(connection, names, change)
                connection.execute("COMMIT")
                return changed
            except self._error:
                self._leave()
                return None
            except BaseException:
                self._leave()
                raise

    def _in_transaction(
        self,
        connection: Any,
        names: Sequence[str],
        change: Callable[[list[BudgetRow], float], T],
    ) -> T:
        """Read the rows, change them, and write them, on the clock that all processes share."""
        mark = "?"
        now = time.time()  # SQLite's processes are on one machine
        if is_postgres(self.url):
            mark = "%s"
            connection.execute("LOCK TABLE rungwise_budgets IN EXCLUSIVE MODE")
            [now] = connection.execute(
                "SELECT extract(epoch FROM clock_timestamp())::float8"
            ).fetchone()
        rows = []
        for name in names:
            stored = connection.execute(READ.format(mark), [name]).fetchone()
            row = BudgetRow(now) if stored is None else self._row(stored[0], now)
            row.expire(now)
            rows.append(row)
        changed = change(rows, now)
        for name, row in zip(names, rows, strict=True):
            value = json.dumps(attrs.asdict(row))  # orjson refuses the long integers of money
            connection.execute(WRITE.format(mark, mark), [name, value])
        return changed

    def _row(self, text: Any, now: float) -> BudgetRow:
        """Read a row; one that is not ours counts as nothing, and is said once."""
        try:
            row = BudgetRow(**json.loads(text))
            if row.is_sound:
                return row
        except (TypeError, ValueError, RecursionError):
            pass
        if not self._has_warned:
            self._has_warned = True
            LOGGER.warning("a budget in the database is not ours, and counts as nothing")
        return BudgetRow(now)

    def _connect(self) -> Any:
        if is_postgres(self.url):
            import psycopg

            connection: Any = psycopg.connect(self.url, autocommit=True)
            # two that make a table at once collide
            connection.execute("SELECT pg_advisory_lock(7204116)")
            connection.execute(TABLE)
            connection.execute("SELECT pg_advisory_unlock(7204116)")
            return connection
        connection = sqlite3.connect(
            path_of_file(self.url), 30.0, isolation_level=None, check_same_thread=False
        )
        connection.execute(TABLE)
        return connection

    @property
    def _error(self) -> type[Exception]:
        if not is_postgres(self.url):
            return sqlite3.Error
        import psycopg

        return psycopg.Error


@frozen
class BesideBudgets:
    """A store whose budgets are in a database, and all else where it was."""

    store: Store
    budgets: DatabaseBudgets

    def __getattr__(self, name: str) -> Any:
        return getattr(self.budgets if name in ("hold", "paid") else self.store, name)

    def execute(self, command: Command) -> Any:
        """Do what a command says, and wait for it."""
        return command[1]() if command[0] == BUDGETS else self.store.execute(command)


def shared_with(
    shared: Shared | None,
    budgets: DatabaseBudgets,
    clock: Callable[[], float],
    prefix: str,
) -> Shared:
    """Return what a call shares, with its budgets in a database.

    Arguments:
        shared: what the calls of the client share; None for nothing.
        budgets: those of the database.
        clock: returns the seconds of the client's clock.
        prefix: how the ids of the call's attempts begin.
    """
    beside: Any = BesideBudgets(MemoryStore(clock) if shared is None else shared.store, budgets)
    if shared is None:
        return Shared(beside, None, False, beside, prefix)
    return evolve(shared, store=beside, budgets=beside, prefix=prefix)


def plain_within(within: object) -> list[Plain]:
    """Return a shared budget and those around it as plain data, the innermost first, or raise a
    ConfigurationError.
    """
    check_within(within)
    levels: list[Plain] = []
    while isinstance(within, SharedBudget):
        if not within.name:
            raise ConfigurationError(
                "within: give the SharedBudget a name, by which other processes find it"
            )
        if not can_hold(within.name):
            raise ConfigurationError(f"within: no database can hold the name {short(within.name)}")
        if within.budget.seconds is not None:
            raise ConfigurationError(
                f"within: durable calls share no seconds: give {within.name} seconds=None"
            )
        kept = {"name": within.name, "without_store": within.without_store, "per": within.per}
        levels.append({**kept, "budget": attrs.asdict(within.budget)})
        within = within.within
    return levels


def read_within(levels: Sequence[Plain]) -> SharedBudget | None:
    """Return the shared budget that `plain_within` wrote; None for no levels."""
    within: SharedBudget | None = None
    for level in reversed(levels):
        others = {name: level[name] for name in ("name", "without_store", "per")}
        within = SharedBudget(Budget(**level["budget"]), within, **others)
    return within


def left_of(budget: Budget, spent: Mapping[str, float]) -> Budget:
    """Return what is left of a budget, or raise a ConfigurationError if nothing is."""
    left = {}
    for name in attrs.fields_dict(Budget):
        ceiling = getattr(budget, name)
        if ceiling:
            left[name] = ceiling - spent.get(name, 0)
    for name, amount in left.items():
        if amount <= 0:
            raise ConfigurationError(
                f"it has spent all of its {name.replace('_', ' ')}: nothing is left to start again"
            )
    return evolve(budget, **left)
