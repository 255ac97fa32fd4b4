"""In a stream as in a call: whatever manner a server has, a call, a stream, a turn and an SDK
behind the transport get the same reply.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import rungwise
from rungwise import ToolCall
from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.testing import EmbeddedProvider, ReceivedRequest, ScriptedReply
from support import modes, protocols, sdks
from support.clocked import clocked
from support.mannered import Mannered
from support.modes import follow, waits_into

TEXT = "The kingfishers nest in the steep bank, well above the water."
CALLS = (
    ToolCall("call_1", "look", '{"bird":"owl"}'),
    ToolCall("call_2", "look", '{"bird":"heron"}'),
)


class Provider:
    """A provider whose next replies a test sets."""

    def __init__(self) -> None:
        self.replies: list[ScriptedReply] = []
        self.server = EmbeddedProvider(self._answer)

    def _answer(self, request: ReceivedRequest) -> ScriptedReply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def client(self, api: str, **options: Any) -> rungwise.Client:
        backend = protocols.backend(api, self.server.base_url)
        return rungwise.Client(backend, **clocked({**waits_into([]), **options}))


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    with provider.server:
        yield provider


def mannered(api: str, *, streams: bool, calls: bool) -> list[tuple[str, ScriptedReply]]:
    """Return a reply in each manner of a protocol in which it can be read."""
    found = []
    given: dict[str, Any] = {"text": "" if calls else TEXT, "calls": CALLS if calls else ()}
    for name, manner in MANNERS.items():
        case = Mannered(api, streams, (name,), chunk_size=8, **given)
        if manner.is_in(api, streams=streams) and not case.lost:
            reply = ScriptedReply(
                given["text"], tool_calls=given["calls"], chunk_size=8, manner=name
            )
            found.append((name, reply))
    return found


def names_and_arguments(calls: Any) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in calls]


@pytest.mark.parametrize("mode", modes.EVERY)
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_calls_and_streams_get_the_reply(api: str, mode: str, provider: Provider) -> None:
    streams = modes.asks_for_streams(mode)
    for calls in (False, True):
        for name, reply in mannered(api, streams=streams, calls=calls):
            provider.replies = [reply]
            events: list[Any] = []
            with provider.client(api, **modes.options_of(mode)) as client:
                result = modes.ask(client, mode, events=events)
            assert result.outcome == "done", name
            assert result.attempts == 1, name
            assert result.text == reply.text, name
            expected = names_and_arguments(reply.tool_calls)
            assert names_and_arguments(result.tool_calls) == expected, name
            if modes.streams(mode):
                assert follow(events) == result.text, name


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_a_turn_runs_each_call_once(api: str, provider: Provider) -> None:
    for name, reply in mannered(api, streams=True, calls=True):
        seen: list[str] = []

        def look(bird: str, seen: list[str] = seen) -> str:
            seen.append(bird)
            return "In the reeds."

        provider.replies = [reply, ScriptedReply("There.")]
        with provider.client(api) as client:
            result = client.turn("Where?", tools=[look])
        assert sorted(seen) == ["heron", "owl"], name
        assert result.text == "There.", name


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("api", sdks.APIS)
def test_an_sdk_behind_the_transport_gets_the_reply(api: str, way: str, provider: Provider) -> None:
    """A text that came again is taken back at its end: no SDK can do that, so streams are held."""
    for calls in (False, True):
        for name, reply in mannered(api, streams=way == "stream", calls=calls):
            provider.replies = [reply]
            with provider.client(api) as client:
                transport = rungwise.Transport(client, hold=True)
                seen = sdks.ask(api, way, transport=transport)
            assert seen.error is None, name
            assert seen.text == reply.text, name
            assert [call[0] for call in seen.calls] == [call.name for call in reply.tool_calls]
