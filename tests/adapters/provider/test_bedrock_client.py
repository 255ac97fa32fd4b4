"""The embedded provider is read by botocore's own client, with its own model of the service, as the
real thing.
"""

from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError
from botocore.session import Session

from rungwise import ToolCall
from rungwise.adapters.gateway.languages.language import SIGNATURE
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

MODES = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
ASKED: dict[str, Any] = {
    "modelId": "heron-1",
    "messages": [{"role": "user", "content": [{"text": "Where?"}]}],
}
CALL = ToolCall("tooluse_1", "look", '{"bird": "heron"}')


@pytest.fixture(scope="module")
def session() -> Session:
    return Session()


def asked(session: Session, reply: ScriptedReply, streams: bool) -> dict[str, Any]:
    """Return what the client reads: text, reasoning, signature, calls, stop reason and usage."""
    told: dict[str, Any] = {
        "text": "",
        "thought": "",
        "signature": "",
        "calls": {},
    }
    with EmbeddedProvider(Script([reply])) as provider:
        client = session.create_client(
            "bedrock-runtime",
            region_name="eu-north-1",
            endpoint_url=provider.base_url,
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key="wJalrXUtnFEMI",
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )
        if not streams:
            whole = client.converse(**ASKED)
            for block in whole["output"]["message"]["content"]:
                if "reasoningContent" in block:
                    thought = block["reasoningContent"]["reasoningText"]
                    told.update(thought=thought["text"], signature=thought["signature"])
                elif "toolUse" in block:
                    told["calls"][block["toolUse"]["toolUseId"]] = block["toolUse"]["input"]
                else:
                    told["text"] += block["text"]
            return told | {"stop": whole.get("stopReason"), "usage": whole.get("usage")}
        for event in client.converse_stream(**ASKED)["stream"]:
            take(event, told)
    return told


def take(event: dict[str, Any], told: dict[str, Any]) -> None:
    ((name, value),) = event.items()
    if name == "contentBlockDelta":
        delta = value["delta"]
        thought = delta.get("reasoningContent", {})
        told["text"] += delta.get("text", "")
        told["thought"] += thought.get("text", "")
        told["signature"] += thought.get("signature", "")
        if "toolUse" in delta:
            told["calls"][next(reversed(told["calls"]))] += delta["toolUse"]["input"]
    elif name == "contentBlockStart":
        told["calls"][value["start"]["toolUse"]["toolUseId"]] = ""
    elif name == "messageStop":
        told["stop"] = value["stopReason"]
    elif name == "metadata":
        told["usage"] = value["usage"]


@MODES
def test_text_reasoning_and_calls_are_read(session: Session, streams: bool) -> None:
    reply = ScriptedReply(text="In the reeds.", reasoning="Herons like reeds.", tool_calls=(CALL,))
    told = asked(session, reply, streams)
    assert told["text"] == "In the reeds."
    assert told["thought"] == "Herons like reeds."
    assert told["signature"] == SIGNATURE
    assert told["calls"] == {"tooluse_1": CALL.arguments if streams else {"bird": "heron"}}
    assert told["stop"] == "tool_use"
    assert (
        told["usage"]["totalTokens"] == told["usage"]["inputTokens"] + told["usage"]["outputTokens"]
    )


@MODES
@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        (ScriptedReply(text="x"), "end_turn"),
        (ScriptedReply(), "end_turn"),
        (ScriptedReply(text="x", finish="length"), "max_tokens"),
        (ScriptedReply(finish="content_filter"), "content_filtered"),
        (ScriptedReply(refusal="Not this."), "content_filtered"),
        (ScriptedReply(text="x", finish="guardrail_intervened"), "guardrail_intervened"),
    ],
)
def test_each_end_is_read(
    session: Session,
    streams: bool,
    reply: ScriptedReply,
    stop: str,
) -> None:
    told = asked(session, reply, streams)
    assert told["stop"] == stop
    assert told["text"] == reply.text + reply.refusal


@MODES
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ValidationException"),
        (403, "AccessDeniedException"),
        (404, "ResourceNotFoundException"),
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
def test_errors_are_read_as_what_they_are(
    session: Session,
    streams: bool,
    status: int,
    code: str,
) -> None:
    with pytest.raises(ClientError) as caught:
        asked(session, ScriptedReply(status=status), streams)
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert type(caught.value).__name__ == code


def test_an_exception_inside_a_stream_is_read_as_one(session: Session) -> None:
    reply = ScriptedReply(
        text="In the", error_event={"type": "ThrottlingException", "message": "Too many requests"}
    )
    with pytest.raises(EventStreamError) as caught:
        asked(session, reply, True)
    assert caught.value.response["Error"] == {
        "Code": "throttlingException",
        "Message": "Too many requests",
    }
