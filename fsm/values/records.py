"""Records: small attrs objects that are built by keyword, handed on, and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen as record
else:
    # The type checkers refuse every change already, and a frozen object takes twice as long to build.
    from attrs import define as record

__all__ = ["record"]
