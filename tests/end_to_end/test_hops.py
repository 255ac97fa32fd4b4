"""How many functions of ours a happy call runs through, and in how many files they stand."""

from __future__ import annotations

import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

import rungwise
from rungwise.testing import ScriptedReply
from support.imports import ROOT

MOST_CALLS = 560
MOST_FILES = 95
PARTS = tuple(f"{ROOT / part}/" for part in ("fsm", "adapters", "rungwise"))


def functions_run_by(client: rungwise.Client) -> Counter[CodeType]:
    """Count the calls of our own Python functions in one call, which runs in this thread alone."""
    found: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PARTS):
            found[frame.f_code] += 1

    sys.setprofile(count)
    try:
        result = client.call("Why is the sky blue?")
    finally:
        sys.setprofile(None)
    assert result.text == "Blue."
    return found


def test_a_happy_whole_call_runs_through_few_functions_in_few_files(rungwise_provider: Any) -> None:
    provider = rungwise_provider(*[ScriptedReply("Blue.")] * 41)
    backend = rungwise.OpenAIChat("model", api_key="key", base_url=provider.base_url)
    with rungwise.Client(backend, stream_calls=False) as client:
        client.call("Why is the sky blue?")  # what is loaded and opened once
        # on a busy machine an answer comes in pieces, and each is waited for
        found = min([functions_run_by(client) for _ in range(40)], key=Counter.total)
    assert 300 < found.total() < MOST_CALLS
    assert 50 < len({code.co_filename for code in found}) <= MOST_FILES
