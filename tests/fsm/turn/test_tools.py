"""How tools are declared, gathered, defined for a request, and found for a call."""

import json
from typing import Any

import pytest

from rungwise import ConfigurationError, Tool, ToolCall
from rungwise.adapters.wires.chat.shapes import CHAT
from rungwise.fsm.call.conversation.shapes import NEUTRAL
from rungwise.fsm.turn.tools import Toolbox, ToolRun


def search(query: str, most: int = 10) -> list[str]:
    """Search for something.

    It takes a while.
    """
    return [query] * most


def fetch(url: str) -> str:
    return url


FETCH = {
    "name": "fetch",
    "description": "Get a page.",
    "parameters": {"properties": {"url": {"type": "string"}}},
}
IN_CHAT = {"type": "function", "function": {**FETCH, "strict": True}}


def runs(name: str, arguments: Any = None) -> Any:
    return name, arguments


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        (None, []),
        ([], []),
        ([search, Tool(fetch)], ["search", "fetch"]),
        (
            {
                "look": search,
                "get": Tool(fetch),
                "page": {"description": "x"},
            },
            ["look", "get", "page"],
        ),
        ([FETCH, search], ["fetch", "search"]),
        ([IN_CHAT], ["fetch"]),
        ([{"type": "function", **FETCH}], ["fetch"]),
        ((tool for tool in [search]), ["search"]),
        (Toolbox.of([search]), ["search"]),
    ],
)
def test_tools_may_be_given_in_any_form(tools: Any, names: list[str]) -> None:
    box = Toolbox.of(tools, executor=runs)
    assert list(box.tools) == names
    assert [tool.name for tool in box.tools.values()] == names
    assert bool(box) is bool(names)
    assert box.executor is runs


def test_definitions_are_written_in_the_form_of_the_wire() -> None:
    box = Toolbox.of([search, IN_CHAT], executor=runs)
    described = "Search for something.\n\nIt takes a while."
    searching, fetching = box.definitions(CHAT)
    assert searching["type"] == "function"
    assert searching["function"]["description"] == described
    assert searching["function"]["parameters"]["required"] == ["query"]
    assert fetching == {
        "type": "function",
        "function": {
            "name": "fetch",
            "description": "Get a page.",
            "parameters": {"type": "object", **FETCH["parameters"]},  # type: ignore[dict-item]
            "strict": True,
        },
    }
    neutral = box.definitions(NEUTRAL)
    assert [each["name"] for each in neutral] == ["search", "fetch"]
    assert neutral[0]["description"] == described
    json.dumps(neutral)


def test_uses_its_own_description_and_not_that_of_a_base_class() -> None:
    class Plain(dict):  # type: ignore[type-arg]
        pass

    assert Tool(search, description="Look.").explained == "Look."
    assert Tool(fetch).explained == ""
    assert Tool(Plain, parameters={}).explained == ""


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: Tool(3), "Tool.function must be a function, not int"),  # type: ignore[arg-type]
        (lambda: Tool(search, name="a b"), "Tool.name must be 1 to 64 letters"),
        (lambda: Tool(search, name="a" * 65), "Tool.name must be 1 to 64 letters"),
        (lambda: Tool(search, name="é"), "Tool.name must be 1 to 64 letters"),
        (lambda: Tool(search, description=3), "Tool.description must be a text"),  # type: ignore[arg-type]
        (lambda: Tool(search, alone=1), "Tool.alone must be True or False"),  # type: ignore[arg-type]
        (lambda: Tool(search, seconds=0), "Tool.seconds must be a number of seconds above 0"),
        (lambda: Tool(search, seconds=float("inf")), "Tool.seconds must be"),
        (lambda: Tool(search, seconds=float("nan")), "Tool.seconds must be"),
        (
            lambda: Toolbox.of([lambda: 1]),
            "tools[0] needs a name: 1 to 64 letters, digits, '_' or '-', not '<lambda>'",
        ),
        (lambda: Toolbox.of([Tool(terminating=True)]), "tools[0] needs a name"),
        (lambda: Toolbox.of(search), "put a single tool into a list"),  # type: ignore[arg-type]
        (
            lambda: Toolbox.of(FETCH, runs),
            "tools['name'] must be a function, a Tool or a definition, not str",
        ),
        (lambda: Toolbox.of({"a b": search}), "the name of a tool must be 1 to 64 letters"),
        (
            lambda: Toolbox.of({"look": Tool(search, name="seek")}),
            "the tool under 'look' has the name 'seek'",
        ),
        (
            lambda: Toolbox.of([search, Tool(fetch, name="search")]),
            "two tools have the name 'search'",
        ),
        (lambda: Toolbox.of([FETCH]), "nothing would run the tool 'fetch'"),
        (lambda: Toolbox.of([search], executor=3), "the executor must be a function, not int"),  # type: ignore[arg-type]
        (lambda: Toolbox.of([{"type": "web_search"}]), "tools[0] is of type 'web_search'"),
        (lambda: Toolbox.of([{"function": 3}]), "tools[0]['function'] must be a mapping, not int"),
        (lambda: Toolbox.of([{**FETCH, "more": 1}]), "tools[0] has an unknown key 'more'"),
        (lambda: Toolbox.of([3]), "tools[0] must be a function, a Tool or a definition, not int"),  # type: ignore[list-item]
    ],
)
def test_refuses_what_is_no_tool(build: Any, fault: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build()
    assert fault in str(caught.value)


def test_a_terminating_tool_needs_no_function() -> None:
    box = Toolbox.of([Tool(name="finish", terminating=True)])
    run = box.plan(ToolCall("1", "finish", '{"any": 1}'), 5.0)
    assert isinstance(run, ToolRun)
    assert run.arguments == {"any": 1}


def plan(arguments: str, name: str = "search", **options: Any) -> ToolRun | str:
    return Toolbox.of({"search": Tool(search, **options), "fetch": fetch}).plan(
        ToolCall("1", name, arguments), 5.0
    )


def test_a_tool_is_given_whole_numbers_as_they_stand() -> None:
    run = plan('{"query": "x", "most": 123456789012345678901234567890}')
    assert isinstance(run, ToolRun)
    assert run.arguments["most"] == 123456789012345678901234567890


def test_a_call_that_fits_is_planned() -> None:
    run = plan('{"query": "x"}')
    assert isinstance(run, ToolRun)
    assert (run.tool.function, run.arguments, run.seconds) == (search, {"query": "x"}, 5.0)
    slow = plan('{"query": "x"}', seconds=60.0)
    assert isinstance(slow, ToolRun)
    assert slow.seconds == 60.0


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_arguments_are_none(blank: str) -> None:
    assert plan(blank) == "the arguments do not fit: 'query' is missing"
    run = Toolbox.of({"now": lambda: 1}).plan(ToolCall("1", "now", blank), 5.0)
    assert isinstance(run, ToolRun)
    assert run.arguments == {}


@pytest.mark.parametrize(
    ("arguments", "name", "fault"),
    [
        (
            "{}",
            "serch",
            "there is no tool 'serch'; did you mean 'search'? there are: \"search\", \"fetch\"",
        ),
        ("{}", "zzz", 'there is no tool \'zzz\'; there are: "search", "fetch"'),
        ('{"query": ', "search", "the arguments are not JSON (line 1, column "),
        ("[1]", "search", "the arguments are no JSON object but [1]; give one JSON object"),
    ],
)
def test_tells_the_model_what_cannot_run(arguments: str, name: str, fault: str) -> None:
    told = plan(arguments, name)
    assert isinstance(told, str)
    assert told.startswith(fault)


def test_no_name_is_too_long_to_be_told_of() -> None:
    told = plan("{}", "s" * 1_000_000)
    assert isinstance(told, str)
    assert len(told) < 300
    assert (
        Toolbox.of(None).plan(ToolCall("1", "x", "{}"), 5.0)
        == "there is no tool 'x'; there are no tools"
    )


@pytest.mark.parametrize("value", [object(), float("nan")])
def test_a_schema_that_no_json_can_hold_is_refused_when_it_is_declared(value: object) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"^Tool\.parameters(\['default'\] has no form in JSON| must be a JSON schema)",
    ):
        Tool(print, parameters={"type": "object", "default": value})
