"""Several backends in order, and the HTTP clients under them."""

import logging
from typing import Any

import httpx
import httpx2
import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.testing import ScriptedReply
from support.clocked import clocked
from support.modes import Caller, waits_into

DOWN = ScriptedReply(status=500)
ANSWER = ScriptedReply(text="In the reeds, mostly.")
KEYLESS = OpenAIChat("other", base_url="https://api.example.com/v1", name="keyless")
PLACEHOLDER = OpenAIChat(
    "other", base_url="https://api.example.com/v1", name="placeholder", api_key="YOUR_API_KEY"
)


def again(backend: OpenAIChat, name: str) -> OpenAIChat:
    """Return the same backend under another name."""
    return OpenAIChat(
        backend.model,
        base_url=backend.base_url,
        name=name,
        api_key=backend.api_key,
    )


def skipped(ended: Any) -> list[str]:
    return [step.backend for step in ended.steps if step.event == "skipped"]


def test_duplicates_and_unusable_backends_are_skipped_with_a_step_in_the_journal(run: Any) -> None:
    ended = run(
        [DOWN],
        [ANSWER],
        chain=lambda live: [live[0], KEYLESS, again(live[0], "twin"), PLACEHOLDER, live[1]],
    )
    ended.was("done", "In the reeds, mostly.", counts=[4, 1])
    assert skipped(ended) == ["keyless", "twin", "placeholder"]
    notes = [step.note for step in ended.steps if step.event == "skipped"]
    assert "api_key" in notes[0]
    assert "primary" in notes[1]
    assert "placeholder" in notes[2]


def test_an_unusable_primary_is_skipped_before_anything_is_sent(run: Any) -> None:
    ended = run([ANSWER], chain=lambda live: [KEYLESS, *live])
    ended.was("done", counts=[1], backend="primary")
    assert skipped(ended) == ["keyless"]


@pytest.mark.parametrize("status", [401, 500])
def test_an_unusable_fallback_never_hides_the_real_error(run: Any, status: int) -> None:
    ended = run(
        [ScriptedReply(status=status)], chain=lambda live: [*live, KEYLESS, again(live[0], "twin")]
    )
    ended.was("failed")
    assert skipped(ended) == ["keyless", "twin"]
    assert [(name, failure.status) for name, failure in ended.result.failures] == [
        ("primary", status)
    ]
    assert str(status) in str(ended.error)
    assert "api_key" not in str(ended.error)


def test_a_chain_without_a_usable_backend_is_refused_when_it_is_built() -> None:
    with pytest.raises(rungwise.ConfigurationError, match=r"keyless.*api_key.*placeholder"):
        Client([KEYLESS, PLACEHOLDER])


def test_three_backends_are_asked_in_order(run: Any) -> None:
    ended = run([ScriptedReply(status=401)], [ScriptedReply(finish="content_filter")], [ANSWER])
    ended.was("done", counts=[1, 1, 1])
    assert [step.backend for step in ended.steps if step.event == "sent"] == [
        "primary",
        "second",
        "third",
    ]


def test_each_backend_gets_fresh_retries(run: Any) -> None:
    run([DOWN], [DOWN], [DOWN]).was(counts=[4, 4, 4], waits=[2, 4, 8] * 3)


def test_the_fallback_gets_no_reasoning_that_only_its_writer_can_read(run: Any) -> None:
    messages = [
        {"role": "user", "content": "Where do herons nest?"},
        {
            "role": "assistant",
            "content": "In reeds.",
            "reasoning_content": "signed",
            "thought_signature": "c2ln",
        },
        {"role": "user", "content": "And storks?"},
    ]
    ended = run([ScriptedReply(status=401)], [ANSWER], messages=messages)
    assert ended.bodies[0]["messages"] == messages
    assert ended.bodies[1]["messages"][1] == {"role": "assistant", "content": "In reeds."}


def test_a_conversation_that_ends_on_an_assistant_turn_is_sent_so_if_that_is_taken(
    run: Any,
) -> None:
    messages = [
        {"role": "user", "content": "Where do herons nest?"},
        {"role": "assistant", "content": "In the"},
    ]
    ended = run(
        [ScriptedReply(text=" reeds.")], messages=messages, backends=[{"prefill": "trailing"}]
    )
    assert ended.bodies[0]["messages"] == messages


# the HTTP clients


def _state(http: Any) -> dict[str, Any]:
    pool = http._transport._pool
    network = pool._network_backend
    return {
        "headers": dict(http.headers),
        "timeout": http.timeout.as_dict(),
        "hooks": {name: list(hooks) for name, hooks in http.event_hooks.items()},
        "redirects": http.follow_redirects,
        "transport": id(http._transport),
        "network": (id(network), type(network)),
    }


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_the_callers_own_client_is_used_with_its_connections_and_neither_closed_nor_changed(
    serve: Any,
    backend_of: Any,
    accepted: Any,
    mode: str,
    library: Any,
) -> None:
    provider = serve(ANSWER)
    own = {"headers": {"x-mine": "yes"}, "timeout": 30}
    with Caller(mode, backend_of(provider), http=library, http_options=own) as caller:
        before = _state(caller.http)
        assert [caller.ask().text for _ in range(10)] == ["In the reeds, mostly."] * 10
        caller.close()
        assert _state(caller.http) == before
        assert not caller.http.is_closed
        assert caller.do(lambda: caller.http.get(provider.base_url + "/models")).status_code == 200
    assert provider.requests[0].headers["x-mine"] == "yes"
    assert len(accepted) == 1


def test_connections_are_used_again_after_errors_and_empty_replies(
    serve: Any,
    backend_of: Any,
    accepted: Any,
    mode: str,
) -> None:
    provider = serve(
        DOWN,
        ScriptedReply(),
        ScriptedReply(body="<html></html>"),
        ScriptedReply(status=429),
        ANSWER,
    )
    with Caller(mode, backend_of(provider), **waits_into([])) as caller:
        for _ in range(10):
            caller.ask()
    assert len(provider.requests) == 14
    assert len(accepted) == 1
    assert provider.wait_disconnected(), "a client closes what it has opened"


@pytest.mark.parametrize(
    "library", [pytest.param(None, marks=pytest.mark.own_connections), httpx, httpx2]
)
def test_a_backend_that_refuses_connections_is_left_at_once_whoever_made_the_connection(
    serve: Any,
    backend_of: Any,
    dead_url: str,
    mode: str,
    library: Any,
) -> None:
    provider = serve(ANSWER)
    dead = OpenAIChat("model", base_url=dead_url, name="dead", api_key="sk-3c9e1f7a5b2d8046")
    waits: list[float] = []
    chain = [dead, backend_of(provider)]
    with Caller(
        mode, chain, http=library, **clocked({"jitter": lambda: 0.0, **waits_into(waits)})
    ) as caller:
        result = caller.ask()
    assert (result.outcome, result.backend, result.attempts) == ("done", "primary", 2)
    assert waits == []
    assert [(name, failure.reason) for name, failure in result.failures] == [
        ("dead", "unreachable")
    ]


def test_an_http_client_that_logs_everything_shows_no_key(
    serve: Any, backend_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), Client(backend_of(serve(ANSWER))) as client:
        client.call("Where do the herons nest?")
    assert "sk-9d2f6b1c44e07a35" not in caplog.text
    assert "herons" not in caplog.text
