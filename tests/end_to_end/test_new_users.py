"""The mistakes of a first day: each message says what was wrong, where, and what would be right."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

import rungwise
from rungwise import Client, ConfigurationError, OpenAIChat, Policy, Tool, TurnPolicy
from rungwise.adapters.cli.backends import chain_in
from rungwise.adapters.cli.chains import prices_in
from rungwise.adapters.durable import batch
from rungwise.adapters.durable.import_paths import Modules
from rungwise.core import Request
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.command_line import printed_by

BACKEND = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key="")
CLIENT = Client(BACKEND)
KEY = "sk-proj-" + "Ab3" * 12


class Bird(BaseModel):
    name: str


class Desk:
    def look(self, lake: str) -> str:
        """Look."""
        return lake


def look(lake: str) -> str:
    """Look."""
    return lake


MAIN = type("Main", (), {"__module__": "__main__"})
"""A class of a program."""


def line(prompt: Mapping[str, Any]) -> None:
    """Raise the fault of a line of a batch."""
    raise ConfigurationError(batch._line(1, json.dumps(prompt).encode()).fault)


def returning(returns: Any) -> Any:
    return CLIENT.call("Where?", returns=returns)


WRONG: list[tuple[str, Callable[[], Any], str]] = [
    # the chain
    ("text", lambda: Client("gpt-5"), r"as in \[rungwise.OpenAI\('gpt-5'\)\], not str"),
    ("class", lambda: Client(OpenAIChat), r"not the class OpenAIChat: write OpenAIChat\(model\)"),
    ("no chain", lambda: Client(), "the chain is empty; give at least one backend"),
    ("model", lambda: Client(model="gpt-5"), r"'model': give it to a backend, as in Client\("),
    ("two", lambda: Client(BACKEND, BACKEND), "one chain: put its backends into a list"),
    # policies
    ("path", lambda: Client(BACKEND, policy="p.toml"), r"Policy.load\(path\)"),
    ("table", lambda: Client(BACKEND, policy={"budget": {}}), r"not dict: write Policy\(...\)"),
    ("kind", lambda: Client(BACKEND, policy=Policy), r"the class Policy: write Policy\(\)"),
    ("none", lambda: Client(BACKEND, policy=None), "leave it out"),
    (
        "part",
        lambda: Client(BACKEND, policy=rungwise.Budget()),
        r"not Budget: write Policy\(budget=...\)",
    ),
    ("turn's", lambda: CLIENT.call("?", policy=TurnPolicy()), "client.turn takes that one"),
    ("call's", lambda: CLIENT.turn("?", policy=Policy()), r"write TurnPolicy\(call=...\)"),
    (
        "deep",
        lambda: TurnPolicy(retries=3),
        r"it is TurnPolicy\(call=Policy\(limits=Limits\(retries=3\)\)\)",
    ),
    ("top", lambda: Policy.from_toml("retries = 3"), r"'retries': it stands below \[limits\]"),
    (
        "deep top",
        lambda: TurnPolicy.from_toml("retries = 3"),
        r"'retries': it stands below \[call.limits\]",
    ),
    (
        "picture",
        lambda: rungwise.draw_policy("p.toml"),
        "must be a Policy or a TurnPolicy, not str",
    ),
    # arguments of a client and of a call
    ("limits", lambda: Client(BACKEND, limits=3), "'limits': say it in a policy"),
    ("tools", lambda: Client(BACKEND, tools=[look]), "'tools': give it to client.turn"),
    ("stream", lambda: Client(BACKEND, stream=True), "client.stream hands out what comes"),
    ("temperature", lambda: Client(BACKEND, temperature=0), "give it to each call"),
    ("contents", lambda: Client(BACKEND, contents="yes"), "contents must be True or False"),
    (
        "compactor",
        lambda: Client(BACKEND, compactor=rungwise.OldestFirst),
        "must be a function, not the class OldestFirst",
    ),
    ("approvals", lambda: CLIENT.call("?", approvals={}), "client.turn takes it"),
    ("max_steps", lambda: CLIENT.turn("?", max_steps=3), r"TurnPolicy\(auto_continues=10\)"),
    # messages
    ("one", lambda: CLIENT.call(rungwise.Message.saying("user", "?")), "put it into a list"),
    ("no content", lambda: CLIENT.call([{"role": "user", "text": "Hi"}]), "has no 'content'"),
    ("blank", lambda: CLIENT.call([{"role": "user", "content": " "}]), "the prompt is empty"),
    ("text", lambda: rungwise.Message("user", "?"), r"as in \[rungwise.TextPart\('...'\)\]"),
    # what comes back
    ("no schema", lambda: returning({"age": "int"}), "returns is no JSON schema.*but age"),
    ("instance", lambda: returning(Bird(name="x")), "give the class Bird itself"),
    ("words", lambda: returning("list[str]"), r"'list\[str\]' is none"),
    ("list", lambda: returning([str]), "<class 'str'>. is none"),
    # backends
    ("url", lambda: OpenAIChat("m", "http://x"), "takes only model without a name"),
    ("api_base", lambda: rungwise.OpenAI("m", api_base="http://x"), "it is called base_url here"),
    ("timeout", lambda: OpenAIChat("m", timeout=3), r"Timeouts\(total=30\)"),
    ("typing", lambda: rungwise.Anthropic("m", apikey="k"), "did you mean 'api_key'"),
    ("quoted", lambda: Client(OpenAIChat("m", api_key='"sk-a"')), "in quotation marks"),
    ("swapped", lambda: OpenAIChat(KEY), "^model holds a key: give it as the key"),
    ("as URL", lambda: OpenAIChat("m", base_url=KEY), "^base_url holds a key"),
    ("bearer", lambda: Client(OpenAIChat("m", api_key="Bearer sk-a")), "give the key alone"),
    # tools, prices, transports, journals
    ("approval", lambda: Tool(look, requires_approval=True), "it is called needs_approval here"),
    ("words of a tool", lambda: Tool(look, "Look."), "takes only function without a name"),
    ("arguments", lambda: Tool(look, parameters={"lake": "string"}), "no JSON schema.*but lake"),
    ("method", lambda: Tool(Desk.look), "method of a class: give that of an object"),
    ("toolbox", lambda: rungwise.Toolbox([look]), r"as Toolbox.of\(tools\) makes it"),
    ("shared", lambda: rungwise.SharedBudget(money=1), r"SharedBudget\(Budget\(money=0.5\)\)"),
    ("cached", lambda: rungwise.Prices(1, 2, cached=1), "it is called cache_read here"),
    (
        "tier",
        lambda: rungwise.Prices(1, 2, tiers={"priority": 3}),  # type: ignore[dict-item]
        "^prices of 'priority': they must be input and output",
    ),
    (
        "model's price",
        lambda: rungwise.Prices(1, 2, models={"m": [1, -2]}),  # type: ignore[dict-item]
        "^prices of 'm': Prices.output must be",
    ),
    (
        "price's name",
        lambda: prices_in("input = 1, out = 2"),
        "may be cache_read, .*, not {'input': 1, 'out': 2}",
    ),
    ("backend", lambda: rungwise.Transport(BACKEND), "give a Client.*not OpenAIChat"),
    ("hold", lambda: rungwise.Transport(CLIENT, hold="yes"), "hold must be True or False"),
    ("resets", lambda: rungwise.ui.vercel(iter(()), resets=1), "resets must be True or False"),
    ("durable", lambda: rungwise.Durable(BACKEND), "client must be a Client, not OpenAIChat"),
    ("database", lambda: rungwise.Durable(CLIENT, 3), "must be a URL, or None, not int"),
    ("modules", lambda: Modules([3]), "must hold names of modules, not 3"),
    ("main", lambda: Modules([]).path_of(MAIN, "the verdict"), "the verdict is in the program"),
    # files and batches
    ("keys", lambda: chain_in("a", [{"model": "m", "api_key": "k"}], {}.get), "with key_env"),
    ("chain", lambda: Policy.from_toml("[[fast]]\nmodel = 'm'"), r"write \[\[chain.fast\]\]"),
    ("model of a line", lambda: line({"prompt": "?", "model": "m"}), "there are: headers, id"),
    ("replay", lambda: rungwise.replay("call.json"), "see Journal.from_json"),
    ("path of a journal", lambda: rungwise.Journal.from_json(Path("call.json")), "read_text"),
]


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in WRONG], ids=[x[0] for x in WRONG])
def test_a_mistake_is_answered_with_what_would_be_right(make: Callable[[], Any], says: str) -> None:
    with pytest.raises((ConfigurationError, TypeError), match=says):
        make()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("completion", "make a rungwise.Client"),
        ("Claude", r"rungwise\.Anthropic"),
        ("Groq", r"rungwise\.OpenAI with a base_url"),
        ("Vertex", r"rungwise\.Gemini with a base_url"),
        ("AsyncOpenAI", "make a rungwise.Client"),
        ("Agent", "Client.turn"),
        ("stop_after_attempt", "Limits"),
        ("RateLimitError", "CallError"),
        ("ModelRetry", "ToolError"),
    ],
)
def test_a_name_of_another_library_says_what_takes_its_place(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(rungwise, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}'.*{says}"):
        exec(f"from rungwise import {name}")


def test_a_name_that_is_public_elsewhere_says_where_when_it_is_imported() -> None:
    with pytest.raises(ImportError, match=r"it is rungwise\.testing\.EmbeddedProvider"):
        exec("from rungwise import EmbeddedProvider")
    with pytest.raises(ImportError, match=r"cannot import name 'nothing' from 'rungwise' \("):
        exec("from rungwise import nothing")
    assert printed_by("from rungwise import core, testing, ui; print(testing.testing)")


def test_an_attribute_of_another_library_says_what_takes_its_place() -> None:
    with EmbeddedProvider(Script([ScriptedReply("In reeds.")])) as provider:
        backend = OpenAIChat("m", base_url=provider.base_url, api_key="")
        with Client(backend, health=None) as client:
            result = client.call("Where?")
    transport: Any = rungwise.Transport(CLIENT)
    with CLIENT.stream("Where?") as stream:
        lacking: list[tuple[Any, str, str]] = [
            (CLIENT, "chat", r"client.call\(messages\)"),
            (CLIENT, "acompletion", "client.acall"),
            (CLIENT, "agenerate_content", "client.acall"),
            (CLIENT, "generate_content", r"client.call\(messages\)"),
            (CLIENT, "stream_text", "client.stream"),
            (CLIENT, "embeddings", "SDK"),
            (CLIENT, "handle_request", r"rungwise.Transport\(client\)"),
            (BACKEND, "call", "make a rungwise.Client of the backend"),
            (stream, "text", "iterate over the stream"),
            (result.message, "content", "it is called parts"),
            (result.usage, "prompt_tokens", "it is called input_tokens"),
            (transport, "timeout", "DefaultHttpxClient"),
        ]
        for of, name, says in lacking:
            assert not hasattr(of, name)
            assert not hasattr(of, "no_such_name")
            with pytest.raises(AttributeError, match=says):
                getattr(of, name)
        with pytest.raises(rungwise.core.IllegalEvent, match="iterate over it to its end"):
            _ = stream.result
    with pytest.raises(AttributeError, match="give it to the SDK's HTTP client"):
        openai.OpenAI(api_key="k", http_client=transport)
    sdk = openai.OpenAI(api_key="k", http_client=httpx.Client(transport=CLIENT))  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="DefaultHttpxClient"):
        sdk.chat.completions.create(model="m", messages=[])
    assert pickle.loads(pickle.dumps(result.message)) == result.message


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("v1/chat/completions", "messages must be"),
        ("v1/responses", "input must be"),
        ("v1/messages", "messages must be"),
        ("v1beta/models/m:generateContent", "contents must be"),
        ("v1beta/interactions", "input must be"),
        ("v1/completions", "there is no POST of this address here; calls are a POST to /v1/chat/"),
        ("v1/chat", ", /v1/responses, /v1/messages,"),
    ],
)
def test_a_gateway_says_what_a_request_lacks_in_its_own_words(path: str, says: str) -> None:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(rungwise.asgi(CLIENT))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, json={"model": "m"})

    error = asyncio.run(asked()).json()["error"]
    assert says in error["message"]


def test_no_tools_may_be_none() -> None:
    assert Request("Where?", tools=None).tools == ()


@pytest.mark.parametrize("name", ["stream", "astream", "stream_turn", "astream_turn"])
def test_a_stream_that_nobody_reads_says_so(name: str) -> None:
    with pytest.warns(RuntimeWarning, match="never read, so nothing was sent: iterate over it"):
        getattr(CLIENT, name)("Where?")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with CLIENT.stream("Where?"):
            pass


@pytest.mark.parametrize("name", ["acall", "aturn"])
def test_a_call_that_nobody_awaits_is_named_as_it_was_made(name: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"coroutine 'Client.{name}' was never awaited"):
        getattr(CLIENT, name)("Where?")


def test_a_client_is_copied_in_a_process_and_not_pickled() -> None:
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="a Client is not pickled: build it where you use it"):
            copied(CLIENT)
    assert copy.copy(CLIENT).runtime is CLIENT.runtime


def test_prices_of_one_token_are_doubted() -> None:
    with pytest.warns(UserWarning, match=r"of a million tokens: 1.25e-06 may be that of one"):
        rungwise.Prices(1.25e-6, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rungwise.Prices(0, 0.01)


def test_a_key_function_that_raises_is_named() -> None:
    backend = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key=lambda: str(1 / 0))
    with pytest.raises(rungwise.Failed, match="the function of api_key raised ZeroDivisionError"):
        Client(backend, health=None).call("Where?")


def test_an_answer_that_is_no_json_is_called_so() -> None:
    with EmbeddedProvider(Script([ScriptedReply("In reeds.")])) as provider:
        backend = OpenAIChat("m", base_url=provider.base_url, api_key="")
        policy = Policy(limits=rungwise.Limits(corrections=0))
        with (
            Client(backend, policy=policy) as client,
            pytest.raises(rungwise.WrongAnswer) as raised,
        ):
            client.call("Where?", returns=Bird)
    assert str(raised.value) == "partial after 1 attempt: the answer was wrong: no JSON"
