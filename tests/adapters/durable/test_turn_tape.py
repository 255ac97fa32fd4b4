"""A turn that is told again what is on its tape is where it was, with its calls, wherever the tape
ends.
"""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import TurnPolicy
from rungwise.adapters.durable.forms import plain_turn_result, read_turn_result
from rungwise.adapters.durable.turn_tape import RecordedTurn
from rungwise.fsm.engine.journal.record import json_of
from rungwise.fsm.testing.scripted import links
from rungwise.fsm.testing.turn_player import TurnPlayer
from rungwise.fsm.testing.turn_script import TOOLS, TurnScript
from rungwise.fsm.testing.turn_strategies import scripts_of_turns, turn_policies
from support.sampling import examples


def again(value: Any) -> Any:
    return json.loads(json_of(value))


def new_turn(policy: TurnPolicy, script: TurnScript, deadline: float | None) -> RecordedTurn:
    return RecordedTurn(
        script.request,
        policy,
        links(2),
        tools=TOOLS,
        has_compactor=script.compactor is not None,
        contents=script.contents,
        jitter=lambda: 1.0,
        deadline=deadline,
    )


@settings(max_examples=examples(30))
@given(turn_policies(), scripts_of_turns(), st.none() | st.floats(1.0, 1000.0))
def test_every_beginning_of_a_tape_leads_to_where_the_turn_was(
    policy: TurnPolicy, script: TurnScript, deadline: float | None
) -> None:
    turn = new_turn(policy, script, deadline)
    player = TurnPlayer.of(policy, script, chain=2)
    player.run.turn = turn
    is_cancelled = script.stop is not None and script.stop.kind == "cancel"
    for number, _ in enumerate(player.moments()):
        if is_cancelled and number == script.stop.at:
            player.stop("cancel")
            break
    tape = again(turn.tape)
    steps: Any = again(turn.journal.to_document())
    whole = len(tape)
    for end in sorted({1, whole // 3, whole // 2, whole - 1, whole} - {0}):
        other = new_turn(policy, script, tape[0]["deadline"])
        other.restore(tape[:end])
        assert again(other.tape) == tape[:end]
        document = again(other.journal.to_document())
        assert document["steps"] == steps["steps"][: other.journal.size]
        for was, now in zip(steps["calls"], document["calls"], strict=False):
            assert now["steps"] == was["steps"][: len(now["steps"])]
    if turn.is_over:
        assert other.result == turn.result
        assert read_turn_result(again(plain_turn_result(turn.result))) == turn.result
