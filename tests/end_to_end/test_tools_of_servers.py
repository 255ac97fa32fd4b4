"""Tools that a server runs by itself, and choices of tools: where they go, in which form, and what
is told.
"""

import json
from typing import Any

import pytest

from rungwise import OpenAIChat
from rungwise.core import Request
from rungwise.fsm.call.chain.for_backend import losses_of, tools_for
from rungwise.fsm.call.conversation.request import Send
from support import official
from support.protocols import PROTOCOLS, backend
from support.told import told

LOOK = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
SEARCH = {"type": "web_search"}
KIMI = {"type": "builtin_function", "function": {"name": "$web_search"}}
ZAI = {"type": "web_search", "web_search": {"enable": True}}
ROUTED = {"type": "openrouter:web_search", "parameters": {"engine": "exa"}}
ODD = {"type": "crystal_ball", "size": 2}
NO_FORM = "the tool {}: it has no form here"
ELSEWHERE = "the tool {}: it was given for another server"
HOSTS = {
    "openai": "https://api.openai.com/v1",
    "azure": "https://x.openai.azure.com/openai/v1",
    "kimi": "https://api.moonshot.ai/v1",
    "zai": "https://api.z.ai/api/paas/v4",
    "bigmodel": "https://open.bigmodel.cn/api/paas/v4",
    "openrouter": "https://openrouter.ai/api/v1",
    "groq": "https://api.groq.com/openai/v1",
    "own": "http://localhost:8000/v1",
}


def chat(host: str) -> OpenAIChat:
    return OpenAIChat(
        "m",
        base_url=HOSTS[host],
        api_key="sk-9d2f6b1c44e07a35",
        name=host,
    )


def encoded(tool: Any, first: Any, link: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Return the tools that a backend is sent beside one that any has, and what is said of those
    that it is not.
    """
    request = Request("Where?", tools=[tool, LOOK])
    send = Send(
        rung="ask",
        backend=0,
        wait=0,
        messages=request.messages,
        max_tokens=None,
        request=request,
        tools=tools_for(request, first, link),
    )
    sent = json.loads(link.encode(send, stream=False).body).get("tools")
    assert sent.pop()["function"]["name"] == "look"
    return sent, losses_of(request, first, link)


@pytest.mark.parametrize(
    ("host", "tool", "is_sent"),
    [
        ("openai", SEARCH, False),
        ("azure", SEARCH, False),
        ("openai", ODD, False),
        ("openai", KIMI, False),
        ("openai", ROUTED, False),
        ("kimi", KIMI, True),
        ("zai", ZAI, True),
        ("bigmodel", ZAI, True),
        ("zai", {"type": "retrieval", "retrieval": {"knowledge_id": "k"}}, True),
        ("openrouter", ROUTED, True),
        ("groq", {"type": "browser_search"}, True),
    ],
)
def test_what_is_known_of_a_server_holds_wherever_it_stands_in_a_chain(
    host: str, tool: Any, is_sent: bool
) -> None:
    link = chat(host)
    for first in (link, chat("own"), backend("anthropic", "http://localhost:1/v1")):
        assert encoded(tool, first, link) == (
            ([tool], ()) if is_sent else ([], (NO_FORM.format(tool["type"]),))
        )


@pytest.mark.parametrize("tool", [SEARCH, ODD, KIMI], ids=lambda tool: tool["type"])
@pytest.mark.parametrize("host", ["own", "groq", "openrouter"])
def test_what_nobody_knows_goes_to_the_server_that_it_was_given_for(host: str, tool: Any) -> None:
    link = chat(host)
    assert encoded(tool, link, link) == ([tool], ())
    other_key = OpenAIChat("other", base_url=HOSTS[host], api_key="sk-0d2f6b1c44e07a36")
    assert encoded(tool, other_key, link) == ([tool], ()), "the same server"
    for first in (chat("kimi"), backend("responses", HOSTS[host])):
        assert encoded(tool, first, link) == ([], (ELSEWHERE.format(tool["type"]),))


def test_a_chain_of_two_servers(mode: str, serve: Any) -> None:
    made = told(serve, "openai", "openai", mode=mode, tools=[ODD, LOOK])
    assert made.losses == [(), (ELSEWHERE.format("crystal_ball"),)]
    assert [body["tools"] for body in made.bodies] == [[ODD, LOOK], [LOOK]]
    assert made.notes == [None, f"left out: {ELSEWHERE.format('crystal_ball')}"]


def test_where_no_tool_is_left_for_a_fallback_no_choice_of_one_is_sent(
    api: str, serve: Any
) -> None:
    made = told(
        serve,
        "openai",
        api,
        tools=[ODD],
        tool_choice="auto",
        parallel_tool_calls=False,
    )
    assert not {"tools", "tool_choice", "toolConfig", "parallel_tool_calls"} & made.body.keys()
    assert any(each.startswith("the tool crystal_ball: ") for each in made.lost)


OWN: dict[str, tuple[Any, ...]] = {
    "responses": (
        SEARCH,
        {
            "type": "mcp",
            "server_label": "s",
            "server_url": "https://mcp.test",
        },
    ),
    "anthropic": ({"type": "web_search_20250305", "name": "web_search"},),
    "gemini": ({"googleSearch": {}}, {"urlContext": {}}),
    "bedrock": ({"systemTool": {"name": "nova_grounding"}},),
}


@pytest.mark.parametrize(
    "tool", [*(each for own in OWN.values() for each in own), KIMI, ZAI, ROUTED], ids=str
)
def test_behind_another_backend_a_tool_goes_to_the_protocol_that_has_it(
    api: str, tool: Any, serve: Any
) -> None:
    made = told(serve, "openai", api, tools=[tool, LOOK])
    sent = made.body["toolConfig"]["tools"] if api == "bedrock" else made.body["tools"]
    is_own = tool in OWN.get(api, ())
    assert (tool in sent) is is_own
    assert len(sent) == 1 + is_own
    assert any(each.startswith("the tool ") for each in made.lost) is not is_own


GRAMMAR = {"syntax": "lark", "definition": "start: /a+/"}
FLAT = {
    "type": "custom",
    "name": "g",
    "description": "d",
    "format": {"type": "grammar", **GRAMMAR},
}
DEEP = {
    "type": "custom",
    "custom": {
        "name": "g",
        "description": "d",
        "format": {"type": "grammar", "grammar": GRAMMAR},
    },
}


in_both_forms = pytest.mark.parametrize("given", [FLAT, DEEP])


@in_both_forms
@pytest.mark.parametrize(("api", "written"), [("openai", DEEP), ("responses", FLAT)])
def test_a_tool_of_free_text_is_written_as_each_of_openais_protocols_has_it(
    given: Any,
    api: str,
    written: Any,
    serve: Any,
) -> None:
    assert told(serve, api, tools=[given]).body["tools"] == [written]


def test_a_function_as_responses_have_it_is_written_as_chat_completions_have_it(serve: Any) -> None:
    [sent] = told(
        serve,
        "openai",
        tools=[
            {
                "type": "function",
                "name": "look",
                "strict": True,
            }
        ],
    ).body["tools"]
    assert (sent["type"], sent["function"]["name"], sent["function"]["strict"]) == (
        "function",
        "look",
        True,
    )


NO_CHOICE = "tool_choice: no tool of the type {} is sent"


def test_a_choice_of_a_tool_that_is_left_out_is_left_out_too(serve: Any) -> None:
    made = told(serve, "responses", "openai", tools=[SEARCH, LOOK], tool_choice=SEARCH)
    assert [body.get("tool_choice") for body in made.bodies] == [SEARCH, None]
    assert made.body["tools"] == [LOOK]
    lost = (ELSEWHERE.format("web_search"), NO_CHOICE.format("web_search"))
    assert made.losses == [(), lost]
    assert made.notes[1] == f"left out: {'; '.join(lost)}"


@pytest.mark.parametrize(
    ("host", "choice", "is_sent"),
    [
        ("openai", SEARCH, False),
        ("openai", {"type": "function", "function": {"name": "look"}}, True),
        ("openai", {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, True),
        ("openai", "required", True),
        ("own", ODD, False),
        ("own", SEARCH, True),
        ("openrouter", {"type": "openrouter:web_search"}, True),
    ],
)
def test_a_choice_goes_out_with_the_tool_that_it_is_of(
    host: str, choice: Any, is_sent: bool
) -> None:
    request = Request(
        "Where?",
        tools=[SEARCH, ROUTED, LOOK] if host == "openrouter" else [SEARCH, LOOK],
        tool_choice=choice,
    )
    link = chat(host)
    send = Send(
        rung="ask", backend=0, wait=0, messages=request.messages, max_tokens=None, request=request
    )
    body = json.loads(link.encode(send, stream=False).body)
    assert body.get("tool_choice") == (choice if is_sent else None)
    losses = losses_of(request, link, link)
    assert any(each.startswith("tool_choice: ") for each in losses) is not is_sent


@in_both_forms
def test_a_grammar_is_told_where_a_tool_of_free_text_becomes_one_of_objects(
    api: str, given: Any, serve: Any
) -> None:
    made = told(serve, api, tools=[given, {"type": "custom", "name": "plain"}])
    keeps = api in ("openai", "responses")
    assert ("start: /a+/" in json.dumps(made.body)) is keeps
    lost = tuple(each for each in made.lost if "tool" in each)
    assert lost == (() if keeps else ("the grammar of the tool g: it has no form here",))


# choices of tools


FREE = {"type": "custom", "name": "note"}
FUNCTION: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "look"}},
    {"type": "function", "name": "look"},
    {"type": "tool", "name": "look"},
    {"tool": {"name": "look"}},
]
CUSTOM: list[dict[str, Any]] = [
    {"type": "custom", "custom": {"name": "note"}},
    {"type": "custom", "name": "note"},
    {"type": "tool", "name": "note"},
    {"tool": {"name": "note"}},
]
DEEP_ONES = [FUNCTION[0], CUSTOM[0]]
FLAT_ONES = [FUNCTION[1], CUSTOM[1]]
ALLOWED: list[dict[str, Any]] = [
    {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": DEEP_ONES}},
    {"type": "allowed_tools", "mode": "required", "tools": FLAT_ONES},
]
ONE = {"type": "allowed_tools", "mode": "required", "tools": [FUNCTION[1]]}
AUTO: list[Any] = ["auto", {"type": "auto"}, {"auto": {}}]
FORCED: list[Any] = ["required", {"type": "any"}, {"any": {}}]


def gemini(mode: str, *names: str) -> dict[str, Any]:
    config: dict[str, Any] = {"mode": mode}
    if names:
        config["allowedFunctionNames"] = [*names]
    return {"functionCallingConfig": config}


def allowed(*names: str) -> dict[str, Any]:
    return {"allowed_tools": {"mode": "any", "tools": [*names]}}


def cases() -> list[tuple[str, Any, Any]]:
    """Return protocols, choices, and what is to be sent for them; None where the protocol cannot
    say it.
    """
    found: list[tuple[str, Any, Any]] = []
    for given, name, place in ((FUNCTION, "look", 0), (CUSTOM, "note", 1)):
        sent = {
            "openai": DEEP_ONES[place],
            "responses": FLAT_ONES[place],
            "anthropic": {"type": "tool", "name": name},
        }
        sent |= {
            "gemini": gemini("ANY", name),
            "interactions": allowed(name),
            "bedrock": {"tool": {"name": name}},
            "ollama": None,
        }
        found += [(api, each, sent[api]) for api in PROTOCOLS for each in given]
    lists = {
        "openai": ALLOWED[0],
        "responses": ALLOWED[1],
        "gemini": gemini("ANY", "look", "note"),
        "interactions": allowed("look", "note"),
    }
    found += [(api, each, lists.get(api)) for api in PROTOCOLS for each in ALLOWED]
    single = {"anthropic": {"type": "tool", "name": "look"}, "bedrock": {"tool": {"name": "look"}}}
    found += [(api, ONE, sent) for api, sent in single.items()]
    words: dict[str, tuple[Any, Any]] = {
        **dict.fromkeys(("openai", "responses"), ("auto", "required")),
        "anthropic": ({"type": "auto"}, {"type": "any"}),
        "gemini": (gemini("AUTO"), gemini("ANY")),
        "interactions": ("auto", "any"),
        "bedrock": ({"auto": {}}, {"any": {}}),
    }
    for api, said in words.items():
        found += [
            (api, each, sent)
            for given, sent in zip((AUTO, FORCED), said, strict=True)
            for each in given
        ]
    return found


@pytest.mark.parametrize(("api", "choice", "sent"), cases(), ids=str)
def test_a_choice_is_sent_as_the_protocol_has_it_or_told(
    api: str,
    choice: Any,
    sent: Any,
    serve: Any,
) -> None:
    made = told(serve, api, tools=[LOOK, FREE], tool_choice=choice)
    body = made.body
    place = {"gemini": "toolConfig"}.get(api, "tool_choice")
    around = {"bedrock": "toolConfig", "interactions": "generation_config"}
    if api in around:
        place = "tool_choice" if api == "interactions" else "toolChoice"
        assert body[around[api]].get(place) == sent
    else:
        assert body.get(place) == sent
    assert any(each.startswith("tool_choice: ") for each in made.lost) is (sent is None)
    official.check(api, body)


@pytest.mark.parametrize(
    "choice", [{"type": ["tool"], "name": "look"}, {"type": None}, {}], ids=str
)
def test_what_is_no_choice_breaks_nothing(api: str, choice: Any, serve: Any) -> None:
    result = told(serve, api, tools=[LOOK], tool_choice=choice).result
    assert (result.text, result.attempts) == ("In the reeds.", 1)


# tools as Gemini has them: schemas of OpenAPI, and several tools in one object


OPENAPI: dict[str, Any] = {
    "type": "OBJECT",
    "propertyOrdering": ["type", "a"],
    "properties": {
        "a": {
            "type": "STRING",
            "nullable": True,
            "format": "enum",
            "enum": ["x", "y"],
            "example": "x",
        },
        "b": {
            "type": "ARRAY",
            "minItems": "2",
            "items": {
                "type": "INTEGER",
                "format": "int64",
                "nullable": False,
            },
        },
        "c": {
            "anyOf": [{"type": "NUMBER"}, {"type": "BOOLEAN"}],
            "nullable": True,
            "title": "C",
        },
        "type": {"type": "STRING", "maxLength": 9, "default": "OBJECT"},
        "nullable": {
            "type": "OBJECT",
            "properties": {"deep": {"type": "STRING", "nullable": True}},
        },
    },
    "required": ["a"],
}
JSON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "maxLength": 9, "default": "OBJECT"},
        "a": {
            "type": ["string", "null"],
            "enum": ["x", "y", None],
            "examples": ["x"],
        },
        "b": {
            "type": "array",
            "minItems": 2,
            "items": {"type": "integer", "format": "int64"},
        },
        "c": {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "null"}], "title": "C"},
        "nullable": {"type": "object", "properties": {"deep": {"type": ["string", "null"]}}},
    },
    "required": ["a"],
}
LOWER = {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}
SNAKE = {
    "type": "OBJECT",
    "properties": {"a": {"any_of": [{"type": "STRING"}], "property_ordering": []}},
}
REFERRING = {"type": "OBJECT", "properties": {"a": {"ref": "#/$defs/x", "nullable": True}}}
REFERRED = {
    "type": "object",
    "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}},
}
OTHERS = [api for api in PROTOCOLS if api != "gemini"]


def declared(schema: Any, name: str = "parameters") -> dict[str, Any]:
    return {
        "functionDeclarations": [
            {
                "name": "f",
                "description": "d",
                name: schema,
            }
        ]
    }


def schema_in(api: str, body: dict[str, Any]) -> Any:
    [tool] = body["toolConfig"]["tools"] if api == "bedrock" else body["tools"]
    tool = tool.get("function", tool.get("toolSpec", tool))
    held = next(
        tool[name] for name in ("parameters", "input_schema", "inputSchema") if name in tool
    )
    return held["json"] if api == "bedrock" else held


@pytest.mark.parametrize(
    ("tool", "sent"),
    [
        (declared(OPENAPI), JSON_SCHEMA),
        ({"name": "f", "parameters": OPENAPI}, JSON_SCHEMA),
        (declared(JSON_SCHEMA, "parametersJsonSchema"), JSON_SCHEMA),
        (declared(LOWER), {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
        (declared(SNAKE), {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}),
        (declared(REFERRING), REFERRED),
    ],
    ids=["openapi", "bare", "json schema", "lower case", "snake case", "reference"],
)
@pytest.mark.parametrize("api", OTHERS)
def test_its_schemas_are_written_as_json_schema(
    api: str,
    tool: Any,
    sent: Any,
    serve: Any,
) -> None:
    body = told(serve, "gemini", api, tools=[tool]).body
    assert schema_in(api, body) == sent
    assert [*schema_in(api, body)["properties"]] == [*sent["properties"]]
    # whose client's types know the types of arguments alone, while the server reads JSON Schema
    if api != "ollama":
        official.check(api, body)


@pytest.mark.parametrize("tool", [declared(OPENAPI), declared(JSON_SCHEMA, "parametersJsonSchema")])
def test_gemini_is_sent_its_own_word_for_word(tool: Any, serve: Any) -> None:
    assert told(serve, "openai", "gemini", tools=[tool]).body["tools"] == [tool]


MIXED = {**declared(OPENAPI), "googleSearch": {}, "codeExecution": {}}


@pytest.mark.parametrize(
    "tools", [[MIXED], [declared(OPENAPI), {"googleSearch": {}, "codeExecution": {}}]]
)
@pytest.mark.parametrize("api", OTHERS)
def test_what_its_server_runs_is_told_wherever_it_stands(api: str, tools: Any, serve: Any) -> None:
    made = told(serve, "gemini", api, tools=tools)
    assert schema_in(api, made.body) == JSON_SCHEMA
    lost = (NO_FORM.format("googleSearch"), NO_FORM.format("codeExecution"))
    assert made.losses[0] == ()
    assert tuple(each for each in made.lost if "tool" in each) == lost
    assert made.notes[0] is None
    assert "; ".join(lost) in str(made.notes[1])
    assert {
        name: value for tool in made.bodies[0]["tools"] for name, value in tool.items()
    } == MIXED
