"""`rungwise health`: what calls remember of backends, in a store that many processes share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import orjson
from attrs import asdict, frozen

from rungwise.adapters.cli.output import bad_input, live, put
from rungwise.adapters.cli.shared_options import store_option
from rungwise.fsm.health.health import BackendHealth, Health
from rungwise.fsm.health.quota import MINUTE
from rungwise.fsm.health.table import HALF_OPEN, OPEN
from rungwise.fsm.values.checks import LARGEST, is_number
from rungwise.fsm.values.label import label
from rungwise.fsm.values.moments import write_moment

NAME_LENGTH: Final = 60
EVERY: Final = 1.0  # seconds between two looks with `--watch`


@frozen
class BackendLine:
    """Show one backend."""

    name: str
    key: str  # the last characters of a digest of its URL, model and key
    state: str
    asked_again: str | None  # when, in RFC 3339, where it is not asked now
    why: str
    quota: str  # what is used of it

    @property
    def row(self) -> tuple[str, ...]:
        """Return its line of the table."""
        again = self.asked_again or (
            "when the call that tries it has ended" if self.state == HALF_OPEN else ""
        )
        return self.name, self.key, self.state.replace("_", " "), again, self.why, self.quota


@click.command(
    short_help="Show which backends are down, as the processes that share a store remember it."
)
@store_option(required=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--watch", is_flag=True, help="Renew the table each second, until Ctrl-C.")
def health(store: str, as_json: bool, watch: bool) -> int:
    """List every backend with its key of which something is remembered: its state, when it is asked
    again, and why.

    \b
    States, as of a circuit breaker:
      closed     it is asked
      open       it is not asked
      half open  its time has come, and one call tries it

    \b
    Exit codes:
      0  nothing is open
      1  some backend is
      2  bad input, or the store cannot be reached

    \b
    Examples:
      rungwise health --store redis://localhost:6379/0
      rungwise health --store redis://localhost:6379/0 --json
    """
    from rungwise.adapters.stores.redis_store import RedisStore

    source = RedisStore(store, time.monotonic)
    if watch and not as_json:
        return live(lambda: _table(_look(source)), EVERY)
    found = _look(source)
    if as_json:
        put(
            orjson.dumps([asdict(each) for each in found], option=orjson.OPT_INDENT_2).decode()
            + "\n"
        )
    else:
        put(_table(found))
    return int(any(each.state != "closed" for each in found))


def _look(store: Any) -> Sequence[BackendLine]:
    from rungwise.adapters.stores.store import perform

    known = {key.digest: (key.name, health) for key, health in perform(store, store.listed())}
    meters = {key.digest: (key.name, meter) for key, meter in perform(store, store.metered())}
    if store.is_away:
        bad_input("the store cannot be reached: is there a Redis server behind --store?")
    now = store.now()
    rules = Health()
    lines = []
    for digest in known.keys() | meters.keys():
        metered_as, meter = meters.get(digest, ("", {}))
        name, health = known.get(digest, (metered_as, BackendHealth()))
        health = health.at(now, rules)
        moment = write_moment(health.until) if health.state == OPEN else None
        # anybody may have written them
        name = str(label(name, NAME_LENGTH) or "?")
        why = str(label(health.why) or "")
        lines.append(BackendLine(name, digest[-4:], health.state, moment, why, _used(meter)))
    return sorted(lines, key=lambda each: each.row)


def _used(meter: Mapping[str, Any]) -> str:
    """Say what is used of a quota; whoever writes to the store may have put anything in there."""
    out, waiting = (
        len(each) if isinstance(each := meter.get(name), list) else 0
        for name in ("leases", "queue")
    )
    used = {
        name: value - meter["now"]
        for name in ("requests", "tokens")
        if is_number(value := meter.get(name), 0, LARGEST)
    }
    shares = [
        f"{min(seconds / MINUTE, 9.99):.0%} of the {name}"
        for name, seconds in used.items()
        if seconds > 0
    ]
    parts = [f"{out} out" if out else "", f"{waiting} waiting" if waiting else "", *shares]
    return ", ".join(filter(None, parts))


def _table(found: Sequence[BackendLine]) -> str:
    rows = [
        ("backend", "key", "state", "asked again", "why", "quota"),
        *(each.row for each in found),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines if found else ["nothing is remembered of any backend"]) + "\n"
