"""The version of Anthropic's protocol, by place, model and the caller's own header, and a body that
follows it.
"""

import json
from typing import Any

import pytest

from rungwise import Anthropic, Bedrock
from rungwise.adapters.wires.anthropic.versions import is_new, version_of
from rungwise.core import Request
from rungwise.fsm.replies.parts import MediaPart, Message, TextPart
from support.protocols import body_of, encoded

VERTEX = (
    "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5"
    "/publishers/anthropic"
)
OLD = "claude-sonnet-4-5"
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 40}
NEWER = [
    "claude-opus-4-7",
    "claude-opus-4-9",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-haiku-6",
    "claude-somename-7-2",
]


def backend(model: str = OLD, url: str = "http://localhost/v1", **options: Any) -> Anthropic:
    return Anthropic(model, base_url=url, api_key="k-1", **options)


def sampled(body: Any) -> dict[str, Any]:
    return {name: body[name] for name in SAMPLING if name in body}


@pytest.mark.parametrize("model", NEWER)
@pytest.mark.parametrize("own", [None, "2023-06-01", "2026-10-21", "2027-02-03"])
def test_later_models_take_no_sampling_under_any_version(model: str, own: str | None) -> None:
    headers = {"Anthropic-Version": own} if own else {}
    made = encoded(backend(model, headers=headers), parameters=SAMPLING)
    assert made.headers["anthropic-version"] == (own or "2026-10-21")
    assert sampled(json.loads(made.body)) == {}
    own_ones = encoded(backend(model, headers=headers, parameters=SAMPLING))
    assert sampled(json.loads(own_ones.body)) == {}


@pytest.mark.parametrize(
    ("own", "is_sampled"),
    [(None, True), ("2023-06-01", True), ("2026-10-21", False), ("2031-01-01", False)],
)
@pytest.mark.parametrize("where", ["backend", "request"])
def test_earlier_models_are_sampled_until_the_caller_says_the_new_version(
    own: str | None, is_sampled: bool, where: str
) -> None:
    headers = {"anthropic-version": own} if own else {}
    made = backend(headers=headers if where == "backend" else {})
    request = Request("x", parameters=SAMPLING, headers=headers if where == "request" else {})
    http = encoded(made, parameters=SAMPLING, headers=request.headers)
    assert http.headers["anthropic-version"] == (own or "2023-06-01")
    assert sampled(json.loads(http.body)) == (SAMPLING if is_sampled else {})
    named = [loss.partition(":")[0] for loss in made.lost(request)]
    assert named == ([] if is_sampled else [*SAMPLING])


@pytest.mark.parametrize("model", [OLD, "claude-opus-5"])
@pytest.mark.parametrize(
    "host", ["us-east5-aiplatform", "aiplatform", "aiplatform.us.rep", "aiplatform.eu.rep"]
)
def test_vertex_carries_the_version_in_its_body_and_follows_it(model: str, host: str) -> None:
    url = VERTEX.replace("us-east5-aiplatform", host)
    http = encoded(backend(model, url), parameters=SAMPLING)
    body = json.loads(http.body)
    assert http.url.startswith(f"https://{host}.googleapis.com/")
    assert (body["anthropic_version"], sampled(body)) == ("2026-10-21", {})
    assert "anthropic-version" not in http.headers


@pytest.mark.parametrize("old", ["2023-06-01", "vertex-2023-10-16"])
def test_vertex_takes_the_callers_own_version(old: str) -> None:
    in_body = backend(url=VERTEX, parameters={"anthropic_version": old})
    in_header = backend(url=VERTEX, headers={"anthropic-version": old})
    for made in (in_body, in_header):
        body = body_of(made, parameters=SAMPLING)
        assert (body["anthropic_version"], sampled(body)) == (old, SAMPLING)


def test_one_function_decides_by_date() -> None:
    assert [is_new(each) for each in ("2023-06-01", "vertex-2023-10-16", "bedrock-2023-05-31")] == [
        False
    ] * 3
    assert [is_new(each) for each in ("2026-10-21", "2026-10-22", "vertex-2027-01-01")] == [
        True
    ] * 3
    assert version_of(OLD, "bedrock") == version_of("m") == "2023-06-01"
    assert version_of("eu.anthropic.claude-opus-4-8-v1:0", "bedrock") == "2026-10-21"
    assert not is_new("")


@pytest.mark.parametrize(
    ("model", "is_sampled"),
    [("anthropic.claude-sonnet-4-5", True), ("eu.anthropic.claude-opus-4-7-v1:0", False)]
    + [(f"anthropic.{name}", False) for name in NEWER],
)
@pytest.mark.parametrize("where", ["common", "converse"])
def test_on_bedrock_it_holds_from_4_7_on(model: str, is_sampled: bool, where: str) -> None:
    made = Bedrock(model, base_url="http://localhost", region="eu-north-1", api_key="k-1")
    given = SAMPLING
    if where == "converse":
        given = {
            "inferenceConfig": {"temperature": 0.5, "topP": 0.9},
            "additionalModelRequestFields": {"top_k": 40},
        }
    body = body_of(made, parameters=given)
    cold = made.lost(Request("x", parameters={"inferenceConfig": {"temperature": 0}}))
    assert (cold == ()) is is_sampled
    if is_sampled:
        assert body["inferenceConfig"] == {"temperature": 0.5, "topP": 0.9}
        assert body["additionalModelRequestFields"] == {"top_k": 40}
    else:
        assert not {"inferenceConfig", "additionalModelRequestFields"} & body.keys()
    assert "top_k" not in body
    named = [loss.partition(":")[0] for loss in made.lost(Request("x", parameters=given))]
    assert named == ([] if is_sampled else [*SAMPLING])


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
CITED = [{"type": "char_location", "cited_text": "x", "document_index": 0}]
HISTORY: list[Any] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look.", "citations": CITED},
            {
                "type": "search_result",
                "source": "https://a.example",
                "title": "A",
                "content": [{"type": "text", "text": "found", "citations": CITED}],
                "citations": {"enabled": True},
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Here it is."},
            {"type": "document", "source": PDF, "title": "wrens.pdf"},
            {"type": "document", "source": {"type": "text", "data": "In the reeds."}},
        ],
    },
    {"role": "user", "content": [{"type": "text", "text": "And?", "citations": []}]},
]


def kinds(message: Any) -> list[str]:
    content = message["content"]
    return ["text"] if isinstance(content, str) else [each["type"] for each in content]


@pytest.mark.parametrize("is_portable", [False, True])
def test_what_the_new_version_refuses_in_messages_is_said_otherwise_and_named(
    is_portable: bool,
) -> None:
    made = backend("claude-opus-5")
    body = body_of(made, *HISTORY, portable=is_portable)
    first, answer, last = body["messages"]
    assert set(kinds(answer)) == {"text"}
    assert "Here it is." in json.dumps(answer)
    assert "wrens.pdf" in json.dumps(answer)
    assert "In the reeds." in json.dumps(answer)
    assert "char_location" not in json.dumps(body)
    if not is_portable:
        assert first["content"][1]["citations"] == {"enabled": True}
    assert "And?" in json.dumps(last)
    losses = made.lost(Request(HISTORY), is_portable=is_portable)
    assert sum("documents in answers, 1 x" in loss for loss in losses) == 1
    assert sum("citations of the user's, 1 x" in loss for loss in losses) == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "In the reeds."}, "In the reeds."),
        ({"type": "file", "file_id": "file_7"}, "file_7"),
        ({"type": "content", "content": [{"type": "text", "text": "Reeds."}]}, "(file: "),
    ],
)
def test_no_document_of_any_source_stays_in_an_answer(source: Any, words: str) -> None:
    content = [{"type": "text", "text": "Here."}, {"type": "document", "source": source}]
    history = [{"role": "assistant", "content": content}, {"role": "user", "content": "And?"}]
    made = backend("claude-opus-5")
    answer = body_of(made, {"role": "user", "content": "?"}, *history)["messages"][1]
    assert set(kinds(answer)) == {"text"}
    assert words in json.dumps(answer)
    assert any("documents in answers, 1 x" in loss for loss in made.lost(Request(history)))


def test_the_old_version_gets_them_as_they_are() -> None:
    body = body_of(backend(), *HISTORY)
    assert body["messages"] == HISTORY
    assert backend().lost(Request(HISTORY)) == ()


def test_a_neutral_answer_with_a_document_is_named_too() -> None:
    parts = (TextPart("Here."), MediaPart("file", data="JVBERg==", name="wrens.pdf"))
    messages = ["?", Message("assistant", parts), "And?"]
    given = [
        {"role": "user", "content": each} if isinstance(each, str) else each for each in messages
    ]
    for model in NEWER:
        converse = Bedrock(
            f"anthropic.{model}", base_url="http://localhost", region="eu-north-1", api_key="k-1"
        )
        for made in (backend(model), converse):
            answer = body_of(made, *given)["messages"][1]
            assert "document" not in json.dumps(answer)
            assert "wrens.pdf" in json.dumps(answer)
            assert any(
                loss.startswith("documents in answers") for loss in made.lost(Request(given))
            )


@pytest.mark.parametrize("kind", ["between_tools", "adaptive", "a_way_of_tomorrow"])
def test_any_thinking_that_is_not_disabled_is_thinking(kind: str) -> None:
    parameters = {"thinking": {"type": kind}, **SAMPLING}
    body = body_of(backend(), parameters=parameters)
    assert (body["thinking"], sampled(body)) == ({"type": kind}, {})
    made = backend(parameters={"thinking": {"type": kind}})
    assert not made.prefills_with({})
    losses = made.lost(Request("x", tool_choice="required"))
    assert any(loss.startswith("thinking: ") for loss in losses)
    fields = {"additionalModelRequestFields": {"thinking": {"type": kind}}}
    converse = Bedrock(
        f"anthropic.{OLD}", base_url="http://localhost", region="eu-north-1", api_key="k-1"
    )
    assert "inferenceConfig" not in body_of(converse, parameters={**fields, "temperature": 0.5})
