"""`rungwise diagram` and `rungwise verify`: the picture of the machine, and the proof that every call ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rungwise.adapters.cli.output import bad_input, complain, counted, is_terminal, note, put
from rungwise.adapters.cli.policies import METAVAR, POLICY, default_policy
from rungwise.adapters.cli.prices import MOST_TOKENS, TOKENS, check_prices, prices_option

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.call.request import Prices
    from rungwise.fsm.certificate.worst import WorstCase
    from rungwise.fsm.diagram import Format, View


@click.command(short_help="Draw the machine that every call runs on.")
@click.argument("policy", required=False, type=POLICY, metavar=f"[{METAVAR}]")
@click.option(
    "--format",
    type=click.Choice(["mermaid", "svg", "dot", "rows", "html"]),
    default="mermaid",
    show_default=True,
    help="Mermaid, SVG, Graphviz DOT, the rows as a Markdown table, or a page on which to play the machine.",
)
@click.option(
    "--view",
    type=click.Choice(["hub", "ladder"]),
    default="hub",
    show_default=True,
    help="The states and what leads from one to another; or, for each event, the order in which its guards are tried.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write to a file.")
@click.option(
    "--write", "write_to", type=click.Path(file_okay=False), metavar="DIR", help="Write every picture to DIR."
)
@click.option(
    "--check",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Name the pictures in DIR that no longer agree with the machine.",
)
def diagram(
    policy: Policy | None,
    format: Format | Literal["html"],
    view: View,
    output: str | None,
    write_to: str | None,
    check: str | None,
) -> int:
    """Draw the machine of a call, from the very rows that run it; that of a policy, where one is given.

    The picture goes to stdout unless -o names a file. --write and --check are for a repository that keeps the
    pictures: the first renews them, the second fails where they are out of date.

    \b
    Exit codes:
      0  drawn; or with --check, everything agrees
      1  with --check: the files named on stdout are out of date
      2  bad input, or a file that cannot be written

    \b
    Examples:
      rungwise diagram > call.mmd
      rungwise diagram --format svg -o call.svg
      rungwise diagram --format html -o play.html
      rungwise diagram --format rows --view ladder
      rungwise diagram ours.policies:POLICY --format svg -o ours.svg
      rungwise diagram --check diagrams || rungwise diagram --write diagrams
    """
    if write_to is not None and check is not None:
        bad_input("--write and --check exclude each other: give one of them")
    if (write_to or check) and output:
        bad_input("-o is for a single picture: leave it out with --write and --check")
    try:
        if check is not None:
            return _check(policy or default_policy(), Path(check))
        if write_to is not None:
            return _write(policy or default_policy(), Path(write_to))
        return _draw(policy or default_policy(), format, view, output)
    except OSError as error:
        bad_input(f"{error.filename or output or write_to} cannot be written ({error.strerror}): name a writable place")


def _draw(policy: Policy, format: Format | Literal["html"], view: View, output: str | None) -> int:
    from rungwise.fsm.certificate.play import play_policy
    from rungwise.fsm.diagram import render

    if format == "html" and view == "ladder":
        bad_input("--format html shows the hub view, with the ladder of each event in it: leave --view out")
    picture = play_policy(policy) if format == "html" else render(policy.table, format, view=view)
    if output is None:
        put(picture)
    else:
        Path(output).write_text(picture, encoding="utf-8", newline="\n")
    return 0


def _write(policy: Policy, directory: Path) -> int:
    from rungwise.fsm.certificate.pictures import write_all

    changed = write_all(directory, policy)
    put("".join(f"{directory / name}\n" for name in changed))
    note(f"{counted(len(changed), 'file')} changed" if changed else "everything was up to date")
    return 0


def _check(policy: Policy, directory: Path) -> int:
    from rungwise.fsm.certificate.pictures import drift

    stale = drift(directory, policy)
    put("".join(f"{directory / name}\n" for name in stale))
    if stale:
        complain(f"{counted(len(stale), 'file')} out of date: run rungwise diagram --write {directory}")
    return 1 if stale else 0


@click.command(short_help="Prove that every call under a policy ends, and what it can cost at worst.")
@click.argument("policy", required=False, type=POLICY, metavar=f"[{METAVAR}]")
@click.option(
    "--backends",
    type=click.IntRange(1, 100),
    metavar="N",
    help="How many backends the chain has; without it, one, and the worst cases of two and of three are added.",
)
@click.option("--max-tokens", type=TOKENS, metavar="N", help="The output cap that calls ask for.")
@click.option("--input-tokens", type=click.IntRange(0, MOST_TOKENS), metavar="N", help="The input tokens of a request.")
@prices_option("from every backend")
@click.option("--json", "as_json", is_flag=True, help="Write the certificate as JSON.")
@click.option(
    "--exhaustive",
    is_flag=True,
    help="Walk with the policy's own limits; takes a minute, or many minutes with several backends.",
)
def verify(policy: Policy | None, as_json: bool, **options: Any) -> int:
    """Prove that every call under a policy ends, and work out its worst case, before any call is made.

    The certificate goes to stdout: every property with its verdict; and at worst, how many requests, how many seconds
    of waiting and, with --max-tokens, how many output tokens, and with --input-tokens and --prices, how much money,
    each with the path that leads there. Without a policy it is about the default one.

    The proof is row by row and for all limits at once; a walk over the machine, with each limit at most 1, checks it
    from another side.

    \b
    Exit codes:
      0  every property holds
      1  a property does not hold; the certificate shows a path that breaks it
      2  bad input; or a budget of money without --prices

    \b
    Examples:
      rungwise verify
      rungwise verify policy.toml --backends 3
      rungwise verify policy.toml --json > certificate.json
      rungwise verify --max-tokens 1000 --input-tokens 5000 --prices 2.5/10
    """
    return _verify(policy or default_policy(), as_json=as_json, **options)


def _verify(
    policy: Policy,
    *,
    as_json: bool,
    backends: int | None,
    max_tokens: int | None,
    input_tokens: int | None,
    prices: Prices | None,
    exhaustive: bool,
) -> int:
    from rungwise.fsm.call.request import PlainLink
    from rungwise.fsm.certificate.verify import verify as certify
    from rungwise.fsm.certificate.verify import worst_by_fallbacks

    check_prices(policy, prices)
    chain = [PlainLink(f"backend {number}", prices=prices) for number in range(1, (backends or 1) + 1)]
    with _progress(shown=exhaustive) as progress:
        certificate = certify(
            policy, chain, max_tokens=max_tokens, input_tokens=input_tokens, exhaustive=exhaustive, progress=progress
        )
    worst: Mapping[int, tuple[WorstCase, ...]] = {}
    if backends is None and certificate.ok:
        worst = worst_by_fallbacks(policy, 2, prices=prices, max_tokens=max_tokens, input_tokens=input_tokens)
    if as_json:
        by_fallbacks = {str(count): [each.to_json() for each in cases] for count, cases in worst.items()}
        more = {"worst_by_fallbacks": by_fallbacks} if worst else {}
        put(json.dumps({**certificate.to_json(), **more}, indent=2) + "\n")
    else:
        put(certificate.to_text() + "".join(_by_fallbacks(worst)))
    return 0 if certificate.ok else 1


def _by_fallbacks(worst: Mapping[int, tuple[WorstCase, ...]]) -> Iterator[str]:
    """Write the worst cases of several chains as a table of 80 columns."""
    if worst:
        yield "\nWorst cases by the number of fallbacks\n"
        yield f"  {'fallbacks':<10}" + "".join(f"{case.name:>17}" for case in worst[0]) + "\n"
    for count, cases in worst.items():
        values = (f"{case.value:,.10g}" if case.value is not None else "not known" for case in cases)
        yield f"  {count:<10}" + "".join(f"{value:>17}" for value in values) + "\n"


@contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[int], None] | None]:
    """Show on stderr how far the walk is, for a person who waits; how far it goes is not known beforehand."""
    if not shown or not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.completed:>9,} configurations"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("walk", total=None)
        yield lambda count: bar.update(task, completed=count)
