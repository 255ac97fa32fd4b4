"""What goes over the wire to Ollama's chat."""

from typing import Any

import pytest

from rungwise import Capabilities, MediaPart, Message, Ollama, TextPart, ToolCall, ToolResult
from rungwise.core import ReasoningPart
from support import official, protocols
from support.protocols import encoded

KEY = "0123456789abcdef0123456789abcdef"
USER = {"role": "user", "content": "hi"}
CALL = ToolCall("call_1", "look", '{"bird": "heron"}')
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJR"
    "U5ErkJggg=="
)


def body_of(*messages: Any, to: Ollama | None = None, known: bool = True, **fields: Any) -> Any:
    body = protocols.body_of(to or Ollama("m"), *(messages or (USER,)), **fields)
    if known:  # to its own client
        official.check("ollama", body)
    return body


def sent(*messages: Any, **fields: Any) -> Any:
    return body_of(*messages, **fields)["messages"]


# ---- where it goes
# --------------------------------------------------------------------------------------------------


def test_a_server_of_ones_own_needs_no_key() -> None:
    backend = Ollama("llama3.2")
    request = encoded(backend)
    assert backend.problem is None
    assert request.url == "http://localhost:11434/api/chat"
    assert "authorization" not in request.headers
    assert encoded(Ollama("m", base_url="http://box.lan:11434/api/chat")).url.endswith(
        ":11434/api/chat"
    )


def test_a_key_goes_to_the_cloud_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    cloud = Ollama("gpt-oss:120b", base_url="https://ollama.com")
    assert encoded(cloud).headers["authorization"] == f"Bearer {KEY}"
    assert encoded(cloud).url == "https://ollama.com/api/chat"
    assert "authorization" not in encoded(Ollama("m")).headers
    monkeypatch.delenv("OLLAMA_API_KEY")
    assert "api_key is missing" in str(Ollama("m", base_url="https://ollama.com").problem)


def test_the_address_that_a_server_listens_on_is_not_where_requests_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:8080")
    assert encoded(Ollama("m")).url == "http://localhost:11434/api/chat"


# ---- parameters
# --------------------------------------------------------------------------------------------------


SCHEMA = {"type": "object", "properties": {"bird": {"type": "string"}}}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"response_format": {"type": "json_object"}}, {"format": "json"}),
        ({"response_format": {"type": "text"}}, {}),
        ({"format": SCHEMA, "response_format": {"type": "json_object"}}, {"format": SCHEMA}),
        *[
            ({"reasoning_effort": effort}, {"think": think})
            for effort, think in {
                "none": False,
                "minimal": "low",
                "low": "low",
                "high": "high",
                "xhigh": "high",
            }.items()
        ],
        ({"think": True}, {"think": True}),
        ({"tool_choice": "auto", "parallel_tool_calls": True}, {}),
        (
            {"keep_alive": "10m", "truncate": False, "shift": False},
            {"keep_alive": "10m", "truncate": False, "shift": False},
        ),
        ({"logprobs": True, "top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"options": {"num_ctx": 8192}}, {"options": {"num_ctx": 8192}}),
        ({"num_ctx": 8192, "options": {"top_k": 4}}, {"options": {"num_ctx": 8192, "top_k": 4}}),
    ],
)
def test_parameters(asked: dict[str, Any], expected: dict[str, Any]) -> None:
    body = body_of(parameters=asked, known="shift" not in asked)
    assert body == {
        "model": "m",
        "messages": [USER],
        "stream": False,
        **expected,
    }
    assert body_of(to=Ollama("m", parameters=asked), known=False) == body
    assert not asked.keys() & Ollama.lost_parameters(asked).keys()


def test_the_requests_parameters_win_over_the_backends() -> None:
    backend = Ollama(
        "m",
        parameters={
            "think": True,
            "temperature": 0.1,
            "options": {"num_ctx": 4096},
        },
    )
    body = body_of(
        to=backend, parameters={"reasoning_effort": "none", "options": {"temperature": 0.9}}
    )
    assert body["think"] is False
    assert body["options"] == {"num_ctx": 4096, "temperature": 0.9}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"tool_choice": "required"}, "leaves it to the model"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "look"}}},
            "leaves it to the model",
        ),
        ({"parallel_tool_calls": False}, "leaves it to the model"),
        ({"reasoning_effort": "frantic"}, "none, minimal, low"),
        ({"response_format": {"type": "grammar"}}, "json_schema"),
    ],
)
def test_what_cannot_be_said_is_named_and_not_sent(asked: dict[str, Any], why: str) -> None:
    (name,) = asked
    assert why in Ollama.lost_parameters(asked)[name]
    assert body_of(parameters=asked) == {
        "model": "m",
        "messages": [USER],
        "stream": False,
    }


@pytest.mark.parametrize(
    ("model", "think", "expected"),
    [
        *[("qwen3", think, "low") for think in ("max", "high", "medium")],
        *[("qwen3", think, False) for think in ("low", True, None, False)],
        *[("gpt-oss:20b", think, "low") for think in ("high", "low", True, None)],
    ],
)
def test_thinking_is_lowered(model: str, think: Any, expected: Any) -> None:
    given = {} if think is None else {"think": think}
    assert body_of(to=Ollama(model), parameters=given, lower_reasoning=True)["think"] == expected


# ---- messages
# --------------------------------------------------------------------------------------------------

OWN = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is this?", "images": [PIXEL]},
    {
        "role": "assistant",
        "content": "",
        "thinking": "A bird?",
        "tool_calls": [
            {
                "id": "call_9",
                "function": {
                    "index": 0,
                    "name": "look",
                    "arguments": {"bird": "heron"},
                },
            }
        ],
    },
    {"role": "tool", "tool_name": "look", "content": "A heron."},
]


def test_messages_of_ones_own_go_out_word_for_word() -> None:
    assert sent(*OWN, known=False) == OWN


def test_what_has_no_place_is_named() -> None:
    url = "https://example.org/heron.png"
    parts = (
        TextPart("See "),
        MediaPart("image", url=url),
        MediaPart("file", data="AAAA", name="heron.pdf"),
    )
    assert sent(Message("user", parts)) == [
        {"role": "user", "content": f"See \n\n(image: {url})\n\n(file: heron.pdf)"}
    ]


def test_pictures_of_a_tool_come_behind_its_result() -> None:
    result = ToolResult("call_1", "look", "Here.", media=(MediaPart("image", data=PIXEL),))
    assert sent(USER, Message("assistant", (CALL,)), Message("tool", (result,)))[2:] == [
        {"role": "tool", "tool_name": "look", "content": "Here."},
        {"role": "user", "content": "", "images": [PIXEL]},
    ]


def test_the_models_own_thinking_goes_back_to_it_and_to_no_other() -> None:
    backend = Ollama("m")
    own = ReasoningPart("A bird?", provider=backend.provider)
    other = ReasoningPart("A bird?", provider="ollama.com/n")
    for thought, expected in ((own, "A bird?"), (other, None)):
        history = [USER, Message("assistant", (thought, TextPart("A heron."))), USER]
        for fields in ({}, {"portable": True}):
            assert sent(*history, to=backend, **fields)[1].get("thinking") == expected
        assert "thinking" not in sent(*history, to=backend, unsigned=True)[1]
        assert sent(*history, to=backend, restore_reasoning=True)[1]["thinking"] == "A bird?"


def test_after_a_switch_thinking_that_may_be_anothers_is_left_out() -> None:
    history = [
        USER,
        {
            "role": "assistant",
            "content": "A heron.",
            "thinking": "A bird?",
        },
        USER,
    ]
    assert sent(*history) == history
    assert sent(*history, portable=True) == [
        USER,
        {"role": "assistant", "content": "A heron."},
        USER,
    ]


def test_a_turn_is_continued_where_the_caller_knows_that_the_template_does() -> None:
    allowed = Ollama("m", capabilities=Capabilities(prefill=True))
    assert Ollama("m").prefills is False
    assert allowed.prefills is True


# ---- tools
# --------------------------------------------------------------------------------------------------

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": SCHEMA,
    },
}


@pytest.mark.parametrize(
    "tool",
    [
        TOOL,
        {"type": "function", "function": {**TOOL["function"], "strict": True}},  # type: ignore[dict-item]
        {
            "type": "function",
            "name": "look",
            "description": "Look.",
            "parameters": SCHEMA,
            "strict": False,
        },
        {"name": "look", "description": "Look.", "input_schema": SCHEMA},
        {
            "functionDeclarations": [
                {
                    "name": "look",
                    "description": "Look.",
                    "parameters": SCHEMA,
                }
            ]
        },
    ],
)
def test_tools_of_any_form_are_written(tool: dict[str, Any]) -> None:
    assert body_of(tools=[tool])["tools"] == [TOOL]


def test_a_tool_that_a_provider_runs_has_no_form_here() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert body_of(tools=[TOOL, search])["tools"] == [TOOL]
    assert Ollama("m").shapes.lost_tools([TOOL, search]) == [search]


def test_no_tool_is_called_where_none_is_offered() -> None:
    assert "tools" not in body_of(tools=[TOOL], parameters={"tool_choice": "none"})
    assert body_of(tools=[TOOL], parameters={"tool_choice": "auto"})["tools"] == [TOOL]
