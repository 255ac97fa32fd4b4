"""What may be quoted of a provider's message: its own words, and none of the prompt's, of a key's,
or of a reply's.
"""

import re
import string
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rungwise.fsm.replies.failures.quoting import (
    COMMON,
    LARGEST_PROMPT,
    LONGEST_QUOTATION,
    RUN,
    quotation,
)

KEY = "sk-proj-a81Bx0-ZqT_7741"
BACKEND = "api.openai.com/gpt-5"
PROMPT = "Dear Marzipan, my PIN is 4821 and my account has been closed. Call Bob at +49 170 5550."


def quoted(message: str, *sent: str, key: str = KEY) -> str:
    return quotation(message, sent, BACKEND, lambda word: word in key or key in word)


# what is said in full: messages of providers that have sent nothing back


@pytest.mark.parametrize(
    "message",
    [
        "Your organization must be verified to stream this model.",
        "You exceeded your current quota, please check your plan and billing details.",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9124 tokens. Please reduce the length of the messages.",
        "The model `gpt-5` does not exist or you do not have access to it.",
        "Organization has been restricted. Please reach out to support.",
        "Unsupported value: 'temperature' does not support 0.2 with this model.",
        "Unauthorized",
        "模型不存在 请检查",
    ],
)
@pytest.mark.parametrize("prompt", ["Why is the sky blue?", ""])
def test_the_words_of_a_provider_are_quoted_in_full(message: str, prompt: str) -> None:
    assert quoted(message, prompt) == message


def test_a_long_prompt_takes_few_of_the_common_words() -> None:
    prompt = "All models are wrong, and some of them must be useful to your organization. " * 200
    said = "Your organization must be verified to stream this model."
    assert quoted(said, prompt) == said


# what a provider repeats


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("Invalid value: 'Marzipan'.", "Invalid value: '***'."),
        ("Invalid value: 'MARZIPAN'.", "Invalid value: '***'."),
        ("Invalid value: 'Marzip…", "Invalid value: '***…"),
        ("Invalid value: 'rzipan, my PIN", "Invalid value: '***"),
        ("Invalid field user_Marzipan_x here", "Invalid field user_***_x here"),
        ("Invalid field userMarzipanx here", "Invalid field *** here"),
        ("Invalid value: 4821", "Invalid value: ***"),
        ("Invalid value: x4821USD", "Invalid value: ***"),
        ("The text 'my account has been closed' is invalid", "The text '***' is invalid"),
        ("The text 'account has been' is invalid", "The text '***' is invalid"),
        (f"This cannot be sent: {PROMPT}", "This cannot be sent: ***."),
    ],
)
def test_what_is_the_prompts_is_struck_out(message: str, says: str) -> None:
    assert quoted(message, PROMPT) == says


@pytest.mark.parametrize("text", ["yes", "credit balance", "Is it?"])
def test_a_whole_text_of_few_common_words_is_struck_out(text: str) -> None:
    said = quoted(f"Invalid message: '{text}' is not supported by this model.", text)
    assert said == "Invalid message: '***" + ("?" * text.endswith("?")) + (
        "' is not supported by this model."
    )


@pytest.mark.parametrize(
    "message",
    [
        r"Invalid value: 'na\u00efve caf\u00e9'",
        "Invalid value: 'Marzipan%20and%20Bob'",
        "Invalid value: &quot;Marzipan&quot;",
        "Invalid value: \x1b[31mMarzipan",
        "<html>Marzipan</html>",
        "  <!doctype html><p>Bad gateway",
        "Invalid value: 'Mar\u200bzipan'",
        "Invalid value: 'Mar\xadzipan'",
        "",
        "Marzipan Bob 4821",
        "Marzipan, the Bob of 4821",
        "马兹潘",
    ],
)
def test_what_cannot_be_cleared_is_not_quoted(message: str) -> None:
    assert quoted(message, PROMPT, "请问马兹潘是谁") == ""


@pytest.mark.parametrize(
    "message",
    [
        f"Incorrect API key provided: {KEY}.",
        f"Incorrect API key provided: {KEY[:12]}.",
        f"Incorrect API key provided: {KEY[-9:]}.",
        "Incorrect API key provided: sk-proj-********7741.",
        "Incorrect API key provided: sk-ant-api03-AAAA_bbbb-cccc.",
        "Incorrect API key provided: AKIAIOSFODNN7EXAMPLE1.",
        f"Incorrect API key provided: Bearer {KEY}.",
    ],
)
def test_nothing_of_a_key_is_quoted(message: str) -> None:
    said = quoted(message, "Hello")
    assert said.startswith("Incorrect API key provided: ")
    for piece in re.findall(r"[\w-]{4,}", message.partition(": ")[2]):
        assert piece == "Bearer" or piece not in said.replace("sk-proj-***", "***")


def test_a_quotation_is_short_and_on_one_line() -> None:
    said = quoted("The server \n\n had\tan error. " * 100, "Hello")
    assert len(said) == LONGEST_QUOTATION
    assert said.startswith("The server had an error. The server had an error.")
    assert said.isprintable()


def test_the_time_is_bounded() -> None:
    words = " ".join(f"word{number}x" for number in range(LARGEST_PROMPT // 12))
    picture = "data:image/png;base64," + "QUJD" * 5_000_000
    began = time.process_time()
    assert quoted("The server had an error. " + "unseen " * 200, words, picture)
    assert time.process_time() - began < 2
    assert quoted("The server had an error.", "x" * 9 + " y" * LARGEST_PROMPT) == ""


# of any prompt, however it is repeated

NAMES = st.text(string.ascii_letters, min_size=5, max_size=12)
NUMBERS = st.integers(100, 10**9).map(str)
ELSEWHERE = st.text(
    st.characters(min_codepoint=0xA1, exclude_categories=("Cs",)), min_size=1, max_size=6
)
USUAL = st.sampled_from(sorted(COMMON))
PROMPTS = st.lists(NAMES | NUMBERS | USUAL | USUAL | ELSEWHERE, min_size=1, max_size=40)
FRAMES = st.sampled_from(
    [
        "Invalid value: '{}'. Please check the request.",
        "{} is not supported by this model, use another model instead.",
        "Your message contains x{}y, which the server does not accept at this time",
        "messages[0].content: {}",
        "Input should be a valid string [input_value='{}', input_type=str]",
        "{}",
    ]
)
CHANGES = st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase])


def plain_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+|[^\x00-\x7f]+", text.casefold())


@given(PROMPTS, FRAMES, CHANGES, st.data())
@example(["the", "account", "is", "closed"], "{}", str, None)
def test_no_word_of_a_prompt_is_quoted(
    prompt: list[str], frame: str, change: type[str], data: st.DataObject | None
) -> None:
    text = " ".join(prompt)
    first, last = 0, len(text)
    if data is not None:
        first = data.draw(st.integers(0, len(text)))
        last = data.draw(st.integers(first, len(text)))
    part = text[first:last]
    assume(part.strip())
    own = {*plain_words(frame), *plain_words(BACKEND), "xy", "x", "y"}
    said = quoted(frame.format(change(part)), f"I ask: {text}", text)
    shown = plain_words(said)
    plain = " ".join(plain_words(f"I ask: {text}"))
    for word in shown:
        if len(word) < RUN or word in COMMON or word in own:
            continue
        assert word not in plain, said
    for start in range(len(shown) - RUN + 1):
        run = " ".join(shown[start : start + RUN])
        assert f" {run} " not in f" {plain} ", said


@given(st.text(max_size=200), st.lists(st.text(max_size=80), max_size=5))
def test_nothing_raises_and_every_quotation_can_be_shown(message: str, sent: list[str]) -> None:
    said = quoted(message, *sent)
    assert len(said) <= LONGEST_QUOTATION
    assert said.isprintable()
