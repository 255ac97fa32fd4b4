"""The scripts of the store in Redis, which run there."""

from pathlib import Path
from typing import Final

EPOCH: Final = 1_700_000_000
"""The moment from which meters and budgets count, in seconds since 1970."""


def _script(*names: str) -> str:
    """Return a script of some files in `lua/`: the last one uses what those before it define."""
    script = f"local EPOCH = {EPOCH}\n"
    for name in names:
        file = Path(__file__).with_name("lua") / f"{name}.lua"
        script += file.read_text(encoding="utf-8")
    return script


SCRIPTS: Final = {
    "read": _script("value", "read"),
    "swap": _script("value", "swap"),
    "take": _script("value", "tables", "meter", "take"),
    "pay": _script("value", "tables", "meter", "pay"),
    "hold": _script("value", "tables", "budgets", "hold"),
    "paid": _script("value", "tables", "budgets", "paid"),
    "renew": _script("value", "tables", "renew"),
}
"""What runs in Redis, each in one step. Values that are not ours count as nothing."""
