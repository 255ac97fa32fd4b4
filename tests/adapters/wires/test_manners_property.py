"""Whatever manners a server has, what is read is the reply that was said: every protocol, whole and
streamed, in pieces cut anywhere, in up to three manners at once.

Where a reply cannot be read from what was said, the encoder says why. There only honesty is asked:
what is read as complete is the reply that was meant, or another reply that has the same bytes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings

from rungwise.adapters.provider.manners.manner import FEW, ONCE, UNCOUNTED, UNFINISHED
from rungwise.fsm.replies.parts import ToolCall
from support import protocols
from support.mannered import Mannered, mannered

EXAMPLES: Final = 300
"""How many replies an ordinary run draws."""
IN_FULL: Final = 100_000
"""How many `.ci/run full` draws, all protocols and modes together."""
MODES: Final = [(api, streams) for api in protocols.PROTOCOLS for streams in (True, False)]


def check(case: Mannered) -> list[str]:
    """Check what is read of a reply, and return why it cannot be read; nothing if it can."""
    lost = case.lost
    told = case.told(case.read())
    if lost:
        check_honest(case, told, lost)
    else:
        assert told == case.expected
    return lost


def check_honest(case: Mannered, told: Mapping[str, Any], lost: Sequence[str]) -> None:
    """Check that what reads as complete is what was meant, or has the same bytes."""
    if told["failure"] is not None or told["interrupted"]:
        return
    assert told["calls"] == case.expected["calls"]
    for member in ("text", "reasoning"):
        meant = {case.expected[member]}
        if FEW in lost or ONCE in lost:
            meant.add(case.literal(member))
        assert told[member] in meant
    if UNFINISHED in lost:
        assert told["stop"] is None
    if UNCOUNTED not in lost:
        assert told["tokens"] == case.tokens


LS = (ToolCall("id_0", "ls", "{}"),)


def once(api: str, *manners: str, text: str = "", calls: tuple[ToolCall, ...] = ()) -> Mannered:
    """Return a streamed reply that was read wrongly once."""
    return Mannered(
        api=api,
        streams=True,
        manners=manners,
        text=text,
        reasoning="",
        calls=calls,
        finish=None,
        tokens=(1, 1),
        chunk_size=1,
        sizes=(1,),
    )


@pytest.mark.parametrize(
    "case",
    [
        once("openai", "names_split", "indexes_missing", "calls_twice", calls=LS),
        once("responses", "calls_twice", "ids_new", "text_again", text=" ", calls=LS),
        once("anthropic", "text_announced", text="yes"),
    ],
    ids=["a name in pieces twice", "a blank twice", "a short announcement"],
)
def test_what_was_read_wrongly_once(case: Mannered) -> None:
    check(case)


@settings(max_examples=EXAMPLES)
@given(mannered())
def test_what_is_read_is_what_was_said(case: Mannered) -> None:
    check(case)


@pytest.mark.full
@pytest.mark.parametrize(("api", "streams"), MODES)
def test_so_it_is_for_very_many_replies(api: str, streams: bool) -> None:
    """No two of them that can be read have the same bytes, unless they are the same."""
    counted: Counter[str] = Counter()
    meant: dict[bytes, Mapping[str, Any]] = {}

    @settings(
        max_examples=IN_FULL // len(MODES) + 1,
        derandomize=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(mannered([api], [streams]))
    def draw(case: Mannered) -> None:
        lost = check(case)
        counted[", ".join(lost)] += 1
        if not lost:
            body = b"".join(case.say().frames)
            expected = meant.setdefault(sha256(body).digest(), case.expected)
            assert expected == case.expected

    draw()
    total = sum(counted.values())
    for why, count in counted.most_common():
        print(f"{api} {'streamed' if streams else 'whole'}: {count / total:.1%} {why or 'read'}")
