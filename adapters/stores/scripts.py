"""What runs in Redis, each in one step, from the files in `lua/`. Values that are none of ours count as nothing."""

from pathlib import Path
from typing import Final

EPOCH: Final = 1_700_000_000
"""The moment from which meters and budgets count, in seconds since 1970."""


def _script(*names: str) -> str:
    """Return what some files hold, one after the other: the last one is the script, those before it are shared."""
    files = [Path(__file__).with_name("lua") / f"{name}.lua" for name in names]
    return "".join([f"local EPOCH = {EPOCH}\n", *(file.read_text(encoding="utf-8") for file in files)])


SCRIPTS: Final = {
    "read": _script("value", "read"),
    "swap": _script("value", "swap"),
    "take": _script("value", "tables", "meter", "take"),
    "pay": _script("value", "tables", "meter", "pay"),
    "hold": _script("value", "tables", "budgets", "hold"),
    "paid": _script("value", "tables", "budgets", "paid"),
}
