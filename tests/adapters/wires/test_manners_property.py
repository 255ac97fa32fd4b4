"""Whatever manners a server has, what is read is the reply that was said: every protocol, whole and
streamed, in pieces cut anywhere, in up to three manners at once.

Where a reply cannot be read from what was said, the encoder says why. There only honesty is asked:
what is read as complete is the reply that was meant, or another reply that has the same bytes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from rungwise.adapters.provider.manners.manner import FEW, ONCE
from support import protocols
from support.mannered import Mannered, mannered

EXAMPLES: Final = 150
"""How many replies an ordinary run draws."""
IN_FULL: Final = 100_000
"""How many `.ci/run full` draws, all protocols and modes together."""
MODES: Final = [(api, streams) for api in protocols.PROTOCOLS for streams in (True, False)]


def _is_held_too_briefly(case: Mannered) -> bool:
    """Tell whether snapshots grow so slowly that what is held of them is let go too soon."""
    return case.api != "responses"


NOT_YET: Final[Mapping[str, Callable[[Mannered], bool]]] = {
    "text_snapshots": _is_held_too_briefly,
    "reasoning_snapshots": _is_held_too_briefly,
    "argument_snapshots": lambda case: case.api in ("anthropic", "bedrock"),
    "arguments_again": lambda case: case.api in ("openai", "anthropic", "bedrock"),
    "usage_total": lambda case: case.api == "gemini",
    "bare_lines": lambda case: True,
}
"""The manners that the wires do not read yet, and in which replies."""


def is_awaited(case: Mannered) -> bool:
    """Tell whether a reply is said in a manner that is not read yet."""
    return any(name in case.manners and is_in(case) for name, is_in in NOT_YET.items())


def check(case: Mannered) -> str:
    """Check what is read of a reply, and return why it cannot be read; "" if it can."""
    told = case.told(case.read())
    why = case.lost
    if is_awaited(case):
        return why
    if not why:
        assert told == case.expected
    else:
        check_honest(case, told, why)
    return why


def check_honest(case: Mannered, told: Mapping[str, Any], why: str) -> None:
    """Check that what reads as complete is what was meant, or has the same bytes."""
    is_complete = told.get("stop") in ("stop", "tool_calls") and not told["interrupted"]
    if not is_complete or told["failure"] is not None:
        return
    assert told["calls"] == case.expected["calls"]
    if why not in (FEW, ONCE):
        assert told["text"] == case.expected["text"]
    else:
        assert told["text"] in (case.text, case.literal)


@settings(max_examples=EXAMPLES)
@given(mannered())
def test_what_is_read_is_what_was_said(case: Mannered) -> None:
    check(case)


@pytest.mark.full
@pytest.mark.parametrize(("api", "streams"), MODES)
def test_so_it_is_for_very_many_replies(api: str, streams: bool) -> None:
    counted: Counter[str] = Counter()

    @settings(
        max_examples=IN_FULL // len(MODES) + 1,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(mannered([api], [streams]))
    def draw(case: Mannered) -> None:
        counted[check(case)] += 1

    draw()
    total = sum(counted.values())
    for why, count in counted.most_common():
        print(f"{api} {'streamed' if streams else 'whole'}: {count / total:.1%} {why or 'read'}")
