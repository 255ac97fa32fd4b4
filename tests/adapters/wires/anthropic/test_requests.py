"""What goes out to Anthropic: valid by the types of its own client, strictly, and what was
meant.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import (
    Anthropic,
    Capabilities,
    ConfigurationError,
    MediaPart,
    Message,
    OpenAIChat,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.adapters.wires.anthropic.shapes import ANTHROPIC
from rungwise.core import CitationPart, OpaquePart, ReasoningPart, Request
from rungwise.testing import conversations
from support import official
from support.protocols import body_of, chat_call, encoded
from support.sampling import examples

NEW = "claude-opus-5-5"
MIDDLE = "claude-sonnet-4-6"
OLD = "claude-sonnet-4-5"
OLDEST = "claude-3-5-haiku-latest"
QUESTION = {"role": "user", "content": "Which bird is this?"}
CACHE = {"type": "ephemeral", "ttl": "1h"}
PIXEL = "iVBORw0KGgoAAAANSUhEUg=="
NO_ARGUMENTS = {"type": "object", "properties": {}}
FUNCTION = {"name": "look", "description": "Look it up.", "parameters": NO_ARGUMENTS}
CHAT_TOOL = {"type": "function", "function": FUNCTION}
TOOL = {"name": "look", "description": "Look it up.", "input_schema": NO_ARGUMENTS}
SCHEMA = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "additionalProperties": False,
}
WANTED = {
    "type": "json_schema",
    "json_schema": {
        "name": "bird",
        "schema": SCHEMA,
        "strict": True,
    },
}


def backend(model: str = NEW, **options: Any) -> Any:
    return Anthropic(model, base_url="http://localhost/v1", **options)


ME = backend().provider
THINKING = {"type": "thinking", "thinking": "Grey. A heron.", "signature": "c2ln"}
SEALED = {"type": "redacted_thinking", "data": "ZW5j"}
SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"bird": "heron"}}
THOUGHT = ReasoningPart("Grey. A heron.", "c2ln", ME)
CALL = ToolCall("toolu_1", "look", '{"bird": "heron"}')


def sent(*messages: Any, to: Anthropic | None = None, **fields: Any) -> dict[str, Any]:
    """Return the body of a request, which is valid."""
    body: dict[str, Any] = body_of(
        to or backend(), *(messages or (QUESTION,)), **{"max_tokens": None, **fields}
    )
    check(body)
    return body


# what is valid


OLDER = {"temperature", "top_p", "top_k"}
"""What models up to 4.6 take, and the client of today knows no more."""


def check(body: dict[str, Any]) -> None:
    """Check that a body is valid by the official types, and by what the API says besides."""
    official.check("anthropic", {name: value for name, value in body.items() if name not in OLDER})
    assert body["messages"][0]["role"] == "user"
    for message in body["messages"]:
        assert message.keys() == {"role", "content"}
        assert message["role"] in ("user", "assistant")
        check_content(message["content"])
    check_content(body.get("system", "x"))
    assert body["max_tokens"] >= 1
    thinking = body.get("thinking", {})
    assert not 0 < body["max_tokens"] <= thinking.get("budget_tokens", 0)
    assert thinking.get("budget_tokens", 1024) >= 1024
    assert "tools" in body or "tool_choice" not in body


def check_content(content: Any) -> None:
    if isinstance(content, str):
        assert content.strip()
        return
    assert content
    results = [block["type"] == "tool_result" for block in content]
    assert results == sorted(results, reverse=True)
    for block in content:
        if block["type"] == "text":
            assert block["text"].strip()
        elif block["type"] == "tool_result" and not isinstance(block.get("content", ""), str):
            check_content(block["content"])


# messages


def test_system_messages_go_out_apart_with_their_marks() -> None:
    marked = [{"type": "text", "text": "Know birds.", "cache_control": CACHE}]
    body = sent(
        {"role": "system", "content": marked}, Message.saying("system", "Be brief."), QUESTION
    )
    assert body["system"] == [*marked, {"type": "text", "text": "Be brief."}]
    assert "system" not in sent(QUESTION)


SPEECH = {"type": "text", "text": "I look."}
RESULT = {
    "type": "tool_result",
    "tool_use_id": "toolu_1",
    "content": "Ardea.",
    "cache_control": CACHE,
}
OWN = [
    {"role": "user", "content": [{"type": "text", "text": "Which?", "cache_control": CACHE}]},
    {"role": "assistant", "content": [THINKING, SEALED, SEARCH, SPEECH, USE]},
    {"role": "user", "content": [RESULT]},
]


def test_messages_of_its_own_form_go_out_word_for_word() -> None:
    assert sent(*OWN)["messages"] == OWN
    assert all(map(ANTHROPIC.is_own, OWN))


def test_what_another_provider_may_have_signed_is_left_out() -> None:
    answer = {"role": "assistant", "content": [SPEECH, USE]}
    assert sent(*OWN, portable=True)["messages"] == [OWN[0], answer, OWN[2]]


def test_what_it_has_said_goes_back_word_for_word_and_in_order() -> None:
    place = {
        "type": "char_location",
        "cited_text": "x",
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 1,
    }
    direct = {"caller": {"type": "direct"}}
    parts = (
        THOUGHT,
        OpaquePart(ME, SEALED),
        OpaquePart(ME, SEARCH),
        TextPart("A heron."),
        CitationPart("x", "", "", ("characters", 0, 1), place, ME),
        TextPart("\n\n"),
        ToolCall("toolu_1", "look", '{"bird": "heron"}', direct, ME),
    )
    result = Message("tool", (ToolResult("toolu_1", "look", "Ardea."),))
    messages = (QUESTION, Message("assistant", parts), result)
    speech = {"type": "text", "text": "A heron.", "citations": [place]}
    content = sent(*messages)["messages"][1]["content"]
    assert content == [THINKING, SEALED, SEARCH, speech, {**USE, **direct}]
    foreign = sent(*messages, to=backend("another"))["messages"]
    assert [block["type"] for block in foreign[1]["content"]] == ["text", "tool_use"]
    assert sent(*messages, unsigned=True)["messages"] == foreign


def test_results_stand_first_in_one_turn() -> None:
    calls = Message("assistant", (ToolCall("a", "look", "{}"), ToolCall("b", "look", "")))
    results = Message(
        "tool", (ToolResult("a", "look", "One."), ToolResult("b", "look", "", is_fault=True))
    )
    body = sent(QUESTION, calls, results, Message.saying("user", "And?"))
    _, answer, user = body["messages"]
    assert answer == {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "a", "name": "look", "input": {}},
            {"type": "tool_use", "id": "b", "name": "look", "input": {}},
        ],
    }
    fault = {
        "type": "tool_result",
        "tool_use_id": "b",
        "content": "(the tool failed and said nothing)",
        "is_error": True,
    }
    assert user["role"] == "user"
    assert user["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "One."},
        fault,
        {"type": "text", "text": "And?"},
    ]
    nothing = Message("tool", (ToolResult("toolu_1", "look", ""),))
    empty = sent(QUESTION, Message("assistant", (CALL,)), nothing)
    assert empty["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1"}]


MEDIA = [
    (MediaPart("image", PIXEL, "image/png"), "image", "base64"),
    (MediaPart("image", url="https://example.org/a.png"), "image", "url"),
    (MediaPart("image", PIXEL, "image/tiff"), "text", None),
    (MediaPart("file", "JVBERi0=", "application/pdf", name="a.pdf"), "document", "base64"),
    (MediaPart("file", url="https://example.org/a.pdf"), "document", "url"),
    (MediaPart("file", "SGVyb25z", "text/plain"), "document", "text"),
    (MediaPart("file", "/w==", "text/plain"), "text", None),
    (MediaPart("file", "AAAA", "application/zip"), "text", None),
    (MediaPart("audio", "AAAA", "audio/wav"), "text", None),
]


@pytest.mark.parametrize(("part", "kind", "source"), MEDIA)
def test_pictures_and_documents_have_their_blocks(
    part: MediaPart, kind: str, source: str | None
) -> None:
    part = MediaPart(part.kind, part.data, part.media_type, part.url, part.name, cache=CACHE)
    calls = Message("assistant", (CALL,))
    result = Message("tool", (ToolResult("toolu_1", "look", "See:", media=(part,)),))
    body = sent(Message("user", (part, TextPart("Which?", CACHE))), calls, result)
    block = body["messages"][0]["content"][0]
    assert block["type"] == kind
    assert block.get("source", {}).get("type") == source
    assert block["cache_control"] == CACHE
    assert body["messages"][0]["content"][1]["cache_control"] == CACHE
    told = body["messages"][2]["content"][0]["content"]
    assert [each["type"] for each in told] == ["text", kind]


def test_a_conversation_begins_with_the_user_and_has_something_in_it() -> None:
    body = sent(Message.saying("assistant", "A heron."), QUESTION)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert sent({"role": "system", "content": "Be brief."})["messages"][0]["role"] == "user"
    only_thought = Message("assistant", (ReasoningPart("Hm."),))
    [message] = sent(QUESTION, only_thought, QUESTION)["messages"]
    assert message["role"] == "user"


def test_what_is_written_in_its_own_form_stays_word_for_word_beside_what_is_not() -> None:
    own = [OWN[0], {"role": "assistant", "content": [THINKING, SPEECH]}]
    call = chat_call("functions.look:0", "look")
    foreign = [
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": "functions.look:0",
            "content": "It is.",
        },
    ]
    messages = sent(*own, *foreign)["messages"]
    assert messages[:2] == own
    [use] = messages[3]["content"]
    assert messages[4]["content"][0]["tool_use_id"] == use["id"] != "functions.look:0"


def test_calls_of_another_provider_have_ids_that_fit_at_the_first_backend_too() -> None:
    call = ToolCall("functions.look:0", "look", "{}", provider="api.moonshot.ai/kimi")
    result = Message("tool", (ToolResult("functions.look:0", "look", "It is."),))
    _, calling, answering = sent(QUESTION, Message("assistant", (call,)), result)["messages"]
    [use] = calling["content"]
    [answer] = answering["content"]
    assert use["id"] == answer["tool_use_id"] != "functions.look:0"


def test_tools_are_written_and_marked() -> None:
    search = {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 3,
    }
    own = [{**TOOL, "cache_control": CACHE}, search]
    assert sent(tools=own)["tools"] == own
    strict = {**CHAT_TOOL, "function": {**FUNCTION, "strict": True}, "cache_control": CACHE}
    foreign = {"type": "code_interpreter", "container": {"type": "auto"}}
    body = sent(tools=[strict, search, foreign])
    assert body["tools"] == [
        {
            **TOOL,
            "strict": True,
            "cache_control": CACHE,
        },
        search,
    ]
    assert "tools" not in sent(tools=[foreign], parameters={"tool_choice": "auto"})
    assert backend().lost(Request("x", tools=[foreign, search])) == (
        "the tool code_interpreter: it has no form here",
    )
    made = ANTHROPIC.strictly(ANTHROPIC.tool_of("look", "Look it up.", SCHEMA), True)
    assert made == {
        "name": "look",
        "description": "Look it up.",
        "input_schema": SCHEMA,
        "strict": True,
    }


@settings(max_examples=examples(60))
@given(conversations(forms=("call", "message", "block"), scattered=True), st.booleans())
def test_any_conversation_is_valid(messages: Any, portable: bool) -> None:
    sent(*messages, portable=portable)


# parameters


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"stop": ["END", " ", "."]}, {"stop_sequences": ["END", "."]}),
        ({"stop": "\n"}, {}),
        ({"stop_sequences": ["END"]}, {"stop_sequences": ["END"]}),
        ({"response_format": {"type": "json_object"}}, {}),
        ({"response_format": {"type": "text"}}, {}),
        ({"metadata": {"user_id": "u"}}, {"metadata": {"user_id": "u"}}),
        ({"tool_choice": {"type": "allowed_tools", "tools": []}}, {}),
        (
            {"parallel_tool_calls": False},
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ),
        ({"parallel_tool_calls": True}, {}),
        (
            {"parallel_tool_calls": False, "tool_choice": "required"},
            {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        ),
        ({"parallel_tool_calls": False, "tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    ],
)
def test_common_parameters_are_said_in_its_words(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    body = sent(parameters=given, tools=[TOOL])
    usual = ("model", "messages", "max_tokens", "tools")
    assert {name: value for name, value in body.items() if name not in usual} == expected


EFFORTS = [
    (NEW, "none", {"type": "disabled"}, None),
    (NEW, "minimal", {"type": "adaptive"}, "low"),
    (NEW, "high", {"type": "adaptive"}, "high"),
    (NEW, "max", {"type": "adaptive"}, "max"),
    (MIDDLE, "medium", {"type": "adaptive"}, "medium"),
    (MIDDLE, "xhigh", {"type": "adaptive"}, "high"),
    (OLD, "none", None, None),
    (OLD, "low", {"type": "enabled", "budget_tokens": 1024}, None),
    (OLD, "medium", {"type": "enabled", "budget_tokens": 2048}, None),
    (OLD, "high", {"type": "enabled", "budget_tokens": 3276}, None),
    (OLDEST, "high", None, None),
    (NEW, "gremlins", None, None),
]


@pytest.mark.parametrize(("model", "effort", "thinking", "level"), EFFORTS)
def test_effort_is_said_as_the_model_takes_it(
    model: str,
    effort: str,
    thinking: Any,
    level: str | None,
) -> None:
    body = sent(to=backend(model), parameters={"reasoning_effort": effort})
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == level
    lost = backend(model).lost(Request("x", parameters={"reasoning_effort": effort}))
    assert bool(lost) is ((thinking is None and effort != "none") or level not in (effort, None))


def test_the_words_of_its_own_win() -> None:
    own = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "reasoning_effort": "high"}
    assert sent(to=backend(OLD), parameters=own)["thinking"] == own["thinking"]
    config = {
        "output_config": {"effort": "max"},
        "reasoning_effort": "low",
        "response_format": WANTED,
    }
    assert sent(parameters=config)["output_config"] == {
        "effort": "max",
        "format": {"type": "json_schema", "schema": SCHEMA},
    }


def test_sampling_goes_to_models_that_take_it() -> None:
    sampling = {"temperature": 1.7, "top_p": 0.9}
    assert not OLDER & sent(parameters=sampling).keys()
    body = sent(to=backend(OLD), parameters=sampling)
    assert body["temperature"] == 1
    assert body["top_p"] == 0.9
    thinking = sent(to=backend(OLD), parameters={**sampling, "reasoning_effort": "low"})
    assert not OLDER & thinking.keys(), "reasoning rules them out"
    assert backend().lost(
        Request(
            "x",
            parameters={
                **sampling,
                "seed": 1,
                "stop": " ",
            },
        )
    ) == (
        "seed: Anthropic has none",
        "temperature: this model takes none",
        "top_p: this model takes none",
        "stop: no blank sequence is taken",
    )
    assert backend(OLD).lost(Request("x", parameters=sampling)) == (
        "temperature above 1: it is sent as 1",
    )


@pytest.mark.parametrize(
    ("model", "wanted", "why"),
    [
        (NEW, {"type": "json_object"}, "Anthropic has JSON by a schema alone"),
        (OLDEST, WANTED, "this model cannot be held to JSON"),
    ],
)
def test_json_that_cannot_be_asked_for_is_lost(model: str, wanted: Any, why: str) -> None:
    [lost] = backend(model).lost(Request("x", parameters={"response_format": wanted}))
    assert lost == f"response_format: asked for in words ({why})"
    assert "output_config" not in sent(to=backend(model), parameters={"response_format": wanted})


# the cap


def test_there_is_always_a_cap() -> None:
    assert sent()["max_tokens"] == backend().max_tokens == 4096
    assert backend(capabilities=Capabilities(largest_output=1000)).max_tokens == 1000
    reasoning = {"thinking": {"type": "enabled", "budget_tokens": 8000}}
    assert sent(to=backend(OLD, parameters=reasoning))["max_tokens"] == 8000 + 4096


@pytest.mark.parametrize(
    ("cap", "budget"), [(9000, 8000), (8000, 4000), (1500, 1024), (1024, None), (16, None)]
)
def test_reasoning_never_fills_the_cap(cap: int, budget: int | None) -> None:
    reasoning = {"thinking": {"type": "enabled", "budget_tokens": 8000}}
    body = sent(to=backend(OLD), parameters=reasoning, max_tokens=cap)
    assert body["max_tokens"] == cap
    assert body.get("thinking", {}).get("budget_tokens") == budget
    assert "thinking" not in sent(
        to=backend(OLD), parameters={"reasoning_effort": "high"}, max_tokens=1024
    )


# reasoning


ENABLED = {"type": "enabled"}


@pytest.mark.parametrize(
    ("model", "given", "thinking", "effort"),
    [
        (
            OLD,
            {"thinking": {**ENABLED, "budget_tokens": 3000}},
            {**ENABLED, "budget_tokens": 1024},
            None,
        ),
        (OLD, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"type": "disabled"}, None),
        (OLD, {"reasoning_effort": "high"}, {"type": "enabled", "budget_tokens": 1024}, None),
        (OLD, {}, None, None),
        (NEW, {"reasoning_effort": "high"}, {"type": "adaptive"}, "low"),
        (NEW, {"reasoning_effort": "low"}, {"type": "disabled"}, "low"),
        (NEW, {}, None, "low"),
        (NEW, {"thinking": {"type": "disabled"}}, {"type": "disabled"}, None),
    ],
)
def test_reasoning_is_lowered_where_it_was_on(
    model: str,
    given: Any,
    thinking: Any,
    effort: Any,
) -> None:
    body = sent(to=backend(model), parameters=given, lower_reasoning=True)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


LOOP = (
    QUESTION,
    Message("assistant", (TextPart("I look."), CALL)),
    Message("tool", (ToolResult("toolu_1", "", "x"),)),
)


def test_reasoning_is_left_out_of_a_tool_loop_that_was_begun_without() -> None:
    on = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    to = backend(OLD)
    thought = ReasoningPart("Grey.", "c2ln", to.provider)
    assert "thinking" not in sent(*LOOP, to=to, parameters=on)
    assert "thinking" in sent(
        LOOP[0], Message("assistant", (thought, CALL)), LOOP[2], to=to, parameters=on
    )
    assert "thinking" in sent(
        *LOOP, Message.saying("assistant", "A heron."), QUESTION, to=to, parameters=on
    )
    foreign = ReasoningPart("Grey.", "c2ln", "elsewhere/m")
    assert "thinking" not in sent(
        LOOP[0], Message("assistant", (foreign, CALL)), LOOP[2], to=to, parameters=on
    )
    # An effort lets the model choose, and the API takes any turn then.
    assert sent(*LOOP, parameters={"reasoning_effort": "high"})["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize("model", [OLD, NEW])
def test_reasoning_is_left_out_where_a_tool_is_forced(model: str) -> None:
    asked = {"reasoning_effort": "high", "tool_choice": "required"}
    assert "thinking" not in sent(to=backend(model), tools=[TOOL], parameters=asked)
    assert "thinking" in sent(
        to=backend(model), tools=[TOOL], parameters={**asked, "tool_choice": "auto"}
    )


# prefill


@pytest.mark.parametrize(
    ("model", "own", "parameters", "expected"),
    [
        (OLD, {}, {}, True),
        (NEW, {}, {}, False),
        (OLD, {}, {"reasoning_effort": "low"}, False),
        (OLD, {}, {"reasoning_effort": "none"}, True),
        (OLD, {}, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, False),
        (OLD, {"thinking": {"type": "enabled", "budget_tokens": 2000}}, {}, False),
        (OLD, {"reasoning_effort": "low"}, {"reasoning_effort": "none"}, True),
        (OLD, {}, {"response_format": WANTED}, False),
        (OLD, {}, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, False),
        (OLDEST, {}, {"reasoning_effort": "low"}, True),
    ],
)
def test_prefill_depends_on_what_is_asked(
    model: str,
    own: Any,
    parameters: Any,
    expected: bool,
) -> None:
    made = backend(model, parameters=own)
    assert made.prefills_with(parameters) is expected
    if not parameters:
        assert made.prefills is expected


def test_the_last_of_several_texts_that_is_gone_on_from_ends_in_no_blank() -> None:
    to = backend(OLD)
    said = [{"type": "text", "text": "A"}, {"type": "text", "text": " heron, "}]
    body = sent(QUESTION, {"role": "assistant", "content": said}, to=to, prefill=True)
    assert body["messages"][-1]["content"][-1] == {"type": "text", "text": " heron,"}


# headers and keys


def test_the_key_and_the_version_stand_in_the_headers() -> None:
    made = backend(api_key="sk-ant-9d2f6b1c44e07a35", beta=["one-2026-01-01", "two-2026-01-01"])
    http = encoded(made, max_tokens=1)
    assert http.url == "http://localhost/v1/messages"
    assert {
        name: http.headers[name] for name in ("x-api-key", "anthropic-version", "anthropic-beta")
    } == {
        "x-api-key": "sk-ant-9d2f6b1c44e07a35",
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "one-2026-01-01,two-2026-01-01",
    }
    assert "authorization" not in http.headers
    assert "9d2f6b" not in repr(made)


@pytest.mark.parametrize("beta", [7, [7], [""], ["a\nb"], [None]])
def test_a_beta_feature_is_a_name(beta: Any) -> None:
    with pytest.raises(ConfigurationError, match="beta must be a list"):
        backend(beta=beta)


def test_the_key_of_the_environment_goes_to_its_own_host_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-9d2f6b1c44e07a35")
    assert Anthropic(NEW).problem is None
    assert Anthropic(NEW, base_url="https://elsewhere.example.org/v1").problem is not None
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert "api_key is missing: give the key, set ANTHROPIC_API_KEY, or " in (
        Anthropic(NEW).problem or ""
    )
    elsewhere = Anthropic(NEW, base_url="https://proxy.example.org").problem
    assert (
        elsewhere
        == "api_key is missing: give the key, or api_key_required=False for a server without keys"
    )


def test_parameters_of_its_own_do_not_go_to_another_protocol() -> None:
    from rungwise.fsm.call.chain.for_backend import parameters_for

    request = Request("x", parameters={"output_config": {"effort": "low"}, "stop": "END"})
    chat = OpenAIChat("m", base_url="http://localhost/v1")
    assert dict(parameters_for(request, backend(), chat)) == {
        "stop": "END",
        "reasoning_effort": "low",
    }
    assert dict(parameters_for(request, backend(), backend(OLD))) == dict(request.parameters)
