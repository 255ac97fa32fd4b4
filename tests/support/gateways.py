"""Chains behind the official SDKs: a transport over scripted servers, and what no request to them may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rungwise import Client, Policy, Transport
from rungwise.testing import ReceivedRequest
from support import protocols, sdks
from support.modes import waits_into
from support.runs import NAMES, Scripted, Stage

TOOL_PARAMETERS: Final = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
    "additionalProperties": False,
}
TOOLS: Final[dict[str, list[Any]]] = {
    "openai": [
        {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": TOOL_PARAMETERS}}
    ],
    "responses": [
        {"type": "function", "name": "look", "description": "Look.", "parameters": TOOL_PARAMETERS, "strict": True}
    ],
    "anthropic": [{"name": "look", "description": "Look.", "input_schema": TOOL_PARAMETERS}],
    "gemini": [
        {
            "function_declarations": [
                {"name": "look", "description": "Look.", "parameters_json_schema": TOOL_PARAMETERS}
            ]
        }
    ],
}
"""The same tool in the form of each SDK."""


def backends(apis: Sequence[str], stages: Sequence[Stage], **options: Any) -> list[Any]:
    """Return a chain over scripted servers."""
    return [
        protocols.backend(api, stage.provider.base_url, model=f"model-{number}", name=NAMES[number], **options)
        for number, (api, stage) in enumerate(zip(apis, stages, strict=False))
    ]


def client_over(apis: Sequence[str], stages: Sequence[Stage], **options: Any) -> Client:
    """Return a client that waits for nothing."""
    options.setdefault("policy", Policy())
    return Client(backends(apis, stages), **{**waits_into([]), **options})


@contextmanager
def chained(
    stages: Sequence[Stage], *links: tuple[str, Sequence[Scripted]], hold: bool = False, **options: Any
) -> Iterator[Transport]:
    """Play a script at each backend of a chain, and yield a transport to it; check what the servers were sent.

    Arguments:
        links: the protocol of each backend, and its script.
        hold: of the transport.
        options: for the client.
    """
    used = list(stages[: len(links)])
    for stage, (_, script) in zip(used, links, strict=True):
        stage.play(script)
    with client_over([api for api, _ in links], used, **options) as client:
        yield Transport(client, hold=hold)
    for request in (each for stage in used for each in stage.requests):
        no_secret_in(request)


def no_secret_in(request: ReceivedRequest) -> None:
    """Check that the program's key is nowhere in a request to a backend, and the backend's own is."""
    shown = json.dumps([request.path, dict(request.headers), request.body])
    assert sdks.KEY not in shown
    is_signed = "/converse" in request.path
    assert is_signed or protocols.KEY in json.dumps(dict(request.headers))


