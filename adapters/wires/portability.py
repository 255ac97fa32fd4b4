"""Make a conversation valid for a protocol, whatever its form and whoever answered in it.

Theory
------

**What may go where.** A conversation is written for one server, and a fallback sends it to another
one. Four kinds of things are in it:

* Text, media, tool calls and their results go anywhere, in the form of the protocol.
* Reasoning goes back to its own provider as it is, with its signature. Any other provider would
  reject the signature, so its reasoning stays here; only a protocol that keeps readable reasoning
  (`Rules.keeps_reasoning`) gets the text.
* Opaque blocks, such as encrypted reasoning and tools that a provider ran, go back to their
  provider as they are. Any other gets what can be read in them, as text and media (`readable`).
* Citations go back to their provider. For any other, the text that they support says it all.

A part knows its provider: protocol, host and model (`HttpLink.provider`), since the same model on
another host may reject the signature. A part whose provider is unknown belongs to nobody.

**Two ways.** Messages in the form of the protocol itself go out byte for byte, because nobody knows
better than the caller what a server takes, and a prompt cache needs the same bytes each time
(`is_own`, `_is_settled`). That holds unless they may be another server's (`is_portable`): then they
must be without members that only some servers take (`fits`). All others are read as neutral parts
(`read_together`) and written anew (`Form.sent_to`). Where the neutral conversation turns out to
need no repair, the caller's own messages go out after all, without signatures.

**Repairs**, each because some server answers 400 without it:

1. `_grouped`: results in a row are one message, each with the name of its tool.
2. `_paired`: each call has exactly one result right after it, and an id that the server accepts and
   no other call has. A result that was not kept gets a stand-in; a result without a call becomes
   words of the user's, so nothing is lost. `pairing.py` says which result belongs to which call.
3. `_with_something`: no blank texts, and no empty turns.
4. `_joined`: turns alternate, where the protocol wants that (`Rules.alternates`).
5. `_mended`: some turn, and a first one of the user's where that must be (`begins_with_user`).

**What holds of the result.** No visible text, call or result is lost, portable parts survive the
way back, and repairing twice changes nothing more: `test_every_form.py` and `test_portability.py`
check this for conversations drawn at random, in every pair of forms.

**Costs.** One pass over the messages if all are settled, as nearly always; else each step is
another pass, linear in the number of parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.wires.form import Form, Rules
from rungwise.adapters.wires.losses import fits
from rungwise.adapters.wires.pairing import AnyMessage, Results, answered, is_own_call, stand_in
from rungwise.adapters.wires.plain.messages import read_messages, read_together, readable
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
    CitationPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
)
from rungwise.fsm.replies.text.contents import is_blank

NO_TEXT: Final = "(nothing was said)"
"""The text of a user turn that would be empty otherwise."""
BEGINNING: Final = "(the conversation begins with the answer to something that was not kept)"


def written(
    messages: Sequence[AnyMessage],
    form: Form,
    provider: str,
    *,
    is_portable: bool,
    rules: Rules | None = None,
) -> list[PlainMessage]:
    """Return a conversation in the form of a protocol; the theory above says what goes out how.

    Arguments:
        messages: the conversation, in any forms.
        form: the form of the protocol.
        provider: whose own parts may go out; "" is nobody's.
        is_portable: whether messages may hold another provider's own parts.
        rules: the rules of the server; None is those of the form.
    """
    rules = rules or form.rules
    if not is_portable and all(_is_settled(message, form, provider) for message in messages):
        return _all_as_they_are(answered(messages, form), form, provider)
    neutral: list[Message] = []
    origins: dict[int, list[PlainMessage]] = {}  # by the identity of a neutral message
    for message, plains in _read(messages, form, is_portable=is_portable):
        own = _without_foreign(message, provider, rules)
        neutral.append(own)
        if plains is not None:
            origins[id(own)] = plains
    grouped = _grouped(neutral)
    sound = _mended(grouped, rules, provider)
    if sound == grouped and _all_fit(messages, form, is_portable=is_portable):
        # Only the signatures were wrong: everything else of the caller's messages is sent.
        unsigned: list[AnyMessage] = []
        for one in messages:
            if isinstance(one, Message):
                unsigned.append(_without_foreign(one, provider, rules))
            else:
                unsigned.append(form.unsigned(one) if is_portable else one)
        return _all_as_they_are(unsigned, form, provider)
    result: list[PlainMessage] = []
    for message in sound:
        result += origins.get(id(message)) or form.sent_to(provider, message)
    return result


def _is_settled(message: AnyMessage, form: Form, provider: str) -> bool:
    """Tell whether a message can be sent unchanged.

    Then nothing in it belongs to another protocol or provider.
    """
    if not isinstance(message, Message):
        return form.is_own(message)
    return all(getattr(part, "provider", provider) == provider for part in message.parts)


def _all_as_they_are(
    messages: Iterable[AnyMessage], form: Form, provider: str
) -> list[PlainMessage]:
    """Write neutral messages, and leave plain ones as they are."""
    result: list[PlainMessage] = []
    for message in messages:
        if isinstance(message, Message):
            result += form.sent_to(provider, message)
        else:
            result.append(message)
    return result


def _all_fit(messages: Iterable[AnyMessage], form: Form, *, is_portable: bool) -> bool:
    for message in messages:
        if not isinstance(message, Message) and not fits(message, form, is_portable=is_portable):
            return False
    return True


def _read(
    messages: Iterable[AnyMessage], form: Form, *, is_portable: bool
) -> Iterator[tuple[Message, list[PlainMessage] | None]]:
    """Yield messages in neutral parts, each with the equivalent plain messages of this form.

    None if there are no equivalent ones.
    """
    for group, read in read_together(messages):
        plains: list[PlainMessage] = []
        for one in group:
            if not isinstance(one, Message) and fits(one, form, is_portable=is_portable):
                plains.append(form.unsigned(one) if is_portable else one)
        if len(read) == 1 and len(plains) == len(group):
            yield read[0], plains
        else:
            for message in read:
                yield message, None


def portable(
    messages: Sequence[AnyMessage],
    rules: Rules,
    provider: str,
) -> tuple[Message, ...]:
    """Return a conversation in neutral parts that obeys the rules of a protocol."""
    neutral = [_without_foreign(message, provider, rules) for message in read_messages(messages)]
    return _mended(_grouped(neutral), rules, provider)


# what is another provider's


def _without_foreign(message: Message, provider: str, rules: Rules) -> Message:
    """Return a message without what only another provider can read; itself if that is nothing."""
    parts: list[Part] = []
    for part in message.parts:
        parts += _own(part, provider, rules)
    if tuple(parts) == message.parts:
        return message
    return Message(message.role, parts)


def _own(part: Part, provider: str, rules: Rules) -> Iterator[Part]:
    """Yield what of a part may go to a provider."""
    if isinstance(part, OpaquePart | CitationPart):
        if part.provider == provider and provider:
            yield part
        elif part.provider and isinstance(part, OpaquePart):
            yield from readable(part.block)
    elif isinstance(part, ReasoningPart) and (part.provider != provider or not provider):
        if rules.keeps_reasoning and part.text:
            yield ReasoningPart(part.text)
    else:
        yield part


# what belongs together


def _grouped(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Put consecutive tool results into one message, each with the name of its tool."""
    grouped: list[Message] = []
    names: dict[str, str] = {}  # of tools, by the ids of their calls
    for is_tool, row in groupby(messages, lambda message: message.role == "tool"):
        if not is_tool:
            for message in row:
                names |= {call.id: call.name for call in message.tool_calls}
                grouped.append(message)
            continue
        results = []
        for message in row:
            for result in message.tool_results:
                name = result.name or names.get(result.id, "")
                results.append(_same(result, name=name))
        grouped.append(Message("tool", results))
    return tuple(grouped)


def _mended(
    messages: Sequence[Message],
    rules: Rules,
    provider: str,
) -> tuple[Message, ...]:
    """Return grouped messages that obey the rules."""
    paired = _paired(messages, _Ids(rules, provider))
    joined = _joined([one for one in map(_with_something, paired) if one is not None], rules)
    first = 0  # the place of the first turn
    while first < len(joined) and joined[first].role == "system":
        first += 1
    if first == len(joined):
        joined.insert(first, Message.saying("user", NO_TEXT))
    elif rules.begins_with_user and joined[first].role != "user":
        joined.insert(first, Message.saying("user", BEGINNING))
    return tuple(joined)


@define(eq=False)
class _Ids:
    """Give each tool call a unique id that the protocol accepts."""

    rules: Rules
    provider: str
    _taken: set[str] = field(factory=set, init=False)

    def of(self, call: ToolCall) -> str:
        """Return the call's own id if possible, else one that depends on nothing but the calls.

        So a conversation gets the same ids each time it is sent, and a prompt cache still fits.
        """
        id = call.id
        is_own = self.rules.takes_own_ids and bool(id) and is_own_call(call, self.provider)
        turn = 0
        while id in self._taken or not (is_own or self.rules.call_id.fullmatch(id)):
            seed = f"{len(self._taken)} {turn} {call.id}"
            digest = sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
            id = digest[: self.rules.id_length]
            turn = turn + 1
        self._taken.add(id)
        return id


def _paired(messages: Sequence[Message], ids: _Ids) -> list[Message]:
    """Put the results of each message's tool calls right after it.

    Results without a call become user messages.
    """
    results = Results.of(messages)
    # All calls take their results first: what is left belongs to none.
    taken = {}
    for place, message in enumerate(messages):
        for call in message.tool_calls:
            taken[id(call), place] = results.take(call, place)
    paired: list[Message] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            for result in results.unmatched_at(place):
                tool = f" {result.name}" if result.name else ""
                words = f"The tool{tool} returned: {result.text or NO_TEXT}"
                paired.append(Message("user", (TextPart(words), *result.media)))
            continue
        if not message.tool_calls:
            paired.append(message)
            continue
        parts: list[Part] = []
        answers = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                answer = taken[id(part), place] or stand_in(part)
                part = _same(part, id=ids.of(part))
                answers.append(_same(answer, id=part.id, name=answer.name or part.name))
            parts.append(part)
        if any(one is not other for one, other in zip(parts, message.parts, strict=True)):
            message = Message(message.role, parts)
        paired += [message, Message("tool", answers)]
    return paired


def _same(value: Any, **changes: Any) -> Any:
    """Return a value with these changes; the value itself if nothing changes."""
    if all(getattr(value, name) == each for name, each in changes.items()):
        return value
    return evolve(value, **changes)


def _with_something(message: Message) -> Message | None:
    """Return a message without blank texts, or None if nothing remains.

    A blank text right after a provider's own part stays: that part may be its signature, and would
    sign the next part.
    """
    if message.role == "tool":
        return message
    parts: list[Part] = []
    before: Part | None = None
    for part in message.parts:
        is_signed = isinstance(before, OpaquePart) or (
            isinstance(before, ReasoningPart) and bool(before.provider)
        )
        if is_signed or not (isinstance(part, TextPart) and is_blank(part.text)):
            parts.append(part)
        before = part
    if len(parts) == len(message.parts) and parts:
        return message
    if parts:
        return Message(message.role, parts)
    return Message.saying("user", NO_TEXT) if message.role == "user" else None


def _joined(messages: Sequence[Message], rules: Rules) -> list[Message]:
    """Join turns of one role in a row, where the protocol wants turns to alternate."""
    if not rules.alternates:
        return [*messages]
    joined: list[Message] = []
    for role, row in groupby(messages, lambda message: message.role):
        group = [*row]
        if len(group) > 1 and role in ("user", "assistant"):
            parts = [part for message in group for part in message.parts]
            group = [Message(role, parts)]
        joined += group
    return joined
