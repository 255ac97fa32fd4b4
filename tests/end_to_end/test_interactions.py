"""Gemini's Interactions over HTTP, in every mode: what goes out, and what is read of it."""

import json
from typing import Any, Final

import pytest

import rungwise
from rungwise import Client
from rungwise.testing import ScriptedReply
from support import modes
from support.modes import EVERY
from support.runs import asking

MODES: Final = pytest.mark.parametrize("mode", EVERY)
KEY: Final = "AIza-9d2f6b1c44e07a35"
USAGE: Final = {"total_input_tokens": 9, "total_output_tokens": 7, "total_tokens": 16}


def step(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


def said(text: str) -> dict[str, Any]:
    return step("model_output", content=[{"type": "text", "text": text}])


def whole(*steps: Any, status: str = "completed", **members: Any) -> ScriptedReply:
    body = {"id": "v1_a", "status": status, "model": "g", "steps": [*steps], "usage": USAGE}
    return ScriptedReply(
        body=json.dumps({**body, **members}), headers={"content-type": "application/json"}
    )


def events(*values: dict[str, Any]) -> ScriptedReply:
    body = "".join(
        f"event: {each['event_type']}\ndata: {json.dumps(each)}\n\n" for each in values
    )
    return ScriptedReply(body=body, headers={"content-type": "text/event-stream"})


def backend(url: str, **options: Any) -> rungwise.GeminiInteractions:
    given = {"api_key": KEY, "name": "primary", **options}
    return rungwise.GeminiInteractions("gemini-3-pro", base_url=url, **given)


@MODES
def test_a_call_is_answered(mode: str) -> None:
    with asking(mode, [whole(said("In the reeds."))], backend) as (ask, stage, _):
        result = ask("Where do herons nest?", max_tokens=100)
    assert (result.outcome, result.text) == ("done", "In the reeds.")
    [request] = stage.requests
    assert request.path.endswith("/interactions")
    assert request.headers["x-goog-api-key"] == KEY
    assert request.body == {
        "model": "gemini-3-pro",
        "stream": request.body["stream"],
        "store": False,
        "input": [
            {"type": "user_input", "content": [{"type": "text", "text": "Where do herons nest?"}]}
        ],
        "generation_config": {"max_output_tokens": 100},
    }
    assert (result.usage.input_tokens, result.usage.output_tokens) == (9, 7)
