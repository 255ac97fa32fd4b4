"""What attrs would write of a value, the one `__repr__` of our classes writes as well."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from attrs import field

from rungwise.fsm.values.records import define, frozen, record


def hidden(value: object) -> str:
    return f"<{value}>"


def kinds_of(frozen: Any, define: Any) -> dict[str, Any]:
    @frozen
    class Plain:
        a: int = 1
        key: str = field(default="secret", repr=False)
        shown: str = field(default="text", repr=hidden)
        _own: tuple[str, ...] = ("x",)

    @define
    class Below(Plain):
        late: int = field(init=False)

    @frozen(repr=False)
    class Silent(Plain):
        more: str = "not shown by what is inherited"

    class Undecorated(Plain):
        pass

    @define(eq=False, kw_only=True)
    class Ring:
        within: Any = None

    @define
    class Own:
        a: int = 1

        def __repr__(self) -> str:
            return "Own!"

    return {kind.__name__: kind for kind in (Plain, Below, Silent, Undecorated, Ring, Own)}


@pytest.mark.parametrize("name", ["Plain", "Below", "Silent", "Undecorated", "Ring", "Own"])
def test_a_value_is_shown_as_attrs_would_show_it(name: str) -> None:
    ours, theirs = kinds_of(frozen, define)[name], kinds_of(attrs.frozen, attrs.define)[name]
    assert repr(ours()) == repr(theirs()).replace(theirs.__qualname__, ours.__qualname__)
    assert "secret" not in repr(ours())


def test_a_value_within_itself_is_shown_as_dots() -> None:
    ring = kinds_of(frozen, define)["Ring"]()
    ring.within = [ring]
    assert repr(ring) == "Ring(within=[...])"


def test_a_value_shows_what_its_fields_hold_in_full() -> None:
    @record
    class Outer:
        inner: object

    assert repr(Outer(Outer({"a": None}))) == "Outer(inner=Outer(inner={'a': None}))"
