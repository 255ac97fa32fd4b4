"""A stream that is taken up too early or too late, or with holes: nothing is lost or repeated."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import Client, Discard, GeminiInteractions, OpenAIResponses, Policy, Text, Timeouts
from rungwise.testing import testing
from support.kept_server import PROMPT, KeptServer
from support.sampling import examples

TOKENS: Final = [f"word{number} " for number in range(50)]
WHOLE: Final = "".join(TOKENS)
Events = list[dict[str, Any]]


def rest(
    events: Events,
    first: int,
    *,
    shift: int = 0,
    hole: int | None = None,
    twice: int | None = None,
    strips: bool = False,
) -> Events:
    """Return the events of a stream that goes on.

    Arguments:
        events: those of the whole stream.
        first: the place of the first that is wanted.
        shift: how many events later it begins.
        hole: the place of an event that is left out.
        twice: the place of one that comes twice.
        strips: whether they have no numbers or ids.
    """
    came = [*events[max(0, first + shift) :]]
    if hole is not None:
        del came[hole : hole + 1]
    if twice is not None:
        came[twice:twice] = came[twice : twice + 1]
    if strips:
        ids = ("sequence_number", "event_id")
        came = [{key: each[key] for key in each if key not in ids} for each in came]
    return came


def made(server: KeptServer, policy: Policy | None = None) -> tuple[Any, str, bool]:
    """Return the result of a call, the text that its stream has shown, and whether it took any
    back.
    """
    kind: Any = GeminiInteractions if server.api == "interactions" else OpenAIResponses
    backend = kind("m", base_url=server.base_url, api_key="k", background=True)
    shown = ""
    takes_back = False
    with testing(), Client(backend, policy=policy or Policy()) as client:
        *events, result = client.stream("Where?")
    for event in events:
        if isinstance(event, Text):
            shown += event.text
        elif isinstance(event, Discard):
            takes_back = True
            assert shown.endswith(event.text)
            shown = shown.removesuffix(event.text)
    return result, shown, takes_back


EDITS: Final = {
    "early": {"shift": -1},
    "much too early": {"shift": -999},
    "late": {"shift": 1},
    "late by many": {"shift": 20},
    "behind the end": {"shift": 999},
    "with a hole": {"hole": 3},
    "without its end": {"hole": -1},
    "with an event twice": {"twice": 3},
    "without numbers": {"strips": True},
}


@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("api", ["responses", "interactions"])
def test_a_stream_that_goes_on_elsewhere(api: str, edit: str, is_bare: bool) -> None:
    rests: list[Any] = [partial(rest, **EDITS[edit])]
    with KeptServer(TOKENS, cuts=[2000], api=api, rests=rests, is_bare=is_bare) as server:
        result, shown, takes_back = made(server)
    assert result.outcome == "done"
    assert result.text == WHOLE == shown
    assert server.charged == PROMPT + len(TOKENS)
    assert api == "interactions" or not takes_back


@pytest.mark.parametrize("api", ["responses", "interactions"])
def test_a_stream_that_goes_on_silently_is_polled(api: str) -> None:
    policy = Policy(timeouts=Timeouts(first_token=0.5, stall=0.2))
    with KeptServer(TOKENS, cuts=[2000, 0], api=api, stays_open=True) as server:
        result, shown, takes_back = made(server, policy)
    assert result.text == WHOLE == shown
    assert not takes_back
    assert [path.partition("?")[2] != "" for path in server.requests] == [False, True, False]
    assert server.charged == PROMPT + len(TOKENS)


def some(least: int, most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(least, most)


@pytest.mark.full
@settings(max_examples=examples(30), deadline=None)
@given(
    st.sampled_from(["responses", "interactions"]),
    st.booleans(),
    st.integers(300, 7000),
    st.lists(some(0, 5000), max_size=2),
    st.lists(
        st.fixed_dictionaries(
            {
                "shift": st.integers(-60, 20),
                "hole": some(0, 50),
                "twice": some(0, 50),
                "strips": st.booleans(),
            }
        ),
        max_size=2,
    ),
)
def test_whatever_a_stream_goes_on_with_nothing_is_lost_paid_twice_or_repeated(
    api: str, is_bare: bool, cut: int, cuts: list[int | None], edits: list[dict[str, Any]]
) -> None:
    rests: list[Any] = [partial(rest, **edit) for edit in edits]
    with KeptServer(TOKENS, cuts=[cut, *cuts], api=api, rests=rests, is_bare=is_bare) as server:
        result, shown, takes_back = made(server)
    assert result.text == WHOLE == shown
    assert server.charged == PROMPT + len(TOKENS)
    assert api == "interactions" or not takes_back
