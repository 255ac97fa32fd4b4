"""What goes out to Bedrock: valid by botocore's own model of the service, signed, and what was
meant.
"""

import json
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import (
    Bedrock,
    Capabilities,
    ConfigurationError,
    MediaPart,
    Message,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.adapters.wires.bedrock.shapes import CONVERSE
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.core import CitationPart, OpaquePart, ReasoningPart, Request
from rungwise.testing import conversations
from support import official, protocols
from support.protocols import encoded
from support.sampling import examples

NEW = "anthropic.claude-opus-5-5"
OLD = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
OTHER = "amazon.nova-pro-v1:0"
QUESTION = {"role": "user", "content": [{"text": "Which bird is this?"}]}
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
TOOL = {
    "toolSpec": {
        "name": "look",
        "description": "Look.",
        "inputSchema": {"json": SCHEMA},
    }
}
CHAT_TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": SCHEMA,
    },
}
CALL = ToolCall("tooluse_1", "look", '{"bird": "heron"}')
PIXEL = "iVBORw0KGgoAAAANSUhEUg=="


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def backend(model: str = NEW, **options: Any) -> Any:
    given = {
        "region": "eu-north-1",
        "base_url": "http://localhost/v1",
        "api_key": "k9d2f6b1c44e07a35",
        **options,
    }
    return Bedrock(model, **given)


ME = "bedrock:localhost/" + NEW


def check(body: dict[str, Any]) -> None:
    """Check that a body is valid by the model of the service, and by what the API says besides."""
    official.check("bedrock", body)
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    blocks = [block for message in body["messages"] for block in message["content"]]
    assert all(message["content"] for message in body["messages"])
    assert all(block["text"].strip() for block in blocks if "text" in block)
    assert "toolConfig" in body or not any(
        "toolUse" in block or "toolResult" in block for block in blocks
    )


def sent(*messages: Any, to: Bedrock | None = None, **options: Any) -> dict[str, Any]:
    to = to or backend()
    body: dict[str, Any] = protocols.body_of(to, *(messages or (QUESTION,)), **options)
    check(body)
    return body


# messages


def test_the_cap_is_the_models_own_where_nobody_gave_one() -> None:
    assert "inferenceConfig" not in sent()


def test_an_effort_is_left_out_by_the_name_that_the_model_has_for_it() -> None:
    parameters = {"reasoning_effort": "high"}
    claude = Bedrock("anthropic.claude-opus-5", region="eu-north-1", api_key="k-1")
    assert sent(to=claude, parameters=parameters)["outputConfig"] == {"effort": "high"}
    dropped = frozenset({"output_config.effort"})
    assert "outputConfig" not in sent(to=claude, parameters=parameters, dropped=dropped)


OWN = [
    {"role": "user", "content": [{"text": "Which?"}, {"cachePoint": {"type": "default"}}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
            {
                "toolUse": {
                    "toolUseId": "tooluse_1",
                    "name": "look",
                    "input": {"bird": "heron"},
                }
            },
        ],
    },
    {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"json": {"a": 1}}]}}],
    },
]


def test_messages_of_its_own_form_go_out_word_for_word() -> None:
    body = sent(*OWN)
    assert body["messages"] == OWN
    assert body["toolConfig"]["tools"] == [
        {"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}
    ]
    portable = sent(*OWN, portable=True)["messages"]
    assert portable == [OWN[0], {**OWN[1], "content": OWN[1]["content"][1:]}, OWN[2]]


def test_what_it_has_said_goes_back_word_for_word() -> None:
    sealed = {"reasoningContent": {"redactedContent": "c2VhbGVk"}}
    said = (
        ReasoningPart("Grey.", "c2ln", ME),
        OpaquePart(ME, sealed),
        TextPart("I look."),
        CitationPart("", "", "x", None, {"title": "x"}, ME),
        CALL,
    )
    result = Message("tool", (ToolResult("tooluse_1", "look", "", is_fault=True),))
    body = sent(QUESTION, Message("assistant", said), result, Message.saying("user", "And?"))
    thought = {"text": "Grey.", "signature": "c2ln"}
    cited = {"content": [{"text": "I look."}], "citations": [{"title": "x"}]}
    use = {"toolUseId": "tooluse_1", "name": "look", "input": {"bird": "heron"}}
    assert body["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": thought}},
        sealed,
        {"citationsContent": cited},
        {"toolUse": use},
    ]
    told = {
        "toolUseId": "tooluse_1",
        "content": [{"text": "(the tool failed and said nothing)"}],
        "status": "error",
    }
    assert body["messages"][2]["content"] == [{"toolResult": told}, {"text": "And?"}]
    foreign = sent(QUESTION, Message("assistant", said), result, unsigned=True)
    assert [next(iter(block)) for block in foreign["messages"][1]["content"]] == ["text", "toolUse"]


MEDIA = [
    (
        MediaPart("image", PIXEL, "image/png"),
        {"image": {"format": "png", "source": {"bytes": PIXEL}}},
    ),
    (
        MediaPart("file", "JVBERi0=", "application/pdf", name="my_birds (1).pdf"),
        {
            "document": {
                "format": "pdf",
                "name": "my birds (1)",
                "source": {"bytes": "JVBERi0="},
            }
        },
    ),
    (
        MediaPart("audio", "AAAA", "audio/wav"),
        {"audio": {"format": "wav", "source": {"bytes": "AAAA"}}},
    ),
    (
        MediaPart("video", url="s3://bucket/a.mp4"),
        {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://bucket/a.mp4"}}}},
    ),
    (
        MediaPart("image", url="https://example.org/a.png"),
        {"text": "(image: https://example.org/a.png)"},
    ),
    (MediaPart("image", PIXEL, "image/tiff"), {"text": "(image: image/tiff)"}),
]


@pytest.mark.parametrize(("part", "block"), MEDIA)
def test_media_have_their_blocks_and_are_read_again(part: MediaPart, block: Any) -> None:
    body = sent(Message("user", (TextPart("Which?", {"type": "ephemeral", "ttl": "1h"}), part)))
    assert body["messages"][0]["content"] == [
        {"text": "Which?"},
        {"cachePoint": {"type": "default", "ttl": "1h"}},
        block,
    ]
    [read] = read_messages(body["messages"])
    kinds = [(each.kind, each.data, each.url) for each in read.parts if isinstance(each, MediaPart)]
    assert kinds == ([] if "text" in block else [(part.kind, part.data, part.url)])


LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
PROFILE = "arn:aws:bedrock:eu-north-1:123456789012:application-inference-profile/abcdefghijk2"
MARKED = [
    {
        "role": "system",
        "content": [
            {
                "type": "text",
                "text": "Be brief.",
                "cache_control": {"type": "ephemeral"},
            }
        ],
    },
    Message(
        "user", (TextPart("Which?", {"type": "ephemeral"}), MediaPart("image", PIXEL, "image/png"))
    ),
    Message("assistant", (CALL,)),
    Message("tool", (ToolResult("tooluse_1", "look", "4 herons", cache={"type": "ephemeral"}),)),
]
"""Marks in other forms than Converse's: three."""
LOST = "cache marks, {} x: this model is not known to take them"


@pytest.mark.parametrize(
    ("to", "takes"),
    [
        (backend(NEW), True),
        (backend(OLD), True),
        (backend(OTHER), True),
        (backend("us.anthropic.claude-3-7-sonnet-20250219-v1:0"), True),
        (backend("anthropic.claude-3-haiku-20240307-v1:0"), False),
        (backend(LLAMA), False),
        (backend(PROFILE), False),
        (backend(PROFILE, capabilities=Capabilities(caches=True)), True),
        (backend(NEW, capabilities=Capabilities(caches=False)), False),
    ],
    ids=str,
)
def test_marks_of_other_forms_go_to_models_alone_that_take_them(to: Bedrock, takes: bool) -> None:
    body = sent(*MARKED, to=to)
    assert json.dumps(body).count("cachePoint") == (3 if takes else 0)
    bare = json.loads(
        json.dumps(sent(*MARKED, to=backend(to.model, capabilities=Capabilities(caches=False))))
    )
    assert [each["role"] for each in body["messages"]] == [
        each["role"] for each in bare["messages"]
    ]
    assert to.lost(Request(MARKED)) == (() if takes else (LOST.format(3),))


@pytest.mark.parametrize(("model", "stays"), [(NEW, True), (PROFILE, True), (LLAMA, False)])
def test_its_own_marks_go_to_any_model_but_those_known_to_take_none(
    model: str, stays: bool
) -> None:
    mark = {"cachePoint": {"type": "default"}}
    given = [
        {"role": "system", "content": [{"text": "Be brief."}, mark]},
        *OWN,
        {"role": "user", "content": [mark]},
    ]
    body = sent(*given, to=backend(model), tools=[TOOL, mark])
    said = [
        *body["system"],
        *body["toolConfig"]["tools"],
        *(each for one in body["messages"] for each in one["content"]),
    ]
    assert said.count(mark) == (4 if stays else 0)
    assert all(one["content"] for one in body["messages"])
    request = Request(given, tools=[TOOL, mark])
    assert backend(model).lost(request) == (() if stays else (LOST.format(4),))


EPHEMERAL = {"type": "ephemeral"}
MARKED_TOOLS: dict[str, Any] = {
    "anthropic": {
        "name": "look",
        "description": "Look.",
        "input_schema": SCHEMA,
    },
    "chat": CHAT_TOOL,
    "inside": {
        "type": "function",
        "function": {**CHAT_TOOL["function"], "cache_control": EPHEMERAL},
    },
}


@pytest.mark.parametrize("form", MARKED_TOOLS)
@pytest.mark.parametrize("mark", [EPHEMERAL, {**EPHEMERAL, "ttl": "1h"}])
@pytest.mark.parametrize(
    ("to", "lost"),
    [
        (backend(NEW), None),
        (backend(PROFILE, capabilities=Capabilities(caches=True)), None),
        (backend(OTHER), "cache marks of tools, 1 x: this model takes none there"),
        (backend(LLAMA), LOST.format(1)),
        (backend(PROFILE), LOST.format(1)),
    ],
    ids=str,
)
def test_a_mark_of_a_tool_stands_behind_it_or_is_told(
    to: Bedrock,
    lost: str | None,
    mark: Any,
    form: str,
) -> None:
    tool = MARKED_TOOLS[form]
    if form == "inside":
        tool = {**tool, "function": {**tool["function"], "cache_control": mark}}
    else:
        tool = {**tool, "cache_control": mark}
    other = {"toolSpec": {"name": "note", "inputSchema": {"json": {"type": "object"}}}}
    kind = {"type": "default"}
    if "ttl" in mark:
        kind["ttl"] = "1h"
    point = {"cachePoint": kind}
    behind = [other] if lost else [point, other]
    for choice in ("auto", "required"):
        body = sent(to=to, tools=[tool, other], parameters={"tool_choice": choice})
        assert body["toolConfig"]["tools"] == [TOOL, *behind]
    assert to.lost(Request("Which?", tools=[tool, other])) == ((lost,) if lost else ())


CALLS = [
    {
        "type": "tool_use",
        "id": "tooluse_1",
        "name": "look",
        "input": {"bird": "heron"},
        "cache_control": EPHEMERAL,
    },
    {
        "id": "tooluse_1",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
        "cache_control": EPHEMERAL,
    },
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("to", "lost"),
    [
        (backend(NEW), "cache marks of tool calls, 1 x: they have no form here"),
        (backend(LLAMA), LOST.format(1)),
    ],
)
def test_a_mark_of_a_tool_call_is_told(to: Bedrock, lost: str, call: Any) -> None:
    said = (
        {"content": [call]}
        if call["type"] == "tool_use"
        else {"content": None, "tool_calls": [call]}
    )
    history = [{"role": "user", "content": "Which?"}, {"role": "assistant", **said}]
    assert "cachePoint" not in json.dumps(sent(*history, to=to))
    assert to.lost(Request(history)) == (lost,)


def test_its_form_is_read_as_any_other() -> None:
    question, answer, result = read_messages(OWN)
    assert question.text == "Which?"
    assert answer.reasoning == "Hm."
    assert answer.tool_calls[0].arguments == '{"bird":"heron"}'
    assert result.tool_results == (ToolResult("tooluse_1", "", '{"a":1}'),)


@settings(max_examples=examples(60))
@given(conversations(forms=("call", "message", "block"), scattered=True), st.booleans())
def test_any_conversation_is_valid(messages: Any, portable: bool) -> None:
    sent(*messages, portable=portable)


# parameters and tools


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"temperature": 1.5}, {"inferenceConfig": {"temperature": 1}}),
        ({"stop": ["END", " "]}, {"inferenceConfig": {"stopSequences": ["END"]}}),
        ({"inferenceConfig": {"topP": 0.1}, "top_p": 0.5}, {"inferenceConfig": {"topP": 0.1}}),
        ({"seed": 7, "parallel_tool_calls": False}, {}),
        ({"requestMetadata": {"a": "b"}}, {"requestMetadata": {"a": "b"}}),
    ],
)
def test_common_parameters_are_said_in_its_words(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    body = sent(to=backend(OTHER), parameters=given)
    del body["messages"]
    assert body == expected


def thinking(body: Mapping[str, Any]) -> Any:
    return body.get("additionalModelRequestFields", {}).get("thinking")


def test_claude_reasons_as_it_does_elsewhere() -> None:
    high = {"reasoning_effort": "high"}
    body = sent(parameters=high)
    assert thinking(body) == {"type": "adaptive"}
    assert body["outputConfig"] == {"effort": "high"}
    body = sent(to=backend(OLD), parameters={**high, "temperature": 0.5}, max_tokens=4096)
    assert thinking(body) == {"type": "enabled", "budget_tokens": 3276}
    assert body["inferenceConfig"] == {"maxTokens": 4096}
    assert thinking(
        sent(
            to=backend(OLD),
            parameters=high,
            max_tokens=4096,
            lower_reasoning=True,
        )
    ) == {
        "type": "enabled",
        "budget_tokens": 1024,
    }
    assert sent(parameters=high, lower_reasoning=True)["outputConfig"] == {"effort": "low"}
    own = {
        "additionalModelRequestFields": {
            "thinking": {"type": "enabled", "budget_tokens": 9000},
            "top_k": 5,
        }
    }
    body = sent(to=backend(OLD), parameters=own, max_tokens=8000)
    assert body["additionalModelRequestFields"] == {  # which takes no sampling beside it
        "thinking": {"type": "enabled", "budget_tokens": 4000},
    }
    loop = (
        QUESTION,
        Message("assistant", (CALL,)),
        Message("tool", (ToolResult("tooluse_1", "", "x"),)),
    )
    assert (
        thinking(
            sent(
                *loop,
                to=backend(OLD),
                parameters=high,
                max_tokens=4096,
            )
        )
        is None
    )
    assert (
        thinking(
            sent(to=backend(OLD), tools=[TOOL], parameters={**high, "tool_choice": "required"})
        )
        is None
    )


def test_no_tools_are_sent_where_none_may_be_called() -> None:
    assert "toolConfig" not in sent(tools=[TOOL], parameters={"tool_choice": "none"})
    assert sent(*OWN, tools=[TOOL], parameters={"tool_choice": "none"})["toolConfig"] == {
        "tools": [TOOL]
    }
    made = CONVERSE.strictly(CONVERSE.tool_of("look", "Look.", SCHEMA), True)
    assert made == {"toolSpec": {**TOOL["toolSpec"], "strict": True}}
    assert not CONVERSE.needs_no_arguments(
        "look", [{"toolSpec": {"name": "look", "inputSchema": {"json": {"required": ["a"]}}}}]
    )


def test_what_is_lost_is_said() -> None:
    given = {
        "seed": 1,
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
    }
    assert backend(OTHER).lost(Request("x", parameters=given)) == (
        "seed: Converse has none",
        "parallel_tool_calls: Converse has none",
        "response_format: asked for in words (Converse has JSON by a schema alone)",
    )
    assert "temperature: this model takes none" in backend().lost(
        Request("x", parameters={"temperature": 1})
    )


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        (OLD, {}, True),
        (NEW, {}, False),
        (OTHER, {}, False),
        (OLD, {"reasoning_effort": "low"}, False),
        (
            OLD,
            {
                "additionalModelRequestFields": {
                    "thinking": {"type": "enabled", "budget_tokens": 2000}
                }
            },
            False,
        ),
    ],
)
def test_prefill_depends_on_what_is_asked(model: str, parameters: Any, expected: bool) -> None:
    assert backend(model).prefills_with(parameters) is expected


# places and signatures


def test_the_path_names_the_model_and_the_method() -> None:
    arn = "arn:aws:bedrock:eu-north-1:123456789012:inference-profile/eu.anthropic.claude"
    assert encoded(backend(OLD)).url.endswith(
        "/v1/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"
    )
    assert "%2Feu.anthropic.claude/converse-stream" in encoded(backend(arn), stream=True).url
    assert (
        Bedrock(NEW, region="eu-north-1", api_key="k9").origin
        == "https://bedrock-runtime.eu-north-1.amazonaws.com"
    )
    assert (
        Bedrock(NEW, region="cn-north-1", api_key="k9").origin
        == "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"
    )


def test_an_api_key_is_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = encoded(backend()).headers
    assert headers["authorization"] == "Bearer k9d2f6b1c44e07a35"
    assert "x-amz-date" not in headers
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer-9d2f")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    made = Bedrock(NEW)
    assert made.problem is None
    assert encoded(made).headers["authorization"] == "Bearer bearer-9d2f"
    assert Bedrock(NEW, base_url="https://elsewhere.example.org").problem is not None


GIVEN = {
    "access_key_id": "AKIDEXAMPLE",
    "secret_access_key": "wJalrXUtnFEMI",
    "session_token": "session-9d2f",
}


def test_requests_are_signed_with_what_is_given_and_as_botocore_signs_them() -> None:
    made = backend(OLD, api_key=None, **GIVEN)
    request = encoded(made)
    scope = f"{request.headers['x-amz-date'][:8]}/eu-north-1/bedrock/aws4_request"
    authorization = request.headers["authorization"]
    assert authorization.startswith(
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, SignedHeaders="
    )
    assert "content-type;host;x-amz-date;x-amz-security-token" in authorization
    assert request.headers["x-amz-security-token"] == "session-9d2f"
    assert made.problem is None
    for secret in (*GIVEN.values(), authorization):
        assert secret not in repr(made) + repr(request)
    assert (
        made.identities
        != backend(OLD, api_key=None, **{**GIVEN, "access_key_id": "AKIDOTHER"}).identities
    )


def test_a_signature_covers_the_place_the_body_and_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import datetime

    import botocore.auth

    now = [datetime.datetime(2026, 11, 22, 6, 0, 0)]
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda remove_tzinfo=True: now[0])
    one = backend(OLD, api_key=None, **GIVEN)
    first = encoded(one).headers["authorization"]
    assert encoded(one).headers["authorization"] == first
    assert encoded(one, max_tokens=9).headers["authorization"] != first
    assert encoded(one, stream=True).headers["authorization"] != first
    assert (
        encoded(
            backend(
                OLD,
                api_key=None,
                region="eu-west-3",
                **GIVEN,
            )
        ).headers["authorization"]
        != first
    )
    now[0] += datetime.timedelta(seconds=1)
    assert encoded(one).headers["authorization"] != first


def test_the_place_is_the_one_that_the_official_client_asks() -> None:
    from botocore.awsrequest import AWSResponse
    from botocore.session import Session

    made = Bedrock(
        OLD, region="eu-north-1", access_key_id="AKIDEXAMPLE", secret_access_key="wJalrXUtnFEMI"
    )
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "wJalrXUtnFEMI"}
    client = Session().create_client("bedrock-runtime", region_name="eu-north-1", **keys)
    seen: list[Any] = []

    class Answer:
        def stream(self, **options: Any) -> Any:
            return iter([b"{}"])

    def note(request: Any, **_: Any) -> Any:
        seen.append(request)
        return AWSResponse(request.url, 200, {}, Answer())

    client.meta.events.register("before-send.bedrock-runtime.Converse", note)
    ours = encoded(made)
    client.converse(modelId=OLD, **json.loads(ours.body))
    assert ours.url == seen[0].url
    assert ours.method == seen[0].method
    assert json.loads(ours.body) == json.loads(seen[0].body)


def test_credentials_come_from_where_aws_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "credentials").write_text(
        "[birds]\naws_access_key_id = AKIDFILE\naws_secret_access_key = wJalr\n"
    )
    (tmp_path / "config").write_text("[profile birds]\nregion = eu-west-3\n")
    made = Bedrock(NEW, profile="birds")
    assert made.origin == "https://bedrock-runtime.eu-west-3.amazonaws.com"
    assert "Credential=AKIDFILE/" in encoded(made).headers["authorization"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalr")
    made = Bedrock(NEW, region="eu-north-1")
    assert "Credential=AKIDENV/" in encoded(made).headers["authorization"]
    assert made.problem is None


@pytest.mark.parametrize(
    ("base_url", "is_own"),
    [
        ("https://bedrock-runtime.eu-north-1.amazonaws.com", True),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", True),
        ("https://bedrock-runtime.eu-north-1.api.aws", True),
        ("https://vpce-0a1b.bedrock-runtime.eu-north-1.vpce.amazonaws.com", True),
        ("http://bedrock-runtime.eu-north-1.amazonaws.com", False),
        ("https://bedrock-runtime.s3.amazonaws.com", False),
        ("https://bedrock-runtime.eu-north-1.amazonaws.com.example.org", False),
        ("https://proxy.example.org/bedrock", False),
        ("http://localhost:8080/v1", False),
    ],
)
def test_credentials_that_nobody_has_given_go_to_the_hosts_of_aws_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    base_url: str,
    is_own: bool,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalr")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "FwoG")
    made = Bedrock(NEW, region="eu-north-1", base_url=base_url)
    assert ("FwoG" in str(dict(encoded(made).headers))) is is_own
    if base_url.startswith("https") and not is_own:
        assert "to AWS's own hosts" in (made.problem or "")
    (tmp_path / "credentials").write_text(
        "[birds]\naws_access_key_id = AKIDFILE\naws_secret_access_key = wJalr\n"
    )
    meant = Bedrock(
        NEW,
        region="eu-north-1",
        base_url=base_url,
        profile="birds",
    )
    assert "Credential=AKIDFILE/" in encoded(meant).headers["authorization"]


def test_a_server_of_ones_own_needs_no_region() -> None:
    made = Bedrock(NEW, base_url="http://localhost:8080/v1")
    assert made.problem is None
    assert "authorization" not in encoded(made).headers
    with pytest.raises(
        ConfigurationError, match="region is missing: set AWS_REGION, or give region="
    ):
        Bedrock(
            NEW,
            base_url="http://localhost:8080/v1",
            access_key_id="AKIDEXAMPLE",
            secret_access_key="wJalr",
        )


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigurationError, match="region is missing: set AWS_REGION, or give region="
    ):
        Bedrock(NEW)
    with pytest.raises(ConfigurationError, match="given together"):
        backend(access_key_id="AKIDEXAMPLE")
    with pytest.raises(
        ConfigurationError, match="AWS's configuration cannot be read: ProfileNotFound"
    ):
        backend(profile="nobody", api_key=None)
    assert "credentials are missing" in (Bedrock(NEW, region="eu-north-1").problem or "")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'rungwise\[bedrock\]'"):
        backend()


def test_botocore_is_not_imported_before_it_is_needed() -> None:
    import subprocess

    code = (
        "import sys, rungwise; rungwise.Bedrock; assert not any(n.startswith('botocore') "
        "for n in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        },
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": PIXEL,
            },
        },
    ],
    ids=lambda block: str(block["type"]),
)
def test_a_mark_of_a_picture_or_a_file_stands_behind_it(block: Any) -> None:
    asked = {
        "role": "user",
        "content": [{"type": "text", "text": "Which?"}, {**block, "cache_control": EPHEMERAL}],
    }
    assert sent(asked)["messages"][0]["content"][2:] == [{"cachePoint": {"type": "default"}}]
    assert backend(LLAMA).lost(Request([asked]))[-1] == LOST.format(1)
