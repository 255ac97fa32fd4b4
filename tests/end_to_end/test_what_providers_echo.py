"""A provider that repeats the prompt or a key where a code belongs: journals and logs show
neither.
"""

import logging
from typing import Any

import pytest

import rungwise
from rungwise import Client, Limits, Policy, Result
from rungwise.adapters.cli.describe import sentence
from rungwise.adapters.cli.shown import failures_of
from rungwise.fsm.call.run.result import error_of
from rungwise.testing import ScriptedReply
from support import modes, protocols
from support.plain import bad_request
from support.protocols import KEY

SECRET = "hdr-secret-77c1"
PROMPT = "My-passphrase-is-9182-heron, where do the herons nest?"
OURS = Policy(limits=Limits(retries=1))

ECHOES = [
    KEY,
    SECRET,
    f"Bearer {KEY}",
    f"key_{KEY}",
    KEY[3:],
    "My-passphrase-is-9182-heron",
    "9182-heron",
    PROMPT,
    "herons nest",
    "a" * 41,
    "two words",
    "line\nbreak",
]


def ask(
    api: str,
    mode: str,
    serve: Any,
    reply: ScriptedReply,
) -> tuple[Result, Any]:
    provider = serve(reply)
    backend = protocols.backend(api, provider.base_url, headers={"x-team": SECRET})
    with Client(
        backend,
        policy=OURS,
        **modes.options_of(mode),
        **modes.waits_into([]),
    ) as client:
        try:
            return modes.ask(client, mode, PROMPT), provider
        except rungwise.CallError as error:
            return error.result, provider


def check_nothing_shows(
    result: Result,
    echo: str,
    caplog: pytest.LogCaptureFixture,
    raw: str | None,
) -> None:
    """Look for an echo in everything that is written about a call, but not in what the caller asks
    for by name.
    """
    shown = f"({len(raw)} characters)" if raw is not None else None
    reply = result.reply
    failures = [failure for _, failure in result.failures]
    written = "\n".join(
        [
            result.journal.to_json(),
            repr(result.journal),
            repr(result),
            str(result.cause),
            repr(reply),
            *map(repr, failures),
            str(failures_of(result)),
            *map(str, result.journal.steps),
            *map(sentence, result.journal.steps),
            *(record.getMessage() for record in caplog.records),
        ]
    )
    assert echo not in written
    assert "\n".join(echo.splitlines()) not in written
    words = [word for step in result.journal.steps for word in (step.stop_raw, step.code) if word]
    assert all(word == shown for word in words if word.endswith("characters)"))
    if result.outcome not in ("done", "partial"):
        assert echo not in str(error_of(result)) + repr(error_of(result))
    assert (
        rungwise.replay(rungwise.Journal.from_json(result.journal.to_json())).outcome
        == result.outcome
    )


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.sampled(24)
def test_an_echo_in_a_finish_reason_is_not_shown(
    api: str,
    mode: str,
    serve: Any,
    echo: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rungwise")
    result, provider = ask(api, mode, serve, ScriptedReply("Hm.", finish=echo))
    assert PROMPT in str(provider.requests[0].body)
    assert SECRET in str(provider.requests[0].headers)
    raw = result.reply.stop_raw if result.reply is not None else None
    if raw is not None and "\n" not in echo:
        assert raw == echo  # verbatim, for whoever asks for it
    check_nothing_shows(result, echo, caplog, raw)


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.sampled(24)
def test_an_echo_in_an_error_code_is_not_shown(
    api: str,
    mode: str,
    serve: Any,
    echo: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rungwise")
    failing = bad_request("no", code=echo, type=echo)
    result, provider = ask(api, mode, serve, failing)
    assert len(provider.requests) == 1
    ((_, failure),) = result.failures
    check_nothing_shows(result, echo, caplog, failure.code)


@pytest.mark.sampled(12)
def test_a_key_in_place_of_a_parameter_is_not_repaired(
    api: str,
    mode: str,
    serve: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rungwise")
    rejecting = bad_request(
        f"Unsupported parameter: '{KEY}'", param=KEY, code="unsupported_parameter"
    )
    result, provider = ask(api, mode, serve, rejecting)
    assert (result.outcome, len(provider.requests)) == ("failed", 1)
    check_nothing_shows(result, KEY, caplog, None)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("word", ["repetition", "model_length_2", "Stop.Reason-7"])
def test_a_short_unknown_word_is_shown(
    api: str,
    mode: str,
    serve: Any,
    word: str,
) -> None:
    result, _ = ask(api, mode, serve, ScriptedReply("Hm.", finish=word))
    if result.reply is not None and result.reply.stop_raw == word:
        assert word in {step.stop_raw for step in result.journal.steps}
    failed, _ = ask(
        api,
        mode,
        serve,
        bad_request("no", code=word, type=word),
    )
    ((_, failure),) = failed.failures
    assert {failure.code} == {step.code for step in failed.journal.steps if step.reason}
    assert failures_of(failed)[0]["code"] == failure.code


def test_a_known_word_is_shown_though_the_prompt_has_it(serve: Any) -> None:
    provider = serve(ScriptedReply("Hm.", finish="stop"))
    with Client(protocols.backend("openai", provider.base_url)) as client:
        result = client.call("When does the loop stop?")
    assert result.journal.steps[-1].stop_raw == "stop"
