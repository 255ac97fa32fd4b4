"""Draw the machine of a policy, and keep a directory of pictures in step with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rungwise.fsm.analysis.certificate.enactment import links_of
from rungwise.fsm.analysis.certificate.shown.coq import coq_of
from rungwise.fsm.analysis.certificate.shown.settings import (
    fields_of,
    says_of,
    settings_of,
    table_of,
    value_text,
)
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.diagram import Format, View, render
from rungwise.fsm.diagram.markdown import counters, markdown_table
from rungwise.fsm.health.check import verify_health
from rungwise.fsm.health.table import HEALTH
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import TURN


def draw_policy(
    policy: Policy | TurnPolicy = DEFAULT_POLICY,
    format: Format = "svg",
    view: View = "hub",
    *,
    hides_off: bool = False,
) -> str:
    """Draw the machine of a policy as text, with its limits, its waits and its budget.

    Arguments:
        policy: of a call or of a turn.
        format: `svg`, `mermaid`, `dot`, or `rows` for Markdown.
        view: `hub` for the states and their transitions, `ladder` for the order in which guards are
            tried.
        hides_off: whether to omit the rows that can never be taken; otherwise they are struck out.

    Raises:
        ConfigurationError: there is no such format or view.
    """
    return render(table_of(policy), format, view, settings=settings_of(policy, hides_off=hides_off))


PICTURES: tuple[tuple[str, Format, View], ...] = (
    ("{name}.mmd", "mermaid", "hub"),
    ("{name}.svg", "svg", "hub"),
    ("{name}.dot", "dot", "hub"),
    ("{of}ladder.mmd", "mermaid", "ladder"),
    ("{of}ladder.svg", "svg", "ladder"),
    ("{of}rows.md", "rows", "hub"),
)
OF_TURNS = "turn-"
"""The prefix of a turn's files."""
OF_HEALTH = "health-"

EXPLANATION = "README.md"
CERTIFICATE = "certificate.md"
CHAINS = (1, 2, 3)
"""The chain lengths that the certificate covers."""


def write_all(directory: Path, policy: Policy | TurnPolicy = DEFAULT_POLICY) -> list[str]:
    """Write the pictures, certificates, proofs and README blocks of a call and of its turn.

    Return the names of the files that changed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    changed = dict(_drifted(directory, policy))
    for name, text in changed.items():
        (directory / name).write_text(text, encoding="utf-8", newline="\n")
    return list(changed)


def drift(directory: Path, policy: Policy | TurnPolicy = DEFAULT_POLICY) -> list[str]:
    """List the files of a directory that `write_all` would change."""
    return [name for name, _ in _drifted(directory, policy)]


def fill(text: str, blocks: dict[str, str]) -> str:
    """Put each block between its two markers, `<!-- begin NAME -->` and `<!-- end NAME -->`.

    The rest of the text stays.
    """
    for name, block in blocks.items():
        begin = re.escape(f"<!-- begin {name} -->")
        end = re.escape(f"<!-- end {name} -->")
        parts = re.split(f"({begin}\n).*?({end})", text, flags=re.DOTALL)
        for marker in range(1, len(parts), 3):
            parts[marker] += f"\n{block}\n"
        text = "".join(parts)
    return text


def _drifted(directory: Path, policy: Policy | TurnPolicy) -> Iterator[tuple[str, str]]:
    """Yield the files that differ from those in a directory: the name and the text of each."""
    for name, text in _files(directory, policy):
        if _read(directory / name) != text:
            yield name, text


def _files(directory: Path, policy: Policy | TurnPolicy) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file."""
    turn = policy if isinstance(policy, TurnPolicy) else TurnPolicy(call=policy)
    call = turn.of_calls
    yield from _pictures(call, "")
    yield from _pictures(turn, OF_TURNS)
    for name, format, view in PICTURES:
        yield name.format(name=HEALTH.name, of=OF_HEALTH), render(HEALTH, format, view)
    yield "call.v", coq_of(call.table, "call")
    yield "turn.v", coq_of(TURN, "turn")
    yield "health.v", coq_of(HEALTH, "health")
    explanation = _read(directory / EXPLANATION)
    if explanation is not None:
        yield EXPLANATION, fill(explanation, _blocks(call, turn))
    yield CERTIFICATE, _certificates(call)
    yield f"{OF_TURNS}{CERTIFICATE}", _certificates(turn)


def _blocks(call: Policy, turn: TurnPolicy) -> dict[str, str]:
    """Return the generated blocks of the README, by name."""
    blocks = {}
    blocks["decisions"] = draw_policy(call, "rows", "ladder")
    blocks["counters"] = counters(call.table, call.limits)
    blocks["numbers"] = numbers(call)
    blocks["turn_decisions"] = draw_policy(turn, "rows", "ladder")
    blocks["turn_counters"] = counters(TURN, turn.limits)
    blocks["turn_numbers"] = numbers(turn)
    blocks["health_decisions"] = render(HEALTH, "rows", "ladder")
    properties = []
    for each in verify_health():
        properties.append([each.name, "yes" if each.holds else "**no**", each.detail])
    blocks["health_properties"] = markdown_table(["property", "holds", "how"], properties)
    return blocks


def _pictures(policy: Policy | TurnPolicy, of: str) -> Iterator[tuple[str, str]]:
    """Yield the pictures of a policy, with a prefix for their names."""
    for name, format, view in PICTURES:
        yield name.format(name=table_of(policy).name, of=of), draw_policy(policy, format, view)


def _certificates(policy: Policy | TurnPolicy) -> str:
    """Write the certificate for each chain length; that of a turn's calls has a file of its own."""
    return "\n".join(
        verify(policy, links_of([None] * length)).to_markdown(calls=False) for length in CHAINS
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def numbers(policy: Policy | TurnPolicy) -> str:
    """Write the fields of a policy that no row and no counter shows.

    These are the budget, waits, clocks, output caps and tools.
    """
    lines = []
    for name, value in fields_of(policy).items():
        if not name.startswith(("limits.", "hints.")):
            lines.append([f"`{name}`", value_text(name, value), says_of(name)])
    return markdown_table(["field", "value", "meaning"], lines)
