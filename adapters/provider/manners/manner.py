"""A manner: one way in which servers say a reply otherwise than its protocol does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import field, frozen

from rungwise.adapters.gateway.languages.language import Completion
from rungwise.adapters.provider.manners.framing import Frames
from rungwise.adapters.provider.manners.speech import Change, Speech
from rungwise.fsm.replies.assembly.gathered import ENOUGH

FEW: Final = "another reply has the same bytes: the pieces are too few or too short to tell"
ONCE: Final = "another reply has the same bytes: that text, said twice"
UNCOUNTED: Final = "the tokens are not counted"
UNFINISHED: Final = "nothing says why it ended"


def words(text: str) -> tuple[str, ...]:
    """Return the names in a text."""
    return tuple(text.split())


@frozen(kw_only=True)
class Manner:
    """Describe a manner.

    Arguments:
        name: what a script calls it.
        says: what the server does.
        reads: what Rungwise makes of it.
        seen: the servers, each with its public threads.
        moves: what it changes; two manners that move the same cannot be combined.
        streamed: the protocols that have it in a stream.
        whole: the protocols that have it in a reply in one piece.
        headers: the headers that it adds.
        media: the media type of the body; "" keeps that of the protocol.
        swaps: whether a reply is streamed that should be whole, and the other way round.
        answer: what it makes of the reply before it is written.
        events: what it makes of the events.
        frames: what it makes of their frames.
        loses: why a reply cannot be read from what is said in this manner; "" if it can.
    """

    name: str
    says: str
    reads: str
    seen: tuple[str, ...] = field(converter=tuple)
    moves: str
    streamed: tuple[str, ...] = field(default="", converter=words)
    whole: tuple[str, ...] = field(default="", converter=words)
    headers: Mapping[str, str] = field(factory=dict)
    media: str = ""
    swaps: bool = False
    answer: Callable[[Completion], Completion] | None = None
    events: Change | None = None
    frames: Callable[[Frames], Frames] | None = None
    loses: Callable[[Speech], str] | None = None

    def is_in(self, api: str, *, streams: bool) -> bool:
        """Tell whether a stream, or a reply in one piece, can be said in it."""
        return api in (self.streamed if streams else self.whole)


def doubtful(member: str, pieces: int, why: str) -> Callable[[Speech], str]:
    """Return why a text may be its pieces as well as what is said.

    More than some pieces and thirty characters are no coincidence, and a final form decides.

    Arguments:
        member: of the answer, which holds the text.
        pieces: how many are too few; fewer are said as ever.
        why: the reason.
    """

    def loses(speech: Speech) -> str:
        text = getattr(speech.answer, member)
        count = -(-len(text) // speech.answer.chunk_size)
        is_clear = count > pieces and len(text) >= ENOUGH
        return "" if count < pieces or is_clear or speech.api == "responses" else why

    return loses


def always(why: str) -> Callable[[Speech], str]:
    """Return why every reply is lost in part."""
    return lambda speech: why


def untotalled(speech: Speech) -> str:
    """Return why the tokens are lost: no total shows them."""
    usage = speech.answer.usage
    has_total = usage is None or any(name.startswith("total") for name in usage)
    return "" if has_total else UNCOUNTED
