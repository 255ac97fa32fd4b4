"""What attrs would write of a value, the one `__repr__` of our classes writes as well."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from attrs import field

from rungwise.fsm.values.records import define, draft_of, frozen, record


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


def compared_kinds(frozen: Any, define: Any) -> dict[str, Any]:
    @frozen
    class Value:
        a: Any = 1
        b: Any = 2
        silent: Any = field(default=0, eq=False)
        unhashed: Any = field(default=0, hash=False)

    @frozen
    class Single:
        a: Any = 1

    @frozen
    class Empty:
        pass

    @define
    class Changing:
        a: Any = 1

    @define
    class Below(Value):
        more: Any = 1

    class Undecorated(Value):
        pass

    @frozen(eq=False)
    class Unlike:
        a: Any = 1

    @frozen
    class Own:
        a: Any = 1

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self)

        __hash__ = None

    @frozen(eq=True)
    class Generated:
        a: Any = 1

    @frozen(slots=False)
    class Open:
        a: Any = 1

    kinds = (Value, Single, Empty, Changing, Below, Undecorated, Unlike, Own, Generated, Open)
    return {kind.__name__: kind for kind in kinds}


class Loud:
    """Say what is compared, and be unequal to everything."""

    def __init__(self, heard: list[str], name: str) -> None:
        self.heard, self.name = heard, name

    def __eq__(self, other: object) -> bool:
        self.heard.append(self.name)
        return False

    __hash__ = None  # type: ignore[assignment]


def behaviour_of(kinds: dict[str, Any]) -> dict[str, Any]:
    """Tell how values of some classes compare, and which of them can be hashed."""
    fields = [{}, {"a": 1}, {"a": 2}, {"b": 3}, {"silent": 1}, {"unhashed": 1}, {"a": float("nan")}, {"a": []}]
    values = []
    for name, kind in kinds.items():
        taken = {field.name for field in attrs.fields(kind)}
        values += [(name, kind(**given)) for given in fields if given.keys() <= taken]
    told: dict[str, Any] = {"equal": [[(a == b, a != b) for _, b in values] for _, a in values]}
    told["not ours"] = [value.__eq__(1) for _, value in values]
    told["hashable"] = [(name, callable(type(value).__hash__)) for name, value in values]
    told["hashes agree"] = [
        hash(a) == hash(b)
        for name, a in values
        for other, b in values
        if name == other and name not in ("Changing", "Own") and getattr(a, "a", 1) != [] != getattr(b, "a", 1)
    ]
    heard: list[str] = []
    loud = [kinds["Value"](a=1, b=Loud(heard, "b"), unhashed=Loud(heard, "unhashed")) for _ in range(2)]
    told["different"], told["heard"] = loud[0] == loud[1], heard
    return told


def test_values_compare_and_hash_as_those_of_attrs() -> None:
    ours, theirs = compared_kinds(frozen, define), compared_kinds(attrs.frozen, attrs.define)
    assert behaviour_of(ours) == behaviour_of(theirs)
    assert behaviour_of(ours)["heard"] == ["b"]


def test_a_value_that_holds_what_cannot_be_hashed_cannot_either() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(compared_kinds(frozen, define)["Value"](a=[]))


def test_a_record_has_no_hash() -> None:
    @record
    class Reading:
        a: int = 1

    assert Reading() == Reading()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Reading())


def test_a_value_shows_what_its_fields_hold_in_full() -> None:
    @record
    class Outer:
        inner: object

    assert repr(Outer(Outer({"a": None}))) == "Outer(inner=Outer(inner={'a': None}))"


def test_a_draft_is_open_and_what_it_becomes_is_closed() -> None:
    @frozen
    class Nest:
        eggs: int
        place: str = field(default="reeds")

    draft = draft_of(Nest)()
    draft.eggs = 3
    draft.eggs += 1
    with pytest.raises(AttributeError):
        _ = draft.place  # nothing stands for what was left out
    draft.place = "bank"
    draft.__class__ = Nest
    assert draft == Nest(4, "bank")
    assert hash(draft) == hash(Nest(4, "bank"))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        draft.eggs = 5
