"""A backend with several keys: one that is rejected, spent or limited gives way to the next, in
later calls too.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import rungwise
from rungwise import Client, Limits, OpenAIChat, Policy, Prices, replay, verify
from rungwise.core import BackendHealth
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.modes import Caller
from support.remembering import Clock, steps

ANSWER, OTHER = ScriptedReply(text="In the reeds."), ScriptedReply(text="On the island.")
REJECTED, DENIED, SPENT = (ScriptedReply(status=status) for status in (401, 403, 402))
LIMITED = ScriptedReply(status=429, headers={"retry-after": "40"})
DOWN = ScriptedReply(status=503)

Answers = Callable[[ReceivedRequest], ScriptedReply]


def by_key(answers: Mapping[str, ScriptedReply]) -> Answers:
    """Answer each key in its own way."""
    return lambda request: answers[request.headers["authorization"].removeprefix("Bearer ")]


@pytest.fixture
def over(mode: str, backend_of: Any) -> Callable[..., Caller]:
    """Return what calls a server with some keys, before other backends."""

    def over(server: Any, *keys: Any, others: Sequence[Any] = (), **options: Any) -> Caller:
        chain = [backend_of(server, api_key=[*keys], name="lake"), *others]
        return Caller(mode, chain, **{**Clock().options, **options})

    return over


def keys_sent(server: Any) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]


@pytest.mark.parametrize(
    "wrong",
    [REJECTED, DENIED, SPENT, LIMITED],
    ids=["rejected", "denied", "spent", "limited"],
)
def test_the_next_key_is_used_at_once_and_by_later_calls_first(
    serve: Any, over: Any, wrong: ScriptedReply
) -> None:
    clock = Clock()
    server = serve(by_key({"one": wrong, "two": ANSWER}))
    with over(server, "one", "two", **clock.options) as caller:
        began = clock.now
        result = caller.ask()
        assert (result.text, clock.now) == (ANSWER.text, began)
        later = caller.ask()
        assert later.journal.steps[0].note == "with key number 2"
        health = caller.client.health()
    assert keys_sent(server) == ["one", "two", "two"]
    assert (
        steps(result)[1]
        == f"{'failed_transiently' if wrong is LIMITED else 'failed_permanently'} lake"
    )
    assert result.journal.steps[2].source == "rotate"
    assert (health["lake, key number 1"].state, health["lake, key number 2"]) == (
        "open",
        BackendHealth(),
    )
    assert replay(result.journal).outcome == replay(later.journal).outcome == "done"


def test_a_key_that_was_limited_is_used_again_when_its_time_has_come(serve: Any, over: Any) -> None:
    answers = {"one": LIMITED, "two": ANSWER}
    clock, server = Clock(), serve(lambda request: by_key(answers)(request))
    with over(server, "one", "two", **clock.options) as caller:
        caller.ask()
        answers["one"] = ANSWER
        for seconds in (39.0, 1.1):
            clock.advance(seconds)
            caller.ask()
    assert keys_sent(server) == ["one", "two", "two", "one"]


def test_every_key_is_tried_before_the_next_backend_and_each_once(
    serve: Any, over: Any, backend_of: Any
) -> None:
    server = serve(REJECTED)
    second = backend_of(serve(OTHER), name="second")
    with over(server, "one", "two", "three", others=[second]) as caller:
        assert [caller.ask().text for _ in range(3)] == [OTHER.text] * 3
    assert keys_sent(server) == ["one", "two", "three"]


def test_where_every_key_is_limited_the_last_one_is_waited_for(serve: Any, over: Any) -> None:
    clock = Clock()
    began = 1000.0
    server = serve(lambda request: ANSWER if clock.now >= began + 40 else LIMITED)
    with over(server, "one", "two", **clock.options) as caller:
        result = caller.ask()
    assert (result.text, clock.now) == (ANSWER.text, began + 40)
    assert keys_sent(server) == ["one", "two", "two"]


def test_an_outage_is_no_fault_of_a_key(serve: Any, over: Any) -> None:
    server = serve(DOWN)
    policy = Policy(limits=Limits(retries=2))
    with over(server, "one", "two", policy=policy) as caller, pytest.raises(rungwise.Failed):
        caller.ask()
    assert keys_sent(server) == ["one"] * 3


def test_what_every_key_is_denied_speaks_of_the_request(serve: Any, over: Any) -> None:
    server = serve(lambda request: DENIED if "secret" in str(request.body) else ANSWER)
    with over(server, "one", "two", "three") as caller:
        with pytest.raises(rungwise.Failed):
            caller.ask("a secret")
        assert {health.state for health in caller.client.health().values()} == {"closed"}
        caller.ask()
    assert keys_sent(server) == ["one", "two", "three", "one"]


def test_without_memory_each_call_begins_with_the_first_key(serve: Any, over: Any) -> None:
    server = serve(by_key({"one": REJECTED, "two": ANSWER}))
    with over(server, "one", "two", health=None) as caller:
        caller.ask()
        caller.ask()
    assert keys_sent(server) == ["one", "two"] * 2


def test_keys_may_come_from_functions(mode: str, serve: Any, over: Any) -> None:
    asked: list[str] = []

    def key_of(name: str) -> Any:
        def plain() -> str:
            asked.append(name)
            return name

        async def later() -> str:
            return plain()

        return later if mode.startswith("a") else plain

    server = serve(by_key({"one": LIMITED, "two": ANSWER}))
    with over(server, key_of("one"), key_of("two")) as caller:
        caller.ask()
    assert keys_sent(server) == asked == ["one", "two"]


def test_a_function_is_asked_once_more_before_the_next_key_is_used(
    mode: str, serve: Any, over: Any
) -> None:
    server = serve(by_key({"one": REJECTED, "two": REJECTED, "three": ANSWER}))

    def key_of(name: str) -> Any:
        async def later() -> str:
            return name

        return later if mode.startswith("a") else lambda: name

    with over(server, key_of("one"), key_of("two"), key_of("three")) as caller:
        result = caller.ask()
    assert keys_sent(server) == ["one", "one", "two", "two", "three"]
    assert replay(result.journal).outcome == "done"


@pytest.mark.full
def test_a_call_never_goes_back_to_a_key_and_its_certificate_holds(
    serve: Any, backend_of: Any
) -> None:
    server = serve(REJECTED)
    second = serve(REJECTED)
    chain = [
        backend_of(server, api_key=["one", "two", "three"]),
        backend_of(second, api_key="four", name="second"),
    ]
    worst = {case.name: case for case in verify(Policy(), chain).worst}
    with pytest.raises(rungwise.Failed) as failed:
        Client(chain, **Clock().options).call("Where?")
    assert keys_sent(server) == ["one", "two", "three"]
    assert failed.value.result.attempts == 4 <= worst["attempts"].value
    assert verify(Policy(), chain).limits["rotations"] == 2


def test_a_policy_may_forbid_it(serve: Any, backend_of: Any) -> None:
    server = serve(REJECTED)
    with pytest.raises(rungwise.Failed):
        Client(
            [backend_of(server, api_key=["one", "two"])], policy=Policy(limits=Limits(rotations=0))
        ).call("Where?")
    assert keys_sent(server) == ["one"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ([], "api_key must hold 1 to 100 keys, not 0"),
        (["one", "one"], r"api_key\[1\] is the same key as api_key\[0\]"),
        (["one", None], r"api_key\[1\] must be a string, or a function that returns one"),
        (["one", ["two"]], r"api_key\[1\] must be a string"),
        (["one", " two"], r"api_key\[1\] has blanks around it"),
        (["one", 2], r"api_key\[1\] must be a string, a function"),
        ([f"key {n}" for n in range(101)], "1 to 100 keys, not 101"),
    ],
)
def test_a_malformed_list_of_keys_is_refused_and_not_shown(keys: Any, says: str) -> None:
    with pytest.raises(rungwise.ConfigurationError, match=says) as refused:
        OpenAIChat("model", api_key=keys)
    assert "two" not in str(refused.value)


def test_no_key_of_several_is_ever_shown() -> None:
    backend = OpenAIChat("model", api_key=["first-secret", "second-secret"], prices=Prices(1, 2))
    assert "secret" not in f"{backend!r} {backend.name} {backend.identities} {backend.pool!r}"
    assert all(backend.is_secret(word) for word in ("first-secret", "second-secret"))
    with pytest.raises(TypeError):
        pickle.dumps(backend)


def test_a_placeholder_among_the_keys_is_a_problem_of_the_backend() -> None:
    assert "placeholder" in (
        OpenAIChat("model", api_key=["a-real-key-of-some-length", "sk-..."]).problem or ""
    )


def test_a_backend_with_one_of_the_keys_is_a_duplicate_and_one_with_another_is_none() -> None:
    pool, same, other = (
        OpenAIChat("model", api_key=key) for key in (["one", "two"], "two", "three")
    )
    assert not pool.identities.isdisjoint(same.identities)
    assert pool.identities.isdisjoint(other.identities)
