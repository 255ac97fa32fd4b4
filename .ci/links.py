"""Refuse an editable install of a checkout without symbolic links, which could not be imported, and
let none copy what the links show.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LINKS = ("rungwise/fsm", "rungwise/adapters")


class Links(BuildHookInterface):  # type: ignore[type-arg, unused-ignore, misc]
    """See that the links are links before an editable install relies on them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise an error that says what to do if a link is a text file."""
        if version != "editable":
            return
        # In place of what a wheel includes by force, which would be both parts once more. A mapping
        # without an entry counts as none.
        build_data["force_include_editable"] = {"rungwise/py.typed": "rungwise/py.typed"}
        lost = [link for link in LINKS if not (Path(self.root) / link).is_dir()]
        if lost:
            advice = (
                "run `git config core.symlinks true` and `git checkout -- rungwise`, or "
                "leave out -e"
            )
            raise RuntimeError(
                f"an editable install needs symbolic links, and {lost[0]} is none: {advice}"
            )
