"""The table of a model call: every transition that exists, and nothing that decides outside of it.

Rules of this file:

* A row is `(event, source, guard, target, effect)`. For one event and source the rows are tried from the top; the first
  whose guard holds is taken. A row without a guard is the last resort and stands last.
* A guard is the name of a bool on the `Ladder` (`fsm/call/ladder.py`); it changes nothing. An effect is the name of a
  method there; it only counts.
* `await` is the hub: one request is in flight, and only there do replies arrive. Every other state that is not an
  outcome is a rung: something is about to be sent. `sent` takes it back to the hub, `ran_out` ends it unsent.
* Every row that leads to a rung takes one unit from a counter that its own guard has checked, and refills only
  counters that rank below it. This is why every call ends; `fsm/checker/` refuses a table of which it is not true.
* Before every last resort that leads to `exhausted` or `failed` stands `has_text -> partial`: text that was gathered is
  never turned into an error.

Warning: the order of the rows is the behaviour. Moving one changes what a call does, what it may cost, the diagrams
and the certificate.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import evolve, field, frozen, validators

from rungwise.fsm.call.ladder import COUNTER, Ladder, names_of
from rungwise.fsm.errors import TableError

CLOSE = 0.7
"""How much alike two names of states are, on `difflib`'s scale, where one is taken for a slip of the other."""

AWAIT = "await"
RUNGS = ("ask", "retry", "reask", "nudge", "prefill", "continuation", "enlarge", "repair", "compact", "fallback")
OUTCOMES = ("done", "salvaged", "partial", "refused", "exhausted", "failed", "cancelled", "over_budget")


def _name(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise TableError(f"Row.{attribute.name} must be a name, not {value!r}")


@frozen
class Row:
    """Hold one transition.

    Arguments:
        event: what came back, or what the driver did.
        source: the state in which the event may come.
        guard: the name of a bool on the model that must hold; None always holds.
        target: the next state.
        effect: the name of a method on the model that runs before the state changes; None for nothing.
    """

    event: str = field(validator=_name)
    source: str = field(validator=_name)
    guard: str | None = field(validator=validators.optional(_name))
    target: str = field(validator=_name)
    effect: str | None = field(default=None, validator=validators.optional(_name))

    def __str__(self) -> str:
        guard = f" [{self.guard}]" if self.guard else ""
        effect = f" / {self.effect}" if self.effect else ""
        return f"{self.source} --{self.event}{guard}{effect}--> {self.target}"


def _rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    if not isinstance(rows, Iterable):
        raise TableError(f"Table.rows must be a list of rows, not {type(rows).__name__}")
    return tuple(rows)


@frozen
class Table:
    """Hold the rows of a machine with what the checker and the pictures must know of it.

    Arguments:
        name: what the machine is called in pictures and certificates.
        rows: the transitions, in the order in which they are tried.
        start: the first state.
        outcomes: the final states.
        model: the attrs class that holds the counters, the facts, the guards and the effects.
        ranks: the variant: groups of counters, the most significant first; each step must lower what is left of them
            in this lexicographic order.

    Raises:
        TableError: the table cannot be proved; the message names the row or shows the path.
    """

    name: str
    rows: tuple[Row, ...] = field(converter=_rows)
    start: str
    hub: str
    outcomes: tuple[str, ...]
    ranks: tuple[tuple[str, ...], ...]
    model: type[Ladder] = Ladder
    _machine: Any = field(default=None, init=False, eq=False, repr=False)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Leave the machine behind; the shipped table stays the one that it is."""
        if self is CALL:
            return "CALL"
        return Table, (self.name, self.rows, self.start, self.hub, self.outcomes, self.ranks, self.model)

    @property
    def states(self) -> tuple[str, ...]:
        """List every state once: rungs in the order of the table, the hub, the outcomes."""
        names = dict.fromkeys([self.start, *(row.source for row in self.rows), *(row.target for row in self.rows)])
        rungs = [name for name in names if name != self.hub and name not in self.outcomes]
        return (*rungs, self.hub, *self.outcomes)

    @property
    def rungs(self) -> tuple[str, ...]:
        """List the states in which something is sent."""
        return tuple(name for name in self.states if name != self.hub and name not in self.outcomes)

    @property
    def events(self) -> tuple[str, ...]:
        """List every event once, in the order of the table."""
        return tuple(dict.fromkeys(row.event for row in self.rows))

    def ladder(self, event: str, source: str) -> tuple[Row, ...]:
        """Return the rows that are tried for an event in a state, in order."""
        return tuple(row for row in self.rows if row.event == event and row.source == source)

    def without(self, *rungs: str) -> Table:
        """Return this table without some rungs and every row that leads to or from them.

        Raises:
            TableError: no such rung, or what is left cannot be proved.
        """
        for rung in rungs:
            if rung not in self.rungs or rung == self.start:
                names = ", ".join(self.rungs[1:])
                raise TableError(f"{rung!r} is no rung that can be taken out of {self.name!r}; there are: {names}")
        return self._derive(row for row in self.rows if row.source not in rungs and row.target not in rungs)

    def with_rows(self, *rows: Row, before: Row | None = None, model: type[Ladder] | None = None) -> Table:
        """Return this table with more rows, in front of a given row or of the last resort of their own event.

        A new rung needs no rows of its own for `sent`, `ran_out` and `cancelled`: they are added. It sends the same
        request again, with the text that `Hints.rungs` has for it as a user turn behind it. A name that is nearly that
        of a known state is taken for a slip.

        Arguments:
            rows: the new rows.
            before: the row to stand in front of.
            model: a class derived from this table's model, with the counters, guards and effects that the rows name;
                its new counters rank lowest. Each needs a limit of its name: derive a frozen attrs class from `Limits`.

        Raises:
            TableError: `before` is not in the table, or what comes out cannot be proved.
        """
        if before is not None and before not in self.rows:
            raise TableError(f"the row to stand before is not in the table: {before}")
        old = list(self.rows)
        for row in rows:
            if not isinstance(row, Row):
                form = "Row(event, source, guard, target, effect)"
                raise TableError(f"with_rows takes rows such as {form}, not {type(row).__name__}")
            old.insert(old.index(before) if before else _place(old, row), row)
        known = {row.source for row in old if row.event == "sent"}
        targets = {row.target for row in rows} - known - {self.hub, *self.outcomes}
        for row in rows:
            close = (
                difflib.get_close_matches(row.target, self.states, n=1, cutoff=CLOSE) if row.target in targets else ()
            )
            if close:
                raise TableError(f"{row}: unknown state {row.target!r}; did you mean {close[0]!r}?")
        if model is not None and not (isinstance(model, type) and issubclass(model, Ladder)):
            raise TableError(f"model must be a class derived from Ladder, not {model!r}")
        table = self if model is None else evolve(self, model=model, ranks=_ranks(self.ranks, model))
        return table._derive([*old, *(extra for rung in sorted(targets) for extra in rung_rows(rung))])

    def reordered(self, event: str, order: Iterable[str | None]) -> Table:
        """Return this table with the rows of one event in another order, named by their guards.

        Raises:
            TableError: the guards are not exactly those of the event, or what comes out cannot be proved.
        """
        mine = [row for row in self.rows if row.event == event]
        by_guard = {row.guard: row for row in mine}
        if isinstance(order, str) or not isinstance(order, Iterable):
            raise TableError(f"the order of {event!r} must be a list of its guards, not {type(order).__name__}")
        wanted = list(order)
        if not all(guard is None or isinstance(guard, str) for guard in wanted):
            raise TableError(f"the order of {event!r} must name guards, with None for the last resort")
        if set(wanted) != set(by_guard) or len(wanted) != len(mine):
            raise TableError(f"the guards of {event!r} are {list(by_guard)}; name each of them once")
        new: Iterator[Row] = iter([by_guard[guard] for guard in wanted])
        return self._derive([next(new) if row.event == event else row for row in self.rows])

    def _derive(self, rows: Iterable[Row]) -> Table:
        from rungwise.fsm.certificate.verify import check_table  # the checker reads tables, so it is imported late

        table = evolve(self, rows=tuple(rows))
        check_table(table)
        return table


def _ranks(ranks: tuple[tuple[str, ...], ...], model: type[Ladder]) -> tuple[tuple[str, ...], ...]:
    """Rank the counters that a model adds beside the lowest."""
    known = {name for group in ranks for name in group}
    return (*ranks[:-1], (*ranks[-1], *(name for name in names_of(model, COUNTER) if name not in known)))


def _place(rows: list[Row], new: Row) -> int:
    """Find where a row goes: in front of the unguarded row of its event and source, else at the end of their rows."""
    same = [index for index, row in enumerate(rows) if (row.event, row.source) == (new.event, new.source)]
    if not same:
        return len(rows)
    last = same[-1]
    return last if rows[last].guard is None else last + 1


def rung_rows(rung: str) -> tuple[Row, Row, Row]:
    """Return the rows that every rung has."""
    return (
        Row("sent", rung, None, AWAIT, "count_attempt"),
        Row("cancelled", rung, None, "cancelled"),
        Row("ran_out", rung, None, "over_budget"),
    )


def _replies(event: str, *ladder: tuple[str | None, str, str | None]) -> list[Row]:
    return [Row(event, AWAIT, guard, target, effect) for guard, target, effect in ladder]


_Step = tuple[str | None, str, str | None]

# Steps that several events share. Each names its guard, its target and its effect.
_DELIVERED: _Step = ("has_delivered", "salvaged", "keep_delivered")
_PRIOR: _Step = ("has_prior_answer", "salvaged", "keep_prior_answer")
_NUDGE: _Step = ("may_nudge", "nudge", "spend_nudge")
_PREFILL: _Step = ("may_prefill", "prefill", "spend_prefill")
_REASK: _Step = ("may_reask", "reask", "spend_reask")
_RETRY: _Step = ("may_retry", "retry", "spend_retry")
_RESEND: _Step = ("may_resend", "retry", "spend_retry")
_ENLARGE: _Step = ("may_enlarge", "enlarge", "spend_enlargement")
_CONTINUE: _Step = ("may_continue", "continuation", "spend_continuation")
_RESUME: _Step = ("may_resume", "continuation", "spend_continuation")
_REPAIR: _Step = ("may_repair", "repair", "spend_repair")
_COMPACT: _Step = ("may_compact", "compact", "spend_compaction")
_SWITCH: _Step = ("must_switch", "fallback", "spend_fallback")
_FALL_BACK: _Step = ("may_fall_back", "fallback", "spend_fallback")
_KEEP_TEXT: _Step = ("has_text", "partial", None)


def _end(outcome: str) -> _Step:
    return (None, outcome, None)


_EVERY_RUNG = [rung_rows(rung) for rung in RUNGS]

CALL_ROWS: tuple[Row, ...] = (
    *(sent for sent, _, _ in _EVERY_RUNG),
    *_replies("answered", _end("done")),
    *_replies("called_tools", _end("done")),
    *_replies("came_empty", _DELIVERED, _PRIOR, _NUDGE, _REASK, _FALL_BACK, _KEEP_TEXT, _end("exhausted")),
    *_replies("only_reasoned", _DELIVERED, _PRIOR, _NUDGE, _PREFILL, _REASK, _FALL_BACK, _KEEP_TEXT, _end("exhausted")),
    *_replies("truncated", _CONTINUE, _end("partial")),
    *_replies("paused", _CONTINUE, _KEEP_TEXT, _end("exhausted")),
    *_replies("tools_truncated", _ENLARGE, _FALL_BACK, _KEEP_TEXT, _end("exhausted")),
    *_replies("json_truncated", _ENLARGE, _FALL_BACK, _KEEP_TEXT, _end("exhausted")),
    *_replies("reasoning_truncated", _ENLARGE, _FALL_BACK, _KEEP_TEXT, _end("exhausted")),
    *_replies("interrupted", _RESUME, _RETRY, _FALL_BACK, _KEEP_TEXT, _end("failed")),
    *_replies("malformed", _FALL_BACK, _RETRY, _KEEP_TEXT, _end("failed")),
    *_replies("refused", _FALL_BACK, _end("refused")),
    *_replies("failed_transiently", _RESEND, _SWITCH, _RETRY, _FALL_BACK, _KEEP_TEXT, _end("failed")),
    *_replies("failed_permanently", _FALL_BACK, _KEEP_TEXT, _end("failed")),
    *_replies("rejected_fixably", _REPAIR, _FALL_BACK, _KEEP_TEXT, _end("failed")),
    *_replies("overflowed", _COMPACT, _FALL_BACK, _KEEP_TEXT, _end("failed")),
    Row("cancelled", AWAIT, None, "cancelled"),
    *(cancelled for _, cancelled, _ in _EVERY_RUNG),
    *(ran_out for _, _, ran_out in _EVERY_RUNG),
)

CALL = Table(
    name="call",
    rows=CALL_ROWS,
    start="ask",
    hub=AWAIT,
    outcomes=OUTCOMES,
    ranks=(
        ("fallbacks",),
        ("continuations",),
        ("retries", "reasks", "nudges", "prefills", "enlargements", "repairs", "compactions"),
    ),
)
