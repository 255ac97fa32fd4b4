"""Whether arguments fit a schema, given or read from hints, and what a model is told where they do
not.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from rungwise import ConfigurationError, Tool, ToolCall
from rungwise.fsm.replies.schemas.given import Misfit, schema_of
from rungwise.fsm.turn.tools import Toolbox, ToolRun
from support.sampling import examples, sampled

if TYPE_CHECKING:
    from nowhere import Nothing

ROOT = Path(__file__).parents[4]


class Unit(Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Place(BaseModel):
    """Somewhere."""

    name: str
    since: date


@dataclasses.dataclass
class Note:
    """Keep a note."""

    text: str
    stars: int = 0


def weather(
    place: Place,
    unit: Unit = Unit.CELSIUS,
    days: Annotated[int, Field(ge=1, description="how many")] = 3,
    mode: Literal["short", "long"] | None = None,
    _private: bool = False,
    limit: int = Field(default=7, description="the most"),
) -> str:
    """Tell the weather."""
    return f"{place.name} {unit} {days} {mode} {limit}"


def plan(tool: Any, arguments: object, name: str = "tool") -> dict[str, Any] | str:
    """Return the arguments as the function is given them, or what the model is told."""
    box = Toolbox.of({name: tool}, executor=print)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    run = box.plan(ToolCall("1", name, text), 5.0)
    return dict(run.arguments) if isinstance(run, ToolRun) else run


def given_schema(**properties: Any) -> Tool:
    return Tool(print, parameters={"type": "object", "properties": properties})


def test_a_schema_is_read_from_hints() -> None:
    schema = Tool(weather).takes.schema
    properties = schema["properties"]
    assert list(properties) == ["place", "unit", "days", "mode", "_private", "limit"]
    assert properties["days"] == {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "how many",
    }
    assert properties["limit"] == {
        "type": "integer",
        "default": 7,
        "description": "the most",
    }
    assert schema["required"] == ["place"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Place"]["properties"]["since"] == {"type": "string", "format": "date"}
    assert "title" not in schema


def test_arguments_are_converted_to_what_the_hints_say() -> None:
    read = plan(
        weather,
        {
            "place": {"name": "Rome", "since": "0753-04-21"},
            "unit": "k",
            "days": "2",
        },
    )
    assert read == {
        "place": Place(name="Rome", since=date(753, 4, 21)),
        "unit": Unit.KELVIN,
        "days": 2,
        "limit": 7,
    }
    assert isinstance(read, dict)
    assert weather(**read) == "Rome Unit.KELVIN 2 None 7"


def test_what_does_not_fit_the_hints_is_named() -> None:
    told = plan(
        weather,
        {
            "place": {"name": 3, "since": "x"},
            "unit": "f",
            "days": 0,
            "dayz": 1,
        },
    )
    assert isinstance(told, str)
    for part in (
        "'place.name': ",
        "'place.since': ",
        "'unit': input should be 'c' or 'k'",
        "'days': ",
        "greater",
    ):
        assert part in told
    assert plan(weather, {}) == "the arguments do not fit: 'place' is missing"
    assert plan(lambda days=1: days, {"dayz": 1}) == (
        "the arguments do not fit: there is no 'dayz'; did you mean 'days'?"
    )


class Adder:
    """Add."""

    def __call__(self, a: int, b: int = 2) -> int:
        return a + b

    def method(self, a: int) -> int:
        return a


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


@decorated
def halve(a: int) -> float:
    return a / 2


async def later(a: int) -> int:
    return a


def wants_three(a: int, b: str, c: float) -> None: ...


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (Adder(), ["a", "b"]),
        (Adder().method, ["a"]),
        (halve, ["a"]),
        (later, ["a"]),
        (functools.partial(wants_three, 1), ["b", "c"]),
        (functools.partial(wants_three, b="x"), ["a", "c"]),
        (Note, ["text", "stars"]),
        (lambda anything: anything, ["anything"]),
        (lambda copy, model_config, json, p0: 1, ["copy", "model_config", "json", "p0"]),
        (lambda *args: 1, []),
    ],
)
def test_every_kind_of_callable_tells_what_it_takes(function: Any, names: list[str]) -> None:
    assert list(Tool(function, name="tool").takes.schema["properties"]) == names


def test_names_that_pydantic_keeps_for_itself_can_be_parameters() -> None:
    read = plan(lambda copy, model_config, p0=1: 1, {"copy": 1, "model_config": 2})
    assert read == {"copy": 1, "model_config": 2}


def test_further_keywords_are_checked_by_their_hint() -> None:
    def tool(a: int = 0, **more: float) -> None: ...

    assert plan(tool, {"x": "1.5"}) == {"x": 1.5}
    assert "'x': " in plan(tool, {"x": "y"})


def refers_to_nothing(a: Nothing) -> None: ...


def returns_nothing(a: int) -> Nothing: ...


def takes_a_lock(lock: type(subprocess.DEVNULL.__class__.__call__)) -> None: ...  # type: ignore[valid-type]


def by_position(a: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (
            refers_to_nothing,
            "'refers_to_nothing' has a type hint that cannot be resolved: name 'Nothing'",
        ),
        (takes_a_lock, "'takes_a_lock' has a parameter whose type hint has no JSON schema"),
        (by_position, "'by_position' takes 'a' by position only"),
    ],
)
def test_hints_that_make_no_schema_are_refused_at_once(function: Any, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        Tool(function)


def test_what_a_function_returns_needs_no_schema() -> None:
    assert Tool(returns_nothing).takes.schema["required"] == ["a"]


ITEM = {
    "type": "object",
    "properties": {"n": {"type": "string"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("properties", "arguments", "fault"),
    [
        ({"a": {"type": "integer"}}, {"a": "1"}, "'a' must be of type integer, not string"),
        (
            {"a": {"type": ["integer", "null"]}},
            {"a": True},
            "'a' must be of type integer or null, not boolean",
        ),
        ({"a": {"enum": ["x", 1]}}, {"a": "y"}, "'a' must be one of \"x\", 1"),
        ({"a": {"const": None}}, {"a": "y"}, "'a' must be null"),
        ({"a": {"minimum": 3}}, {"a": 1}, "'a' does not fit minimum 3"),
        ({"a": {"pattern": "^x"}}, {"a": "y"}, "'a' does not fit pattern \"^x\""),
        ({"a": {"items": ITEM}}, {"a": [{"n": ""}, {}]}, "'n' is missing in 'a[1]'"),
        (
            {"a": {"items": ITEM}},
            {"a": [{"n": "", "m": 1}]},
            "there is no 'm' in 'a[0]'; there are: \"n\"",
        ),
        (
            {"a": {"uniqueItems": True}},
            {"a": [1, {"b": 1}, {"b": 1.0}]},
            "'a': its items must differ",
        ),
        (
            {"a": {"anyOf": [{"type": "string"}, ITEM]}},
            {"a": {"n": 1}},
            "'a.n' must be of type string, not integer",
        ),
        (
            {"a": {"oneOf": [{"minimum": 1}, {"maximum": 3}]}},
            {"a": 2},
            "'a': must fit one of what it may be, and fits 2",
        ),
        (
            {"a": {"oneOf": [{"type": "null"}, {"minimum": 3}]}},
            {"a": 2},
            "the nearest being: 'a' does not fit minimum 3",
        ),
        (
            {"a": {"anyOf": [{"anyOf": [{"const": 1}]}]}},
            {"a": 2},
            "'a' fits none of what it may be, the nearest being: 'a' must be 1",
        ),
        ({"a": {"not": {"type": "string"}}}, {"a": "y"}, "'a' does not fit 'not' of its schema"),
    ],
)
def test_what_does_not_fit_a_given_schema_is_named(
    properties: Any, arguments: Any, fault: str
) -> None:
    told = plan(given_schema(**properties), arguments)
    assert isinstance(told, str)
    assert fault in told


def test_a_schema_may_refer_to_itself_and_to_the_schema_of_schemas() -> None:
    tree = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}},
        "additionalProperties": False,
    }
    assert plan(Tool(print, parameters=tree), {"next": {"next": {}}}) == {"next": {"next": {}}}
    assert "'next.next.x'" not in plan(Tool(print, parameters=tree), {"next": {"x": 1}})
    of_schemas = given_schema(schema={"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert "'schema.type'" in plan(of_schemas, {"schema": {"type": "objekt"}})


def test_an_older_draft_counts_where_the_schema_names_it() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": {"type": "integer"}},
    }
    tool = Tool(
        print, parameters={**old, "properties": {"a": {"items": [{"$ref": "#/definitions/n"}]}}}
    )
    assert "'a[0]' must be of type integer" in plan(tool, {"a": ["x"]})


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "array"}, "must be the schema of an object"),
        ({"properties": {"a": {"type": "text"}}}, "is no JSON schema, at properties.a.type"),
        ({"properties": {"a": {"pattern": "("}}}, "has a pattern that is no regular expression"),
        (
            {"properties": {"a": {"$ref": "https://example.com/a"}}},
            "refers to 'https://example.com/a'",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "nothing is fetched"),
        ("text", "must be a JSON schema, not str"),
    ],
)
def test_refuses_what_is_no_schema_at_once(schema: Any, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Tool(print, name="tool", parameters=schema)
    assert fault in str(caught.value)


BIG = {
    "strings": {"type": "array", "items": {"type": "string"}},
    "unique": {"type": "array", "uniqueItems": True},
    "closed": {
        "type": "object",
        "patternProperties": {"a": {}},
        "unevaluatedProperties": False,
    },
    "either": {
        "anyOf": [{"type": "array", "items": {"$ref": "#/properties/either"}}, {"type": "integer"}]
    },
    "tree": {"type": "array", "items": {"$ref": "#/properties/tree"}},
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"strings": ["x" * 1_000_000, 1]},
        {"x" * 1_000_000: 1, "strings": 1},
        {"strings": [0] * 50_000},
        {"unique": [{"a": number % 20_000} for number in range(30_000)]},
        {"closed": {f"a{number}": 1 for number in range(50_000)}},
        {"either": ["x"] * 200_000},
        {"either": [[["x"] * 1_000] * 100] * 2},
        '{"either": ' + "[" * 60 + '"' + "x" * 1_000_000 + '"' + "]" * 60 + "}",
        '{"tree": ' + "[" * 1_000 + "]" * 1_000 + "}",
        '{"tree": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"strings": ' + "9" * 100_000 + "}",
        '{"strings": [1], "strings": 1' + ', "strings": 1' * 50_000 + "}",
        '{"strings": "\\ud800"}',
        '{"strings": NaN}',
        "\ud800",
    ],
)
@pytest.mark.parametrize("is_hinted", sampled([False, True], one_in=2))
def test_reports_hostile_arguments_briefly_and_fast(arguments: Any, is_hinted: bool) -> None:
    def hinted(
        strings: list[str] | None = None,
        unique: set[int] | None = None,
        closed: Place | None = None,
        either: list[int] | int = 0,
        tree: int = 0,
    ) -> None: ...

    tool = (
        hinted
        if is_hinted
        else Tool(hinted, parameters={"properties": BIG, "additionalProperties": False})
    )
    start = time.process_time()
    told = plan(tool, arguments)
    assert isinstance(told, str)
    assert len(told) <= 1_200
    assert time.process_time() - start < 5


NAMES = st.sampled_from(["a", "b", "c", "copy"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["null", "boolean", "integer", "number", "string", "object"])}
    )
    | st.just({"uniqueItems": True}),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)})
    ),
    max_leaves=6,
)


@given(SCHEMAS, VALUES)
@settings(max_examples=examples(200))
def test_the_quick_checks_say_what_the_librarys_own_say(schema: dict[str, Any], value: Any) -> None:
    fits = Draft202012Validator({"properties": {"a": schema}}).is_valid({"a": value})
    quick = schema_of({"properties": {"a": schema}}, "schema")
    if fits:
        assert quick.read({"a": value}) == {"a": value}
    else:
        with pytest.raises(Misfit, match="'a"):
            quick.read({"a": value})


@given(st.dictionaries(NAMES, VALUES, max_size=4))
@settings(max_examples=examples(150))
def test_arguments_either_fit_or_are_reported(arguments: dict[str, Any]) -> None:
    def tool(a: int, b: list[str], c: dict[str, float | None] | None = None) -> None: ...

    hinted = plan(tool, arguments)
    given_one = plan(Tool(print, parameters=Tool(tool).takes.schema), arguments)
    if isinstance(given_one, dict):
        # what fits the schema that the model was shown is never refused
        assert isinstance(hinted, dict)
        assert set(hinted) == set(arguments)
    if isinstance(hinted, str):
        assert hinted.startswith("the arguments do not fit: ")
        assert isinstance(given_one, str)


def test_nothing_of_it_is_loaded_before_a_tool_needs_it() -> None:
    script = """
import sys
import rungwise
from rungwise.fsm.turn.tools import Toolbox

def loaded():
    return [name for name in ("pydantic", "jsonschema", "referencing") if name in sys.modules]

from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
with EmbeddedProvider(Script([ScriptedReply(text="hello")])) as provider:
    client = rungwise.Client(rungwise.OpenAIChat("model", api_key="key", base_url=provider.base_url))
    tool = {"type": "function", "function": {"name": "x", "parameters": {"type": "object"}}}
    assert client.call("hello", tools=[tool]).text == "hello"
Toolbox.of([{"name": "x"}], executor=print)
print(loaded())
rungwise.Tool(print, name="x", parameters={"properties": {"a": {}}})
print(loaded())
rungwise.Tool(lambda a: a, name="x")
print(loaded())
"""  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[]",
        "['jsonschema', 'referencing']",
        "['pydantic', 'jsonschema', 'referencing']",
    ]
