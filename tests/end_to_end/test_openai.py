"""Models of OpenAI's, whose two protocols do not take the same, and servers with one of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import rungwise
from rungwise import Client, Journal, OpenAI, OpenAIChat, OpenAIResponses, replay
from rungwise.adapters.wires.learned import LEARNED
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply, testing

pytestmark = pytest.mark.sampled(1)

ANSWER = ScriptedReply("In the reeds, mostly.")
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
KEY = "sk-1"


def refused(message: str, **more: Any) -> ScriptedReply:
    error = {"message": message, "type": "invalid_request_error", "code": None, **more}
    return ScriptedReply(status=400, body=json.dumps({"error": error}))


def tools_refused(model: str) -> ScriptedReply:
    return refused(
        f"Function tools with reasoning_effort are not supported for {model} in "
        "/v1/chat/completions.",
        param="reasoning_effort",
    )


def is_chat(request: ReceivedRequest) -> bool:
    return "chat/completions" in request.path


def five(request: ReceivedRequest) -> ScriptedReply:
    """Answer as 5.4 and later do: on chat, tools go beside the effort none alone."""
    has_tools = bool(request.body.get("tools"))
    if is_chat(request) and has_tools and request.body.get("reasoning_effort") != "none":
        return tools_refused(request.body["model"])
    return ANSWER


def six(request: ReceivedRequest) -> ScriptedReply:
    """Answer as 6 and later do: on chat, no tools go, and no effort none."""
    if not is_chat(request):
        return ANSWER
    if request.body.get("reasoning_effort") == "none":
        return refused(
            "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
            param="reasoning_effort",
            code="unsupported_value",
        )
    return tools_refused(request.body["model"]) if request.body.get("tools") else ANSWER


def only_chat(status: int) -> Callable[[ReceivedRequest], ScriptedReply]:
    def answer(request: ReceivedRequest) -> ScriptedReply:
        return ANSWER if is_chat(request) else ScriptedReply(status=status)

    return answer


def ways(provider: EmbeddedProvider) -> list[tuple[str, Any]]:
    """Return the page and the effort of each request."""
    seen = []
    for request in provider.requests:
        page = "chat" if is_chat(request) else "responses"
        reasoning = request.body.get("reasoning") or {}
        seen.append((page, request.body.get("reasoning_effort", reasoning.get("effort"))))
    return seen


def place(provider: EmbeddedProvider, model: str) -> dict[str, Any]:
    return {"model": model, "base_url": provider.base_url, "api_key": KEY}


@pytest.fixture(autouse=True)
def nothing_learned_and_no_waits() -> Any:
    LEARNED.forget()
    with testing():
        yield
    LEARNED.forget()


@pytest.mark.parametrize("model", ["gpt-5.4", "gpt-5.5-2026-04-23", "gpt-5.7-sol", "gpt-5.12"])
@pytest.mark.parametrize("options", [{}, {"reasoning_effort": "high"}], ids=["unset", "high"])
def test_a_model_that_is_known_gets_the_effort_none_beside_tools_at_once(
    model: str, options: Any
) -> None:
    with EmbeddedProvider(five) as provider, Client(OpenAIChat(**place(provider, model))) as client:
        check = client.check("hi", tools=TOOLS, **options)
        result = client.call("Where do herons nest?", tools=TOOLS, **options)
        assert ways(provider) == [("chat", "none")]
    assert result.outcome == "done"
    assert "use OpenAIResponses" in str(check)
    assert not check
    assert "use OpenAIResponses" in (result.journal.steps[0].note or "")


def test_without_tools_the_effort_stays_as_it_is() -> None:
    with EmbeddedProvider(five) as provider:
        with Client(OpenAIChat(**place(provider, "gpt-5.4"))) as client:
            client.call("Where do herons nest?")
            client.call("Where do herons nest?", reasoning_effort="high")
            assert "OpenAIResponses" not in str(client.check("hi"))
        assert ways(provider) == [("chat", None), ("chat", "high")]


@pytest.mark.parametrize("options", [{}, {"reasoning_effort": "low"}], ids=["unset", "low"])
@pytest.mark.parametrize("model", ["my-deployment", "openai/gpt-5.9"])
def test_a_model_that_is_unknown_is_set_to_none_once(model: str, options: Any) -> None:
    with EmbeddedProvider(five) as provider, Client(OpenAIChat(**place(provider, model))) as client:
        result = client.call("Where do herons nest?", tools=TOOLS, **options)
        assert ways(provider) == [("chat", options.get("reasoning_effort")), ("chat", "none")]
    assert result.outcome == "done"
    written = result.journal.to_json()
    assert replay(Journal.from_json(written)).journal.to_json() == written


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("gpt-6.1-sol", [("chat", None)]),
        ("gpt-7.3-vega", [("chat", None)]),
        ("my-deployment", [("chat", None), ("chat", "none")]),
    ],
)
def test_a_model_that_takes_no_tools_in_chat_fails_with_what_to_do(model: str, sent: Any) -> None:
    with EmbeddedProvider(six) as provider, Client(OpenAIChat(**place(provider, model))) as client:
        with pytest.raises(rungwise.Failed, match="use OpenAIResponses") as caught:
            client.call("Where do herons nest?", tools=TOOLS)
        assert ways(provider) == sent
        assert client.call("Where do herons nest?").outcome == "done"
        if model.startswith("gpt"):
            assert "use OpenAIResponses" in str(client.check("hi", tools=TOOLS))
    written = caught.value.result.journal.to_json()
    assert replay(Journal.from_json(written)).journal.to_json() == written


def test_none_that_was_refused_is_not_sent_again() -> None:
    def answer(request: ReceivedRequest) -> ScriptedReply:
        return tools_refused("m")

    for options in ({"reasoning_effort": "none"}, {}):
        with EmbeddedProvider(answer) as provider:
            with Client(OpenAIChat(**place(provider, "m"))) as client:
                with pytest.raises(rungwise.Failed):
                    client.call("hi", tools=TOOLS, **options)
                efforts = [effort for _, effort in ways(provider)]
            assert len(efforts) == len(set(efforts))


def test_a_chain_of_both_goes_on_in_responses() -> None:
    with EmbeddedProvider(six) as provider:
        where = place(provider, "gpt-6.1-sol")
        with Client([OpenAIChat(**where), OpenAIResponses(**where)]) as client:
            result = client.call("hi", tools=TOOLS)
        assert ways(provider) == [("chat", None), ("responses", None)]
    assert result.outcome == "done"


@pytest.mark.parametrize(
    ("model", "page"),
    [
        ("gpt-4o", "chat"),
        ("gpt-4.1-mini", "chat"),
        ("llama-3.3-70b", "chat"),
        ("openai/gpt-6.3-sol", "chat"),
        ("gpt-oss-120b", "chat"),
        ("gpt-5.4", "responses"),
        ("gpt-5.6-sol-2026-08-01", "responses"),
        ("gpt-6-astra", "responses"),
        ("gpt-6.9", "responses"),
        ("gpt-11", "responses"),
    ],
)
def test_the_protocol_is_chosen_before_the_first_request(model: str, page: str) -> None:
    with EmbeddedProvider(six) as provider, Client(OpenAI(**place(provider, model))) as client:
        result = client.call("Where do herons nest?", tools=[] if page == "chat" else TOOLS)
        assert [way for way, _ in ways(provider)] == [page]
        check = str(client.check("hi"))
    assert result.outcome == "done"
    assert ("(Responses)" in (result.backend or "")) is (page == "responses")
    assert result.backend in check.splitlines()


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("gpt-5", OpenAIResponses),
        ("o3", OpenAIResponses),
        ("gpt-6.1-sol", OpenAIResponses),
        ("gpt-4o", OpenAIChat),
        ("gpt-5.1-chat-latest", OpenAIChat),
        ("gpt-3.5-turbo", OpenAIChat),
    ],
)
@pytest.mark.parametrize("base_url", [None, "https://eu.api.openai.com/v1"])
def test_at_openai_s_own_hosts_what_reasons_is_asked_in_responses(
    model: str, kind: Any, base_url: Any
) -> None:
    where = {} if base_url is None else {"base_url": base_url}
    backend = OpenAI(model, api_key=KEY, **where)
    assert type(backend) is kind
    with Client(backend) as client:
        assert len(client.chain) == 1


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_responses_is_asked_in_chat_and_that_is_remembered(status: int) -> None:
    with EmbeddedProvider(only_chat(status)) as provider:
        with Client(OpenAI(**place(provider, "gpt-5.5"))) as client:
            first = client.call("Where do herons nest?", tools=TOOLS)
            again = client.call("Where do herons nest?")
        with Client(OpenAI(**place(provider, "gpt-5.5"))) as client:
            client.call("Where do herons nest?")
        assert ways(provider) == [
            ("responses", None),
            ("chat", "none"),
            ("chat", None),
            ("chat", None),
        ]
    assert first.backend is not None
    assert first.backend.endswith("/gpt-5.5 (chat completions)")
    assert again.journal.steps[0].event == "skipped"
    for result in (first, again):
        written = result.journal.to_json()
        LEARNED.forget()
        assert replay(Journal.from_json(written)).journal.to_json() == written


def test_a_server_that_takes_tools_in_responses_alone_is_asked_there_at_last() -> None:
    with EmbeddedProvider(six) as provider:
        with Client(OpenAI(**place(provider, "my-deployment"))) as client:
            assert client.call("hi", tools=TOOLS).outcome == "done"
            assert client.call("hi", tools=TOOLS).outcome == "done"
        assert ways(provider) == [
            ("chat", None),
            ("chat", "none"),
            ("responses", None),
            ("responses", None),
        ]


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_any_other_failure_never_leads_to_the_other_protocol(status: int) -> None:
    def answer(request: ReceivedRequest) -> ScriptedReply:
        return ScriptedReply(status=status)

    with EmbeddedProvider(answer) as provider:
        backend = OpenAI(**place(provider, "gpt-6"))
        with Client(backend) as client, pytest.raises(rungwise.CallError):
            client.call("hi")
        assert {way for way, _ in ways(provider)} == {"responses"}


def test_a_check_leaves_out_what_stands_in() -> None:
    with Client(OpenAI("gpt-6", base_url="http://localhost:1/v1")) as client:
        assert [backend.name for backend in client.chain] == [
            "localhost:1/gpt-6 (Responses)",
            "localhost:1/gpt-6 (chat completions)",
        ]
        [check] = client.check("hi", tools=TOOLS).backends
    assert check.is_clean
    assert check.name == "localhost:1/gpt-6 (Responses)"


def test_a_name_stays_and_options_go_to_both() -> None:
    options: dict[str, Any] = {"name": "mine", "parameters": {"service_tier": "flex"}}
    with Client(OpenAI("m", base_url="http://localhost:1/v1", **options)) as client:
        assert [backend.name for backend in client.chain] == ["mine", "mine (Responses)"]
        assert {str(dict(each.parameters)) for each in client.chain} == {"{'service_tier': 'flex'}"}


def test_another_policy_reaches_the_stand_in_too() -> None:
    with EmbeddedProvider(only_chat(404)) as provider:
        client = Client(OpenAI(**place(provider, "gpt-5.5")))
        with client:
            journal = client.call("hi").journal
    other = rungwise.Policy(limits=rungwise.Limits(retries=1))
    assert replay(journal, other).outcome == "done"


def test_an_error_shows_no_key() -> None:
    with pytest.raises(rungwise.ConfigurationError) as caught:
        OpenAI("gpt-5", api_key="sk-secret", quota="none")
    frame = caught.value.__traceback__
    while frame is not None:
        assert "sk-secret" not in repr(frame.tb_frame.f_locals) or "test_openai" in str(
            frame.tb_frame.f_code.co_filename
        )
        frame = frame.tb_next
