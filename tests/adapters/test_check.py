"""What a check tells of a request before anything is sent."""

from datetime import UTC, datetime
from typing import Any

import pytest

import rungwise
from rungwise import Capabilities, Client, Gemini, OpenAIChat
from rungwise.adapters.check import check_request
from rungwise.core import Backend, BackendCheck, Check, PlainLink, Request

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
PDF = {
    "type": "file",
    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
SAID: list[Any] = [{"role": "user", "content": "Where do herons nest?"}]


def local(name: str = "local", **known: Any) -> OpenAIChat:
    return OpenAIChat(
        "m", base_url="http://localhost:8000/v1", name=name, capabilities=Capabilities(**known)
    )


def checked(backend: Any, said: Any = SAID, **options: Any) -> BackendCheck:
    [found] = Client(backend).check(said, **options).backends
    return found


def test_nothing_goes_wrong() -> None:
    check = Client([local()]).check("hi")
    assert check
    assert check == Check((BackendCheck("local"),))
    assert str(check) == "local\n  takes all of it"


def test_backends_of_one_name_are_told_apart_by_their_protocols() -> None:
    place: dict[str, Any] = {"base_url": "http://localhost:8000/v1"}
    chain = [
        OpenAIChat("m", **place),
        rungwise.OpenAIResponses("m", **place),
        local(),
        local("other"),
    ]
    with Client(chain) as client:
        check = client.check("hi")
    assert [backend.name for backend in check.backends] == [
        "localhost:8000/m (openai)",
        "localhost:8000/m (responses)",
        "local",
        "other",
    ]
    assert str(check).startswith("localhost:8000/m (openai)\n")
    assert [link.name for link in chain] == [
        "localhost:8000/m",
        "localhost:8000/m",
        "local",
        "other",
    ]


def test_backends_of_one_name_and_one_protocol_are_told_apart_by_their_places() -> None:
    keys: list[Any] = [OpenAIChat("gpt-5", api_key=key) for key in ("sk-1", "sk-2")]
    own: list[Any] = [PlainLink("backend", identities=frozenset({("name", each)})) for each in "ab"]
    check = check_request(Request("hi"), [*keys, *own])
    assert [backend.name for backend in check.backends] == [
        "api.openai.com/gpt-5 (openai), backend 1",
        "api.openai.com/gpt-5 (openai), backend 2",
        "backend, backend 3",
        "backend, backend 4",
    ]


def test_a_backend_that_cannot_be_used() -> None:
    check = Client([local(), OpenAIChat("gpt-5", name="mine", api_key="your-key")]).check("hi")
    assert not check
    first, second = check.backends
    assert first.is_clean is True
    assert second.is_clean is False
    assert second.problem is not None
    assert "placeholder" in second.problem
    assert str(check).splitlines()[2:] == [
        "mine",
        f"  cannot be used: {second.problem}",
        "  takes all of it",
    ]


@pytest.mark.parametrize(
    ("asked", "field", "lost", "wants"),
    [
        (
            {"said": [{"role": "user", "content": [PICTURE]}]},
            "images",
            "pictures, which it does not see",
            "sees pictures",
        ),
        (
            {
                "said": [
                    *SAID,
                    {
                        "role": "tool",
                        "tool_call_id": "c",
                        "content": [PICTURE],
                    },
                ]
            },
            "images",
            "pictures, which it does not see",
            "sees pictures",
        ),
        (
            {"said": [{"role": "user", "content": [PDF]}]},
            "documents",
            "documents, which it does not read",
            "reads documents",
        ),
        ({"tools": [TOOL]}, "tools", "tools, which it does not call", "calls tools"),
        (
            {"response_format": SCHEMA},
            "json_schema",
            "the JSON schema, which it is not held to",
            "keeps to a schema",
        ),
        (
            {"reasoning_effort": "low"},
            "reasoning",
            "reasoning_effort, which it does not know",
            "knows efforts",
        ),
    ],
)
def test_what_is_asked_is_held_against_what_a_model_can(
    asked: dict[str, Any],
    field: str,
    lost: str,
    wants: str,
) -> None:
    can = checked(local(**{field: True}), **asked)
    cannot = checked(local(**{field: False}), **asked)
    unknown = checked(local(**{field: None}), **asked)
    assert can.losses == ()
    assert can.unknowns == ()
    assert can.is_clean is True
    assert cannot.losses == (lost,)
    assert cannot.unknowns == ()
    assert cannot.is_clean is False
    assert unknown.losses == ()
    assert unknown.unknowns == (f"whether it {wants}",)
    assert unknown.is_clean is True
    plain = checked(local(**{field: False}))
    assert plain.is_clean, "what is not asked is not missed"


def test_the_table_knows_models() -> None:
    chain = [
        OpenAIChat(model, api_key="sk-1", name=model)
        for model in ("gpt-4o", "o3-mini", "gpt-3.5-turbo")
    ]
    check = Client(chain).check([{"role": "user", "content": [PICTURE]}], response_format=SCHEMA)
    assert [len(backend.losses) for backend in check.backends] == [0, 1, 2]


def test_a_prompt_that_does_not_fit_by_estimate() -> None:
    long = [{"role": "user", "content": "x" * 24_000}]
    found = checked(local(window=8_192), long, max_tokens=1_000)
    assert found.losses == ("about 8010 tokens of prompt and 1000 of output, in a window of 8192",)
    assert checked(local(window=9_100), long, max_tokens=1_000).is_clean
    assert checked(local(window=8_192), long, max_tokens=1_000, input_tokens=5_000).is_clean, (
        "the caller has counted"
    )
    unknown = checked(local(), long, max_tokens=1_000)
    assert unknown.unknowns == (
        "whether about 8010 tokens of prompt and 1000 of output fit its window",
    )
    assert unknown.is_clean


def test_a_cap_above_what_a_model_writes() -> None:
    found = checked(local(largest_output=900), max_tokens=1_000)
    assert found.losses == ("1000 tokens of output, of which it writes 900 at most",)
    own = OpenAIChat(
        "m",
        base_url="http://localhost:8000/v1",
        parameters={"max_tokens": 1_000},
        capabilities=Capabilities(largest_output=900),
    )
    assert not checked(own).is_clean


def test_what_a_protocol_cannot_say_is_told_of_its_backend_alone() -> None:
    gemini = Gemini("gemini-2.5-pro", api_key="key", name="google")
    check = Client([local(), gemini]).check("hi", parameters={"logit_bias": {"1": 1}})
    assert [backend.losses for backend in check.backends] == [
        (),
        ("logit_bias: it is a parameter of another protocol",),
    ]


def test_a_backend_of_ones_own_may_know_nothing_of_itself() -> None:
    class Own(PlainLink, Backend):
        def encode(self, send: Any, *, stream: bool) -> Any: ...

    found = checked(Own("own", losses=("tools: it has none",)), tools=[TOOL])
    assert found == BackendCheck("own", None, ("tools: it has none",)), "what is lost is known"


def test_an_effort_that_is_lost_is_not_unknown_as_well() -> None:
    gemini = Gemini("gemini-5-flash-image", api_key="AIza-1")
    assert checked(gemini, reasoning_effort="low") == BackendCheck(
        gemini.name, None, ("reasoning_effort: this model takes none",)
    )


def test_sound_is_unknown_everywhere() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    assert checked(local(), [{"role": "user", "content": [sound]}]).unknowns == (
        "whether it takes audio",
    )


def test_it_takes_what_a_call_takes() -> None:
    client = Client([local()])
    assert client.check(Request("hi"))
    assert client.check("hi", policy=rungwise.Policy(), deadline=datetime.now(UTC))
    for name, given in (
        ("policy", "fast"),
        ("deadline", "soon"),
        ("within", rungwise.Budget()),
        ("turn", "next"),
    ):
        with pytest.raises(rungwise.ConfigurationError, match=f"^{name} must be a"):
            client.check("hi", **{name: given})
        with pytest.raises(rungwise.ConfigurationError, match=f"^{name} must be a"):
            client.call("hi", **{name: given})
    with pytest.raises(rungwise.ConfigurationError, match="temprature"):
        client.check("hi", temprature=0.2)  # type: ignore[call-arg]


def test_a_backend_without_a_key_is_checked_all_the_same() -> None:
    blind = OpenAIChat(
        "gpt-5", name="mine", api_key="your-key", capabilities=Capabilities(images=False)
    )
    message = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, PICTURE]}
    [checked] = check_request(Request([message]), [blind]).backends
    assert checked.losses == ("pictures, which it does not see",)
    assert "cannot be used" in str(checked)
    assert "loses: pictures" in str(checked)
