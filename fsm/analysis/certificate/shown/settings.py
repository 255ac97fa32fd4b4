"""What a policy sets, for pictures and reviews.

This is its limits, its waits, its budget, the rows that are off under it, and its fields in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from rungwise.fsm.analysis.certificate.certificate import duration, number_text
from rungwise.fsm.call.clocks.waiting import backoff, series_of
from rungwise.fsm.call.limits import BY_CHAIN, LARGEST_LIMIT
from rungwise.fsm.call.policy import EMPTY_REPLY, Budget, Policy, Waits
from rungwise.fsm.call.run.facts import EMPTY
from rungwise.fsm.diagram.model import Settings
from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.engine.checker.structure import reached_states
from rungwise.fsm.engine.machine.declare import Rung
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.turn.policy import TurnPolicy, check_policy
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.files import toml_in

Limits = Mapping[str, int | None]
Settled = Mapping[str, tuple[bool, str]]
"""The facts that a policy fixes: whether each always or never holds, and why."""

MOST_WAITS = 5
"""How many waits a series lists."""

SECONDS = ("waits.", "timeouts.", "budget.seconds", "reserve.seconds", "tool_seconds")
TOKENS = ("budget.output_tokens", "base_cap", "largest_cap", "handful", "window")
SHARES = {
    "waits.jitter": "up to {} of the wait",
    "reserve.share": "{} of the budget",
    "results_share": "{} of the window",
}
UNLIMITED = {
    **{f"limits.{name}": "as many as the chain has" for name in BY_CHAIN},
    "reserve.seconds": "its share",
    "confidence": "any",
}

SAYS: Final[Mapping[str, str]] = toml_in(__package__, "fields.toml")
"""What a field means, as far as its name does not say."""


def table_of(policy: Policy | TurnPolicy) -> Table:
    """Return the machine that runs under a policy; refuse what is none."""
    check_policy(policy)
    return TURN if isinstance(policy, TurnPolicy) else policy.table


def settings_of(policy: Policy | TurnPolicy, *, hides_off: bool = False) -> Settings:
    """Return what a picture of a policy's machine shows besides the rows.

    Arguments:
        policy: of a call or of a turn.
        hides_off: whether rows that are never taken are hidden; otherwise they are grey.
    """
    table = table_of(policy)
    limits = limits_of(policy)
    waits = policy.waits if isinstance(policy, Policy) else None
    details = {}
    says = {}
    for rung in table.declared_rungs:
        if rung.name in table.rungs and rung.counter in limits:
            limit = limits[rung.counter]
            details[rung.name] = _detail(rung, limit, waits)
            says[rung.name] = _in_words(rung, limit, waits)
    return Settings(
        details=details,
        says=says,
        off=off_rows(policy),
        hides_off=hides_off,
        caption=f"in all at most {' · '.join(_sums(policy.budget))}",
    )


def limits_of(policy: Policy | TurnPolicy) -> Limits:
    """Return the limit of each counter of a policy's table.

    None means one for each further backend or key.
    """
    return {name: policy.limits.get(name, limit) for name, limit in table_of(policy).limits.items()}


def off_rows(policy: Policy | TurnPolicy) -> dict[Row, str]:
    """Return the rows of a policy's table that can never be taken, each with the reason."""
    table = table_of(policy)
    limits = limits_of(policy)
    off: dict[Row, str] = {}
    for event, source in table.ladders:
        settled = _settled(policy, event)
        alive = set()
        for branch in branches(table, event, source):
            if _is_possible(branch, limits, settled):
                alive.add(branch.row)
        for row in table.ladder(event, source):
            if row not in alive:
                off[row] = _reason(table, row, limits, settled)
    reached = reached_states(table, off)
    for row in table.rows:
        if row.source not in reached:
            off[row] = f"nothing leads to {row.source}"
    return off


def _is_possible(branch: Branch, limits: Limits, settled: Settled) -> bool:
    """Tell whether a policy allows a way through the rows of an event."""
    if any(limits[name] == 0 for name in branch.left):
        return False
    return all(branch.facts.get(name, holds) == holds for name, (holds, _) in settled.items())


def _reason(table: Table, row: Row, limits: Limits, settled: Settled) -> str:
    """Say why a row is never taken.

    Arguments:
        table: where it stands.
        row: the row.
        limits: the limit of each counter.
        settled: the facts that the policy fixes.
    """
    guard = table.guard(row.guard)
    if guard.counter and limits[guard.counter] == 0:
        return f"the limit of {guard.counter} is 0"
    for name, (holds, why) in settled.items():
        if (name in guard.lacks and holds) or (
            name in guard.holds and name not in guard.lacks and not holds
        ):
            return why
    return "a row before it is always taken"


def _settled(policy: Policy | TurnPolicy, event: str) -> dict[str, tuple[bool, str]]:
    """Return the facts of an event that the policy itself fixes, as the call does."""
    table = table_of(policy)
    limits = limits_of(policy)
    settled: dict[str, tuple[bool, str]] = {}
    for fact in table.facts:
        if fact.lasts and limits[fact.lasts] == 0:
            settled[fact.name] = (False, f"the limit of {fact.lasts} is 0")
    if isinstance(policy, TurnPolicy):
        if not limits["summaries"]:
            settled["is_summary"] = (False, "no summary is asked for")
        return settled
    if policy.after_refusal == "end":
        settled["refusal_ends"] = (True, "after_refusal is 'end'")
    if not policy.nudge_window:
        settled["follows_tool_result"] = (False, "nudge_window is 0")
    if not policy.skip_identical_empties:
        settled["same_empty_again"] = (False, "skip_identical_empties is off")
    if not policy.handful:
        settled["asks_for_little"] = (False, "handful is 0")
    if event in EMPTY and policy.switch_after.get(EMPTY_REPLY, LARGEST_LIMIT) >= LARGEST_LIMIT:
        settled["switch_asked"] = (False, f"switch_after.{EMPTY_REPLY} is never")
    names = {fact.name for fact in table.facts}
    return {name: each for name, each in settled.items() if name in names}


def _detail(rung: Rung, limit: int | None, waits: Waits | None) -> str:
    """Write a rung's limit and waits for a picture: `×3 · 2→60 s`."""
    if limit == 0:
        return "off"
    times = f"×{limit}"
    if limit is None:
        times = f"×1 per {BY_CHAIN.get(rung.counter, 'backend')}"
    if waits is None or rung.wait is None:
        return times
    parts = [span(*series_of(waits, rung))]
    if rung.wait == "retry" and waits.overload_cap != waits.retry_cap:
        parts.append(f"overload {span(waits.retry_base, waits.overload_cap)}")
    return f"{times} · {', '.join(parts)}"


def span(base: float, cap: float) -> str:
    """Write the shortest and the longest wait of a series."""
    first = min(base, cap)
    longest = cap if base else 0.0  # doubling 0 stays 0
    if first == longest:
        return f"{_number(first)} s"
    return f"{_number(first)}→{_number(longest)} s"


def _in_words(rung: Rung, limit: int | None, waits: Waits | None) -> str:
    """Say how often a rung may be taken, and after what waits."""
    if limit == 0:
        return f"never: the limit of {rung.counter} is 0"
    further = BY_CHAIN.get(rung.counter, "backend")
    often = {None: f"once for each further {further}", 1: "at most once", 2: "at most twice"}
    times = often.get(limit, f"at most {limit} times")
    if waits is None or rung.wait is None:
        return times
    count = limit or 1
    base, cap = series_of(waits, rung)
    series = []
    for number in range(1, min(count, MOST_WAITS) + 1):
        series.append(_number(backoff(number, base, cap, 0.0, 0.0)))
    if count > MOST_WAITS:
        series.append("...")
    chance = f" and up to {waits.jitter * 100:g} % more" if waits.jitter else ""
    parts = [f"{times}, after {', '.join(series)} s{chance}, doubling up to {_number(cap)} s"]
    if rung.wait == "retry":
        parts.append(f"after an overload up to {_number(waits.overload_cap)} s")
        parts.append(f"after a broken reply {span(waits.reask_base, waits.reask_cap)}")
    return "; ".join([*parts, "or as long as the service asks"])


def _sums(budget: Budget) -> Iterator[str]:
    """Write each field of a budget with its unit."""
    yield f"{budget.attempts:,} attempt{'' if budget.attempts == 1 else 's'}"
    if budget.seconds is not None:
        yield f"{_number(budget.seconds)} s"
    if budget.output_tokens is not None:
        yield f"{budget.output_tokens:,} output tokens"
    if budget.money is not None:
        yield f"{_number(budget.money)} in money"


def _number(value: float) -> str:
    """Write a whole number with separators, and any other in full."""
    if value == int(value):
        return f"{int(value):,}"
    return repr(float(value))


def fields_of(policy: Policy | TurnPolicy) -> dict[str, Any]:
    """Return the fields of a policy by their names in a file.

    The table and the policy of a turn's calls are left out.
    """
    fields = attrs.asdict(policy, filter=attrs.filters.exclude("table", "call"))
    return dict(_flat("", fields))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield nested fields with the names of their groups in front."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value


def says_of(name: str, policy: object = None) -> str:
    """Describe a field; "" if its name says it all."""
    group, _, own = name.partition(".")
    if group == "limits" and isinstance(policy, Policy):
        rungs = [each for each in policy.table.declared_rungs if each.counter == own]
        return f"how often: {rungs[0].does}" if rungs and rungs[0].does else ""
    if group == "switch_after":
        return "failures of this kind before the next backend is asked"
    if name.startswith("hints.rungs."):
        return f"the text of {own.removeprefix('rungs.')}"
    return SAYS.get(name, "")


def value_text(name: str, value: object) -> str:
    """Write the value of a field with its unit."""
    if value is None:
        return _no_value_text(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return repr(value)
    if name in SHARES:
        return SHARES[name].format(f"{value * 100:g} %")
    if name.startswith(SECONDS):
        return duration(value)
    if name.startswith("switch_after.") and value >= 1000:
        return "never"
    if name in TOKENS:
        return f"{number_text(value)} tokens"
    return number_text(value)


def _no_value_text(name: str) -> str:
    """Say what it means that a field has no value."""
    if name in UNLIMITED:
        return UNLIMITED[name]
    if name.startswith(("hints.rungs.", "limits.")):
        return "there is none"
    if name.startswith("switch_after."):
        return "never"
    return "no limit"
