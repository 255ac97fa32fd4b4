"""Facts of the user's own: found once for each reply, by a function that may do anything."""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.machine.declare import Fact
from rungwise.fsm.machine.table import Table


def own_facts_of(table: Table, observation: Observation, gathered: str) -> tuple[str, ...]:
    """Return the names of the facts of the user's own that hold; where no reply came, none does.

    Arguments:
        observation: what came back.
        gathered: the text so far, of which the reply's may be the rest: its facts are those of the whole answer.

    Raises:
        ConfigurationError: a fact is no bool, or its function raises.
    """
    reply = observation.reply
    if reply is None:
        return ()
    if gathered and observation.part and not observation.unsays:
        reply = evolve(reply, text=gathered + observation.new, parts=None)
    return tuple([fact.name for fact in table.own_facts if _holds(fact, reply)])


def _holds(fact: Fact, reply: Reply) -> bool:
    assert fact.of is not None
    try:
        held = fact.of(reply)
    except Exception as error:
        raise ConfigurationError(
            f"the fact {fact.name!r} raised {type(error).__name__}: "
            "its function takes a Reply and returns True or False"
        ) from error
    if not isinstance(held, bool):
        raise ConfigurationError(f"the fact {fact.name!r} must be True or False, and is of type {type(held).__name__}")
    return held
