"""Which event a reply is to the machine."""

from __future__ import annotations

from rungwise.core import Reply
from rungwise.fsm.call.conversation.reading import PLAIN, read_reply
from rungwise.fsm.call.run.observe import event_of_reply


def event_of(reply: Reply, cap: int | None = None) -> str:
    """Return the event of a reply to a first attempt."""
    return event_of_reply(read_reply(reply, PLAIN, "", may_unsay=False, tools=()), cap)
