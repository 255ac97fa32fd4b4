"""The chat page of the examples in a real browser: rungs, text that is taken back, stopping,
resuming, explaining.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rungwise
from rungwise.testing import EmbeddedProvider
from support.ui_server import served

FILE = Path(__file__).parents[1] / "examples" / "chat" / "app.py"
STARS = "Why do stars twinkle?"
MOON = "How far is the Moon?"
THUNDER = "What makes thunder?"
IDLE = "document.querySelector('.go').textContent === 'Ask'"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("example_chat", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def url(example: Any) -> Iterator[str]:
    with EmbeddedProvider(example.played) as provider:
        chain = [
            rungwise.OpenAIChat(name, base_url=provider.base_url)
            for name in ("swift-1", "steady-2")
        ]
        with served(example.app_of(chain)) as url:
            yield url


@pytest.fixture(params=[1440, 390])
def chat(request: pytest.FixtureRequest, tab: Any, url: str) -> Iterator[Any]:
    page = tab.open_url(url, width=request.param, height=844)
    yield page
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
    # requests that the test cuts
    assert tab.problems == [each for each in tab.problems if "failed: " in each]


def ask(page: Any, question: str) -> None:
    page.fill("input", question)
    page.press("input", "Enter")


def ended(page: Any) -> tuple[str, list[str], str]:
    """Wait for the end of the last answer; return its text, its lines, and how it ended."""
    page.wait_for_function(IDLE)
    answer = page.locator(".answer").last
    lines = answer.locator(".rung").all_inner_texts()
    return (
        "".join(answer.locator(".said").all_inner_texts()),
        lines,
        answer.locator(".foot b").inner_text(),
    )


@pytest.mark.full
def test_a_model_that_falls_silent_is_shown_as_a_line(chat: Any, example: Any) -> None:
    ask(chat, STARS)
    assert ended(chat) == (example.STARS, ["swift-1 fell silent; steady-2 continues"], "done")


@pytest.mark.full
@pytest.mark.sampled(2)
def test_text_is_visibly_taken_back(chat: Any, example: Any) -> None:
    chat.get_by_text(MOON).click()
    chat.wait_for_selector("del")
    assert chat.locator("del").inner_text() == example.TRAIN
    text, lines, end = ended(chat)
    assert (text.removeprefix(example.TRAIN), end) == (example.MOON, "done")
    assert lines == ["swift-1 answered wrongly; it is told why, and asked again"]
    chat.wait_for_selector("del", state="detached")
    assert ended(chat)[0] == example.MOON


@pytest.mark.full
@pytest.mark.sampled(2)
def test_a_lost_network_loses_nothing(chat: Any, example: Any) -> None:
    ask(chat, THUNDER)
    chat.wait_for_function("document.querySelector('.said')?.textContent.length > 20")
    chat.click("#unplug")
    text, lines, end = ended(chat)
    assert (text, end) == (example.THUNDER, "done")
    assert lines[0] == "connection lost"
    assert any(line.startswith("back; resumed after event ") for line in lines)


@pytest.mark.sampled(2)
def test_stopping_ends_the_call_and_keeps_the_text(chat: Any, example: Any) -> None:
    ask(chat, THUNDER)
    chat.wait_for_function("document.querySelector('.said')?.textContent.length > 20")
    chat.click(".go")
    text, _, end = ended(chat)
    assert 0 < len(text) < len(example.THUNDER)
    assert example.THUNDER.startswith(text)
    assert end == "cancelled"


@pytest.mark.full
@pytest.mark.sampled(2)
def test_an_answer_is_explained_in_place(chat: Any) -> None:
    ask(chat, "Why is the sky blue?")
    ended(chat)
    chat.click(".foot button")
    chat.frame_locator("iframe").get_by_text("One call, step by step").wait_for()
    chat.click(".foot button")
    assert chat.locator("iframe").count() == 0
