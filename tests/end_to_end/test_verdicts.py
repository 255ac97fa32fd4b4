"""A whole reply that is wrong goes back with the reasons: in every protocol, asked in three ways,
whole and streamed.
"""

import datetime
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field

import rungwise
from rungwise import (
    Budget,
    Capabilities,
    Client,
    ConfigurationError,
    Journal,
    OpenAIChat,
    Policy,
    Prices,
    Result,
    ToolCall,
    VerdictError,
)
from rungwise.fsm.call.conversation.observation import WRONG as WRONG_EVENTS
from rungwise.fsm.engine.journal.path import WRONG as WORDED
from rungwise.fsm.engine.journal.path import words_of
from rungwise.testing import EmbeddedProvider, ReceivedRequest, Script, ScriptedReply
from support import protocols
from support.modes import follow
from support.runs import Stage, asking
from support.sampling import THOROUGH

MODES = ("call", "stream", "acall", "astream", "whole", "awhole")


class Bird(BaseModel):
    name: str
    wingspan_cm: int = Field(gt=0)


BITTERN = Bird(name="bittern", wingspan_cm=125)
RIGHT = '{"name": "bittern", "wingspan_cm": 125}'
WRONG = '{"name": "bittern", "wingspan_cm": -5}'
OTHER = '{"name": "bittern"}'
FORMS: Mapping[str, Capabilities] = {
    "schema": Capabilities(json_schema=True, tools=True),
    "tool": Capabilities(json_schema=False, tools=True),
    "words": Capabilities(json_schema=False, tools=False),
}
PRICES = Prices(1e6, 1e6)
POLICY = Policy(budget=Budget(money=20_000), limits=rungwise.Limits(retries=1))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes a form in each form of each protocol; Ollama cannot be made to call a
    tool.
    """
    if "form" in metafunc.fixturenames:
        pairs = [
            (api, form)
            for api in protocols.PROTOCOLS
            for form in FORMS
            if (api, form) != ("ollama", "tool")
        ]
        metafunc.parametrize(("api", "form"), pairs)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def reply(form: str, text: str, **more: Any) -> ScriptedReply:
    """Return a reply that answers as it is asked to in a form."""
    if form == "tool":
        return ScriptedReply(tool_calls=[ToolCall("call_1", "answer", text)], **more)
    return ScriptedReply(text, **more)


def chain_of(api: str, form: str) -> Any:
    return lambda url: [protocols.backend(api, url, capabilities=FORMS[form], prices=PRICES)]


@cache
def proved(api: str, form: str) -> tuple[int, float]:
    """Return the most attempts and the most money of a call that asks for a bird."""
    chain = chain_of(api, form)("http://127.0.0.1/v1")
    certificate = rungwise.verify(
        POLICY,
        chain,
        max_tokens=4_000,
        input_tokens=100,
        returns=Bird,
    )
    return certificate.worst_of("attempts").value, certificate.worst_of("money").value


def holds(result: rungwise.Result, api: str, form: str = "schema") -> None:
    """Check that the call stays within its certificate, and that its journal replays."""
    if api == "openai" or THOROUGH:
        attempts, money = proved(api, form)
        assert result.attempts <= attempts
        assert result.cost <= money
    again = rungwise.replay(Journal.from_json(result.journal.to_json()))
    assert (again.outcome, again.attempts, again.cost) == (
        result.outcome,
        result.attempts,
        result.cost,
    )
    assert "bittern" not in result.journal.to_json()


def described(
    mode: str, api: str, form: str, script: Any, **options: Any
) -> tuple[Result, list[ReceivedRequest]]:
    """Make a call, check what holds of every one, and return its result and what was sent."""
    events: list[Any] = []
    with asking(mode, script, chain_of(api, form), policy=POLICY) as (ask, stage, _):
        result = ask(events=events, **options)
    assert follow(events) in ("", result.text)
    holds(result, api, form)
    return result, stage.requests


@pytest.mark.sampled(24)
def test_a_right_answer_needs_one_request(api: str, form: str, mode: str) -> None:
    result, sent = described(mode, api, form, [reply(form, RIGHT)], returns=Bird)
    assert (result.outcome, result.value) == ("done", BITTERN)
    assert result.text.replace(" ", "") == RIGHT.replace(" ", "")
    assert not result.tool_calls
    body = str(sent[0].body)
    assert "wingspan_cm" in body
    assert ("exclusiveMinimum" in body) or form == "schema"


@pytest.mark.sampled(24)
def test_a_wrong_answer_goes_back_with_the_reason(api: str, form: str, mode: str) -> None:
    result, sent = described(
        mode, api, form, [reply(form, WRONG), reply(form, RIGHT)], returns=Bird
    )
    assert (result.outcome, result.value) == ("done", BITTERN)
    assert [step.target for step in result.journal.steps if step.event == "answered_wrongly"] == [
        "correct"
    ]
    assert result.journal.steps[1].note == "wrong: wingspan_cm"
    *_, wrong, reasons = protocols.said(sent[1])
    assert wrong.role == "assistant"
    if form == "tool":
        assert [call.name for call in wrong.tool_calls] == ["answer"]
        assert [result.id for result in reasons.tool_results] == [
            call.id for call in wrong.tool_calls
        ]
        assert "greater than 0" in reasons.tool_results[0].text
    else:
        assert wrong.text == WRONG
        assert "greater than 0" in reasons.text


@pytest.mark.parametrize(
    ("contents", "says"), [(False, "wrong: wingspan_cm"), (True, "input should be greater than 0")]
)
def test_a_summary_says_what_was_wrong(contents: bool, says: str) -> None:
    with EmbeddedProvider(Script([ScriptedReply(WRONG), ScriptedReply(RIGHT)])) as provider:
        backend = OpenAIChat("m", base_url=provider.base_url, api_key="k")
        with Client(backend, contents=contents) as client:
            journal = client.call("Describe a bittern.", returns=Bird).journal
    told = words_of(journal.steps[1])
    assert journal.steps[1].event in WORDED
    assert set(WORDED) == set(WRONG_EVENTS.values())
    assert told.startswith("wrong: ")
    assert says in told
    assert WRONG not in told


def test_the_same_wrong_answer_twice_is_not_asked_for_again(api: str, form: str, mode: str) -> None:
    result, _ = described(mode, api, form, [reply(form, WRONG)], returns=Bird)
    assert (result.outcome, result.value, result.attempts) == ("partial", None, 2)
    assert result.text.replace(" ", "") == WRONG.replace(" ", "")
    assert result.cause is not None
    assert "greater than 0" in result.cause


def test_wrong_answers_end_with_the_limits(api: str, form: str, mode: str) -> None:
    script = [reply(form, WRONG), reply(form, OTHER)] * 10
    result, _ = described(mode, api, form, script, returns=Bird)
    assert (result.outcome, result.attempts) == ("partial", 3)
    assert result.cause is not None
    assert result.cause.startswith("the answer was wrong, and no correction is left: ")


def test_a_cut_answer_is_asked_for_with_a_larger_cap_and_then_corrected(
    api: str, form: str, mode: str
) -> None:
    cut = reply(form, RIGHT[:20], finish="length")
    script = [cut, reply(form, WRONG), reply(form, RIGHT)]
    result, sent = described(mode, api, form, script, returns=Bird, max_tokens=100)
    assert (result.outcome, result.value) == ("done", BITTERN)
    assert [step.target for step in result.journal.steps[1::2]] == ["enlarge", "correct", "done"]
    assert [protocols.cap(request) for request in sent] == [100, 200, 200]


def test_a_verdict_rejects_what_a_schema_allows(api: str, form: str, mode: str) -> None:
    seen: list[Any] = []

    def verdict(reply: rungwise.core.Reply, bird: Bird) -> str | None:
        seen.append((reply.text.replace(" ", ""), bird))
        return None if bird.wingspan_cm > 100 else "A bittern is larger."

    small = RIGHT.replace("125", "12")
    result, sent = described(
        mode, api, form, [reply(form, small), reply(form, RIGHT)], returns=Bird, verdict=verdict
    )
    assert (result.outcome, result.value, result.attempts) == (
        "done",
        BITTERN,
        2,
    )
    assert "A bittern is larger." in str(sent[1].body)
    assert seen == [
        (text.replace(" ", ""), Bird.model_validate_json(text)) for text in (small, RIGHT)
    ], "a verdict runs once per reply"
    assert result.journal.steps[1].note == "wrong"


LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.mark.parametrize(
    ("name", "arguments", "says", "note"),
    [
        ("look", "{}", "'city' is missing", "wrong: look.city"),
        ("look", '{"city": 7}', "must be of type string", "wrong: look.city"),
        ("lock", '{"city": "Lund"}', "there is no tool 'lock'", "wrong: a tool"),
    ],
)
def test_a_wrong_tool_call_goes_back(
    api: str,
    mode: str,
    name: str,
    arguments: str,
    says: str,
    note: str,
) -> None:
    wrong = ScriptedReply(tool_calls=[ToolCall("call_1", name, arguments)])
    right = ScriptedReply(tool_calls=[ToolCall("call_2", "look", '{"city": "Lund"}')])
    result, sent = described(mode, api, "schema", [wrong, right], tools=[LOOK])
    assert [(call.name, call.arguments.replace(" ", "")) for call in result.tool_calls] == [
        ("look", '{"city":"Lund"}')
    ]
    assert [step.event for step in result.journal.steps[1::2]] == ["called_wrongly", "called_tools"]
    assert result.journal.steps[1].note == note
    *_, calling, told = protocols.said(sent[1])
    assert [result.id for result in told.tool_results] == [call.id for call in calling.tool_calls]
    assert says in told.tool_results[0].text


def test_a_right_call_beside_a_wrong_one_is_not_run(api: str, mode: str) -> None:
    calls = [ToolCall("call_1", "look", '{"city": "Lund"}'), ToolCall("call_2", "look", "{}")]
    result, sent = described(mode, api, "schema", [ScriptedReply(tool_calls=calls)], tools=[LOOK])
    assert (result.outcome, result.tool_calls, result.attempts) == ("exhausted", (), 2)
    told = [each for message in protocols.said(sent[1]) for each in message.tool_results]
    assert ["not run" in each.text for each in told] == [True, False]


def test_a_verdict_that_raises_fails_the_call_and_keeps_what_was_gathered(
    api: str, mode: str, serve: Any
) -> None:
    def verdict(reply: rungwise.core.Reply) -> str | None:
        raise KeyError("sk-secret")

    with asking(mode, [ScriptedReply("In the reeds.")], chain_of(api, "words")) as (ask, _, _):
        result = ask(verdict=verdict)
    assert (result.outcome, result.attempts) == ("failed", 1)
    with pytest.raises(VerdictError, match="a verdict raised KeyError") as caught:
        result.raise_for_outcome()
    assert isinstance(caught.value, rungwise.Failed)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "sk-secret" not in str(caught.value) + result.journal.to_json()


def test_an_async_verdict_is_awaited_in_every_mode(api: str, mode: str) -> None:
    async def verdict(reply: rungwise.core.Reply) -> str | None:
        return None if "[1]" in reply.text else "Cite a source as [1]."

    script = [ScriptedReply("In the reeds."), ScriptedReply("In the reeds [1].")]
    result, sent = described(mode, api, "words", script, verdict=verdict)
    assert (result.text, result.attempts) == ("In the reeds [1].", 2)
    assert "Cite a source" in str(sent[1].body)


def test_one_chain_may_mix_all_three_ways(serve: Any) -> None:
    wrong = [serve(reply(form, WRONG)) for form in ("schema", "tool")]
    right = serve(reply("words", f"```json\n{RIGHT}\n```"))
    chain = [
        protocols.backend(
            api,
            provider.base_url,
            name=form,
            model=form,
            capabilities=FORMS[form],
        )
        for api, form, provider in zip(
            ("openai", "anthropic", "gemini"), FORMS, (*wrong, right), strict=True
        )
    ]
    with Client(chain) as client:
        result = client.call("Describe a bittern.", returns=Bird)
    assert (result.value, result.backend, result.attempts) == (
        BITTERN,
        "words",
        5,
    )
    assert "response_format" in wrong[0].requests[0].body
    assert wrong[1].requests[0].body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert "JSON schema" in str(right.requests[0].body)
    assert WRONG not in str(right.requests[0].body), "what was wrong elsewhere is not told"


def test_a_tool_is_called_wrongly_where_none_was_offered_and_a_value_is_wanted(
    api: str, mode: str
) -> None:
    script = [ScriptedReply(tool_calls=[ToolCall("c1", "nope", "{}")]), reply("schema", RIGHT)]
    result, _ = described(mode, api, "schema", script, returns=Bird)
    assert (result.outcome, result.value) == ("done", BITTERN)
    assert result.journal.steps[1].event == "called_wrongly"


def raises(value: int) -> int:
    raise RuntimeError(value)


def test_a_validator_that_raises_does_not_end_a_stream(mode: str) -> None:
    script = [ScriptedReply("[1, 2, 3, 4]", chunk_size=1)]
    result, _ = described(
        mode, "openai", "schema", script, returns=list[Annotated[int, AfterValidator(raises)]]
    )
    assert (result.outcome, result.value) == ("partial", None)
    assert "cannot be checked (RuntimeError)" in str(result.cause)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"returns": {"default": {1, 2}}}, r"returns\['default'\] has no form in JSON"),
        (
            {"returns": {"properties": {"a": {"const": float("nan")}}}},
            "returns.*'const'.* has no form in JSON",
        ),
        ({"returns": raises}, "returns must be a type"),
        ({"returns": lambda: 5}, "returns must be a type"),
        ({"verdict": lambda: None}, "verdict must be a function that takes the reply"),
        (
            {"returns": Bird, "response_format": {"type": "json_object"}},
            "either returns or response_format",
        ),
    ],
)
def test_what_is_no_type_and_no_schema_is_refused(options: Any, says: str) -> None:
    backend = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key="k")
    with Client(backend) as client, pytest.raises(ConfigurationError, match=says):
        client.call("Describe a bittern.", **options)


def test_a_date_in_a_schema_is_its_text(stages: tuple[Stage, ...]) -> None:
    schema = {
        "type": "object",
        "properties": {"on": {"const": datetime.date(2020, 1, 1)}},
        "required": ["on"],
    }
    stages[0].play([ScriptedReply('{"on": "2019-01-01"}'), ScriptedReply('{"on": "2020-01-01"}')])
    with Client(OpenAIChat("gpt-5", base_url=stages[0].provider.base_url, api_key="k")) as client:
        assert client.call("When?", returns=schema).value == {"on": "2020-01-01"}
    assert len(stages[0].requests) == 2
    assert "2020-01-01" in str(stages[0].requests[0].body)


@pytest.mark.parametrize("returned", [True, False, "", 3, {"answer": WRONG}])
def test_a_verdict_that_returns_no_sentence_fails_the_call_and_says_so(
    returned: Any, serve: Any
) -> None:
    says = "must return None or a sentence, not"
    backend = OpenAIChat("m", base_url=serve(reply("schema", RIGHT)).base_url, api_key="k")
    with Client(backend) as client, pytest.raises(VerdictError, match=says) as caught:
        client.call("Describe a bittern.", verdict=lambda _: returned)
    assert "bittern" not in f"{caught.value}{caught.value.result.journal.to_json()}"
