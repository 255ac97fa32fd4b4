"""What is told of a call: to the observer, to the log, and in the journal."""

import json
import logging
import re
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest
import transitions

import rungwise
from rungwise import Client, Failed, Journal, Step, ToolCall, replay
from rungwise.testing import Clocks, ScriptedReply

DOWN = ScriptedReply(status=500)
ANSWER = ScriptedReply("In the reeds, mostly.", usage={"prompt_tokens": 12, "completion_tokens": 5})
CALL = ToolCall("call_1", "look", '{"city": "Malmö"}')
STREAMS = pytest.mark.parametrize("run", ["stream", "astream"], indirect=True)


class Complaint(Exception):
    pass


# the observer


@pytest.mark.parametrize(
    "error", [Complaint, ValueError, TypeError, StopIteration, AssertionError, OSError]
)
def test_an_observer_that_raises_breaks_no_call_and_its_words_are_told_nobody(
    run: Any, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    def observe(step: Step) -> None:
        raise error("about herons")

    ended = run([DOWN, ScriptedReply(), ANSWER], observer=observe)
    ended.was("done", "In the reeds, mostly.", counts=[3])
    warnings = logged(caplog, logging.WARNING)
    assert len(warnings) == len(ended.steps)
    assert all(error.__name__ in record.getMessage() for record in warnings)
    assert "about herons" not in caplog.text


def test_the_observer_hears_of_a_step_before_the_next_thing_happens(
    serve: Any, backend_of: Any
) -> None:
    provider = serve(DOWN, ANSWER)
    heard: list[tuple[str, int]] = []
    waits: list[float] = []

    def observe(step: Step) -> None:
        heard.append((step.event, len(provider.requests)))
        assert not waits or step.number > 2

    with Client(
        backend_of(provider), observer=observe, testing=Clocks(sleep=waits.append)
    ) as client:
        client.call("Where?")
    assert heard == [("sent", 0), ("failed_transiently", 1), ("sent", 1), ("answered", 2)]


def test_an_observer_may_make_a_call_of_its_own(serve: Any, backend_of: Any) -> None:
    provider = serve(ANSWER)
    with Client(backend_of(provider)) as other:

        def observe(step: Step) -> None:
            if step.event == "sent":
                other.call("And storks?")

        with Client(backend_of(provider), observer=observe) as client:
            assert client.call("Where?").outcome == "done"
    assert len(provider.requests) == 2


# the log


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    return [
        record for record in caplog.records if record.name == "rungwise" and record.levelno == level
    ]


def test_more_than_one_attempt_is_information_and_a_fallback_a_warning(
    run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run([ScriptedReply(status=401)], [ANSWER])
    warning, end = (logged(caplog, level)[-1] for level in (logging.WARNING, logging.INFO))
    assert (
        warning.getMessage()
        == "failed_permanently [may_fall_back] -> fallback (primary, 401, auth)"
    )
    assert end.getMessage().startswith("answered -> done (second, stop); 2 attempts, ")
    told = {name: value for name, value in vars(warning).items() if name.startswith("rungwise_")}
    assert told == {
        "rungwise_machine": "call",
        "rungwise_event": "failed_permanently",
        "rungwise_source": "await",
        "rungwise_target": "fallback",
        "rungwise_guard": "may_fall_back",
        "rungwise_backend": "primary",
        "rungwise_wait": 0.0,
        "rungwise_status": 401,
        "rungwise_reason": "auth",
        "rungwise_code": "invalid_api_key",
        "rungwise_attempts": 1,
        "rungwise_at": told["rungwise_at"],
    }


@pytest.mark.full
def test_nothing_is_printed_unless_somebody_sets_up_logging() -> None:
    script = (
        "import rungwise, rungwise.testing as t\n"
        "with t.testing(), t.EmbeddedProvider(t.Script([t.ScriptedReply(status=401), "
        "t.ScriptedReply('Yes.')])) as p:\n"
        "    chain = [rungwise.OpenAIChat(m, base_url=p.base_url, api_key='k') for m in 'ab']\n"
        "    assert rungwise.Client(chain).call('Is it?').attempts == 2\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


# the journal


def test_the_journal_of_a_success_holds_every_step(run: Any) -> None:
    ended = run([DOWN, ScriptedReply("Part one, ", finish="length"), ANSWER], max_tokens=700)
    told = [(step.event, step.guard, step.target, step.wait) for step in ended.steps]
    assert told == [
        ("sent", None, "await", 0),
        ("failed_transiently", "may_retry", "retry", 2),
        ("sent", None, "await", 0),
        ("truncated", "may_continue", "continuation", 0),
        ("sent", None, "await", 0),
        ("answered", None, "done", 0),
    ]
    assert [step.number for step in ended.steps] == [1, 2, 3, 4, 5, 6]
    assert [step.cap for step in ended.steps if step.event == "sent"] == [700, 700, 1400]
    assert [step.status for step in ended.steps] == [None, 500, None, None, None, None]
    assert [step.stop_raw for step in ended.steps] == [None, None, None, "length", None, "stop"]
    assert ended.steps[-1].usage == rungwise.Usage(12, 5)
    assert {step.backend for step in ended.steps} == {"primary"}
    times = [step.at for step in ended.steps]
    assert times == sorted(times)
    assert times[2] >= 2 > times[1]


def test_a_journal_holds_no_contents_unless_the_caller_asks(serve: Any, backend_of: Any) -> None:
    reply = ScriptedReply("In the reeds.", reasoning="Herons like reeds.", tool_calls=[CALL])
    for contents in (False, True):
        with Client(backend_of(serve(reply)), contents=contents) as client:
            told = str(json.loads(client.call("Where do herons nest?").journal.to_json()))
        for private in ("In the reeds.", "Herons like reeds.", CALL.arguments):
            assert (private in told) == contents


def test_a_journal_with_contents_holds_no_key_that_a_provider_quotes(
    serve: Any, backend_of: Any
) -> None:
    key = "sk-9d2f6b1c44e07a35"
    quoting = ScriptedReply(
        status=401, error={"message": f"Incorrect API key: {key}.", "code": "invalid_api_key"}
    )
    backend = backend_of(serve(quoting), api_key=key)
    with Client(backend, contents=True) as client, pytest.raises(Failed) as raised:
        client.call("Where?")
    assert key not in raised.value.result.journal.to_json()


def test_a_replay_of_failures_names_them_again(serve: Any, backend_of: Any) -> None:
    with (
        Client(backend_of(serve(DOWN)), testing=Clocks(sleep=lambda seconds: None)) as client,
        pytest.raises(Failed) as raised,
    ):
        client.call("Where?")
    journal = Journal.from_json(raised.value.result.journal.to_json())
    with pytest.raises(Failed) as again:
        replay(journal).raise_for_outcome()
    # a journal without contents has no word of the provider's
    assert str(again.value) == re.sub(r': ".*"', "", str(raised.value))


@pytest.mark.parametrize(
    ("number", "changed"),
    [
        (2, {"target": "reask"}),
        (2, {"wait": 3.0}),
        (2, {"guard": "may_fall_back"}),
        (4, {"event": "came_empty"}),
    ],
)
def test_a_replay_that_differs_names_the_first_step(
    serve: Any,
    backend_of: Any,
    number: int,
    changed: Any,
) -> None:
    with Client(
        backend_of(serve(DOWN, ANSWER)),
        testing=Clocks(sleep=lambda seconds: None, jitter=lambda: 0.0),
    ) as client:
        document = json.loads(client.call("Where?").journal.to_json())
    document["steps"][number - 1].update(changed)
    with pytest.raises(rungwise.JournalMismatch, match=f"step {number}:"):
        replay(Journal.from_json(json.dumps(document)))


def test_the_jitter_that_was_drawn_is_replayed(run: Any) -> None:
    draws = iter([0.25, 0.75, 0.5] * 2)
    ended = run([DOWN, DOWN, ScriptedReply(), ANSWER], jitter=lambda: next(draws))
    assert ended.waits == [2 * 1.125, 4 * 1.375, 1 * 1.25]  # the replay is done by `run`


@STREAMS
def test_a_stream_shows_each_step_where_it_happened(run: Any) -> None:
    ended = run([ScriptedReply("In the banana grove.", finish="banana"), ANSWER])
    kinds = [type(event).__name__ for event in ended.events]
    merged = [kind for index, kind in enumerate(kinds) if index == 0 or kind != kinds[index - 1]]
    assert merged == ["Step", "Text", "Step", "Discard", "Step", "Text", "Step", "Result"]


@pytest.mark.parametrize("asked", [None, "transitions", "transitions.core"])
def test_our_steps_are_logged_and_those_of_the_machine_if_they_are_asked_for(
    serve: Any, backend_of: Any, caplog: pytest.LogCaptureFixture, asked: str | None
) -> None:
    caplog.set_level(logging.DEBUG)
    if asked is not None:
        caplog.set_level(logging.DEBUG, logger=asked)
    with Client(
        backend_of(serve(ScriptedReply(), ANSWER)),
        testing=Clocks(sleep=lambda _: None),
    ) as client:
        client.call("Where?")
    assert [
        record.getMessage().split()[0] for record in caplog.records if record.name == "rungwise"
    ] == ["sent", "came_empty", "sent", "answered"]
    machine = [record for record in caplog.records if record.name.startswith("transitions")]
    assert {record.name for record in machine} == ({"transitions.core"} if asked else set())
    assert all(record.getMessage().startswith("rungwise: ") for record in machine)


def test_other_machines_of_the_process_log_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    machine = transitions.Machine(states=["a", "b"], initial="a", name="theirs")
    machine.add_transition("go", "a", "b")
    machine.trigger("go")
    assert [record for record in caplog.records if record.name == "transitions.core"]


def test_basic_logging_stays_short() -> None:
    script = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "import rungwise\n"
        "call = rungwise.core.Call(rungwise.core.Request('hi')); call.begin()\n"
        "call.receive(rungwise.core.Failure('server_error', status=500))\n"
        "call.receive(rungwise.core.Reply('Hello.', stop_reason='stop'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert [line.split(":")[:2] for line in done.stderr.splitlines()] == [["INFO", "rungwise"]]


def test_the_journal_says_when_a_call_began_its_model_and_when_its_text_came(
    serve: Any, backend_of: Any
) -> None:
    for streams in (True, False):
        given = {
            "stream_calls": streams,
            "testing": Clocks(wall_clock=lambda: 1_764_000_000.5, sleep=lambda _: None),
        }
        with Client(backend_of(serve(DOWN, ANSWER)), **given) as client:
            result = client.call("Where?")
        journal = Journal.from_json(result.journal.to_json())
        assert (journal.started, [link.model for link in journal.setting.chain]) == (
            1_764_000_000.5,
            ["m"],
        )
        firsts = [step.first_token for step in journal.steps]
        assert firsts[:3] == [None] * 3  # an error response is no content
        assert (
            firsts[3] is not None and 0 <= firsts[3] <= result.seconds
            if streams
            else firsts[3] is None
        )
        again = replay(journal).journal
        assert (again.started, [step.first_token for step in again.steps]) == (
            journal.started,
            firsts,
        )


def test_a_journal_of_before_says_nothing_of_times_and_models(serve: Any, backend_of: Any) -> None:
    with Client(backend_of(serve(ANSWER))) as client:
        document = json.loads(client.call("Where?").journal.to_json())
    del document["started"], document["chain"][0]["model"], document["steps"][1]["first_token"]
    journal = Journal.from_json(json.dumps(document))
    assert (journal.started, journal.setting.chain[0].model, journal.steps[1].first_token) == (
        None,
        None,
        None,
    )
    assert "started" not in json.loads(journal.to_json())
    with pytest.raises(rungwise.ConfigurationError, match="'started' must be a number"):
        Journal.from_json(json.dumps({**document, "started": "now"}))


def test_a_turn_says_when_it_began(serve: Any, backend_of: Any) -> None:
    with Client(backend_of(serve(ANSWER)), testing=Clocks(wall_clock=lambda: 17.0)) as client:
        journal = client.turn("Where?").journal
    assert [journal.started, *(call.started for call in journal.calls)] == [17.0, 17.0]
    assert json.loads(journal.to_json())["started"] == 17.0


def test_an_observer_may_have_any_attributes(serve: Any, backend_of: Any) -> None:
    observer = Mock()  # which has every attribute that one asks for
    replies = [ScriptedReply(tool_calls=[ToolCall("1", "look", "{}")]), ANSWER]
    with Client(backend_of(serve(*replies)), observer=observer) as client:
        assert client.turn("Where?", tools={"look": lambda: "here"}).text == ANSWER.text
    assert [
        call.args[0].event
        for call in observer.call_args_list
        if not isinstance(call.args[0], rungwise.TurnStep)
    ] == ["sent", "called_tools", "sent", "answered"]
