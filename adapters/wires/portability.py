"""Make a conversation valid for a protocol, whatever form it has and whichever models answered in
it.

No visible text, tool call or result is lost on the way, and portable parts survive the way back.
What only a provider can read stays with that provider.
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
    """Return a conversation in the form of a protocol.

    Messages in that form are sent unchanged, with a stand-in after each unanswered tool call.
    Messages in other forms, or that may hold another provider's own parts (`is_portable`), are made
    portable first.
    """
    rules = rules or form.rules
    if not is_portable and all(_is_settled(message, form, provider) for message in messages):
        return [each for one in answered(messages, form) for each in _as_it_is(one, form, provider)]
    neutral: list[Message] = []
    origins: dict[int, list[PlainMessage]] = {}
    for message, plains in _read(messages, form, is_portable=is_portable):
        neutral.append(_without_foreign(message, provider, rules))
        if plains is not None:
            origins[id(neutral[-1])] = plains
    plain = _grouped(neutral)
    sound = _mended(plain, rules, provider)
    if sound == plain and all(
        isinstance(one, Message) or fits(one, form, is_portable=is_portable) for one in messages
    ):
        # Only the signatures were wrong: everything else of the caller's messages is sent.
        kept = [
            _without_foreign(one, provider, rules)
            if isinstance(one, Message)
            else (form.unsigned(one) if is_portable else one)
            for one in messages
        ]
        return [each for one in kept for each in _as_it_is(one, form, provider)]
    return [each for one in sound for each in origins.get(id(one)) or form.sent_to(provider, one)]


def _is_settled(message: AnyMessage, form: Form, provider: str) -> bool:
    """Tell whether a message can be sent unchanged: nothing in it belongs to another protocol or
    provider.
    """
    if not isinstance(message, Message):
        return form.is_own(message)
    return all(getattr(part, "provider", provider) == provider for part in message.parts)


def _as_it_is(message: AnyMessage, form: Form, provider: str) -> Sequence[PlainMessage]:
    return form.sent_to(provider, message) if isinstance(message, Message) else (message,)


def _read(
    messages: Iterable[AnyMessage], form: Form, *, is_portable: bool
) -> Iterator[tuple[Message, list[PlainMessage] | None]]:
    """Yield messages in neutral parts, each with the equivalent plain messages of this form, if
    there are any.
    """
    for group, read in read_together(messages):
        plains = [
            one
            for one in group
            if not isinstance(one, Message) and fits(one, form, is_portable=is_portable)
        ]
        if len(read) == 1 and len(plains) == len(group):
            yield read[0], [form.unsigned(one) for one in plains] if is_portable else plains
        else:
            yield from ((one, None) for one in read)


def portable(messages: Sequence[AnyMessage], rules: Rules, provider: str) -> tuple[Message, ...]:
    """Return a conversation in neutral parts that obeys the rules of a protocol."""
    neutral = [_without_foreign(message, provider, rules) for message in read_messages(messages)]
    return _mended(_grouped(neutral), rules, provider)


# what is another provider's


def _without_foreign(message: Message, provider: str, rules: Rules) -> Message:
    parts = tuple([own_part for part in message.parts for own_part in _own(part, provider, rules)])
    return message if parts == message.parts else Message(message.role, parts)


def _own(part: Part, provider: str, rules: Rules) -> Iterator[Part]:
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
    names: dict[str, str] = {}
    for is_tool, row in groupby(messages, lambda message: message.role == "tool"):
        if is_tool:
            results = [result for message in row for result in message.tool_results]
            grouped.append(
                Message(
                    "tool",
                    [_same(each, name=each.name or names.get(each.id, "")) for each in results],
                )
            )
            continue
        for message in row:
            names |= {call.id: call.name for call in message.tool_calls}
            grouped.append(message)
    return tuple(grouped)


def _mended(messages: Sequence[Message], rules: Rules, provider: str) -> tuple[Message, ...]:
    paired = _paired(messages, _Ids(rules, provider))
    joined = _joined([one for one in map(_with_something, paired) if one is not None], rules)
    first = next(
        (index for index, message in enumerate(joined) if message.role != "system"), len(joined)
    )
    if first == len(joined) or (rules.begins_with_user and joined[first].role != "user"):
        joined.insert(first, Message.saying("user", BEGINNING if first < len(joined) else NO_TEXT))
    return tuple(joined)


@define(eq=False)
class _Ids:
    """Give each tool call a unique id that the protocol accepts."""

    rules: Rules
    provider: str
    _taken: set[str] = field(factory=set, init=False)

    def of(self, call: ToolCall) -> str:
        """Return the call's own id if possible."""
        id = call.id
        turn = 0
        is_own = self.rules.takes_own_ids and bool(id) and is_own_call(call, self.provider)
        while id in self._taken or not (is_own or self.rules.call_id.fullmatch(id)):
            digest = sha256(
                f"{len(self._taken)} {turn} {call.id}".encode("utf-8", "surrogatepass")
            ).hexdigest()
            id = digest[: self.rules.id_length]
            turn = turn + 1
        self._taken.add(id)
        return id


def _paired(messages: Sequence[Message], ids: _Ids) -> list[Message]:
    """Put the results of each message's tool calls right after it; results without a call become
    user messages.
    """
    results = Results.of(messages)
    answers = {}
    for place, message in enumerate(messages):
        for call in message.tool_calls:
            answers[id(call), place] = results.take(call, place)
    paired: list[Message] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            for each in results.unmatched_at(place):
                words = (
                    f"The tool{f' {each.name}' if each.name else ''} returned: "
                    f"{each.text or NO_TEXT}"
                )
                paired.append(Message("user", (TextPart(words), *each.media)))
        elif not message.tool_calls:
            paired.append(message)
        else:
            parts = []
            results_here = []
            for part in message.parts:
                if isinstance(part, ToolCall):
                    result = answers[id(part), place] or stand_in(part)
                    part = _same(part, id=ids.of(part))
                    results_here.append(_same(result, id=part.id, name=result.name or part.name))
                parts.append(part)
            same = all(one is other for one, other in zip(parts, message.parts, strict=True))
            paired += [
                message if same else Message(message.role, parts),
                Message("tool", results_here),
            ]
    return paired


def _same(value: Any, **changes: Any) -> Any:
    """Return a value with these changes; the value itself if nothing changes."""
    return (
        value
        if all(getattr(value, name) == each for name, each in changes.items())
        else evolve(value, **changes)
    )


def _with_something(message: Message) -> Message | None:
    """Return a message without blank texts, or None if nothing remains.

    A blank text right after a provider's own part stays: that part may be its signature, and would
    sign the next part.
    """
    if message.role == "tool":
        return message
    parts = [
        part
        for part, before in zip(message.parts, (None, *message.parts), strict=False)
        if not (isinstance(part, TextPart) and is_blank(part.text))
        or isinstance(before, OpaquePart)
        or (isinstance(before, ReasoningPart) and before.provider)
    ]
    if parts:
        return message if len(parts) == len(message.parts) else Message(message.role, parts)
    return Message.saying("user", NO_TEXT) if message.role == "user" else None


def _joined(messages: Sequence[Message], rules: Rules) -> list[Message]:
    if not rules.alternates:
        return [*messages]
    joined: list[Message] = []
    for role, row in groupby(messages, lambda message: message.role):
        group = [*row]
        if len(group) > 1 and role in ("user", "assistant"):
            group = [Message(role, [part for message in group for part in message.parts])]
        joined += group
    return joined
