"""Where each client must be pointed to reach the embedded provider, and what it has asked there, in any protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

if TYPE_CHECKING:
    from rungwise.adapters.provider.playback import ReceivedRequest


@frozen
class OfficialClient:
    """Say how a provider's own client is pointed at a server.

    Arguments:
        protocol: what it speaks.
        api: the name of that protocol at the command line.
        base: the path of its base URL.
        path: the path of a request that it makes.
        made: how it is made, with a place for the URL.
    """

    protocol: str
    api: str
    base: str
    path: str
    made: str


CLIENTS: Final = (
    OfficialClient("chat completions", "openai", "/v1", "/v1/chat/completions", "openai.OpenAI(base_url={!r})"),
    OfficialClient("Responses", "responses", "/v1", "/v1/responses", "openai.OpenAI(base_url={!r})"),
    OfficialClient("Messages", "anthropic", "", "/v1/messages", "anthropic.Anthropic(base_url={!r})"),
    OfficialClient(
        "generateContent",
        "gemini",
        "",
        "/v1beta/models/any:generateContent",
        "google.genai.Client(http_options={{'base_url': {!r}}})",
    ),
    OfficialClient("Ollama's chat", "ollama", "", "/api/chat", "ollama.Client(host={!r})"),
    OfficialClient(
        "Converse", "bedrock", "", "/model/any/converse", "boto3.client('bedrock-runtime', endpoint_url={!r})"
    ),
)
"""The clients of providers, one for each protocol."""

_CAPS: Final = frozenset(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict", "maxTokens"}
)
_HOLD_CAPS: Final = ("generationConfig", "options", "inferenceConfig")


@frozen
class Asked:
    """Hold what matters of a request.

    Arguments:
        model: the model.
        messages: the messages, in the form of the protocol.
        cap: the output cap in tokens, None where there is none.
        streams: whether the reply is to be streamed.
    """

    model: str
    messages: list[Any]
    cap: object
    streams: bool


def pointers(base_url: str) -> Iterator[str]:
    """Say in a line each which protocols a provider speaks, and how the client of each is pointed at it.

    Arguments:
        base_url: that of the provider, which ends in `/v1`.
    """
    from rungwise.adapters.provider.languages.registry import language_of

    root = base_url.removesuffix("/v1")
    for client in CLIENTS:
        if language_of(client.path) is not None:
            yield f"{client.protocol:<17} {client.made.format(root + client.base)}"


def asked_in(request: ReceivedRequest) -> Asked:
    """Return what matters of a request in any protocol."""
    from rungwise.adapters.provider.languages.registry import language_of

    body, path = request.body, request.path.partition("?")[0]
    language = language_of(path)
    asked = None if language is None else language.asked(path, body, 0)
    found: Any = next((body[name] for name in ("messages", "contents", "input") if name in body), [])
    messages = [{"role": "user", "content": found}] if isinstance(found, str) else found
    places = [body, *[place for name in _HOLD_CAPS if isinstance(place := body.get(name), Mapping)]]
    cap = next((place[name] for place in places for name in place if name in _CAPS), None)
    model, streams = (body.get("model"), False) if asked is None else (asked.model, asked.streams)
    return Asked(str(model), messages if isinstance(messages, list) else [], cap, streams)


def text_of(message: object) -> tuple[str, object]:
    """Return the role of a message in any protocol, and its text; what has no text, as it stands there."""
    from rungwise.adapters.wires.plain.messages import read_message

    if not isinstance(message, Mapping):
        return "None", None
    role, content = message.get("role"), message.get("content")
    if isinstance(content, str) or not isinstance(role, (str, type(None))):
        return str(role), content
    read = read_message(message)
    said = "".join(each.text or "".join(result.text for result in each.tool_results) for each in read)
    return str(role or message.get("type")), said or content
