"""Decisions: typed questions go out, and answers with probabilities come back, in four shapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import pytest

import rungwise
from rungwise import Capabilities, Choice, Client, Decisions, OpenAIChat, Policy, Score, YesNo
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support.modes import waits_into

QUESTIONS = {
    "queue": Choice("Which queue?", {"billing": "money", "other": None}),
    "urgent": YesNo("Is it urgent?", yes="today"),
    "anger": Score("How angry?", ["calm", "annoyed", "furious"]),
}
SURE = {
    "queue": {"probabilities": {"billing": 0.9, "other": 0.1}},
    "urgent": {"probabilities": {"yes": 0.05, "no": 0.95}},
    "anger": {"probabilities": {"calm": 0.0, "annoyed": 0.1, "furious": 0.9}},
}
WEAK = {"probabilities": {"calm": 0.5, "annoyed": 0.0, "furious": 0.5}}
SHAPES = ("openai", "gemini", "systemone", "sglang")
MODES = ("decide", "adecide")
HELD = Capabilities(json_schema=True)
BAR = Policy(confidence=0.8)

Reply = ScriptedReply | Mapping[str, Any]


class Stage:
    """Servers on one port, a script for each model."""

    def __init__(self, scripts: Mapping[str, list[Reply]]) -> None:
        self.scripts = {model: list(replies) for model, replies in scripts.items()}
        self.requests: list[ReceivedRequest] = []

    def answer(self, request: ReceivedRequest) -> ScriptedReply:
        self.requests.append(request)
        model = str(request.body["model"]).removeprefix("models/")
        reply = self.scripts[model].pop(0)
        return reply if isinstance(reply, ScriptedReply) else ScriptedReply(json.dumps(reply))

    @property
    def bodies(self) -> list[Mapping[str, Any]]:
        return [request.body for request in self.requests]

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


Ask = Callable[..., rungwise.Result[rungwise.Decision]]


@contextmanager
def asking(
    mode: str,
    chain: Callable[[str], list[Any]],
    scripts: Mapping[str, list[Reply]],
    **options: Any,
) -> Iterator[tuple[Ask, Stage]]:
    """Yield what asks a client, and what it was sent."""
    stage = Stage(scripts)
    with EmbeddedProvider(stage.answer) as provider:
        client = Client(chain(provider.base_url), **options, **waits_into([]))

        def ask(
            input: Any = "Refund me.", questions: Any = QUESTIONS, **given: Any
        ) -> rungwise.Result[rungwise.Decision]:
            if mode == "decide":
                return client.decide(input, questions, **given)

            async def asked() -> rungwise.Result[rungwise.Decision]:
                result = await client.adecide(input, questions, **given)
                await client.aclose()
                return result

            return anyio.run(asked)

        with client:
            yield ask, stage


def one(shape: str) -> Callable[[str], list[Any]]:
    return lambda url: [Decisions("m", base_url=url, shape=shape)]


def two(url: str) -> list[Any]:
    return [Decisions("m", base_url=url), Decisions("n", base_url=url, shape="systemone")]


def then_chat(url: str) -> list[Any]:
    return [Decisions("m", base_url=url), OpenAIChat("chat", base_url=url, capabilities=HELD)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_asks_and_answers(shape: str, mode: str) -> None:
    with asking(mode, one(shape), {"m": [SURE]}) as (ask, stage):
        result = ask()
    assert result.outcome == "done"
    decision = result.value
    assert {name: answer.value for name, answer in decision.items()} == {
        "queue": "billing",
        "urgent": False,
        "anger": 1.9,
    }
    assert {name: answer.label for name, answer in decision.items()} == {
        "queue": "billing",
        "urgent": "no",
        "anger": "furious",
    }
    assert {name: answer.confidence for name, answer in decision.items()} == {
        "queue": 0.9,
        "urgent": 0.95,
        "anger": 0.9,
    }
    assert decision["anger"].probabilities == {"calm": 0.0, "annoyed": 0.1, "furious": 0.9}
    assert result.usage.input_tokens > 0
    [body] = stage.bodies
    assert "stream" not in body
    assert json.loads(result.text)["queue"]["value"] == "billing"


def test_openais_body() -> None:
    with asking("decide", one("openai"), {"m": [SURE]}) as (ask, stage):
        ask(parameters={"prompt_cache_key": "k"})
    assert stage.paths == ["/v1/decisions"]
    assert stage.bodies == [
        {
            "model": "m",
            "input": "Refund me.",
            "prompt_cache_key": "k",
            "questions": [
                {
                    "type": "choice",
                    "name": "queue",
                    "instructions": "Which queue?",
                    "choices": [{"value": "billing", "description": "money"}, {"value": "other"}],
                },
                {
                    "type": "predicate",
                    "name": "urgent",
                    "instructions": "Is it urgent?\nyes: today",
                },
                {
                    "type": "score",
                    "name": "anger",
                    "instructions": "How angry?",
                    "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "furious"}],
                },
            ],
        }
    ]


def test_geminis_body() -> None:
    with asking("decide", one("gemini"), {"m": [SURE]}) as (ask, stage):
        ask()
    assert stage.bodies == [
        {
            "model": "models/m",
            "input": "Refund me.",
            "questions": {
                "queue": {
                    "type": "choice",
                    "instructions": "Which queue?",
                    "criteria": {"billing": "money", "other": "other"},
                },
                "urgent": {
                    "type": "noul",
                    "instructions": "Is it urgent?",
                    "criteria": {"true_description": "today"},
                },
                "anger": {
                    "type": "score",
                    "instructions": "How angry?",
                    "criteria": ["calm", "annoyed", "furious"],
                },
            },
        }
    ]


def test_system_ones_body() -> None:
    messages = [{"role": "system", "content": "A shop."}, {"role": "user", "content": "Refund me."}]
    with asking("decide", one("systemone"), {"m": [SURE]}) as (ask, stage):
        ask(messages, {"urgent": YesNo("Is it urgent?")})
    assert stage.paths == ["/v1/systemone"]
    assert stage.bodies == [
        {
            "model": "m",
            "state": messages,
            "questions": {"urgent": {"type": "noul", "instructions": "Is it urgent?"}},
        }
    ]


def test_sglangs_body_on_the_same_path() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    content = [{"type": "text", "text": "Refund me."}, picture]
    with asking("decide", one("sglang"), {"m": [SURE]}) as (ask, stage):
        ask([{"role": "user", "content": content}])
    assert stage.paths == ["/v1/decisions"]
    assert stage.bodies == [
        {
            "model": "m",
            "input": "Refund me.",
            "images": ["https://example.com/a.png"],
            "questions": [
                {
                    "id": "queue",
                    "type": "choice",
                    "question": "Which queue?\nbilling: money",
                    "options": ["billing", "other"],
                },
                {"id": "urgent", "type": "yes_no", "question": "Is it urgent?\nyes: today"},
                {
                    "id": "anger",
                    "type": "score",
                    "question": "How angry?",
                    "levels": ["calm", "annoyed", "furious"],
                },
            ],
        }
    ]


@pytest.mark.parametrize("mode", MODES)
def test_the_next_backend_is_asked_the_weak_questions_alone(mode: str) -> None:
    scripts: dict[str, list[Reply]] = {
        "m": [{**SURE, "anger": WEAK}],
        "n": [{"anger": SURE["anger"]}],
    }
    with asking(mode, two, scripts, policy=BAR) as (ask, stage):
        result = ask()
    assert result.outcome == "done"
    assert list(stage.bodies[1]["questions"]) == ["anger"]
    assert result.value["anger"].value == 1.9
    backends = [answer.backend.rpartition("/")[2] for answer in result.value.values()]
    assert backends == ["m", "m", "n"]
    assert result.attempts == 2
    [doubt] = [step for step in result.journal.steps if step.event == "answered_uncertainly"]
    assert doubt.note == "confidence of anger 0.50"
    assert doubt.target == "fallback"


def test_below_the_bar_at_the_end_is_partial_with_the_most_certain_answers() -> None:
    better = {"probabilities": {"calm": 0.3, "annoyed": 0.7, "furious": 0.0}}
    worse = {"probabilities": {"calm": 0.4, "annoyed": 0.35, "furious": 0.25}}
    for first, second in ((WEAK, better), (better, worse)):
        scripts: dict[str, list[Reply]] = {
            "m": [{**SURE, "anger": first}],
            "n": [{"anger": second}],
        }
        with asking("decide", two, scripts, policy=BAR) as (ask, _):
            result = ask()
        assert result.outcome == "partial"
        assert result.value["anger"].confidence == 0.7
        assert result.value["queue"].value == "billing"
        assert result.value.uncertain == ("anger",)
        assert str(result.cause).endswith("confidence of anger 0.70")


def test_an_answer_of_unknown_confidence_stands_at_the_last_backend() -> None:
    scripts: dict[str, list[Reply]] = {
        "m": [{**SURE, "anger": WEAK}],
        "chat": [ScriptedReply('{"anger": "annoyed"}')],
    }
    with asking("decide", then_chat, scripts, policy=BAR, stream_calls=False) as (ask, stage):
        result = ask()
    assert result.outcome == "done"
    answer = result.value["anger"]
    assert (answer.value, answer.label, answer.confidence) == (1.0, "annoyed", None)
    assert result.value.unmeasured == ("anger",)
    body = stage.bodies[1]
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["anger"]["enum"] == ["calm", "annoyed", "furious"]
    assert schema["required"] == ["anger"]
    assert "* anger: How angry?" in body["messages"][0]["content"]


def test_an_unknown_confidence_asks_the_next_backend_that_measures() -> None:
    scripts: dict[str, list[Reply]] = {
        "chat": [ScriptedReply('{"queue": "other", "urgent": true, "anger": "calm"}')],
        "m": [SURE],
    }

    def chat_first(url: str) -> list[Any]:
        return then_chat(url)[::-1]

    with asking("decide", chat_first, scripts, policy=BAR) as (ask, _):
        result = ask()
    assert result.outcome == "done"
    assert [answer.value for answer in result.value.values()] == ["billing", False, 1.9]


def test_without_a_bar_the_first_answers_stand() -> None:
    with asking("decide", two, {"m": [{**SURE, "anger": WEAK}]}) as (ask, _):
        result = ask()
    assert result.outcome == "done"
    assert result.value["anger"].confidence == 0.5
    assert result.value.uncertain == ()


def test_a_refusal_of_one_question_stays_its_answer() -> None:
    scripts: dict[str, list[Reply]] = {"m": [{**SURE, "urgent": {"refused": True}}]}
    with asking("decide", two, scripts, policy=BAR) as (ask, _):
        result = ask()
    assert result.outcome == "done"
    assert result.value.refused == ("urgent",)
    assert result.value["urgent"].value is None


def test_a_refusal_of_all_is_a_refusal_and_another_backend_is_asked() -> None:
    scripts: dict[str, list[Reply]] = {"m": [ScriptedReply(refusal="No.")], "n": [SURE]}
    with asking("decide", two, scripts) as (ask, stage):
        result = ask()
    assert result.outcome == "done"
    assert len(stage.bodies[1]["questions"]) == 3
    only = {"m": [ScriptedReply(refusal="No.")]}
    with asking("decide", one("openai"), only) as (ask, _), pytest.raises(rungwise.Refused):
        ask()


@pytest.mark.parametrize("shape", ["gemini", "systemone"])
def test_a_refusal_by_a_later_backend_takes_no_answer_away(shape: str) -> None:
    def chain(url: str) -> list[Any]:
        return [Decisions("m", base_url=url), Decisions("n", base_url=url, shape=shape)]

    scripts: dict[str, list[Reply]] = {
        "m": [{**SURE, "anger": WEAK}],
        "n": [ScriptedReply(refusal="No.")],
    }
    with asking("decide", chain, scripts, policy=BAR) as (ask, _):
        result = ask()
    assert result.outcome == "partial"
    assert result.value["anger"].confidence == 0.5


def test_a_failure_after_some_answers_keeps_them() -> None:
    scripts: dict[str, list[Reply]] = {
        "m": [{**SURE, "anger": WEAK}],
        "n": [ScriptedReply(status=401, error={"message": "no"})],
    }
    with asking("decide", two, scripts, policy=BAR) as (ask, _):
        result = ask()
    assert result.outcome == "partial"
    assert result.value["queue"].value == "billing"
    assert result.value.uncertain == ("anger",)


NONSENSE: dict[str, Any] = {
    "a question without its answer": {"queue": SURE["queue"], "urgent": SURE["urgent"]},
    "another label": {**SURE, "queue": {"probabilities": {"sales": 1.0}}},
    "probabilities that do not add up": {**SURE, "anger": {"probabilities": {"calm": 0.4}}},
    "a probability above 1": {**SURE, "urgent": {"probabilities": {"yes": 7, "no": -6}}},
    "no answer at all": {},
}


@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_reply_that_does_not_fit_is_malformed(name: str, shape: str) -> None:
    def chain(url: str) -> list[Any]:
        return [Decisions("m", base_url=url, shape=shape), Decisions("n", base_url=url)]

    scripts: dict[str, list[Reply]] = {"m": [NONSENSE[name]], "n": [SURE]}
    with asking("decide", chain, scripts) as (ask, _):
        result = ask()
    assert result.outcome == "done"
    assert [step.event for step in result.journal.steps if step.event != "sent"] == [
        "malformed",
        "answered",
    ]


def test_a_chat_model_corrects_a_label_that_was_not_offered() -> None:
    def chat(url: str) -> list[Any]:
        return [OpenAIChat("chat", base_url=url)]

    replies: list[Reply] = [ScriptedReply('{"urgent": "maybe"}'), ScriptedReply('{"urgent": true}')]
    with asking("decide", chat, {"chat": replies}) as (ask, _):
        result = ask("Refund me.", {"urgent": YesNo("Is it urgent?")})
    assert result.outcome == "done"
    assert result.value["urgent"].value is True
    assert "answered_wrongly" in [step.event for step in result.journal.steps]


def test_a_backend_for_calls_is_asked_at_its_endpoint_if_it_has_one() -> None:
    def chain(url: str) -> list[Any]:
        able = Capabilities(decisions="sglang")
        return [OpenAIChat("m", base_url=url, capabilities=able, parameters={"temperature": 0})]

    with asking("decide", chain, {"m": [SURE]}) as (ask, stage):
        result = ask()
    assert result.value["queue"].value == "billing"
    assert stage.paths == ["/v1/decisions"]
    assert "temperature" not in stage.bodies[0]


def test_a_backend_for_decisions_says_so_to_a_call() -> None:
    with asking("decide", one("openai"), {}) as (_, stage):
        client = Client(Decisions("m", base_url="http://127.0.0.1:1/v1"))
        with pytest.raises(rungwise.ConfigurationError, match=r"client\.decide"):
            client.call("Why?")
    assert stage.requests == []


@pytest.mark.parametrize(
    ("questions", "says"),
    [
        ({}, "1 to 1000"),
        ([YesNo("a?")], "must map names to questions"),
        ({"a b": YesNo("a?")}, "letters, digits"),
        ({"a": "Is it?"}, "must be a rungwise.Choice, YesNo or Score"),
    ],
)
def test_questions_of_another_form_are_refused(questions: Any, says: str) -> None:
    client = Client(Decisions("m", base_url="http://127.0.0.1:1/v1"))
    with pytest.raises(rungwise.ConfigurationError, match=says):
        client.decide("Refund me.", questions)


@pytest.mark.parametrize(
    "labels", ["ab", ["a"], ["a", "a"], ["a", " b"], ["a", 2], {"a": 1, "b": 2}]
)
def test_labels_of_another_form_are_refused(labels: Any) -> None:
    for kind in (Choice, Score):
        with pytest.raises(rungwise.ConfigurationError):
            kind("Which?", labels)


@pytest.mark.parametrize("option", ["tools", "verdict", "response_format"])
def test_options_that_a_decision_does_not_take_are_refused(option: str) -> None:
    client = Client(Decisions("m", base_url="http://127.0.0.1:1/v1"))
    with pytest.raises(rungwise.ConfigurationError, match=f"takes no {option}"):
        client.decide("Refund me.", QUESTIONS, **{option: [{}]})  # type: ignore[misc]


def test_a_label_mass_counts_in_the_confidence() -> None:
    answers = {"urgent": {"type": "yes_no", "probability": 0.9, "label_mass": 0.5}}
    body = json.dumps({"answers": answers})
    with asking("decide", one("sglang"), {"m": [ScriptedReply(body=body)]}) as (ask, _):
        result = ask("Refund me.", {"urgent": YesNo("Is it urgent?")})
    assert result.value["urgent"].confidence == 0.45


ASKED: list[dict[str, Any]] = [
    {
        "type": "choice",
        "instructions": "Which queue?",
        "choices": [{"value": "billing", "description": "money"}, {"value": "other"}],
    },
    {"type": "predicate", "name": "Is it urgent?", "instructions": "Is it urgent?"},
    {
        "type": "score",
        "name": "anger",
        "instructions": "How angry?",
        "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "furious"}],
    },
]
BY_PLACE = {
    "q0": SURE["queue"],
    "q1": SURE["urgent"],
    "q2": SURE["anger"],
}


@contextmanager
def sdk(scripts: Mapping[str, list[Reply]], **options: Any) -> Iterator[tuple[Any, Stage]]:
    """Yield OpenAI's client on the transport, and what the backends were sent."""
    openai = pytest.importorskip("openai")
    stage = Stage(scripts)
    with EmbeddedProvider(stage.answer) as provider:
        chain = then_chat(provider.base_url)
        with Client(chain, **options, **waits_into([])) as client:
            http = openai.DefaultHttpxClient(transport=rungwise.Transport(client))
            with openai.OpenAI(http_client=http, max_retries=0, api_key="sk-1") as asked:
                yield asked, stage


def test_openais_client_decides_on_the_transport() -> None:
    with sdk({"m": [BY_PLACE]}) as (client, stage):
        decision = client.decisions.create(model="m", input="Refund me.", questions=ASKED)
    queue, urgent, anger = decision.answers
    assert (queue.name, queue.choice, queue.confidence) == (None, "billing", 0.9)
    assert (urgent.name, urgent.probability) == ("Is it urgent?", 0.05)
    assert (anger.name, anger.score) == ("anger", 1.9)
    assert [(each.value, each.label) for each in anger.probabilities] == [
        (0, "calm"),
        (1, "annoyed"),
        (2, "furious"),
    ]
    assert decision.usage.input_tokens > 0
    assert stage.paths == ["/v1/decisions"]
    assert [each["name"] for each in stage.bodies[0]["questions"]] == ["q0", "q1", "q2"]


def test_on_the_transport_nobody_takes_a_guess_for_a_certainty() -> None:
    labels = ScriptedReply('{"q0": "other", "q1": true, "q2": "calm"}')
    down = ScriptedReply(status=401, error={"message": "no"})
    with sdk({"m": [down], "chat": [labels]}) as (client, _):
        decision = client.decisions.create(model="m", input="Refund me.", questions=ASKED)
    queue, urgent, anger = decision.answers
    assert (queue.choice, queue.confidence, queue.probabilities) == ("other", None, [])
    assert urgent.probability is None
    assert anger.score == 0.0


def test_on_the_transport_a_refusal_is_an_answer() -> None:
    refused = {**BY_PLACE, "q1": {"refused": True}}
    with sdk({"m": [refused]}) as (client, _):
        decision = client.decisions.create(model="m", input="Refund me.", questions=ASKED)
    assert [answer.type for answer in decision.answers] == ["choice", "refusal", "score"]


def test_what_only_a_provider_can_read_goes_word_for_word() -> None:
    asked = [{**ASKED[0], "choices": [{"value": True}, {"value": False}], "name": "q0"}]
    with sdk({"m": [{"q0": {"value": True}}]}) as (client, stage):
        client.decisions.create(model="m", input="Refund me.", questions=asked)
    assert stage.bodies[0]["questions"] == asked


@pytest.mark.parametrize("shape", ["gemini", "systemone", "sglang"])
def test_a_program_may_ask_in_any_shape(shape: str) -> None:
    """A client of ours stands for a program, and asks a proxy."""
    stage = Stage({"m": [BY_PLACE]})
    with EmbeddedProvider(stage.answer) as provider:
        inner = Client(Decisions("m", base_url=provider.base_url), **waits_into([]))
        http = httpx.Client(transport=rungwise.Transport(inner))
        outer = Client(Decisions("m", base_url="http://localhost:1/v1", shape=shape), http=http)
        with inner, http, outer:
            result = outer.decide("Refund me.", QUESTIONS)
    assert [answer.value for answer in result.value.values()] == ["billing", False, 1.9]


@pytest.mark.full
def test_a_durable_decision_is_kept_under_its_id(opened: Any) -> None:
    stage = Stage({"m": [{**SURE, "anger": WEAK}], "n": [{"anger": {"value": "calm"}}]})
    with EmbeddedProvider(stage.answer) as provider:
        processes = opened(*two(provider.base_url))
        results = []
        for _ in range(2):
            with processes(policy=BAR) as durable:
                results.append(durable.decide("ticket-1", "Refund me.", QUESTIONS))
    first, second = results
    assert len(stage.requests) == 2
    assert list(stage.bodies[1]["questions"]) == ["anger"]
    assert first.value == second.value
    assert [answer.value for answer in second.value.values()] == ["billing", False, 0.0]
    assert second.value.unmeasured == ("anger",)
    assert second.outcome == "done"
