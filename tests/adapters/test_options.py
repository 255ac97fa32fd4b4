"""What a call may be given by name: it reaches the parameters, or a clear error says what would be
right, and where.
"""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.adapters.client_options import OF_CALLS
from rungwise.core import CallOptions, PlainLink, Request
from rungwise.fsm.call.conversation.parameters import (
    _ELSEWHERE,
    _OF_BODIES,
    COMMON_PARAMETERS,
    REQUEST_OPTIONS,
)
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

EVERY: dict[str, Any] = {
    "temperature": 0.2,
    "top_p": 0.9,
    "stop": ["END"],
    "seed": -7,
    "response_format": {"type": "json_object"},
    "reasoning_effort": "low",
    "tool_choice": "auto",
    "parallel_tool_calls": False,
}


class Unbased(PlainLink):
    """A backend of the caller's that names too little as its base."""

    def encode(self, send: Any, *, stream: bool) -> Any: ...


def test_a_backend_that_does_not_name_the_base_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(rungwise.ConfigurationError) as caught:
        Client([Unbased("own")])  # type: ignore[list-item]
    assert str(caught.value).startswith("Unbased must name rungwise.core.Backend as a base")


def refused(name: str, value: Any, ask: Callable[..., object] = Request) -> str:
    with pytest.raises(rungwise.ConfigurationError) as caught:
        ask("Where?", **{name: value})
    assert len(str(caught.value)) < 300
    return str(caught.value)


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(OpenAIChat("m", base_url="http://localhost:1"))


def test_a_request_keeps_the_common_parameters_among_its_parameters() -> None:
    assert EVERY.keys() == COMMON_PARAMETERS
    request = Request("Where?", **EVERY, parameters={"top_k": 5})
    assert request == Request("Where?", parameters={**EVERY, "top_k": 5})
    assert {field.name for field in attrs.fields(Request)} == {
        "messages",
        *REQUEST_OPTIONS,
    } - COMMON_PARAMETERS
    assert attrs.evolve(request, max_tokens=5).parameters == request.parameters
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        request.parameters = {}  # type: ignore[misc]


def test_what_a_request_is_given_stays_the_callers_own() -> None:
    stop = ["END"]
    given = {"top_k": 5}
    request = Request("Where?", stop=stop, parameters=given)
    stop.append("STOP")
    assert request.parameters == {"stop": ["END"], "top_k": 5}
    assert given == {"top_k": 5}


def test_none_says_nothing() -> None:
    assert Request("Where?", temperature=None, stop=None).parameters == {}
    assert Request("Where?", temperature=None, parameters={"temperature": 1}).parameters == {
        "temperature": 1
    }


def test_what_is_given_in_both_places_is_refused() -> None:
    with pytest.raises(
        rungwise.ConfigurationError, match=r"^seed is given twice, as an option and in parameters"
    ):
        Request("Where?", seed=1, parameters={"seed": 1})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("temperature", "hot", "temperature must be a finite number, not of type str"),
        ("temperature", True, "temperature must be a finite number, not of type bool"),
        ("temperature", float("nan"), "temperature must be a finite number, not nan"),
        pytest.param(
            "temperature", 10**400, "temperature must be a finite number, not 1000", id="huge"
        ),
        ("temperature", float("inf"), "temperature must be a finite number, not inf"),
        ("top_p", 1.5, "top_p must be a number from 0 to 1, not 1.5"),
        ("top_p", "1", "top_p must be a number from 0 to 1"),
        ("stop", 5, "stop must be a text or a list of texts, not 5"),
        ("stop", ["END", 5], "stop must be a text or a list of texts, not of type list"),
        ("stop", {"END": 1}, "stop must be a text or a list of texts"),
        ("seed", 1.0, "seed must be a whole number, not 1.0"),
        ("seed", True, "seed must be a whole number"),
        ("response_format", ["json"], "response_format must be a text, or a mapping as in"),
        ("reasoning_effort", 3, "reasoning_effort must be a text, as in 'low', not 3"),
        ("tool_choice", True, "tool_choice must be a mapping or a text"),
        ("parallel_tool_calls", 1, "parallel_tool_calls must be True or False, not 1"),
    ],
)
def test_an_option_of_another_form_is_refused(
    client: Client,
    name: str,
    value: Any,
    said: str,
) -> None:
    assert refused(name, value).startswith(said)
    for ask in (
        client.call,
        client.stream,
        client.acall,
        client.astream,
        client.turn,
        client.aturn,
    ):
        assert refused(name, value, ask) == refused(name, value)


def test_what_calls_itself_as_the_right_type_is_told_by_its_whole_name() -> None:
    class Flag:
        __module__ = "numpy"
        __qualname__ = "bool"

    assert refused("parallel_tool_calls", Flag()).endswith(
        "must be True or False, not of type numpy.bool"
    )


def test_a_float_of_another_library_is_sent_as_a_number() -> None:
    class Float64(float):
        """As numpy's is: a float, that the writer of JSON does not know."""

    with EmbeddedProvider(Script([ScriptedReply(text="In the reeds.")])) as provider:
        with Client(rungwise.OpenAIChat("m", base_url=provider.base_url, api_key="sk-1")) as client:
            client.call("Where?", temperature=Float64(0.5), parameters={"min_p": Float64(0.25)})
        body = provider.requests[0].body
    assert body["temperature"] == 0.5
    assert body["min_p"] == 0.25


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("temprature", "did you mean 'temperature'?"),
        ("maxtokens", "did you mean 'max_tokens'?"),
        ("model", "give it to the backend"),
        ("api_key", "give it to the backend"),
        ("base_url", "give it to the backend"),
        ("timeout", "policy=Policy(timeouts="),
        ("max_retries", "policy=Policy(limits="),
        ("retries", "policy=Policy(limits="),
        ("stream", "choose the method"),
        ("n", "one answer"),
        ("messages", "as the first argument"),
        ("max_completion_tokens", "it is called max_tokens here"),
        ("stop_sequences", "it is called stop here"),
        ("extra_body", "it is called parameters here"),
        ("extra_headers", "it is called headers here"),
        ("top_k", "parameters={'top_k': ...}"),
        ("frequency_penalty", "parameters={'frequency_penalty': ...}"),
        ("frequncy_penalty", "did you mean 'frequency_penalty'?"),
        ("wholly_unknown_thing", "there are: "),
    ],
)
def test_an_unknown_option_is_refused_with_what_would_be_right(
    client: Client, name: str, said: str
) -> None:
    # "messages" is the name of the first argument itself where Python is asked.
    asks = [client.call, client.acall, client.astream] if name != "messages" else []
    for ask in (Request, *asks):
        if name == "messages":
            with pytest.raises(TypeError):
                ask("Where?", messages=[])
            continue
        told = refused(name, 1, ask)
        assert told.startswith(f"unknown option {name!r}")
        assert said in told
    if name != "messages":
        assert said in refused(name, 1, client.turn)


@pytest.mark.parametrize(
    ("name", "said"), [("policy", "to the call"), ("within", "to the call"), ("executor", "turns")]
)
def test_what_a_request_does_not_take_is_for_the_call(name: str, said: str) -> None:
    assert said in refused(name, None)


def test_what_is_for_turns_or_for_threads_alone_is_said_so(client: Client) -> None:
    assert "client.turn takes it" in refused("executor", len, client.call)
    assert "give it to the Client" in refused("compactor", len, client.call)
    assert "cancel the task" in refused("cancellation", rungwise.Cancellation(), client.acall)


def test_nothing_is_called_unknown_that_is_an_option() -> None:
    assert not (REQUEST_OPTIONS | {"messages"}) & _OF_BODIES
    assert not REQUEST_OPTIONS & _ELSEWHERE.keys()
    assert not _OF_BODIES & _ELSEWHERE.keys()
    assert set(CallOptions.__optional_keys__) == REQUEST_OPTIONS | OF_CALLS


def test_a_request_holds_its_own_options(client: Client) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="do not pass temperature beside it"):
        client.call(Request("Where?"), temperature=1)


def test_a_policy_of_another_kind_is_refused(client: Client) -> None:
    told = refused("policy", rungwise.TurnPolicy(), client.call)
    assert told == "policy must be a Policy, not TurnPolicy: client.turn takes that one"
    told = refused("policy", "fast", client.astream)
    assert told == "policy must be a Policy, not str: load a file with Policy.load(path)"
    told = refused("policy", rungwise.Policy(), client.turn)
    assert told == "policy must be a TurnPolicy, not Policy: write TurnPolicy(call=...)"
