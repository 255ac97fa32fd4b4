"""Log probabilities and annotations of a stream stand in `Reply.raw` where a whole body has
them.
"""

import json
from typing import Any

import pytest

from rungwise.core import Reply
from support import protocols

LOGS = [
    {"token": "In", "logprob": -0.5, "bytes": [73, 110], "top_logprobs": []},
    {"token": " it", "logprob": -1.0},
]
CITED = [
    {"type": "url_citation", "url_citation": {"url": "https://a.test"}},
    {"type": "url_citation", "url_citation": {"url": "https://b.test"}},
]


def read(api: str, events: list[bytes]) -> Reply:
    decoder = protocols.backend(api, "http://localhost:1/v1").decoder({})
    for event in events:
        decoder.feed(event)
    reply = decoder.close()
    assert reply.text == "In it"
    assert not reply.interrupted
    return reply


def event(value: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(value).encode()


def choice(delta: Any, **members: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, **members}]})


def test_chat_completions() -> None:
    first, second = CITED
    events = [
        choice({"content": "In", "annotations": [first]}, logprobs={"content": LOGS[:1]}),
        choice({"content": " it"}, logprobs={"content": LOGS[1:]}),
        choice({"annotations": [second]}, logprobs=None, finish_reason="stop"),
    ]
    aside = {"logprobs": {"content": LOGS}, "message": {"annotations": CITED}}
    assert read("openai", events).raw == {"choices": [aside]}


def test_nothing_aside_is_nothing_raw() -> None:
    assert read("openai", [choice({"content": "In it"}, finish_reason="stop")]).raw is None


def test_ollama() -> None:
    lines = [
        {"message": {"content": "In"}, "logprobs": LOGS[:1], "done": False},
        {"message": {"content": " it"}, "logprobs": LOGS[1:], "done": False},
        {"message": {"content": ""}, "done": True, "done_reason": "stop"},
    ]
    events = [json.dumps(line).encode() + b"\n" for line in lines]
    assert read("ollama", events).raw == {"logprobs": LOGS}


def test_responses() -> None:
    text = {"type": "output_text", "text": "In it", "annotations": CITED, "logprobs": LOGS}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    response = {"id": "r", "model": "m", "status": "completed", "output": [item]}
    reply = read("responses", [event({"type": "response.completed", "response": response})])
    assert reply.raw == response


def test_what_stands_aside_is_bounded() -> None:
    decoder = protocols.backend("openai", "http://localhost:1/v1").decoder({})
    for _ in range(20_000):
        decoder.feed(choice({"content": "a"}, logprobs={"content": LOGS}))
    assert decoder.size < 2**20
    reply = decoder.close()
    assert 0 < len(reply.raw["choices"][0]["logprobs"]["content"]) < 5_000


@pytest.mark.parametrize("odd", [1, "x", [1], {"content": 1}, {"content": None, "refusal": []}, {}])
def test_odd_log_probabilities_do_no_harm(odd: Any) -> None:
    first = choice({"content": "In"}, logprobs=odd)
    read("openai", [first, choice({"content": " it"}, logprobs=odd, finish_reason="stop")])
