"""What goes to Gemini: the place, the key, the conversation, the tools and the parameters."""

import json
from typing import Any

import pytest

from rungwise import Gemini, MediaPart, Message, OpenAIChat, Policy, TextPart, ToolCall, ToolResult
from rungwise.adapters.wires.gemini.backend import DUMMY
from rungwise.core import Call, Failure, OpaquePart, ReasoningPart, Reply, Request
from support import official, protocols
from support.protocols import encoded

KEY = "AIza-real-looking-0123456789"
ASKED = {"role": "user", "content": "Where?"}
SCHEMA = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
}
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": SCHEMA,
        "strict": True,
    },
}
DECLARED = {
    "name": "look",
    "description": "Look.",
    "parametersJsonSchema": SCHEMA,
}
PIXEL = "iVBORw0KGgo="


def gemini(model: str = "gemini-2.5-flash", **options: Any) -> Gemini:
    return Gemini(model, **{"api_key": KEY, **options})


def body_of(*messages: Any, to: Gemini | None = None, known: bool = True, **fields: Any) -> Any:
    body = protocols.body_of(to or gemini(), *(messages or (ASKED,)), stream=True, **fields)
    if known:  # to Google's own client
        official.check("gemini", body)
    return body


def config_of(model: str = "gemini-2.5-flash", parameters: Any = None, **fields: Any) -> Any:
    return body_of(to=gemini(model), parameters=parameters, **fields).get("generationConfig")


# where


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        (None, "https://generativelanguage.googleapis.com/v1beta"),
        ("https://g.test/v1beta/", "https://g.test/v1beta"),
        ("https://g.test/v1beta/models/other:generateContent", "https://g.test/v1beta"),
        (
            "https://g.test/v1beta/models/other:streamGenerateContent?alt=sse",
            "https://g.test/v1beta",
        ),
        (
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google",
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google",
        ),
    ],
)
def test_the_method_stands_behind_the_model(base_url: str | None, root: str) -> None:
    backend = gemini("g-1", **({"base_url": base_url} if base_url else {}))
    assert encoded(backend, stream=True).url == f"{root}/models/g-1:streamGenerateContent?alt=sse"
    assert encoded(backend, stream=False).url == f"{root}/models/g-1:generateContent"


def test_a_query_is_kept_and_a_collection_is_named() -> None:
    backend = gemini("tunedModels/my model", base_url="https://g.test/v1?x=1&alt=json")
    url = "https://g.test/v1/tunedModels/my%20model"
    assert encoded(backend, stream=True).url == f"{url}:streamGenerateContent?alt=sse&x=1"
    assert encoded(backend, stream=False).url == f"{url}:generateContent?x=1"


def test_the_key_goes_into_its_header_and_a_token_into_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert encoded(gemini(), stream=True).headers["x-goog-api-key"] == KEY
    vertex = gemini(
        api_key=None,
        base_url="https://eu-aiplatform.googleapis.com/v1",
        headers={"authorization": "Bearer t"},
    )
    headers = encoded(vertex, stream=True).headers
    assert vertex.problem is None
    assert headers["authorization"] == "Bearer t"
    assert "x-goog-api-key" not in headers
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    assert gemini(api_key=None).problem is None
    assert gemini(api_key=None, base_url="https://g.example").problem is not None


# the conversation


OWN = (
    {
        "role": "user",
        "parts": [
            {"text": "Where?"},
            {"fileData": {"fileUri": "files/1"}, "videoMetadata": {"fps": 1}},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"text": "Reeds.", "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"},
        ],
    },
    {
        "role": "user",
        "parts": [{"function_response": {"name": "look", "response": {"seen": [1, 2]}}}],
    },
)


def test_own_contents_go_out_word_for_word() -> None:
    assert body_of(*OWN, known=False)["contents"] == [*OWN]
    system = {"role": "system", "parts": [{"text": "Be brief."}]}
    assert body_of(system, *OWN, known=False)["systemInstruction"] == {"parts": system["parts"]}


def test_after_a_switch_own_contents_lose_signatures_and_thoughts_alone() -> None:
    user, model, results = body_of(*OWN, portable=True)["contents"]
    assert user == OWN[0]
    assert model["parts"][0] == {"text": "Reeds."}
    assert [sorted(part) for part in model["parts"]] == [["text"], ["functionCall"]]
    assert results["parts"][0]["functionResponse"]["name"] == "look"


def test_the_first_call_of_each_step_is_signed_for_the_models_that_want_it() -> None:
    look = {"functionCall": {"name": "look", "args": {}}}
    note = {"functionCall": {"name": "note", "args": {}}}
    looked = {"functionResponse": {"name": "look", "response": {"output": "x"}}}
    noted = {"functionResponse": {"name": "note", "response": {"output": "x"}}}
    text = {"text": "I look."}
    signed = {**look, "thoughtSignature": "c2ln"}
    given = (
        {"role": "user", "parts": [{"text": "Where?"}]},
        {"role": "model", "parts": [text, look, note]},
        {"role": "user", "parts": [looked, noted]},
        {"role": "model", "parts": [signed]},
        {"role": "user", "parts": [looked]},
    )
    for model in ("gemini-3-pro-preview", "gemini-3.6-flash", "gemini-4-pro", "m"):
        contents = body_of(*given, to=gemini(model))["contents"]
        assert contents[1]["parts"] == [text, {**look, "thoughtSignature": DUMMY}, note]
        assert [contents[0], *contents[2:]] == [given[0], *given[2:]]
    for model in ("gemini-2.5-pro", "gemini-2.0-flash", "models/gemini-2.5-flash-lite"):
        assert body_of(*given, to=gemini(model))["contents"] == [*given]


def test_results_are_one_content_in_the_order_of_the_calls() -> None:
    calls = (
        ToolCall("call_gemini_1", "look", "{}"),
        ToolCall("b", "note", "{}"),
        ToolCall("c", "look", "[1]"),
    )
    messages = (
        Message.saying("user", "Where?"),
        Message("assistant", calls),
        Message("tool", (ToolResult("c", "look", "three", True),)),
        Message("tool", (ToolResult("b", "", "two"),)),
        Message("tool", (ToolResult("call_gemini_1", "look", "one"),)),
    )
    for portable in (False, True):
        _, model, user = body_of(*messages, portable=portable)["contents"]
        assert [part["functionCall"] for part in model["parts"]] == [
            {"name": "look", "args": {}},
            {"id": "b", "name": "note", "args": {}},
            {"id": "c", "name": "look", "args": {"input": [1]}},
        ]
        assert [part["functionResponse"] for part in user["parts"]] == [
            {"name": "look", "response": {"output": "one"}},
            {"id": "b", "name": "note", "response": {"output": "two"}},
            {"id": "c", "name": "look", "response": {"error": "three"}},
        ]


def test_what_is_a_providers_own_goes_back_to_its_place_and_to_nobody_else() -> None:
    here = gemini("gemini-3-pro-preview")
    other = gemini("gemini-3-flash-preview")
    me = here.provider
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    before = (
        ReasoningPart("Hm.", "dGhpbms=", me),
        ReasoningPart("", {"thoughtSignature": "dGV4dA=="}, me),
        TextPart("I look."),
        OpaquePart(me, code),
    )
    calls = (
        ToolCall("call_gemini_1", "look", "{}", {"thoughtSignature": "Y2FsbA=="}, me),
        ToolCall("call_gemini_2", "look", "{}", {"id": "twice"}, me),
    )
    end = ReasoningPart("", {"text": "", "thoughtSignature": "ZW5k"}, me)
    answer = Message("assistant", (*before, *calls, end))
    one = ToolResult("call_gemini_1", "look", "One.")
    two = ToolResult("call_gemini_2", "look", "Two.")
    asked = Message.saying("user", "Where?")
    messages = (asked, answer, Message("tool", (one, two)))

    call = {"functionCall": {"name": "look", "args": {}}}
    own = [
        {"text": "Hm.", "thought": True, "thoughtSignature": "dGhpbms="},
        {"text": "I look.", "thoughtSignature": "dGV4dA=="},
        code,
        {**call, "thoughtSignature": "Y2FsbA=="},
        {"functionCall": {"id": "twice", "name": "look", "args": {}}},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]
    bare = [
        {"text": "I look."},
        {"text": "\n```python\n1\n```\n"},  # as in plain messages
        {**call, "thoughtSignature": DUMMY},
        call,
    ]

    def answer_in(**fields: Any) -> Any:
        return body_of(*messages, **fields)["contents"][1]["parts"]

    for portable in (False, True):
        assert answer_in(to=here, portable=portable) == own
        assert answer_in(to=here, portable=portable, unsigned=True) == bare
        assert answer_in(to=other, portable=portable) == bare


def test_a_signature_outlives_the_blank_text_that_it_signed() -> None:
    here = gemini()
    parts = (
        TextPart("Yes."),
        ReasoningPart("", {"thoughtSignature": "c2ln"}, here.provider),
        TextPart(" "),
    )
    sent = body_of(ASKED, Message("assistant", parts), ASKED)["contents"][1]["parts"]
    assert sent == [{"text": "Yes."}, {"text": " ", "thoughtSignature": "c2ln"}]


@pytest.mark.parametrize("portable", [True, False])
def test_the_signature_of_a_blank_text_takes_the_place_of_no_other(portable: bool) -> None:
    here = gemini()
    own = [
        {"text": "\n", "thoughtSignature": "b25l"},
        {
            "functionCall": {
                "id": "f1",
                "name": "look",
                "args": {},
            },
            "thoughtSignature": "dHdv",
        },
    ]
    whole = {"candidates": [{"content": {"role": "model", "parts": own}, "finishReason": "STOP"}]}
    reply = here.decode(200, {}, json.dumps(whole).encode())
    found = Message("tool", (ToolResult("f1", "look", "Reeds."),))
    sent = body_of(ASKED, Message("assistant", reply.parts), found, to=here, portable=portable)
    assert sent["contents"][1]["parts"] == own


@pytest.mark.parametrize(
    ("model", "part", "sent"),
    [
        (
            "gemini-3-pro-preview",
            MediaPart("image", url="https://birds.test/heron.png?x=1"),
            {"fileData": {"mimeType": "image/png", "fileUri": "https://birds.test/heron.png?x=1"}},
        ),
        (
            "gemini-2.0-flash",
            MediaPart("image", url="https://birds.test/a.png"),
            {"text": "(image: https://birds.test/a.png)"},
        ),
        (
            "gemini-2.0-flash",
            MediaPart("video", url="https://www.youtube.com/watch?v=1"),
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://www.youtube.com/watch?v=1"}},
        ),
        (
            "gemini-2.5-pro",
            MediaPart("file", url="gs://b/a"),
            {"fileData": {"fileUri": "gs://b/a"}},
        ),
        (
            "gemini-2.5-pro",
            MediaPart("file", url="ftp://b/a.pdf"),
            {"text": "(file: ftp://b/a.pdf)"},
        ),
        (
            "gemini-2.5-pro",
            MediaPart("file", "JVBERi0=", name="a.pdf"),
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
        ),
    ],
)
def test_pictures_and_files_are_sent_or_named(model: str, part: MediaPart, sent: Any) -> None:
    assert body_of(Message("user", (part,)), to=gemini(model))["contents"][0]["parts"] == [sent]


def test_pictures_in_results_stand_in_the_result_or_behind_it() -> None:
    shown = MediaPart("image", PIXEL, "image/png")
    messages = (
        Message.saying("user", "Where?"),
        Message("assistant", (ToolCall("a", "look", "{}"),)),
        Message("tool", (ToolResult("a", "look", "See.", media=(shown,)),)),
    )
    blob = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    result = {"id": "a", "name": "look", "response": {"output": "See."}}
    [within] = body_of(*messages, to=gemini("gemini-3-flash-preview"))["contents"][2]["parts"]
    assert within == {"functionResponse": {**result, "parts": [blob]}}
    assert body_of(*messages)["contents"][2]["parts"] == [{"functionResponse": result}, blob]


def test_an_empty_turn_is_no_content() -> None:
    assert len(body_of(ASKED, Message("assistant", ()), ASKED)["contents"]) == 1
    empty = {"role": "model", "parts": []}
    own = {"role": "user", "parts": [{"text": "Where?"}]}
    assert body_of(own, empty, own)["contents"] == [own, own]


# the parameters


def test_own_parameters_go_to_their_places_in_either_spelling() -> None:
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    backend = gemini(
        parameters={
            "topK": 4,
            "safety_settings": safety,
            "generationConfig": {"seed": 1, "topP": 0.1},
        }
    )
    asked = {
        "generation_config": {"top_p": 0.2, "presence_penalty": 1},
        "cachedContent": "c",
        "logprobs": 2,
    }
    body = body_of(to=backend, parameters=asked, max_tokens=9)
    assert body.pop("contents")
    assert body == {
        "safetySettings": safety,
        "cachedContent": "c",
        "generationConfig": {
            "seed": 1,
            "topP": 0.2,
            "topK": 4,
            "presencePenalty": 1,
            "logprobs": 2,
            "maxOutputTokens": 9,
        },
    }


def test_tools_that_are_allowed_are_named_and_no_choice_is_sent_without_tools() -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [LOOK]}}
    config = {"mode": "VALIDATED", "allowedFunctionNames": ["look"]}
    assert body_of(tools=[LOOK], parameters={"tool_choice": choice})["toolConfig"] == {
        "functionCallingConfig": config
    }
    for each in (choice, "none"):
        assert "toolConfig" not in body_of(parameters={"tool_choice": each})


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", "medium", {"thinkingBudget": 8192}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "high", {"thinkingBudget": 24_576}),
        ("gemini-3-pro-preview", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.7-flash", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-flash-latest", "xhigh", {"thinkingLevel": "HIGH"}),
        ("gemini-2.0-flash", "low", None),
        ("gemma-3-27b-it", "low", None),
        ("gemini-2.5-flash", "gremlins", None),
        ("gemini-2.5-flash", ["low"], None),
    ],
)
def test_the_effort_of_reasoning_in_each_generations_own_way(
    model: str, effort: Any, thinking: Any
) -> None:
    config = config_of(model, {"reasoning_effort": effort})
    assert config == ({"thinkingConfig": thinking} if thinking else None)
    losses = gemini(model).lost(Request("Where?", parameters={"reasoning_effort": effort}))
    rounded = f"reasoning_effort {effort}: it is sent as "
    left_out = [loss for loss in losses if not loss.startswith(rounded)]
    if thinking:
        assert left_out == []
        return
    [loss] = left_out
    known_levels = "reasoning_effort: it must be one of none, "
    assert loss.startswith(known_levels if "2.5" in model else "reason")


@pytest.mark.parametrize(
    ("model", "now", "less"),
    [
        ("gemini-3-flash-preview", None, {"thinkingLevel": "LOW"}),
        (
            "gemini-3-flash-preview",
            {"thinkingLevel": "HIGH", "includeThoughts": True},
            {"thinkingLevel": "LOW", "includeThoughts": True},
        ),
        ("gemini-3-flash-preview", {"thinkingLevel": "low"}, {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro-preview", {"thinkingLevel": "LOW"}, {"thinkingLevel": "LOW"}),
        ("gemini-2.5-flash", None, {"thinkingBudget": 1024}),
        ("gemini-2.5-flash", {"thinkingBudget": -1}, {"thinkingBudget": 1024}),
        ("gemini-2.5-flash", {"thinkingBudget": 5000}, {"thinkingBudget": 1024}),
        ("gemini-2.5-flash", {"thinkingBudget": 1024}, {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinkingBudget": 1024}, {"thinkingBudget": 128}),
        ("gemini-2.5-flash", {"thinkingBudget": 0}, {"thinkingBudget": 0}),
        ("gemini-2.0-flash", None, None),
    ],
)
def test_less_reasoning(model: str, now: Any, less: Any) -> None:
    config = config_of(model, {"thinkingConfig": now} if now else None, lower_reasoning=True)
    assert config == ({"thinkingConfig": less} if less else None)


def test_tools_of_any_form_are_one_list_of_functions() -> None:
    own = {"functionDeclarations": [{"name": "note"}]}
    claude = {"name": "look", "description": "Look.", "input_schema": SCHEMA}
    server = {"googleSearch": {}}
    assert body_of(tools=[own, claude, server])["tools"] == [
        {"functionDeclarations": [{"name": "note"}, DECLARED]},
        server,
    ]
    assert gemini().lost(Request("Where?", tools=[LOOK, {"type": "web_search"}])) == (
        "the tool web_search: it has no form here",
        "strict of the tools, 1 x: it has no form here",
    )


def test_what_cannot_be_said_is_named_in_the_journal() -> None:
    backend = gemini("gemini-2.0-flash")
    chat = OpenAIChat("m", base_url="http://localhost/v1")
    parameters = {
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "logit_bias": {},
    }
    call = Call(Request("Where?", parameters=parameters), Policy(), (chat, backend))
    call.begin()
    call.receive(Failure("auth", status=401))
    call.receive(Reply("In the reeds.", stop_reason="stop"))
    notes = [step.note for step in call.journal.steps if step.event == "sent"]
    assert notes[-1] == (
        "left out: logit_bias: it is a parameter of another protocol; "
        "parallel_tool_calls: Gemini has no switch for it; reasoning_effort: this model takes none"
    )


def test_the_core_is_told_what_tools_are() -> None:
    form = gemini().shapes
    made = form.strictly(form.tool_of("look", "", {"type": "object"}), True)
    assert made == {
        "functionDeclarations": [{"name": "look", "parametersJsonSchema": {"type": "object"}}]
    }
    assert form.needs_no_arguments("look", [made])
    assert not form.needs_no_arguments("look", [LOOK])
    assert {"tool_choice", "toolConfig"} <= form.tool_parameters
    assert form.role_of({"role": "user", "parts": [{"function_response": {}}]}) == "tool"
    assert form.role_of({"role": "function", "name": "look", "content": "See."}) == "tool"
    block = {"type": "tool_result", "tool_use_id": "a"}
    assert form.role_of({"role": "user", "content": [block]}) == "tool"


def test_a_form_that_nobody_knows_is_named_and_left_out() -> None:
    parameters = {"response_format": {"type": "grammar"}, "tool_choice": {"type": "custom"}}
    body = body_of(tools=[LOOK], parameters=parameters)
    assert not {"generationConfig", "toolConfig"} & body.keys()
    losses = gemini().lost(Request("Where?", parameters=parameters))
    assert [loss.partition(":")[0] for loss in losses] == [*parameters]
    plain = config_of(parameters={"response_format": {"type": "text"}})
    assert plain == {"responseMimeType": "text/plain"}
