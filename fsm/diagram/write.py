"""Keep a directory of pictures in step with the machine: write them all, or name those that have drifted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.request import PlainLink
from rungwise.fsm.diagram import Format, View, render
from rungwise.fsm.diagram.markdown import counters, numbers

PICTURES: tuple[tuple[str, Format, View], ...] = (
    ("{name}.mmd", "mermaid", "hub"),
    ("{name}.svg", "svg", "hub"),
    ("{name}.dot", "dot", "hub"),
    ("ladder.mmd", "mermaid", "ladder"),
    ("ladder.svg", "svg", "ladder"),
    ("rows.md", "rows", "hub"),
)
EXPLANATION = "README.md"
CHAINS = (1, 2, 3)
"""The lengths of chain for which the certificate is written."""


def write_all(directory: Path, policy: Policy = DEFAULT_POLICY) -> list[str]:
    """Write every picture and the certificate of a policy's table, and refresh the blocks of the README beside them.

    Returns the names of the files that changed.

    Arguments:
        directory: where to write; made if it is missing.

    Raises:
        OSError: a file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, wanted in _wanted(directory, policy):
        if _read(directory / name) != wanted:
            (directory / name).write_text(wanted, encoding="utf-8", newline="\n")
            changed.append(name)
    return changed


def drift(directory: Path, policy: Policy = DEFAULT_POLICY) -> list[str]:
    """List the files of a directory that `write_all` would change."""
    return [name for name, wanted in _wanted(directory, policy) if _read(directory / name) != wanted]


def fill(text: str, blocks: dict[str, str]) -> str:
    """Put each block between its two markers, `<!-- begin NAME -->` and `<!-- end NAME -->`; the rest stays."""
    for name, block in blocks.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
        text = pattern.sub(lambda match, block=block: f"{match[1]}\n{block}\n{match[2]}", text)  # type: ignore[misc]
    return text


def _wanted(directory: Path, policy: Policy) -> Iterator[tuple[str, str]]:
    table = policy.table
    for name, format, view in PICTURES:
        yield name.format(name=table.name), render(table, format, view)
    explanation = _read(directory / EXPLANATION)
    if explanation is not None:
        blocks = {
            "decisions": render(table, "rows", "ladder"),
            "counters": counters(table, policy.limits),
            "numbers": numbers(policy),
        }
        yield EXPLANATION, fill(explanation, blocks)
    certificate = _certificate(policy)
    if certificate is not None:
        yield "certificate.md", certificate


def _certificate(policy: Policy) -> str | None:
    try:
        verify = import_module("rungwise.fsm.certificate.verify").verify
    except ModuleNotFoundError as error:
        if error.name != "rungwise.fsm.certificate.verify":
            raise
        return None
    chains = [[PlainLink(f"backend {place}") for place in range(1, length + 1)] for length in CHAINS]
    return "\n".join(str(verify(policy, tuple(chain)).to_markdown()) for chain in chains)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
