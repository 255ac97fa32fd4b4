"""The adapter for chat completions: what goes over the wire, and what is read from it."""

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import ConfigurationError, OpenAIChat, Prices, Reasoning, Text, ToolCall, Usage
from rungwise.adapters.wires.chat.dialects import STOP_REASONS
from rungwise.core import Failure, Reply
from support import protocols
from support.protocols import encoded
from support.texts import cut

KEY = "sk-proj-real-looking-0123456789"
LOCAL = "http://127.0.0.1:8000/v1"
USER = {"role": "user", "content": "hi"}


def backend(model: str = "m", **fields: Any) -> Any:
    return OpenAIChat(model, **{"base_url": LOCAL, **fields})


def body_of(*messages: Any, to: OpenAIChat | None = None, **fields: Any) -> Any:
    return protocols.body_of(to or backend(), *(messages or (USER,)), **fields)


def parameters_in(body: dict[str, Any]) -> dict[str, Any]:
    for name in ("model", "messages", "stream"):
        del body[name]
    return body


# ---- what a backend is
# -----------------------------------------------------------------------------------------------


def test_the_defaults() -> None:
    chat = OpenAIChat("gpt-4o", api_key=KEY)
    assert chat.name == "api.openai.com/gpt-4o"
    assert chat.problem is None
    assert chat.places == {("api.openai.com", "gpt-4o"), ("https://api.openai.com/v1", "gpt-4o")}
    assert chat.origin == "https://api.openai.com"
    assert not chat.prefills
    assert not chat.echoes
    assert chat.prices is None
    assert OpenAIChat("gpt-4o", api_key=KEY, name="primary").name == "primary"


def test_identities_see_through_the_spelling_of_a_url() -> None:
    one = OpenAIChat("m", base_url="https://API.example.com:443/v1/", api_key=KEY)
    two = OpenAIChat("m", base_url="https://api.example.com/v1/chat/completions", api_key=KEY)
    assert one.identities == two.identities
    assert backend().account == {("127.0.0.1:8000", "m"), (LOCAL, "m")}
    assert backend().identities == {("127.0.0.1:8000", "m, openai"), (LOCAL, "m, openai")}
    assert backend().identities.isdisjoint(backend(base_url="http://127.0.0.1:8001/v1").identities)


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        "  ",
        "\n",
        "sk-...",
        "sk-xxxxxxxx",
        "YOUR_API_KEY",
        "your-key-here",
        "sk-your-key",
        "changeme",
        "<your key>",
        "${OPENAI_API_KEY}",
        "$OPENAI_API_KEY",
        "{{ key }}",
        "EMPTY",
        "none",
        "OPENAI_API_KEY",
        "xxx",
        "****",
        "insert key",
        "todo",
        "placeholder",
        "api-key",
    ],
)
def test_a_missing_or_placeholder_key_is_a_problem_except_locally(key: str | None) -> None:
    problem = OpenAIChat("m", api_key=key).problem
    assert problem
    assert "api_key" in problem
    assert backend(api_key=key).problem is None
    assert OpenAIChat("m", api_key=key, api_key_required=False).problem is None
    assert backend(api_key=key, api_key_required=True).problem


@pytest.mark.parametrize(
    "key", [KEY, "gsk_abc123", "0123456789abcdef", "test", "nonexistent-but-well-formed"]
)
def test_a_real_key_is_none(key: str) -> None:
    assert OpenAIChat("m", api_key=key).problem is None


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://localhost:11434/v1", True),
        ("http://ollama:11434/v1", True),
        ("http://host.docker.internal:1234/v1", True),
        ("http://box.local/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.5/v1", True),
        ("http://10.0.0.1/v1", True),
        ("https://8.8.8.8/v1", False),
        ("https://api.groq.com/openai/v1", False),
    ],
)
def test_which_hosts_need_no_key(url: str, is_local: bool) -> None:
    assert (OpenAIChat("m", base_url=url).problem is None) is is_local


def test_a_key_in_a_header_is_a_key() -> None:
    chat = OpenAIChat(
        "m", base_url="https://x.openai.azure.com/openai/v1", headers={"API-Key": KEY}
    )
    assert chat.problem is None
    headers = encoded(chat).headers
    assert headers["api-key"] == KEY
    assert "authorization" not in headers


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/v1",
        "api.openai.com/v1",
        "http://",
        "http://[::1",
        "http://x:port/v1",
        "https://x /v1",
        "//x",
        "http://x:0",
    ],
)
def test_a_base_url_that_is_not_http_is_a_problem(url: str) -> None:
    problem = OpenAIChat("m", api_key=KEY, base_url=url).problem
    assert problem
    assert "base_url" in problem


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model": ""}, "model"),
        ({"model": 3}, "model"),
        ({"api_key": 3}, "api_key"),
        ({"api_key": f" {KEY}"}, "api_key"),
        ({"api_key": f"{KEY}\n"}, "api_key"),
        ({"api_key": f"{KEY}\x00x"}, "api_key"),
        ({"api_key": f"{KEY}é"}, "api_key"),
        ({"base_url": None}, "base_url"),
        ({"base_url": f"https://user:{KEY}@host/v1"}, "base_url"),
        ({"base_url": f"https://host/v1?api-key={KEY}"}, "base_url"),
        ({"name": 3}, "name"),
        ({"headers": {"x": f"{KEY}\r\ny: z"}}, "headers"),
        ({"headers": {f"{KEY}\n": "x"}}, "headers"),
        ({"headers": [KEY]}, "headers"),
        ({"headers": {"Content-Length": KEY}}, "headers"),
        ({"headers": {"transfer-encoding": KEY}}, "headers"),
        ({"headers": {"host": KEY}}, "headers"),
        ({"headers": {"connection": KEY}}, "headers"),
        ({"headers": {"x": f" {KEY}"}}, "headers"),
        ({"headers": {"x": f"{KEY} "}}, "headers"),
        ({"headers": {"x": " "}}, "headers"),
        ({"parameters": {"stream": True}}, "parameters"),
        ({"parameters": {3: True}}, "parameters"),
        ({"parameters": [KEY]}, "parameters"),
        ({"cap_field": "cap"}, "cap_field"),
        ({"prefill": "yes"}, "prefill"),
        ({"prices": (1, 2)}, "prices"),
        ({"api_key_required": "no"}, "api_key_required"),
        ({"streams": None}, "streams must be True or False"),
        ({"first_token": 0}, "first_token must be a number of seconds above 0"),
        ({"first_token": float("inf")}, "first_token must be"),
        ({"stall": "30"}, "stall must be a number of seconds above 0"),
        ({"stall": True}, "stall must be"),
    ],
)
def test_a_wrong_field_is_named_and_a_secret_never_shown(
    fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigurationError, match=field) as raised:
        OpenAIChat(**{"model": "m", **fields})
    assert KEY not in str(raised.value)


def test_nothing_shows_a_key() -> None:
    chat = OpenAIChat(
        "m",
        api_key=KEY,
        headers={"x-key": KEY},
        parameters={"user": KEY},
        base_url="https://h/v1?api-version=1",
    )
    request = encoded(chat, {"role": "user", "content": KEY}, stream=True)
    decoder = chat.decoder({"x": KEY})
    for thing in (chat, chat.name, chat.problem, request, decoder, chat.identities):
        assert KEY not in repr(thing)
        assert KEY not in str(thing)


def test_a_backend_is_a_value() -> None:
    one = backend(prices=Prices(1, 2), parameters={"a": [1]})
    two = backend(prices=Prices(1, 2), parameters={"a": [1]})
    assert one == two
    assert hash(one) == hash(two)
    with pytest.raises(AttributeError):
        one.model = "n"  # type: ignore[misc]  # pyright: ignore


def test_prefill_is_denied_by_default() -> None:
    assert not backend().prefills
    mistral = "https://api.mistral.ai/v1"
    assert backend(base_url=mistral, api_key=KEY).echoes
    assert not backend(base_url=mistral, api_key=KEY, echoes=False).echoes
    chat = backend(prefill="trailing", echoes=True)
    assert chat.prefills
    assert chat.echoes
    with pytest.raises(ConfigurationError, match="echoes must be of type bool"):
        backend(echoes="yes")


# ---- encoding
# --------------------------------------------------------------------------------------------------


def test_what_is_on_the_wire() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    call = {"id": "c", "function": {"name": "f", "arguments": "{ }"}}
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [picture]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "é\u2028"},
    ]
    chat = backend(
        api_key=KEY,
        headers={"X-Team": "a", "x-both": "backend"},
        parameters={"temperature": 0, "top_p": 1},
    )
    asked = {
        "parameters": {"temperature": 1},
        "headers": {"X-Both": "caller"},
        "max_tokens": 7,
    }
    request = encoded(chat, *messages, tools=tools, **asked)
    assert request.method == "POST"
    assert request.url == f"{LOCAL}/chat/completions"
    assert request.headers == {
        "content-type": "application/json",
        "authorization": f"Bearer {KEY}",
        "x-team": "a",
        "x-both": "caller",
    }
    assert json.loads(request.body) == {
        "model": "m",
        "messages": messages,
        "stream": False,
        "temperature": 1,
        "top_p": 1,
        "max_tokens": 7,
        "tools": tools,
    }


def test_a_stream_asks_for_its_usage() -> None:
    assert body_of(stream=True)["stream_options"] == {"include_usage": True}
    own = {"stream_options": {"include_obfuscation": False}}
    options = body_of(stream=True, parameters=own)["stream_options"]
    assert options == {"include_usage": True, "include_obfuscation": False}
    assert "stream_options" not in body_of(parameters={"stream_options": {}})
    assert "stream_options" not in body_of(stream=True, dropped=frozenset({"stream_options"}))


def test_a_query_stays_behind_the_path() -> None:
    chat = OpenAIChat(
        "m",
        api_key=KEY,
        base_url="https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
    )
    path, _, query = encoded(chat).url.partition("?")
    assert path == "https://x.openai.azure.com/openai/deployments/d/chat/completions"
    assert query == "api-version=2024-10-21"


@pytest.mark.parametrize(
    ("fields", "own", "caps"),
    [
        ({}, {}, {}),
        ({"max_tokens": 5}, {"cap_field": "max_completion_tokens"}, {"max_completion_tokens": 5}),
        ({"parameters": {"max_tokens": 3}}, {}, {"max_tokens": 3}),
        ({"parameters": {"max_completion_tokens": 3}}, {}, {"max_tokens": 3}),
        (
            {"parameters": {"max_completion_tokens": 3, "max_tokens": 4}, "max_tokens": 5},
            {},
            {"max_tokens": 5},
        ),
        (
            {"parameters": {"max_tokens": 3}},
            {"parameters": {"max_completion_tokens": 9}},
            {"max_completion_tokens": 3},
        ),
        (
            {"max_tokens": 5},
            {"parameters": {"max_completion_tokens": 9}},
            {"max_completion_tokens": 5},
        ),
        ({}, {"parameters": {"max_completion_tokens": 9}}, {"max_completion_tokens": 9}),
        ({"parameters": {"max_tokens": None}}, {}, {}),
        ({"max_tokens": 5, "dropped": frozenset({"max_tokens"})}, {}, {"max_completion_tokens": 5}),
        (
            {"max_tokens": 5},
            {"parameters": {"max_tokens": 9}, "cap_field": "max_completion_tokens"},
            {"max_completion_tokens": 5},
        ),
        (
            {"max_tokens": 5, "dropped": frozenset({"max_completion_tokens"})},
            {"cap_field": "max_completion_tokens"},
            {"max_tokens": 5},
        ),
        ({"max_tokens": 5, "dropped": frozenset({"max_tokens", "max_completion_tokens"})}, {}, {}),
    ],
)
def test_one_cap_at_most_reaches_the_wire(
    fields: dict[str, Any], own: dict[str, Any], caps: dict[str, int]
) -> None:
    body = body_of(to=backend(**own), **fields)
    assert {name: body[name] for name in body if name.startswith("max_")} == caps


@pytest.mark.parametrize(
    ("mode", "marks", "flags"),
    [
        ("trailing", {}, {}),
        ("no", {}, {}),
        ("prefix", {"prefix": True}, {}),
        ("partial", {"partial": True}, {}),
        (
            "continue_final_message",
            {},
            {"continue_final_message": True, "add_generation_prompt": False},
        ),
    ],
)
def test_each_way_to_prefill(mode: str, marks: dict[str, Any], flags: dict[str, Any]) -> None:
    last = {"role": "assistant", "content": "so far \n"}
    parameters = {"add_generation_prompt": True} if flags else {}
    body = body_of(
        USER,
        last,
        to=backend(prefill=mode),
        prefill=True,
        parameters=parameters,
    )
    assert body["messages"] == [
        USER,
        {
            "role": "assistant",
            "content": "so far",
            **marks,
        },
    ]
    assert {name: body.get(name) for name in flags} == flags
    assert last == {"role": "assistant", "content": "so far \n"}
    assert body_of(USER, last, to=backend(prefill=mode))["messages"] == [USER, last]


def test_prefill_strips_the_last_part_and_touches_no_other_role() -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b "}]
    body = body_of(
        USER, {"role": "assistant", "content": parts}, to=backend(prefill="prefix"), prefill=True
    )
    assert [part["text"] for part in body["messages"][-1]["content"]] == ["a ", "b"]
    assert body_of(USER, to=backend(prefill="prefix"), prefill=True)["messages"] == [USER]


@pytest.mark.parametrize(
    ("model", "before", "after"),
    [
        ("m", {}, {}),
        ("m", {"temperature": 1}, {"temperature": 1}),
        ("m", {"reasoning_effort": "high"}, {"reasoning_effort": "low"}),
        ("m", {"reasoning_effort": "low"}, {"reasoning_effort": "minimal"}),
        ("m", {"reasoning_effort": "minimal"}, {"reasoning_effort": "none"}),
        ("m", {"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
        ("gpt-5.2", {"reasoning_effort": "low"}, {"reasoning_effort": "none"}),
        ("o4-mini", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (
            "m",
            {"reasoning": {"effort": "high", "exclude": True}},
            {"reasoning": {"effort": "low", "exclude": True}},
        ),
        ("m", {"reasoning": {"max_tokens": 9000}}, {"reasoning": {"effort": "low"}}),
        ("m", {"enable_thinking": True}, {"enable_thinking": False}),
        (
            "m",
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
            {"thinking": {"type": "disabled"}},
        ),
        (
            "m",
            {"chat_template_kwargs": {"enable_thinking": True, "x": 1}},
            {"chat_template_kwargs": {"enable_thinking": False, "x": 1}},
        ),
    ],
)
def test_less_reasoning_by_the_parameters_that_are_there(
    model: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    body = body_of(to=backend(model), parameters=before, lower_reasoning=True)
    assert parameters_in(body) == after


@pytest.mark.parametrize(
    ("url", "model", "added"),
    [
        ("https://openrouter.ai/api/v1", "deepseek/deepseek-r1", {"reasoning": {"effort": "low"}}),
        ("https://api.openai.com/v1", "gpt-5.2", {"reasoning_effort": "low"}),
        ("https://api.openai.com/v1", "gpt-4o", {}),
        (
            "https://dashscope.aliyuncs.com/compatible-mode/v1",
            "qwen-plus",
            {"enable_thinking": False},
        ),
        ("https://api.z.ai/api/paas/v4", "glm-4.6", {"thinking": {"type": "disabled"}}),
        ("https://api.example.com/v1", "gpt-5.2", {}),
    ],
)
def test_less_reasoning_where_the_model_is_known_to_take_it(
    url: str, model: str, added: dict[str, Any]
) -> None:
    chat = OpenAIChat(model, base_url=url, api_key=KEY)
    body = body_of(to=chat, lower_reasoning=True)
    assert parameters_in(body) == added


def test_a_portable_transcript_leaves_foreign_reasoning_behind() -> None:
    call = {
        "id": "c",
        "function": {
            "name": "f",
            "arguments": "{}",
            "thought_signature": "s",
        },
        "extra_content": {"google": {"thought_signature": "s"}},
        "provider_specific_fields": {"thought_signature": "s"},
    }
    foreign = {
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}],
        "reasoning_content": "r",
        "reasoning": "r",
        "thinking_blocks": [{"signature": "s"}],
        "provider_specific_fields": {},
        "signature": "s",
    }
    parts = [
        {"type": "thinking", "thinking": "r"},
        {
            "type": "text",
            "text": "t",
            "signature": "s",
        },
    ]
    messages = [
        {"role": "user", "content": "u", "reasoning": "the caller's own"},
        MappingProxyType(
            {
                "role": "assistant",
                "content": parts,
                **foreign,
                "tool_calls": [call],
            }
        ),
        {"role": "tool", "tool_call_id": "c", "content": "Three."},
        {"role": "assistant", "content": [*parts]},
    ]
    before = [dict(message) for message in messages]
    user, calling, result, answer = body_of(*messages, portable=True)["messages"]
    text = {"type": "text", "text": "t"}
    bare_call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    assert user == messages[0]
    assert calling == {"role": "assistant", "content": [text], "tool_calls": [bare_call]}
    assert result == messages[2]
    assert answer == {"role": "assistant", "content": [text]}
    assert [dict(message) for message in messages] == before
    assert body_of(*messages)["messages"] == before


def test_values_that_no_json_has_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (b"secret", {1: 2}, 10**5_000, loop, object()):
        with pytest.raises(ConfigurationError, match="JSON") as raised:
            body_of(parameters={"x": value})
        assert "secret" not in str(raised.value)


def test_mappings_of_any_kind_are_sent_and_halves_of_characters_mended() -> None:
    frozen = MappingProxyType({"a": MappingProxyType({"b": ("\ud83d\ude00 \ud83d x",)})})
    assert body_of(parameters={"x": frozen})["x"] == {"a": {"b": ["😀 \ufffd x"]}}


def test_a_header_of_the_caller_that_cannot_be_sent_is_named() -> None:
    for value in ("a\nb", " a", "a "):
        with pytest.raises(ConfigurationError, match=r"Request.headers\['x'\]"):
            body_of(headers={"x": value})


# ---- whole replies
# --------------------------------------------------------------------------------------------------


def completion(message: Any = None, finish: Any = "stop", **fields: Any) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"model": "m-1", "choices": [choice], **fields}).encode()


def read(body: bytes | str, status: int = 200, **headers: str) -> Any:
    return backend().decode(status, headers, body.encode() if isinstance(body, str) else body)


def reply_of(message: Any = None, finish: Any = "stop", **fields: Any) -> Reply:
    reply = read(completion(message, finish, **fields))
    assert isinstance(reply, Reply)
    return reply


def call(name: str | None, arguments: Any, /, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, "arguments": arguments}}


def test_a_plain_completion() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    reply = reply_of({"role": "assistant", "content": "hello"}, usage=usage, created=1)
    assert reply == Reply(
        "hello", usage=Usage(10, 3, 4), model="m-1", stop_reason="stop", stop_raw="stop"
    )
    assert reply.raw["created"] == 1


@pytest.mark.parametrize(
    ("message", "text", "reasoning", "refusal"),
    [
        ({"content": None}, "", "", None),
        ({"content": 3}, "", "", None),
        (
            {"content": [{"type": "text", "text": "a"}, "b", {"type": "output_text", "text": "c"}]},
            "abc",
            "",
            None,
        ),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "r"}]},
                    {"type": "text", "text": "a"},
                ]
            },
            "a",
            "r",
            None,
        ),
        ({"content": [{"type": "refusal", "refusal": "no"}, {"type": "image_url"}]}, "", "", "no"),
        ({"content": "", "refusal": "no"}, "", "", "no"),
        (
            {
                "content": "a",
                "reasoning_content": "1",
                "reasoning": "1",
            },
            "a",
            "1",
            None,
        ),
        (
            {
                "content": "a",
                "reasoning_content": None,
                "reasoning": "2",
            },
            "a",
            "2",
            None,
        ),
        ({"content": "a", "reasoning_text": "3"}, "a", "3", None),
        (
            {"content": "a", "reasoning_details": [{"text": "4"}, {"summary": "5"}, {"data": "x"}]},
            "a",
            "45",
            None,
        ),
        ({"content": "<think>x</think>a"}, "<think>x</think>a", "", None),
    ],
)
def test_contents(
    message: dict[str, Any],
    text: str,
    reasoning: str,
    refusal: str | None,
) -> None:
    reply = reply_of(message)
    assert reply.text == text
    assert reply.reasoning == reasoning
    assert reply.refusal == refusal


def test_tool_calls_in_every_shape() -> None:
    odd = '{"q": 1}  '
    calls = [
        call("f", odd, id="a"),
        call("g", {"x": [1]}, id="b"),
        call("h", None, id=None),
        {"id": "d", "type": "custom", "custom": {"name": "sh", "input": 'ls "x"'}},
        "junk",
    ]
    reply = reply_of({"content": None, "tool_calls": calls}, "tool_calls")
    assert reply.tool_calls == (
        ToolCall("a", "f", odd),
        ToolCall("b", "g", '{"x":[1]}'),
        ToolCall(reply.tool_calls[2].id, "h", "{}"),
        ToolCall("d", "sh", '{"input":"ls \\"x\\""}'),
    )
    old = {"name": "f", "arguments": "{}"}
    legacy = reply_of({"content": None, "function_call": old}, "function_call")
    [one] = legacy.tool_calls
    assert one.name == "f"
    assert one.arguments == "{}"
    assert legacy.stop_reason == "tool_calls"


def spent(prompt: Any, completion: Any, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


THOUGHT = {"completion_tokens_details": {"reasoning_tokens": 5}}
REASONED = {"reasoning_tokens": 1}
UNCOUNTED = Usage(output_tokens=2, estimated=True)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (spent(9, 2), Usage(9, 2)),
        (spent(9, 2, prompt_cache_hit_tokens=5), Usage(9, 2, 5)),
        (
            {
                "prompt_cache_hit_tokens": 5,
                "prompt_cache_miss_tokens": 4,
                "completion_tokens": 2,
            },
            Usage(9, 2, 5),
        ),
        (spent(9, 2, cached_tokens=5), Usage(9, 2, 5)),
        (spent(9, 2, prompt_tokens_details={"cache_write_tokens": 3}), Usage(9, 2, 0, 3)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "output_tokens_details": REASONED,
            },
            Usage(9, 2, 0, 0, 1),
        ),
        (spent(9, 7, **THOUGHT, total_tokens=16), Usage(9, 7, 0, 0, 5)),
        (spent(9, 7, **THOUGHT, total_tokens=21), Usage(9, 12, 0, 0, 5)),
        (
            spent(9, 2, cache_read_input_tokens=100, cache_creation_input_tokens=10),
            Usage(119, 2, 100, 10),
        ),
        (spent(9.0, "2", cached_tokens=-5, reasoning_tokens=True), Usage(9, 2)),
        (spent(1e300, 2, prompt_tokens_details=[1]), Usage(0, 2)),
        ({}, UNCOUNTED),
        (spent(0, 0), UNCOUNTED),
        (None, UNCOUNTED),
        ("lots", UNCOUNTED),
        # The total tells whether cached tokens are among the prompt.
        (
            spent(
                100,
                10,
                total_tokens=110,
                cached_tokens=80,
                cache_write_tokens=80,
            ),
            Usage(100, 10, 80, 20),
        ),
        (spent(100, 10, total_tokens=110, cached_tokens=200), Usage(100, 10, 100, 0)),
        (spent(100, 10, cached_tokens=80, cache_write_tokens=80), Usage(260, 10, 80, 80)),
        (spent(100, 10, total_tokens=190, cached_tokens=80), Usage(180, 10, 80, 0)),
    ],
)
def test_usage_in_every_spelling(usage: Any, expected: Usage) -> None:
    assert reply_of({"content": "12345"}, usage=usage).usage == expected


@pytest.mark.parametrize("raw", [None, "", "null"])
def test_no_finish_reason_is_never_invented(raw: str | None) -> None:
    reply = reply_of({"content": "x"}, raw)
    assert reply.stop_reason is None
    assert reply.stop_raw is None
    assert reply.interrupted is False
    assert reply_of({"content": "x"}, 3).stop_raw == "3"


@pytest.mark.parametrize(
    "raw", [word for word, reason in STOP_REASONS.items() if reason == "error"]
)
def test_an_error_as_the_finish_reason(raw: str) -> None:
    failure = read(completion({"content": "", "reasoning": "r"}, raw))
    assert failure.reason == "server_error"
    assert failure.code == raw
    assert run(delta(raw), DONE)[0] == failure
    for reply in (
        reply_of({"content": "so far"}, raw),
        streamed(delta(content="so far"), delta(raw), DONE),
    ):
        assert reply.interrupted is True
        assert reply.text == "so far"
        assert reply.stop_reason == "error"
        assert reply.failure == failure


UPSTREAM = {"code": 502, "message": "upstream"}


def test_an_error_beside_text_is_an_interruption() -> None:
    reply = reply_of({"content": "half"}, None, error=UPSTREAM)
    assert reply.interrupted
    assert reply.text == "half"
    assert reply.failure.reason == "server_error"
    assert reply_of({"content": "whole"}, error=None).failure is None


def test_other_statuses_are_classified() -> None:
    failure = read('{"error": {"message": "x"}}', 429, **{"Retry-After": "7"})
    assert failure.reason == "rate_limit"
    assert failure.status == 429
    assert failure.asked_wait == 7.0
    assert isinstance(read(completion({"content": "x"}), 201), Reply)


def test_json_that_strict_parsers_refuse_is_read() -> None:
    body = (
        b'\xef\xbb\xbf{"logprob": NaN, "choices": [{"message": {"content": "\\ud83d \xff '
        b'\\ud83d\\ude00"}}]}'
    )
    reply = read(body)
    assert reply.text == "\N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER} \N{GRINNING FACE}"


def test_the_choice_with_index_0_counts() -> None:
    first = {"index": 0, "message": {"content": "a"}}
    second = {"index": 1, "message": {"content": "b"}}
    assert reply_of(choices=[second, first]).text == "a"


# ---- streams
# --------------------------------------------------------------------------------------------------


def event(**chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def delta(finish: str | None = None, /, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return event(model="m-1", choices=[choice], usage=None)


def tool(**call: Any) -> bytes:
    return delta(tool_calls=[call])


USAGE = event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 2})
DONE = b"data: [DONE]\n\n"
OVERLOADED = {"error": {"message": "overloaded", "type": "overloaded_error"}}


def run(*pieces: bytes, failure: Failure | None = None) -> tuple[Any, list[tuple[str, str]]]:
    """Return what a stream amounts to, and its deltas with adjacent ones of one kind joined."""
    decoder = backend().decoder({})
    deltas: list[tuple[str, str]] = []
    for piece in pieces:
        for said in decoder.feed(piece):
            kind = type(said).__name__
            known = deltas.pop()[1] if deltas and deltas[-1][0] == kind else ""
            deltas.append((kind, known + said.text))
    outcome = decoder.close(failure)
    assert decoder.close(failure) == outcome
    return outcome, deltas


def streamed(*pieces: bytes, failure: Failure | None = None) -> Reply:
    outcome, _ = run(*pieces, failure=failure)
    assert isinstance(outcome, Reply)
    return outcome


def text_of(deltas: list[tuple[str, str]]) -> str:
    return "".join(text for kind, text in deltas if kind == "Text")


def test_a_plain_stream() -> None:
    decoder = backend().decoder({})
    assert decoder.feed(delta(role="assistant", content="")) == []
    pieces = delta(reasoning_content="hm") + delta(content="hel") + delta(content="lo")
    assert decoder.feed(pieces) == [Reasoning("hm"), Text("hello")]
    assert decoder.feed(delta("stop") + USAGE) == []
    assert not decoder.finished
    assert decoder.feed(DONE + delta(content="ignored")) == []
    assert decoder.finished
    assert decoder.feed(delta(content="ignored")) == []
    assert decoder.close() == Reply(
        "hello", usage=Usage(5, 2), model="m-1", reasoning="hm", stop_reason="stop", stop_raw="stop"
    )


A_AND_B = [("a", "f", "{}"), ("b", "g", "{}")]
IN_PIECES: list[tuple[list[dict[str, Any]], list[tuple[str | None, str, str]]]] = [
    (
        [
            call("g", "", index=1, id="b"),
            call(None, '{"x', index=0),
            call(None, "{}", index=1),
            call("f", '": 1}', index=0, id="a"),
            call("f", None, index=0, id="a"),
        ],
        [("a", "f", '{"x": 1}'), ("b", "g", "{}")],
    ),
    ([call("f", "{}", id="a"), call("g", "{}", id="b")], A_AND_B),
    ([call("f", "{}", index=0, id="a"), call("g", "{}", index=0, id="b")], A_AND_B),
    (
        [
            call("f", "{", id="a"),
            call(None, "}"),
            call("g", None, id="b"),
            call(None, "", id="a"),
            call(None, "{}"),
        ],
        A_AND_B,
    ),
    (  # without any id they part where one is whole
        [call("f", piece, index=0, id="") for piece in ('{"x', '":1}', "", '{"x":2}')],
        [(None, "f", '{"x":1}'), (None, "f", '{"x":2}')],
    ),
    (  # a new id on each piece makes no new call
        [
            call("f", "", index=0, id="a"),
            *(call(None, each, index=0, id=f"c{n}") for n, each in enumerate('{"x":1}')),
        ],
        [("a", "f", '{"x":1}')],
    ),
    ([call("f", '{"x', index=0, id="a")], [("a", "f", '{"x')]),
]
"""The pieces of calls, and the id, the name and the arguments of each call that they come to."""
NAMED: list[tuple[list[tuple[str, str]], list[tuple[str, str]]]] = [
    (
        [("f", ""), ("", '{"x"'), ("", ":1}"), ("g", ""), ("", "{}"), ("g", "")],
        [("f", '{"x":1}'), ("g", "{}")],
    ),
    ([("f", ""), ("", '{"a"'), ("", ":1}")] * 2, [("f", '{"a":1}')] * 2),
    (
        [("f", ""), ("", '{"a"'), ("", ":1}"), ("f", ""), ("f", "\n"), ("", "{}")],
        [("f", '{"a":1}\n'), ("f", "{}")],
    ),
]
"""Pieces that only their names part."""
for pieces, calls in NAMED:
    for index in ({"index": 0}, {"index": "0"}, {}):
        for unnamed in ("", None):
            parted = [call(name or unnamed, arguments, **index) for name, arguments in pieces]
            IN_PIECES.append((parted, [(None, *each) for each in calls]))

for blank in ("", "\n", " "):
    parted = [call("f", each, index=0) for each in ("", "", '{"a"', ":1}", blank, blank)]
    IN_PIECES.append((parted, [(None, "f", '{"a":1}' + blank * 2)]))

for kind in (int, str, float):  # of an index
    parted = [
        call("f", '{"a"', index=kind(0), id="c0"),
        call("f", '{"a"', index=kind(1), id="c1"),
        call(None, ":0}", index=kind(0)),
        call(None, ":1}", index=kind(1)),
    ]
    IN_PIECES.append((parted, [("c0", "f", '{"a":0}'), ("c1", "f", '{"a":1}')]))


def without_nulls(piece: dict[str, Any]) -> dict[str, Any]:
    function = {name: value for name, value in piece["function"].items() if value is not None}
    return {**piece, "function": function}


@pytest.mark.parametrize(("pieces", "calls"), IN_PIECES)
@pytest.mark.parametrize("end", [b"", delta("tool_calls") + DONE])
def test_calls_are_put_together_from_their_pieces(
    pieces: list[Any], calls: list[Any], end: bytes
) -> None:
    for written in (pieces, [without_nulls(piece) for piece in pieces]):
        reply = streamed(delta(content="on it"), *(tool(**piece) for piece in written), end)
        assert reply.text == "on it"
        assert reply.interrupted == (not end)
        assert [(one.name, one.arguments) for one in reply.tool_calls] == [
            each[1:] for each in calls
        ]
        ids = [one.id for one in reply.tool_calls]
        assert all(ids)
        assert len({*ids}) == len(ids)
        assert all(id in (one, None) for one, (id, *_) in zip(ids, calls, strict=True))


def test_other_kinds_of_calls_stream_too() -> None:
    pieces = [{"name": "f", "arguments": "{"}, {"arguments": "}"}]
    legacy = streamed(*(delta(function_call=each) for each in pieces), delta("function_call"))
    assert [(call.name, call.arguments) for call in legacy.tool_calls] == [("f", "{}")]
    first = tool(index=0, id="a", custom={"name": "sh", "input": "l"})
    custom = streamed(first, tool(index=0, custom={"input": "s"}), DONE)
    assert custom.tool_calls == (ToolCall("a", "sh", '{"input":"ls"}'),)


def message(finish: str | None, **fields: Any) -> bytes:
    return event(
        choices=[
            {
                "index": 0,
                "delta": {},
                "message": fields,
                "finish_reason": finish,
            }
        ]
    )


DRAFT = delta(content="first ") + delta(content="draft", reasoning="r")
A_CALL = call("f", "{}", id="a")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("first draft", "first draft"),
        (" first draft\n", "first draft"),
        ("first draft, revised", "first draft, revised"),
        ("second draft", "first draft"),
        ("No.", "first draft"),
    ],
)
def test_a_whole_message_replaces_its_deltas_without_saying_them_again(
    text: str, shown: str
) -> None:
    end = message("stop", role="assistant", content=text, reasoning="r")
    outcome, deltas = run(DRAFT, end, DONE)
    assert outcome.text == text
    assert outcome.reasoning == "r"
    assert outcome.stop_reason == "stop"
    assert text_of(deltas) == shown


def test_a_whole_message_says_no_call_again() -> None:
    reply = streamed(DRAFT, tool(index=0, **A_CALL), message("tool_calls", tool_calls=[A_CALL]))
    assert reply.text == "first draft"
    assert reply.tool_calls == (ToolCall("a", "f", "{}"),)


@pytest.mark.parametrize(
    "nothing", [{"content": None}, {"content": ""}, {"content": " \n"}, {"content": []}, {}]
)
def test_a_message_without_text_leaves_the_text_as_it_is(nothing: dict[str, Any]) -> None:
    plain = message("stop", role="assistant", **nothing)
    calling = message("tool_calls", role="assistant", tool_calls=[A_CALL], **nothing)
    deltas = delta(content="Let me ") + delta(content="look.")
    for start in (deltas, message(None, content="Let me look.")):
        reply = streamed(start, plain, DONE)
        assert reply.text.strip() == "Let me look."
        assert reply.stop_reason == "stop"
        reply = streamed(start, calling, DONE)
        assert reply.text.strip() == "Let me look."
        assert reply.tool_calls == (ToolCall("a", "f", "{}"),)


@pytest.mark.parametrize(
    "pieces",
    [
        ["The ", "whole ", "answer", "."],
        ["The", " ", "whole answer", "."],
        ["The ", "The whole ", "The whole answer."],
        ["The ", "whole ", "answer.", "The whole answer."],
        ["The ", "whole ", "answer.", ""],
    ],
)
@pytest.mark.parametrize("name", ["content", "reasoning", "refusal"])
@pytest.mark.parametrize("deltas", [0, 1])
def test_messages_may_bring_the_pieces_of_a_text(pieces: list[str], name: str, deltas: int) -> None:
    start = [delta(**{name: piece}) for piece in pieces[:deltas]]
    rest = [message(None, **{name: piece}) for piece in pieces[deltas:-1]]
    outcome, said = run(*start, *rest, message("stop", **{name: pieces[-1]}), DONE)
    field = "text" if name == "content" else name
    assert getattr(outcome, field) == "The whole answer."
    shown = "".join(text for _, text in said)
    assert shown == ("" if name == "refusal" else "The whole answer.")


@pytest.mark.parametrize(
    "pieces",
    [
        (delta("stop", content="x"),),
        (delta(content="x"), delta("stop"), USAGE),
        (delta("stop", content="x")[:-2],),
    ],
)
def test_a_finish_reason_completes_a_stream(pieces: tuple[bytes, ...]) -> None:
    reply = streamed(*pieces, failure=Failure("connection"))
    assert reply.text == "x"
    assert reply.interrupted is False
    assert reply.failure is None


@pytest.mark.parametrize("end", [DONE, b"data: [DONE]"])
def test_done_completes_a_stream(end: bytes) -> None:
    decoder = backend().decoder({})
    decoder.feed(delta(content="x"))
    decoder.feed(end)
    reply = decoder.close(Failure("connection"))
    assert reply.text == "x"
    assert reply.stop_reason is None
    assert not reply.interrupted
    assert reply.failure is None


@pytest.mark.parametrize("failure", [None, Failure("timeout")])
def test_a_stream_with_neither_is_interrupted(failure: Failure | None) -> None:
    reply = streamed(delta(content="é" * 5), delta(reasoning="abc")[:-5], failure=failure)
    assert reply == Reply(
        "é" * 5,
        usage=Usage(output_tokens=3, estimated=True),
        model="m-1",
        interrupted=True,
        failure=failure,
    )
    for nothing in ((), (b"",), (b": ping\n\n",), (delta(role="assistant", content=""),)):
        reply = streamed(*nothing, failure=failure)
        assert reply.text == ""
        assert reply.interrupted is True
        assert reply.failure == failure


def test_usage_is_estimated_where_a_stream_brings_none() -> None:
    arguments = {"name": "f", "arguments": "{}"}
    reply = streamed(
        delta(reasoning="abc"),
        delta(content="é"),
        tool(index=0, id="a", function=arguments),
        delta("tool_calls"),
        DONE,
    )
    assert reply.usage == Usage(output_tokens=2, reasoning_tokens=1, estimated=True)


def test_usage_anywhere_in_the_stream() -> None:
    stop = [{"delta": {}, "finish_reason": "stop"}]
    groq = event(x_groq={"usage": spent(5, 2)}, choices=stop)
    assert streamed(delta(content="x"), groq, DONE).usage == Usage(5, 2)
    text = [{"delta": {"content": "x"}}]
    first = event(choices=text, usage=spent(5, 1))
    second = event(choices=text, usage=spent(5, 2))
    assert streamed(first, second).usage == Usage(5, 2)


@pytest.mark.parametrize(
    "error",
    [
        event(**OVERLOADED),
        b"event: error\n" + event(**OVERLOADED),
        b"event: error\n" + event(type="overloaded_error", message="x"),
        b"event: error\r\ndata: %s\r\n\r\n"
        % json.dumps(OVERLOADED, indent=1).replace("\n", "\r\ndata: ").encode(),
        event(**OVERLOADED, choices=[{"delta": {"content": ""}, "finish_reason": "error"}]),
        event(choices=[{"delta": {}, "finish_reason": None, **OVERLOADED}]),
        b"error: " + event(**OVERLOADED)[6:],
        json.dumps(OVERLOADED).encode() + b"\n",
    ],
)
def test_an_error_inside_a_stream(error: bytes) -> None:
    failure, _ = run(delta(role="assistant", content=""), error, delta(content="never"))
    assert failure.reason == "overloaded"
    for start in (
        delta(content="x"),
        delta(reasoning="x"),
        tool(index=0, id="a", function={"name": "f"}),
    ):
        reply, deltas = run(start, error, delta(content="never"), failure=Failure("connection"))
        assert reply.interrupted is True
        assert reply.failure == failure
        assert "never" not in reply.text + text_of(deltas)
    if b"finish_reason" not in error:
        assert streamed(delta("stop", content="x"), error).interrupted is False


def test_an_error_without_json_is_an_error_still() -> None:
    failure, _ = run(b"event: error\ndata: Internal server error\n\n")
    assert isinstance(failure, Failure)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r"])
def test_the_last_event_counts_where_only_its_end_is_missing(end: bytes) -> None:
    half_a_pair = b'data: {"choices": [{"delta": {"content": " to b\\ud83d"}}]}'
    reply = streamed(delta(content="Not"), half_a_pair + end, failure=Failure("connection"))
    assert reply.text == "Not to b\ufffd"
    assert reply.interrupted is True


def test_an_event_that_is_broken_in_the_middle_cuts_the_stream_there() -> None:
    broken = b'data: {"choices": [{"delta": {"conte\n\n'
    reply = streamed(delta(content="a"), broken, delta("stop", content="b"), DONE)
    assert reply.text == "a"
    assert reply.interrupted is True
    assert reply.failure.reason == "malformed"
    failure, _ = run(broken, DONE)
    assert failure.reason == "malformed"


def test_a_body_that_is_no_stream() -> None:
    body = json.dumps(json.loads(completion({"content": "hello"})), indent=2).encode()
    assert run(body[:50], body[50:]) == (read(body), [])
    for other in (b"<html>\n<body>data</body></html>", body[:40], b"{}"):
        failure, deltas = run(other)
        assert failure.reason == "malformed"
        assert deltas == []
    failure, _ = run(json.dumps(OVERLOADED).encode(), failure=Failure("connection"))
    assert failure.reason == "overloaded"
    assert streamed(body[:40], failure=Failure("connection")).failure == Failure("connection")


def test_done_without_any_choice_is_malformed() -> None:
    failure, _ = run(event(choices=[]), DONE)
    assert failure.reason == "malformed"


# ---- any text, cut anywhere
# -----------------------------------------------------------------------------------------

# Texts that also stand elsewhere in a chunk, or that JSON escapes: a chunk must never be taken for
# one that it is not.
TRICKY = st.sampled_from(
    ["content", "id", "a", "a~", "", '"', "\\", '","content":"a', "\n", "é", "\u2028", "😀"]
) | st.text(max_size=6)


@given(
    st.lists(st.tuples(st.sampled_from(["content", "reasoning"]), TRICKY), max_size=12),
    TRICKY,
    st.lists(st.integers(0, 4000), max_size=8),
    st.booleans(),
)
def test_nothing_said_is_lost_or_changed(
    pieces: list[tuple[str, str]],
    other: str,
    places: list[int],
    is_ascii: bool,
) -> None:
    body = b""
    expected = {"content": "", "reasoning": ""}
    for name, text in pieces:
        expected[name] += text
        choice = {"delta": {name: text, "role": None}}
        chunk = {"id": other, "choices": [choice], "x": other}
        body += b"data: %s\n\n" % json.dumps(chunk, ensure_ascii=is_ascii).encode()
    outcome, deltas = run(*cut(body + delta("stop") + DONE, places))
    assert outcome.text == text_of(deltas) == expected["content"]
    assert outcome.reasoning == expected["reasoning"]


def test_one_answer_may_be_asked_for_by_its_number() -> None:
    assert body_of(parameters={"n": 1})["n"] == 1
