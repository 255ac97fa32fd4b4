"""What is sent is what the caller gave when the call was made, whatever becomes of it
afterwards.
"""

import asyncio
import copy
import gc
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.core import Call, Reply, Request
from rungwise.fsm.values.frozen_map import DEEPEST, FrozenList, FrozenMap, frozen_copy, thawed
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support.modes import MODES, ask, waits_into
from support.sampling import sampled

PICTURE = "data:image/png;base64," + "A" * 1_000_000


def messages() -> list[dict[str, Any]]:
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }
    return [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "A heron."},
    ]


def options() -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    }
    return {
        "tools": [{"type": "function", "function": {"name": "look", "parameters": schema}}],
        "parameters": {"metadata": {"tags": ["a", "b"]}, "stop": ["x"]},
        "headers": {"x-trace": "1"},
    }


def spoil(value: Any) -> None:
    """Change a document in every place."""
    if isinstance(value, dict):
        for inner in value.values():
            spoil(inner)
        for key in list(value):
            value[key] = "spoilt"
        value["spoilt"] = "spoilt"
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append({"role": "user", "content": "spoilt"})


def test_nothing_that_a_caller_changes_during_a_call_is_sent(mode: str) -> None:
    asked = messages()
    given = options()
    own = {"parameters": {"user": {"tags": ["own"]}}, "headers": {"x-own": "1"}}

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if len(provider.requests) > 1:
            return ScriptedReply(text="A heron.")
        for value in (asked, given, own):
            spoil(value)
        return ScriptedReply(status=503)

    with EmbeddedProvider(answer) as provider:
        backend = OpenAIChat("model", base_url=provider.base_url, **own)
        with Client(backend, **waits_into([])) as client:
            assert ask(client, mode, asked, **given).text == "A heron."
        first, second = provider.requests
    assert first.body == second.body
    assert second.body["messages"] == messages()
    assert second.body["tools"] == options()["tools"]
    assert second.body["metadata"] == {"tags": ["a", "b"]}
    assert second.body["user"] == {"tags": ["own"]}
    assert (second.headers["x-trace"], second.headers["x-own"]) == ("1", "1")


@dataclass
class Part:
    type: str
    text: Any
    kind: ClassVar[str] = "part"
    _own: str = "mine"
    later: str = field(init=False)


@dataclass(slots=True)
class Slotted:
    type: str
    text: Any


class Pair(NamedTuple):
    part: Any


@pytest.mark.parametrize("kind", [Part, Slotted])
@pytest.mark.parametrize("wrap", [list, tuple, Pair._make])
def test_a_dataclass_and_a_named_tuple_are_copied_as_json_has_them(
    kind: Any, wrap: Callable[[Any], Any]
) -> None:
    text = {"words": ["What is it?"]}
    part = kind("text", text)

    def answer(request: ReceivedRequest) -> ScriptedReply:
        part.type = "spoilt"
        spoil(text)
        return (
            ScriptedReply(text="A heron.")
            if len(provider.requests) > 1
            else ScriptedReply(status=503)
        )

    with EmbeddedProvider(answer) as provider:
        client = Client(
            OpenAIChat("model", base_url=provider.base_url),
            testing=rungwise.testing.Clocks(sleep=lambda seconds: None),
        )
        assert ask(client, "call", [{"role": "user", "content": wrap([part])}]).text == "A heron."
        sent = [request.body["messages"] for request in provider.requests]
    content = [{"type": "text", "text": {"words": ["What is it?"]}}]
    assert sent == [[{"role": "user", "content": content}]] * 2


def test_a_task_asks_what_was_given_when_it_was_made() -> None:
    with EmbeddedProvider(
        lambda request: ScriptedReply(text=request.body["messages"][0]["content"])
    ) as provider:
        client = Client(OpenAIChat("model", base_url=provider.base_url))

        async def ask_three() -> list[str]:
            asked = {"role": "user", "content": ""}
            tasks = []
            for word in ("one", "two", "three"):
                asked["content"] = word
                tasks.append(asyncio.create_task(client.acall([asked])))
            return [(await task).text for task in tasks]

        assert asyncio.run(ask_three()) == ["one", "two", "three"]


def test_a_compactor_changes_what_it_returns_and_nothing_else(mode: str) -> None:
    handed: list[Any] = []

    def compact(long: Any) -> list[dict[str, Any]]:
        spoil(list(long))
        kept = [{"role": "user", "content": [{"type": "text", "text": "short"}]}]
        handed.append(kept)
        return kept

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if len(provider.requests) == 1:
            return ScriptedReply(status=413)
        spoil(handed)
        return (
            ScriptedReply(status=503) if len(provider.requests) == 2 else ScriptedReply(text="Yes.")
        )

    request = Request(messages())
    with EmbeddedProvider(answer) as provider:
        backend = OpenAIChat("model", base_url=provider.base_url)
        with Client(backend, compactor=compact, **waits_into([])) as client:
            assert ask(client, mode, request).text == "Yes."
        sent = [received.body["messages"] for received in provider.requests]
    short = [{"role": "user", "content": [{"type": "text", "text": "short"}]}]
    assert sent == [messages(), short, short]
    assert list(request.messages) == messages()


def test_an_observer_changes_neither_what_is_sent_nor_what_is_recorded() -> None:
    refused: list[str] = []

    def observe(step: rungwise.Step) -> None:
        for change in (lambda: step.spent.clear(), lambda: step.content["tool_calls"].append("x")):  # type: ignore
            try:
                change()
            except TypeError as error:
                refused.append(str(error))

    call = Call(Request("?"), observer=observe, contents=True)
    call.begin()
    call.receive(Reply("Yes.", stop_reason="stop"))
    assert rungwise.replay(rungwise.Journal.from_json(call.journal.to_json())).text == "Yes."
    assert set(refused) >= {"this mapping cannot be changed", "this list cannot be changed"}


def test_what_a_transport_is_given_cannot_be_changed() -> None:
    call = Call(Request(messages(), **options()))
    send = call.begin()
    assert send is not None
    content: Any = send.messages[1]["content"]
    with pytest.raises(TypeError):
        content.append({})
    with pytest.raises(TypeError):
        content[0]["text"] = "spoilt"
    with pytest.raises(TypeError):
        send.request.parameters["metadata"]["tags"] += ["c"]
    assert list(send.messages) == messages()


# what is too deep, and what goes round


def nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = {"a": value}
    return value


def loop() -> Any:
    value: dict[str, Any] = {}
    value["a"] = [value]
    return value


POLICIES = {"plain": rungwise.Policy(), "money": rungwise.Policy(budget=rungwise.Budget(money=1.0))}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("build", [loop, lambda: nested(DEEPEST + 1), lambda: nested(100_000)])
@pytest.mark.parametrize("mode", sampled(MODES, one_in=4))
def test_what_is_too_deep_to_be_sent_is_refused(
    mode: str, build: Callable[[], Any], policy: str
) -> None:
    backend = OpenAIChat("model", base_url="http://localhost:1/v1", prices=rungwise.Prices(1, 1))
    with Client(backend, policy=POLICIES[policy]) as client:
        for place, given in (
            (
                "messages[1]",
                {"asked": [{"role": "user", "content": "x"}, {"role": "user", "content": build()}]},
            ),
            (
                "Request.tools[0]",
                {"asked": "x", "tools": [{"type": "function", "function": build()}]},
            ),
            ("Request.parameters", {"asked": "x", "parameters": {"metadata": build()}}),
        ):
            with pytest.raises(rungwise.ConfigurationError, match="nested more than") as caught:
                ask(client, mode, given.pop("asked"), **given)
            assert str(caught.value).startswith(place)
        with pytest.raises(rungwise.ConfigurationError, match="nested more than"):
            OpenAIChat("model", parameters={"metadata": build()})


def test_what_is_as_deep_as_can_be_is_sent(mode: str) -> None:
    asked = [
        {
            "role": "assistant",
            "content": "x\ud800",
            "tool_calls": nested(DEEPEST - 2),
        },
        *messages(),
    ]
    policy = rungwise.Policy(budget=rungwise.Budget(money=1.0))
    with EmbeddedProvider(lambda request: ScriptedReply(text="Yes.")) as provider:
        backend = OpenAIChat("model", base_url=provider.base_url, prices=rungwise.Prices(1, 1))
        with Client(backend, policy=policy) as client:
            assert ask(client, mode, asked).text == "Yes."
        assert provider.requests[0].body["messages"][0]["tool_calls"] == nested(DEEPEST - 2)


# the copies themselves


def test_a_long_text_is_shared_and_not_copied() -> None:
    asked = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}]
    content: Any = Request(asked).messages[0]["content"]
    assert content[0]["image_url"]["url"] is PICTURE


def test_a_request_of_two_messages_takes_few_calls_to_copy() -> None:
    """Count the calls of Python functions, which are what copying costs: none for a text."""
    asked = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    calls = 0

    def count(frame: Any, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.endswith("frozen_map.py")

    gc.disable()
    sys.setprofile(count)
    try:
        Request(asked)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert calls <= 8


@pytest.mark.parametrize(
    "given", [MappingProxyType({"a": MappingProxyType({"b": [1]})}), {"a": {"b": [1]}}]
)
def test_a_copy_equals_what_it_is_made_of_and_refuses_every_change(given: Any) -> None:
    made = frozen_copy(given, "it")
    assert made == {"a": {"b": [1]}}
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert type(thawed(made)["a"]) is dict
    assert type(thawed(made)["a"]["b"]) is list
    for name in ("clear", "pop", "popitem", "setdefault", "update"):
        with pytest.raises(TypeError):
            getattr(made, name)()
    for name in ("append", "extend", "insert", "remove", "sort", "clear", "pop", "reverse"):
        with pytest.raises(TypeError):
            getattr(made["a"]["b"], name)()
    for change in changes(made, made["a"]["b"]):
        with pytest.raises(TypeError):
            change()
    assert made == {"a": {"b": [1]}}


def changes(mapping: FrozenMap, items: FrozenList) -> Iterator[Callable[[], Any]]:
    yield lambda: mapping.__setitem__("a", 1)
    yield lambda: mapping.__delitem__("a")
    yield lambda: mapping.__ior__({"a": 1})
    yield lambda: items.__setitem__(0, 2)
    yield lambda: items.__delitem__(0)
    yield lambda: items.__iadd__([2])
    yield lambda: items.__imul__(2)
