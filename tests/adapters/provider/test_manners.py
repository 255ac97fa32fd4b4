"""The manners of the embedded provider: what a script may ask for, and what is sent then."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rungwise
from rungwise import ConfigurationError
from rungwise.adapters.provider.manners import catalogue
from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.adapters.provider.manners.events import FRAMINGS
from rungwise.adapters.provider.server import render
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support import protocols
from support.mannered import asked

THREAD = re.compile(r"[\w.-]+/[\w.-]+#\d+")
CALL = {"id": "call_1", "name": "look_up", "arguments": '{"bird":"owl"}'}


def sent(*manner: str, api: str = "openai", streams: bool = True, **script: Any) -> bytes:
    request = protocols.encoded(protocols.backend(api, "http://host/v1"), stream=streams)
    path = "/" + request.url.split("/", 3)[3]
    reply = ScriptedReply(manner=manner, **script)
    return render(reply, json.loads(request.body), path=path).body


def deltas(body: bytes) -> list[Any]:
    """Return the deltas of a streamed chat completion."""
    events = [each.removeprefix(b"data: ") for each in body.split(b"\n\n")]
    chunks = [json.loads(each) for each in events if each.startswith(b"{")]
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]


# the catalogue


@pytest.mark.parametrize("manner", MANNERS.values(), ids=list(MANNERS))
def test_a_manner_says_what_it_is(manner: Any) -> None:
    assert manner.says
    assert manner.reads
    assert not manner.says.endswith(".")
    assert {*manner.streamed, *manner.whole} <= set(protocols.BACKENDS)
    assert manner.streamed or manner.whole
    assert manner.swaps or manner.answer or manner.events or manner.frames or manner.headers
    for server in manner.seen:
        threads = re.findall(r"\[(.*)\]", server)
        assert server
        assert all(THREAD.fullmatch(each) for each in ", ".join(threads).split(", ") if each)


def test_what_manners_do_stands_under_names_that_exist() -> None:
    for table in (catalogue.ANSWERS, catalogue.CHANGES, catalogue.FRAMES, catalogue.LOSSES):
        assert table.keys() <= MANNERS.keys()


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize("streams", [True, False])
def test_every_manner_changes_what_is_sent(api: str, streams: bool) -> None:
    call = {"text": "It is an owl.", "reasoning": "Hm. An owl?", "chunk_size": 4}
    calls = [CALL, {"id": "call_2", "name": "look_up", "arguments": "{}"}]
    scripts: Sequence[dict[str, Any]] = ({**call, "tool_calls": calls}, call)
    for name, manner in MANNERS.items():
        if manner.is_in(api, streams=streams) and not manner.headers:
            said = [sent(name, api=api, streams=streams, **script) for script in scripts]
            plain = [sent(api=api, streams=streams, **script) for script in scripts]
            assert said != plain, name


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize("streams", [True, False])
def test_frames_are_opened_and_closed_without_a_change(api: str, streams: bool) -> None:
    language, request = asked(api, streams=streams)
    answer = ScriptedReply(text="Grüße", tool_calls=[CALL], error_event={"message": "x"}).answer
    for each in (answer, ScriptedReply(text="Grüße", reasoning="Hm.", tool_calls=[CALL]).answer):
        frames = list(language.events(each, request))
        kind = language.stream_type
        if not streams:
            frames = [language.whole(each, request)]
            kind = "application/json"
        opened, closed = FRAMINGS[kind]
        assert [closed(opened(frame)) for frame in frames] == frames


# scripts


def test_one_name_and_a_list_are_taken() -> None:
    assert ScriptedReply(manner="text_snapshots").manner == ("text_snapshots",)
    script = Script.from_toml(
        """
        [[replies]]
        manner = "indexes_zero"

        [[replies]]
        manner = ["indexes_zero", "text_snapshots"]
        """
    )
    assert [len(reply.manner) for reply in script.replies] == [1, 2]
    assert Script.from_toml(script.to_toml()) == script


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("text_snapshot", "did you mean 'text_snapshots'"),
        ("Q", "it must be one of json_for_events, events_for_json"),
        (["text_snapshots", "text_again"], "text_again both move the text"),
        (["text_again", "text_again"], "text_again and text_again both move the text"),
        (7, "manner must be a name or a list"),
        ([7], "manner: 7 is unknown"),
    ],
)
def test_manners_that_are_refused(manner: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        ScriptedReply(manner=manner)


def test_a_manner_that_a_protocol_does_not_have_is_an_error_that_lists_those_it_has() -> None:
    script = Script([ScriptedReply("Hi.", manner="input_at_start")])
    with EmbeddedProvider(script) as provider, httpx.Client(trust_env=False) as client:
        url = f"{provider.base_url}/chat/completions"
        response = client.post(url, json={"model": "m", "messages": []})
    assert response.status_code == 500
    message = response.json()["error"]["message"]
    assert message.startswith("openai has no manner input_at_start; it has json_for_events,")
    assert "indexes_zero" in message
    assert "terminal_renamed" not in message


def test_a_manner_of_streams_is_left_out_of_other_replies() -> None:
    assert sent("text_snapshots", streams=False, text="Hi.") == sent(streams=False, text="Hi.")


@given(
    st.sampled_from(protocols.PROTOCOLS),
    st.booleans(),
    st.data(),
    st.fixed_dictionaries(
        {},
        optional={
            "text": st.text("ab ", max_size=40),
            "tool_calls": st.lists(
                st.fixed_dictionaries(
                    {"name": st.just("look"), "arguments": st.sampled_from(["", "{", "{}", "[1]"])}
                ),
                max_size=2,
            ),
            "finish": st.sampled_from(["", "length", "odd"]),
            "done": st.just(False),
            "error_event": st.just({"message": "overloaded"}),
            "usage": st.sampled_from([{}, {"completion_tokens": 7}]),
            "refusal": st.just("No."),
            "reasoning": st.just("Hm."),
            "reasoning_field": st.just("reasoning_details"),
            "final_message": st.just(True),
        },
    ),
)
def test_any_reply_can_be_said_in_any_manners(
    api: str, streams: bool, data: Any, script: Any
) -> None:
    """Also one that ends in an error, is cut, or has calls that are broken."""
    fitting = [name for name, manner in MANNERS.items() if api in manner.streamed + manner.whole]
    names = data.draw(st.lists(st.sampled_from(fitting), max_size=3, unique=True))
    moved = Counter(MANNERS[name].moves for name in names)
    if all(count == 1 for count in moved.values()):
        assert isinstance(sent(*names, api=api, streams=streams, **script), bytes)


# what is sent


def test_what_each_piece_is() -> None:
    script = {"text": "a bird", "tool_calls": [CALL], "chunk_size": 3}
    contents = [each.get("content") for each in deltas(sent("text_snapshots", **script))]
    assert contents[1:3] == ["a b", "a bird"]
    calls = [each["tool_calls"][0] for each in deltas(sent("names_split", **script))[3:-1]]
    assert [each["function"].get("name") for each in calls[:2]] == ["loo", "k_up"]
    short = {"tool_calls": [{**CALL, "name": "l"}]}
    assert sent("names_split", **short) == sent(**short)
    objects = deltas(sent("arguments_objects", **script))[4]["tool_calls"][0]
    assert objects["function"]["arguments"] == {"bird": "owl"}


def test_headers_and_packed_bytes() -> None:
    body = sent("encoding_unsaid", text="Hi.")
    assert gzip.decompress(body) == sent(text="Hi.")
    script = Script([ScriptedReply("Hi.", manner="encoding_false")])
    with EmbeddedProvider(script) as provider:
        backend = rungwise.OpenAIChat("m", base_url=provider.base_url, api_key="k")
        with httpx.Client(trust_env=False) as client:
            url = f"{provider.base_url}/chat/completions"
            with client.stream("POST", url, json={"model": "m", "messages": []}) as response:
                assert response.headers["content-encoding"] == "gzip"
                assert next(response.iter_raw()).startswith(b"{")
        with rungwise.Client(backend) as client_of_ours:
            assert client_of_ours.call("Hi").text == "Hi."


def test_manners_that_move_different_things_are_combined_in_any_order() -> None:
    names = ("text_snapshots", "indexes_zero", "framed_twice")
    script = {"text": "a bird", "tool_calls": [CALL, {**CALL, "id": "b"}], "chunk_size": 3}
    bodies = {sent(*names, **script), sent(*reversed(names), **script)}
    assert len(bodies) == 1
    for pair in combinations(names, 2):
        assert sent(*pair, **script) not in bodies
