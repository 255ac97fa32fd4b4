"""A provider that keeps to what it was asked for: no more output than the cap, and no more input than it was sent.

With such a provider budgets of money and of output tokens hold to the last unit; with any other they cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from rungwise.fsm.call.budget.metering import least_tokens, texts_of
from rungwise.fsm.call.conversation.parts import Message
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.values.usage import Usage

BYTES_A_TOKEN: Final = 4
"""UTF-8 bytes of a token of input: the usual number in English prose."""


def fair_reply(reply: Reply, send: Send) -> Reply:
    """Return a reply with the usage of a fair provider; one that was cut at its cap has used all of it.

    Arguments:
        reply: what the script says.
        send: the request.
    """
    usage = reply.usage
    # Zero would be no report at all: the call then counts the words that came, which no cap has limited.
    output = max(usage.output_tokens, least_tokens(*texts_of(reply)))
    if send.max_tokens is not None:
        output = send.max_tokens if reply.stop_reason == "length" else min(output, send.max_tokens)
    prompt = prompt_tokens(send.messages, send.request)
    fair = Usage(
        prompt,
        output,
        cache_read_tokens=prompt // 2 if usage.cache_read_tokens else 0,
        cache_creation_tokens=prompt - prompt // 2 if usage.cache_creation_tokens else 0,
        reasoning_tokens=min(usage.reasoning_tokens, output),
    )
    return attrs.evolve(reply, usage=fair)


def prompt_tokens(messages: Sequence[PlainMessage | Message], request: Request) -> int:
    """Count the tokens of a prompt as a provider does: by its texts, or by the caller's count where that is known.

    Arguments:
        messages: what was sent.
        request: what the caller asked; its `input_tokens` is right for its own messages, and what follows is counted.
    """
    own, bytes_sent = request.messages, _bytes_of(messages)
    if request.input_tokens is None or list(messages[: len(own)]) != list(own):
        return max(1, (bytes_sent + _bytes_of(request.tools)) // BYTES_A_TOKEN)
    return request.input_tokens + (bytes_sent - _bytes_of(own)) // BYTES_A_TOKEN


def _bytes_of(value: Any) -> int:
    """Count the bytes of every text; what no model reads as text (pictures, roles, ids) is left out."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Message):
        results = [each.text for each in value.tool_results]
        return _bytes_of([value.text, results, [(call.name, call.arguments) for call in value.tool_calls]])
    if isinstance(value, Mapping):
        return sum(_bytes_of(part) for name, part in value.items() if name not in ("role", "type", "id", "image_url"))
    return sum(map(_bytes_of, value)) if isinstance(value, Iterable) else 0
