"""How servers say that a prompt does not fit, and what sounds like it: each wording with its source is in a table."""

import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from rungwise.fsm.failures.classify import classify_response
from rungwise.fsm.failures.failure import Reason

WORDINGS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix("").with_name("overflow_wordings.toml").read_text(encoding="utf-8")
)["wording"]


def body_of(wording: dict[str, Any]) -> bytes:
    if "body" in wording:
        return str(wording["body"]).encode()
    error = {"message": wording["message"], "type": "invalid_request_error", "param": None, "code": None}
    return json.dumps({"error": error}).encode()


@pytest.mark.parametrize(
    "wording", WORDINGS, ids=[f"{wording['provider']}-{wording['status']}" for wording in WORDINGS]
)
def test_each_wording_is_what_it_is(wording: dict[str, Any]) -> None:
    status = wording["status"]
    assert classify_response(status, {}, body_of(wording)).reason == wording["reason"]
    if status == 200:  # the same inside a stream
        assert classify_response(None, {}, body_of(wording)).reason == wording["reason"]


def test_the_table_says_where_each_wording_was_seen() -> None:
    for wording in WORDINGS:
        assert wording.keys() <= {"provider", "status", "message", "body", "reason", "source"}
        assert ("message" in wording) != ("body" in wording)
        assert wording["reason"] in get_args(Reason)
        assert wording["source"].strip()
        json.loads(body_of(wording))


@pytest.mark.parametrize("wording", [w for w in WORDINGS if w["reason"] == "context_overflow" and "message" in w])
@pytest.mark.parametrize("status", [401, 402, 404, 429, 503])
def test_no_wording_is_an_overflow_on_a_status_that_says_something_else(wording: dict[str, Any], status: int) -> None:
    assert classify_response(status, {}, body_of(wording)).reason not in ("context_overflow", "payload_too_large")
