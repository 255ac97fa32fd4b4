"""What looks like a call that nobody read: any JSON may come."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rungwise.adapters.wires.unread import holds_a_call

NAMES = st.sampled_from(["type", "name", "function", "tool_calls", "index", "delta", "content"])
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["tool_use", "f"])
JSON = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_whatever_comes_is_judged(value: Any) -> None:
    assert holds_a_call(value) in (True, False)


def test_a_type_that_is_no_word_is_none() -> None:
    for kind in ([], {}, [["tool_use"]], 3, None):
        assert not holds_a_call({"type": kind, "name": "look"})
    assert holds_a_call({"type": "tool_use", "name": "look"})
