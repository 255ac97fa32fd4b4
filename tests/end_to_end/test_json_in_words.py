"""JSON that a backend cannot be held to is asked for in words, in the system prompt; the journal
says so.
"""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Budget, Client, Hints, Journal, Policy, Prices
from rungwise.core import Request
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import EVERY, ask, options_of, waits_into

SCHEMA = {
    "type": "object",
    "properties": {"où": {"type": "string"}},
    "required": ["où"],
}
IN_WORDS = json.dumps(json.dumps(SCHEMA, ensure_ascii=False), ensure_ascii=False)[1:-1]
OBJECT: dict[str, Any] = {"type": "json_object"}
BY_SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "place", "schema": SCHEMA},
}
OLD = "claude-3-5-haiku-latest"
NEW = "claude-opus-4-6"
LACKING = [
    ("anthropic", OLD, OBJECT),
    ("anthropic", OLD, BY_SCHEMA),
    ("anthropic", NEW, OBJECT),
    ("bedrock", "m", OBJECT),
    ("bedrock", f"anthropic.{OLD}", BY_SCHEMA),
    ("ollama", "m", {"type": "json_schema"}),
    ("gemini", "m", {"type": "json"}),
]
HELD = [
    ("anthropic", NEW, BY_SCHEMA),
    ("bedrock", "m", BY_SCHEMA),
    ("ollama", "m", OBJECT),
    ("gemini", "m", OBJECT),
]
HELD += [
    ("openai", "m", OBJECT),
    ("responses", "m", BY_SCHEMA),
    ("anthropic", OLD, {"type": "text"}),
]
PROSE, ANSWER = ScriptedReply(text="In the reeds."), ScriptedReply(text='{"où": "reeds"}')
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]


def system_of(body: dict[str, Any]) -> str:
    """Return all that a body says in its system prompt."""
    turns = body.get("messages") or body.get("contents") or body.get("input")
    names = ("system", "systemInstruction", "system_instruction", "instructions")
    beside = [body.get(name) for name in names]
    return json.dumps(
        [*beside, *[turn for turn in turns if turn.get("role") == "system"]], ensure_ascii=False
    )  # type: ignore[union-attr]


def notes(result: rungwise.Result) -> list[str | None]:
    return [step.note for step in result.journal.steps if step.event == "sent"]


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize(("api", "model", "wanted"), LACKING)
def test_json_is_asked_for_in_words_and_again_where_prose_came(
    api: str,
    model: str,
    wanted: dict[str, Any],
    mode: str,
    serve: Any,
) -> None:
    provider = serve(PROSE, ANSWER)
    backend = protocols.backend(api, provider.base_url, model=model)
    with Client(backend, **waits_into([]), **options_of(mode)) as client:
        result = ask(client, mode, MESSAGES, response_format=wanted)
    assert (result.outcome, result.text) == ("done", ANSWER.text)
    assert len(provider.requests) == 2
    for request in provider.requests:
        said = system_of(request.body)
        hints = Hints()
        hint = hints.json_schema.partition("{schema}")[0] if wanted is BY_SCHEMA else hints.json
        hint = json.dumps(hint)[1:-1]
        assert said.count(hint) == 1
        assert said.index("Be brief.") < said.index(hint)
        assert (IN_WORDS in said) is (wanted is BY_SCHEMA)
    first_said, second_said = (
        [message.text for message in protocols.said(request) if message.role == "user"]
        for request in provider.requests
    )
    assert (first_said, second_said[0], len(second_said)) == (["Where?"], "Where?", 2)
    first, second = notes(result)
    assert first is not None
    assert first.startswith("left out: response_format: asked for in words (")
    assert second is None
    assert rungwise.replay(Journal.from_json(result.journal.to_json())).outcome == "done"
    assert MESSAGES == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
    ]
    assert "nothing else" not in str(result.plain_message)


@pytest.mark.parametrize(("api", "model", "wanted"), HELD)
def test_where_a_parameter_says_it_no_words_do(
    api: str,
    model: str,
    wanted: dict[str, Any],
    serve: Any,
) -> None:
    provider = serve(ANSWER)
    with Client(protocols.backend(api, provider.base_url, model=model)) as client:
        result = client.call(MESSAGES, response_format=wanted)
    assert "nothing else" not in json.dumps(provider.requests[0].body)
    assert notes(result) == [None]


def test_a_backends_own_wish_for_json_is_said_in_words_too(serve: Any) -> None:
    provider = serve(ANSWER)
    backend = protocols.backend(
        "anthropic", provider.base_url, parameters={"response_format": OBJECT}
    )
    with Client(backend, policy=Policy(hints=Hints(json="JSON, please."))) as client:
        result = client.call("Where?")
    assert provider.requests[0].body["system"] == "JSON, please."
    assert "response_format" not in provider.requests[0].body
    assert "asked for in words" in str(notes(result))
    assert "asked for in words" in str(client.check("Where?"))


def test_the_words_are_said_to_the_backend_alone_that_needs_them(serve: Any) -> None:
    first = serve(ScriptedReply(status=401))
    second = serve(ANSWER)
    chain = [
        protocols.backend("openai", first.base_url),
        protocols.backend("anthropic", second.base_url, name="other"),
    ]
    with Client(chain) as client:
        result = client.call("Where?", response_format=OBJECT)
    assert first.requests[0].body["response_format"] == OBJECT
    assert [message["role"] for message in first.requests[0].body["messages"]] == ["user"]
    assert second.requests[0].body["system"] == Hints().json
    assert result.text == ANSWER.text


def most_money(policy: Policy, backend: Any, **known: Any) -> Any:
    """Return what a certificate says of the money of a call."""
    certificate = rungwise.verify(policy, [backend], input_tokens=5, assistant_turns=0, **known)
    [most] = [worst for worst in certificate.worst if worst.name == "money"]
    return most


@pytest.mark.full
def test_the_words_count_as_input(serve: Any) -> None:
    """Under a budget of money, and within what the certificate says."""
    provider = serve(ScriptedReply(text=ANSWER.text, usage={}))
    prices = Prices(input=1_000_000.0, output=0.0)
    policy = Policy(budget=Budget(money=10_000.0, attempts=1))
    backend = protocols.backend("anthropic", provider.base_url, prices=prices)
    with Client(backend, policy=policy) as client:
        plain, asked = (
            client.call(Request("Where?", input_tokens=5, **options))
            for options in ({}, {"response_format": OBJECT})
        )
    assert plain.usage.input_tokens == 5
    added = asked.usage.input_tokens - plain.usage.input_tokens
    assert added == -(-len(Hints().json) // 3) + 8
    most = most_money(policy, backend).value
    assert most is not None
    assert most >= asked.usage.input_tokens


LONG = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(500)}}
BY_LONG: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "n", "schema": LONG}}
BYTES = len(json.dumps(LONG))
A_MILLION = Prices(input=1_000_000.0, output=0.0)
"""One of the currency for each token."""


def asked(client: Client, **options: Any) -> rungwise.Result:
    try:
        return client.call(Request("Where?", max_tokens=20, response_format=BY_LONG, **options))
    except rungwise.CallError as error:
        return error.result


@pytest.mark.parametrize(
    ("api", "given"), [("anthropic", {"input_tokens": 5}), ("anthropic", {}), ("openai", {})]
)
def test_a_schema_counts_as_input_in_words_and_as_a_parameter(
    api: str, given: dict[str, int], serve: Any
) -> None:
    """By its bytes, and once."""
    provider = serve(ScriptedReply(text=ANSWER.text, usage={}))
    least = BYTES * 9 // 10 // 3
    for money, outcome in ((least, "over_budget"), (least * 1.4, "done")):
        backend = protocols.backend(api, provider.base_url, model=OLD, prices=A_MILLION)
        with Client(backend, policy=Policy(budget=Budget(money=money))) as client:
            result = asked(client, **given)
        assert result.outcome == outcome
        assert len(provider.requests) == (outcome == "done")
        assert (result.cost or 0) <= money


def test_a_schema_counts_as_often_as_it_is_said(serve: Any) -> None:
    provider = serve(ScriptedReply(text=ANSWER.text, usage={}))
    policy = Policy(hints=Hints(json_schema="{schema}, again: {schema}"))
    with Client(
        protocols.backend("anthropic", provider.base_url, model=OLD, prices=A_MILLION),
        policy=policy,
    ) as client:
        result = asked(client, input_tokens=5)
    assert provider.requests[0].body["system"].count(json.dumps(LONG)) == 2
    assert result.usage.input_tokens >= 5 + 2 * BYTES // 3


@pytest.mark.full
@pytest.mark.parametrize("own", [True, False])
def test_a_certificate_knows_the_schema_of_a_backend_and_the_one_that_it_is_given(
    own: bool, serve: Any
) -> None:
    provider = serve(ScriptedReply(text=ANSWER.text, usage={}))
    parameters = {"response_format": BY_LONG}
    given: dict[str, Any] = {"parameters": parameters} if own else {}
    backend = protocols.backend(
        "anthropic", provider.base_url, model=OLD, prices=A_MILLION, **given
    )
    policy = Policy(budget=Budget(attempts=1))
    with Client(backend, policy=policy) as client:
        options = {"parameters": {} if own else parameters}
        result = client.call(Request("Where?", max_tokens=20, input_tokens=5, **options))
    wish = None if own else BY_LONG
    most = most_money(policy, backend, max_tokens=20, response_format=wish)
    assert most.value == pytest.approx(result.cost)
    assert most.value == pytest.approx(
        5 + len(provider.requests[0].body["system"]) // 3 + 1 + 8, abs=1
    )
    blind = most_money(policy, backend, max_tokens=20)
    assert "without a JSON schema that a backend gets in words" in blind.note
    assert (blind.value == most.value) is own


def test_a_hint_without_a_place_for_the_schema_is_refused() -> None:
    with pytest.raises(rungwise.ConfigurationError, match=r"json_schema.*'\{schema\}'"):
        Hints(json_schema="JSON, please.")


TOLD_OF = {
    "openai": "Unsupported parameter: 'response_format'",
    "responses": "Unsupported parameter: 'text.format'",
    "anthropic": "output_config.format: Extra inputs are not permitted",
    "gemini": "Unknown name \"responseMimeType\" at 'generation_config': Cannot find field.",
    "interactions": 'Unknown name "response_format": Cannot find field.',
    "ollama": 'unknown field "format"',
    "bedrock": "outputConfig.textFormat: Extra inputs are not permitted",
}
WHOLE = {"anthropic": "output_config", "bedrock": "outputConfig"}
MARKS = (
    "response_format",
    '"format"',
    "textFormat",
    "responseMimeType",
    "responseJsonSchema",
    "responseSchema",
)
OWN: dict[str, dict[str, Any]] = {
    "openai": {"guided_json": SCHEMA},
    "responses": {
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "n", "schema": SCHEMA},
        }
    },
    "anthropic": {
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}
    },
    "gemini": {
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": SCHEMA}
    },
    "interactions": {
        "response_format": {"type": "text", "mime_type": "application/json", "schema": SCHEMA}
    },
    "ollama": {"format": SCHEMA},
    "bedrock": {
        "outputConfig": {
            "effort": "low",
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": json.dumps(SCHEMA), "name": "n"}},
            },
        }
    },
}


def refused(told: str) -> ScriptedReply:
    return ScriptedReply(status=400, error={"message": told})


def new_backend(api: str, provider: Any) -> Any:
    """Return a backend whose model takes JSON by a parameter."""
    model = NEW if api == "anthropic" else "m"
    return protocols.backend(api, provider.base_url, model=model)


def asks_by_parameter(body: dict[str, Any]) -> bool:
    held = {
        name: value for name, value in body.items() if name not in ("messages", "input", "contents")
    }
    return any(mark in json.dumps(held) for mark in (*MARKS, "guided_json"))


@pytest.mark.parametrize("mode", EVERY)
def test_json_is_asked_for_in_words_once_its_parameter_is_rejected(
    api: str, mode: str, serve: Any
) -> None:
    provider = serve(refused(TOLD_OF[api]), PROSE, ANSWER)
    options = {**waits_into([]), **options_of(mode)}
    with Client(new_backend(api, provider), **options) as client:
        result = ask(client, mode, MESSAGES, response_format=BY_SCHEMA)
    assert (result.outcome, result.text) == ("done", ANSWER.text)
    assert [asks_by_parameter(each.body) for each in provider.requests] == [True, False, False]
    assert ["nothing else" in system_of(each.body) for each in provider.requests] == [
        False,
        True,
        True,
    ]
    assert notes(result) == [None, "response_format: asked for in words (it was rejected)", None]
    assert rungwise.replay(Journal.from_json(result.journal.to_json())).outcome == "done"


def test_json_asked_for_in_a_protocols_own_words_is_too(api: str, serve: Any) -> None:
    told = "Unknown parameter: 'guided_json'" if api == "openai" else TOLD_OF[api]
    provider = serve(refused(told), ANSWER)
    with Client(new_backend(api, provider)) as client:
        assert client.call(MESSAGES, parameters=OWN[api]).text == ANSWER.text
    first, second = (each.body for each in provider.requests)
    assert asks_by_parameter(first)
    assert not asks_by_parameter(second)
    assert IN_WORDS in system_of(second)
    kept = {
        "text": "verbosity",
        "output_config": "effort",
        "outputConfig": "effort",
    }
    for name in kept.keys() & OWN[api].keys():
        assert second[name] == {kept[name]: "low"}


@pytest.mark.parametrize(("api", "name"), WHOLE.items())
def test_what_holds_the_wish_is_left_out_where_the_rest_of_it_is_rejected(
    api: str, name: str, serve: Any
) -> None:
    no = refused(f"{name}: Extra inputs are not permitted")
    provider = serve(no, no, ANSWER)
    with Client(new_backend(api, provider)) as client:
        assert client.call(MESSAGES, parameters=OWN[api]).text == ANSWER.text
    assert [each.body.get(name, {}).keys() for each in provider.requests][1:] == [{"effort"}, set()]
    assert ["nothing else" in system_of(each.body) for each in provider.requests] == [
        False,
        True,
        True,
    ]


def test_without_a_wish_for_json_nothing_is_tried_again(api: str, serve: Any) -> None:
    provider = serve(refused(TOLD_OF[api]), ANSWER)
    with (
        Client(protocols.backend(api, provider.base_url)) as client,
        pytest.raises(rungwise.Failed),
    ):
        client.call(MESSAGES)
    assert len(provider.requests) == 1
