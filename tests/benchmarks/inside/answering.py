"""Structured answers that go wrong: the provider that gives them, and how each library is asked for
one.

Every library is asked for the same bird with its own defaults, by a JSON schema, of a server of
chat completions.
"""

import json
from collections.abc import Callable
from typing import Any

RIGHT = {"name": "Bittern", "wingspan_cm": 125}
QUESTION = "Describe a bittern."
BYTES_PER_TOKEN = 4

_TEXT = json.dumps(RIGHT)


def _wrong(**changes: Any) -> str:
    return json.dumps(
        {name: value for name, value in {**RIGHT, **changes}.items() if value is not None}
    )


FAULTS: dict[str, list[dict[str, Any]]] = {
    "a number below its bound": [{"text": _wrong(wingspan_cm=-5)}, {"text": _TEXT}],
    "a field is missing": [{"text": _wrong(wingspan_cm=None)}, {"text": _TEXT}],
    "a field of the wrong type": [{"text": _wrong(wingspan_cm="wide")}, {"text": _TEXT}],
    "fails the caller's own check": [{"text": _wrong(name="bittern")}, {"text": _TEXT}],
    "wrong in two ways, one after the other": [
        {"text": _wrong(wingspan_cm=-5)},
        {"text": _wrong(name="bittern")},
        {"text": _TEXT},
    ],
    "prose in place of JSON": [{"text": "A bittern is a bird of the reeds."}, {"text": _TEXT}],
    "right, in a fence with words around it": [
        {"text": f"Here it is:\n```json\n{_TEXT}\n```\nAnything else?"}
    ],
    "cut at the output cap": [{"text": _TEXT[:20], "finish": "length"}, {"text": _TEXT}],
    "an empty reply": [{"text": ""}, {"text": _TEXT}],
    "503, then wrong": [{"status": 503}, {"text": _wrong(wingspan_cm=-5)}, {"text": _TEXT}],
    "the same wrong answer for ever": [{"text": _wrong(wingspan_cm=-5)}],
    "another wrong answer each time": [
        {"text": _wrong(wingspan_cm=-each)} for each in range(1, 60)
    ],
}


class _Stage:
    """The provider that runs."""

    provider: Any = None
    fault = ""


def begin(fault: str) -> str:
    """Serve a fault, and return the address."""
    from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

    end()
    _Stage.fault = fault
    _Stage.provider = EmbeddedProvider(Script([ScriptedReply(**each) for each in FAULTS[fault]]))
    _Stage.provider.__enter__()
    return str(_Stage.provider.base_url)


def end() -> dict[str, int]:
    """End it; return the requests that came, and about how many tokens went out and back."""
    if _Stage.provider is None:
        return {}
    requests = _Stage.provider.requests
    replies = FAULTS[_Stage.fault]
    size = sum(len(json.dumps(each.body["messages"])) for each in requests)
    size += sum(
        len(replies[min(place, len(replies) - 1)].get("text", "")) for place in range(len(requests))
    )
    _Stage.provider.__exit__(None, None, None)
    _Stage.provider = None
    return {"requests": len(requests), "tokens": size // BYTES_PER_TOKEN}


def _bird() -> Any:
    from pydantic import BaseModel, Field, field_validator

    class Bird(BaseModel):
        name: str
        wingspan_cm: int = Field(gt=0)

        @field_validator("name")
        @classmethod
        def is_capitalised(cls, value: str) -> str:
            if not value[:1].isupper():
                raise ValueError("write the name with a capital")
            return value

    return Bird


def ask(library: str, url: str) -> dict[str, Any]:
    """Ask for the bird; return whether it is right, and the error if none came."""
    try:
        value = _ASK[library](url, _bird())
    except Exception as error:
        return {"right": False, "error": type(error).__name__}
    return {"right": value is not None and value.model_dump() == RIGHT, "error": ""}


def _rungwise(url: str, bird: Any) -> Any:
    import rungwise

    waits = rungwise.Waits(retry_base=0.01)
    backend = rungwise.OpenAIChat(
        "bench",
        base_url=url,
        api_key="sk-1f38",
        capabilities=rungwise.Capabilities(json_schema=True),
    )
    with rungwise.Client(backend, policy=rungwise.Policy(waits=waits)) as client:
        return client.call(QUESTION, returns=bird).value


def _instructor(url: str, bird: Any) -> Any:
    import instructor
    from openai import OpenAI

    client = instructor.from_openai(
        OpenAI(base_url=url, api_key="sk-1f38"), mode=instructor.Mode.JSON_SCHEMA
    )
    messages = [{"role": "user", "content": QUESTION}]
    return client.chat.completions.create(model="bench", messages=messages, response_model=bird)


def _pydantic_ai(url: str, bird: Any) -> Any:
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=url, api_key="sk-1f38"))
    return Agent(model, output_type=NativeOutput(bird)).run_sync(QUESTION).output


def _openai(url: str, bird: Any) -> Any:
    from openai import OpenAI

    messages = [{"role": "user", "content": QUESTION}]
    client = OpenAI(base_url=url, api_key="sk-1f38")
    return (
        client.chat.completions.parse(model="bench", messages=messages, response_format=bird)
        .choices[0]
        .message.parsed
    )


_ASK: dict[str, Callable[[str, Any], Any]] = {
    "rungwise": _rungwise,
    "instructor": _instructor,
    "pydantic-ai": _pydantic_ai,
    "openai": _openai,
}
