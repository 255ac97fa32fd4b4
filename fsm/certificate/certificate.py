"""The certificate: what was checked, with every verdict, and how it is written down."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from attrs import field, frozen

from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.certificate.worst_case import WorstCase, number_text
from rungwise.fsm.checker.counterexample import WIDTH, Property, path_text
from rungwise.fsm.checker.proof import RowProof
from rungwise.fsm.diagram.markdown import markdown_table
from rungwise.fsm.machine.table import Row


@frozen
class Certificate:
    """Hold the result of a check.

    Arguments:
        table: the name of the table.
        limits: the limit of each counter; the fallbacks of a call are bounded by the chain.
        budget: the budget of the whole call, or of the whole turn.
        chain: the backends, in the order in which they are asked.
        max_tokens: the caller's output cap in tokens that the worst cases are for.
        input_tokens: the prompt's tokens that the worst cases are for.
        assistant_turns: the prompt's assistant turns that they are for; None if they are for any number.
        walked: the limits that the walk was made with.
        configurations: how many configurations it saw.
        properties: what must hold, with the verdicts.
        rows: the argument for each row.
        overlaps: the pairs of rows of one event whose guards can hold at once; their order decides.
        worst: the worst cases; empty if something does not hold.
        kept: what the last of several backends has at least: the attempts, and the seconds where they have a budget;
            None also where the table does not lead to it from every failure.
        call: for a turn, the certificate of each of its calls, on which its worst cases rest.
        tools: for a turn, what bounds its tools: the calls of one reply, their seconds, the tokens of their results.
    """

    table: str
    limits: Mapping[str, int] = field(hash=False)
    budget: Budget
    chain: tuple[str, ...]
    max_tokens: int | None
    input_tokens: int | None
    assistant_turns: int | None
    walked: Mapping[str, int] = field(hash=False)
    configurations: int = 0
    properties: tuple[Property, ...] = ()
    rows: tuple[RowProof, ...] = field(default=(), repr=False)
    overlaps: tuple[tuple[Row, Row], ...] = field(default=(), repr=False)
    worst: tuple[WorstCase, ...] = ()
    kept: Mapping[str, float] | None = field(default=None, hash=False)
    call: Certificate | None = None
    tools: Mapping[str, float] | None = field(default=None, hash=False)

    @property
    def ok(self) -> bool:
        """Tell whether every property that is required holds, also of the calls."""
        return all(each.holds or not each.is_required for each in self.properties) and (
            self.call is None or self.call.ok
        )

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as plain values."""
        left_out = attrs.filters.exclude("properties", "rows", "overlaps", "worst", "call", "tools")
        of_turn = {} if self.call is None else {"tools": dict(self.tools or {}), "call": self.call.to_json()}
        return {
            "table": self.table,
            "ok": self.ok,
            **attrs.asdict(self, filter=left_out),
            "chain": list(self.chain),
            "properties": [each.to_json() for each in self.properties],
            "worst": [each.to_json() for each in self.worst],
            "rows": [each.to_json() for each in self.rows],
            "overlaps": [[str(first), str(second)] for first, second in self.overlaps],
            **of_turn,
        }

    def to_text(self) -> str:
        """Write the certificate for a terminal of 80 columns; for a turn, with that of its calls below."""
        of_calls = f"\nEach {self.call.to_text()}" if self.call is not None else ""
        return "\n".join(_text(self)) + "\n" + of_calls

    def to_markdown(self, *, calls: bool = True) -> str:
        """Write the certificate as Markdown.

        Arguments:
            calls: whether that of a turn's calls stands below.
        """
        of_calls = f"\n{self.call.to_markdown()}" if calls and self.call is not None else ""
        return "\n".join(_markdown(self)) + "\n" + of_calls


def _text(certificate: Certificate) -> Iterator[str]:
    yield from (f"{certificate.table}: {_verdict(certificate)}", "")
    for name, value in _settings(certificate):
        yield from _wrapped(f"{name:9}{value}", 9)
    yield from ("", "Properties")
    for each in certificate.properties:
        yield from _wrapped(f"  {each.verdict:9} {each.name}: {each.detail}", 12)
        if each.path:
            yield textwrap.indent(path_text(each.path), "  ")
    if certificate.worst:
        yield from ("", "Worst cases")
    for worst in certificate.worst:
        yield from _wrapped(f"  {worst.name}: {_figure(worst)}", 4)
        yield from _wrapped(f"    {_path(worst)}", 6) if worst.rungs else ()
        yield from _wrapped(f"    ({worst.note})", 5)
    if not certificate.rows:
        return
    why = f"Why every {certificate.table} ends: each step to a rung takes one unit that its guard found"
    yield from ("", *_wrapped(why, 2))
    for title, proof, events in _arguments(certificate.rows):
        yield from _wrapped(f"  {title} on {', '.join(events)}: {_argument(proof)}", 4)
    yield from _wrapped(f"  {_others(certificate)}", 4)


def _markdown(certificate: Certificate) -> Iterator[str]:
    yield from (f"# Certificate: {certificate.table}", "", f"{_verdict(certificate).capitalize()}.", "")
    yield _table(["", ""], _settings(certificate))
    yield from ("## Properties", "")
    found = ((each.verdict, each.name, each.detail) for each in certificate.properties)
    yield _table(["verdict", "property", "looked at"], found)
    for each in certificate.properties:
        if each.path:
            yield from (f"`{each.name}` fails here:", "", "```", path_text(each.path), "```", "")
    if not certificate.rows:
        return
    yield from ("## Worst cases", "")
    figures = ((worst.name, _figure(worst), _path(worst), worst.note) for worst in certificate.worst)
    yield _table(["what", "at most", "path", "counted"], figures)
    yield from (f"## Why every {certificate.table} ends", "")
    yield "Each step to a rung takes one unit of a counter that its guard found, and refills only what ranks below it."
    yield ""
    arguments = (
        (title, proof.takes or "", ", ".join(proof.refills), proof.why, ", ".join(events))
        for title, proof, events in _arguments(certificate.rows)
    )
    yield _table(["row", "takes", "refills", "argument", "events"], arguments)
    yield from (_others(certificate), "", "## Guards that can hold at once", "")
    yield from ("The first in the order of the table wins.", "")
    yield _table(["event", "guard", "wins over"], _winners(certificate.overlaps))


def _verdict(certificate: Certificate) -> str:
    failed = [each.name for each in certificate.properties if not each.holds and each.is_required]
    if certificate.call is not None and not certificate.call.ok:
        failed.append("its calls are not proved")
    return "everything holds" if certificate.ok else f"fails: {'; '.join(failed)}"


def _settings(certificate: Certificate) -> Iterator[tuple[str, str]]:
    yield "limits", _pairs(certificate.limits)
    yield "budget", _pairs(attrs.asdict(certificate.budget))
    if certificate.tools is not None:
        yield "tools", _pairs(certificate.tools)
    yield "chain", ", ".join(certificate.chain)
    if certificate.kept is not None:
        yield "kept", _kept(certificate.kept)
    asked = {name: getattr(certificate, name) for name in ("max_tokens", "input_tokens", "assistant_turns")}
    yield "request", _pairs(asked) or "nothing is known of it"
    if certificate.configurations:
        yield "walked", f"{certificate.configurations} configurations with {_pairs(certificate.walked)}"


def _kept(kept: Mapping[str, float]) -> str:
    attempts = "1 attempt" if kept["attempts"] == 1 else f"{kept['attempts']:g} attempts"
    if "seconds" not in kept:
        return f"{attempts} at least for the last backend"
    return (
        f"{attempts} and {number_text(kept['seconds'])} s at least for the last backend, where no deadline is nearer "
        f"than the budget's; less up to {CLOSING:g} s for each backend before it, to close its last connection"
    )


def _figure(worst: WorstCase) -> str:
    if worst.value is None:
        return "not known"
    figure = ("" if worst.is_exact else "no more than ") + number_text(worst.value)
    if worst.ended_by == "ladder":
        return f"{figure}; the ladder ends the path"
    alone = f" (the ladder alone: {number_text(worst.ladder)})" if worst.ladder is not None else ""
    return f"{figure}; {worst.ended_by} ends the path{alone}"


def _path(worst: WorstCase) -> str:
    """Write the path, and what it comes to where that is less than the bound."""
    short = worst.value is not None and worst.attained is not None and not worst.is_exact
    return f"{worst.path} (comes to {number_text(worst.attained or 0)})" if short else worst.path


def _arguments(rows: Iterable[RowProof]) -> list[tuple[str, RowProof, list[str]]]:
    """Put the rows to rungs that are proved alike together, each refused row by itself."""
    found: dict[tuple[str, str], tuple[str, RowProof, list[str]]] = {}
    for proof in rows:
        if proof.takes is None and proof.verdict == "proved":
            continue
        row = proof.row
        title = f"[{row.guard}] -> {row.target}" if row.guard else f"-> {row.target}"
        events = found.setdefault((title, _argument(proof)), (title, proof, []))[2]
        if row.event not in events:
            events.append(row.event)
    return sorted(found.values(), key=lambda each: each[1].verdict == "proved")


def _argument(proof: RowProof) -> str:
    return f"REFUSED, {proof.why}" if proof.verdict == "refused" else proof.why


def _others(certificate: Certificate) -> str:
    plain = [proof for proof in certificate.rows if proof.takes is None and proof.verdict == "proved"]
    ends, name = sum("ends" in proof.why for proof in plain), certificate.table
    sends = "send what a rung waits to send" if certificate.call is None else "begin what a rung is about to do"
    return f"Of the other rows, {ends} end the {name} and {len(plain) - ends} {sends}."


def _winners(overlaps: Iterable[tuple[Row, Row]]) -> Iterator[tuple[str, str, str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for first, second in overlaps:
        found.setdefault((first.event, str(first.guard)), []).append(str(second.guard))
    return ((event, guard, ", ".join(others)) for (event, guard), others in found.items())


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _table(head: list[str], rows: Iterable[tuple[str, ...]]) -> str:
    return markdown_table(head, [[cell.replace("|", "/") for cell in row] for row in rows])


def _wrapped(line: str, indent: int) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)
