"""Checks of hostile schemas and hostile values: a bound on the work, and patterns in linear
time.
"""

from __future__ import annotations

import json
import random
import sys
import time
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from rungwise import ConfigurationError, Tool, ToolCall, TurnPolicy
from rungwise.fsm.replies.schemas import validator as work
from rungwise.fsm.replies.schemas.given import Misfit, schema_of
from rungwise.fsm.replies.schemas.validator import MOST_UNEVALUATED
from rungwise.fsm.turn.tool_round import ToolRound
from rungwise.fsm.turn.tools import Toolbox
from support.sampling import examples

TOO_MUCH = "the arguments: too much work to check; give less at once, or flatter values"
SECONDS = 30
"""Far more CPU time than any check takes, and far less than one without a bound."""


def told(schema: dict[str, Any], value: Any) -> str | None:
    """Return what the model is told, within the seconds; None if the value fits."""
    given_schema = schema_of(
        {"properties": {"a": schema}, "$defs": schema.get("$defs", {})}, "the schema"
    )
    return told_by(given_schema, {"a": value})


def told_by(schema: Any, arguments: Any) -> str | None:
    start = time.process_time()
    try:
        schema.read(arguments)
    except Misfit as misfit:
        return str(misfit)
    finally:
        assert time.process_time() - start < SECONDS
    return None


def chain(keyword: str, of: int = 40) -> dict[str, Any]:
    """Refer to each definition twice from the one before: 2 ** 40 ways."""
    ways = [
        {f"d{number}": {keyword: [{"$ref": f"#/$defs/d{number + 1}"}] * 2}} for number in range(of)
    ]
    defined: dict[str, Any] = {f"d{of}": {"type": "string"}}
    return {
        "$ref": "#/$defs/d0",
        "$defs": {name: each for way in ways for name, each in way.items()} | defined,
    }


@pytest.mark.full
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("keyword", "value"), [("anyOf", 1), ("oneOf", 1), ("allOf", "fits")])
def test_alternatives_within_alternatives_are_bounded(keyword: str, value: Any) -> None:
    assert told(chain(keyword), value) == TOO_MUCH


@pytest.mark.full
def test_references_within_references_are_bounded_where_nothing_is_checked() -> None:
    ways = {
        f"d{n}": {"$ref": f"#/$defs/d{n + 1}", "$dynamicRef": f"#/$defs/d{n + 1}"}
        for n in range(40)
    }
    schema = {
        "$ref": "#/$defs/d0",
        "$defs": {**ways, "d40": {}},
        "unevaluatedProperties": False,
    }
    assert told(schema, {"x": 1}) == TOO_MUCH


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.full
def test_alternatives_at_each_level_of_the_value_are_bounded() -> None:
    each = {
        "anyOf": [{"type": "array", "items": {"$ref": "#/properties/a"}}] * 4 + [{"type": "string"}]
    }
    assert told(each, nested(20)) == TOO_MUCH
    assert "'a[0][0][0]' must be of type array" in str(told(each, nested(3)))
    assert told(each, nested(12, "fits")) is None


def often(schema: dict[str, Any]) -> dict[str, Any]:
    """Give a schema as each of a thousand alternatives."""
    return {"anyOf": [{"$ref": "#/$defs/one"}] * 1_000, "$defs": {"one": schema}}


DEPENDENT = {"dependentRequired": {str(n): list(map(str, range(300))) for n in range(300)}}
WIDE = {str(n): 0 for n in range(300)}


@pytest.mark.full
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (
            often({"enum": [{"b": [number] * 1_000} for number in range(300)]}),
            {"b": [1] * 999 + [2]},
        ),
        (often({"const": [0] * 20_000 + [1]}), [0] * 20_001),
        (often({"uniqueItems": True, "minItems": 10**6}), list(range(20_000))),
        (often({"items": True, "minItems": 10**6}), [0] * 100_000),
        (often({"minItems": 10**6}), [["x" * 1_000_000]]),
        (often({"not": {}}), ["x" * 1_000_000]),
        ({"items": DEPENDENT}, [{}] * 50_000),
        ({"items": DEPENDENT}, [WIDE] * 1_000),
        (
            {"items": {"unevaluatedProperties": False}},
            [{str(n): 0 for n in range(MOST_UNEVALUATED)}] * 100,
        ),
        ({"items": {"patternProperties": {f"x{n}": {} for n in range(300)}}}, [WIDE]),
        (
            {
                "items": {
                    "patternProperties": {f"x{n}": {} for n in range(300)},
                    "additionalProperties": {},
                }
            },
            [WIDE],
        ),
    ],
)
def test_every_keyword_counts_what_it_costs(schema: dict[str, Any], value: Any) -> None:
    assert told(schema, value) == TOO_MUCH


def test_a_subschema_of_another_draft_is_bounded_too() -> None:
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}
    assert "does not fit pattern" in str(told(old, "a" * 40 + "!"))


SLOW_TEXT = "".join(random.Random(1).choices("ab", k=200_000))

SLOW = [
    "^(a+)+$",
    "^(a|a)*$",
    r"^([a-z]+)*\d$",
    "(?:[ab]*a[ab]{50}){3}c",
    "(?:[ab]{0,99}a){2}[^ab]{3}[^ab]",
    "(?:[a-z]{0,100}){0,100}!",
    r"^(?:(?=[ab]*a[ab]{12}[^ab])c|[ab])*$",
    r"(a+)+\1c",
]


@pytest.mark.parametrize("pattern", SLOW)
@pytest.mark.parametrize("length", [40, 5_000, 200_000])
def test_patterns_that_backtrack_are_bounded(pattern: str, length: int) -> None:
    assert told({"pattern": pattern}, "a" * length + "!") in (
        TOO_MUCH,
        told({"pattern": pattern}, "a!"),
    )
    told({"pattern": pattern}, SLOW_TEXT[:length] + "?")  # which may fit, and takes no longer


@pytest.mark.parametrize(
    "value", [["a" * 1_000 + "!"] * 1_000, {"a" * 1_000 + "!" * n: 0 for n in range(200)}]
)
@pytest.mark.parametrize("pattern", SLOW[3:])
def test_many_texts_count_together(pattern: str, value: Any) -> None:
    assert (
        told({"items": {"pattern": pattern}, "propertyNames": {"pattern": pattern}}, value)
        is not None
    )


@pytest.mark.parametrize(
    "other", [{"additionalProperties": False}, {"additionalProperties": {"type": "null"}}, {}]
)
@pytest.mark.parametrize("pattern", SLOW[:3])
def test_patterns_of_names_are_bounded(pattern: str, other: dict[str, Any]) -> None:
    schema = {"patternProperties": {pattern: {"type": "string"}}, **other}
    assert (told(schema, {"a" * 40 + "!": 1}) is None) == (not other)


@pytest.mark.parametrize(
    ("pattern", "fitting"),
    [
        (r"^\w{1,255}$", "some_name"),
        (r"^[\w-.]+@([\w-]+\.)+[\w-]{2,4}$", "a-b.c@example.org"),
        (r"^.{1,2048}$", "x" * 2_048),
        (r"^\p{L}+$", "Ünïcode"),
        (r"^(?!\s*$).+", " x"),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "Abcdefg1"),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "12345678-1234-1234-1234-123456789abc"),
        (r"^(?<year>\d{4})-\d\d$", "2026-11"),
        (r"(a)\1", "aa"),
    ],
)
def test_the_usual_patterns_work(pattern: str, fitting: str) -> None:
    assert told({"pattern": pattern}, fitting) is None
    assert "does not fit pattern" in str(told({"pattern": pattern}, "\n"))


@pytest.mark.parametrize("key", ["pattern", "patternProperties"])
@pytest.mark.parametrize("pattern", ["(", "(?:.{1000}){1000}", "(?=(?:.{1000}){10})"])
def test_a_pattern_that_cannot_be_bounded_is_refused_when_the_tool_is_made(
    key: str, pattern: str
) -> None:
    schema = {"pattern": pattern} if key == "pattern" else {"patternProperties": {pattern: {}}}
    with pytest.raises(ConfigurationError, match="matched in bounded time"):
        Tool(print, name="tool", parameters={"properties": {"a": {"anyOf": [{"items": schema}]}}})


def test_unevaluated_properties_take_plain_patterns_alone() -> None:
    plain = {"patternProperties": {"^x-": {}}, "unevaluatedProperties": False}
    assert told(plain, {"x-a": 1}) is None
    assert "unevaluated" in str(told(plain, {"y": 1})).lower()
    with pytest.raises(ConfigurationError, match="use additionalProperties instead"):
        told(
            {"allOf": [{"patternProperties": {"^(a+)+$": {}}}], "unevaluatedProperties": False}, {}
        )


ROW = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in "abcdefghij"},
    "required": list("abcdef"),
}


def test_large_values_that_fit_are_not_refused() -> None:
    assert told({"items": ROW}, [dict.fromkeys("abcdefghij", "text")] * 1_000) is None
    assert told({"items": {"type": "number"}}, list(range(20_000))) is None
    assert told({"items": {"enum": list("abcdefghij")}}, list("abcdefghij") * 1_000) is None
    assert told({"type": "string", "pattern": r"\S"}, "text " * 20_000) is None
    assert told({"items": {"pattern": r"^[A-Z]{2}-\d{4}$"}}, ["AB-1234"] * 10_000) is None


PATTERNS = st.sampled_from(["^a", "b$", "[ab]c?", "^$", "a|c", r"\d", "^[^a]*$"])
KEYS = st.text("abc1", max_size=3)


@given(
    st.dictionaries(PATTERNS, st.sampled_from([{"type": "string"}, True, False]), max_size=3),
    st.sampled_from(
        [{}, {"additionalProperties": False}, {"additionalProperties": {"type": "integer"}}]
    ),
    st.dictionaries(KEYS, st.text(max_size=2) | st.integers(), max_size=3),
)
@settings(max_examples=examples(200))
def test_names_and_patterns_fit_as_the_library_has_it(
    patterns: Any, additional: Any, value: Any
) -> None:
    schema = {
        "properties": {"a": {}},
        "patternProperties": patterns,
        **additional,
    }
    assert (told(schema, value) is None) == Draft202012Validator(schema).is_valid(value)


def union_of(members: int, *, with_kind: bool = False) -> Any:
    """Return a function whose argument is one of some models that hold each other."""
    names = [f"N{number}" for number in range(members)]
    lines = ["from __future__ import annotations", "from typing import *", "from pydantic import *"]
    either = " | ".join(names)
    if with_kind:
        either = f"Annotated[{either}, Field(discriminator='kind')]"
    for name in names:
        lines += [
            f"class {name}(BaseModel):",
            f"    child: {either} | None = None",
            f"    kind: Literal['{name}']",
        ]
        if not with_kind:
            lines[-1] = f"    v{name}: int = 0"
    lines.append(f"def tool(a: {either}) -> None: ...")
    module = types.ModuleType(f"union_of_{members}_{with_kind}")
    sys.modules[module.__name__] = module
    exec("\n".join(lines), module.__dict__)
    return module.tool


def levels(depth: int, leaf: dict[str, Any], **more: Any) -> dict[str, Any]:
    for _ in range(depth):
        leaf = {"child": leaf, **more}
    return {"a": leaf}


def test_a_union_of_models_that_hold_each_other_is_bounded() -> None:
    tool = Tool(union_of(5))
    assert told_by(tool.takes, levels(10, {"vN0": 1})) == TOO_MUCH
    assert told_by(tool.takes, levels(4, {"vN0": 1})) is None
    assert "'a.N0.child" in str(told_by(tool.takes, levels(4, {"child": "x"})))
    told_apart = Tool(union_of(5, with_kind=True))
    assert told_by(told_apart.takes, levels(30, {"kind": "N1"}, kind="N2")) is None


class Tree(BaseModel):
    kids: list[Tree] = []


@pytest.mark.parametrize("is_given", [False, True])
def test_depth_alone_is_no_reason_to_refuse(is_given: bool) -> None:
    def tool(tree: Tree) -> None: ...

    parameters = dict(Tool(tool).takes.schema) if is_given else None
    takes = Tool(tool, parameters=parameters).takes
    tree: dict[str, Any] = {}
    for _ in range(20):
        tree = {"kids": [tree, {}]}
    assert told_by(takes, {"tree": tree}) is None
    for _ in range(480):
        tree = {"kids": [tree]}
    assert told_by(takes, {"tree": tree}) is not None


def test_the_calls_of_one_reply_share_the_bound() -> None:
    box = Toolbox.of(
        [Tool(print, name="tool", parameters={"properties": {"a": {"items": {"type": "number"}}}})]
    )
    arguments = json.dumps({"a": [1] * 20_000})
    calls = tuple(ToolCall(str(number), "tool", arguments) for number in range(32))
    start = time.process_time()
    planned = ToolRound.of(calls, box, TurnPolicy(), None)
    assert time.process_time() - start < SECONDS
    assert [place for place, _ in planned.runs] == [0, 1]
    assert set(planned.faults.values()) == {TOO_MUCH}
    assert ToolRound.of(calls[:1], box, TurnPolicy(), None).runs


def test_what_is_spent_outside_a_bound_is_not_counted() -> None:
    work.spend(10 * work.MOST_WORK)
    with work.bounded(), pytest.raises(work.TooMuchWork), work.bounded():
        work.spend(work.MOST_WORK + 1)


@pytest.mark.parametrize("depth", range(0, 40, 3))
def test_a_schema_that_refers_to_itself_everywhere_ends_as_nested_too_deeply(depth: int) -> None:
    """A library in Rust answers to the limit of recursion with an exception that is none of
    `Exception`.
    """
    schema = schema_of({"type": "object", "allOf": [{"$ref": "#"}]}, "a tool")

    def read(left: int) -> Any:
        return read(left - 1) if left else schema.read({"a": 1})

    with pytest.raises(Misfit, match="nested too deeply"):
        read(depth)
