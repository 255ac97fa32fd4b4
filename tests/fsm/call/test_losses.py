"""What of a request a backend is never told stands in the journal, once, where that backend is
first asked.
"""

import json
import pickle
from typing import Any

import pytest

import rungwise
from rungwise import Journal, OpenAIChat, Policy, replay
from rungwise.core import Call, Failure, PlainLink, Reply, Request

PERMANENT = Failure("auth", status=401)
SEEDLESS = PlainLink(
    "seedless", losses=("seed: it draws as it likes", "the tool web_search: it has no form here")
)
SEARCH = {"googleSearch": {}}


def ended(chain: list[Any], *replies: Reply | Failure, **asked: Any) -> Call:
    call = Call(Request("Where?", **asked), Policy(), chain)
    call.begin()
    for reply in replies:
        call.receive(reply)
    assert call.is_over
    return call


def notes(journal: Journal) -> list[tuple[str, str | None]]:
    return [(step.backend, step.note) for step in journal.steps if step.event == "sent"]


def test_what_is_left_out_survives_a_pickle() -> None:
    call = ended([SEEDLESS], Reply("In reeds.", stop_reason="stop"))
    assert pickle.loads(pickle.dumps(call.journal.setting.links)).plain[0].losses == SEEDLESS.losses


def test_a_replay_refuses_a_journal_that_tells_of_other_losses() -> None:
    call = ended([SEEDLESS], Reply("In reeds.", stop_reason="stop"))
    changed = call.journal.to_json().replace(
        '"note": "left out: seed:', '"note": "left out: top_p:'
    )
    with pytest.raises(rungwise.JournalMismatch, match="step 1: note is 'left out: top_p"):
        replay(Journal.from_json(changed))


def test_a_journal_of_an_earlier_release_tells_of_no_losses() -> None:
    call = ended([PlainLink("first")], Reply("In reeds.", stop_reason="stop"))
    document = json.loads(call.journal.to_json())
    for link in document["chain"]:
        del link["losses"]
    assert replay(Journal.from_json(json.dumps(document))).outcome == "done"


def test_drops_parameters_of_another_protocol_and_reports_them() -> None:
    primary = OpenAIChat("m", base_url="http://localhost:1", name="primary")
    asked = {"parameters": {"temperature": 0, "top_k": 5}}
    call = ended(
        [primary, PlainLink("second")], PERMANENT, Reply("In reeds.", stop_reason="stop"), **asked
    )
    assert notes(call.journal) == [
        ("primary", None),
        ("second", "left out: top_k: it is a parameter of another protocol"),
    ]
    again = OpenAIChat("m2", base_url="http://localhost:1", name="again")
    call = ended([primary, again], PERMANENT, Reply("In reeds.", stop_reason="stop"), **asked)
    assert notes(call.journal) == [("primary", None), ("again", None)]


def test_a_backend_over_http_names_parameters_and_tools_that_its_protocol_cannot_say() -> None:
    class Mute(OpenAIChat):
        @classmethod
        def lost_parameters(cls, parameters: Any) -> dict[str, str]:
            return {
                name: f"no word for {value}" for name, value in parameters.items() if name == "seed"
            }

    backend = Mute("m", base_url="http://localhost:1")
    request = Request(
        "Where?",
        tools=[SEARCH],
        parameters={
            "seed": 7,
            "temperature": 0.5,
            "top_k": 3,
        },
    )
    assert backend.lost(request) == (
        "seed: no word for 7",
        "the tool googleSearch: it has no form here",
    )
    assert backend.lost(Request("Where?", parameters={"seed": None})) == ()
    assert OpenAIChat("m").lost(Request("Where?", parameters={"seed": 7})) == ()


def test_losses_are_texts() -> None:
    with pytest.raises(rungwise.ConfigurationError, match=r"PlainLink\.losses must be texts"):
        PlainLink(losses=(1,))  # type: ignore[arg-type]


def test_describes_a_loss_in_one_short_line() -> None:
    call = ended(
        [PlainLink("rude", losses=("seed:\n" + "x" * 10_000,))],
        Reply("In reeds.", stop_reason="stop"),
    )
    [(_, note)] = notes(call.journal)
    assert "\n" not in note
    assert len(note) <= 400
    assert replay(Journal.from_json(call.journal.to_json())).outcome == "done"
