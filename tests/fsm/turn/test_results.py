"""The text of what a tool returned, and less of it where there is too much."""

import dataclasses
import json
import re
import time
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rungwise import ToolError
from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN
from rungwise.fsm.turn.tool_round import result_text, shortened


@attrs.frozen
class Spot:
    x: int
    y: Any = None


@dataclasses.dataclass
class Data:
    when: datetime


class Model(BaseModel):
    price: Decimal


class Colour(str, Enum):  # noqa: UP042  # whose `str()` is not its value
    RED = "red"


class Secretive:
    def __repr__(self) -> str:
        return "sk-secret"


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (None, "done"),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        (Colour.RED, "red"),
        (True, "true"),
        (1.5, "1.5"),
        (2**70, str(2**70)),
        ({"a": [1, None], 3: "ü"}, '{"a":[1,null],"3":"ü"}'),
        ({"a": "\ud800"}, '{"a": "\ufffd"}'),
        ([Spot(1, Spot(2))], '[{"x":1,"y":{"x":2,"y":null}}]'),
        (Data(datetime(2020, 1, 2, tzinfo=UTC)), '{"when":"2020-01-02T00:00:00+00:00"}'),
        (Model(price=Decimal("1.10")), '{"price":"1.10"}'),
        ({"all": {Colour.RED}}, '{"all":["red"]}'),
        ({3, 1, 2}, "[1,2,3]"),
        (Pair(1, Decimal(2)), '{"a":1,"b":"2"}'),
        ((1, 2), "[1,2]"),
        (MappingProxyType({"a": PurePosixPath("/x")}), '{"a":"/x"}'),
        ([timedelta(seconds=2), UUID(int=1)], '[2.0,"00000000-0000-0000-0000-000000000001"]'),
    ],
)
def test_reports_a_value(value: object, text: str) -> None:
    assert result_text(value) == text


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


class Lying(BaseModel):
    inner: Any


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"sk-secret", "bytes"),
        ({"a": [Secretive()]}, "Secretive"),
        (Secretive, "type"),
        (Spot(Secretive()), "Secretive"),  # type: ignore[arg-type]
        (Lying(inner=Secretive()), "Lying"),
        ((each for each in "ab"), "generator"),
        (circle(), ""),
        (deep(), ""),
        pytest.param(10**5_000, "int", id="many digits"),
        ({("sk-secret",): 1}, "dict"),
    ],
)
def test_what_has_no_form_in_json_is_named_by_its_type_alone(value: object, kind: str) -> None:
    with pytest.raises(ToolError) as caught:
        result_text(value)
    assert kind in str(caught.value)
    assert "sk-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON.filter(lambda value: value is not None and not isinstance(value, str)))
def test_json_comes_back(value: Any) -> None:
    text = result_text(value)
    text.encode()
    if "\ufffd" not in text:
        assert json.loads(text) == value


LETTERS = st.text(st.sampled_from("ab\nü€\U0001f600\ud800"), max_size=300)
MARK = re.compile(r"\n\[\.\.\. (\d+) characters left out \.\.\.\]\n")


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@given(st.lists(LETTERS, max_size=6), st.integers(-5, 400))
def test_texts_share_their_room(texts: list[str], tokens: int) -> None:
    cut = shortened(texts, tokens)
    room = max(0, tokens * BYTES_A_TOKEN)
    assert len(cut) == len(texts)
    if sum(map(size, texts)) <= room:
        assert cut == tuple(texts)
    changed = [(before, after) for before, after in zip(texts, cut, strict=True) if before != after]
    marks = sum(len(MARK.search(after)[0]) for _, after in changed)  # type: ignore[index]
    whole = [each for each in cut if each in texts and size(each) <= 50]
    assert sum(map(size, cut)) <= room + marks + sum(map(size, whole))
    for before, after in changed:
        found = MARK.search(after)
        head = after[: found.start()]
        tail = after[found.end() :]
        assert before.startswith(head)
        assert before.endswith(tail)
        assert len(head) + len(tail) + int(found[1]) == len(before)
        assert size(after) < size(before)
    longest_kept = max(
        (size(after) for before, after in zip(texts, cut, strict=True) if before == after),
        default=0,
    )
    assert all(size(before) >= min(longest_kept, 50) for before, _ in changed)


def test_the_longest_is_cut_first_and_the_room_is_used() -> None:
    short = "s" * 100
    longer = "l" * 2_900
    longest = "x" * 50_000
    cut = shortened([longest, short, longer], 2_000)
    assert cut[1:] == (short, longer)
    assert 5_990 <= sum(map(len, cut)) <= 6_000
    assert shortened([longest, longest], 2_000)[0] == shortened([longest, longest], 2_000)[1]
    assert shortened([], 10) == ()


def test_a_long_text_is_cut_soon() -> None:
    start = time.process_time()
    [cut] = shortened(["\U0001f600" * 5_000_000], 1_000)
    assert len(cut.encode()) <= 3_000
    assert time.process_time() - start < 2
