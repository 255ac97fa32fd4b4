"""What a call hands out is frozen."""

from typing import Any

import attrs
import pytest

from rungwise import Result, Usage
from rungwise.core import Call, Reply, Request, Send

CUT = Reply("In the reeds, and", stop_reason="length", usage=Usage(10, 5))


def handed_out() -> list[Any]:
    """Return a send, the result and the usage of a call whose reply is cut again and again."""
    call = Call(Request("Where does the bittern nest?"))
    send = call.begin(0.0)
    first = send
    while send is not None:
        send = call.receive(CUT)
    return [first, call.result, call.result.usage]


@pytest.mark.parametrize(("place", "kind"), [(0, Send), (1, Result), (2, Usage)], ids=["send", "result", "usage"])
def test_what_a_call_hands_out_cannot_be_changed(place: int, kind: type) -> None:
    value = handed_out()[place]
    assert type(value) is kind
    for field in attrs.fields(kind):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(value, field.name, None)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            delattr(value, field.name)
