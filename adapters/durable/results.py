"""The result of a durable call or turn, from what the database holds of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rungwise.adapters.durable.forms import Plain, read_result, read_turn_result
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.shapes import NEUTRAL
from rungwise.fsm.call.run.result import SUCCESSES
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.decisions.open_questions import OpenQuestions
from rungwise.fsm.replies.schemas.given import Misfit
from rungwise.fsm.replies.schemas.returns import returns_of
from rungwise.fsm.turn.result import SUCCESSES as SUCCESSES_OF_TURNS
from rungwise.fsm.values.label import short

STATUS: Final = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "CANCELLED": "cancelled",
}
"""Our word for each state of a workflow that has no result. Any other is "broken"."""

UNFINISHED: Final = ("waiting", "running")

FINE: Final = SUCCESSES | SUCCESSES_OF_TURNS
LESSER: Final = frozenset({"salvaged", "partial", "limit_reached"})
"""Those without a value: if one was asked for, the call has failed."""


def result_of(
    id: str,
    plain: Plain,
    returns: Any,
    chain: Iterable[Link],
) -> Any:
    """Return the result that a workflow has stored.

    Arguments:
        id: the id of the call, for errors.
        plain: what was stored.
        returns: what the answer must be, as for `Client.call`.
        chain: the backends of the client. The one that answered knows the form of its messages.

    Raises:
        ConfigurationError: the answer does not fit `returns`.
    """
    value = _value(id, plain, returns)
    is_turn = "last" in plain
    last = plain["last"] if is_turn else plain  # of a turn, its last call
    shapes = NEUTRAL
    for backend in chain:
        if last and backend.name == last["backend"]:
            shapes = getattr(backend, "shapes", shapes)
    if is_turn:
        return read_turn_result(plain, shapes, value)
    return read_result(plain, shapes, value)


def _value(id: str, plain: Plain, returns: Any) -> Any:
    """Return the value of an answer; None if it has none."""
    schema = returns_of(returns)
    if schema is not None and schema.is_decision:
        return OpenQuestions.decision_in(plain["text"])
    if schema is None or plain["outcome"] not in ("done", "finished"):
        return None
    try:
        return schema.read_text(plain["text"])
    except Misfit as error:
        raise ConfigurationError(
            f"the answer of {short(id)} is not what returns= says: {error}"
        ) from None
