"""Whatever JSON a caller writes in a message or a tool, it becomes a request, or an error that says
what is wrong.
"""

import contextlib
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rungwise import RungwiseError
from rungwise.core import Request
from rungwise.fsm.call.conversation.request import ROLES
from support import protocols
from support.sampling import examples

pytestmark = pytest.mark.sampled(4)

KINDS = (
    "text",
    "input_text",
    "output_text",
    "image_url",
    "input_image",
    "image",
    "document",
    "file",
    "input_audio",
    "tool_use",
    "tool_result",
    "thinking",
    "reasoning",
    "refusal",
    "message",
    "function_call",
    "function_call_output",
    "item_reference",
    "web_search_call",
    "function",
    "custom",
    "server_tool_use",
)
NAMES = (
    "type",
    "text",
    "content",
    "parts",
    "name",
    "id",
    "call_id",
    "tool_call_id",
    "tool_calls",
    "function",
    "arguments",
    "input",
    "output",
    "source",
    "image_url",
    "url",
    "data",
    "media_type",
    "format",
    "cache_control",
    "functionCall",
    "functionResponse",
    "inlineData",
    "mimeType",
    "toolUse",
    "toolResult",
    "toolUseId",
    "images",
    "thought",
    "thoughtSignature",
    "signature",
    "summary",
    "encrypted_content",
    "is_error",
    "status",
    "parameters",
    "input_schema",
    "toolSpec",
    "functionDeclarations",
    "custom",
    "cachePoint",
    "strict",
    "title",
    "response",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "audio",
    "annotations",
    "function_call",
    "query",
)
LEAVES = st.sampled_from(
    [None, True, 0, 1.5, 10**30, "", "Reeds.", "{}", '{"a": 1', "data:,x", "http://x", *KINDS]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(KINDS)}, optional=dict.fromkeys(NAMES[1:], inner)
        )
    ),
    max_leaves=12,
)
BLOCKS = st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=4)
PLACES = st.sampled_from(["content", "content", "parts", "tool_calls", "output"])
OTHERS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=2)
ROLE = st.sampled_from([{"role": role} for role in ROLES] * 2 + [{}])
MESSAGES = st.builds(
    lambda others, place, blocks, role: {**others, place: blocks, **role},
    OTHERS,
    PLACES,
    st.lists(BLOCKS, max_size=3) | VALUES,
    ROLE,
)
TOOLS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)


@cache
def backend(api: str) -> Any:
    return protocols.backend(api, "http://localhost:1/v1", model="m")


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=4),
    tools=st.lists(TOOLS, max_size=2),
    choice=VALUES,
    is_portable=st.booleans(),
)
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
def test_any_json_is_sent_or_refused(
    api: str,
    messages: list[Any],
    tools: list[Any],
    choice: Any,
    is_portable: bool,
) -> None:
    asked = backend(api)
    with contextlib.suppress(RungwiseError):
        request = Request(messages, tools=tools, parameters={"tool_choice": choice})
        assert all(isinstance(each, str) for each in asked.lost(request))
        asked.in_words(request)
        asked.shapes.unanswered(request.messages)
        send = protocols.sending(request, max_tokens=100, portable=is_portable)
        assert isinstance(json.loads(asked.encode(send, stream=True).body), dict)
