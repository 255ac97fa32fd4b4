"""Parameters of a tool that are classes: the schema of pydantic's `TypeAdapter`, and objects of the
class.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, NamedTuple, NotRequired, Optional, TypedDict

import pytest
import typing_extensions
from pydantic import BaseModel, Field, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

from rungwise import Client, OpenAIChat, Tool
from rungwise.fsm.replies.schemas.given import Misfit
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply


class Model(BaseModel):
    """A model."""

    name: str
    p0: int = 1


@dataclasses.dataclass
class Plain:
    """A dataclass."""

    name: str
    p0: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)


@pydantic_dataclass
class Checked:
    name: str
    p0: int = 1


@dataclasses.dataclass
class Outer:
    inner: Plain
    others: list[Plain] | None = None


class Row(NamedTuple):
    name: str
    p0: int = 1


class New(typing_extensions.TypedDict):
    name: str
    p0: NotRequired[int]


class Old(TypedDict):
    """A TypedDict."""

    name: str
    p0: NotRequired[int]


class Partial(TypedDict, total=False):
    name: str
    rows: list[Old]


KINDS: list[tuple[Any, Any, Any, Any]] = [
    (Model, Model, {"name": "x"}, Model(name="x")),
    (Plain, Plain, {"name": "x", "p0": "2"}, Plain("x", 2)),
    (Checked, Checked, {"name": "x"}, Checked("x")),
    (
        Outer,
        Outer,
        {"inner": {"name": "x"}, "others": [{"name": "y"}]},
        Outer(Plain("x"), [Plain("y")]),
    ),
    (Row, Row, ["x", 2], Row("x", 2)),
    (New, New, {"name": "x"}, {"name": "x"}),
    (Old, New, {"name": "x"}, {"name": "x"}),
    (Partial, None, {"rows": [{"name": "x", "p0": "3"}]}, {"rows": [{"name": "x", "p0": 3}]}),
]


def tool_taking(hint: Any) -> Tool:
    def tool(value: Any) -> Any:
        return value

    tool.__annotations__ = {"value": hint}
    return Tool(tool)


def defined(schema: Any) -> Any:
    """Return a schema without the titles that pydantic writes."""
    if isinstance(schema, dict):
        return {name: defined(part) for name, part in schema.items() if name != "title"}
    return [defined(part) for part in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(("hint", "adapted", "value", "expected"), KINDS)
@pytest.mark.parametrize(
    "form", ["itself", "a list", "an optional", "Optional", "annotated", "in a mapping"]
)
def test_a_class_has_the_schema_of_its_adapter_and_arrives_as_an_object(
    hint: Any,
    adapted: Any,
    value: Any,
    expected: Any,
    form: str,
) -> None:
    of: dict[str, tuple[Any, Any, Any]] = {
        "itself": (lambda each: each, value, expected),
        "a list": (lambda each: list[each], [value, value], [expected, expected]),
        "an optional": (lambda each: each | None, value, expected),
        "Optional": (lambda each: Optional[each], value, expected),  # noqa: UP045
        "annotated": (lambda each: Annotated[each, Field(description="which")], value, expected),
        "in a mapping": (lambda each: dict[str, list[each]], {"a": [value]}, {"a": [expected]}),
    }
    made, given, read = of[form]
    takes = tool_taking(made(hint)).takes
    assert takes.read({"value": given}) == {"value": read}
    if isinstance(expected, tuple) and form == "itself":
        assert type(takes.read({"value": given})["value"]) is Row
    if adapted is not None:
        own = defined(json.loads(json.dumps(takes.schema)))["$defs"]
        expected_schema = defined(TypeAdapter(list[adapted]).json_schema())["$defs"]
        if hint is Old:
            expected_schema = {"Old": {"description": "A TypedDict.", **expected_schema["New"]}}
        assert own == expected_schema


@pytest.mark.parametrize(("hint", "value"), [(Plain, {"p0": 1}), (Old, {}), (Row, [])])
def test_what_is_missing_in_an_object_is_named(hint: Any, value: Any) -> None:
    with pytest.raises(Misfit, match=r"'name' is missing in 'value'|'0' is missing|'value"):
        tool_taking(hint).takes.read({"value": value})


def test_further_keywords_are_objects_too() -> None:
    def tool(first: Plain, **rest: Plain) -> None: ...

    takes = Tool(tool).takes
    read = takes.read(
        {
            "first": {"name": "x", "unknown": 1},
            "more": {"name": "y"},
            "**": {"name": "z"},
        }
    )
    assert read == {"first": Plain("x"), "more": Plain("y"), "**": Plain("z")}
    assert takes.schema["additionalProperties"] == {"$ref": "#/$defs/Plain"}
    assert list(takes.schema["properties"]) == ["first"]
    with pytest.raises(Misfit, match=r"^the arguments do not fit: 'name' is missing in 'more'$"):
        takes.read({"first": {"name": "x"}, "more": {}})


def test_an_unknown_argument_is_named_beside_what_does_not_fit() -> None:
    with pytest.raises(
        Misfit, match=r"'value.name': .*; there is no 'valve'; did you mean 'value'\?"
    ):
        tool_taking(Plain).takes.read({"value": {"name": 1}, "valve": 2})


def test_a_turn_hands_objects_to_the_tool() -> None:
    seen: list[Any] = []

    def keep(notes: list[Plain], old: Old, row: Row | None = None) -> str:
        seen.append((notes, old, row))
        return "kept"

    arguments = json.dumps(
        {
            "notes": [{"name": "x"}],
            "old": {"name": "y"},
            "row": ["z", 3],
        }
    )
    called = ScriptedReply(tool_calls=[{"name": "keep", "arguments": arguments}])
    with EmbeddedProvider(Script([called, ScriptedReply(text="done")])) as provider:
        client = Client(OpenAIChat("model", api_key="key", base_url=provider.base_url))
        assert client.turn("Keep it.", tools=[keep]).text == "done"
        sent = provider.requests[0].body["tools"][0]["function"]["parameters"]
    assert seen == [([Plain("x")], {"name": "y"}, Row("z", 3))]
    assert sent["properties"]["notes"]["items"] == {"$ref": "#/$defs/Plain"}
    assert set(sent["$defs"]) == {"Plain", "Old", "Row"}
