"""The sources of an answer are neutral parts of its message, and go back to their own provider
alone.
"""

import json
from typing import Any

import pytest

from rungwise import Client, Result, TextPart
from rungwise.core import CitationPart
from rungwise.testing import ScriptedReply
from support.protocols import PROTOCOLS, backend
from support.told import ANSWER, told

SAID = "In the reeds."
URL = "https://birds.test/herons"
SECRET = "ZW5jcnlwdGVk"
USER = {"role": "user", "content": "Where?"}

# Anthropic

BY_ANTHROPIC = [
    {
        "type": "web_search_result_location",
        "cited_text": "Herons nest in reeds.",
        "url": URL,
        "title": "Herons",
        "encrypted_index": SECRET,
    },
    {
        "type": "char_location",
        "cited_text": "Reeds.",
        "document_index": 0,
        "document_title": "Birds",
        "start_char_index": 5,
        "end_char_index": 11,
        "file_id": None,
    },
    {
        "type": "page_location",
        "cited_text": "Reeds.",
        "document_index": 0,
        "document_title": "Birds",
        "start_page_number": 2,
        "end_page_number": 3,
    },
    {
        "type": "search_result_location",
        "cited_text": "Reeds.",
        "source": URL,
        "title": "Herons",
        "search_result_index": 0,
        "start_block_index": 1,
        "end_block_index": 2,
    },
]
ANTHROPIC = [
    ("Herons nest in reeds.", URL, "Herons", None),
    ("Reeds.", "Birds", "Birds", ("characters", 5, 11)),
    ("Reeds.", "Birds", "Birds", ("pages", 2, 3)),
    ("Reeds.", URL, "Herons", ("blocks", 1, 2)),
]


def delta(given: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": given}


def messages_stream() -> list[Any]:
    start = {
        "type": "message_start",
        "message": {
            "id": "m",
            "model": "m",
            "content": [],
            "usage": {"input_tokens": 1},
        },
    }
    deltas: list[Any] = [{"type": "citations_delta", "citation": each} for each in BY_ANTHROPIC]
    deltas.insert(2, {"type": "text_delta", "text": SAID})
    return [
        start,
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "", "citations": []},
        },
        *map(delta, deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]


# the others

BY_OPENAI = [
    {
        "type": "url_citation",
        "url": URL,
        "title": "Herons",
        "start_index": 0,
        "end_index": 13,
    },
    {
        "type": "file_citation",
        "file_id": "file_1",
        "filename": "birds.pdf",
        "index": 12,
    },
]
RESPONSES = [("", URL, "Herons", ("answer", 0, 13)), ("", "file_1", "birds.pdf", None)]
ITEM = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [
        {
            "type": "output_text",
            "text": SAID,
            "annotations": BY_OPENAI,
        }
    ],
}
ANNOTATED = [
    {
        "type": "url_citation",
        "url_citation": {key: BY_OPENAI[0][key] for key in [*BY_OPENAI[0]][1:]},
    }
]
CHAT = [RESPONSES[0], ("", URL, "", None)]
GROUNDED = {
    "groundingMetadata": {
        "groundingChunks": [
            {"web": {"uri": URL, "title": "Herons"}},
            {"retrievedContext": {"text": "Reeds.", "uri": URL}},
        ],
        "groundingSupports": [
            {"segment": {"endIndex": 13, "text": SAID}, "groundingChunkIndices": [0, 1, 7]}
        ],
    },
    "citationMetadata": {
        "citationSources": [
            {
                "startIndex": 3,
                "endIndex": 6,
                "uri": URL,
            }
        ]
    },
}
GEMINI = [
    ("", URL, "Herons", ("answer bytes", 0, 13)),
    ("Reeds.", URL, "", ("answer bytes", 0, 13)),
    ("", URL, "", ("answer bytes", 3, 6)),
]
BY_BEDROCK = [
    {
        "title": "Birds",
        "source": "birds.pdf",
        "sourceContent": [{"text": "Herons "}, {"text": "nest."}],
        "location": {
            "documentPage": {
                "documentIndex": 0,
                "start": 2,
                "end": 3,
            }
        },
    },
    {"title": "Herons", "location": {"web": {"url": URL, "domain": "birds.test"}}},
]
BEDROCK = [("Herons nest.", "birds.pdf", "Birds", ("pages", 2, 3)), ("", URL, "Herons", None)]


def events(values: list[Any], *, done: bool = False) -> ScriptedReply:
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in values) + (
        "data: [DONE]\n\n" if done else ""
    )
    return ScriptedReply(body=body, headers={"content-type": "text/event-stream"})


def whole(value: Any) -> ScriptedReply:
    return ScriptedReply(body=json.dumps(value))


def chat(name: str) -> Any:
    message = {"role": "assistant", "content": SAID, "annotations": ANNOTATED}
    return {
        "id": "c",
        "citations": [URL],
        "choices": [{"index": 0, name: message, "finish_reason": "stop"}],
    }


RESPONSE = {"id": "r", "status": "completed", "output": [ITEM]}
CONTENT = {"role": "model", "parts": [{"text": SAID}]}
CANDIDATES = {
    "candidates": [
        {
            "content": CONTENT,
            "finishReason": "STOP",
            **GROUNDED,
        }
    ]
}
TEXTS = [{"type": "text", "text": SAID, "citations": BY_ANTHROPIC}]
BLOCKS = [{"citationsContent": {"content": [{"text": SAID}], "citations": BY_BEDROCK}}]
REPLIES: dict[tuple[str, bool], tuple[ScriptedReply, list[Any]]] = {
    ("anthropic", True): (events(messages_stream()), ANTHROPIC),
    ("anthropic", False): (whole({"content": TEXTS, "stop_reason": "end_turn"}), ANTHROPIC),
    ("responses", True): (
        events([{"type": "response.completed", "response": RESPONSE}]),
        RESPONSES,
    ),
    ("responses", False): (whole(RESPONSE), RESPONSES),
    ("openai", True): (events([chat("delta")], done=True), CHAT),
    ("openai", False): (whole(chat("message")), CHAT),
    ("gemini", True): (events([CANDIDATES]), GEMINI),
    ("gemini", False): (whole(CANDIDATES), GEMINI),
    ("bedrock", False): (
        whole(
            {
                "output": {"message": {"role": "assistant", "content": BLOCKS}},
                "stopReason": "end_turn",
            }
        ),
        BEDROCK,
    ),
}
SENT_BACK: dict[str, Any] = {
    "anthropic": {"role": "assistant", "content": TEXTS},
    "responses": ITEM,
    "openai": {"role": "assistant", "content": SAID},
    "gemini": CONTENT,
    "bedrock": {"role": "assistant", "content": BLOCKS},
}


def asked_twice(serve: Any, api: str, streams: bool) -> tuple[Result, Any]:
    """Return a cited answer, and the next request to the same provider."""
    provider = serve(REPLIES[api, streams][0], ANSWER)
    with Client(backend(api, provider.base_url, streams=streams)) as client:
        result = client.call("Where?")
        client.call([USER, result.message, USER])
        assert client.check([USER, result.message, USER]).is_clean
    return result, provider.requests[1].body


@pytest.mark.parametrize(("own", "streams"), REPLIES)
def test_they_are_read_alike_and_go_back_to_their_provider_as_they_came(
    own: str, streams: bool, serve: Any
) -> None:
    result, body = asked_twice(serve, own, streams)
    parts = [part for part in result.message.parts if isinstance(part, TextPart | CitationPart)]
    assert parts[0] == TextPart(SAID)
    found = [each for each in parts if isinstance(each, CitationPart)]
    assert [(each.text, each.source, each.title, each.position) for each in found] == REPLIES[
        own, streams
    ][1]
    assert (result.text, result.final_text in (None, SAID)) == (SAID, True)
    assert result.plain_message.get("annotations") is None
    conversation = next(body[name] for name in ("messages", "input", "contents") if name in body)
    assert conversation[1] == SENT_BACK[own]


@pytest.mark.parametrize(
    ("own", "is_kept"),
    [(own, False) for own in SENT_BACK] + [("anthropic", True), ("bedrock", True)],
)
def test_another_provider_gets_the_text_alone_and_the_loss_is_named(
    api: str, own: str, is_kept: bool, serve: Any
) -> None:
    """Also of what a caller kept in the provider's form."""
    if is_kept:
        user = {"role": "user", "content": [{"text": "Where?"}] if own == "bedrock" else "Where?"}
        made = told(serve, own, api, messages=[user, SENT_BACK[own], user])
        assert json.dumps(SENT_BACK[own]["content"]) in json.dumps(made.bodies[0])
        assert made.losses[0] == ()
    else:
        result, _ = asked_twice(serve, own, False)
        made = told(serve, api, messages=[USER, result.message, USER])
    sent = json.dumps(made.body)
    assert SAID in sent
    assert not any(each in sent for each in (URL, SECRET, "citation", "annotations", "file_1"))
    count = len(REPLIES[own, False][1])
    assert made.lost == (f"citation in the messages, {count} x: it has no form here",)
    assert made.notes[-1] == f"left out: {made.lost[0]}"


def test_they_are_bounded_whatever_a_provider_says(serve: Any) -> None:
    many = {
        "groundingChunks": [{"web": {"uri": URL}}],
        "groundingSupports": [{"groundingChunkIndices": [0] * 2_000}],
    }
    nonsense = [
        7,
        None,
        {},
        {"location": [1]},
        {"type": [1], "url": "\ud800", "start_index": -1},
        {"location": {"x": 1}},
    ]
    deep: Any = {}
    for _ in range(300):
        deep = {"url": deep}
    grounded = {"content": CONTENT, "finishReason": "STOP", "groundingMetadata": many}
    message = {"content": SAID, "annotations": [*nonsense, deep]}
    text = {**TEXTS[0], "citations": nonsense * 9_000}
    for own, body in (
        ("gemini", {"candidates": [grounded]}),
        ("openai", {"choices": [{"message": message, "finish_reason": "stop"}]}),
        ("anthropic", {"content": [text], "stop_reason": "end_turn"}),
    ):
        provider = serve(whole(body), ANSWER)
        with Client(backend(own, provider.base_url, streams=False)) as client:
            result = client.call("Where?")
            client.call([USER, result.message, USER])
        assert result.text == SAID
        assert 0 < sum(isinstance(part, CitationPart) for part in result.message.parts) <= 1_000


assert set(SENT_BACK) < set(PROTOCOLS)
