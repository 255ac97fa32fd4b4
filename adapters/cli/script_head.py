"""The comments above a script that plays a worst case: what it shows, and the commands with which to see it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from rungwise.adapters.cli.output import counted, one_line, safe
from rungwise.adapters.cli.script_program import program_of
from rungwise.adapters.cli.script_request import URL, Asked
from rungwise.adapters.provider.enacted import EARLY, model_of
from rungwise.fsm.certificate.verified import number_text

if TYPE_CHECKING:
    from rungwise.fsm.certificate.shown.scripts import WorstScript
    from rungwise.fsm.certificate.verified import WorstCase

WIDTH: Final = 116


def head_of(worst: WorstScript, asked: Asked, path: Path) -> str:
    """Write the comments that stand above a script.

    Arguments:
        worst: what is played.
        asked: what the certificate is about.
        path: where the script will stand.
    """
    policy = "the default policy" if asked.policy is None else one_line(asked.policy)
    unit = "turn" if asked.is_turn else "call"
    lines = [f"Worst case of a {unit}, {worst.case.name}: {policy}, {counted(worst.backends, 'backend')}", ""]
    for name, told in _facts(worst, asked):
        lines += textwrap.wrap(f"{name:<10}{told}", WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False)
    file = quote(str(path))
    lines += ["", "To see it, serve this file in one terminal:", f"    rungwise serve {file} --port {URL.port}"]
    if _needs_program(worst, asked):
        lines += ["and in another run what stands here behind >, which prints the figure:"]
        lines += [f"    sed -n 's/^# > \\{{0,1\\}}//p' {file} | python -", ""]
        lines += [f"> {line}".rstrip() for line in program_of(worst, asked)]
    else:
        lines += ["and ask there in another; the object that it prints has the figure, stderr each wait:"]
        lines += [f"    {_command(worst, asked)}"]
    return "".join(f"# {safe(line)}".replace("\n", " ").rstrip() + "\n" for line in lines)


def _facts(worst: WorstScript, asked: Asked) -> Iterator[tuple[str, str]]:
    case = worst.case
    yield "stated", _stated(case)
    if not case.is_exact:
        yield "attained", f"{number_text(case.attained or 0)}, which is what this script comes to"
    yield "path", case.path
    requests = (f"{count} to {model_of(at)}" for at, count in enumerate(worst.requests) if count)
    yield "requests", f"{', '.join(requests)}, in the order of the replies below, which then begin anew"
    if asked.told:
        yield "asked", asked.told
    needs = [("a prompt that ends in the result of a tool", worst.follows_tool), ("a compactor", worst.needs_compactor)]
    if any(needed for _, needed in needs):
        yield "needs", " and ".join(what for what, needed in needs if needed)
    yield "takes", f"{number_text(worst.takes)} s" + _of_chance(worst)
    if worst.closing:
        told = f"{number_text(worst.closing)} s of that may closing the connections take, which no server decides; and"
        yield "not here", f"{told} each reply that lasts ends {EARLY:g} s before the client would end it"
    if any(attempt.is_late for attempt in worst.attempts):
        told = "a reply lasts until its backend has no time left; a client that ends it first is told no usage"
        yield "in time", f"{told}, and estimates what it was"
    if case.name == "waiting seconds" and case.ended_by == "budget.seconds":
        told = "the waits leave requests no time: where requests take some, the last wait no longer fits, and the"
        yield "in time", f"{told} call ends without it"
    if worst.tool is not None:
        yield "tools", f"the script calls the tool {worst.tool!r}; how long its runs take is the client's own part"
    yield "counted", case.note


def _stated(case: WorstCase) -> str:
    figure = ("" if case.is_exact else "no more than ") + number_text(case.value or 0)
    if case.ended_by == "ladder":
        return f"{figure}; the ladder ends the path"
    alone = f" (the ladder alone: {number_text(case.ladder)})" if case.ladder is not None else ""
    return f"{figure}; {case.ended_by} ends the path{alone}"


def _of_chance(worst: WorstScript) -> str:
    return f", of which jitter has a part in {number_text(worst.drawn)} s" if worst.drawn else ""


def _needs_program(worst: WorstScript, asked: Asked) -> bool:
    """Tell whether `rungwise ask` cannot bring along what the path needs."""
    is_drawn = worst.drawn > 0 and worst.case.name in ("waiting seconds", "seconds")
    has_count = asked.input_tokens is not None and worst.calls.budget.money is not None
    return asked.is_turn or worst.follows_tool or worst.needs_compactor or is_drawn or has_count


def _command(worst: WorstScript, asked: Asked) -> str:
    words = [f"rungwise ask say --base-url {URL.text} --model {model_of(0)}"]
    words += [f"--fallback {URL.text}#{model_of(number)}" for number in range(1, worst.backends)]
    if asked.policy is not None:
        words.append(f"--policy {quote(asked.policy)}")
    if asked.max_tokens is not None:
        words.append(f"--max-tokens {asked.max_tokens}")
    if asked.prices is not None:
        words.append(f"--prices {asked.price_text}")
    return " ".join([*words, "--json"])
