"""Keep a directory of pictures in step with both machines: write them all, or name those that have drifted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rungwise.fsm.call.conversation.link import PlainLink
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import Budget, Policy, Reserve, Timeouts
from rungwise.fsm.call.run.defaults import DEFAULT_POLICY
from rungwise.fsm.certificate.settings import settings_of, table_of
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.diagram import Format, View, render
from rungwise.fsm.diagram.markdown import counters, markdown_table
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import TURN

PICTURES: tuple[tuple[str, Format, View], ...] = (
    ("{name}.mmd", "mermaid", "hub"),
    ("{name}.svg", "svg", "hub"),
    ("{name}.dot", "dot", "hub"),
    ("{of}ladder.mmd", "mermaid", "ladder"),
    ("{of}ladder.svg", "svg", "ladder"),
    ("{of}rows.md", "rows", "hub"),
)
OF_TURNS = "turn-"
"""What the names of a turn's files begin with where those of a call have nothing."""

EXPLANATION = "README.md"
CERTIFICATE = "certificate.md"
CHAINS = (1, 2, 3)
"""The lengths of chain for which the certificate is written."""


def write_all(directory: Path, policy: Policy | TurnPolicy = DEFAULT_POLICY) -> list[str]:
    """Write the pictures and certificates of a call and of a turn, and refresh the blocks of the README beside them.

    Returns the names of the files that changed.

    Arguments:
        directory: where to write; made if it is missing.
        policy: of calls, for whose turns everything else is as by default; or of turns, with that of their calls.

    Raises:
        OSError: a file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    changed = dict(_drifted(directory, policy))
    for name, wanted in changed.items():
        (directory / name).write_text(wanted, encoding="utf-8", newline="\n")
    return list(changed)


def drift(directory: Path, policy: Policy | TurnPolicy = DEFAULT_POLICY) -> list[str]:
    """List the files of a directory that `write_all` would change."""
    return [name for name, _ in _drifted(directory, policy)]


def fill(text: str, blocks: dict[str, str]) -> str:
    """Put each block between its two markers, `<!-- begin NAME -->` and `<!-- end NAME -->`; the rest stays."""
    for name, block in blocks.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
        text = pattern.sub(lambda match, block=block: f"{match[1]}\n{block}\n{match[2]}", text)  # type: ignore[misc]
    return text


def _drifted(directory: Path, policy: Policy | TurnPolicy) -> Iterator[tuple[str, str]]:
    return ((name, wanted) for name, wanted in _wanted(directory, policy) if _read(directory / name) != wanted)


def _wanted(directory: Path, policy: Policy | TurnPolicy) -> Iterator[tuple[str, str]]:
    turn = policy if isinstance(policy, TurnPolicy) else TurnPolicy(call=policy)
    call = turn.of_calls
    yield from _pictures(call, "")
    yield from _pictures(turn, OF_TURNS)
    explanation = _read(directory / EXPLANATION)
    if explanation is not None:
        blocks = {
            "decisions": _render(call, "rows", "ladder"),
            "counters": counters(call.table, call.limits),
            "numbers": numbers(call),
            "turn_decisions": _render(turn, "rows", "ladder"),
            "turn_counters": counters(TURN, turn.limits),
            "turn_numbers": turn_numbers(turn),
        }
        yield EXPLANATION, fill(explanation, blocks)
    yield CERTIFICATE, _certificates(call)
    yield f"{OF_TURNS}{CERTIFICATE}", _certificates(turn)


def _pictures(policy: Policy | TurnPolicy, of: str) -> Iterator[tuple[str, str]]:
    for name, format, view in PICTURES:
        yield name.format(name=table_of(policy).name, of=of), _render(policy, format, view)


def _render(policy: Policy | TurnPolicy, format: Format, view: View) -> str:
    return render(table_of(policy), format, view, settings=settings_of(policy))


def _certificates(policy: Policy | TurnPolicy) -> str:
    """Write the certificate for each length of chain; those of a turn's calls stand in a file of their own."""
    chains = [[PlainLink(f"backend {place}") for place in range(1, length + 1)] for length in CHAINS]
    return "\n".join(verify(policy, chain).to_markdown(calls=False) for chain in chains)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def numbers(policy: Policy) -> str:
    """Write the numbers of a policy that stand in no row: the budget, the waits, the output caps."""
    budget, waits = policy.budget, policy.waits
    caps = f"{policy.base_cap * 2}, {policy.base_cap * 3}, ... up to {policy.largest_cap}"
    reasons = ", ".join(f"{reason} ({count})" for reason, count in policy.switch_after.items() if count < LARGEST_LIMIT)
    lines = [
        *_budget(budget, "call"),
        ["wait before a retry", _series(waits.retry_base, waits.retry_cap)],
        ["wait before a retry after overload", _series(waits.retry_base, waits.overload_cap)],
        ["wait before a reask, or a retry after `malformed`", _series(waits.reask_base, waits.reask_cap)],
        ["chance added to a wait", f"up to {waits.jitter * 100:g} % of it"],
        ["longest wait that a provider may ask for", f"{waits.longest_asked:g} s"],
        ["wait before every other rung", "none, but for one that the provider asks for"],
        ["output caps where you gave none", f"none, then {caps} tokens"],
        ["messages searched for a tool result", f"the last {policy.nudge_window}"],
        ["failures of a kind after which a backend is left", reasons or "no such kind"],
        ["time of one attempt", _timeouts(policy.timeouts)],
        ["kept for each backend to come", _reserve(policy.reserve)],
    ]
    return markdown_table(["what", "how much"], lines)


def turn_numbers(policy: TurnPolicy) -> str:
    """Write the numbers of a turn's policy that stand in no row: the budget, the tools, the window."""
    lines = [
        *_budget(policy.budget, "turn"),
        ["equal calls with equal results that end the turn", f"{policy.same_calls}"],
        ["tool calls of one reply that are run", f"{policy.calls_per_reply}"],
        ["tools that run side by side", f"{policy.calls_at_once}"],
        ["time of one tool", f"{policy.tool_seconds:g} s"],
        ["the window, by which results and compactions are measured", f"{policy.window} tokens"],
        ["what the results of one reply may have of it", f"{policy.results_share:.0%}, {policy.result_tokens} tokens"],
    ]
    return markdown_table(["what", "how much"], lines)


def _budget(budget: Budget, whole: str) -> list[list[str]]:
    return [
        [f"attempts of the whole {whole}", f"{budget.attempts}"],
        [f"seconds of the whole {whole}", _limit(budget.seconds)],
        [f"output tokens of the whole {whole}", _limit(budget.output_tokens)],
        [f"money of the whole {whole}", _limit(budget.money)],
    ]


def _limit(limit: float | None) -> str:
    return "no limit" if limit is None else f"{limit:g}"


def _timeouts(timeouts: Timeouts) -> str:
    said = [("until it is connected", timeouts.connect), ("until the first content", timeouts.first_token)]
    said += [("between two pieces of content", timeouts.stall), ("in all", timeouts.total)]
    return ", ".join(f"{seconds:g} s {what}" for what, seconds in said if seconds is not None)


def _reserve(reserve: Reserve) -> str:
    if not reserve.is_on:
        return "nothing"
    seconds = "" if reserve.seconds is None else f"; {reserve.seconds:g} s of the time"
    return f"one attempt, with up to {reserve.share:.0%} of the budget{seconds}"


def _series(base: float, cap: float) -> str:
    return f"{base:g} s, doubled each time, at most {cap:g} s"
