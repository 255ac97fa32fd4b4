"""npm's `ai` reads the gateway through its five providers, which refuse what is not of its form."""

from typing import Any, Final

import pytest

import rungwise
from adoption.readers import Read, reader_of
from rungwise import Client, Limits, Policy
from rungwise.fsm.replies.parts import ToolCall
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support import protocols
from support.proxied import served

PROVIDERS: Final = ("anthropic", "google", "openai", "openai-compatible")
WANTED: Final = ("ai@7", *[f"@ai-sdk/{name}" for name in PROVIDERS])
CALL: Final = ToolCall("call_1", "look", '{"bird": "heron"}')
TEXT: Final = "In the reeds."
SCENES: Final[dict[str, tuple[ScriptedReply, dict[str, Any]]]] = {
    "text": (ScriptedReply(TEXT), {"text": TEXT, "finish": "stop"}),
    "thought": (
        ScriptedReply(TEXT, reasoning="Hm.", signature="c2ln"),
        {"text": TEXT, "finish": "stop"},
    ),
    "call": (
        ScriptedReply(tool_calls=(CALL,)),
        {"text": "", "finish": "tool-calls", "calls": [{"bird": "heron"}]},
    ),
    "cut": (ScriptedReply("In the", finish="length"), {"text": "In the", "finish": "length"}),
}
NONE: Final = Policy(limits=Limits(**dict.fromkeys(Policy().limits, 0)))


@pytest.fixture(scope="module")
def read() -> Read:
    """Return what runs a program beside `ai` and its providers."""
    return reader_of("strict-readers", WANTED)


def came(read: Read, backend: str, reply: ScriptedReply) -> dict[str, list[Any]]:
    """Return what each provider read, whole and streamed, of a gateway over a scripted backend."""
    with (
        EmbeddedProvider(lambda request: reply) as provider,
        Client(protocols.backend(backend, provider.base_url), policy=NONE) as client,
        served(rungwise.asgi(client)) as url,
    ):
        seen: dict[str, list[Any]] = read("with_ai.mjs", url)
    assert len(seen) == 5
    return seen


@pytest.mark.full
@pytest.mark.parametrize("backend", ["openai", "anthropic"])
@pytest.mark.parametrize("scene", SCENES)
def test_every_provider_of_ai_reads_it(read: Read, scene: str, backend: str) -> None:
    reply, wanted = SCENES[scene]
    for provider, seen in came(read, backend, reply).items():
        assert seen == [{"calls": [], **wanted}] * 2, provider


@pytest.mark.full
def test_every_provider_of_ai_sees_the_status(read: Read) -> None:
    busy = ScriptedReply(status=429, headers={"retry-after": "400"})
    for provider, seen in came(read, "openai", busy).items():
        assert [each["status"] for each in seen] == [429, 429], provider
