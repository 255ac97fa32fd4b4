"""`rungwise health`: what calls remember of backends, in a store that many processes share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import orjson
from attrs import asdict, frozen

from rungwise.adapters.cli.output import aligned, bad_input, live, note, one_line, put
from rungwise.adapters.cli.shared_options import duration, flag_option, store_option
from rungwise.adapters.stores.redis_values import BY_HAND
from rungwise.fsm.health.health import BackendHealth, Health
from rungwise.fsm.health.quota import MINUTE
from rungwise.fsm.health.table import CLOSED, HALF_OPEN, OPEN
from rungwise.fsm.values.checks import LARGEST, is_number
from rungwise.fsm.values.label import label
from rungwise.fsm.values.moments import write_moment

if TYPE_CHECKING:
    from rungwise.adapters.stores.redis_overview import RedisOverview

HEAD: Final = ("backend", "key", "state", "asked again", "why", "quota")
NAME_LENGTH: Final = 60  # characters of a backend's name that are shown
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
        again = self.asked_again or ""
        if not again and self.state == HALF_OPEN:
            again = "when the call that tries it has ended"
        state = self.state.replace("_", " ")
        return (self.name, self.key, state, again, self.why, self.quota)


@click.command(
    short_help="Show which backends are down, as the processes that share a store remember it."
)
@store_option(required=True)
@flag_option("--json", "as_json", help="Print JSON.")
@flag_option("--watch", help="Renew the table each second, until Ctrl-C.")
@click.option(
    "--open", "opened", metavar="BACKEND", help="Let calls pass over this backend, with --for."
)
@click.option(
    "--for",
    "seconds",
    callback=duration,
    metavar="TIME",
    help="How long --open lasts: 30s, 10m, 2h.",
)
@click.option(
    "--close", "closed", metavar="BACKEND", help="Let calls ask this backend again at once."
)
def health(
    store: str,
    as_json: bool,
    watch: bool,
    opened: str | None,
    seconds: float | None,
    closed: str | None,
) -> int:
    """List every backend and key that is remembered: its state, when it is asked again, and why.

    --open drains a backend, for all of its keys. It ends by itself, and no answer ends it earlier.
    If all backends of a chain are open, calls ask the first to come due all the same.

    \b
    States, as of a circuit breaker:
      closed     it is asked
      open       it is not asked
      half open  its time has come, and one call tries it

    \b
    Exit codes:
      0  nothing is open; with --open and --close, it is done
      1  some backend is
      2  bad input, or the store cannot be reached

    \b
    Examples:
      rungwise health --store redis://localhost:6379/0
      rungwise health --store redis://localhost:6379/0 --json
      rungwise health --store redis://localhost:6379/0 --open api.openai.com/gpt-5 --for 10m
      rungwise health --store redis://localhost:6379/0 --close api.openai.com/gpt-5
    """
    from rungwise.adapters.stores.redis_overview import RedisOverview

    source = RedisOverview(store, time.monotonic)
    if opened is not None or closed is not None or seconds is not None:
        return _change(source, opened, seconds, closed)
    if watch and not as_json:
        return live(lambda: _table(_look(source)), EVERY)
    lines = _look(source)
    if as_json:
        plain = [asdict(line) for line in lines]
        put(orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        put(_table(lines))
    return int(any(line.state != CLOSED for line in lines))


def _change(
    store: RedisOverview, opened: str | None, seconds: float | None, closed: str | None
) -> int:
    """Open or close a backend by hand.

    Arguments:
        store: where it is remembered.
        opened: the name of the backend to open.
        seconds: for how long.
        closed: the name of the backend to close.
    """
    from rungwise.adapters.stores.store import perform

    if opened and seconds and closed is None:
        until = perform(store, store.open(opened, seconds))
        done = f"{one_line(opened)} is open until {write_moment(until)}"
    elif closed and opened is None and seconds is None:
        is_known = perform(store, store.close(closed))
        if not is_known and not store.is_away:
            bad_input(f"nothing is remembered of {one_line(closed)}: see the names without --close")
        done = f"{one_line(closed)} is closed"
    else:
        bad_input("give either --open BACKEND --for TIME, or --close BACKEND")
    _check_answered(store)
    note(done)
    return 0


def _check_answered(store: RedisOverview) -> None:
    if store.is_away:
        bad_input("the store cannot be reached: is there a Redis server behind --store?")


def _look(store: RedisOverview) -> Sequence[BackendLine]:
    """Read what the store holds of each backend."""
    from rungwise.adapters.stores.store import perform

    known = {key.digest: (key.name, health) for key, health in perform(store, store.listed())}
    meters = {key.digest: (key.name, meter) for key, meter in perform(store, store.metered())}
    by_hand = perform(store, store.opened_by_hand())
    _check_answered(store)
    now = store.now()
    rules = Health()
    lines: list[BackendLine] = []
    for name, until in by_hand.items():
        shown = str(label(name, NAME_LENGTH) or "?")
        lines.append(BackendLine(shown, "all", OPEN, write_moment(until), BY_HAND, ""))
    for digest in known.keys() | meters.keys():
        metered_as, meter = meters.get(digest, ("", {}))
        name, health = known.get(digest, (metered_as, BackendHealth()))
        health = health.at(now, rules)
        line = BackendLine(
            # anybody may have written the texts
            name=str(label(name, NAME_LENGTH) or "?"),
            key=digest[-4:],
            state=health.state,
            asked_again=write_moment(health.until) if health.state == OPEN else None,
            why=str(label(health.why) or ""),
            quota=_used(meter),
        )
        lines.append(line)
    return sorted(lines, key=lambda line: line.row)


def _used(meter: Mapping[str, Any]) -> str:
    """Say what is used of a quota. The meter may hold anything: others write to the store, too."""
    parts: list[str] = []
    for member, what in (("leases", "out"), ("queue", "waiting")):
        entries = meter.get(member)
        if isinstance(entries, list) and entries:
            parts.append(f"{len(entries)} {what}")
    for member in ("requests", "tokens"):
        full_at = meter.get(member)
        if is_number(full_at, 0, LARGEST) and full_at > meter["now"]:
            share = (full_at - meter["now"]) / MINUTE
            parts.append(f"{min(share, 9.99):.0%} of the {member}")
    return ", ".join(parts)


def _table(lines: Sequence[BackendLine]) -> str:
    """Write a table with a line for each backend."""
    if not lines:
        return "nothing is remembered of any backend\n"
    return aligned([HEAD, *(line.row for line in lines)])
