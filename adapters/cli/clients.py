"""How to point each client at the embedded provider, and a summary of its requests, in any protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from rungwise.adapters.gateway.languages import CHAT, language_of
from rungwise.adapters.gateway.languages.language import SpokenLanguage
from rungwise.adapters.provider.playback import ReceivedRequest
from rungwise.adapters.wires.plain.messages import read_message
from rungwise.adapters.wires.registry import WIRES


@frozen
class RequestSummary:
    """Hold what matters of a request."""

    model: str
    messages: list[Any]  # in the form of the protocol
    cap: object
    streams: bool


def pointers(base_url: str, *, of_gateway: bool = False) -> Iterator[str]:
    """Yield a line for each protocol that shows how to point its client at a base URL, which ends in `/v1`.

    Arguments:
        of_gateway: whether only the protocols of the gateway are served there.
    """
    root = base_url.removesuffix("/v1")
    for wire in WIRES.values():
        language = language_of(wire.client_path)
        if language is not None and (isinstance(language, SpokenLanguage) or not of_gateway):
            yield f"{wire.protocol:<17} {wire.client.format(root + wire.client_base)}"


def summary_of(request: ReceivedRequest) -> RequestSummary:
    """Return what matters of a request in any protocol."""
    body, path = request.body, request.path.partition("?")[0]
    language = language_of(path) or CHAT
    parsed, value = language.read_request(path, body, 0), body.get(language.conversation)
    messages = [{"role": "user", "content": value}] if isinstance(value, str) else value
    messages = messages if isinstance(messages, list) else []
    return RequestSummary(parsed.model, messages, language.cap_in(body), parsed.streams)


def text_of(message: object) -> tuple[str, object]:
    """Return the role and the text of a message in any protocol; content without text is returned unchanged."""
    if not isinstance(message, Mapping):
        return "None", None
    role, content = message.get("role"), message.get("content")
    if isinstance(content, str) or not isinstance(role, (str, type(None))):
        return str(role), content
    read = read_message(message)
    text = "".join(each.text or "".join(result.text for result in each.tool_results) for each in read)
    return str(role or message.get("type")), text or content
