"""`rungwise fuzz`: look for a script of replies that makes a call dishonest."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from rungwise.adapters.cli.chains import price_list
from rungwise.adapters.cli.output import (
    bad_input,
    check_writable,
    complain,
    counted,
    note,
    one_line,
    progress_bar,
    put,
    write_out,
)
from rungwise.adapters.cli.policies import default_of, either_policy
from rungwise.adapters.cli.shared_options import (
    file_option,
    flag_option,
    output_option,
    prices_option,
)
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.turn.policy import TurnPolicy

if TYPE_CHECKING:
    from rungwise.adapters.testing.fuzzing import Fuzzer
    from rungwise.adapters.testing.search import FuzzFinding
    from rungwise.adapters.testing.turn_fuzzing import TurnFuzzer

STORAGE: Final = "HYPOTHESIS_STORAGE_DIRECTORY"
HOSTILE_SHARE: Final = 0.1  # of the calls over HTTP
REPORT_SECONDS: Final = 5.0  # between two lines of progress
REFRESH_SECONDS: Final = 0.1  # between two states of the bar


@click.command(short_help="Look for provider behaviour that makes a call or turn dishonest.")
@either_policy
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many calls to make; 1000 without --seconds.",
)
@click.option(
    "--seconds", type=click.FloatRange(min=0.1), metavar="N", help="Make calls for N seconds."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="The random seed; the same seed repeats the same calls.",
)
@click.option(
    "--backends",
    type=click.IntRange(1, 20),
    default=2,
    show_default=True,
    help="The length of the chain.",
)
@flag_option(
    "--over-http",
    help="Use a real server on loopback; a tenth of the calls get hostile bytes.",
)
@flag_option("--hostile", help="Use a server on loopback that sends hostile bytes to every call.")
@prices_option("at every backend")
@output_option
@file_option(
    "--unreached",
    help="Write to a file what was never reached: rows, guards, and rows in succession.",
)
def fuzz(
    policy: Policy | TurnPolicy | None,
    turn: bool,
    examples: int | None,
    seconds: float | None,
    seed: int | None,
    output: str | None,
    unreached: str | None,
    prices: Prices | None,
    **providers: Any,
) -> int:
    """Make calls to providers that do anything, and check that every call is honest.

    Each call goes through the real adapters and drivers, in all four ways, over a generated script
    of replies. Its spending is checked against the certificate of the policy, or of the default
    policy. Waits are virtual. The smallest script that fails goes to stdout as TOML, for `rungwise
    serve`. What was covered goes to stderr. A run of calls in memory seeks what it has not yet
    reached: half of the calls have little room or money, and a quarter begin as those that reached
    something new.

    Hostile bytes are encodings, drips, floods and framing that no honest server writes. They take
    real time, so the policy's seconds and timeouts are cut to fractions of a second.
    `rungwise.testing.read_responses` reads the bytes that failed.

    With --turn, turns run in memory, and their tools, compactor and caller do anything as well.
    `rungwise.testing.read_turn_script` reads the script that failed, for `run_turn`.

    \b
    Exit codes:
      0  every call or turn was honest
      1  one was not; stdout has the script
      2  bad input, or Hypothesis is not installed

    \b
    Examples:
      rungwise fuzz
      rungwise fuzz policy.toml --backends 3 --seconds 60
      rungwise fuzz --examples 20000
      rungwise fuzz --over-http --examples 500
      rungwise fuzz policy.toml --hostile --seconds 60
      rungwise fuzz turn.toml --turn --seconds 60
      rungwise fuzz --seed 7 -o failing.toml || rungwise serve failing.toml
    """
    chosen = policy or default_of(turn=turn)
    if examples is None and seconds is None:
        examples = 1_000
    check_writable(output)
    check_writable(unreached)
    seed = _random_seed() if seed is None else seed
    dearest = price_list(prices).dearest
    with _no_litter(), _fuzzer(chosen, seed=seed, prices=dearest, **providers) as fuzzer:
        finding = _finding(fuzzer, examples, seconds)
    done = counted(fuzzer.examples, fuzzer.certificate.table)
    note(f"seed {seed}: {done}; {fuzzer.coverage.summary()}")
    if unreached is not None:
        write_out(unreached, "".join(f"{line}\n" for line in fuzzer.coverage.unreached()))
    if finding is not None:
        return _report(finding, output)
    put(f"{done}, all honest\n")
    return 0


def _finding(fuzzer: Any, examples: int | None, seconds: float | None) -> Any:
    """Run a fuzzer, show how far it is, and return what it found."""
    failed = [each.name for each in fuzzer.certificate.failed]
    if failed:
        bad_input(f"the policy has no certificate: {'; '.join(failed)}; see rungwise verify")
    with _progress(examples, seconds, fuzzer.certificate.table) as fuzzer.progress:
        return fuzzer.run(examples=examples, seconds=seconds)


def _random_seed() -> int:
    """Draw a seed that is easy to type."""
    # here, because it loads OpenSSL, and the help of all commands loads this module
    from secrets import randbelow

    return randbelow(1_000_000)


@contextmanager
def _no_litter() -> Iterator[None]:
    """Keep Hypothesis from leaving a folder where the command was run."""
    if "hypothesis" in sys.modules or STORAGE in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="rungwise-") as folder:
        os.environ[STORAGE] = folder
        try:
            yield
        finally:
            del os.environ[STORAGE]


def _fuzzer(
    policy: Policy | TurnPolicy,
    *,
    backends: int,
    seed: int,
    prices: Prices | None,
    over_http: bool,
    hostile: bool,
) -> Fuzzer | TurnFuzzer:
    """Make the fuzzer of a policy.

    Arguments:
        policy: of calls or of turns.
        backends: the length of the chain.
        seed: the random seed.
        prices: of each backend, or None.
        over_http: whether to use a server on loopback.
        hostile: whether that sends hostile bytes to every call.
    """
    try:
        from rungwise.adapters.testing.fuzzing import Fuzzer
        from rungwise.adapters.testing.turn_fuzzing import TurnFuzzer
    except ImportError as error:
        bad_input(str(error))
    common: dict[str, Any] = {"backends": backends, "seed": seed}
    if prices:
        common["prices"] = prices
    if isinstance(policy, Policy):
        share = 0.0
        if hostile:
            share = 1.0
        elif over_http:
            share = HOSTILE_SHARE
        return Fuzzer(policy, over_http=over_http, hostile=share, **common)
    if hostile or over_http:
        bad_input("turns run in memory: --hostile and --over-http need a policy of calls")
    return TurnFuzzer(policy, **common)


@contextmanager
def _progress(
    examples: int | None, seconds: float | None, what: str
) -> Iterator[Callable[[Fuzzer | TurnFuzzer], None]]:
    """Show on stderr how far it is: a bar for a person, a line now and then for anyone else.

    Arguments:
        examples: how many it makes; None for as many as fit the time.
        seconds: how long it runs; None for no limit.
        what: the kind of its examples.
    """
    with progress_bar("{task.description}") as bar:
        task = None
        pause = REPORT_SECONDS
        if bar is not None:
            total = seconds if examples is None else examples
            task = bar.add_task(f"0 {what}s", total=total)
            pause = REFRESH_SECONDS
        started = time.monotonic()
        last = started

        def show(fuzzer: Fuzzer | TurnFuzzer) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < pause:
                return
            last = now
            rows = len(fuzzer.coverage.table_rows)
            met = rows - len(fuzzer.coverage.missing)
            standing = f"{counted(fuzzer.examples, what)}, {met} of {rows} rows"
            if bar is None or task is None:
                note(f"  {standing}")
            else:
                done = now - started if examples is None else fuzzer.examples
                bar.update(task, completed=done, description=standing)

        yield show


def _report(finding: FuzzFinding, output: str | None) -> int:
    """Show what was found, and return the exit code."""
    complain(finding.what)
    for line in finding.case.describe():
        note(f"  {one_line(line)}")
    write_out(output, finding.to_toml())
    if output is not None:
        serve = f": rungwise serve {output}" if finding.case.is_served else ""
        note(f"  what failed is in {output}{serve}")
    return 1
