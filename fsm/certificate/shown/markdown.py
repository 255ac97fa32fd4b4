"""Write a certificate and its figures as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import evolve

from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.certificate.verified import Verified, WorstCase, duration, number_text
from rungwise.fsm.checker.counterexample import path_text
from rungwise.fsm.checker.proof import RowProof
from rungwise.fsm.diagram.markdown import markdown_table
from rungwise.fsm.machine.table import Row


def as_markdown(certificate: Verified, *, calls: bool = True) -> str:
    """Write a certificate as Markdown; for a turn, with that of its calls below unless `calls` is False."""
    of_calls = f"\n{as_markdown(certificate.call)}" if calls and certificate.call is not None else ""
    return "\n".join(_lines(certificate)) + "\n" + of_calls


def by_fallbacks(worst: Mapping[int, Sequence[WorstCase]]) -> str:
    """Write the worst cases of chains with 0, 1, 2, ... fallbacks as a table in Markdown."""
    lines = [
        [cases[0].name, *("not known" if each.value is None else f"{each.value:,.10g}" for each in cases)]
        for cases in zip(*worst.values(), strict=True)
    ]
    table = markdown_table(["fallbacks", *map(str, worst)], lines)
    return f"\n## Worst cases by the number of fallbacks\n\n{table}"


def _lines(certificate: Verified) -> Iterator[str]:
    failed = [each.name for each in certificate.failed]
    if certificate.call is not None and not certificate.call.ok:
        failed.append("its calls are not proved")
    verdict = "everything holds" if certificate.ok else f"fails: {'; '.join(failed)}"
    yield from (f"# Certificate: {certificate.table}", "", f"{verdict.capitalize()}.", "")
    yield _table(["", ""], _settings(certificate))
    yield from ("## Properties", "")
    properties = ((each.verdict, each.name, each.detail) for each in certificate.properties)
    yield _table(["verdict", "property", "detail"], properties)
    for each in certificate.properties:
        if each.path:
            yield from (f"`{each.name}` fails here:", "", "```", path_text(each.path), "```", "")
    if certificate.worst:
        yield from ("## Worst cases", "")
        figures = ((worst.name, stated(worst), _path(worst), worst.note) for worst in certificate.worst)
        yield _table(["what", "at most", "path", "counted"], figures)
    if not certificate.rows:
        return
    yield from (f"## Why every {certificate.table} ends", "")
    yield "Each step to a rung takes one unit of a counter that its guard has checked, and refills only lower ranks."
    yield ""
    arguments = (
        (title, proof.takes or "", ", ".join(proof.refills), _argument(proof), ", ".join(events))
        for title, proof, events in _arguments(certificate.rows)
    )
    yield _table(["row", "takes", "refills", "argument", "events"], arguments)
    yield from (_others(certificate), "", "## Guards that can hold at once", "")
    yield from ("The first one in table order wins.", "")
    yield _table(["event", "guard", "wins over"], _winners(certificate.overlaps))


def _settings(certificate: Verified) -> Iterator[tuple[str, str]]:
    yield "limits", _pairs(certificate.limits)
    yield "budget", _pairs(attrs.asdict(certificate.budget))
    if certificate.tools is not None:
        yield "tools", _pairs(certificate.tools)
    yield "chain", ", ".join(certificate.chain)
    if certificate.kept is not None:
        yield "reserved", _reserved(certificate.kept)
    request = {name: getattr(certificate, name) for name in ("max_tokens", "input_tokens", "assistant_turns")}
    yield "request", _pairs(request) or "of unknown size"
    if certificate.configurations:
        yield "walked", f"{certificate.configurations} configurations with {_pairs(certificate.walked)}"


def _reserved(reserve: Mapping[str, float]) -> str:
    attempts = "1 attempt" if reserve["attempts"] == 1 else f"{reserve['attempts']:g} attempts"
    if "seconds" not in reserve:
        return f"at least {attempts} for the last backend"
    seconds = number_text(reserve["seconds"])
    return (
        f"at least {attempts} and {seconds} s for the last backend, unless a deadline comes before the end of the "
        f"budget; each backend before it may take up to {CLOSING:g} s of that to close its last connection"
    )


def stated(worst: WorstCase, what: str = "it") -> str:
    """Write a worst case, and what ends the path to it."""
    if worst.value is None:
        return "not known"
    figure = ("" if worst.is_exact else "no more than ") + number_text(worst.value)
    if worst.ended_by == "ladder":
        return f"{figure}; the ladder ends {what}"
    alone = f" (the ladder alone: {number_text(worst.ladder)})" if worst.ladder is not None else ""
    return f"{figure}; {worst.ended_by} ends {what}{alone}"


def _path(worst: WorstCase) -> str:
    """Write the path, and what it spends if that is less than the bound."""
    short = worst.value is not None and worst.attained is not None and not worst.is_exact
    return f"{worst.path} (spends {number_text(worst.attained or 0)})" if short else worst.path


def _arguments(rows: Iterable[RowProof]) -> list[tuple[str, RowProof, list[str]]]:
    """Group the rows to rungs by their argument; refused rows come first."""
    arguments: dict[tuple[str, str], tuple[str, RowProof, list[str]]] = {}
    for proof in rows:
        if proof.takes is None and proof.verdict == "proved":
            continue
        row = proof.row
        title = f"[{row.guard}] -> {row.target}" if row.guard else f"-> {row.target}"
        events = arguments.setdefault((title, _argument(proof)), (title, proof, []))[2]
        if row.event not in events:
            events.append(row.event)
    return sorted(arguments.values(), key=lambda each: each[1].verdict == "proved")


def _argument(proof: RowProof) -> str:
    return f"REFUSED, {proof.why}" if proof.verdict == "refused" else proof.why


def _others(certificate: Verified) -> str:
    plain = [proof for proof in certificate.rows if proof.takes is None and proof.verdict == "proved"]
    ends, name = sum("ends" in proof.why for proof in plain), certificate.table
    sends = "send a rung's request" if certificate.call is None else "begin a rung's action"
    return f"Of the other rows, {ends} end the {name} and {len(plain) - ends} {sends}."


def _winners(overlaps: Iterable[tuple[Row, Row]]) -> Iterator[tuple[str, str, str]]:
    winners: dict[tuple[str, str], dict[str, None]] = {}
    for first, second in overlaps:
        winners.setdefault((first.event, str(first.guard)), {})[str(second.guard)] = None
    return ((event, guard, ", ".join(others)) for (event, guard), others in winners.items())


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _table(head: list[str], rows: Iterable[tuple[str, ...]]) -> str:
    return markdown_table(head, [[cell.replace("|", "/") for cell in row] for row in rows])


def amount(worst: WorstCase) -> str:
    """Write a worst case with its unit."""
    if worst.value is None:
        return "not known"
    if worst.name == "money":
        return f"{worst.value:,.4g}" if abs(worst.value) < 1000 else f"{worst.value:,.2f}"
    return duration(worst.value) if "seconds" in worst.name else number_text(worst.value)


def figure(worst: WorstCase) -> str:
    """Write a worst case with its unit, and mark an upper bound."""
    return amount(worst) if worst.value is None or is_attained(worst) else f"no more than {amount(worst)}"


def is_attained(worst: WorstCase) -> bool:
    """Tell whether some path reaches the figure, as far as is known."""
    ends = worst.ended_by.startswith("budget.") and worst.ended_by != "budget.attempts"
    return worst.is_exact or (worst.is_certain and ends)


def path_end(worst: WorstCase) -> str:
    """Say what ends a worst path, and how far the longest path that was played gets if the figure is an upper bound."""
    ends = f"{'the ladder' if worst.ended_by == 'ladder' else worst.ended_by} ends it"
    if is_attained(worst):
        return ends
    if worst.attained is None:
        return f"{ends}; an upper bound"
    return f"{ends}; an upper bound, the longest path played: {amount(evolve(worst, value=worst.attained))}"
