"""Play sixteen faults of a provider to Rungwise, and print what its callers got.

    python -m tests.failover [--full] [--proxy] [--markdown | --costs]

By default everything goes twenty times as fast as published, policies included; `--full` takes the
published times, some two minutes. What is no `pass` is told with its reason, and with the journal
under `--why`.
"""

import argparse
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, get_args

from failover.costs import costs_table, measured
from failover.faults import FAULTS, Fault
from failover.playing import Played, Way, play_all
from failover.proxying import ROW, play_through_proxy
from failover.rows import PUBLISHED, PUBLISHED_ON, ROWS
from rungwise.adapters.exam.grades import total

FAST: Final = 0.05
"""The scale on which the tests play the faults."""


def main(arguments: list[str] | None = None) -> int:
    """Play what is asked for and print it; return 1 where a fault came to `fail`."""
    options = _options(arguments)
    if options.costs:
        print(costs_table(measured(scale=1.0 if options.full else options.scale)))
        return 0
    faults = [FAULTS[name] for name in options.fault or FAULTS]
    scale = 1.0 if options.full else options.scale
    if options.proxy:
        rows = {ROW: play_through_proxy(faults, scale=scale)}
    else:
        rows = play_rows(options.row or list(ROWS), faults, scale=scale, way=options.way)
    print(markdown(rows) if options.markdown else table(rows))
    for name, row in rows.items():
        for line in told(name, row, with_journal=options.why):
            print(line)
    return int(any(each.score.grade == "fail" for row in rows.values() for each in row))


def play_rows(
    names: Iterable[str],
    faults: Iterable[Fault],
    *,
    scale: float,
    way: Way,
) -> dict[str, list[Played]]:
    """Play faults to several policies, all at once; the arguments are those of `play_all`."""
    names = list(names)
    faults = list(faults)
    with ThreadPoolExecutor(len(names)) as threads:
        played = threads.map(lambda name: play_all(ROWS[name], faults, scale=scale, way=way), names)
        return dict(zip(names, played, strict=True))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="play in the published times")
    parser.add_argument(
        "--scale",
        type=float,
        default=FAST,
        help="by how much times are multiplied (default %(default)s)",
    )
    parser.add_argument(
        "--row", action="append", choices=list(ROWS), help="a policy; all by default"
    )
    parser.add_argument(
        "--fault", action="append", choices=list(FAULTS), help="a fault; all by default"
    )
    parser.add_argument(
        "--way",
        default="stream",
        choices=get_args(Way),
        help="how calls are made (default %(default)s)",
    )
    parser.add_argument(
        "--proxy", action="store_true", help="play through `rungwise proxy`, with its own row alone"
    )
    parser.add_argument(
        "--markdown",
        action="store_true",
        help="print the tables as Markdown, others' scores included",
    )
    parser.add_argument(
        "--costs", action="store_true", help="print what common faults cost, as Markdown"
    )
    parser.add_argument(
        "--why", action="store_true", help="print the journals of what did not pass"
    )
    return parser.parse_args(arguments)


def table(rows: dict[str, list[Played]]) -> str:
    """Return a table for a terminal: faults down, policies across, and the sums below."""
    faults = [played.fault for played in next(iter(rows.values()))]
    widths = [max(len(name), 16) for name in rows]
    lines = [
        "  ".join(
            [" " * 60, *(name.ljust(width) for name, width in zip(rows, widths, strict=True))]
        )
    ]
    for index, fault in enumerate(faults):
        cells = [
            f"{row[index].score.grade:8}"
            f"{max(asked.seconds for asked in row[index].seen.asked):7.2f} s".ljust(width)
            for row, width in zip(rows.values(), widths, strict=True)
        ]
        lines.append("  ".join([f"{fault.name}  {fault.title}".ljust(60), *cells]))
    sums = [
        total(played.score.grade for played in row).ljust(width)
        for row, width in zip(rows.values(), widths, strict=True)
    ]
    return "\n".join([*lines, "  ".join(["pass-partial-safe-fail".ljust(60), *sums])])


def markdown(rows: dict[str, list[Played]]) -> str:
    """Return the sums as a table in Markdown, ours above what was published of others, and the
    faults in another.
    """
    ours = {
        f"Rungwise, {name}": total(played.score.grade for played in row)
        for name, row in rows.items()
    }
    sums = ["| | pass | partial | safe | fail |", "| --- | --- | --- | --- | --- |"]
    for name, score in [
        *ours.items(),
        *((f"{name} ({PUBLISHED_ON})", score) for name, score in PUBLISHED.items()),
    ]:
        sums.append(f"| {name} | {' | '.join(score.split('-'))} |")
    each = [f"| | {' | '.join(rows)} |", f"| --- |{' --- |' * len(rows)}"]
    for played in zip(*rows.values(), strict=True):
        fault = played[0].fault
        each.append(
            f"| {fault.name} {fault.title} | {' | '.join(one.score.grade for one in played)} |"
        )
    return "\n".join([*sums, "", *each])


def told(name: str, row: list[Played], *, with_journal: bool = False) -> list[str]:
    """Say why faults were no `pass`, line by line, and what is recorded without being scored."""
    lines = []
    for played in row:
        dead_for = played.fault.dead_for
        if dead_for is not None:
            in_vain = sum(attempt.at < dead_for for attempt in played.seen.of("primary"))
            lines.append(
                f"{name}, {played.fault.name}: {in_vain} attempts on the dead primary in "
                f"{dead_for:g} s"
            )
        if played.score.grade == "pass":
            continue
        lines.append(
            f"{name}, {played.fault.name}: {played.score.grade}, for {'; '.join(played.score.why)}"
        )
        if with_journal:
            for asked in played.seen.asked:
                lines += [f"    {asked}", *(f"      {step}" for step in asked.steps)]
            lines += [f"    {attempt}" for attempt in played.seen.attempts]
    return lines
