"""The certificate: the result of a check, with the forms that it can be written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from attrs import field, frozen

from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.certificate.verified import WorstCase, counted, number_text, played, stated
from rungwise.fsm.checker.counterexample import Property, path_text
from rungwise.fsm.checker.proof import RowProof
from rungwise.fsm.diagram.markdown import markdown_table
from rungwise.fsm.diagram.page.templates import render_text
from rungwise.fsm.machine.table import Row


@frozen(repr=False)
class Certificate:
    """Hold the result of `verify`.

    Arguments:
        table: the name of the table.
        limits: the limit of each counter; the chain bounds the fallbacks and rotations of a call.
        budget: the budget of the whole call or turn.
        chain: the names of the backends, in order.
        max_tokens: the caller's output cap, in tokens, that the worst cases assume.
        input_tokens: the tokens of the prompt that they assume.
        assistant_turns: the assistant turns of the prompt that they assume; None for any number.
        walked: the limits that the walk used.
        configurations: how many configurations the walk saw.
        properties: what must hold, with the verdicts.
        rows: the argument for each row.
        overlaps: the pairs of rows of one event whose guards can hold at once; their order decides.
        worst: the worst cases; empty if a required property fails.
        kept: what is reserved for the last of several backends, whatever the others do: attempts, and seconds if the
            budget has seconds; None if nothing is reserved, or if a failure may end the call before that backend.
        call: for a turn, the certificate of each of its calls, on which its worst cases rest.
        tools: for a turn, the bounds of its tools: calls of one reply, seconds of a tool, tokens of the results.
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

    def __repr__(self) -> str:
        most = (f"{each.name} {'?' if each.value is None else number_text(each.value)}" for each in self.worst)
        found = f"at most {', '.join(most)}" if self.ok else f"{', '.join(each.name for each in self.failed)}: no"
        return f"<Certificate of a {self.table} over {counted(len(self.chain), 'backend')}: {found}>"

    @property
    def ok(self) -> bool:
        """Tell whether every required property holds, for a turn also those of its calls."""
        return not self.failed and (self.call is None or self.call.ok)

    @property
    def failed(self) -> tuple[Property, ...]:
        """List the required properties that do not hold, without those of a turn's calls."""
        return tuple(each for each in self.properties if each.is_required and not each.holds)

    def worst_of(self, name: str) -> WorstCase:
        """Return the worst case of one thing that is spent, by its name."""
        return next(each for each in self.worst if each.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as plain values."""
        nested = attrs.filters.exclude("properties", "rows", "overlaps", "worst", "call", "tools")
        of_turn = {} if self.call is None else {"tools": dict(self.tools or {}), "call": self.call.to_json()}
        return {
            "table": self.table,
            "ok": self.ok,
            **attrs.asdict(self, filter=nested),
            "chain": list(self.chain),
            "properties": [each.to_json() for each in self.properties],
            "worst": [each.to_json() for each in self.worst],
            "rows": [each.to_json() for each in self.rows],
            "overlaps": [[str(first), str(second)] for first, second in self.overlaps],
            **of_turn,
        }

    def to_text(self) -> str:
        """Write the certificate as Markdown, as `rungwise verify` prints it."""
        return self.to_markdown()

    def to_markdown(self, *, calls: bool = True) -> str:
        """Write the certificate as Markdown.

        Arguments:
            calls: whether the certificate of a turn's calls follows.
        """
        failed = [each.name for each in self.failed]
        if self.call is not None and not self.call.ok:
            failed.append("its calls are not proved")
        others = [proof.why for proof in self.rows if not proof.is_argued]
        text = render_text(
            "certificate.md",
            **attrs.asdict(self, recurse=False, filter=attrs.filters.exclude("budget")),
            budget=attrs.asdict(self.budget),
            verdict=f"fails: {'; '.join(failed)}" if failed else "everything holds",
            arguments=_arguments(self.rows),
            ends=sum("ends" in why for why in others),
            others=len(others),
            winners=_winners(self.overlaps),
            CLOSING=CLOSING,
            counted=counted,
            number_text=number_text,
            path_text=path_text,
            played=played,
            stated=stated,
        )
        return text if self.call is None or not calls else f"{text}\n{self.call.to_markdown()}"


def _arguments(rows: Sequence[RowProof]) -> list[tuple[str, RowProof, dict[str, None]]]:
    """Group the rows to rungs by their argument, each group with its events; refused rows come first."""
    arguments: dict[tuple[str, str], tuple[str, RowProof, dict[str, None]]] = {}
    for proof in rows:
        if proof.is_argued:
            title = f"[{proof.row.guard}] -> {proof.row.target}" if proof.row.guard else f"-> {proof.row.target}"
            _, _, events = arguments.setdefault((title, proof.argument), (title, proof, {}))
            events[proof.row.event] = None
    return sorted(arguments.values(), key=lambda each: each[1].verdict == "proved")


def _winners(overlaps: Sequence[tuple[Row, Row]]) -> dict[tuple[str, str], dict[str, None]]:
    """Return the guards that lose against a guard of an event, by the event and that guard."""
    winners: dict[tuple[str, str], dict[str, None]] = {}
    for first, second in overlaps:
        winners.setdefault((first.event, str(first.guard)), {})[str(second.guard)] = None
    return winners


def by_fallbacks(worst: Mapping[int, Sequence[WorstCase]]) -> str:
    """Write the worst cases of chains with 0, 1, 2, ... fallbacks as a table in Markdown."""
    lines = [
        [cases[0].name, *("not known" if each.value is None else f"{each.value:,.10g}" for each in cases)]
        for cases in zip(*worst.values(), strict=True)
    ]
    table = markdown_table(["fallbacks", *map(str, worst)], lines)
    return f"\n## Worst cases by the number of fallbacks\n\n{table}"
