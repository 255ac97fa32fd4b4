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


def test_chat_completions() -> None:
    def chunk(delta: Any, logs: Any, finish: str | None = None) -> bytes:
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": {"content": logs} if logs else None,
            "finish_reason": finish,
        }
        return event({"id": "c", "model": "m", "choices": [choice]})

    first, second = CITED
    events = [
        chunk({"role": "assistant", "content": ""}, None),
        chunk({"content": "In", "annotations": [first]}, LOGS[:1]),
        chunk({"content": " it"}, LOGS[1:]),
        chunk({"annotations": [second]}, None, "stop"),
        b"data: [DONE]\n\n",
    ]
    choice = {"logprobs": {"content": LOGS}, "message": {"annotations": CITED}}
    assert read("openai", events).raw == {"choices": [choice]}


def test_nothing_aside_is_nothing_raw() -> None:
    chunk = {
        "id": "c",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "delta": {"content": "In it"},
                "finish_reason": "stop",
            }
        ],
    }
    assert read("openai", [event(chunk), b"data: [DONE]\n\n"]).raw is None


def test_ollama() -> None:
    def line(text: str, **fields: Any) -> bytes:
        message = {"role": "assistant", "content": text}
        return json.dumps({"model": "m", "message": message, **fields}).encode() + b"\n"

    lines = [
        line("In", logprobs=LOGS[:1], done=False),
        line(" it", logprobs=LOGS[1:], done=False),
        line("", done=True, done_reason="stop"),
    ]
    assert read("ollama", lines).raw == {"logprobs": LOGS}


def test_responses() -> None:
    text = {
        "type": "output_text",
        "text": "In it",
        "annotations": CITED,
        "logprobs": LOGS,
    }
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    response = {
        "id": "r",
        "model": "m",
        "status": "completed",
        "output": [item],
    }
    reply = read("responses", [event({"type": "response.completed", "response": response})])
    assert reply.raw == response


def test_what_stands_aside_is_bounded() -> None:
    decoder = protocols.backend("openai", "http://localhost:1/v1").decoder({})
    for _ in range(20_000):
        choice = {
            "index": 0,
            "delta": {"content": "a"},
            "logprobs": {"content": LOGS},
        }
        decoder.feed(event({"id": "c", "choices": [choice]}))
    assert decoder.size < 2**20
    reply = decoder.close()
    assert 0 < len(reply.raw["choices"][0]["logprobs"]["content"]) < 5_000


@pytest.mark.parametrize("odd", [1, "x", [1], {"content": 1}, {"content": None, "refusal": []}, {}])
def test_odd_log_probabilities_do_no_harm(odd: Any) -> None:
    first = {"index": 0, "delta": {"content": "In"}, "logprobs": odd}
    last = {**first, "delta": {"content": " it"}, "finish_reason": "stop"}
    read("openai", [event({"choices": [first]}), event({"choices": [last]})])
