"""The fuzz kit draws replies in the manners of real servers, and judges what is made of them."""

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from rungwise.adapters.provider.manners.catalogue import MANNERS
from rungwise.adapters.testing.case import MODES, Case
from rungwise.adapters.testing.fuzzing import Fuzzer
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.testing import Script, ScriptedReply, manners
from support import protocols


@given(st.sampled_from(protocols.PROTOCOLS), st.booleans(), st.data())
def test_what_is_drawn_can_be_combined(api: str, streams: bool, data: st.DataObject) -> None:
    drawn = data.draw(manners(api, streams=streams))
    assert len(drawn) <= 3
    assert ScriptedReply(manner=drawn).manner == drawn
    assert all(MANNERS[name].is_in(api, streams=streams) for name in drawn)


@pytest.mark.full
def test_replies_have_manners_at_times() -> None:
    quick = settings(max_examples=2_000, database=None)
    assert find(scripted_replies(), lambda reply: len(reply.manner) > 1, settings=quick)
    assert find(scripted_replies(), lambda reply: not reply.manner, settings=quick)


@given(scripted_replies())
def test_a_reply_with_manners_can_be_read(reply: ScriptedReply) -> None:
    """Its pieces are many and long enough, its call is whole, and nothing cuts it."""
    if reply.manner:
        assert len(reply.text) > 2 * reply.chunk_size or reply.tool_calls
        assert reply.cut_after is None


@pytest.mark.full
@pytest.mark.dear(4)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", ["text_snapshots", "arguments_objects", "encoding_unsaid", "calls_twice"]
)
def test_what_is_done_in_a_manner_is_what_was_sent(name: str, mode: str) -> None:
    call = {"id": "a", "name": "look_up", "arguments": '{"city":"Oslo","n":1}'}
    text = "The kingfishers nest in the steep bank, above the water."
    replies = [
        ScriptedReply(text, manner=name),
        ScriptedReply(tool_calls=[call], manner=name),
    ]
    with Fuzzer() as fuzzer:
        for reply in replies:
            fuzzer.check(Case(Script([reply]), mode=mode))
