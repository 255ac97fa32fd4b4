"""Tools that take free text, read for protocols in which every tool takes an object."""

from typing import Any

import pytest

from rungwise.adapters.wires.plain.tools import ToolDefinition, read_tools


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "custom", "name": "g", "description": "d"},
        {"type": "custom", "custom": {"name": "g", "description": "d"}},
    ],
)
def test_a_tool_of_free_text_takes_it_as_its_input(tool: dict[str, Any]) -> None:
    (read,) = read_tools([tool])
    assert isinstance(read, ToolDefinition)
    assert read.name == "g"
    assert read.description == "d"
    assert read.parameters["required"] == ["input"]


def test_a_custom_tool_with_a_schema_keeps_it() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    (read,) = read_tools(
        [
            {
                "type": "custom",
                "name": "g",
                "input_schema": schema,
            }
        ]
    )
    assert isinstance(read, ToolDefinition)
    assert read.parameters == schema
