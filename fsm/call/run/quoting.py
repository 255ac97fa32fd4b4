"""The words of a provider that a failure may be quoted with: those that are not the request's."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER, Failure, Reason
from rungwise.fsm.replies.failures.quoting import quotation
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.contents import texts_in
from rungwise.fsm.values.label import is_identifier

_MAY_HOLD_REPLY: Final[frozenset[Reason]] = frozenset({"malformed", "failed_generation"})
"""The failures whose message may be what the model wrote, of which nobody knows the words."""


def quoted(failure: Failure, proposal: Proposal, reply: Reply | None, delivered: str) -> Failure:
    """Return a failure with what may be quoted of its provider's message.

    Arguments:
        failure: of an attempt.
        proposal: what was sent.
        reply: what came beside the failure.
        delivered: the text that was handed out.
    """
    if failure.exception is not None or failure.reason in _MAY_HOLD_REPLY:
        return failure
    send = proposal.send
    parameters = dict(send.parameters)
    # the program's own names are no secret: of tools, and of the fields of an answer
    declared = texts_in((send.tools, parameters.pop(FORMAT_PARAMETER, None)))
    texts = [text for text in declared if not is_identifier(text)]
    sent = (send.request.messages, send.messages, parameters, send.headers, send.continuation)
    texts += texts_in((sent, reply and (reply.parts, reply.refusal), delivered))
    name = proposal.for_backend.link.name
    return evolve(failure, quote=quotation(failure.message, texts, name, proposal.repeats_secret))
