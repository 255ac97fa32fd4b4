"""With `returns=`, a call or a turn that ends without a value raises, wherever it runs."""

import json
import pickle
from pathlib import Path
from typing import Any, Final

import attrs
import openai
import pytest
from pydantic import BaseModel

import rungwise
from rungwise import Client, OpenAIChat, Transport, TurnError, TurnWrongAnswer, WrongAnswer
from rungwise.adapters.durable.batch import Batch, PromptLine
from rungwise.adapters.durable.durable import Durable
from rungwise.core import Request
from rungwise.testing import ScriptedReply
from rungwise.ui import sse
from support import modes, protocols, turn_modes
from support.command_line import invoke
from support.modes import EVERY
from support.ui_readers import SseReader


class Bird(BaseModel):
    name: str
    wingspan_cm: int


WRONG: Final = '{"name": "bittern", "wingspan_cm": "wide"}'
RIGHT: Final = '{"name": "bittern", "wingspan_cm": 125}'
NO_LIMITS: Final = rungwise.Limits(corrections=0, enlargements=0, retries=0, reasks=0)
POLICY: Final = rungwise.Policy(limits=NO_LIMITS)
APIS: Final = pytest.mark.parametrize("api", protocols.PROTOCOLS)


def asked(mode: str, api: str, serve: Any, *script: ScriptedReply, **options: Any) -> Any:
    """Make a call in a mode, and return its result; raises as the call does."""
    backend = protocols.backend(api, serve(*script).base_url)
    with Client(backend, policy=POLICY, **modes.options_of(mode)) as client:
        return modes.ask(client, mode, "Describe a bittern.", **{"returns": Bird, **options})


@APIS
@pytest.mark.parametrize("mode", EVERY)
def test_a_call_whose_answer_stays_wrong_raises(mode: str, api: str, serve: Any) -> None:
    with pytest.raises(WrongAnswer) as raised:
        asked(mode, api, serve, ScriptedReply(WRONG))
    error = raised.value
    assert isinstance(error, rungwise.CallError)
    assert (error.result.outcome, error.result.value) == ("partial", None)
    assert error.text == error.result.text == WRONG
    assert len(error.reasons) == 1
    assert "wingspan_cm" in error.reasons[0]
    assert str(error) == "partial after 1 attempt: the answer was wrong: wingspan_cm"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.reasons, str(again)) == (WrongAnswer, error.reasons, str(error))


@APIS
@pytest.mark.parametrize("mode", EVERY)
def test_a_call_whose_answer_stays_cut_raises_as_well(mode: str, api: str, serve: Any) -> None:
    with pytest.raises(rungwise.Exhausted, match="the JSON was cut"):
        asked(mode, api, serve, ScriptedReply(RIGHT[:20], finish="length"))


def too_small(reply: Any, bird: Bird) -> str | None:
    return "A bittern is larger."


@pytest.mark.parametrize("mode", EVERY)
def test_what_a_verdict_rejects_is_no_value(mode: str, serve: Any) -> None:
    with pytest.raises(WrongAnswer) as raised:
        asked(mode, "openai", serve, ScriptedReply(RIGHT), verdict=too_small)
    assert raised.value.reasons == ("A bittern is larger.",)
    assert raised.value.result.value is None


@pytest.mark.parametrize("mode", EVERY)
def test_who_asks_for_no_value_gets_what_there_is(mode: str, serve: Any) -> None:
    rejected = asked(
        mode, "openai", serve, ScriptedReply("Wide."), returns=None, verdict=lambda reply: "No."
    )
    assert (rejected.outcome, rejected.is_success, rejected.reasons) == ("partial", True, ("No.",))


@pytest.mark.parametrize("mode", EVERY)
def test_a_value_that_is_none_and_a_call_of_a_tool_are_no_faults(mode: str, serve: Any) -> None:
    nothing = asked(mode, "openai", serve, ScriptedReply("null"), returns=Bird | None)
    assert (nothing.outcome, nothing.value) == ("done", None)
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    call = ScriptedReply(tool_calls=[rungwise.ToolCall("call_1", "look", "{}")])
    called = asked(mode, "openai", serve, call, tools=[tool])
    assert (called.outcome, called.is_success) == ("done", True)
    assert [each.name for each in called.tool_calls] == ["look"]


@pytest.mark.parametrize("mode", turn_modes.MODES)
def test_a_turn_without_a_value_raises_as_a_turn_and_as_a_call_do(mode: str) -> None:
    turned = turn_modes.run_turn(
        mode,
        ScriptedReply(WRONG),
        returns=Bird,
        policy=rungwise.TurnPolicy(auto_continues=0, call=POLICY),
    )
    error = turned.error
    assert isinstance(error, TurnWrongAnswer)
    assert isinstance(error, WrongAnswer)
    assert isinstance(error, TurnError)
    assert error.result is turned.result
    assert (error.result.value, error.text) == (None, error.result.text)
    assert "wingspan_cm" in error.reasons[0]
    assert "wide" not in str(error)
    assert "None" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (TurnWrongAnswer, str(error))


@pytest.mark.parametrize("mode", turn_modes.MODES)
def test_a_turn_with_a_value_or_that_waits_returns(mode: str) -> None:
    turned = turn_modes.run_turn(mode, ScriptedReply(RIGHT), returns=Bird)
    assert (turned.error, turned.outcome) == (None, "finished")
    assert turned.result.value == Bird(name="bittern", wingspan_cm=125)
    call = turn_modes.calling(("look", "{}"))
    tool = rungwise.Tool(lambda: "seen", name="look", needs_approval=True)
    waiting = turn_modes.run_turn(mode, call, returns=Bird, tools=[tool])
    assert (waiting.error, waiting.outcome) == (None, "awaiting_approval")


# what is kept for another process


def durable_over(url: str, folder: Path) -> Durable:
    client = Client(OpenAIChat("m", base_url=url, api_key="k"), policy=POLICY)
    return Durable(client, f"sqlite:///{folder / 'calls.sqlite'}", modules=["tests"])


SCHEMA: Final = Bird.model_json_schema()


@pytest.mark.full
def test_a_durable_call_raises_each_time_it_is_asked_for(serve: Any, tmp_path: Path) -> None:
    server = serve(ScriptedReply(WRONG))
    for _ in range(2):
        with durable_over(server.base_url, tmp_path) as durable:
            with pytest.raises(WrongAnswer) as raised:
                durable.call("a", "Describe a bittern.", returns=SCHEMA)
            assert "wingspan_cm" in raised.value.reasons[0]
            with pytest.raises(WrongAnswer):
                durable.handle("a", returns=SCHEMA).result()
            with pytest.raises(TurnWrongAnswer):
                durable.turn("b", "Describe a bittern.", returns=SCHEMA)
    assert len(server.requests) == 2


@pytest.mark.full
def test_a_line_of_a_batch_without_a_value_has_failed_and_is_run_again(
    serve: Any, tmp_path: Path
) -> None:
    server = serve(ScriptedReply(WRONG), ScriptedReply(RIGHT))
    line = PromptLine(1, "1", Request("Describe a bittern."))
    results = []
    for retry_failed in (False, False, True):
        with durable_over(server.base_url, tmp_path) as durable:
            batch = Batch(durable, "birds", 1, retry_failed=retry_failed, returns=SCHEMA)
            [one] = batch.run([line])
            results.append(one.result)
    assert [each.is_success for each in results] == [False, False, True]
    assert len(server.requests) == 2


# at the doors


def test_the_command_fails_and_writes_the_text_to_stdout(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bird.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "policy.toml").write_text("[limits]\ncorrections = 0\n")
    monkeypatch.chdir(tmp_path)
    given = ["ask", "Hi", "--model", "m", "--base-url", serve(ScriptedReply(WRONG)).base_url]
    given += ["--returns", "bird.json", "--policy", "policy.toml"]
    (tmp_path / "of_no_value.py").write_text("def look() -> str:\n    return 'seen'\n")
    with_tools = [*given[:-2], "--tools", "of_no_value:look"]
    assert invoke(*with_tools).exit_code == 4
    for more in ([], ["--json"], ["--no-stream"]):
        result = invoke(*given, *more)
        assert result.exit_code == 4
        assert "wrong: wingspan_cm" in result.stderr
        shown = result.stdout
        if "--json" in more:
            shown = json.loads(shown)["text"]
        assert shown.strip() == WRONG


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("text", [WRONG, RIGHT])
def test_an_sdk_gets_an_error_for_what_stays_wrong(streams: bool, text: str, serve: Any) -> None:
    backend = OpenAIChat("m", base_url=serve(ScriptedReply(text)).base_url, api_key="k")
    form = {"type": "json_schema", "json_schema": {"name": "bird", "schema": SCHEMA}}
    said = got = ""
    with Client(backend, policy=POLICY) as client:
        http = openai.DefaultHttpxClient(transport=Transport(client, hold=True))
        sdk: Any = openai.OpenAI(api_key="k", max_retries=0, http_client=http)
        try:
            answer = sdk.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "Describe a bittern."}],
                response_format=form,
                stream=streams,
            )
            if streams:
                got = "".join(each.choices[0].delta.content or "" for each in answer)
            else:
                got = answer.choices[0].message.content
        except openai.APIError as error:
            said = str(error)
    if text == RIGHT:
        assert (json.loads(got), said) == (json.loads(RIGHT), "")
    else:
        assert "wrong: wingspan_cm" in said
        assert "wide" not in said


@pytest.mark.parametrize("returns", [None, Bird])
def test_the_frames_for_a_browser_say_the_cause(returns: Any, serve: Any) -> None:
    server = serve(ScriptedReply(WRONG))
    backend = OpenAIChat("m", base_url=server.base_url, api_key="k")
    with Client(backend, policy=POLICY) as client:
        stream = client.stream("Hi", returns=returns, verdict=lambda reply: "Say bittern. wide")
        reader = SseReader().feed(b"".join(sse(stream)))
    kind, end = reader.end
    if returns is None:
        assert (kind, end["outcome"]) == ("result", "partial")
        assert end["cause"] == "the answer was wrong, and no correction is left"
    else:
        assert (kind, end["message"]) == (
            "error",
            "partial after 1 attempt: the answer was wrong: wingspan_cm",
        )


@pytest.mark.parametrize("field", ["needs_value", "reasons"])
def test_the_fields_of_a_result_are_kept_in_a_copy(field: str) -> None:
    result = rungwise.testing.run(POLICY, [rungwise.core.Reply("x", stop_reason="stop")]).result
    assert getattr(attrs.evolve(result, **{field: ("a",)}), field) == ("a",)
