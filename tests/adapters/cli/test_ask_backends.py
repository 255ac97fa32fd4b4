"""`rungwise ask --api` and `--fallback`: every protocol by its name, and what is asked of it."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rungwise import Client, ConfigurationError
from rungwise.adapters.cli.ask import ask as ask_command
from rungwise.adapters.cli.backends import chain_in, chain_of
from rungwise.adapters.cli.targets import Target
from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.endpoint import variables_of
from rungwise.adapters.wires.registry import APIS
from rungwise.testing import ScriptedReply
from support.command_line import invoke, printed, refused

EVERY_API = pytest.mark.parametrize("api", APIS)
KEY = "sk-this-must-be-shown-nowhere"
ANSWER = ScriptedReply(text='{"bird": "heron"}')


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for api in APIS:
        for name in variables_of(Target(api, None, "m").origin):
            monkeypatch.delenv(name, raising=False)


def bodies(provider: Any) -> list[Any]:
    return [request.body for request in provider.requests]


@EVERY_API
def test_a_protocol_is_found_by_the_name_that_it_has_itself(api: str) -> None:
    assert api == backend_class(api).API


@EVERY_API
def test_each_protocol_is_asked_in_its_own_words(api: str, rungwise_provider: Any) -> None:
    provider = rungwise_provider(ANSWER)
    given = ("--api", api, "--base-url", provider.base_url, "--api-key-env", "K")
    result = invoke("ask", "Name a bird.", "--model", "m", *given, env={"K": KEY})
    assert result.exit_code == 0
    assert result.stdout == ANSWER.text
    [request] = provider.requests
    assert "Name a bird." in json.dumps(request.body)
    assert any(KEY in value for value in request.headers.values()) or api == "bedrock"
    assert KEY not in result.output


@EVERY_API
def test_each_protocol_may_be_the_fallback(api: str, rungwise_provider: Any) -> None:
    down = rungwise_provider(ScriptedReply(status=401))
    provider = rungwise_provider(ANSWER)
    given = ("--model", "m", "--base-url", down.base_url, "--api-key-env", "")
    stdout = printed(
        "ask",
        "Name a bird.",
        *given,
        "--fallback",
        f"{api}:{provider.base_url}#other#K",
        env={"K": KEY},
    )
    assert stdout == ANSWER.text
    assert "authorization" not in down.requests[0].headers
    assert len(down.requests) == 1
    assert len(provider.requests) == 1


def targets(*fallbacks: str) -> list[Target]:
    arguments = [
        "Hi",
        "--model",
        "m",
        *[part for each in fallbacks for part in ("--fallback", each)],
    ]
    return list(ask_command.make_context("ask", arguments).params["fallbacks"])


def test_a_fallback_has_four_forms() -> None:
    assert targets(
        "http://localhost:8000/v1#llama",
        "http://localhost:8000/v1#llama#KEY",
        "ollama:llama3.2:latest",
        "ollama:http://localhost:11434#llama3.2",
        "anthropic:https://proxy.example.com/v1#claude#WORK_KEY",
    ) == [
        Target("openai", "http://localhost:8000/v1", "llama"),
        Target("openai", "http://localhost:8000/v1", "llama", "KEY"),
        Target("ollama", None, "llama3.2:latest"),
        Target("ollama", "http://localhost:11434", "llama3.2"),
        Target("anthropic", "https://proxy.example.com/v1", "claude", "WORK_KEY"),
    ]


@pytest.mark.parametrize("api", [api for api in APIS if api not in ("ollama", "bedrock")])
def test_a_missing_key_is_told_by_the_variable_of_the_protocols_own_provider(api: str) -> None:
    for named in (
        ("--api", api, "--model", "m"),
        ("--base-url", "http://localhost:1", "--model", "m"),
    ):
        fallback = () if "--api" in named else ("--fallback", f"{api}:m")
        assert (
            f"{' or '.join(variables_of(Target(api, None, 'm').origin))} is not set in the "
            f"environment" in refused("ask", "Hi", *named, *fallback)
        )


def test_a_server_on_this_machine_needs_no_key() -> None:
    for api in APIS:
        [backend] = chain_of(
            [Target(api, "http://localhost:11434", "llama3.2", is_fallback=False)],
            lambda model: None,
        )
        assert backend.problem is None


@pytest.mark.parametrize(
    ("api", "model", "page"),
    [
        ("openai", "gpt-6.4-luna", "/responses"),
        ("openai", "gpt-5", "/chat/completions"),
        ("chat", "gpt-6.4-luna", "/chat/completions"),
        ("responses", "gpt-5", "/responses"),
    ],
)
def test_openai_chooses_the_protocol_by_the_model_and_the_others_do_not(
    api: str, model: str, page: str, rungwise_provider: Any
) -> None:
    provider = rungwise_provider(ANSWER)
    place = f"{provider.base_url}#{model}"
    invoke("ask", "Hi", "--api", api, "--base-url", provider.base_url, "--model", model)
    invoke(
        "ask",
        "Hi",
        "--base-url",
        "http://127.0.0.1:9",
        "--model",
        "m",
        "--fallback",
        f"{api}:{place}",
    )
    table = {"api": api, "model": model, "base_url": provider.base_url}
    with Client(chain_in("a", [table], lambda model: None)) as client:
        client.call("Hi")
    assert [request.path.endswith(page) for request in provider.requests] == [True] * 3


def test_a_package_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_spec("no_such_package_at_all") is None
    monkeypatch.setattr(
        "rungwise.adapters.wires.classes.APIS", {"mute": "no_such_package_at_all.backend:Mute"}
    )
    with pytest.raises(
        ConfigurationError, match=r"^mute needs the package no_such_package_at_all: pip install"
    ):
        backend_class("mute")


@pytest.mark.parametrize(
    "named",
    [
        "rungwise.adapters.wires.chat.backend:OpenAIChat",  # of another name
        "rungwise.adapters.wires.chat.backend:OpenAICaht",
        "rungwise.adapters.wires.chat.shapes:ChatShapes",
        "rungwise.adapters.wires.http_backend:HttpBackend",
        "rungwise.adapters.wires.chat.backend",
    ],
)
def test_what_is_no_backend_in_the_registry_is_refused(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rungwise.adapters.wires.classes.APIS", {"mute": named})
    with pytest.raises(ConfigurationError) as caught:
        backend_class("mute")
    right = "the registry's 'mute' must name a subclass of HttpBackend with API = 'mute'"
    assert str(caught.value) == f"{right}, which {named} is not"


@pytest.mark.parametrize(
    ("named", "package"),
    [
        ("rungwise.adapters.wires.endpoint:Endpoint", "rungwise.adapters.wires"),
        ("rungwise.adapters.wires.plain.parts:Part", "rungwise.adapters.wires.plain"),
        ("mute:Mute", "'mute:Mute'"),
    ],
)
def test_a_package_in_the_registry_without_a_declaration_is_refused(
    named: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(APIS, "no-wire", named)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as caught:
        variables_of("https://nowhere.example")
    right = (
        "the registry's 'no-wire' must be 'package.module:Class', and the package must "
        "declare WIRE = Wire(...)"
    )
    assert str(caught.value) == f"{right}, which {package} does not"


def test_temperature_and_effort_reach_the_body(rungwise_provider: Any) -> None:
    provider = rungwise_provider(ANSWER)
    given = ("ask", "Hi", "--model", "m", "--base-url", provider.base_url)
    assert printed(*given, "--temperature", "0.2", "--reasoning-effort", "low") == ANSWER.text
    invoke(*given)
    first, second = bodies(provider)
    assert first["temperature"] == 0.2
    assert first["reasoning_effort"] == "low"
    assert not second.keys() & {"temperature", "reasoning_effort", "response_format"}


BIRD = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
}
OF_PYTHON = "from typing import TypedDict\n\nclass Bird(TypedDict):\n    bird: str\n"


@pytest.mark.parametrize(
    "wants", [json.dumps(BIRD), json.dumps({"name": "a_bird", "schema": BIRD}), OF_PYTHON]
)
@pytest.mark.parametrize("tools", [(), ("--tools", "of_ask:look")])
def test_what_is_wanted_goes_out_and_what_is_wrong_goes_back(
    wants: str,
    tools: tuple[str, ...],
    rungwise_provider: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "of_ask.py").write_text(
        f"{OF_PYTHON}\ndef look(city: str) -> str:\n    return city\n"
    )
    (tmp_path / "bird.json").write_text(wants)
    monkeypatch.chdir(tmp_path)
    provider = rungwise_provider(
        ScriptedReply(text="{}"), ScriptedReply(text='{"bird": "bittern"}')
    )
    given = ("ask", "Hi", "--model", "gpt-4.1", "--base-url", provider.base_url, *tools)
    result = invoke(
        *given, "--returns", "of_ask:Bird" if wants is OF_PYTHON else "bird.json", "--json"
    )
    shown = json.loads(result.stdout)
    assert shown["text"] == '{"bird": "bittern"}'
    assert shown["value"] == {"bird": "bittern"}
    assert shown["attempts"] == 2
    first, second = bodies(provider)
    assert first["response_format"]["json_schema"]["schema"]["required"] == ["bird"]
    assert "'bird' is missing" in str(second["messages"])


@pytest.mark.parametrize(
    ("text", "told"),
    [("[1]", "holds no JSON object"), ("{", "is not JSON"), ("[" * 10**5, "is not JSON")],
)
def test_a_file_that_holds_no_schema_is_bad_input(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text, encoding="utf-8")
    stderr = refused(
        "ask", "Hi", "--model", "m", "--base-url", "http://localhost:1", "--returns", file
    )
    assert len(stderr.splitlines()) == 1
    assert told in stderr
