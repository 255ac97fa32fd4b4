"""What stands in messages and tools, and has no place in another protocol, is written elsewhere or
told: never lost.
"""

import json
import time
from typing import Any

import pytest

import rungwise
from rungwise import Client
from rungwise.core import Request
from rungwise.testing import ScriptedReply
from support.plain import assistant, user
from support.protocols import PROTOCOLS, backend, chat_call
from support.told import told

ANSWER = ScriptedReply("In the reeds.")
MARK = {"type": "ephemeral"}
NOWHERE = "cache marks, {} x: they have no form here"
UNKNOWN = "cache marks, {} x: this model is not known to take them"
USER = user("Where?")
FUNCTION = {"name": "look", "parameters": {"type": "object", "properties": {}}}
CALL = chat_call("c1", "look")
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FOREIGN = [api for api in PROTOCOLS if api != "openai"]


def sent(serve: Any, api: str, messages: Any, **options: Any) -> tuple[Any, list[str]]:
    """Return the body of a call, and what is told, which the journal and the check say alike."""
    given = {name: options.pop(name) for name in ("model", "capabilities") if name in options}
    made = told(serve, {"api": api, **given}, messages=messages, **options)
    lost = [loss for loss in made.lost if "tokens of" not in loss]
    assert made.notes == [f"left out: {'; '.join(lost)}" if lost else None]
    return made.body, lost


def marked_result() -> list[Any]:
    text = {"type": "text", "text": "Reeds.", "cache_control": MARK}
    return [
        USER,
        CALLING,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [text],
        },
    ]


def test_a_mark_within_the_result_of_a_tool_goes_to_anthropic(serve: Any) -> None:
    body, lost = sent(serve, "anthropic", marked_result())
    [result] = body["messages"][-1]["content"]
    assert (result["type"], result["content"], result["cache_control"]) == (
        "tool_result",
        "Reeds.",
        MARK,
    )
    assert lost == []


def test_cache_marks_in_tool_results_go_to_bedrock_models_that_take_them(serve: Any) -> None:
    body, lost = sent(
        serve, "bedrock", marked_result(), capabilities=rungwise.Capabilities(caches=True)
    )
    assert body["messages"][-1]["content"][-1] == {"cachePoint": {"type": "default"}}
    assert lost == []


@pytest.mark.parametrize("api", FOREIGN)
def test_the_marks_that_a_protocol_cannot_take_are_told_in_one_line(api: str, serve: Any) -> None:
    text = {"type": "text", "text": "Where?", "cache_control": MARK}
    messages = [
        {"role": "system", "content": [{**text, "text": "Be brief."}]},
        {"role": "user", "content": "Hm.", "cache_control": MARK},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**CALL, "cache_control": MARK}],
        },
        marked_result()[-1],
        user([text]),
    ]
    tools = [
        {
            "type": "function",
            "function": FUNCTION,
            "cache_control": MARK,
        }
    ]
    body, lost = sent(serve, api, messages, tools=tools)
    # Anthropic has no place for that of a whole message, and none is read of a call.
    expected = {"anthropic": [NOWHERE.format(2)], "bedrock": [NOWHERE.format(1), UNKNOWN.format(5)]}
    assert lost == expected.get(api, [NOWHERE.format(6)])
    assert json.dumps(body).count("ephemeral") == (4 if api == "anthropic" else 0)


@pytest.mark.parametrize("api", ["openai", "responses", "gemini", "ollama"])
def test_marks_of_neutral_parts_and_of_bedrock_are_told_alike(api: str, serve: Any) -> None:
    point = {"cachePoint": {"type": "default"}}
    messages = [
        rungwise.Message("user", (rungwise.TextPart("Where?", cache=MARK),)),
        assistant("Hm."),
        user([{"text": "There?"}, point]),
    ]
    body, lost = sent(serve, api, messages, tools=[{"toolSpec": {"name": "look"}}, point])
    assert lost == [NOWHERE.format(3)]
    assert "cachePoint" not in json.dumps(body)
    assert "There?" in json.dumps(body)


def test_the_marks_that_a_second_server_is_not_sent_are_told(serve: Any) -> None:
    messages = [
        user(
            [
                {
                    "type": "text",
                    "text": "Where?",
                    "cache_control": MARK,
                }
            ]
        )
    ]
    made = told(serve, "openai", "openai", messages=messages)
    assert made.losses == [(), (NOWHERE.format(1),)]
    assert made.notes == [None, f"left out: {NOWHERE.format(1)}"]
    unmarked = [user([{"type": "text", "text": "Where?"}])]
    assert [body["messages"] for body in made.bodies] == [messages, unmarked]


ODD_PART = {"type": "text", "text": "Where?", "mood": "merry"}
ODD_TOOL = {
    "type": "function",
    "function": {**FUNCTION, "input_examples": [{"mood": "merry"}]},
    "defer_loading": True,
}


def test_members_of_parts_and_tools_that_nobody_reads_are_told(api: str, serve: Any) -> None:
    answer = {"role": "tool", "tool_call_id": "c1", "content": [ODD_PART]}
    messages = [USER, CALLING, answer, user([ODD_PART, "Hm?"])]
    if api == "openai":
        messages[-1] = user([ODD_PART])
    body, lost = sent(serve, api, messages, tools=[ODD_TOOL])
    expected = [
        "input_examples of the tools, 1 x: it has no form here",
        "defer_loading of the tools, 1 x: it has no form here",
        "mood in the messages, 2 x: it has no form here",
    ]
    assert lost == ([] if api == "openai" else expected)
    assert ("merry" in json.dumps(body)) is (api == "openai")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {
                "type": "image",
                "source": {
                    "type": "url",
                    "url": "https://x.test/a.png",
                    "size": 1,
                },
            },
            "size",
        ),
        (
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "videoMetadata": {"fps": 1}},
            "videoMetadata",
        ),
        (
            {"inline_data": {"mime_type": "image/png", "data": "AAAA"}, "media_resolution": 1},
            "media_resolution",
        ),
        (
            {
                "functionResponse": {
                    "name": "look",
                    "response": {},
                    "willContinue": True,
                }
            },
            "willContinue",
        ),
    ],
)
def test_members_within_a_part_of_any_form_are_told(given: Any, told: str, serve: Any) -> None:
    place = "content" if "type" in given else "parts"
    _, losses = sent(serve, "openai", [{"role": "user", place: [given]}])
    assert losses == [f"{told} in the messages, 1 x: it has no form here"]


def test_what_is_told_by_name_is_bounded(serve: Any) -> None:
    odd = {
        "type": "text",
        "text": "Where?",
        **{f"odd_{count}\n{'x' * 500}": 1 for count in range(500)},
    }
    losses = told(serve, "gemini", messages=[user([odd])]).lost
    assert losses[-1] == "480 other things in the messages: they have no form here"
    assert len(losses) == 21
    assert all(len(loss) < 150 and "\n" not in loss for loss in losses)


def test_the_place_of_an_item_that_a_server_keeps_is_told(api: str, serve: Any) -> None:
    item = {"type": "item_reference", "id": "msg_1"}
    body, lost = sent(serve, api, [USER, item, USER])
    assert lost == (
        [] if api == "responses" else ["item_reference in the messages, 1 x: it has no form here"]
    )
    assert ("msg_1" in json.dumps(body)) is (api == "responses")


def test_a_call_of_bedrocks_that_says_its_type_is_a_call_anywhere(api: str, serve: Any) -> None:
    use = {
        "toolUseId": "t1",
        "name": "look",
        "input": {"bird": "heron"},
        "type": "tool_use",
    }
    result = {
        "toolUseId": "t1",
        "content": [{"text": "Ardea."}],
        "type": "tool_result",
    }
    messages = [
        user([{"text": "Where?"}]),
        assistant([{"toolUse": use}]),
        user([{"toolResult": result}]),
    ]
    body, lost = sent(serve, api, messages)
    assert lost == []
    written = json.dumps(body)
    assert all(each in written for each in ("look", "heron", "Ardea."))
    assert ("tool_use" in written) is (api in ("bedrock", "anthropic"))


def test_code_that_gemini_ran_is_said_in_words(api: str, serve: Any) -> None:
    ran = [
        {"executableCode": {"language": "PYTHON", "code": "print(2 + 3)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "5 herons\n"}},
        {"text": "Five."},
    ]
    asked = {"role": "user", "parts": [{"text": "How many?"}]}
    body, lost = sent(serve, api, [asked, {"role": "model", "parts": ran}, asked])
    assert lost == []
    if api == "gemini":
        assert body["contents"][1]["parts"] == ran
    else:
        assert "\\n```python\\nprint(2 + 3)\\n```\\n" in json.dumps(body)
        assert "\\n```\\n5 herons\\n```\\n" in json.dumps(body)


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
PAGE = {
    "type": "text",
    "media_type": "text/plain",
    "data": "Herons nest in reeds.",
}


@pytest.mark.parametrize("api", [api for api in PROTOCOLS if api != "anthropic"])
@pytest.mark.parametrize("source", [PDF, PAGE])
def test_what_is_said_of_a_document_goes_along(source: Any, api: str, serve: Any) -> None:
    document = {
        "type": "document",
        "source": source,
        "title": "Herons",
        "context": "From the shore.",
    }
    body, lost = sent(serve, api, [user([document])])
    said = json.dumps(body)
    assert "From the shore." in said
    has_no_place = source is PDF and api in ("gemini", "interactions")
    assert ("Herons" in said.replace("Herons nest", "")) is not has_no_place
    told_of = "name of a file in the messages, 1 x: it has no form here"
    assert (told_of in lost) is has_no_place


@pytest.mark.parametrize("strict", [True, False])
def test_a_tool_that_is_to_be_strict_is_told_where_none_is(
    api: str, strict: bool, serve: Any
) -> None:
    tools = [{"type": "function", "function": {**FUNCTION, "strict": strict}}]
    body, lost = sent(serve, api, [USER], tools=tools)
    is_lost = api in ("gemini", "interactions", "ollama")
    assert lost == (["strict of the tools, 1 x: it has no form here"] if is_lost and strict else [])
    assert ("strict" in json.dumps(body)) is not is_lost


@pytest.mark.parametrize("api", FOREIGN)
def test_a_turn_of_plain_functions_tells_nothing_of_strictness(api: str, serve: Any) -> None:
    first = serve(ScriptedReply(status=401))
    second = serve(ANSWER)

    def look() -> str:
        """Look around."""
        return "reeds"

    chain = [
        backend("responses", first.base_url, name="one"),
        backend(api, second.base_url, name="two"),
    ]
    with Client(chain) as client:
        result = client.turn("Where?", tools=[look])
    assert result.outcome == "finished"
    assert "left out" not in result.journal.to_json()
    assert "look" in json.dumps(second.requests[0].body)


@pytest.mark.parametrize("detail", ["low", "high", "auto"])
def test_how_closely_a_picture_is_to_be_looked_at_is_told(
    api: str, detail: str, serve: Any
) -> None:
    image = {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": detail}
    body, lost = sent(serve, api, [user([{"type": "image_url", "image_url": image}])])
    takes = api in ("openai", "responses")
    is_told = not takes and api != "interactions"  # which calls it a resolution
    is_told = is_told and detail != "auto"  # which is what every server does that is told nothing
    assert lost == (
        ["detail of a picture in the messages, 1 x: it has no form here"] if is_told else []
    )
    assert (f'"detail": "{detail}"' in json.dumps(body)) is takes


def test_a_long_history_of_plain_text_costs_next_to_nothing(api: str) -> None:
    request = Request([USER, assistant("In the reeds.")] * 1000)
    link = backend(api, "http://localhost:1/v1")
    started = time.thread_time()
    assert link.lost(request) == ()
    assert time.thread_time() - started < 0.5
