"""Which event a reply is to the machine."""

from typing import Any

from rungwise import Policy
from rungwise.core import Call, Failure, Link, Reply, Request
from rungwise.fsm.call.conversation.reading import PLAIN, read_reply
from rungwise.fsm.call.run.observe import event_of_reply


def event_of(reply: Reply, cap: int | None = None) -> str:
    """Return the event of a reply to a first attempt."""
    return event_of_reply(read_reply(reply, PLAIN, "", may_unsay=False, tools=()), cap)


def settled(backend: Link, came: Reply | Failure) -> Any:
    """Return the first step that a call to a backend takes for what came."""
    call = Call(Request("Where?"), Policy(), (backend,))
    call.begin(0.0)
    call.receive(came, 1.0)
    return next(step for step in call.journal.steps if step.event not in ("sent", "began"))
