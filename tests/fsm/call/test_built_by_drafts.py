"""What a call builds a field at a time: whole, of its class, and closed where that is frozen."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from rungwise import Result, Usage
from rungwise.core import Call, Failure, Reply, Request, Send
from rungwise.fsm.call.conversation.observation import Observation

ANSWER = Reply("In the reeds.", stop_reason="stop", usage=Usage(10, 5))
EMPTY = Reply("", stop_reason="stop", usage=Usage(10, 1))
CUT = Reply("In the reeds, and", stop_reason="length", usage=Usage(10, 5))


def built_for(came: Reply | Failure) -> list[Any]:
    """Return what a call builds that brings the same reply for ever."""
    call = Call(Request("Where does the bittern nest?"))
    built: list[Any] = [call.begin(0.0)]
    while (send := call.receive(came)) is not None:
        built.append(send)
    return [*built, call.result, call.result.usage, call._running._outcome.last]


@pytest.mark.parametrize("came", [ANSWER, EMPTY, CUT, Failure("server_error")], ids=["answer", "empty", "cut", "fails"])
def test_what_a_call_builds_has_every_field_and_is_of_its_class(came: Reply | Failure) -> None:
    *sends, result, usage, last = built_for(came)
    assert {*map(type, sends)} == {Send}
    assert [*map(type, (result, usage, last))] == [Result, Usage, Observation]
    for each in (*sends, result, usage, last):
        named = attrs.evolve(each)  # which reads every field, and builds it by their names
        assert attrs.asdict(named, recurse=False) == attrs.asdict(each, recurse=False)


@pytest.mark.parametrize("place", [0, -3, -2], ids=["send", "result", "usage"])
def test_what_a_call_hands_out_cannot_be_changed(place: int) -> None:
    each = built_for(CUT)[place]
    for field in attrs.fields(type(each)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(each, field.name, None)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            delattr(each, field.name)
