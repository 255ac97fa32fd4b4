"""Parts and items that only one provider knows never reach another: they are translated, or left
out and named.
"""

import json
from typing import Any

import pytest

from rungwise import Client
from rungwise.testing import ScriptedReply
from support.protocols import backend
from support.told import ANSWER, told

SECRET = "c2VjcmV0"
"""What stands in everything that another provider must not get."""
URL = "https://birds.test/herons.pdf"
LOST = "{} in the messages, 1 x: it has no form here"


def asked(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": [*parts]}]


def answered(*parts: Any) -> list[Any]:
    return [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": [*parts]},
        *THEN,
    ]


THEN: list[Any] = [{"role": "user", "content": "And then?"}]
SAID = {"type": "text", "text": "In the reeds."}
BY_PROTOCOL: dict[str, list[Any]] = {
    "anthropic": [
        asked({"type": "text", "text": "Where?"}, {"type": "container_upload", "file_id": SECRET}),
        asked({"type": "image", "source": {"type": "file", "file_id": SECRET}}),
        asked({"type": "document", "source": {"type": "file", "file_id": SECRET}}),
        answered(
            {
                "type": "server_tool_use",
                "id": "s",
                "name": SECRET,
                "input": {},
            },
            SAID,
        ),
        answered(
            {
                "type": "mcp_tool_use",
                "id": "m",
                "name": SECRET,
                "input": {},
            },
            SAID,
        ),
        answered(
            {
                "type": "mcp_tool_result",
                "tool_use_id": "m",
                "content": SECRET,
            },
            SAID,
        ),
        answered(
            {
                "type": "web_fetch_tool_result",
                "tool_use_id": "w",
                "content": SECRET,
            },
            SAID,
        ),
        answered({"type": "fallback", "from": {"model": SECRET}}, SAID),
    ],
    "responses": [
        asked({"type": "input_file", "file_id": SECRET}),
        asked({"type": "input_image", "file_id": SECRET}),
        [
            *THEN,
            {
                "type": "computer_call",
                "call_id": "c",
                "id": SECRET,
            },
            *THEN,
        ],
        [
            *THEN,
            {
                "type": "computer_call_output",
                "call_id": SECRET,
                "output": {},
            },
            *THEN,
        ],
        [
            *THEN,
            {
                "type": "web_search_call",
                "id": SECRET,
                "status": "completed",
            },
            *THEN,
        ],
        [*THEN, {"type": "mcp_approval_response", "approval_request_id": SECRET}, *THEN],
        [*THEN, {"type": "compaction", "encrypted_content": SECRET}, *THEN],
    ],
    "openai": [
        asked({"type": "text", "text": "Where?"}, {"type": "file", "file": {"file_id": SECRET}}),
        answered(SAID, {"type": "reference", "reference_ids": [SECRET]}),
        asked({"type": "text", "text": "Where?"}, {"type": "crystal_ball", "gaze": SECRET}),
    ],
    "gemini": [
        [{"role": "user", "parts": [{"text": "Where?"}, {"toolResponse": {"id": SECRET}}]}],
        [{"role": "user", "parts": [{"text": "Where?"}, {"crystalBall": {"gaze": SECRET}}]}],
    ],
    "bedrock": [
        [
            {"role": "user", "content": [{"text": "Where?"}]},
            {
                "role": "assistant",
                "content": [
                    {
                        "toolUse": {
                            "name": SECRET,
                            "input": {},
                            "type": "server_tool_use",
                        }
                    }
                ],
            },
            {"role": "user", "content": [{"text": "And then?"}]},
        ],
    ],
}
KNOWN_TO_ONE = [(own, messages) for own, each in BY_PROTOCOL.items() for messages in each]


def kind_of(messages: list[Any]) -> str:
    """Return the name under which the part or the item that holds the secret is reported."""
    parts = [part for each in messages for part in each.get("content") or each.get("parts", [each])]
    return next(
        str(each.get("type") or next(iter(each)))
        for each in parts
        if isinstance(each, dict) and SECRET in json.dumps(each)
    )


@pytest.mark.parametrize("place", range(len(KNOWN_TO_ONE)), ids=lambda place: f"{place}")
def test_none_reaches_another_server_and_each_is_named(api: str, place: int, serve: Any) -> None:
    """Neither one of another protocol, nor one of the same; nor the first server of another."""
    own, messages = KNOWN_TO_ONE[place]
    made = told(serve, own, api, messages=messages)
    first, second = map(json.dumps, made.bodies)
    assert SECRET in first
    assert SECRET not in second
    name = kind_of(messages)
    loss = LOST.format(name)
    assert loss in made.lost
    assert made.losses[0] == ()
    assert made.notes[0] is None
    assert loss in str(made.notes[1])
    made = told(serve, api, messages=messages)
    # What no protocol declares may be new, so the server gets it that it was written for: the first
    # one.
    if own != api and name not in ("crystal_ball", "crystalBall"):
        assert SECRET not in json.dumps(made.body)
        assert loss in made.lost
        assert made.lost[0] in str(made.notes[0])


TOOL: list[Any] = [
    {"role": "user", "content": "Where?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
    },
]
WITHIN_RESULTS: list[tuple[str, list[Any]]] = [
    (
        "anthropic",
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c",
                        "content": "%",
                    }
                ],
            }
        ],
    ),
    (
        "responses",
        [
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": "%",
            }
        ],
    ),
    ("openai", [{"role": "tool", "tool_call_id": "c", "content": "%"}]),
]


@pytest.mark.parametrize(
    "place", range(len(WITHIN_RESULTS)), ids=lambda place: WITHIN_RESULTS[place][0]
)
def test_one_within_the_result_of_a_tool_is_named_too(api: str, place: int, serve: Any) -> None:
    own, result = WITHIN_RESULTS[place]
    inner = [{"type": "tool_reference", "tool_name": SECRET}]
    messages = json.loads(json.dumps([*TOOL, *result]).replace('"%"', json.dumps(inner)))
    made = told(serve, own, api, messages=messages)
    assert SECRET not in json.dumps(made.body)
    assert LOST.format("tool_reference") in made.lost
    assert LOST.format("tool_reference") in str(made.notes[1])


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_members_of_a_message_that_only_one_server_knows_stay_there(role: str, serve: Any) -> None:
    said = {"role": role, "content": "In the reeds.", "mood": SECRET}
    made = told(serve, "openai", "openai", messages=[*THEN, said, *THEN])
    first, second = made.bodies
    assert first["messages"][1] == said
    assert second["messages"][1] == {"role": role, "content": "In the reeds."}
    assert made.losses == [(), (LOST.format("mood"),)]


@pytest.mark.parametrize("odd", [["text"], {"a": 1}, 7, None])
def test_a_type_that_is_no_word_breaks_nothing(api: str, odd: Any, serve: Any) -> None:
    part = {"type": odd, "gaze": SECRET}
    for own in ("openai", "anthropic", "bedrock"):
        made = told(
            serve,
            own,
            api,
            messages=[*THEN, *asked(part, {"type": "text", "text": "Where?"}), *THEN],
        )
        assert "Where?" in json.dumps(made.body)
        assert SECRET not in json.dumps(made.body)


# translated


SEARCHED = {
    "type": "search_result",
    "source": URL,
    "title": "Herons",
    "content": [{"type": "text", "text": "Reeds."}],
}
FOUND = {
    "searchResult": {
        "source": URL,
        "title": "Herons",
        "content": [{"text": "Reeds."}],
    }
}
MISTRALS = {
    "type": "document_url",
    "document_url": URL,
    "document_name": "Herons",
}
RAN = {"executableCode": {"code": "nest()"}}
TRANSLATED: list[tuple[str, list[Any], tuple[str, ...]]] = [
    (
        "anthropic",
        answered(
            {
                "type": "compaction",
                "content": "Herons nest.",
                "signature": SECRET,
            },
            SAID,
        ),
        ("nest.",),
    ),
    ("anthropic", asked(SEARCHED), ("Herons", URL, "Reeds.")),
    (
        "anthropic",
        [
            *TOOL,
            *asked(
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [SEARCHED],
                }
            ),
        ],
        ("Reeds.",),
    ),
    ("bedrock", asked(FOUND), ("Herons", URL, "Reeds.")),
    (
        "bedrock",
        [*TOOL, *asked({"toolResult": {"toolUseId": "c", "content": [FOUND]}})],
        ("Reeds.",),
    ),
    ("bedrock", asked({"guardContent": {"text": {"text": "Reeds."}}}), ("Reeds.",)),
    ("responses", asked({"type": "input_file", "file_url": URL}), (URL,)),
    ("openai", asked(MISTRALS), (URL,)),
    ("openai", asked({**MISTRALS, "document_url": {"url": URL}}), (URL,)),
    ("openai", asked({"type": "file_url", "file_url": {"url": URL}}), (URL,)),
    ("openai", asked({"type": "audio_url", "audio_url": {"url": URL}}), (URL,)),
    (
        "gemini",
        [{"role": "user", "parts": [{"text": "?"}]}, {"role": "model", "parts": [RAN]}],
        ("nest()",),
    ),
]
OWN_TYPES = (
    "compaction",
    "search_result",
    "searchResult",
    "file_url",
    "document_url",
    "audio_url",
    "executableCode",
)


@pytest.mark.parametrize("place", range(len(TRANSLATED)), ids=lambda place: f"{place}")
def test_what_others_can_read_of_one_is_translated(api: str, place: int, serve: Any) -> None:
    own, messages, words = TRANSLATED[place]
    made = told(serve, own, api, messages=messages)
    sent = json.dumps(made.body)
    assert all(each in sent for each in words)
    assert SECRET not in sent
    theirs = {
        "anthropic": "search_result",
        "bedrock": "searchResult",
        "responses": "file_url",
        "gemini": "executableCode",
    }.get(api)
    assert not any(f'"{each}"' in sent for each in OWN_TYPES if each != theirs)
    assert made.losses[0] == ()
    # A file that cannot be sent is named to the model, and told.
    assert [
        each for each in made.lost if "by URL" not in each and "name of a file" not in each
    ] == []
    assert ("by URL" in str(made.lost)) is (
        f"({'audio' if 'audio_url' in str(messages) else 'file'}: {URL})" in sent
    )


@pytest.mark.parametrize("order", [("anthropic", "openai"), ("openai", "anthropic")])
def test_a_documents_url_goes_to_mistral_alone_as_it_is(order: Any, serve: Any) -> None:
    made = told(serve, *order, messages=asked(MISTRALS, {"type": "text", "text": "Where?"}))
    as_block = {
        "type": "document",
        "source": {"type": "url", "url": URL},
        "title": "Herons",
    }
    is_first = {
        api: body["messages"][0]["content"] for api, body in zip(order, made.bodies, strict=True)
    }
    assert is_first["anthropic"] == [as_block, {"type": "text", "text": "Where?"}]
    mistral = {"base_url": "https://api.mistral.ai/v1"}
    for first, second, kept in (({}, mistral, True), (mistral, {}, False)):
        chain = [
            backend("openai", **{"base_url": "http://localhost:1/v1", **each})
            for each in (first, second)
        ]
        lost = Client(chain).check(asked(MISTRALS)).backends[1].losses
        assert lost == (() if kept else (LOST.format("file by URL"),))


@pytest.mark.parametrize("streams", [True, False])
def test_a_reply_keeps_for_its_provider_what_others_get_in_words(
    api: str, streams: bool, serve: Any
) -> None:
    """Likewise in neutral parts, which is how a reply goes back."""
    summary = {
        "type": "compaction",
        "content": "Herons nest.",
        "signature": SECRET,
    }
    body = {
        "type": "message",
        "role": "assistant",
        "content": [summary, SAID],
        "stop_reason": "end_turn",
        "id": "m",
    }
    provider = serve(ScriptedReply(body=json.dumps(body)), ANSWER)
    with Client(backend("anthropic", provider.base_url, streams=streams)) as client:
        messages = [{"role": "user", "content": "Where?"}, client.call("Where?").message, *THEN]
        client.call(messages)
    assert provider.requests[1].body["messages"][1]["content"] == [summary, SAID]
    made = told(serve, api, messages=messages)
    assert SECRET not in json.dumps(made.body)
    assert "Herons nest." in json.dumps(made.body)
    assert made.lost == ()
