"""How a reply is read: the whole of it at once, or piece by piece while it streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Discard, Reasoning, Reply, Text
from rungwise.fsm.replies.text.contents import is_blank, is_cut_json, is_json
from rungwise.fsm.replies.text.stitching import (
    MINIMUM_ECHO,
    MINIMUM_OVERLAP,
    SeamFilter,
    SeedFilter,
    stitch,
    without_seed,
)
from rungwise.fsm.replies.text.tags import TextBefore
from rungwise.fsm.replies.text.thinking import Parted, ThinkFilter, part_thinking

Tools = tuple[Mapping[str, Any], ...]

_NEVER_AN_ANSWER: Final = frozenset({"connection", "timeout", "silence"})
"""The reasons of a failure that cut a stream without being an answer of the provider's."""


@frozen(kw_only=True)
class Reading:
    """Describe how the reply to one request continues what was sent."""

    # the reasoning at its end; an echo of that is no visible text
    seed: str = field(default="", repr=False)
    stripped: str = ""  # the whitespace at the end of the continued text, which the wire leaves out
    # the text that the reply continues; it may end within code or quotes
    before: str = field(default="", repr=False)
    # What is known of that text; if None, it is read when a tag comes.
    read: TextBefore | None = field(default=None, repr=False)
    after_block: bool = False  # whether inline reasoning came with that text
    is_new_turn: bool = False  # whether the reply is a turn of its own nevertheless
    echoes: bool = False  # whether the backend repeats the continued turn at the start of its reply

    # whether it goes on exactly where the text so far ends
    joins: bool = field(default=False, repr=False, eq=False)

    def think_filter(self) -> ThinkFilter:
        """Return a filter that splits the reply into visible text and inline reasoning as it
        streams.
        """
        return ThinkFilter(
            self.before, read=self.read, after_block=self.after_block, is_new_turn=self.is_new_turn
        )

    def new_of(self, visible: str, gathered: str) -> str:
        """Return what of a visible text is not in the text that it continues."""
        if self.joins:
            return visible
        return stitch(gathered, visible, echoes=self.echoes, stripped=self.stripped)

    def part(self, reply: Reply) -> Parted:
        """Split the text of a whole reply into visible text and inline reasoning."""
        return part_thinking(
            reply.text,
            self.before,
            read=self.read,
            after_block=self.after_block,
            is_new_turn=self.is_new_turn,
        )


PLAIN: Final = Reading()


@frozen(kw_only=True, eq=False, repr=False)
class ReadReply:
    """Hold what one reply says. It is read once; whatever is decided about the reply is decided by
    these fields.
    """

    reply: Reply
    visible: str  # its text without inline reasoning and without an echo of the seed
    gathered: str  # the text that it continues; "" if the reply shows that text to be reasoning
    new: str  # what of the visible text was not in `gathered` yet
    unsays: bool  # whether it shows the gathered text to be reasoning
    reasoning: str  # all of it, structured and inline
    is_blank: bool  # whether the visible text shows nothing
    continues_text: bool  # whether the gathered text shows anything
    reasons: bool  # whether the reasoning shows anything
    thinks_inline: bool  # whether inline reasoning shows anything
    refuses: bool  # whether it carries a refusal in words
    is_mere_error: bool  # whether it is an error event that came before any text
    has_whole_calls: bool  # whether none of its tool calls is cut; a whole one may be wrong
    # whether, if it was cut, nobody could tell its text from an echo or a restart
    is_too_little: bool
    adds_too_little: bool  # likewise, if it broke off


def read_reply(
    reply: Reply,
    reading: Reading,
    gathered: str,
    *,
    may_unsay: bool,
    expects_json: bool = False,
    tools: Tools = (),
    shapes: Shapes = NEUTRAL,
) -> ReadReply:
    """Read a whole reply.

    Arguments:
        reply: the reply as it came.
        reading: how it continues what was sent.
        gathered: the text that it continues.
        may_unsay: whether that text may be reasoning, cut before its closing tag.
        expects_json: whether JSON was asked for.
        tools, shapes: the tools that were offered, and their form.
    """
    visible, inline, was_unopened = reading.part(reply)
    refuses = not is_blank(reply.refusal or "")
    came_blank = is_blank(visible)
    if expects_json and inline and is_json(reply.text):
        # what looks like a tag belongs to the JSON
        visible = reply.text
        inline = ""
        was_unopened = False
    elif reading.seed:
        visible = without_seed(visible, reading.seed)
    has_failed = reply.failure is not None and reply.failure.reason not in _NEVER_AN_ANSWER
    unsays = was_unopened and may_unsay
    if unsays:
        inline = gathered + inline
        gathered = ""
    new = reading.new_of(visible, gathered)
    reasoning = reply.reasoning + inline
    has_whole_calls = True
    if reply.tool_calls and not reply.interrupted:
        cut = [is_cut(call, reply, tools, shapes) for call in reply.tool_calls]
        has_whole_calls = not any(cut)
    may_be_echo = is_too_little(gathered, new) or _may_restart(gathered, visible)
    return ReadReply(
        reply=reply,
        visible=visible,
        gathered=gathered,
        new=new,
        unsays=unsays,
        reasoning=reasoning,
        is_blank=is_blank(visible),
        continues_text=not is_blank(gathered),
        reasons=not is_blank(reasoning),
        thinks_inline=not is_blank(inline),
        refuses=refuses,
        is_mere_error=came_blank and not refuses and reply.interrupted and has_failed,
        has_whole_calls=has_whole_calls,
        is_too_little=may_be_echo,
        adds_too_little=bool(gathered) and is_too_little(visible),
    )


def joined_reply(reply: Reply, shapes: Shapes, paused: Reply | None) -> Reply:
    """Return the reply to a request that went on by its provider's token.

    One that broke off before it brought another token goes out again, so it counts for nothing.

    Arguments:
        reply: the reply as it came.
        shapes: the form of its protocol.
        paused: the reply before it, with the pieces of all.
    """
    if reply.interrupted and reply.continuation is None:
        return Reply(
            usage=reply.usage,
            interrupted=True,
            failure=reply.failure,
        )
    return reply if paused is None else shapes.joined(reply, paused.pieces)


def is_cut(call: ToolCall, reply: Reply, tools: Tools, shapes: Shapes = NEUTRAL) -> bool:
    """Tell whether a tool call ends before its arguments do.

    One without any is whole if its tool requires none, or wrong if the tools are known and the
    model ended the reply.

    Arguments:
        call: the tool call.
        reply: the reply that it is in.
        tools, shapes: the tools that were offered, and their form.
    """
    if call.arguments.strip():
        return is_cut_json(call.arguments)
    if tools and reply.stop_reason in ("stop", "tool_calls"):
        return False
    return not is_blank(call.name) and not shapes.needs_no_arguments(call.name, tools)


def is_too_little(*texts: str) -> bool:
    """Tell whether a cut text, in pieces, is so short that it may be an echo as well as a
    continuation.
    """
    if any(len(text.strip()) >= MINIMUM_ECHO for text in texts):
        return False
    return len("".join(texts).strip()) < MINIMUM_ECHO


def _may_restart(gathered: str, text: str) -> bool:
    """Tell whether a text begins as the gathered text does, and is too short to be a repeat of it
    for sure.
    """
    beginning = text.strip()
    return 0 < len(beginning) < MINIMUM_OVERLAP and gathered.lstrip().startswith(beginning)


class _Deltas:
    """Follow the deltas of one attempt: what of them is visible, and what of that is new."""

    __slots__ = ("_gathered", "_reading", "_seam", "_seed", "_think")

    def __init__(self, reading: Reading, gathered: str) -> None:
        self._reading = reading
        self._gathered = gathered
        self._think = reading.think_filter()
        self._begin()

    def _begin(self) -> None:
        """Begin, or begin again behind text that turned out to be reasoning."""
        reading = self._reading
        gathered = self._gathered
        self._seed = None
        if reading.seed:
            self._seed = SeedFilter(reading.seed)
        self._seam = None
        if gathered and not reading.joins:
            self._seam = SeamFilter(gathered, echoes=reading.echoes, stripped=reading.stripped)

    def _without_seed(self, visible: str) -> str:
        if visible and self._seed is not None:
            return self._seed.feed(visible)
        return visible

    def _new_of(self, visible: str) -> str:
        if visible and self._seam is not None:
            return self._seam.feed(visible)
        return visible


class ReplyFilter(_Deltas):
    """Filter the deltas of one attempt for a consumer: no inline reasoning, no seed, nothing
    twice.
    """

    __slots__ = ("_pieces",)

    def _begin(self) -> None:
        super()._begin()
        self._pieces: list[str] = []

    @property
    def delivered(self) -> str:
        """The visible text handed out so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def feed(self, delta: Text | Reasoning) -> tuple[Text | Reasoning | Discard, ...]:
        """Return what may be handed out now, and what is taken back."""
        if isinstance(delta, Reasoning):
            return (delta,)
        visible, reasoning = self._think.feed(delta.text)
        taken_back = self._take_back() if self._think.takes_back else ()
        new = self._new_of(self._without_seed(visible))
        return taken_back + self._hand_out(delta, new, reasoning)

    def close(self) -> tuple[Text | Reasoning | Discard, ...]:
        """Return what was held back and what is taken back; the reply has ended."""
        visible, reasoning = self._think.close()
        taken_back = self._take_back() if self._think.takes_back else ()
        if self._seed is not None:
            visible = self._seed.feed(visible) + self._seed.close()
        if self._seam is not None:
            visible = self._seam.feed(visible) + self._seam.close()
        return taken_back + self._hand_out(Text(""), visible, reasoning)

    def _take_back(self) -> tuple[Discard, ...]:
        shown = self.delivered
        self._begin()
        return (Discard(shown),) if shown else ()

    def _hand_out(self, delta: Text, visible: str, reasoning: str) -> tuple[Text | Reasoning, ...]:
        if not visible:
            return (Reasoning(reasoning),) if reasoning else ()
        self._pieces.append(visible)
        if reasoning:
            return (Reasoning(reasoning), Text(visible))
        if visible is delta.text:
            return (delta,)  # as nearly always
        return (Text(visible),)


class TextWatch(_Deltas):
    """Follow the deltas of one attempt until they hold enough visible text to continue from."""

    __slots__ = ("_has_new", "_letters")

    def _begin(self) -> None:
        super()._begin()
        self._letters = 0
        self._has_new = False

    def has_text(self, delta: Text | Reasoning) -> bool:
        """Take a delta and tell whether there is enough text by now; once True, it need not be
        called again.
        """
        if isinstance(delta, Reasoning):
            return False
        visible, _ = self._think.feed(delta.text)
        if self._think.takes_back:
            self._begin()
        visible = self._without_seed(visible)
        self._letters += len(visible.strip())
        self._has_new = self._has_new or not is_blank(self._new_of(visible))
        return self._letters >= MINIMUM_ECHO and self._has_new
