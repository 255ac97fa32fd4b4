"""Each word and error that Ollama is known to send: what it means, and that the journal keeps it as it came."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import rungwise
from rungwise import Client, Ollama, Step
from rungwise.core import Reply
from rungwise.fsm.failures.failure import event_of_failure
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.classified import event_of
from support.modes import MODES, WHOLE, ask, options_of

FINISHES = [
    ("stop", "stop", "answered"),
    ("length", "length", "truncated"),
    ("", None, "answered"),  # `omitempty`, and servers before 0.1.38
    ("content_filter", "content_filter", "refused"),  # in chat's word, from what the cloud passes on
    ("gremlins", "unknown", "malformed"),
    ("connection_closed", "unknown", "malformed"),
    (5, "unknown", "malformed"),
]

FINAL, PASSING = "failed_permanently", "failed_transiently"
# The wordings of ollama/ollama, server/routes.go, server/sched.go and llm/llama_server.go, but for those of ollama.com.
ERRORS = [
    (400, "missing request body", "format", FINAL),
    (400, '"gemma3:4b" does not support thinking', "parameter_unsupported", "rejected_fixably"),
    (400, 'think value "low" is not supported for this model', "parameter_unsupported", "rejected_fixably"),
    (400, "registry.ollama.ai/library/gemma3:4b does not support tools", "format", FINAL),
    (400, '"all-minilm" does not support chat', "format", FINAL),
    (400, "the input length exceeds the context length", "context_overflow", "overflowed"),
    (
        400,
        "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the"
        " context length in settings, or use a model with a longer context length",
        "context_overflow",
        "overflowed",
    ),
    (401, "unauthorized", "auth", FINAL),
    (402, "payment required", "billing", FINAL),
    # [NousResearch/hermes-agent #68832, continuedev/continue #9233]: hours or days, so that another backend is asked.
    (
        429,
        "you (heron) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade",
        "billing",
        FINAL,
    ),
    (429, "you've reached your hourly usage limit, please wait or upgrade to continue", "billing", FINAL),
    (403, "this model requires a subscription, upgrade for access: https://ollama.com/upgrade", "billing", FINAL),
    (403, "ollama cloud is disabled: remote inference is unavailable", "auth", FINAL),
    (404, "model 'llama9' not found", "model_not_found", FINAL),
    (404, 'model "llama9" not found, try pulling it first', "model_not_found", FINAL),
    (429, "too many concurrent requests", "rate_limit", PASSING),
    (499, "request canceled", "unknown", PASSING),
    (500, "model requires more system memory (8.0 GiB) than is available (3.1 GiB)", "server_error", PASSING),
    (500, "llama-server process has terminated: exit status 2", "server_error", PASSING),
    (500, "error parsing tool call: raw='{\"bird\": ', err=unexpected end of JSON input", "failed_generation", PASSING),
    (
        500,
        'llama-server returned invalid tool call arguments for "look": unexpected end of JSON input',
        "failed_generation",
        PASSING,
    ),
    (502, "upstream error", "server_error", PASSING),
    (503, "server busy, please try again.  maximum pending requests exceeded", "overloaded", PASSING),
]
INSIDE = [
    ("an error was encountered while running the model: unexpected EOF", "unknown", PASSING),
    ("error parsing tool call: raw='{', err=unexpected end of JSON input", "failed_generation", PASSING),
    ("server busy, please try again.  maximum pending requests exceeded", "overloaded", PASSING),
    ("the input length exceeds the context length", "context_overflow", "overflowed"),
]


@pytest.mark.parametrize(("word", "meaning", "event"), FINISHES)
@pytest.mark.parametrize("is_stream", [True, False])
def test_reasons_of_the_end(word: Any, meaning: str | None, event: str, is_stream: bool) -> None:
    value = {"model": "m", "message": {"content": "In the reeds."}, "done": True, "done_reason": word}
    body = json.dumps(value).encode()
    if is_stream:
        decoder = Ollama("m").decoder({})
        decoder.feed(body)
        reply = decoder.close()
    else:
        reply = Ollama("m").decode(200, {}, body)
    assert (reply.stop_reason, reply.stop_raw) == (meaning, str(word) or None)
    assert event_of(reply) == event


def test_a_reply_up_to_its_cap_without_a_reason_was_cut_by_it() -> None:
    body = {"model": "m", "message": {"content": "In the"}, "done": True, "eval_count": 8}
    reply = Ollama("m").decode(200, {}, json.dumps(body).encode())
    assert isinstance(reply, Reply)
    assert event_of(reply, cap=8) == "truncated"


@pytest.mark.parametrize(("status", "message", "reason", "event"), ERRORS)
def test_errors(status: int, message: str, reason: str, event: str) -> None:
    failure = Ollama("m").decode(status, {}, json.dumps({"error": message}).encode())
    assert (failure.reason, event_of_failure(failure), failure.status) == (reason, event, status)


@pytest.mark.parametrize(("message", "reason", "event"), INSIDE)
def test_errors_inside_a_stream(message: str, reason: str, event: str) -> None:
    decoder = Ollama("m").decoder({})
    decoder.feed(json.dumps({"error": message}).encode() + b"\n")
    failure = decoder.close()
    assert (failure.reason, event_of_failure(failure)) == (reason, event)


NO_MORE = rungwise.Policy(limits=rungwise.Limits(retries=0, reasks=0, continuations=0))


def steps_of(reply: ScriptedReply, mode: str) -> Sequence[Step]:
    with EmbeddedProvider(Script([reply])) as provider:
        client = Client([Ollama("m", base_url=provider.base_url)], policy=NO_MORE, **options_of(mode))
        try:
            result = ask(client, mode)
        except rungwise.CallError as error:
            result = error.result
    return result.journal.steps


@pytest.mark.parametrize("mode", [MODES[1], WHOLE[0]])
@pytest.mark.parametrize("word", ["gremlins", "load"])
def test_the_journal_keeps_words_as_they_came(word: str, mode: str) -> None:
    words = [step.stop_raw for step in steps_of(ScriptedReply(text="", finish=word), mode)]
    assert word in words


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "auth"), (404, "model_not_found"), (429, "rate_limit"), (503, "overloaded")]
)
def test_the_journal_keeps_statuses(status: int, reason: str) -> None:
    assert (status, reason) in [(step.status, step.reason) for step in steps_of(ScriptedReply(status=status), "call")]
