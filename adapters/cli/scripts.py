"""`rungwise verify --scripts`: each worst case of a certificate as a script that `rungwise serve` plays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rungwise.adapters.cli.output import bad_input, counted, note
from rungwise.adapters.cli.script_request import Asked

if TYPE_CHECKING:
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.certificate.shown.scripts import WorstScript
    from rungwise.fsm.certificate.verified import WorstCase
    from rungwise.fsm.turn.policy import TurnPolicy


def write_scripts(
    folder: str, policy: Policy | TurnPolicy, cases: Mapping[int, Sequence[WorstCase]], asked: Asked
) -> None:
    """Write a script for each worst case into a folder, and say on stderr which, and which not.

    Arguments:
        folder: where they will stand; it is made where it is missing, and nothing else in it is touched.
        policy: under which the cases are the worst.
        cases: the worst cases by the number of backends.
        asked: what the certificate is about.

    Raises:
        click.ClickException: the folder, or a file in it, cannot be written.
    """
    from rungwise.adapters.cli.script_head import head_of
    from rungwise.adapters.provider.enacted import notes_of, script_of
    from rungwise.fsm.certificate.verified import number_text

    place, missing = Path(folder), dict[str, str]()
    for worst in _scripts(policy, cases):
        if worst.unseen is not None:
            missing.setdefault(worst.case.name, worst.unseen)
            continue
        path = place / name_of(worst)
        _write(path, f"{head_of(worst, asked, path)}\n{script_of(worst).to_toml(notes_of(worst))}")
        more = "" if worst.case.is_exact else f" of {number_text(worst.case.value or 0)} at most"
        figure = f"{worst.case.name} {number_text(worst.case.attained or 0)}{more}"
        note(f"{path}: {figure}, {counted(worst.backends, 'backend')}", dim=True)
    for name, why in missing.items():
        note(f"no script for {name}: {why}")


def name_of(worst: WorstScript) -> str:
    """Return the name of the file: `worst-output-tokens.toml`, and with more than one backend their number in it."""
    chain = "" if worst.backends == 1 else f"-{worst.backends}-backends"
    return f"worst-{worst.case.name.replace(' ', '-')}{chain}.toml"


def _scripts(policy: Policy | TurnPolicy, cases: Mapping[int, Sequence[WorstCase]]) -> Iterator[WorstScript]:
    from rungwise.fsm.certificate.shown.scripts import WorstScript

    for backends, worst in cases.items():
        yield from (WorstScript(case, policy, backends) for case in worst)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except (OSError, ValueError) as error:  # a null byte is no OSError
        bad_input(f"--scripts: {path} cannot be written ({getattr(error, 'strerror', None) or error}): name a folder")
