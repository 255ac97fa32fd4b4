"""Fields with which a library always asks for nothing keep no chain from answering."""

import pytest

from rungwise.adapters.gateway.reading import read


@pytest.mark.parametrize(
    "nothing", [{"safetySettings": []}, {"safety_settings": []}, {"labels": {}}]
)
def test_langchains_gemini_requests_are_for_every_chain(nothing):
    asked = read("gemini", {"contents": [{"parts": [{"text": "hi"}]}], **nothing}, is_own=False)
    assert asked.unknown == []
    assert asked.own == {}


def test_safety_settings_are_not_dropped_for_another_provider():
    setting = {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}
    asked = read("gemini", {"contents": [], "safetySettings": [setting]}, is_own=False)
    assert asked.unknown == ["safetySettings"]
