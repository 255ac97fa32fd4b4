"""What a manner knows of the reply that it says."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from rungwise.adapters.gateway.languages.language import AnswerRequest, Completion, Language
from rungwise.adapters.provider.manners.events import Events


@frozen
class Speech:
    """Hold one reply that is being said.

    Arguments:
        answer: the reply.
        request: what it answers, and whether it is said as a stream.
        language: the renderer of its protocol.
    """

    answer: Completion
    request: AnswerRequest
    language: Language

    @property
    def api(self) -> str:
        """Return the protocol."""
        return self.language.api


Change = Callable[[Events, Speech], Events]
"""Says the events of a reply otherwise; it may change them in place."""
