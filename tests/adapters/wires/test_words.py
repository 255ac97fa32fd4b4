"""What the words of each protocol mean: every end of a reply and every error, wherever it comes,
and in the journal.

Each wire states its own in `words.py`, in its folder:

    ENDS: a row for each end: its word, what else the reply has, what the word means, the event of
        the reply, and where the word is an error, its reason.
    ended: returns what such a reply is read as, whole and streamed.
    ERRORS: the rows of each reason.
    failed: returns what such an error is read as wherever it may come, each with what else is known
    of the failure. REFUSALS: what each refusal says by itself, and the reply, in bytes, whole and
    streamed.
"""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from rungwise.adapters.wires.registry import APIS, folder_of
from rungwise.fsm.replies.failures.failure import event_of_failure
from rungwise.fsm.values.label import is_identifier
from support.classified import settled


def words(path: Path) -> Any:
    spec: Any = spec_from_file_location(f"words_of_{path.parent.name}", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WIRES = {path.parent.name: words(path) for path in sorted(Path(__file__).parent.glob("*/words.py"))}
EVENTS = {
    **dict.fromkeys(
        ("auth", "billing", "model_not_found", "not_found", "format"), "failed_permanently"
    ),
    **dict.fromkeys(
        ("rate_limit", "overloaded", "server_error", "timeout", "unknown"), "failed_transiently"
    ),
    **dict.fromkeys(("context_overflow", "payload_too_large"), "overflowed"),
    **dict.fromkeys(
        ("parameter_unsupported", "prefill_unsupported", "output_cap"), "rejected_fixably"
    ),
    **dict.fromkeys(("reasoning_missing", "reasoning_signature"), "rejected_fixably"),
    "failed_generation": "failed_transiently",
    "content_policy": "refused",
}


def test_every_wire_states_its_words() -> None:
    assert WIRES.keys() == set(map(folder_of, APIS))


@pytest.mark.parametrize(
    ("wire", "row"), [(name, row) for name, wire in WIRES.items() for row in wire.ENDS]
)
def test_each_end_is_an_event_and_its_word_stands_in_the_journal(
    wire: str, row: tuple[Any, ...]
) -> None:
    word, aside, meaning, event, *reason = row
    for came in WIRES[wire].ended(word, aside):
        assert getattr(came, "stop_reason", "error") == meaning
        step = settled(WIRES[wire].BACKEND, came)
        assert step.event == event
        assert ([step.reason] if reason else []) == reason
        raw = word if isinstance(word, str | None) else json.dumps(word, separators=(",", ":"))
        shown = raw if is_identifier(raw or "a") else f"({len(raw)} characters)"
        assert (shown or None) in ((step.stop_raw, step.code) if reason else (step.stop_raw,))
        assert not (reason and getattr(came, "tool_calls", ()))


@pytest.mark.parametrize(
    ("wire", "reason", "row"),
    [
        (name, reason, row)
        for name, wire in WIRES.items()
        for reason, rows in wire.ERRORS.items()
        for row in rows
    ],
)
def test_each_error_has_its_reason_wherever_it_comes(
    wire: str, reason: str, row: tuple[Any, ...]
) -> None:
    for came, known in WIRES[wire].failed(*row):
        failure = getattr(came, "failure", came)
        assert failure.reason == reason
        assert event_of_failure(failure) == EVENTS[reason]
        assert {name: getattr(came if name == "text" else failure, name) for name in known} == known
        step = settled(WIRES[wire].BACKEND, came)
        assert step.reason == reason
        assert step.code == failure.code
        assert step.status == failure.status
        if came is failure:
            assert step.event == EVENTS[reason]
        elif came.text:
            assert step.event == ("refused" if reason == "content_policy" else "interrupted")
            assert came.interrupted is True


@pytest.mark.parametrize(
    ("wire", "row"), [(name, row) for name, wire in WIRES.items() for row in wire.REFUSALS]
)
def test_a_refusal_says_why(wire: str, row: tuple[str | None, bytes, bytes]) -> None:
    said, whole, streamed = row
    backend = WIRES[wire].BACKEND
    decoder = backend.decoder({})
    decoder.feed(streamed)
    for came in (backend.decode(200, {}, whole), decoder.close()):
        assert came.refusal == said
        assert settled(backend, came).event == "refused"
